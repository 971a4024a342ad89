// SPDX-License-Identifier: Apache-2.0

package guestlog

import (
	"fmt"
	"strings"

	"patchcheck/checks"
)

var moreRules = []checks.Rule{
	{ID: "guest.mount", Severity: checks.Error, Title: "an NFS mount was refused", Source: "nfs-utils, mount.nfs(8), nfs(5)", Fix: "see the reason"},
	{ID: "guest.portlist", Severity: checks.Error, Title: "nfsd does not listen where the client will ask", Source: "/proc/fs/nfsd/portlist, fs/nfsd/nfsctl.c", Fix: "write \"rdma 20049\" to /proc/fs/nfsd/portlist after the threads started"},
}

// MountTry is what is known about a mount that failed. Facts that were not
// read stay nil or empty and are not blamed.
type MountTry struct {
	Output         string   // what mount.nfs printed
	Version        string   // "3", "4.0", "4.1", "4.2"
	Proto          string   // "rdma", "tcp"; "" not known
	Port           int      // asked for, 0 default
	ClientModule   *bool    // the client's transport (xprtrdma) is loaded or built in
	Portlist       []string // lines of the server's /proc/fs/nfsd/portlist; nil not read
	ServerVersions string   // the server's /proc/fs/nfsd/versions: "+3 -4.0 +4.1"; "" not read
}

// DiagnoseMount says why a mount failed. mount.nfs prints "Protocol not
// supported" or "Protocol error" for three different causes, none of which
// sends a packet; they are told apart by the facts. ok is false when the
// output shows no failure.
func DiagnoseMount(t MountTry) (d Diagnosis, ok bool) {
	d = Diagnosis{ID: "guest.mount", Class: Setup, Count: 1}
	for _, l := range strings.Split(strings.TrimSpace(t.Output), "\n") {
		if strings.TrimSpace(l) != "" {
			d.Evidence = append(d.Evidence, clean(l))
		}
	}
	out := t.Output
	has := func(s string) bool { return strings.Contains(out, s) }
	vague := has("Protocol not supported") || has("Protocol error") || has("Protocol family not supported") ||
		has("requested NFS version or transport protocol is not supported") || has("Connection refused") || has("No route to host") || has("an incorrect mount option was specified") || has("Network is unreachable")
	switch {
	case has("rpc.statd is not running"):
		d.ID = "guest.statd"
		d.Message = "an NFSv3 mount with locks needs rpc.statd, which does not run"
		d.Hint = "mount with nolock, or start rpc.statd"
		return d, true
	case has("unknown filesystem type 'nfs"), has("No such device"):
		d.Message = "the client's kernel has no NFS client"
		d.Hint = "set CONFIG_NFS_FS, and CONFIG_NFS_V3 and CONFIG_NFS_V4 for the versions"
		return d, true
	case has("access denied by server"), has("Permission denied"), has("Operation not permitted"):
		d.Message = "the server's exports do not allow this client"
		d.Hint = "check exportfs -v; an NFS client in the same guest comes from the server's own address and may use a high port (insecure)"
		return d, true
	case has("No such file or directory"), has("mounting ") && has("failed, reason given by server: No such file"):
		d.Message = "the server has no such export"
		d.Hint = "with fsid=0, NFSv4 mounts / of the pseudo root and NFSv3 the full path"
		return d, true
	case vague:
	case has("Connection timed out"), has("mount system call failed"), has("Connection reset"):
		if !probe(t, &d) {
			d.Class = Transport
			d.Message = "the server accepted nothing in time, though listener, version and client module are right as far as known"
			d.Hint = "run the cell on the base kernel; look at the server's console"
			if t.Proto == "rdma" {
				d.Hint += "; RoCE needs udp/4791 open in both directions (nft list ruleset)"
			}
		}
		return d, true
	case has("mount.nfs"), has("mount: "):
		d.Message = "the mount failed: " + first(d.Evidence)
		d.Hint = "read mount.nfs(8) for the message"
		return d, true
	default:
		return Diagnosis{}, false
	}
	if !probe(t, &d) {
		switch unread := unread(t); {
		case unread != "":
			d.Message = "the mount was refused before a packet was sent, and the cause cannot be told: not read: " + unread
			d.Hint = "look there: on the client, lsmod | grep rpcrdma; on the server, cat /proc/fs/nfsd/portlist /proc/fs/nfsd/versions"
		default:
			d.Class = Transport
			d.Message = fmt.Sprintf("client module, server portlist and versions allow %s over %s, yet the mount was refused", version(t), t.Proto)
			d.Hint = "the kernel under test refused it: look at its log, and run the cell on the base kernel"
		}
	}
	return d, true
}

