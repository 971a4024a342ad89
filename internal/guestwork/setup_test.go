// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

func TestVersionsLine(t *testing.T) {
	for _, tt := range []struct {
		have string
		want []string
		line string // empty: refused
	}{
		{"+3 +4 +4.1 +4.2", []string{"3", "4.1"}, "+3 +4.1 -4.0 -4.2"},
		{"-2 +3 +4 +4.1 +4.2", []string{"3", "4.1"}, "+3 +4.1 -2 -4.0 -4.2"},
		{"+3 +4 +4.1 +4.2", []string{"4.0", "4.2"}, "+4.0 +4.2 -3 -4.1"},
		{"+3 +4 +4.1 +4.2", []string{"4"}, "+4.0 +4.1 +4.2 -3"}, // any minor version
		{"+3 +4 -4.0 +4.1 +4.2", []string{"4.0"}, "+4.0 -3 -4.1 -4.2"},
		{"+3", []string{"3"}, "+3"},
		{"+3", []string{"4.1"}, ""},
		{"+3 +4 +4.1 +4.2", []string{"2"}, ""}, // a kernel without NFSv2
		{"+3 +4 +4.1 +4.2", []string{"4.3"}, ""},
	} {
		got, err := versionsLine(tt.have, tt.want)
		if got != tt.line || (err != nil) != (tt.line == "") {
			t.Errorf("%q, want %v: %q, %v; want %q", tt.have, tt.want, got, err, tt.line)
		}
		if err != nil && class(err) != guestproto.ClassSetup {
			t.Errorf("%q, want %v: class %s", tt.have, tt.want, class(err))
		}
	}
}

func TestServes(t *testing.T) {
	for _, tt := range []struct {
		line, v string
		want    bool
	}{
		{"+3 +4 -4.0 +4.1 -4.2", "4.1", true},
		{"+3 +4 -4.0 +4.1 -4.2", "4.0", false},
		{"+3 +4 +4.1", "4.0", true},
		{"-3 +4", "3", false},
		{"", "3", false},
	} {
		if got := serves(tt.line, tt.v); got != tt.want {
			t.Errorf("serves(%q, %s) = %t", tt.line, tt.v, got)
		}
	}
}

func TestPortlist(t *testing.T) {
	lines := parsePortlist("rdma 20049\nrdma 20049\ntcp 2049\n\n  udp   2049 \n")
	if d := cmp.Diff([]string{"rdma 20049", "rdma 20049", "tcp 2049", "udp 2049"}, lines); d != "" {
		t.Error(d)
	}
	for _, tt := range []struct {
		proto string
		port  int
		want  int
	}{{"rdma", 20049, 2}, {"rdma", 2049, 0}, {"tcp", 2049, 1}, {"rdm", 20049, 0}} {
		if got := listens(lines, tt.proto, tt.port); got != tt.want {
			t.Errorf("listens(%s %d) = %d, want %d", tt.proto, tt.port, got, tt.want)
		}
	}
}

