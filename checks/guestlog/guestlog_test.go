// SPDX-License-Identifier: Apache-2.0

package guestlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/internal/sharedtest"
)

func TestScan(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     string // "ID CLASS count over seconds" joined by "; "
	}{
		{"nothing", "[    1.0] eth0: link up\n", ""},
		{"completion flood is folded", strings.Repeat("[  33.1] rpcrdma: Recv: local length error (1/0xd7)\n", 400), "guest.rpcrdma-completion TRANSPORT_ERROR 400"},
		{"two kinds of completion stay apart", "rpcrdma: Recv: local length error (1/0xd7)\nrpcrdma: FastReg: memory management operation error (6/0x78)\n", "guest.rpcrdma-completion TRANSPORT_ERROR 1; guest.rpcrdma-completion TRANSPORT_ERROR 1"},
		{"server answers again", "[ 100.000000] nfs: server 192.0.2.1 not responding, still trying\n[ 130.500000] nfs: server 192.0.2.1 OK\n", "guest.nfs-not-responding NFS_STALL 1 over 30.5"},
		{"another server answers", "[ 100.0] nfs: server a not responding, timed out\n[ 130.0] nfs: server b OK\n", "guest.nfs-not-responding NFS_STALL 1 30"},
		{"grace period of known length", "[  10.000000] NFSD: starting 90-second grace period (net f0000098)\n[ 100.250000] NFSD: end of grace period\n", "guest.nfsd-grace SETUP 1 over 90.25"},
		{"grace period not over", "[  10.0] NFSD: starting 90-second grace period (net f0000098)\n[  40.0] x\n", "guest.nfsd-grace SETUP 1 30"},
		{"grace ended by clients", "[  10.0] NFSD: starting 10-second grace period (net f)\n[  11.0] NFSD: all clients done reclaiming, ending NFSv4 grace period (net f)\n", "guest.nfsd-grace SETUP 1 over 1"},
		{"no nfsdcld", "[  30.1] NFSD: Unable to initialize client recovery tracking! (-110)\n", "guest.nfsd-tracking SETUP 1"},
		{"statd", "mount.nfs: rpc.statd is not running but is required for remote locking.\n", "guest.statd SETUP 1"},
		{"old rdma tool", "Unknown parameter \"add\".\n", "guest.rdma-link-add SETUP 1"},
		{"no module", "modprobe: FATAL: Module rdma_rxe not found in directory /lib/modules/7.3.4\n", "guest.module SETUP 1"},
		{"out of memory", "[ 61.7] fio invoked oom-killer: gfp_mask=0x140cca\n[ 61.8] Out of memory: Killed process 412 (fio) total-vm:812340kB\n", "guest.oom GUEST_OOM 1"},
		{"out of memory, nothing killed yet", "[ 61.7] fio invoked oom-killer: gfp_mask=0x140cca\n", "guest.oom-invoked GUEST_OOM 1"},
		{"guest full", "dd: writing '/x': No space left on device\n", "guest.full GUEST_FULL 1"},
		{"kvm broken", "qemu-system-x86_64: failed to initialize kvm: Permission denied\nqemu-system-x86_64: falling back to tcg\n", "host.kvm ACCEL_BROKEN 1; host.tcg-fallback ACCEL_BROKEN 1"},
		{"kvm dies later", "KVM internal error. Suberror: 1\n", "host.kvm ACCEL_BROKEN 1"},
		{"port taken", "qemu-system-x86_64: -netdev user,hostfwd=tcp::2222-:22: Could not set up host forwarding rule 'tcp::2222-:22'\n", "host.hostfwd HARNESS_ERROR 1"},
		{"no kernel image", "qemu-system-x86_64: could not load kernel 'bzImage': No such file or directory\n", "host.qemu HARNESS_ERROR 1"},
		{"unknown device", "qemu-system-x86_64: -device nope: 'nope' is not a valid device model name\n", "host.qemu HARNESS_ERROR 1"},
		{"clock skew", "make[2]: Warning: File 'a' has modification time 3194 s in the future\nmake: warning:  Clock skew detected.  Your build may be incomplete.\n", "host.clock-skew CLOCK_SKEW 2"},
		{"a failed boot belongs to package console", "[ 0.8] Kernel panic - not syncing: Requested init /sbin/x failed (error -2).\n", ""},
		{"a mount, one reason in two lines", "mount.nfs: Protocol not supported\nmount.nfs: requested NFS version or transport protocol is not supported for /m\n$ ls\n", "guest.mount SETUP 1"},
		{"two mounts with one reason", "mount.nfs: Protocol error\n+ mount again\nmount.nfs4: Protocol error\n", "guest.mount SETUP 2"},
		{"a mount that times out", "mount.nfs: Connection timed out\n", "guest.mount TRANSPORT_ERROR 1"},
		{"not NFS", "mount: /mnt: special device /dev/x does not exist.\n", ""},
		{"no 9p", "mount: unknown filesystem type '9p'\n", "guest.9p SETUP 1"},
		{"other file system", "mount: /mnt: unknown filesystem type 'ext4'.\n", "guest.filesystem SETUP 1"},
		{"idmap", "nfsidmap[12]: nss_getpwnam: name 'root@a.example' does not map into domain 'localdomain'\n", "guest.idmap SETUP 1"},
		{"a command that names it", "root@guest:~# grep 'rpc.statd is not running' log\n", ""},
	} {
		ds, err := Scan(strings.NewReader(c.in))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range ds {
			s := fmt.Sprintf("%s %s %d", d.ID, d.Class, d.Count)
			if d.Over {
				s += " over"
			}
			if d.Seconds > 0 {
				s += fmt.Sprintf(" %g", d.Seconds)
			}
			got = append(got, s)
		}
		if g := strings.Join(got, "; "); g != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, g, c.want)
		}
	}
}

