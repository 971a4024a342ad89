// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]Target{
		"ssh://server":             {Host: "server", Port: "22"},
		"server":                   {Host: "server", Port: "22"},
		"ssh://root@server:2222":   {User: "root", Host: "server", Port: "2222"},
		"ssh://root@[fe80::1]:22/": {User: "root", Host: "fe80::1", Port: "22"},
		"192.0.2.1":                {Host: "192.0.2.1", Port: "22"},
	} {
		got, err := ParseTarget(in)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
		if again, err := ParseTarget(got.String()); err != nil || again != got {
			t.Errorf("%q becomes %q: %+v, %v", in, got, again, err)
		}
	}
	for _, bad := range []string{"", "ssh://", "http://server", "ssh://server/path", "ssh://a:b@server", "ssh://-oProxyCommand=x", "ssh://server?x", "a b"} {
		if got, err := ParseTarget(bad); err == nil {
			t.Errorf("%q is taken for %+v", bad, got)
		}
	}
}

func TestHostKeys(t *testing.T) {
	me, priv := ed25519Key(t)
	host, _ := ed25519Key(t)
	other, _ := ed25519Key(t)
	rsa := rsaKey(t)
	m := newMachine(t, me.PublicKey(), []ssh.Signer{rsa, host}, func(string, string) (string, int) { return "hello", 0 })
	id := identityFile(t, priv, "")
	for _, c := range []struct {
		name    string
		lines   []string
		changed bool
		want    string // "" lets us in
	}{
		{"known", []string{known(m.addr, host.PublicKey())}, false, ""},
		{"hashed", []string{knownhosts.HashHostname(knownhosts.Normalize(m.addr)) + " " + strings.SplitN(known(m.addr, host.PublicKey()), " ", 2)[1]}, false, ""},
		{"only its RSA key", []string{known(m.addr, rsa.PublicKey())}, false, ""},
		{"unknown", nil, false, "is not in"},
		{"another machine's key", []string{known("192.0.2.9:22", host.PublicKey())}, false, "is not in"},
		{"changed", []string{known(m.addr, other.PublicKey())}, true, "another host key"},
		{"revoked", []string{"@revoked " + known(m.addr, host.PublicKey()), known(m.addr, host.PublicKey())}, false, "revoked"},
	} {
		h, err := Dial(context.Background(), m.target(t), Options{KnownHosts: []string{knownFile(t, c.lines...)}, Identities: []string{id}, AgentSock: "none"})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if out, err := h.Run(context.Background(), "", "say"); err != nil || out != "hello" {
				t.Errorf("%s: %q, %v", c.name, out, err)
			}
			h.Close()
			continue
		}
		if err == nil {
			h.Close()
			t.Errorf("%s: let in", c.name)
			continue
		}
		var hk *HostKeyError
		if !strings.Contains(err.Error(), c.want) || c.name != "revoked" && (!errors.As(err, &hk) || hk.Changed != c.changed || !strings.HasPrefix(hk.Fingerprint, "SHA256:")) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// No file at all knows no machine.
	_, err := Dial(context.Background(), m.target(t), Options{KnownHosts: []string{filepath.Join(t.TempDir(), "none")}, Identities: []string{id}, AgentSock: "none"})
	var hk *HostKeyError
	if !errors.As(err, &hk) {
		t.Errorf("no known_hosts: %v", err)
	}
}

func TestAuth(t *testing.T) {
	me, priv := ed25519Key(t)
	_, stranger := ed25519Key(t)
	host, _ := ed25519Key(t)
	m := newMachine(t, me.PublicKey(), []ssh.Signer{host}, func(string, string) (string, int) { return "", 0 })
	opt := Options{KnownHosts: []string{knownFile(t, known(m.addr, host.PublicKey()))}, AgentSock: "none"}

	sock := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: priv}); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(ring, c)
		}
	}()
	o := opt
	o.AgentSock, o.Identities = sock, []string{identityFile(t, stranger, "")}
	h, err := Dial(context.Background(), m.target(t), o)
	if err != nil {
		t.Fatalf("by agent: %v", err)
	}
	h.Close()

	for name, id := range map[string]string{
		"tried":        identityFile(t, stranger, ""),
		"passphrase":   identityFile(t, priv, "secret"),
		"cannot be re": filepath.Join(t.TempDir(), "none"),
	} {
		o := opt
		o.Identities = []string{id}
		_, err := Dial(context.Background(), m.target(t), o)
		var ae *AuthError
		if !errors.As(err, &ae) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMuteMachine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = Dial(ctx, Target{User: "x", Host: host, Port: port}, Options{KnownHosts: []string{knownFile(t)}, AgentSock: "none"})
	if err == nil || !strings.Contains(err.Error(), "does not finish") {
		t.Errorf("%v", err)
	}
	l.Close()
	if _, err = Dial(context.Background(), Target{User: "x", Host: host, Port: port}, Options{KnownHosts: []string{knownFile(t)}, AgentSock: "none"}); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("%v", err)
	}
}
