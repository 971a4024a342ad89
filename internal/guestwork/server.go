// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// Places of the NFS server (nfsd(7)) and what its programs want.
const (
	nfsdDir      = "/proc/fs/nfsd"
	pipefsDir    = "/var/lib/nfs/rpc_pipefs"
	cldStorage   = "/var/lib/nfs/nfsdcld"
	etab         = "/var/lib/nfs/etab"
	tcpPort      = 2049
	minNFSv4Time = 10 // seconds; nfsd refuses less
)

// daemonLimit bounds the wait for one server program. An emulated guest with
// a debug kernel needs seconds.
const daemonLimit = 60 * time.Second

// nfsStart serves VerbNFSStart. The order matters: the programs that nfsd asks
// (nfsdcld, mountd) run before the threads start, and versions and times can
// only be set before there is a listener.
func (w *work) nfsStart(ctx context.Context, r *guestproto.NFSStart, log func(string)) (*guestproto.NFSStarted, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := checkStart(r); err != nil {
		return nil, err
	}
	if err := setAddress(r.Netdev, r.Address); err != nil {
		return nil, err
	}
	if err := w.mountServerFS(r); err != nil {
		return nil, err
	}
	if n, _ := w.nfsdInt("threads"); n > 0 {
		return nil, usagef("nfsd runs already, with %d threads", n)
	}
	if err := w.startPrograms(ctx, r.Export, log); err != nil {
		return nil, err
	}
	leases := "0\n"
	if r.Delegations {
		leases = "1\n"
	}
	if err := writeOnce(w.path("/proc/sys/fs/leases-enable"), leases); err != nil {
		return nil, withErrno(setupf("the guest's kernel needs CONFIG_FILE_LOCKING", "cannot switch leases, and so delegations, on or off"), err)
	}
	line, err := w.setVersions(r.Versions)
	if err != nil {
		return nil, err
	}
	// Lease and grace decide how long a first NFSv4 open may wait.
	if strings.Contains(line, "+4") {
		for _, f := range []string{"nfsv4leasetime", "nfsv4gracetime"} {
			if err := w.writeNfsd(f, strconv.Itoa(minNFSv4Time)); err != nil && errnoOf(err) != unix.ENOENT {
				return nil, withErrno(setupf("", "cannot set %s/%s to %d seconds", nfsdDir, f, minNFSv4Time), err)
			}
		}
	}
	// nfsd does not start without any listener; the RDMA one comes later,
	// with the first device.
	if err := w.listen("tcp", tcpPort); err != nil {
		return nil, err
	}
	log("starting " + strconv.Itoa(r.Threads) + " nfsd threads")
	since, _ := w.readDmesg()
	if err := w.writeNfsd("threads", strconv.Itoa(r.Threads)); err != nil {
		return nil, withErrno(setupf("rpcbind must run and lockd must be in the kernel; the kernel log says more",
			"cannot start %d nfsd threads", r.Threads), err)
	}
	n, err := w.nfsdInt("threads")
	if err != nil || n != r.Threads {
		return nil, setupf("", "%d nfsd threads were asked for, %s/threads shows %d", r.Threads, nfsdDir, n)
	}
	if strings.Contains(line, "+4") {
		if err := w.checkTracking(since); err != nil {
			return nil, err
		}
	}
	w.endGrace(log)
	lines, err := w.portlist()
	if err != nil {
		return nil, err
	}
	return &guestproto.NFSStarted{Versions: line, Threads: n, Portlist: lines}, nil
}

// exportOptions export one folder as the root of the NFSv4 name space, to
// anybody, with root as root.
const exportOptions = "rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0"

func checkStart(r *guestproto.NFSStart) error {
	switch {
	case !filepath.IsAbs(r.Export) || filepath.Clean(r.Export) == "/":
		return usagef("the export %q is not an absolute path below /", r.Export)
	case strings.ContainsAny(r.Export, " \t\n\\:"):
		return usagef("the export %q holds a character that exports(5) would need quoted", r.Export)
	case r.Threads < 1 || r.Threads > 1024:
		return usagef("%d nfsd threads are not between 1 and 1024", r.Threads)
	case len(r.Versions) == 0:
		return usagef("no NFS version to serve was named")
	case r.SizeMiB < 0:
		return usagef("an export of %d MiB", r.SizeMiB)
	}
	return nil
}

