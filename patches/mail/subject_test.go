// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"patchcheck/internal/sharedtest"
)

func num(i int) *int { return &i }

func TestParseSubject(t *testing.T) {
	tests := []struct {
		in            string
		index, total  *int
		version       int
		rfc, resend   bool
		title         string
		tags          []string
		patch, pull   bool
		reply         bool
		trailingCount int
	}{
		{in: "[PATCH] a: b", version: 1, title: "a: b", tags: []string{"PATCH"}, patch: true},
		{in: "[PATCH]a: b", version: 1, title: "a: b", tags: []string{"PATCH"}, patch: true},
		{in: "[PATCHv3 02/17] a", index: num(2), total: num(17), version: 3, title: "a", tags: []string{"PATCH"}, patch: true},
		{in: "[PATCH01/17] a", index: num(1), total: num(17), version: 1, title: "a", tags: []string{"PATCH"}, patch: true},
		{in: "[PATCH RESEND v3 02/17] a", index: num(2), total: num(17), version: 3, resend: true, title: "a", tags: []string{"PATCH", "RESEND"}, patch: true},
		{in: "[PATCH net-next,v2,1/3] a, b and c", index: num(1), total: num(3), version: 2, title: "a, b and c", tags: []string{"PATCH", "net-next"}, patch: true},
		{in: "[bug#60788] [PATCH v9 2/3] s: t", index: num(2), total: num(3), version: 9, title: "s: t", tags: []string{"bug#60788", "PATCH"}, patch: true},
		{in: "[PATCH 10/11] k: d [ver #2]", index: num(10), total: num(11), version: 1, title: "k: d [ver #2]", tags: []string{"PATCH"}, patch: true, trailingCount: 2},
		{in: "[PATCH 1 of 3 V2] a", index: num(1), total: num(3), version: 2, title: "a", tags: []string{"PATCH"}, patch: true},
		{in: "[PATCH v 2 1/3] a", index: num(1), total: num(3), version: 2, title: "a", tags: []string{"PATCH"}, patch: true},
		{in: "[PATCH (v2) (1/3)] a", index: num(1), total: num(3), version: 2, title: "a", tags: []string{"PATCH"}, patch: true},
		{in: "[PATCH 0/n] a", index: num(0), version: 1, title: "a", tags: []string{"PATCH", "0/n"}, patch: true},
		{in: "[PATCH v3: 1 / 2] a", index: num(1), total: num(2), version: 3, title: "a", tags: []string{"PATCH"}, patch: true},
		{in: "[PATCH v4l] a", version: 1, title: "a", tags: []string{"PATCH", "v4l"}, patch: true},
		{in: "[PATCH v4b] a", version: 4, title: "a", tags: []string{"PATCH"}, patch: true},
		{in: "[PATCH v6-next] a", version: 1, title: "a", tags: []string{"PATCH", "v6-next"}, patch: true},
		{in: "[PATCH v6.12 1/2] a", index: num(1), total: num(2), version: 1, title: "a", tags: []string{"PATCH", "v6.12"}, patch: true},
		{in: "[PATCH v6.1.y] a", version: 1, title: "a", tags: []string{"PATCH", "v6.1.y"}, patch: true},
		{in: "[PATCH v2.1] a", version: 2, title: "a", tags: []string{"PATCH"}, patch: true},
		{in: "[RFCv2 1/2] a", index: num(1), total: num(2), version: 2, rfc: true, title: "a", tags: []string{"RFC"}, patch: true},
		{in: "[RFC/PATCH-v4] a", version: 4, rfc: true, title: "a", tags: []string{"RFC/PATCH-v4"}, patch: true},
		{in: "[RE-SEND PATCH] a", version: 1, resend: true, title: "a", tags: []string{"RE-SEND", "PATCH"}, patch: true},
		{in: "Re: [PATCH v2 1/3] a", index: num(1), total: num(3), version: 2, title: "a", tags: []string{"PATCH"}, patch: true, reply: true},
		{in: "AW: [PATCH] a", version: 1, title: "a", tags: []string{"PATCH"}, patch: true, reply: true},
		{in: "[PATCH] sv: fix it", version: 1, title: "sv: fix it", tags: []string{"PATCH"}, patch: true},
		{in: "[PATCH] res: fix it", version: 1, title: "res: fix it", tags: []string{"PATCH"}, patch: true},
		{in: "[GIT PULL] nfsd changes for 6.9", version: 1, title: "nfsd changes for 6.9", tags: []string{"GIT", "PULL"}, pull: true},
		{in: "[PATCH 1/2", version: 1, title: "[PATCH 1/2", tags: nil},
		{in: "", version: 1},
		{in: "[", version: 1, title: "["},
		{in: "[PATCH 99999999999999999999/3] a", version: 1, title: "a", tags: []string{"PATCH", "99999999999999999999/3"}, patch: true},
	}
	for _, tt := range tests {
		s := ParseSubject(tt.in)
		same := func(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
		if !same(s.Index, tt.index) || !same(s.Total, tt.total) || s.Version != tt.version || s.RFC != tt.rfc || s.Resend != tt.resend ||
			s.Title != tt.title || !slices.Equal(s.Tags, tt.tags) || s.Patch != tt.patch || s.Pull != tt.pull || s.Reply != tt.reply || s.Trailing != tt.trailingCount {
			j, _ := json.Marshal(s)
			t.Errorf("%q: got %s", tt.in, j)
		}
	}
}

// TestSubjectSuite checks real subject lines.
func TestSubjectSuite(t *testing.T) {
	f, err := os.Open(sharedtest.Path(t, "cases", "suites", "subjects.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	n := 0
	for sc.Scan() {
		var want struct {
			Subject      string
			Index, Total *int
			Version      int
			RFC, Resend  bool
			Title        string
			Tags         []string
		}
		if err := json.Unmarshal(sc.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		n++
		s := ParseSubject(want.Subject)
		same := func(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
		if !same(s.Index, want.Index) || !same(s.Total, want.Total) || s.Version != want.Version || s.RFC != want.RFC || s.Resend != want.Resend {
			j, _ := json.Marshal(s)
			t.Errorf("%q: got %s", want.Subject, j)
		}
		// The title follows git am, which also drops a colon behind the prefix.
		if s.Title != collapse(want.Title) && ": "+s.Title != want.Title {
			t.Errorf("%q: title %q, want %q", want.Subject, s.Title, want.Title)
		}
		if !slices.Equal(s.Tags, want.Tags) {
			t.Logf("%q: tags %q, suite has %q", want.Subject, s.Tags, want.Tags)
		}
		if !s.Patch {
			t.Errorf("%q: not seen as a patch", want.Subject)
		}
	}
	if n == 0 {
		t.Fatal("empty suite")
	}
}