// probe applies the decision table: client module, then portlist, then
// version. It reports whether one of them explains the failure.
func probe(t MountTry, d *Diagnosis) bool {
	if t.Proto == "rdma" && t.ClientModule != nil && !*t.ClientModule {
		d.Message = "client module: the client's kernel has no RPC-over-RDMA transport"
		d.Hint = "set CONFIG_SUNRPC_XPRT_RDMA, or load the module rpcrdma (old name xprtrdma), before mounting"
		return true
	}
	if t.Portlist != nil {
		if f, bad := CheckPortlist(t.Portlist, t.Proto, t.Port); bad {
			d.ID = "guest.portlist"
			d.Message = "server portlist: " + f
			d.Hint = fmt.Sprintf("write \"%s %d\" to /proc/fs/nfsd/portlist after the threads started, and load the server's transport module", t.Proto, port(t.Proto, t.Port))
			return true
		}
	}
	if t.ServerVersions != "" && t.Version != "" && !serves(t.ServerVersions, t.Version) {
		d.Message = fmt.Sprintf("version: the server does not serve %s (it has %s)", version(t), clean(strings.TrimSpace(t.ServerVersions)))
		d.Hint = "build the server with that version and switch it on in /proc/fs/nfsd/versions before the threads start"
		return true
	}
	return false
}

func version(t MountTry) string { return "NFSv" + t.Version }

func unread(t MountTry) string {
	var u []string
	if (t.Proto == "rdma" || t.Proto == "") && t.ClientModule == nil {
		u = append(u, "client module")
	}
	if t.Portlist == nil {
		u = append(u, "server portlist")
	}
	if t.ServerVersions == "" {
		u = append(u, "server versions")
	}
	return strings.Join(u, ", ")
}

func first(s []string) string {
	if len(s) == 0 {
		return "no output"
	}
	return s[0]
}

func port(proto string, p int) int {
	switch {
	case p != 0:
		return p
	case proto == "rdma":
		return 20049 // IANA nfsrdma
	}
	return 2049
}

// CheckPortlist reads lines of /proc/fs/nfsd/portlist ("rdma 20049") and says
// what is wrong with them for a client that will ask for proto and port (0 is
// the default). One line for each address family is normal.
func CheckPortlist(lines []string, proto string, p int) (wrong string, bad bool) {
	want := port(proto, p)
	var other []string
	n := 0
	for _, l := range lines {
		f := strings.Fields(l)
		if len(f) < 2 || f[0] != proto {
			continue
		}
		if f[1] == fmt.Sprint(want) {
			n++
		} else {
			other = append(other, f[1])
		}
	}
	switch {
	case n == 0 && other != nil:
		return fmt.Sprintf("nfsd listens for %s on port %s, not on %d", proto, clean(strings.Join(other, ", ")), want), true
	case n == 0:
		return fmt.Sprintf("nfsd has no %s listener (%d wanted)", proto, want), true
	case n > 2:
		return fmt.Sprintf("nfsd lists %s %d %d times", proto, want, n), true
	}
	return "", false
}

// serves tells whether /proc/fs/nfsd/versions switches a version on. "+4"
// stands for all minor versions that no own entry switches off.
func serves(versions, want string) bool {
	major, _, _ := strings.Cut(want, ".")
	on := false
	for _, v := range strings.Fields(versions) {
		if len(v) < 2 {
			continue
		}
		switch v[1:] {
		case want:
			return v[0] == '+'
		case major:
			on = v[0] == '+'
		}
	}
	return on
}
