// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// mount serves VerbMount by the mount calls of the kernel, without mount.nfs:
// no retries of two minutes, no negotiation of another version, and the
// kernel's own words when it refuses.
func (w *work) mount(ctx context.Context, r *guestproto.Mount, log func(string)) (*guestproto.Mounted, error) {
	if err := checkMount(r); err != nil {
		return nil, err
	}
	local := isLocal(r.Server)
	if local && w.root == "" {
		// One wrong answer here saves a wait in the kernel.
		if e := diagnoseMount(0, r, w.mountFacts(r)); e != nil {
			return nil, e
		}
	}
	mountPort := 0
	if local && isV3(r.Version) {
		all, err := dumpPortmap(pmapAddress)
		if err != nil {
			return nil, withErrno(setupf("start the server first (nfs.start)", "rpcbind does not answer on %s", pmapAddress), err)
		}
		if mountPort = int(portOf(all, mountProg, 3, protoTCP)); mountPort == 0 {
			return nil, setupf("start the server first (nfs.start)", "rpc.mountd is not registered with rpcbind, NFSv3 needs it")
		}
	}
	if err := os.MkdirAll(r.At, 0o755); err != nil {
		return nil, ioError(err, false, "cannot make the mount point %s", r.At)
	}
	infos, err := readMountinfo("/proc/self/mountinfo")
	if err != nil {
		return nil, withErrno(setupf("", "cannot read the mount table"), err)
	}
	if m, ok := mountAt(infos, r.At); ok {
		return nil, usagef("%s (%s) is mounted at %s already", m.source, m.fstype, r.At)
	}
	before := rdmaResources()
	source := r.Server + ":" + r.Path
	opts := mountOptions(r, mountPort)
	log("mount " + source + " at " + r.At + " with " + strings.Join(opts, ","))
	if kmsg, err := mountNFS(source, r.At, opts); err != nil {
		e := diagnoseMount(errnoOf(err), r, w.mountFacts(r))
		if e == nil {
			e = kernelf("")
		}
		if _, ok := errors.AsType[*optionError](err); ok {
			e = setupf("this kernel's NFS client does not know the option or its value; its own message is in the detail", "")
		}
		found := e.Message
		e.Message = fmt.Sprintf("mounting %s with %s failed", source, strings.Join(opts, ","))
		e = withErrno(e, err)
		if found != "" {
			e.Message += ": " + found
		}
		e.Detail = kmsg
		return nil, e
	}
	w.mu.Lock()
	w.before[filepath.Clean(r.At)] = before
	w.mu.Unlock()
	return w.mounted(r)
}

func checkMount(r *guestproto.Mount) error {
	switch {
	case net.ParseIP(r.Server) == nil:
		return usagef("the server %q is no IP address", r.Server)
	case !filepath.IsAbs(r.Path):
		return usagef("the exported path %q is not absolute", r.Path)
	case !filepath.IsAbs(r.At) || filepath.Clean(r.At) == "/":
		return usagef("the mount point %q is not an absolute path below /", r.At)
	case r.Port < 0 || r.Port > 65535:
		return usagef("the port %d is not between 0 and 65535", r.Port)
	case r.Proto == "":
		return usagef("no transport was named")
	case r.Version == "":
		return usagef("no NFS version was named")
	}
	return nil
}

func isV3(version string) bool { return strings.HasPrefix(version, "3") }

