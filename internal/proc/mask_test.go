// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"strings"
	"testing"
)

func TestMask(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", "ghp_0123456789")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "abcdefghijkl")
	t.Setenv("SIGNING_KEY", "/etc/keys/signing.pem") // a path is none
	t.Setenv("KEYBOARD", "qwertyuiop")
	t.Setenv("MY_TOKEN", "yes")
	for in, want := range map[string]string{
		"git fetch https://me:s3cret@example.org/linux.git": "git fetch https://***@example.org/linux.git",
		"https://ghp_x@example.org":                         "https://***@example.org",
		"ssh://git@example.org/linux.git":                   "ssh://git@example.org/linux.git",
		"https://example.org/a@b":                           "https://example.org/a@b",
		"Mail <me@example.org>":                             "Mail <me@example.org>",
		"-H 'Authorization: ghp_0123456789'":                "-H 'Authorization: ***'",
		"key abcdefghijkl, /etc/keys/signing.pem":           "key ***, /etc/keys/signing.pem",
		"qwertyuiop yes":                                    "qwertyuiop yes",
	} {
		if got := Mask(in); got != want {
			t.Errorf("Mask(%q) = %q, want %q", in, got, want)
		}
	}
	_, err := Run(context.Background(), Cmd{Argv: []string{"sh", "-c", "echo ghp_0123456789 >&2; exit 1 # https://u:p@h/"}})
	if err == nil || strings.Contains(err.Error(), "ghp_0") || strings.Contains(err.Error(), "u:p") {
		t.Errorf("an error shows a secret: %v", err)
	}
	if got := Record([]string{"git", "clone", "https://u:p@h/x"}); strings.Contains(got, "u:p") {
		t.Errorf("a recorded command shows a secret: %s", got)
	}
}

func TestWithoutSecrets(t *testing.T) {
	got := strings.Join(WithoutSecrets([]string{"PATH=/bin", "GH_TOKEN=x", "npm_password=x", "GPG_KEY=x", "GOFLAGS=-mod=mod", "KEYBOARD=us"}), " ")
	if got != "PATH=/bin GOFLAGS=-mod=mod KEYBOARD=us" {
		t.Error(got)
	}
}

// TestMinimalEnv: what programs get is chosen by name, and holds no secret.
func TestMinimalEnv(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", "canary")
	t.Setenv("SSH_AUTH_SOCK", "canary")
	t.Setenv("DB_PASSWORD", "canary")
	for _, e := range MinimalEnv() {
		if strings.Contains(e, "canary") {
			t.Errorf("children get %s", e)
		}
	}
}
