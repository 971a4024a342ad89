// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"patchcheck/internal/bench"
	"patchcheck/testplans"
)

// note is an ELF note.
func note(name string, typ uint32, desc []byte) []byte {
	pad := func(b []byte) []byte {
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		return b
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(name)+1))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
	b = binary.LittleEndian.AppendUint32(b, typ)
	b = append(b, pad([]byte(name+"\x00"))...)
	return append(b, pad(slices.Clone(desc))...)
}

func TestBuildID(t *testing.T) {
	id := []byte{0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6}
	notes := append(note("Xen", 6, []byte("linux")), note("GNU", 3, id)...)
	if got := buildID(notes); got != "deadbeef010203040506" {
		t.Errorf("build id %q", got)
	}
	for _, bad := range [][]byte{nil, notes[:7], notes[:20], note("GNU", 1, id), {255, 255, 255, 255, 255, 255, 255, 255, 3, 0, 0, 0, 1}} {
		if got := buildID(bad); got != "" {
			t.Errorf("% x: %q", bad, got)
		}
	}
}

func FuzzParseFacts(f *testing.F) {
	f.Add("release 7.3.4\nboot_id x\nlink a|1|4: ACTIVE|100 Gb/sec|Ethernet|eth0\n")
	f.Add("notes " + base64.StdEncoding.EncodeToString(note("GNU", 3, []byte{1, 2})))
	f.Fuzz(func(t *testing.T, s string) {
		facts, err := parseFacts(s)
		if err == nil && (facts.Release == "" || facts.BootID == "") {
			t.Error("facts that name no kernel")
		}
	})
}

// The script has to work in the shells that machines have.
func TestFactsScript(t *testing.T) {
	for _, sh := range [][]string{{"sh", "-s"}, {"bash", "-s"}, {"busybox", "sh", "-s"}} {
		if _, err := exec.LookPath(sh[0]); err != nil {
			continue
		}
		cmd := exec.Command(sh[0], sh[1:]...)
		cmd.Stdin = strings.NewReader(factsScript)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%v: %v", sh, err)
			continue
		}
		f, err := parseFacts(string(out))
		if err != nil || f.Arch == "" || f.CPUs == 0 || f.MemMiB == 0 {
			t.Errorf("%v: %v, %+v", sh, err, f)
		}
	}
}

// pair is a server and a client that answer as ready machines do.
type pair struct {
	server, client *machine
	build, boot    string // of the server's kernel
	links          string
	extra          string                    // further facts
	fail           string                    // a command that fails when it holds this
	said           string                    // on standard error, by what fails
	after          func(facts string) string // further facts, once something failed
	opt            Options
}

func (p *pair) facts() string {
	return "release 7.3.4\nversion #1 SMP\narch x86_64\ncpu Test CPU\ncpus 4\nmem 8000000\nuid 0\n" + p.links + p.extra
}

const fioOut = `{"fio version":"fio-3.36","jobs":[{"jobname":"a","error":0,"write":{"io_bytes":8192000,"total_ios":2000,"runtime":18,"clat_ns":{"min":1,"max":9,"mean":%d,"N":2000}}}]}`

