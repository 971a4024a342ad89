// SPDX-License-Identifier: Apache-2.0

// Package remote owns measurements on two machines of the user's own, an NFS
// server and a client, over SSH: it logs in, says what runs there and what is
// missing, sets an export and a mount up for the time of a measurement, and
// runs the plan's fio jobs.
//
// It installs nothing, boots nothing and changes no configuration file.
// Machines are trusted by the user's known_hosts and by nothing else. The
// package shares nothing with vm/guestssh, which trusts a key that it made for
// one guest.
package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Target is a machine as the user names it.
type Target struct {
	User string // "" is the local user
	Host string // name or address
	Port string // "22"
}

// ParseTarget reads "ssh://[USER@]HOST[:PORT]", or the same without "ssh://".
func ParseTarget(s string) (Target, error) {
	text := s
	if !strings.Contains(text, "://") {
		text = "ssh://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "ssh" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return Target{}, fmt.Errorf("%q names no machine: write ssh://[USER@]HOST[:PORT]", s)
	}
	if _, has := u.User.Password(); has {
		return Target{}, fmt.Errorf("%q holds a password: use a key, through ssh-agent or a file", u.Redacted())
	}
	t := Target{Host: u.Hostname(), Port: u.Port(), User: u.User.Username()}
	if t.Port == "" {
		t.Port = "22"
	}
	for _, part := range []string{t.Host, t.User} {
		if strings.HasPrefix(part, "-") || strings.ContainsAny(part, " \t\n'\"\\") {
			return Target{}, fmt.Errorf("%q names no machine", s)
		}
	}
	return t, nil
}

func (t Target) String() string {
	s := "ssh://"
	if t.User != "" {
		s += t.User + "@"
	}
	s += t.Host
	if strings.Contains(t.Host, ":") {
		s = strings.Replace(s, t.Host, "["+t.Host+"]", 1)
	}
	if t.Port != "22" && t.Port != "" {
		s += ":" + t.Port
	}
	return s
}

func (t Target) addr() string { return net.JoinHostPort(t.Host, t.Port) }

// Options say how machines are reached. The zero value takes what OpenSSH
// would take by default; ssh_config(5) is not read.
type Options struct {
	KnownHosts []string // default ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts
	Identities []string // private keys; default those of ~/.ssh that are there
	AgentSock  string   // default $SSH_AUTH_SOCK; "none" asks no agent
	// Dial makes the connection, for tests and proxies; default TCP.
	Dial func(ctx context.Context, t Target) (net.Conn, error)
}

// HostKeyError is a machine that is not the one known by its name, or that is
// not known at all.
type HostKeyError struct {
	Target      Target
	Fingerprint string   // of the key that it showed
	Changed     bool     // another key is known
	Files       []string // that were looked at
}

func (e *HostKeyError) Error() string {
	if e.Changed {
		return fmt.Sprintf("%s shows another host key than the one in %s: its key is now %s. Either the machine was set up anew, or someone is in between. Find out which; then remove the old key with  ssh-keygen -R %s",
			e.Target, strings.Join(e.Files, " or "), e.Fingerprint, e.Target.Host)
	}
	return fmt.Sprintf("%s is not in %s; its host key is %s. Compare that with the machine itself and log in once by hand:  ssh -p %s %s",
		e.Target, strings.Join(e.Files, " or "), e.Fingerprint, e.Target.Port, e.Target.Host)
}

// AuthError is a machine that lets us not in.
type AuthError struct {
	Target Target
	Tried  []string
	Err    error
}

func (e *AuthError) Error() string {
	s := fmt.Sprintf("%s does not let us in", e.Target)
	if len(e.Tried) == 0 {
		return s + ": there is no key to try; start ssh-agent and add one, or name a key file"
	}
	return s + fmt.Sprintf(" (tried %s): %v", strings.Join(e.Tried, ", "), e.Err)
}

func (e *AuthError) Unwrap() error { return e.Err }

// handshakeTimeout bounds connecting and logging in.
const handshakeTimeout = 30 * time.Second

