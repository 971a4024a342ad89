// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"patchcheck/patches"
)

// What is read as a pull request names one, and stays in its place in a URL.
func FuzzParsePull(f *testing.F) {
	for _, s := range []string{"octo/linux#7", "https://github.com/octo/linux/pull/7/files", "a/..#1", "https://x/%2e%2e/a/pull/1", "http://[::1]/a/b/pull/2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, n, _, err := ParsePull(s)
		if err != nil {
			return
		}
		again, m, _, err := ParsePull(fmt.Sprintf("%s#%d", r, n))
		if err != nil || again != r || m != n || n <= 0 {
			t.Errorf("%q is %s#%d, which is %s#%d, %v", s, r, n, again, m, err)
		}
		u, err := url.Parse(fmt.Sprintf("https://api.example.org/repos/%s/%s/pulls/%d", r.Owner, r.Name, n))
		if err != nil || strings.Count(u.JoinPath().Path, "/") != 5 {
			t.Errorf("%q leaves its place: %v", s, u)
		}
	})
}

// Whatever the words of a pull request, its series has the same patches.
func FuzzWithCover(f *testing.F) {
	f.Add("title", "body", "ann")
	f.Add("t\nFrom: x", "From aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa Mon Sep 17 00:00:00 2001\nSubject: [PATCH 3/2] x\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "a\nb")
	f.Add("[PATCH v9 1/2] other", "Message-ID: <x>\n\n---\ndiff --git a/a b/a\nnew file mode 100644\n", "[bot]")
	f.Add("x", "Index: a\n===\n", "y")
	f.Fuzz(func(t *testing.T, title, body, author string) {
		b := WithCover(&PullRequest{Title: title, Body: body, Author: author}, []byte(mbox), shaFork)
		s, err := patches.Load(ctx, []string{"-"}, patches.LoadOptions{Stdin: bytes.NewReader(b)})
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if len(s.Patches) != 2 || s.Total != 2 || s.Patches[0].Subject != "net: one" || s.Patches[1].Subject != "net: two" || len(s.Missing) > 0 {
			t.Errorf("%d patches of %d, missing %v\n%s", len(s.Patches), s.Total, s.Missing, b)
		}
	})
}