// setAddress brings the loopback device and netdev up and gives netdev its
// address. dummy0 exists by itself with CONFIG_DUMMY.
func setAddress(netdev, address string) error {
	if lo, err := netlink.LinkByName("lo"); err == nil {
		if err := netlink.LinkSetUp(lo); err != nil {
			return withErrno(setupf("", "cannot bring lo up"), err)
		}
	}
	if netdev == "" {
		return nil
	}
	link, err := netlink.LinkByName(netdev)
	if err != nil {
		have := netdevNames()
		return setupf("dummy0 comes with CONFIG_DUMMY=y; the guest has "+strings.Join(have, ", "), "the guest has no network device %s", netdev)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return withErrno(setupf("", "cannot bring %s up", netdev), err)
	}
	if address == "" {
		return nil
	}
	addr, err := netlink.ParseAddr(address)
	if err != nil {
		return usagef("the address %q is not ADDRESS/LENGTH", address)
	}
	if err := netlink.AddrReplace(link, addr); err != nil {
		return withErrno(setupf("", "cannot give %s the address %s", netdev, address), err)
	}
	return nil
}

func netdevNames() []string {
	var names []string
	ifs, _ := net.Interfaces()
	for _, i := range ifs {
		names = append(names, i.Name)
	}
	return names
}

// mountServerFS makes the export and mounts what server and programs need.
func (w *work) mountServerFS(r *guestproto.NFSStart) error {
	for _, d := range []string{"/run/rpcbind", "/run/sendsigs.omit.d", pipefsDir, cldStorage, "/var/lib/nfs/sm", "/var/lib/nfs/sm.bak"} {
		if err := os.MkdirAll(w.path(d), 0o755); err != nil {
			return withErrno(setupf("", "cannot make %s", d), err)
		}
	}
	if _, err := os.Stat(w.path("/var/run")); err != nil {
		// The kernel looks for /var/run/rpcbind.sock.
		if err := os.Symlink("/run", w.path("/var/run")); err != nil {
			return withErrno(setupf("", "cannot make /var/run"), err)
		}
	}
	// exportfs and rpc.mountd want these to exist.
	for _, f := range []string{etab, "/var/lib/nfs/rmtab", "/etc/exports"} {
		h, err := os.OpenFile(w.path(f), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return withErrno(setupf("", "cannot make %s", f), err)
		}
		h.Close()
	}
	for _, f := range []string{"/etc/netconfig", "/etc/passwd"} {
		if _, err := os.Stat(w.path(f)); err != nil {
			return setupf("rpcbind needs /etc/netconfig (Debian's libtirpc-common) and its user _rpc in /etc/passwd: make the image again", "the guest has no %s", f)
		}
	}
	if err := ensureMount("rpc_pipefs", pipefsDir, "rpc_pipefs", "", "CONFIG_SUNRPC"); err != nil {
		return err
	}
	if err := ensureMount("nfsd", nfsdDir, "nfsd", "", "CONFIG_NFSD"); err != nil {
		return err
	}
	if err := os.MkdirAll(r.Export, 0o755); err != nil {
		return withErrno(setupf("", "cannot make the export %s", r.Export), err)
	}
	if r.ExportFS == "" {
		return nil
	}
	data := ""
	if r.ExportFS == "tmpfs" {
		data = "mode=0755"
		if r.SizeMiB > 0 {
			data += fmt.Sprintf(",size=%dm", r.SizeMiB)
		}
	}
	return ensureMount(r.ExportFS, r.Export, r.ExportFS, data, "the file system "+r.ExportFS)
}

// ensureMount mounts a file system unless one of its type is there.
func ensureMount(source, at, fstype, data, config string) error {
	infos, err := readMountinfo("/proc/self/mountinfo")
	if err == nil {
		if m, ok := mountAt(infos, at); ok && m.fstype == fstype {
			return nil
		}
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return withErrno(setupf("the kernel may lack "+config, "cannot make the mount point %s", at), err)
	}
	if err := unix.Mount(source, at, fstype, 0, data); err != nil {
		return withErrno(setupf("the kernel may lack "+config, "cannot mount %s at %s", fstype, at), err)
	}
	return nil
}

// startPrograms starts rpcbind, nfsdcld and rpc.mountd, makes the export known
// and waits until each program can do its part. In an emulated guest each
// costs a few 100 ms, so what need not wait for another one does not.
func (w *work) startPrograms(ctx context.Context, export string, log func(string)) error {
	exportfs, err := w.tool("exportfs", "nfs-kernel-server")
	if err != nil {
		return err
	}
	rpcbind, err := w.start("rpcbind", "rpcbind", "-f")
	if err != nil {
		return err
	}
	// Without nfsdcld watching when the threads start, nfsd waits for it in
	// vain and NFSv4 stays in its grace period.
	cld, err := w.start("nfsdcld", "nfs-kernel-server", "-F", "-p", pipefsDir, "-s", cldStorage)
	if err != nil {
		return err
	}
	exported := make(chan error, 1)
	go func() {
		_, err := runTool(ctx, "", exportfs, "-i", "-o", exportOptions, "*:"+export)
		exported <- err
	}()
	if err := rpcbind.await(ctx, daemonLimit, "it answers on "+pmapAddress, "rpcbind needs the user _rpc in /etc/passwd, /etc/netconfig and /run/rpcbind", func() bool {
		_, err := dumpPortmap(pmapAddress)
		return err == nil
	}); err != nil {
		return err
	}
	log("rpcbind answers")
	mountd, err := w.start("rpc.mountd", "nfs-kernel-server", "-F")
	if err != nil {
		return err
	}
	if err := mountd.await(ctx, daemonLimit, "it is registered with rpcbind", "", func() bool {
		all, err := dumpPortmap(pmapAddress)
		return err == nil && portOf(all, mountProg, 3, protoTCP) != 0
	}); err != nil {
		return err
	}
	log("rpc.mountd is registered")
	if err := <-exported; err != nil {
		return err
	}
	if err := cld.await(ctx, daemonLimit, "it watches "+pipefsDir, "nfsdcld needs CONFIG_INOTIFY_USER", func() bool {
		return w.watches(cld.argv[0])
	}); err != nil {
		return err
	}
	log("nfsdcld watches " + pipefsDir)
	return nil
}