// isLocal tells whether an address is one of this guest's.
func isLocal(server string) bool {
	ip := net.ParseIP(server)
	if ip.IsLoopback() {
		return true
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// mountOptions are the options for the kernel (nfs(5)). NFSv3 locks stay
// local: there is no rpc.statd.
func mountOptions(r *guestproto.Mount, mountPort int) []string {
	opts := []string{"vers=" + r.Version, "proto=" + r.Proto, "addr=" + r.Server}
	if r.Port > 0 {
		opts = append(opts, "port="+strconv.Itoa(r.Port))
	}
	if isV3(r.Version) {
		opts = append(opts, "nolock", "mountproto=tcp", "mountaddr="+r.Server)
		if mountPort > 0 {
			opts = append(opts, "mountport="+strconv.Itoa(mountPort))
		}
	} else {
		opts = append(opts, "clientaddr="+r.Server)
	}
	return append(opts, r.Options...)
}

// optionError is a mount option that the kernel refused by itself, before any
// packet was sent.
type optionError struct {
	option string
	err    error
}

func (e *optionError) Error() string { return "option " + e.option + ": " + e.err.Error() }
func (e *optionError) Unwrap() error { return e.err }

// mountNFS mounts by the file system context calls (fsopen(2)), which unlike
// mount(2) give the kernel's messages.
func mountNFS(source, at string, opts []string) (kmsg string, err error) {
	fs, err := unix.Fsopen("nfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("fsopen nfs: %w", err)
	}
	defer unix.Close(fs)
	defer func() {
		if err != nil {
			kmsg = contextMessages(fs)
		}
	}()
	if err := unix.FsconfigSetString(fs, "source", source); err != nil {
		return "", fmt.Errorf("source=%s: %w", source, err)
	}
	for _, o := range opts {
		k, v, has := strings.Cut(o, "=")
		if has {
			err = unix.FsconfigSetString(fs, k, v)
		} else {
			err = unix.FsconfigSetFlag(fs, k)
		}
		if err != nil {
			return "", &optionError{o, err}
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return "", err
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("fsmount: %w", err)
	}
	defer unix.Close(m)
	if err := unix.MoveMount(m, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return "", fmt.Errorf("move_mount: %w", err)
	}
	return "", nil
}

// contextMessages reads what the kernel says about a file system context, one
// message per read: "e NFS: ...".
func contextMessages(fs int) string {
	var out []string
	buf := make([]byte, 1024)
	for len(out) < 16 {
		n, err := unix.Read(fs, buf)
		if err != nil || n <= 0 {
			break
		}
		out = append(out, strings.TrimSpace(string(buf[:n])))
	}
	return strings.Join(out, "\n")
}

// mounted proves what the kernel made of a mount.
func (w *work) mounted(r *guestproto.Mount) (*guestproto.Mounted, error) {
	infos, err := readMountinfo("/proc/self/mountinfo")
	if err != nil {
		return nil, withErrno(setupf("", "cannot read the mount table"), err)
	}
	m, ok := mountAt(infos, r.At)
	if !ok {
		return nil, kernelf("the mount of %s:%s succeeded, but %s is not in the mount table", r.Server, r.Path, r.At)
	}
	b, err := os.ReadFile("/proc/self/mountstats")
	if err != nil {
		return nil, withErrno(setupf("", "cannot read /proc/self/mountstats"), err)
	}
	res := &guestproto.Mounted{Options: m.options}
	for _, s := range parseMountstats(string(b)) {
		if s.at == r.At && len(s.xprts) > 0 {
			res.Xprt = s.xprts[0]
		}
	}
	if err := proveMount(r, res); err != nil {
		return res, err
	}
	return res, nil
}

// proveMount checks version and transport.
func proveMount(r *guestproto.Mount, m *guestproto.Mounted) error {
	if v := option(m.Options, "vers"); v != r.Version {
		return kernelf("NFS version %s was asked for, the kernel mounted version %q (%s)", r.Version, v, m.Options)
	}
	if got, _, _ := strings.Cut(m.Xprt, " "); !strings.HasPrefix(got, strings.TrimSuffix(r.Proto, "6")) {
		return kernelf("the transport %s was asked for, /proc/self/mountstats shows %q", r.Proto, m.Xprt)
	}
	return nil
}

// option gives the value of the last k=v in a list of options.
func option(opts, k string) string {
	v := ""
	for o := range strings.SplitSeq(opts, ",") {
		if n, val, ok := strings.Cut(o, "="); ok && n == k {
			v = val
		}
	}
	return v
}

// mountFacts is what decides why a mount to this guest's own server fails.
type mountFacts struct {
	serverHere bool // nfsd's file system is mounted and the address is ours
	threads    int
	portlist   []string
	versions   string
	clientRDMA bool // the kernel has xprtrdma's client side
	rdmaLinks  []string
}

func (w *work) mountFacts(r *guestproto.Mount) mountFacts {
	var f mountFacts
	if _, err := os.Stat(w.path(nfsdDir + "/threads")); err == nil && isLocal(r.Server) {
		f.serverHere = true
		f.threads, _ = w.nfsdInt("threads")
		s, _ := w.readNfsd("portlist")
		f.portlist = parsePortlist(s)
		f.versions, _ = w.readNfsd("versions")
	}
	// Client and server transport are one module; its server half always
	// shows in sysctl, its client half only with CONFIG_SUNRPC_DEBUG.
	_, err := os.Stat(w.path("/proc/sys/sunrpc/svc_rdma"))
	f.clientRDMA = err == nil
	links, _ := filepath.Glob(w.path("/sys/class/infiniband/*"))
	for _, l := range links {
		f.rdmaLinks = append(f.rdmaLinks, filepath.Base(l))
	}
	return f
}

// diagnoseMount names the reason of a failed mount that the facts show, in the
// order client, server, version, device, or nil. With no == 0 it looks only
// for what would make a mount fail, before it is tried.
func diagnoseMount(no unix.Errno, r *guestproto.Mount, f mountFacts) *guestproto.Error {
	rdma := strings.HasPrefix(r.Proto, "rdma")
	port := r.Port
	if port == 0 {
		port = tcpPort
		if rdma {
			port = 20049
		}
	}
	switch {
	case rdma && !f.clientRDMA:
		return setupf("the guest's kernel needs CONFIG_SUNRPC_XPRT_RDMA (module rpcrdma)", "the client has no RDMA transport")
	case f.serverHere && f.threads == 0:
		return setupf("start the server first (nfs.start)", "the server has no threads")
	case f.serverHere && listens(f.portlist, strings.TrimSuffix(r.Proto, "6"), port) == 0:
		return setupf("add the listener first (nfs.listen)", "the server does not listen on %q: %s/portlist shows %q", fmt.Sprintf("%s %d", r.Proto, port), nfsdDir, f.portlist)
	case f.serverHere && f.versions != "" && !serves(f.versions, r.Version):
		return setupf("name it among the server's versions in the plan", "the server does not serve NFS version %s: %s/versions shows %q", r.Version, nfsdDir, f.versions)
	case rdma && len(f.rdmaLinks) == 0:
		return setupf("add a link first (rdma.link)", "the guest has no RDMA device")
	}
	if no == 0 {
		return nil
	}
	e := kernelf("")
	switch no {
	case unix.EPROTONOSUPPORT:
		e.Message = "client, listener and version are all there, yet the kernel says that the protocol is not supported"
	case unix.EINVAL:
		e.Hint = "an option may not fit this kernel; the kernel's own message is in the detail"
	case unix.EACCES, unix.EPERM:
		e.Class = guestproto.ClassSetup
		e.Hint = "there is no such export, or its options or rpc.mountd refuse this client: see exportfs -v"
	case unix.ENOENT:
		e.Class = guestproto.ClassSetup
		e.Hint = "there is no such export; NFSv4 paths begin at the export with fsid=0, NFSv3 ones are the server's own"
	case unix.ENODEV:
		e.Class = guestproto.ClassSetup
		e.Hint = "the guest's kernel has no NFS client for this version"
	case unix.ENOMEM:
		e.Class = guestproto.ClassResource
		e.Hint = "the guest needs more memory"
	case unix.ECONNREFUSED, unix.ETIMEDOUT, unix.EHOSTUNREACH, unix.ENETUNREACH:
		e.Hint = "the connection was not made although the server listens: see the kernel log; RoCE needs UDP port 4791 to be open"
	}
	return e
}

// teardownLimit bounds the wait for the end of connections after an unmount.
const teardownLimit = 5 * time.Second

// umount serves VerbUmount. A plain unmount waits for nothing but the kernel;
// when that hangs the host finds out.
func (w *work) umount(ctx context.Context, r *guestproto.Umount, log func(string)) (*guestproto.Umounted, error) {
	infos, err := readMountinfo("/proc/self/mountinfo")
	if err != nil {
		return nil, withErrno(setupf("", "cannot read the mount table"), err)
	}
	at := filepath.Clean(r.At)
	if _, ok := mountAt(infos, at); !ok {
		if r.Force || r.Lazy {
			return &guestproto.Umounted{}, nil // cleaning up what is gone is no failure
		}
		return nil, usagef("nothing is mounted at %s", at)
	}
	flags := unix.UMOUNT_NOFOLLOW
	if r.Force {
		flags |= unix.MNT_FORCE
	}
	if r.Lazy {
		flags |= unix.MNT_DETACH
	}
	if err := unix.Unmount(at, flags); err != nil {
		e := kernelf("cannot unmount %s", at)
		if errnoOf(err) == unix.EBUSY {
			e.Hint = "no process uses a file or folder there: the kernel holds a reference"
			if users := w.usersOf(at); len(users) > 0 {
				e.Class = guestproto.ClassSetup
				e.Hint = "end what uses it first"
				e.Detail = strings.Join(users, "\n")
			}
		}
		return nil, withErrno(e, err)
	}
	w.mu.Lock()
	before := w.before[at]
	delete(w.before, at)
	w.mu.Unlock()
	if before == nil || r.Force || r.Lazy {
		return &guestproto.Umounted{}, nil
	}
	return awaitTeardown(ctx, before, rdmaResources), nil
}

// awaitTeardown waits until the RDMA resources are what they were before the
// mount. There is no event for their end, so it asks at growing intervals.
func awaitTeardown(ctx context.Context, before map[string]int64, now func() map[string]int64) *guestproto.Umounted {
	start := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		left := surplus(before, now())
		waited := time.Since(start)
		if len(left) == 0 || waited > teardownLimit || ctx.Err() != nil {
			return &guestproto.Umounted{Left: left, WaitedUS: waited.Microseconds()}
		}
		time.Sleep(pause)
	}
}

// surplus gives what b has more than a.
func surplus(a, b map[string]int64) map[string]int64 {
	var more map[string]int64
	for k, n := range b {
		if d := n - a[k]; d > 0 {
			if more == nil {
				more = map[string]int64{}
			}
			more[k] = d
		}
	}
	return more
}

// usersOf lists the processes that have a file open below a mount point or
// their current folder there.
func (w *work) usersOf(at string) []string {
	var users []string
	below := func(p string) bool { return p == at || strings.HasPrefix(p, at+"/") }
	dirs, _ := filepath.Glob(w.path("/proc/[0-9]*"))
	for _, d := range dirs {
		links, _ := filepath.Glob(filepath.Join(d, "fd", "*"))
		for _, l := range append(links, filepath.Join(d, "cwd"), filepath.Join(d, "root")) {
			if target, err := os.Readlink(l); err == nil && below(target) {
				comm, _ := os.ReadFile(filepath.Join(d, "comm"))
				users = append(users, fmt.Sprintf("process %s (%s) uses %s", filepath.Base(d), strings.TrimSpace(string(comm)), target))
				break
			}
		}
	}
	return users
}