// fakeRoot is a tree of files that stands for /proc and /sys.
func fakeRoot(t *testing.T, files map[string]string) *work {
	t.Helper()
	root := t.TempDir()
	for p, s := range files {
		f := filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &work{root: root, daemons: map[string]*daemon{}}
}

// The listener that was not added must be seen before any mount: the file
// here takes the write and, unlike nfsd, shows only what was written last.
func TestListen(t *testing.T) {
	ctx := context.Background()
	w := fakeRoot(t, map[string]string{"/proc/fs/nfsd/portlist": "rdma 20049\nrdma 20049\ntcp 2049\n"})
	got, err := w.nfsListen(ctx, &guestproto.NFSListen{Proto: "rdma", Port: 20049}, nil)
	if err != nil || len(got.Lines) != 3 {
		t.Errorf("a listener that is there: %+v, %v", got, err)
	}
	if _, err := w.nfsListen(ctx, &guestproto.NFSListen{Proto: "udp", Port: 7}, nil); class(err) != "" {
		t.Errorf("%v", err)
	}
	w = fakeRoot(t, map[string]string{"/proc/fs/nfsd/portlist": "tcp 2049\ntcp 2049\n"})
	os.Remove(w.path("/proc/fs/nfsd/portlist"))
	os.Symlink("/dev/null", w.path("/proc/fs/nfsd/portlist"))
	_, err = w.nfsListen(ctx, &guestproto.NFSListen{Proto: "rdma", Port: 20049}, nil)
	if class(err) != guestproto.ClassSetup || !strings.Contains(err.Error(), "does not listen on rdma port 20049") {
		t.Errorf("a listener that does not appear: %v", err)
	}
	for _, r := range []guestproto.NFSListen{{Proto: "sctp", Port: 1}, {Proto: "rdma"}, {Proto: "rdma", Port: 70000}} {
		if _, err := w.nfsListen(ctx, &r, nil); class(err) != guestproto.ClassUsage {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if _, err := fakeRoot(t, nil).nfsListen(ctx, &guestproto.NFSListen{Proto: "rdma", Port: 20049}, nil); class(err) != guestproto.ClassSetup {
		t.Errorf("without nfsd: %v", err)
	}
}

func TestDiagnoseMount(t *testing.T) {
	good := mountFacts{serverHere: true, threads: 4, portlist: []string{"rdma 20049", "tcp 2049"}, versions: "+3 +4 -4.0 +4.1 -4.2", clientRDMA: true, rdmaLinks: []string{"rxe0"}}
	req := guestproto.Mount{Server: "192.0.2.1", Path: "/", At: "/mnt", Version: "4.1", Proto: "rdma", Port: 20049}
	with := func(change func(*mountFacts)) mountFacts {
		f := good
		change(&f)
		return f
	}
	for _, tt := range []struct {
		name  string
		no    unix.Errno
		facts mountFacts
		req   func(*guestproto.Mount)
		class string
		text  string // in message or hint
	}{
		{name: "all well", facts: good},
		{name: "client", no: unix.EPROTONOSUPPORT, facts: with(func(f *mountFacts) { f.clientRDMA = false }), class: "setup", text: "client has no RDMA"},
		{name: "server stopped", facts: with(func(f *mountFacts) { f.threads = 0 }), class: "setup", text: "no threads"},
		{name: "portlist", no: unix.EPROTONOSUPPORT, facts: with(func(f *mountFacts) { f.portlist = []string{"tcp 2049"} }), class: "setup", text: "does not listen"},
		{name: "portlist before", facts: with(func(f *mountFacts) { f.portlist = nil }), class: "setup", text: "does not listen"},
		{name: "other port", facts: good, req: func(m *guestproto.Mount) { m.Port = 20050 }, class: "setup", text: "does not listen"},
		{name: "version", no: unix.EPROTONOSUPPORT, facts: good, req: func(m *guestproto.Mount) { m.Version = "4.2" }, class: "setup", text: "does not serve NFS version 4.2"},
		{name: "device", facts: with(func(f *mountFacts) { f.rdmaLinks = nil }), class: "setup", text: "no RDMA device"},
		{name: "tcp needs none", facts: with(func(f *mountFacts) { f.rdmaLinks = nil; f.clientRDMA = false }), req: func(m *guestproto.Mount) { m.Proto, m.Port = "tcp", 2049 }},
		{name: "remote server", facts: mountFacts{clientRDMA: true, rdmaLinks: []string{"rxe0"}}},
		{name: "all there, refused", no: unix.EPROTONOSUPPORT, facts: good, class: "kernel", text: "all there"},
		{name: "denied", no: unix.EACCES, facts: good, class: "setup", text: "exportfs"},
		{name: "no export", no: unix.ENOENT, facts: good, class: "setup", text: "fsid=0"},
		{name: "no connection", no: unix.ETIMEDOUT, facts: good, class: "kernel", text: "4791"},
		{name: "EIO", no: unix.EIO, facts: good, class: "kernel"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := req
			if tt.req != nil {
				tt.req(&r)
			}
			e := diagnoseMount(tt.no, &r, tt.facts)
			if tt.class == "" {
				if e != nil {
					t.Errorf("%+v, want nothing", e)
				}
				return
			}
			if e == nil || e.Class != tt.class || !strings.Contains(e.Message+" "+e.Hint, tt.text) {
				t.Errorf("%+v, want class %s and %q", e, tt.class, tt.text)
			}
		})
	}
}

func TestMountOptions(t *testing.T) {
	for _, tt := range []struct {
		r    guestproto.Mount
		port int
		want string
	}{
		{guestproto.Mount{Server: "192.0.2.1", Version: "3", Proto: "rdma", Port: 20049}, 4711,
			"vers=3,proto=rdma,addr=192.0.2.1,port=20049,nolock,mountproto=tcp,mountaddr=192.0.2.1,mountport=4711"},
		{guestproto.Mount{Server: "192.0.2.1", Version: "4.1", Proto: "rdma", Port: 20049, Options: []string{"soft", "timeo=50"}}, 0,
			"vers=4.1,proto=rdma,addr=192.0.2.1,port=20049,clientaddr=192.0.2.1,soft,timeo=50"},
	} {
		if got := strings.Join(mountOptions(&tt.r, tt.port), ","); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

const mountstats = `device rootfs mounted on / with fstype rootfs
device proc mounted on /proc with fstype proc
device nfsd mounted on /proc/fs/nfsd with fstype nfsd
device 192.0.2.1:/ex\040port mounted on /mnt/n\040s with fstype nfs4 statvers=1.1
	opts:	rw,vers=4.1,rsize=131072,proto=rdma,port=20049
	age:	3
	caps:	caps=0x3ffdf,wtmult=512,dtsize=131072,bsize=0,namlen=255
	sec:	flavor=1,pseudoflavor=1
	bytes:	0 0 8388608 8388608 0 0 0 0
	RPC iostats version: 1.1  p/v: 100003/4 (nfs)
	xprt:	rdma 0 0 1 0 0 6120 6120 0 6120 0 3 2048 2 8480 336 17 0 139 0 0 4 0 0 64 5 0 0
	per-op statistics
	        NULL: 1 1 0 44 24 0 0 0 0
	        READ: 2048 2050 1 344064 8634368 5 1200 1300 0
	       WRITE: 2048 2048 0 0 0 0 0 0 2
	      COMMIT: 0 0 0 0 0 0 0 0 0

device none mounted on /x with fstype tmpfs
`

func TestParseMountstats(t *testing.T) {
	all := parseMountstats(mountstats)
	if len(all) != 1 {
		t.Fatalf("%d NFS mounts, want 1: %+v", len(all), all)
	}
	m := all[0]
	if m.at != "/mnt/n s" || m.fstype != "nfs4" || len(m.xprts) != 1 || !strings.HasPrefix(m.xprts[0], "rdma 0 0 1") {
		t.Errorf("%+v", m)
	}
	want := map[string]guestproto.Op{
		"NULL":  {Ops: 1, Sent: 1},
		"READ":  {Ops: 2048, Sent: 2050, Timeouts: 1},
		"WRITE": {Ops: 2048, Sent: 2048, Errors: 2},
	}
	if d := cmp.Diff(want, m.ops); d != "" {
		t.Errorf("operations (-want +got):\n%s", d)
	}
	proto, c := xprtCounters(append(m.xprts, m.xprts[0]))
	for k, v := range map[string]int64{"sends": 12240, "recvs": 12240, "bad_xids": 0, "read_chunks": 6, "write_chunks": 4096, "pullup_copies": 34, "mrs_allocated": 128, "connect_count": 2} {
		if c[k] != v {
			t.Errorf("%s = %d, want %d (two connections)", k, c[k], v)
		}
	}
	if proto != "rdma" {
		t.Errorf("transport %q", proto)
	}
}

func TestParseMountinfo(t *testing.T) {
	const text = `22 27 0:21 / /proc rw,relatime - proc proc rw
40 27 0:40 / /mnt/a\040b rw,relatime shared:5 - nfs4 192.0.2.1:/ rw,vers=4.1,proto=rdma
41 40 0:41 / /mnt/a\040b ro - tmpfs tmpfs rw
broken line
`
	all := parseMountinfo(text)
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	m, ok := mountAt(all, "/mnt/a b")
	if !ok || m.fstype != "tmpfs" {
		t.Errorf("the topmost mount is %+v", m)
	}
	if all[1].options != "rw,relatime,rw,vers=4.1,proto=rdma" || all[1].source != "192.0.2.1:/" {
		t.Errorf("%+v", all[1])
	}
}

func TestProveMount(t *testing.T) {
	req := guestproto.Mount{Version: "4.1", Proto: "rdma"}
	for _, tt := range []struct {
		options, xprt string
		ok            bool
	}{
		{"rw,vers=4.1,proto=rdma", "rdma 0 0 1", true},
		{"rw,vers=4.2,proto=rdma", "rdma 0 0 1", false}, // another version than asked for
		{"rw,vers=4.1,proto=tcp", "tcp 0 0 1", false},   // fell back to TCP
		{"rw,vers=4.1,proto=rdma", "", false},
	} {
		err := proveMount(&req, &guestproto.Mounted{Options: tt.options, Xprt: tt.xprt})
		if (err == nil) != tt.ok || err != nil && class(err) != guestproto.ClassKernel {
			t.Errorf("%q, %q: %v", tt.options, tt.xprt, err)
		}
	}
}

func FuzzMountTables(f *testing.F) {
	f.Add(mountstats)
	f.Fuzz(func(t *testing.T, s string) {
		for _, m := range parseMountstats(s) {
			xprtCounters(m.xprts)
		}
		parseMountinfo(s)
		parseMeminfo(s)
		parseSlabinfo(s)
		parseRPCStats(s)
		parsePortlist(s)
		parseFormat(s)
		stripLevels(s)
	})
}

func TestSetParams(t *testing.T) {
	w := fakeRoot(t, map[string]string{"/sys/module/rdma_rxe/parameters/limit": "0\n", "/sys/module/rdma_rxe/parameters/vendor": "0\n"})
	if err := w.setParams("rdma_rxe", map[string]string{"limit": "216", "vendor": "0x8086"}); err != nil {
		t.Error(err)
	}
	err := w.setParams("rdma_rxe", map[string]string{"nosuch": "1"})
	if class(err) != guestproto.ClassSetup || !strings.Contains(err.Error(), "no parameter nosuch") {
		t.Errorf("a missing parameter: %v", err)
	}
	os.Remove(w.path("/sys/module/rdma_rxe/parameters/limit"))
	os.Symlink("/dev/null", w.path("/sys/module/rdma_rxe/parameters/limit"))
	if err := w.setParams("rdma_rxe", map[string]string{"limit": "216"}); class(err) != guestproto.ClassSetup {
		t.Errorf("a value that does not stick: %v", err)
	}
	for _, tt := range [][2]string{{"216", "216"}, {"32902", "0x8086"}, {"0x8086", "32902"}, {"Y", "Y"}} {
		if !sameValue(tt[0], tt[1]) {
			t.Errorf("%v are not the same value", tt)
		}
	}
	if sameValue("1", "2") || sameValue("Y", "N") {
		t.Error("different values are the same")
	}
}

func TestLinkAddError(t *testing.T) {
	r := guestproto.LinkSet{Name: "siw0", Type: "siw", Netdev: "tun0", Module: "siw"}
	for _, tt := range []struct {
		err  error
		hint string
	}{
		{unix.EINVAL, "knows no RDMA link type siw"},
		{unix.ENOENT, "crc32_generic"},
		{unix.EPROTONOSUPPORT, "CONFIG_INFINIBAND"},
		{unix.EOPNOTSUPP, "older than 5.1"},
	} {
		if e := linkAddError(&r, tt.err); e.Class != guestproto.ClassSetup || !strings.Contains(e.Hint, tt.hint) {
			t.Errorf("%v: %+v", tt.err, e)
		}
	}
}

func TestAwaitActive(t *testing.T) {
	w := fakeRoot(t, map[string]string{"/sys/class/infiniband/rxe0/ports/1/state": "4: ACTIVE\n", "/sys/class/infiniband/rxe1/ports/1/state": "1: DOWN\n"})
	if s, err := w.awaitActive(context.Background(), "rxe0"); s != "ACTIVE" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if s, err := w.awaitActive(ctx, "rxe1"); err == nil || s != "DOWN" {
		t.Errorf("a port that is down: %q, %v", s, err)
	}
}

func TestDumpPortmap(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		call := make([]byte, 44)
		if _, err := io.ReadFull(c, call); err != nil {
			return
		}
		xid := binary.BigEndian.Uint32(call[4:])
		var body []byte
		for _, v := range []uint32{xid, 1, 0, 0, 0, 0, 1, mountProg, 3, protoTCP, 20048, 1, 100003, 3, protoTCP, 2049, 0} {
			body = binary.BigEndian.AppendUint32(body, v)
		}
		// Two fragments, split inside a word.
		c.Write(append(binary.BigEndian.AppendUint32(nil, 10), body[:10]...))
		c.Write(append(binary.BigEndian.AppendUint32(nil, lastFragment|uint32(len(body)-10)), body[10:]...))
	}()
	all, err := dumpPortmap(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if p := portOf(all, mountProg, 3, protoTCP); p != 20048 || len(all) != 2 {
		t.Errorf("port %d in %+v", p, all)
	}
	if portOf(all, mountProg, 3, 17) != 0 {
		t.Error("UDP is registered")
	}
}

func TestParseDumpRefuses(t *testing.T) {
	words := func(v ...uint32) []byte {
		var b []byte
		for _, x := range v {
			b = binary.BigEndian.AppendUint32(b, x)
		}
		return b
	}
	for name, b := range map[string][]byte{
		"empty":     nil,
		"other xid": words(8, 1, 0, 0, 0, 0, 0),
		"denied":    words(7, 1, 1, 0, 0, 0, 0),
		"no list":   words(7, 1, 0, 0, 0, 0),
		"cut entry": words(7, 1, 0, 0, 0, 0, 1, 100005, 3),
	} {
		if all, err := parseDump(b, 7); err == nil {
			t.Errorf("%s: %+v and no error", name, all)
		}
	}
}

func TestDaemonThatEnds(t *testing.T) {
	w := &work{daemons: map[string]*daemon{}}
	sh, err := w.tool("sh", "dash")
	if err != nil {
		t.Skip(err)
	}
	d := &daemon{name: "faulty", argv: []string{sh}, done: make(chan struct{}), err: errors.New("exit status 3")}
	d.out.Write([]byte("cannot get uid of '_rpc'\n"))
	close(d.done)
	err = d.await(context.Background(), time.Minute, "it answers", "make the image again", func() bool { return false })
	var e *guestproto.Error
	if !errors.As(err, &e) || e.Class != guestproto.ClassSetup || !strings.Contains(e.Detail, "cannot get uid") || !strings.Contains(e.Detail, "exit status 3") {
		t.Errorf("%+v", err)
	}
}

func TestStartDaemon(t *testing.T) {
	w := &work{daemons: map[string]*daemon{}}
	// It answers, then runs until it is stopped.
	d, err := w.start("sh", "dash", "-c", "echo ready; exec sleep 1000")
	if err != nil {
		t.Skip(err)
	}
	if err := d.await(context.Background(), 30*time.Second, "it said so", "", func() bool { return strings.Contains(d.out.String(), "ready") }); err != nil {
		t.Fatal(err)
	}
	if again, err := w.start("sh", "dash"); again != d || err != nil {
		t.Errorf("a second start of a live daemon: %v, %v", again, err)
	}
	d.stop()
	<-d.done
	if e := d.failed("", "it ended"); !strings.Contains(e.Detail, "signal") || !strings.Contains(e.Detail, "ready") {
		t.Errorf("detail of a killed daemon: %q", e.Detail)
	}
	if _, err := w.start("no-such-program", "no-such-package"); class(err) != guestproto.ClassSetup || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("a missing program: %v", err)
	}
}

func TestTail(t *testing.T) {
	var l tail
	for range 100 {
		l.Write([]byte(strings.Repeat("x", 1000)))
	}
	l.Write([]byte("end"))
	if s := l.String(); len(s) > 2*tailBytes || !strings.HasSuffix(s, "end") {
		t.Errorf("%d bytes kept", len(s))
	}
}

func TestMemoryParsers(t *testing.T) {
	kib := parseMeminfo("MemTotal:        1012345 kB\nMemFree:          900000 kB\nSUnreclaim:         7160 kB\nHugePages_Total:       0\nodd\n")
	if kib["MemFree"] != 900000 || kib["SUnreclaim"] != 7160 || kib["HugePages_Total"] != 0 {
		t.Errorf("%v", kib)
	}
	if got := parseReplyCache("max entries:           32768\nnum entries:           879\nhash buckets:          512\nmem usage:             196896\ncache hits:            0\n"); got != 196896 {
		t.Errorf("reply cache of %d bytes", got)
	}
	if got := parsePagesets("Node 0, zone      DMA\n  pages free     2816\n        boost    0\n  pagesets\n    cpu: 0\n              count:    15\n              high:     14\n              batch:    1\n    cpu: 1\n              count:    4000\n  vm stats threshold: 4\nNode 0, zone    DMA32\n    cpu: 0\n              count:    85\n"); got != 4100 {
		t.Errorf("%d pages on the lists of CPUs", got)
	}
	slabs := parseSlabinfo("slabinfo - version: 2.1\n# name            <active_objs> <num_objs>\nnfsd_file              3     42     96   42    1 : tunables    0    0    0 : slabdata      1      1      0\nkmalloc-64         21526  21568     64   64    1 : tunables 0 0 0\n")
	if d := cmp.Diff(map[string]int64{"nfsd_file": 3, "kmalloc-64": 21526}, slabs); d != "" {
		t.Error(d)
	}
}

func TestParseRPCStats(t *testing.T) {
	client := parseRPCStats("net 0 0 0 0\nrpc 6120 3 6121\nproc3 22 1 2 0 0 5\nproc4 2 0 7\n")
	for k, v := range map[string]int64{"rpc.calls": 6120, "rpc.retrans": 3, "proc3": 8, "proc4": 7} {
		if client[k] != v {
			t.Errorf("client %s = %d, want %d", k, client[k], v)
		}
	}
	server := parseRPCStats("rc 1 2 3\nfh 4 0 0 0 0\nio 10 20\nth 4 0 0.000\nnet 100 0 1 1\nrpc 100 5 1 2 2\n")
	for k, v := range map[string]int64{"rpc.calls": 100, "rpc.bad_calls": 5, "rpc.bad_client": 2, "io.written_bytes": 20, "th.threads": 4, "fh.stale": 4} {
		if server[k] != v {
			t.Errorf("server %s = %d, want %d", k, server[k], v)
		}
	}
}

func TestCounters(t *testing.T) {
	w := fakeRoot(t, map[string]string{
		"/proc/sys/sunrpc/svc_rdma/rdma_stat_recv":                   "5903\n",
		"/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts":   "77\n",
		"/proc/self/mountstats":                                      mountstats,
		"/sys/class/infiniband/rxe0/ports/1/hw_counters/not_a_count": "x\n",
	})
	c, err := w.counters(context.Background(), nil, nil)
	if err != nil || c.Server["rdma_stat_recv"] != 5903 || c.Ports["rxe0/1/sent_pkts"] != 77 || len(c.Ports) != 1 || len(c.Mounts) != 1 || c.Mounts[0].Xprt["sends"] != 6120 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestStacks(t *testing.T) {
	w := fakeRoot(t, map[string]string{
		"/proc/12/task/12/stat":  "12 (nfsd) S 2 0 0",
		"/proc/71/task/71/stat":  "71 (umount (x) y) D 1 71",
		"/proc/71/task/71/stack": "[<0>] rpc_shutdown_client+0x1/0x2\n",
		"/proc/9/task/9/stat":    "garbage",
	})
	res, err := w.stacks(context.Background(), &guestproto.Stacks{}, nil)
	want := []guestproto.TaskStack{{ID: 71, Comm: "umount (x) y", State: "D", Stack: "[<0>] rpc_shutdown_client+0x1/0x2"}}
	if d := cmp.Diff(want, res.Tasks); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func TestKernelLog(t *testing.T) {
	got := stripLevels("<5>[    0.000000] Linux version 7.3.4\n<4>[    1.0] WARNING: x\n[    2.0] <no level>\n<6>\n<x>[ 3.0] y\n")
	want := "[    0.000000] Linux version 7.3.4\n[    1.0] WARNING: x\n[    2.0] <no level>\n\n<x>[ 3.0] y\n"
	if got != want {
		t.Errorf("got %q", got)
	}
	w := fakeRoot(t, map[string]string{"/dev/kmsg": "", "/proc/sysrq-trigger": ""})
	if _, err := w.mark(context.Background(), &guestproto.Mark{Text: "cell\n<0>3"}, nil); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(w.path("/dev/kmsg")); string(b) != "<6>patchcheck: cell <0>3\n" {
		t.Errorf("mark wrote %q", b)
	}
	if _, err := w.sysrq(context.Background(), &guestproto.Sysrq{Keys: "w"}, nil); err != nil {
		t.Error(err)
	}
	if _, err := w.sysrq(context.Background(), &guestproto.Sysrq{Keys: "w\n"}, nil); class(err) != guestproto.ClassUsage {
		t.Errorf("%v", err)
	}
}

func TestCheckTracking(t *testing.T) {
	w := &work{daemons: map[string]*daemon{}}
	// Reading the real kernel log needs a privilege; without it the check
	// stays silent, never wrong.
	_ = w.checkTracking("")
	if err := checkStart(&guestproto.NFSStart{Export: "/export", Versions: []string{"3"}, Threads: 4}); err != nil {
		t.Error(err)
	}
	for name, r := range map[string]guestproto.NFSStart{
		"root":       {Export: "/", Versions: []string{"3"}, Threads: 4},
		"relative":   {Export: "x", Versions: []string{"3"}, Threads: 4},
		"colon":      {Export: "/a:b", Versions: []string{"3"}, Threads: 4},
		"no threads": {Export: "/e", Versions: []string{"3"}},
		"no version": {Export: "/e", Threads: 4},
	} {
		if err := checkStart(&r); class(err) != guestproto.ClassUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUsersOf(t *testing.T) {
	w := fakeRoot(t, map[string]string{"/proc/71/comm": "cat\n", "/proc/72/comm": "sh\n", "/proc/73/comm": "x\n"})
	for p, target := range map[string]string{"71/fd/3": "/mnt/nfs/a", "72/cwd": "/mnt/nfs", "73/cwd": "/mnt/nfs2"} {
		l := w.path("/proc/" + p)
		os.MkdirAll(filepath.Dir(l), 0o755)
		os.Symlink(target, l)
	}
	want := []string{"process 71 (cat) uses /mnt/nfs/a", "process 72 (sh) uses /mnt/nfs"}
	if d := cmp.Diff(want, w.usersOf("/mnt/nfs")); d != "" {
		t.Error(d)
	}
}

func TestEndGrace(t *testing.T) {
	w := fakeRoot(t, map[string]string{"/proc/fs/nfsd/v4_end_grace": "Y", "/proc/fs/lockd/nlm_end_grace": "N\n"})
	w.endGrace(func(s string) { t.Error(s) })
	for f, want := range map[string]string{"/proc/fs/nfsd/v4_end_grace": "Y", "/proc/fs/lockd/nlm_end_grace": "Y\n"} {
		if b, _ := os.ReadFile(w.path(f)); string(b) != want {
			t.Errorf("%s holds %q, want %q", f, b, want)
		}
	}
	fakeRoot(t, nil).endGrace(func(s string) { t.Error(s) })
}

// A connection that outlives its mount is reported, and waited for when it
// goes.
func TestAwaitTeardown(t *testing.T) {
	before := map[string]int64{"qp": 1, "cq": 1, "mr": 0}
	calls := 0
	res := awaitTeardown(context.Background(), before, func() map[string]int64 {
		if calls++; calls < 4 {
			return map[string]int64{"qp": 3, "cq": 1, "mr": 10}
		}
		return map[string]int64{"qp": 1, "cq": 1, "mr": 0}
	})
	if len(res.Left) != 0 || calls != 4 {
		t.Errorf("%+v after %d looks", res, calls)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	res = awaitTeardown(ctx, before, func() map[string]int64 { return map[string]int64{"qp": 3, "cq": 1, "mr": 10} })
	if d := cmp.Diff(map[string]int64{"qp": 2, "mr": 10}, res.Left); d != "" {
		t.Error(d)
	}
}

func TestAddResources(t *testing.T) {
	attr := func(kind uint16, v []byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(v)))
		b = append(binary.NativeEndian.AppendUint16(b, kind), v...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		return b
	}
	entry := func(name string, n uint64, more ...byte) []byte {
		b := attr(nl.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, append([]byte(name), 0))
		b = append(b, attr(nl.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, binary.NativeEndian.AppendUint64(nil, n))...)
		return attr(nl.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY|unix.NLA_F_NESTED, append(b, more...))
	}
	// An attribute of a newer kernel beside the known ones.
	newer := attr(118, []byte{1, 0, 0, 0})
	msg := attr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, []byte{0, 0, 0, 0})
	msg = append(msg, attr(nl.RDMA_NLDEV_ATTR_RES_SUMMARY|unix.NLA_F_NESTED, append(entry("qp", 3), entry("cm_id", 5, newer...)...))...)
	m := map[string]int64{}
	addResources(m, msg)
	addResources(m, msg)
	if d := cmp.Diff(map[string]int64{"qp": 6, "cm_id": 10}, m); d != "" {
		t.Error(d)
	}
	for n := range msg {
		addResources(map[string]int64{}, msg[:n]) // cut short anywhere
	}
}

func TestFio(t *testing.T) {
	ctx := context.Background()
	if _, err := (&work{}).fio(ctx, &guestproto.Fio{Job: " "}, nil); class(err) != guestproto.ClassUsage {
		t.Errorf("an empty job: %v", err)
	}
	if _, err := fakeRoot(t, nil).fio(ctx, &guestproto.Fio{Job: "[x]"}, nil); class(err) != guestproto.ClassSetup || !strings.Contains(err.Error(), "no fio") {
		t.Errorf("without fio: %v", err)
	}
}

// Cells with other seeds have other contents in files of the same sizes, or
// their RPCs could not be compared.
func TestSmallFileSizes(t *testing.T) {
	a, b := guestproto.Files{MinSize: 1, MaxSize: 8192, Seed: 1}, guestproto.Files{MinSize: 1, MaxSize: 8192, Seed: 2}
	sizes := map[int64]bool{}
	for i := range 50 {
		_, n, s := smallFile(&a, i)
		_, m, u := smallFile(&b, i)
		if n != m || s == u || n < 1 || n > 8192 {
			t.Errorf("file %d: %d and %d bytes, seeds %x and %x", i, n, m, s, u)
		}
		sizes[n] = true
	}
	if len(sizes) < 40 {
		t.Errorf("only %d sizes", len(sizes))
	}
}