// watches tells whether the program at path has an inotify watch, which is the
// last thing that nfsdcld sets up.
func (w *work) watches(path string) bool {
	exes, _ := filepath.Glob(w.path("/proc/[0-9]*/exe"))
	for _, exe := range exes {
		target, err := os.Readlink(exe)
		if err != nil || filepath.Base(target) != filepath.Base(path) {
			continue
		}
		infos, _ := filepath.Glob(filepath.Join(filepath.Dir(exe), "fdinfo", "*"))
		for _, f := range infos {
			if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), "inotify wd:") {
				return true
			}
		}
	}
	return false
}

// setVersions serves exactly the wanted versions and gives what the kernel
// shows then.
func (w *work) setVersions(want []string) (string, error) {
	have, err := w.readNfsd("versions")
	if err != nil {
		return "", withErrno(setupf("", "cannot read %s/versions", nfsdDir), err)
	}
	line, err := versionsLine(have, want)
	if err != nil {
		return "", err
	}
	if err := w.writeNfsd("versions", line); err != nil {
		return "", withErrno(setupf("", "cannot write %q to %s/versions", line, nfsdDir), err)
	}
	got, err := w.readNfsd("versions")
	if err != nil {
		return "", withErrno(setupf("", "cannot read %s/versions back", nfsdDir), err)
	}
	for _, v := range want {
		if !serves(got, v) {
			return "", setupf("", "NFS version %s was asked for, but %s/versions shows %q", v, nfsdDir, got)
		}
	}
	return got, nil
}

// versionsLine says what to write to nfsd's versions file so that only the
// wanted versions are served. It names only versions that the kernel lists:
// nfsd refuses those it was built without, even to turn them off.
func versionsLine(have string, want []string) (string, error) {
	known := knownVersions(have)
	minors := slices.ContainsFunc(known, func(k string) bool { return strings.HasPrefix(k, "4.") })
	for _, v := range want {
		if !slices.Contains(known, v) {
			return "", setupf("check CONFIG_NFSD_V"+strings.SplitN(v, ".", 2)[0]+" and the minor versions of the config; the plan may ask for others",
				"this kernel's nfsd has no NFS version %s (it has %s)", v, strings.Join(known, " "))
		}
	}
	var on, off []string
	for _, k := range known {
		switch {
		case k == "4" && minors:
			// Turned on and off by its minor versions.
		case slices.Contains(want, k), strings.HasPrefix(k, "4.") && slices.Contains(want, "4"):
			on = append(on, "+"+k)
		default:
			off = append(off, "-"+k)
		}
	}
	// First on, then off: nfsd turns all on again when none is left.
	return strings.Join(append(on, off...), " "), nil
}

// knownVersions lists the versions in a line of nfsd's versions file. The
// kernel never shows "+4.0": "+4" implies it, unless "-4.0" is there.
func knownVersions(line string) []string {
	var known []string
	for f := range strings.FieldsSeq(line) {
		known = append(known, strings.TrimLeft(f, "+-"))
	}
	if i := slices.Index(known, "4"); i >= 0 && !slices.Contains(known, "4.0") {
		known = slices.Insert(known, i+1, "4.0")
	}
	return known
}

// serves tells whether nfsd's versions line has v turned on.
func serves(line, v string) bool {
	f := strings.Fields(line)
	if v == "4.0" {
		return slices.Contains(f, "+4") && !slices.Contains(f, "-4.0")
	}
	return slices.Contains(f, "+"+v)
}