func newPair(t *testing.T) *pair {
	t.Helper()
	me, priv := ed25519Key(t)
	host, _ := ed25519Key(t)
	p := &pair{said: "it does not work", build: "aa", boot: "boot-1", links: "link mlx5_0|1|4: ACTIVE|100 Gb/sec (4X EDR)|Ethernet|eth0\n",
		extra: "threads 8\nportlist read\nport rdma 20049\nport tcp 2049\ntool exportfs /usr/sbin/exportfs\ntool rpc.nfsd /usr/sbin/rpc.nfsd\ntool mount.nfs /sbin/mount.nfs\ntool fio /usr/bin/fio\nfio fio-3.36\n"}
	notes := func(id string) string {
		return "notes " + base64.StdEncoding.EncodeToString(note("GNU", 3, []byte(strings.Repeat(id, 10)))) + "\n"
	}
	answer := func(server bool) func(command, stdin string) (string, int) {
		return func(c, stdin string) (string, int) {
			switch {
			case p.fail != "" && strings.Contains(c, p.fail):
				if p.after != nil {
					p.extra = p.after(p.extra)
				}
				return p.said, 1
			case c == "sh -s" && server:
				return p.facts() + notes(p.build) + "boot_id " + p.boot + "\n", 0
			case c == "sh -s":
				return p.facts() + notes("cc") + "boot_id client-boot\n", 0
			case strings.Contains(c, "route get"):
				return "192.0.2.1 dev eth0 src 192.0.2.2 uid 0 \\    cache\n", 0
			case strings.Contains(c, "mktemp") && server:
				return "/run/patchcheck-export.Ab12Cd\n", 0
			case strings.Contains(c, "mktemp"):
				return "/run/patchcheck-mnt.Ab12Cd\n", 0
			case strings.Contains(c, "mountstats"):
				return "device 192.0.2.1:/x mounted on /run/patchcheck-mnt.Ab12Cd with fstype nfs statvers=1.1\n\topts:\trw,vers=3,proto=rdma\n\txprt:\trdma 0 0 1\n", 0
			case strings.Contains(c, "exec fio"):
				mean := 5000 + len(p.client.commands())
				return fmt.Sprintf(fioOut, mean), 0
			}
			return "", 0
		}
	}
	p.server = newMachine(t, me.PublicKey(), []ssh.Signer{host}, answer(true))
	p.client = newMachine(t, me.PublicKey(), []ssh.Signer{host}, answer(false))
	p.opt = Options{KnownHosts: []string{knownFile(t, known(p.server.addr, host.PublicKey()), known(p.client.addr, host.PublicKey()))},
		Identities: []string{identityFile(t, priv, "")}, AgentSock: "none"}
	return p
}

