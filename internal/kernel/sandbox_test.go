// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchcheck/internal/proc"
)

// confined runs a shell script as a build would be run, with one folder to
// write to, which is its working folder.
func confined(t *testing.T, script string) (string, string, error) {
	t.Helper()
	needSandbox(t)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	res, err := FindSandbox(ctx).run(ctx, nil, []string{dir}, (&Toolchain{ccPath: "/usr/bin/gcc"}).env(),
		proc.Cmd{Argv: []string{"/bin/sh", "-c", script}, Dir: dir, Merge: true, MaxOutput: 1 << 20})
	return string(res.Stdout), dir, err
}

// TestSandboxHolds: what a Makefile, a host program or a script of the tree
// may try. Each script prints GOT when it reached what it must not.
func TestSandboxHolds(t *testing.T) {
	needSandbox(t)
	home := t.TempDir()
	secret := filepath.Join(home, ".ssh", "id_ed25519")
	os.MkdirAll(filepath.Dir(secret), 0o700)
	if err := os.WriteFile(secret, []byte("private key"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	for _, k := range []string{"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "DB_PASSWORD"} {
		t.Setenv(k, "canary")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reached := make(chan struct{}, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
			reached <- struct{}{}
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	abstract, err := net.Listen("unix", fmt.Sprintf("@patchcheck-test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	py := func(code string) string { return "python3 -c '" + code + "' && echo GOT" }

	for name, script := range map[string]string{
		"a key in the home folder":    "cat " + secret + " ~/.ssh/* && echo GOT",
		"folders of other users":      "ls /home/* /root/.[a-z]* && echo GOT",
		"the environment":             "env | grep canary && echo GOT",
		"our environment by /proc":    "cat /proc/*/environ | grep -a canary && echo GOT",
		"accounts":                    "cat /etc/passwd /etc/shadow && echo GOT",
		"the network":                 py(`import socket; socket.create_connection(("127.0.0.1", ` + port + `), 2)`),
		"a socket without a name":     py(`import socket; s = socket.socket(socket.AF_UNIX); s.connect("\0patchcheck-test-` + fmt.Sprint(os.Getpid()) + `")`),
		"interfaces":                  "grep -v -e lo: -e '|' /proc/net/dev && echo GOT",
		"processes outside":           fmt.Sprintf("kill -0 %d && echo GOT", os.Getpid()),
		"other processes by /proc":    "ls -d /proc/[0-9]* | grep -c . | grep -qv '^[1-9]$' && echo GOT",
		"tracing":                     py(`import ctypes, os; l = ctypes.CDLL(None, use_errno=True); assert l.ptrace(16, os.getppid(), 0, 0) == 0`),
		"the system's software":       "touch /usr/bin/planted && echo GOT",
		"read-only made writable":     "mount -o remount,rw,bind /usr && echo GOT; touch /usr/planted && echo GOT",
		"the root":                    "touch /planted && echo GOT",
		"a folder beside its own":     "touch ../planted",
		"another namespace":           "unshare -Ur true && echo GOT",
		"another namespace, by hand":  py(`import ctypes; l = ctypes.CDLL(None); assert l.unshare(0x10000000) == 0`),
		"a device":                    "mknod disk b 254 0 && echo GOT",
		"a disk":                      "ls /dev/vd* /dev/sd* /dev/nvme* /dev/kvm /dev/mem && echo GOT",
		"a set-user-ID program":       "cp /bin/sh sh && chown 0:0 sh && echo GOT",
		"privileges":                  "grep -E '^Cap(Prm|Eff|Bnd|Amb):.*[1-9a-f]' /proc/self/status && echo GOT",
		"the kernel's keys":           py(`import ctypes; l = ctypes.CDLL(None); assert l.syscall(250, 6, -3, 0, 0, 0) >= 0`),
		"the kernel's log":            py(`import ctypes; l = ctypes.CDLL(None); b = ctypes.create_string_buffer(4096); assert l.klogctl(3, b, 4096) >= 0`),
		"system settings":             "cat /proc/sys/kernel/randomize_va_space > v; cat v > /proc/sys/kernel/randomize_va_space && echo GOT",
		"magic keys":                  "echo h > /proc/sysrq-trigger && echo GOT",
		"sysfs":                       "ls /sys/class && echo GOT",
		"control groups":              "ls /sys/fs/cgroup/* && echo GOT",
		"the message bus":             "ls /run/* /var/run/* && echo GOT",
		"shared memory of the host":   "ls -A /dev/shm | grep . && echo GOT",
		"the other's terminal":        "echo x > /dev/tty && echo GOT",
		"a link out, read by us":      "ln -s " + secret + " .config && exit 0",
		"files larger than the limit": "truncate -s 9G big && echo GOT",
		"a core file":                 "ulimit -c | grep -qx 0 || echo GOT",
	} {
		out, dir, _ := confined(t, script)
		if strings.Contains(out, "GOT") || strings.Contains(out, "canary") || strings.Contains(out, "private key") {
			t.Errorf("%s was reached: %s", name, out)
		}
		if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), "planted")); err == nil {
			t.Errorf("%s: a file was made beside the folder", name)
		}
		w := &Workspace{Obj: dir}
		if b, err := w.readObj(".config", 1<<20); err == nil {
			t.Errorf("%s: %q was read through a link", name, b)
		}
	}
	select {
	case <-reached:
		t.Error("a connection came out of the sandbox")
	default:
	}
	for _, p := range []string{"/usr/bin/planted", "/usr/planted", "/planted"} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s was written", p)
			os.Remove(p)
		}
	}
}

// TestSandboxIsUsable: what builds do need is there.
func TestSandboxIsUsable(t *testing.T) {
	out, dir, err := confined(t, `echo "int main(void){return 0;}" > a.c && gcc -o a a.c && ./a && mkfifo p && ln a.c b.c && echo x > /tmp/t && echo x > /dev/null && echo y > /dev/shm/x && test -r /proc/self/status && nproc > /dev/null && python3 -c "import multiprocessing as m; m.Lock()" && echo fine`)
	if err != nil || !strings.Contains(out, "fine") {
		t.Errorf("%v: %s", err, out)
	}
	fi, err := os.Stat(filepath.Join(dir, "a"))
	if err != nil || fi.Mode().Perm()&0o400 == 0 {
		t.Errorf("what it wrote is %v, %v", fi, err)
	}
}

// TestSandboxLimits: what grows without end is ended, and told.
func TestSandboxLimits(t *testing.T) {
	needSandbox(t)
	old := limits
	defer func() { limits = old }()
	limits.procs, limits.output, limits.disk, limits.inodes, limits.memory, limits.every = 60, 4<<20, 64<<20, 2000, 128<<20, 20*time.Millisecond
	for _, c := range []struct {
		name, script, want string
		host               bool
	}{
		{"output", "yes '::error::flood'", "printed more than", false},
		{"output without a line end", "cat /dev/zero", "printed more than", false},
		{"disk", "for i in 1 2 3 4 5 6 7 8 9; do dd if=/dev/zero of=f$i bs=1M count=32 2>/dev/null; done; sleep 100", "wrote ", false},
		{"files", `python3 -c 'for i in range(3000): open("f%d" % i, "w").close()'; sleep 100`, "files", false},
		{"processes", "f() { f | f & }; f; sleep 100", "processes at once", false},
		{"processes that leave their group", `for i in $(seq 200); do setsid sleep 100 & done; sleep 100`, "processes at once", false},
		{"memory", `python3 -c 'import time; a = [bytearray(1 << 20) for i in range(400)]; time.sleep(100)'`, "of memory", true},
	} {
		_, _, err := confined(t, c.script)
		var le *LimitError
		if !errors.As(err, &le) || !strings.Contains(le.What, c.want) || le.Host != c.host {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestSandboxEnds: no process of a confined program outlives it, whatever it
// does against signals.
func TestSandboxEnds(t *testing.T) {
	needSandbox(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(context.Background())
	started := filepath.Join(dir, "started")
	go func() {
		for {
			if _, err := os.Stat(started); err == nil || ctx.Err() != nil {
				cancel(errors.New("the user said stop"))
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	mark := fmt.Sprintf("%d", 1000000000+os.Getpid())
	script := `trap "" TERM INT HUP; (trap "" TERM; setsid sleep ` + mark + `) & (setsid sh -c 'trap "" TERM; sleep ` + mark + `' &) ; touch started; while :; do sleep 1; done`
	if _, err := FindSandbox(ctx).run(ctx, nil, []string{dir}, []string{"PATH=" + systemPath}, proc.Cmd{Argv: []string{"/bin/sh", "-c", script}, Dir: dir}); err == nil {
		t.Error("an endless program ended by itself")
	}
	for range 200 { // the kernel ends the namespace just after its first process
		if len(withArgument(t, mark)) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("still there: %v", withArgument(t, mark))
}

// withArgument lists processes whose command line holds a word.
func withArgument(t *testing.T, word string) []string {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var out []string
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if a := strings.Split(string(b), "\x00"); len(a) > 1 && a[0] == "sleep" && a[1] == word {
			out = append(out, f)
		}
	}
	return out
}

// TestHostileKconfig: configuring runs a series' code as well, and is confined
// like a build.
func TestHostileKconfig(t *testing.T) {
	needSandbox(t)
	f := newFake(t)
	f.build(t, Base, nil)
	home := t.TempDir()
	secret := filepath.Join(home, "key")
	if err := os.WriteFile(secret, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	mk := readFile(t, filepath.Join(f.dir, "Makefile"))
	// The stand-in tree has no kconfig; its target does what $(shell) and
	// source do in the kernel's.
	evil := strings.Replace(mk, "\t@grep -v", "\t@cat "+secret+" /proc/self/environ /proc/1/environ > $(O)/stolen 2>&1; cp "+secret+" stolen2; echo x > "+filepath.Join(home, "planted")+"\n\t@grep -v", 1)
	evil = "-include /proc/self/environ\n-include " + secret + "\n" + evil
	t.Setenv("API_KEY", "canary")
	f.Kernel(context.Background(), f.request(t, Patched, mapOverlay{"Makefile": evil, "Kconfig": "source \"/etc/passwd\"\n"}))
	for name, c := range objectFiles(t, filepath.Join(workDir(t, f), "obj")) {
		if strings.Contains(c, "canary") {
			t.Errorf("%s has the secret", name)
		}
	}
	if _, err := os.Lstat(filepath.Join(home, "planted")); err == nil {
		t.Error("a file was planted outside")
	}
}

// TestLimitIsTold: a series that floods the log or the disk is at fault, and
// the base builds afterwards.
func TestLimitIsTold(t *testing.T) {
	needSandbox(t)
	old := limits
	defer func() { limits = old }()
	limits.output, limits.disk, limits.every = 4<<20, 32<<20, 20*time.Millisecond
	f := newFake(t)
	f.build(t, Base, nil)
	mk := readFile(t, filepath.Join(f.dir, "Makefile"))
	for name, c := range map[string]struct{ hook, want string }{
		"log":  {"yes ' CC net/a.o'", "printed more than"},
		"disk": {"for i in 1 2 3 4 5 6; do dd if=/dev/zero of=big$$$$i bs=1M count=32 2>/dev/null; done; sleep 100", "wrote"},
	} {
		evil := strings.Replace(mk, "\t@echo '  LD      vmlinux'", "\t@"+c.hook+"\n\t@echo '  LD      vmlinux'", 1)
		_, err := f.Kernel(context.Background(), f.request(t, Patched, mapOverlay{"Makefile": evil}))
		var be *BuildError
		if !errors.As(err, &be) || !strings.Contains(strings.Join(be.Lines, " "), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := f.request(t, Base, nil)
	r.Fresh = true
	if _, err := f.Kernel(context.Background(), r); err != nil {
		t.Error(err)
	}
}