// checkTracking looks at what nfsd said about client tracking when it started.
func (w *work) checkTracking(before string) error {
	now, err := w.readDmesg()
	if err != nil {
		return nil
	}
	if rest, ok := strings.CutPrefix(now, before); ok {
		now = rest
	}
	for line := range strings.Lines(now) {
		if strings.Contains(line, "Unable to initialize client recovery tracking") {
			e := setupf("nfsdcld has to watch "+pipefsDir+" before the nfsd threads start; without it NFSv4 stays in its grace period", "nfsd found no client tracking")
			e.Detail = strings.TrimSpace(line)
			if d := w.daemons["nfsdcld"]; d != nil {
				e.Detail += "\nnfsdcld: " + strings.TrimSpace(d.out.String())
			}
			return e
		}
	}
	return nil
}

// endGrace ends the grace periods of NFSv4 and of lockd: there are no clients
// of an earlier boot to wait for. As long as lockd's lasts, 50 s by default,
// nfsd grants no NFSv4 delegations, so that the same workload would send other
// RPCs later. A kernel without these files just waits.
func (w *work) endGrace(log func(string)) {
	for _, f := range []string{nfsdDir + "/v4_end_grace", "/proc/fs/lockd/nlm_end_grace"} {
		b, err := os.ReadFile(w.path(f))
		if err != nil || strings.HasPrefix(string(b), "Y") {
			continue
		}
		if err := writeOnce(w.path(f), "Y\n"); err != nil {
			log(fmt.Sprintf("a grace period goes on, %s: %v", f, plain(err)))
		}
	}
}

// nfsListen serves VerbNFSListen. A listener that is there already is left
// alone: nfsd cannot take it away, and a new device uses it.
func (w *work) nfsListen(ctx context.Context, r *guestproto.NFSListen, log func(string)) (*guestproto.Portlist, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Proto != "rdma" && r.Proto != "tcp" && r.Proto != "udp" {
		return nil, usagef("the transport %q is not rdma, tcp or udp", r.Proto)
	}
	if r.Port < 1 || r.Port > 65535 {
		return nil, usagef("the port %d is not between 1 and 65535", r.Port)
	}
	lines, err := w.portlist()
	if err != nil {
		return nil, err
	}
	if listens(lines, r.Proto, r.Port) == 0 {
		if err := w.listen(r.Proto, r.Port); err != nil {
			return nil, err
		}
		if lines, err = w.portlist(); err != nil {
			return nil, err
		}
	}
	if listens(lines, r.Proto, r.Port) == 0 {
		return nil, setupf(portlistHint(r.Proto), "nfsd does not listen on %s port %d: %s/portlist shows %q", r.Proto, r.Port, nfsdDir, lines)
	}
	return &guestproto.Portlist{Lines: lines}, nil
}

func portlistHint(proto string) string {
	if proto == "rdma" {
		return "the kernel needs CONFIG_SUNRPC_XPRT_RDMA; the kernel log says why the listener was refused"
	}
	return "the kernel log says why the listener was refused"
}

// listen adds a listener by its name. nfsd makes one for IPv4 and one for
// IPv6, so that the portlist may show it twice.
func (w *work) listen(proto string, port int) error {
	if err := w.writeNfsd("portlist", fmt.Sprintf("%s %d", proto, port)); err != nil {
		return withErrno(setupf(portlistHint(proto), "cannot add the listener %q to %s/portlist", fmt.Sprintf("%s %d", proto, port), nfsdDir), err)
	}
	return nil
}

func (w *work) portlist() ([]string, error) {
	s, err := w.readNfsd("portlist")
	if err != nil {
		return nil, withErrno(setupf("nfsd has to be started first (nfs.start)", "cannot read %s/portlist", nfsdDir), err)
	}
	return parsePortlist(s), nil
}

// parsePortlist gives the listeners, "rdma 20049", in the order shown.
func parsePortlist(s string) []string {
	var lines []string
	for line := range strings.Lines(s) {
		if f := strings.Fields(line); len(f) > 0 {
			lines = append(lines, strings.Join(f, " "))
		}
	}
	return lines
}

// listens counts the listeners of a transport on a port.
func listens(lines []string, proto string, port int) int {
	n := 0
	for _, l := range lines {
		if l == fmt.Sprintf("%s %d", proto, port) {
			n++
		}
	}
	return n
}

func (w *work) readNfsd(name string) (string, error) {
	b, err := os.ReadFile(w.path(filepath.Join(nfsdDir, name)))
	return strings.TrimSpace(string(b)), err
}

func (w *work) nfsdInt(name string) (int, error) {
	s, err := w.readNfsd(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(s)
}

// writeNfsd writes a line to a file of nfsd's file system in one call, as it
// wants it.
func (w *work) writeNfsd(name, line string) error {
	return writeOnce(w.path(filepath.Join(nfsdDir, name)), line+"\n")
}

// writeOnce writes s to an existing file in one write call, with no
// truncation.
func writeOnce(path, s string) error {
	f, err := openFile(path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.WriteString(s)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