// Dial logs in.
func Dial(ctx context.Context, t Target, o Options) (*Host, error) {
	if t.User == "" {
		if u, err := user.Current(); err == nil {
			t.User = u.Username
		}
	}
	files, check, err := knownHosts(o.KnownHosts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	dial := o.Dial
	if dial == nil {
		dial = func(ctx context.Context, t Target) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", t.addr())
		}
	}
	conn, err := dial(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be reached: %w", t, err)
	}
	keys := &keyring{}
	defer keys.close()
	keys.load(o)
	var refused *HostKeyError
	cfg := &ssh.ClientConfig{
		User: t.User,
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) { return keys.signers, nil })},
		HostKeyCallback: func(name string, remote net.Addr, key ssh.PublicKey) error {
			err := check(name, remote, key)
			var ke *knownhosts.KeyError
			if errors.As(err, &ke) {
				refused = &HostKeyError{Target: t, Fingerprint: ssh.FingerprintSHA256(key), Changed: len(ke.Want) > 0, Files: files}
				return refused
			}
			return err
		},
		HostKeyAlgorithms: algorithms(check, t),
	}
	// The handshake knows no context; a deadline in the past ends its reads.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	cc, chans, reqs, err := ssh.NewClientConn(conn, t.addr(), cfg)
	if !stop() && err == nil {
		cc.Close()
		err = context.Cause(ctx)
	}
	switch {
	case err == nil:
	case refused != nil:
		conn.Close()
		return nil, refused
	case ctx.Err() != nil:
		conn.Close()
		return nil, fmt.Errorf("%s does not finish the SSH handshake: %w", t, context.Cause(ctx))
	case strings.Contains(err.Error(), "unable to authenticate"):
		conn.Close()
		return nil, &AuthError{Target: t, Tried: keys.names, Err: err}
	default:
		conn.Close()
		return nil, fmt.Errorf("%s: SSH handshake: %w", t, err)
	}
	conn.SetDeadline(time.Time{})
	return &Host{Target: t, c: ssh.NewClient(cc, chans, reqs)}, nil
}

// knownHosts reads the files that exist. With none of them no machine is
// known, which is for the user to mend, not for us.
func knownHosts(files []string) ([]string, ssh.HostKeyCallback, error) {
	if len(files) == 0 {
		if home, err := os.UserHomeDir(); err == nil {
			files = append(files, filepath.Join(home, ".ssh", "known_hosts"))
		}
		files = append(files, "/etc/ssh/ssh_known_hosts")
	}
	var have []string
	for _, f := range files {
		if _, err := os.Stat(f); err == nil {
			have = append(have, f)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("known hosts: %w", err)
		}
	}
	check, err := knownhosts.New(have...)
	if err != nil {
		return nil, nil, fmt.Errorf("known hosts: %w", err)
	}
	return files, check, nil
}

// algorithms are those of the keys that are known of a machine: asked for
// another one, it would show a key that nobody has seen.
func algorithms(check ssh.HostKeyCallback, t Target) []string {
	var ke *knownhosts.KeyError
	if !errors.As(check(t.addr(), &net.TCPAddr{IP: net.IPv4zero}, noKey{}), &ke) {
		return nil
	}
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	for _, k := range ke.Want {
		if k.Key.Type() == ssh.KeyAlgoRSA {
			add(ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		add(k.Key.Type())
	}
	return out
}

// noKey is a key that no file has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// keyring holds the keys that are offered, and what they are called.
type keyring struct {
	signers []ssh.Signer
	names   []string
	conn    net.Conn
}

func (k *keyring) close() {
	if k.conn != nil {
		k.conn.Close()
	}
}

// load takes the agent's keys first, then key files. A file that needs a
// passphrase is left to the agent.
func (k *keyring) load(o Options) {
	sock := o.AgentSock
	if sock == "" {
		sock = os.Getenv("SSH_AUTH_SOCK")
	}
	if sock != "" && sock != "none" {
		if c, err := net.Dial("unix", sock); err == nil {
			if s, err := agent.NewClient(c).Signers(); err == nil && len(s) > 0 {
				k.conn, k.signers = c, append(k.signers, s...)
				k.names = append(k.names, fmt.Sprintf("%d keys of ssh-agent", len(s)))
			} else {
				c.Close()
			}
		}
	}
	files, asked := o.Identities, len(o.Identities) > 0
	if !asked {
		if home, err := os.UserHomeDir(); err == nil {
			for _, n := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
				files = append(files, filepath.Join(home, ".ssh", n))
			}
		}
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			if asked {
				k.names = append(k.names, fmt.Sprintf("%s, which cannot be read: %v", f, err))
			}
			continue
		}
		s, err := ssh.ParsePrivateKey(bytes.TrimSpace(append(b, '\n')))
		var locked *ssh.PassphraseMissingError
		switch {
		case errors.As(err, &locked):
			k.names = append(k.names, f+", which has a passphrase: add it to ssh-agent")
		case err != nil:
			k.names = append(k.names, fmt.Sprintf("%s, which is no private key", f))
		default:
			k.signers = append(k.signers, s)
			k.names = append(k.names, f)
		}
	}
}