func (p *pair) booter(t *testing.T, dir string) *Booter {
	t.Helper()
	plan, err := testplans.Load("nfs-latency")
	if err != nil {
		t.Fatal(err)
	}
	b := &Booter{Plan: plan, Server: p.server.target(t), Client: p.client.target(t), Options: p.opt, Address: "192.0.2.1", Record: &bench.Experiment{Schema: bench.Schema,
		Arms: []bench.Arm{{Name: bench.Base}, {Name: bench.Patched}}, Jobs: []bench.Job{{Name: "randwrite-qd1", Kind: "fio", Text: "x"}, {Name: "counted", Kind: "fio, counted", Text: "x"}}}}
	b.Describe()
	if err := b.Record.Prepare(dir, bench.Design{Boots: 3, Runs: 1, Warmup: 1, Noise: Quiet}); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConductTwoMachines(t *testing.T) {
	p := newPair(t)
	b := p.booter(t, t.TempDir())
	asked := 0
	kept := 0
	b.Keep = func(n int, arm string, server, client Facts) error { kept++; return nil }
	b.Ask = func(ctx context.Context, text string) error {
		asked++
		if asked > 50 {
			t.Fatalf("asked again and again: %s", text)
		}
		p.boot = fmt.Sprintf("boot-%d", asked+1)
		p.build = "aa"
		if strings.Contains(text, `arm "patched"`) {
			p.build = "bb"
		}
		return nil
	}
	if err := b.Conduct(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	e := b.Record
	if len(e.Boots) != 6 || kept != 6 || e.Arms[0].Key == e.Arms[1].Key || e.Arms[0].Key == "" {
		t.Errorf("%d boots, %d kept, arms %+v", len(e.Boots), kept, e.Arms)
	}
	if asked < 5 {
		t.Errorf("asked %d times for 6 boots: a boot was counted twice", asked)
	}
	if len(e.Jobs) != 1 || e.Hosts[0].Link != "mlx5_0/1 100 Gb/sec (4X EDR) on eth0" || e.Hosts[1].Role != "client" || e.Accel.Name != "none" || e.Versions["fio"] != "fio-3.36" {
		t.Errorf("jobs %v, hosts %+v, accelerator %+v, %v", e.Jobs, e.Hosts, e.Accel, e.Versions)
	}
	if _, err := bench.Analyse(e); err != nil {
		t.Error(err)
	}
	// What was made is taken back, in reverse order, each time.
	for _, m := range []struct {
		m         *machine
		made, end string
	}{{p.server, "mount -t tmpfs", "umount /run/patchcheck-export"}, {p.server, "exportfs -o", "exportfs -u 192.0.2.2:/run/"}, {p.client, "mount -t nfs", "umount /run/patchcheck-mnt"}} {
		made, end := 0, 0
		for _, c := range m.m.commands() {
			if strings.Contains(c, m.made) {
				made++
			}
			if strings.Contains(c, m.end) {
				end++
			}
		}
		if made != 6 || end != 6 {
			t.Errorf("%s %d times, %s %d times", m.made, made, m.end, end)
		}
	}
	if !slices.ContainsFunc(p.client.commands(), func(c string) bool {
		return strings.Contains(c, "vers=3,proto=rdma,port=20049,nolock 192.0.2.1:/run/patchcheck-export")
	}) {
		t.Errorf("mount: %q", p.client.commands())
	}
}

// Without anybody to ask, an experiment waits for the boot to be made.
func TestNeedsBoot(t *testing.T) {
	p := newPair(t)
	dir := t.TempDir()
	b := p.booter(t, dir)
	step := func(build, boot, arm, want string, boots int) {
		t.Helper()
		p.build, p.boot, b.Arm = build, boot, arm
		err := b.Conduct(context.Background(), nil)
		var nb *NeedsBootError
		if !errors.As(err, &nb) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if n := len(b.Record.Boots); n != boots {
			t.Fatalf("%d boots, want %d: %+v", n, boots, b.Record.Boots)
		}
	}
	step("aa", "boot-1", "", "say so with --arm", 0)
	step("aa", "boot-1", "patched", "arm \"base\"", 1)
	if b.Record.Boots[0].Arm != "patched" || b.Record.Boots[0].Rejected != "" {
		t.Errorf("%+v", b.Record.Boots[0])
	}
	step("aa", "boot-2", "base", "that is the patched arm", 1) // the same kernel, freshly booted
	step("bb", "boot-3", "base", "next boot", 2)
	step("dd", "boot-4", "base", "was measured with", 2)
	// From now on kernels tell for themselves.
	next := map[string]string{"base": "bb", "patched": "aa"}
	n := 2
	for i := range 4 {
		arm := ""
		for _, pl := range b.Record.Order {
			done := slices.ContainsFunc(b.Record.Boots, func(x bench.Boot) bool { return x.Block == pl.Block && x.Arm == pl.Arm })
			if !done {
				arm = pl.Arm
				break
			}
		}
		n++
		p.build, p.boot, b.Arm = next[arm], fmt.Sprintf("later-%d", i), ""
		err := b.Conduct(context.Background(), nil)
		if len(b.Record.Boots) != n {
			t.Fatalf("%d boots, want %d: %v", len(b.Record.Boots), n, err)
		}
	}
	if b.Record.Stop.Reason != bench.StopBoots {
		t.Errorf("%+v", b.Record.Stop)
	}
}

func TestMissing(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(p *pair)
		want []string
	}{
		{"tools", func(p *pair) {
			p.extra = strings.NewReplacer("tool fio /usr/bin/fio\n", "", "tool exportfs /usr/sbin/exportfs\n", "").Replace(p.extra)
		}, []string{"has no fio", "has no exportfs", "nfs-kernel-server", "nothing was changed"}},
		{"no device", func(p *pair) { p.links = "" }, []string{"no RDMA device"}},
		{"port down", func(p *pair) { p.links = strings.Replace(p.links, "4: ACTIVE", "1: DOWN", 1) }, []string{"no RDMA port is active"}},
		{"no nfsd", func(p *pair) { p.extra = strings.Replace(p.extra, "threads 8", "threads 0", 1) }, []string{"nfsd does not run"}},
		{"no listener", func(p *pair) { p.extra = strings.Replace(p.extra, "port rdma 20049\n", "", 1) }, []string{"nfsd has no rdma listener (20049 wanted)", "echo 'rdma 20049' > /proc/fs/nfsd/portlist"}},
		{"other port", func(p *pair) { p.extra = strings.Replace(p.extra, "port rdma 20049\n", "port rdma 20050\n", 1) }, []string{"nfsd listens for rdma on port 20050, not on 20049"}},
		{"no root", func(p *pair) { p.extra += "uid 1000\n" }, []string{"need root"}},
	} {
		p := newPair(t)
		c.edit(p)
		b := p.booter(t, "")
		b.Arm = bench.Base
		err := b.Conduct(context.Background(), nil)
		var me *MissingError
		if !errors.As(err, &me) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in: %v", c.name, w, err)
			}
		}
		for _, m := range []*machine{p.server, p.client} {
			for _, cmd := range m.commands() {
				if cmd != "sh -s" {
					t.Errorf("%s: ran %s", c.name, cmd)
				}
			}
		}
	}
}