func TestFindingAndVerdict(t *testing.T) {
	ds, _ := Scan(strings.NewReader(strings.Repeat("rpcrdma: Recv: local length error (1/0xd7)\n", 3)))
	f := ds[0].Finding()
	if f.Severity != checks.Error || !strings.HasPrefix(f.Message, "TRANSPORT_ERROR: ") || !strings.Contains(f.Message, "3 times") {
		t.Errorf("%+v", f)
	}
	if ds[0].Class.Verdict() != checks.Fail || GuestOOM.Verdict() != checks.Infra {
		t.Error("verdicts")
	}
	for in, want := range map[string]checks.Severity{
		"[  1.0] NFSD: starting 90-second grace period (net f)\n":                                            checks.Error,
		"[  1.0] NFSD: starting 90-second grace period (net f)\n[ 91.0] NFSD: end of grace period (net f)\n": checks.Note,
		"[  1.0] NFSD: starting 10-second grace period (net f)\n":                                            checks.Note,
	} {
		ds, _ := Scan(strings.NewReader(in))
		if f := ds[0].Finding(); f.Severity != want {
			t.Errorf("%q: %s", in, f.Severity)
		}
	}
	seen := map[string]bool{}
	for _, r := range Rules {
		if seen[r.ID] || r.Title == "" || r.Source == "" {
			t.Errorf("rule %+v", r)
		}
		seen[r.ID] = true
	}
}

func yes(b bool) *bool { return &b }

