// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchcheck/internal/guestd"
	"patchcheck/internal/guestproto"
)

// The test binary is its own fake QEMU: it takes QEMU's arguments, connects
// to the same sockets and plays a scenario, with the real agent's SSH server
// behind the port.
func TestMain(m *testing.M) {
	switch {
	case slices.Contains(os.Args, "-nodefaults"):
		fakeQEMU(os.Args)
		os.Exit(0)
	case slices.Contains(os.Args, "--version"):
		fmt.Println("QEMU emulator version 0.0.0 (fake)")
		os.Exit(0)
	case len(os.Args) > 1 && os.Args[1] == "boot-and-wait":
		bootAndWait(os.Args[2])
	}
	// Fake guests take no part in the admission of real ones.
	dir, err := os.MkdirTemp("", "vm-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	admitDir, waitCPUs = filepath.Join(dir, "guests"), 0
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// scenarioArg passes the scenario to the fake; QEMU has no such option.
const scenarioArg = "-fake-scenario"

func fakeQEMU(args []string) {
	after := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
			return args[i+1]
		}
		return ""
	}
	scenario := after(scenarioArg)
	sock := ""
	for i, a := range args {
		if a == "-chardev" && strings.HasPrefix(args[i+1], "socket,id=qmp,") {
			for _, o := range strings.Split(args[i+1], ",") {
				if p, ok := strings.CutPrefix(o, "path="); ok {
					sock = filepath.Dir(p)
				}
			}
		}
	}
	say := func(format string, a ...any) { fmt.Printf(format+"\r\n", a...) }
	switch scenario {
	case "bad-option":
		fmt.Fprintln(os.Stderr, "qemu-system-x86_64: -device nonsense: 'nonsense' is not a valid device model name")
		os.Exit(1)
	case "no-memory":
		fmt.Fprintln(os.Stderr, "qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory")
		os.Exit(1)
	case "kvm-internal":
		fmt.Fprintln(os.Stderr, "KVM internal error. Suberror: 3\nextra data[0]: 800000ec\nRAX=0000000000000000 RBX=0000000000000001")
		os.Exit(1)
	case "kvm-permission":
		fmt.Fprintln(os.Stderr, "qemu-system-x86_64: failed to initialize kvm: Permission denied")
		os.Exit(1)
	case "killed":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "no-connect":
		for {
			time.Sleep(time.Hour) // no empty select: without cgo the runtime calls that a deadlock
		}
	case "probe-answers":
		say("[    0.000000] Linux version")
		fmt.Print(probeMessage)
		return
	case "probe-silent":
		for {
			time.Sleep(time.Hour) // no empty select: without cgo the runtime calls that a deadlock
		}
	}
	dial := func(id string) net.Conn {
		c, err := net.Dial("unix", filepath.Join(sock, id))
		if err != nil {
			fmt.Fprintln(os.Stderr, "fake:", err)
			os.Exit(1)
		}
		return c
	}
	events, sshConn, qmp := dial(chanEvents), dial(chanSSH), dial(chanQMP)
	event := func(s string) {
		fmt.Fprintln(qmp, s)
	}
	go fakeQMP(qmp, scenario, say)

	ready := func() {
		r := guestproto.Ready{Event: "ready", Release: "7.3.4", UptimeMS: 1200}
		if scenario == "skewed" {
			r.UnixNano = time.Now().Add(time.Hour).UnixNano()
		}
		json.NewEncoder(events).Encode(r)
	}
	switch scenario {
	case "silent":
		for {
			time.Sleep(time.Hour) // no empty select: without cgo the runtime calls that a deadlock
		}
	case "stuck", "stuck-late":
		if scenario == "stuck-late" {
			time.Sleep(400 * time.Millisecond)
		}
		say("[    0.000000] Linux version 7.3.4")
		for {
			time.Sleep(time.Hour) // no empty select: without cgo the runtime calls that a deadlock
		}
	case "panic-exit":
		say("[    0.100000] Linux version 7.3.4")
		say("[    1.538002] VFS: Cannot open root device")
		say("[    1.600000][    T1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)")
		event(`{"event":"GUEST_PANICKED","data":{"action":"run"},"timestamp":{"seconds":1,"microseconds":0}}`)
		event(`{"event":"SHUTDOWN","data":{"guest":true,"reason":"guest-reset"},"timestamp":{"seconds":1,"microseconds":0}}`)
		return
	case "panic-hang":
		say("[    0.100000] Linux version 7.3.4")
		fmt.Print("[    1.600000] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000")
		for {
			time.Sleep(time.Hour) // no empty select: without cgo the runtime calls that a deadlock
		}
	case "oom-boot":
		say("[    1.500000] Initramfs unpacking failed: write error")
		say("[    1.600000] Kernel panic - not syncing: System is deadlocked on memory")
		return
	case "reset":
		say("[    0.100000] Linux version 7.3.4")
		event(`{"event":"SHUTDOWN","data":{"guest":true,"reason":"guest-reset"},"timestamp":{"seconds":1,"microseconds":0}}`)
		return
	case "agent-fatal":
		say("[    0.100000] Linux version 7.3.4")
		say("[    1.100000] patchcheck: fatal: no virtio-serial port patchcheck.ssh")
		return
	case "bad-ready":
		fmt.Fprintln(events, "hello")
		for {
			time.Sleep(time.Hour) // no empty select: without cgo the runtime calls that a deadlock
		}
	case "endless-ready":
		for {
			if _, err := events.Write(bytes.Repeat([]byte("x"), 4096)); err != nil {
				return
			}
		}
	case "mute":
		ready()
		for {
			time.Sleep(time.Hour) // no empty select: without cgo the runtime calls that a deadlock
		}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}

	initrd, err := os.ReadFile(after("-initrd"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		os.Exit(1)
	}
	pem := initrd[bytes.Index(initrd, []byte("-----BEGIN OPENSSH PRIVATE KEY-----")):]
	const end = "-----END OPENSSH PRIVATE KEY-----\n"
	pem = pem[:bytes.Index(pem, []byte(end))+len(end)]
	authorized := initrd[bytes.Index(initrd, []byte("ssh-ed25519 ")):]
	authorized = authorized[:bytes.IndexByte(authorized, '\n')+1]

	reg := &guestd.Registry{}
	reg.Register("echo", func(_ context.Context, req json.RawMessage, log func(string)) (any, error) {
		log("echoing")
		return req, nil
	})
	reg.Register("fail", func(context.Context, json.RawMessage, func(string)) (any, error) {
		return map[string]int{"n": 3}, &guestproto.Error{Class: guestproto.ClassKernel, Message: "mount refused", Errno: "EIO"}
	})
	reg.Register("crash", func(context.Context, json.RawMessage, func(string)) (any, error) { panic("a bug") })
	reg.Register("die", func(context.Context, json.RawMessage, func(string)) (any, error) { os.Exit(0); return nil, nil })
	reg.Register("oops", func(context.Context, json.RawMessage, func(string)) (any, error) {
		say("[   12.000000] Kernel panic - not syncing: Fatal exception")
		event(`{"event":"GUEST_PANICKED","data":{"action":"run"},"timestamp":{"seconds":1,"microseconds":0}}`)
		os.Exit(0)
		return nil, nil
	})
	reg.Register("oops-hang", func(context.Context, json.RawMessage, func(string)) (any, error) {
		say("[   12.000000] Kernel panic - not syncing: Fatal exception in interrupt")
		// The SSH server stops answering as well.
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		for {
			time.Sleep(time.Hour) // no empty select: without cgo the runtime calls that a deadlock
		}
	})
	reg.Register("fake-panic-text", func(context.Context, json.RawMessage, func(string)) (any, error) {
		say("[   12.000000] Kernel panic - not syncing: just a text")
		return nil, nil
	})
	reg.Register("oom", func(context.Context, json.RawMessage, func(string)) (any, error) {
		say("[   61.790000] Out of memory: Killed process 412 (fio) total-vm:812340kB")
		say("[   62.000000] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000009")
		os.Exit(0)
		return nil, nil
	})
	reg.Register("agent-crash", func(context.Context, json.RawMessage, func(string)) (any, error) {
		say("panic: assignment to entry in nil map")
		say("goroutine 12 [running]:")
		say("[   62.000000] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000200")
		os.Exit(0)
		return nil, nil
	})
	reg.Register("hang", func(context.Context, json.RawMessage, func(string)) (any, error) {
		for {
			time.Sleep(time.Hour) // no empty select: without cgo the runtime calls that a deadlock
		}
	})
	reg.Register("close", func(context.Context, json.RawMessage, func(string)) (any, error) {
		sshConn.Close()
		for {
			time.Sleep(time.Hour) // no empty select: without cgo the runtime calls that a deadlock
		}
	})
	// What a kernel may answer that wants to harm the host.
	reg.Register("flood", func(_ context.Context, _ json.RawMessage, log func(string)) (any, error) {
		for line := strings.Repeat("x", 1<<20); ; {
			log(line)
		}
	})
	reg.Register("wrong-type", func(context.Context, json.RawMessage, func(string)) (any, error) {
		return map[string]string{"n": "1e999"}, nil
	})
	reg.Register("nasty", func(context.Context, json.RawMessage, func(string)) (any, error) {
		return nil, &guestproto.Error{Class: "\x1b]0;owned\x07", Message: "::error::done\n\x1b[2J\u202e", Errno: "../../etc"}
	})
	srv, err := guestd.NewServer(pem, authorized, reg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		os.Exit(1)
	}
	srv.Dir = os.TempDir()
	say("[    0.100000] Linux version 7.3.4")
	say("[    1.100000] patchcheck: init started")
	ready()
	srv.Serve(sshConn)
	if scenario == "stubborn" || scenario == "linger" {
		for {
			time.Sleep(time.Hour) // no empty select: without cgo the runtime calls that a deadlock
		}
	}
}

// fakeQMP speaks enough of the protocol.
func fakeQMP(c net.Conn, scenario string, say func(string, ...any)) {
	fmt.Fprintln(c, `{"QMP":{"version":{"qemu":{"micro":22,"minor":2,"major":7},"package":""},"capabilities":["oob"]}}`)
	for sc := bufio.NewScanner(c); sc.Scan(); {
		var cmd struct {
			Execute string `json:"execute"`
			ID      string `json:"id"`
		}
		if json.Unmarshal(sc.Bytes(), &cmd) != nil {
			continue
		}
		if cmd.Execute == "quit" && scenario == "stubborn" {
			continue
		}
		if cmd.Execute == "inject-nmi" {
			say("[   30.000000] NMI backtrace for cpu 0")
		}
		fmt.Fprintf(c, `{"return":{},"id":%q}`+"\n", cmd.ID)
		if cmd.Execute == "quit" {
			os.Exit(0)
		}
	}
}

// fakeConfig is a guest of the fake QEMU. Limits are generous, so that a busy
// host does not change an outcome, but for the one that the scenario is about.
func fakeConfig(t testing.TB, scenario string) Config {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "bzImage")
	if err := os.WriteFile(file, []byte("kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := Limits{QEMUStart: time.Minute, FirstByte: time.Minute, Silence: time.Minute, Boot: 2 * time.Minute, SSH: time.Minute, Death: 300 * time.Millisecond}
	const soon = 300 * time.Millisecond
	switch scenario {
	case "silent":
		l.FirstByte = soon
	case "stuck":
		l.Silence = soon
	case "stuck-late": // the limit for the first byte is no longer in force
		l.Silence, l.FirstByte = soon, time.Hour
	case "mute":
		l.SSH = soon
	case "no-connect":
		l.QEMUStart = soon
	}
	return Config{
		QEMU: os.Args[0], Kernel: file, Initrds: []string{file}, MemMiB: 64, StateDir: filepath.Join(dir, "state"),
		Args: []string{scenarioArg, scenario}, Limits: l,
	}
}

// bootAndWait is the parent that gets killed: it boots a fake guest, prints
// QEMU's process id and waits for its end.
func bootAndWait(dir string) {
	file := filepath.Join(dir, "bzImage")
	os.WriteFile(file, []byte("kernel"), 0o644)
	g, err := Boot(context.Background(), Config{QEMU: os.Args[0], Kernel: file, Initrds: []string{file}, MemMiB: 64, StateDir: dir, Args: []string{scenarioArg, "linger"}})
	if err != nil {
		fmt.Println(errors.Unwrap(err), err)
		os.Exit(1)
	}
	fmt.Println(g.PID())
	<-g.Died()
	os.Exit(0)
}