// A set-up that fails half way leaves nothing behind.
func TestSetUpFails(t *testing.T) {
	for _, fail := range []string{"mount -t tmpfs", "exportfs -o", "mount -t nfs", "exec fio"} {
		p := newPair(t)
		p.fail = fail
		b := p.booter(t, "")
		b.Arm = bench.Base
		_, err := b.Boot(context.Background(), bench.Base, 1)
		var ce *CommandError
		if !errors.As(err, &ce) || !strings.Contains(err.Error(), "it does not work") {
			t.Errorf("%s: %v", fail, err)
		}
		count := func(m *machine, s string) (n int) {
			for _, c := range m.commands() {
				if strings.Contains(c, s) {
					n++
				}
			}
			return n
		}
		if count(p.server, "rmdir") != 1 || count(p.server, "umount /run/patchcheck-export") != count(p.server, "mount -t tmpfs")-map[bool]int{true: 1}[fail == "mount -t tmpfs"] {
			t.Errorf("%s: the server keeps something: %q", fail, p.server.commands())
		}
		if count(p.client, "mktemp") != count(p.client, "rmdir") {
			t.Errorf("%s: the client keeps something: %q", fail, p.client.commands())
		}
	}
}

// A mount that fails is explained by the facts of both machines; those that
// cannot be read are not blamed.
func TestWhyNoMount(t *testing.T) {
	const refused = "mount.nfs: Protocol not supported"
	const fine = "versions +3 +4.1\nrpcrdma yes\n"
	add := func(facts string) func(string) string { return func(s string) string { return s + facts } }
	without := func(lines ...string) func(string) string {
		return func(s string) string {
			for _, l := range lines {
				s = strings.Replace(s, l+"\n", "", 1)
			}
			return s
		}
	}
	for _, c := range []struct {
		name, said string
		after      func(string) string // the facts after the mount was tried
		want       string
		forUser    bool
	}{
		{"client module", refused, add("versions +3\nrpcrdma no\n"), "client module: the client's kernel has no RPC-over-RDMA transport", true},
		{"portlist", refused, without("port rdma 20049"), "server portlist: nfsd has no rdma listener", true},
		{"version", refused, add("versions -3 +4 +4.1\nrpcrdma yes\n"), "version: the server does not serve NFSv3 (it has -3 +4 +4.1)", true},
		{"nothing can be read", refused, without("portlist read", "port rdma 20049", "port tcp 2049"), "the cause cannot be told: not read: client module, server portlist, server versions", true},
		{"only the listener can be read", refused, nil, "the cause cannot be told: not read: client module, server versions", true},
		{"many addresses", refused, add(fine + "port rdma 20049\nport rdma 20049\nport rdma 20049\n"), "client module, server portlist and versions allow NFSv3 over rdma, yet the mount was refused", false},
		{"export", "mount.nfs: access denied by server while mounting 192.0.2.1:/x", add(fine), "the server's exports do not allow this client", true},
		{"time", "mount.nfs: Connection timed out", add(fine), "the server accepted nothing in time", false},
		{"nothing known", "it does not work", add(fine), "", false},
	} {
		p := newPair(t)
		p.fail, p.said, p.after = "mount -t nfs", c.said, c.after
		b := p.booter(t, "")
		b.Arm = bench.Base
		_, err := b.Boot(context.Background(), bench.Base, 1)
		var ce *CommandError
		if !errors.As(err, &ce) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.said) || ForUser(err) != c.forUser {
			t.Errorf("%s: want %q, and %q kept, for the user %v: %v", c.name, c.want, c.said, c.forUser, err)
		}
		var me *MountError
		if errors.As(err, &me) != (c.want != "") {
			t.Errorf("%s: %#v", c.name, err)
		}
	}
	// What only the user can change is not tried again.
	p := newPair(t)
	p.fail, p.said, p.after = "mount -t nfs", refused, add("versions -3\nrpcrdma yes\n")
	b := p.booter(t, t.TempDir())
	b.Arm = bench.Base
	err := b.Conduct(context.Background(), nil)
	var me *MountError
	if !errors.As(err, &me) || len(b.Record.Boots) != 0 {
		t.Errorf("%v, boots %+v", err, b.Record.Boots)
	}
}