func TestDiagnoseMount(t *testing.T) {
	right := MountTry{Output: "mount.nfs: Protocol not supported\n", Version: "4.1", Proto: "rdma", ClientModule: yes(true), Portlist: []string{"rdma 20049", "rdma 20049", "tcp 2049"}, ServerVersions: "+3 +4 +4.1 +4.2"}
	for _, c := range []struct {
		name  string
		edit  func(*MountTry)
		want  string
		class Class
	}{
		{"client module", func(m *MountTry) { m.ClientModule = yes(false) }, "client module:", Setup},
		{"module before portlist", func(m *MountTry) { m.ClientModule = yes(false); m.Portlist = []string{} }, "client module:", Setup},
		{"portlist empty", func(m *MountTry) { m.Portlist = []string{"tcp 2049"} }, "server portlist: nfsd has no rdma listener", Setup},
		{"other port", func(m *MountTry) { m.Portlist = []string{"rdma 20050"} }, "port 20050, not on 20049", Setup},
		{"version off", func(m *MountTry) { m.ServerVersions = "+3 +4 -4.1 +4.2" }, "version: the server does not serve NFSv4.1", Setup},
		{"version 3 off", func(m *MountTry) { m.Version = "3"; m.ServerVersions = "-3 +4 +4.1" }, "version: the server does not serve NFSv3", Setup},
		{"all right", func(m *MountTry) {}, "yet the mount was refused", Transport},
		{"nothing read", func(m *MountTry) { m.ClientModule, m.Portlist, m.ServerVersions = nil, nil, "" }, "not read: client module, server portlist, server versions", Setup},
		{"protocol error", func(m *MountTry) { m.Output = "mount.nfs: Protocol error\n"; m.Portlist = []string{} }, "server portlist:", Setup},
		{"long form", func(m *MountTry) {
			m.Output = "mount.nfs: requested NFS version or transport protocol is not supported for /mnt\n"
			m.ServerVersions = "+3"
		}, "version:", Setup},
		{"tcp needs no rdma module", func(m *MountTry) { m.Proto = "tcp"; m.ClientModule = yes(false) }, "yet the mount was refused", Transport},
		{"statd", func(m *MountTry) {
			m.Output = "mount.nfs: rpc.statd is not running but is required for remote locking.\nmount.nfs: Either use '-o nolock'\n"
		}, "rpc.statd", Setup},
		{"export", func(m *MountTry) { m.Output = "mount.nfs: access denied by server while mounting h:/x\n" }, "exports", Setup},
		{"time-out", func(m *MountTry) { m.Output = "mount.nfs: Connection timed out\n" }, "accepted nothing in time", Transport},
	} {
		m := right
		c.edit(&m)
		d, ok := DiagnoseMount(m)
		if !ok || !strings.Contains(d.Message, c.want) || d.Class != c.class || d.Hint == "" {
			t.Errorf("%s: %v %+v", c.name, ok, d)
		}
	}
	// A firewall between the two looks like a server that does not answer.
	blocked := right
	blocked.Output = "mount.nfs: Connection timed out\n"
	if d, _ := DiagnoseMount(blocked); !strings.Contains(d.Hint, "udp/4791") {
		t.Errorf("no word of the port: %+v", d)
	}
	blocked.Proto, blocked.ClientModule = "tcp", nil
	if d, _ := DiagnoseMount(blocked); strings.Contains(d.Hint, "4791") {
		t.Errorf("a RoCE port for TCP: %+v", d)
	}
	if _, ok := DiagnoseMount(MountTry{Output: ""}); ok {
		t.Error("no output is no failure")
	}
}

func TestCheckPortlist(t *testing.T) {
	for _, c := range []struct {
		lines string
		proto string
		bad   bool
	}{
		{"rdma 20049\nrdma 20049\ntcp 2049\n", "rdma", false},
		{"rdma 20049", "rdma", false},
		{"tcp 2049\nudp 2049", "rdma", true},
		{"", "rdma", true},
		{"rdma 20049\nrdma 20049\nrdma 20049\nrdma 20049", "rdma", true},
		{"tcp 2049", "tcp", false},
	} {
		if _, bad := CheckPortlist(strings.Split(c.lines, "\n"), c.proto, 0); bad != c.bad {
			t.Errorf("%q: bad %v", c.lines, bad)
		}
	}
}

// The public samples, when they are there.
func TestSamples(t *testing.T) {
	dir := sharedtest.Path(t, "cases", "samples")
	for file, want := range map[string]Class{
		"B51-kvm-broken.log": Accel, "B51-kvm-internal.log": Accel, "B52-hostfwd.log": Harness, "B54-no9p.log": Setup,
		"B56-oom.log": GuestOOM, "B58-skew.log": ClockSkew, "B67-rdma-link-old.txt": Setup, "B74-mount-errors.txt": Setup, "B75-grace.log": Setup, "B76-statd.txt": Setup,
	} {
		f, err := os.Open(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
			continue
		}
		ds, err := Scan(f)
		f.Close()
		if err != nil || len(ds) == 0 || ds[0].Class != want {
			t.Errorf("%s: %+v %v", file, ds, err)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add("[ 1.0] nfs: server a not responding, still trying\n[ 2.0] nfs: server a OK\n")
	f.Add("rpcrdma: Recv: local length error (1/0xd7)\n")
	f.Fuzz(func(t *testing.T, s string) {
		ds, err := Scan(strings.NewReader(s))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			if d.Count < 1 || d.Seconds < 0 || strings.ContainsAny(d.Message, "\x1b\x00") {
				t.Fatalf("%+v", d)
			}
		}
	})
}
