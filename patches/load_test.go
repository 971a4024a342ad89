// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/sharedtest"
	"patchcheck/patches/mail"
)

// post is one mail of a test thread.
type post struct {
	subject, id, reply string
	refs               string
	from               string
	day                int
	body               string // "" is a message and a diff
	diff               string // word that makes the diff differ
}

func (p post) String() string {
	var b strings.Builder
	from := p.from
	if from == "" {
		from = "Ann Dev <ann@example.org>"
	}
	fmt.Fprintf(&b, "From mboxrd@z Thu Jan  1 00:00:00 1970\nFrom: %s\nSubject: %s\nDate: %s\n", from, p.subject, fmt.Sprintf("%d Mar 2024 10:00:00 +0000", p.day+1))
	if p.id != "" {
		fmt.Fprintf(&b, "Message-ID: <%s>\n", p.id)
	}
	if p.reply != "" {
		fmt.Fprintf(&b, "In-Reply-To: <%s>\n", p.reply)
	}
	if p.refs != "" {
		fmt.Fprintf(&b, "References: %s\n", p.refs)
	}
	body := p.body
	if body == "" {
		body = "Text.\n\nSigned-off-by: Ann Dev <ann@example.org>\n---\n\n" + testDiff(p.subject+p.diff)
	}
	return b.String() + "\n" + body + "-- \n2.43.0\n\n"
}

func testDiff(word string) string {
	return fmt.Sprintf("diff --git a/fs/a.c b/fs/a.c\nindex 1111111111aa..2222222222bb 100644\n--- a/fs/a.c\n+++ b/fs/a.c\n@@ -1,3 +1,3 @@\n int a;\n-int b;\n+int b; /* %s */\n int c;\n", word)
}

func mbox(posts ...post) []byte {
	var b bytes.Buffer
	for _, p := range posts {
		b.WriteString(p.String())
	}
	return b.Bytes()
}

func loadAll(t *testing.T, data []byte, opts LoadOptions) []*Series {
	t.Helper()
	opts.Stdin = bytes.NewReader(data)
	all, err := LoadAll(context.Background(), []string{"-"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// brief describes a series in one line.
func brief(s *Series) string {
	var b strings.Builder
	fmt.Fprintf(&b, "v%d", s.Version)
	if s.Cover != nil {
		b.WriteString(" cover")
	}
	for _, p := range s.Patches {
		fmt.Fprintf(&b, " %d/%d", p.Index, p.Total)
	}
	if len(s.Missing) > 0 {
		fmt.Fprintf(&b, " missing %v", s.Missing)
	}
	var ids []string
	for _, p := range s.Problems {
		id := strings.TrimPrefix(p.ID, "series.")
		if p.Fatal {
			id += "!"
		}
		ids = append(ids, id)
	}
	if ids != nil {
		b.WriteString(" [" + strings.Join(ids, " ") + "]")
	}
	return b.String()
}

func TestThreads(t *testing.T) {
	tests := []struct {
		name  string
		posts []post
		want  []string
	}{
		{"single", []post{{subject: "[PATCH] a", id: "1"}}, []string{"v1 1/1"}},
		{"cover and two", []post{{subject: "[PATCH 0/2] t", id: "0", body: "x\n"}, {subject: "[PATCH 1/2] a", id: "1", reply: "0"}, {subject: "[PATCH 2/2] b", id: "2", reply: "0"}}, []string{"v1 cover 1/2 2/2"}},
		{"comma before the counter", []post{{subject: "[PATCH v6,01/03] a", id: "1"}, {subject: "[PATCH v6,02/03] b", id: "2", reply: "1"}, {subject: "[PATCH v6,03/03] c", id: "3", reply: "1"}}, []string{"v6 1/3 2/3 3/3"}},
		{"deep threading", []post{{subject: "[PATCH 1/3] a", id: "1"}, {subject: "[PATCH 2/3] b", id: "2", reply: "1"}, {subject: "[PATCH 3/3] c", id: "3", reply: "2"}}, []string{"v1 1/3 2/3 3/3"}},
		{"hole in deep threading", []post{{subject: "[PATCH 0/3] t", id: "0", body: "x\n"}, {subject: "[PATCH 1/3] a", id: "1", reply: "0"}, {subject: "[PATCH 3/3] c", id: "3", reply: "2", refs: "<0> <1> <2>"}}, []string{"v1 cover 1/3 3/3 missing [2] [missing-part!]"}},
		{"cover missing", []post{{subject: "[PATCH 1/2] a", id: "1", reply: "0"}, {subject: "[PATCH 2/2] b", id: "2", reply: "0"}}, []string{"v1 1/2 2/2"}},
		{"last missing", []post{{subject: "[PATCH 0/3] t", id: "0", body: "x\n"}, {subject: "[PATCH 1/3] a", id: "1", reply: "0"}, {subject: "[PATCH 2/3] b", id: "2", reply: "0"}}, []string{"v1 cover 1/3 2/3 missing [3] [missing-part!]"}},
		{"any order", []post{{subject: "[PATCH 2/3] b", id: "2", reply: "0"}, {subject: "[PATCH 3/3] c", id: "3", reply: "0"}, {subject: "[PATCH 0/3] t", id: "0", body: "x\n"}, {subject: "[PATCH 1/3] a", id: "1", reply: "0"}}, []string{"v1 cover 1/3 2/3 3/3"}},
		{"cover with version only", []post{{subject: "[PATCH v2 0/2] t", id: "0", body: "x\n"}, {subject: "[PATCH 1/2] a", id: "1", reply: "0"}, {subject: "[PATCH 2/2] b", id: "2", reply: "0"}}, []string{"v2 cover 1/2 2/2 [version-mixed]"}},
		{"cover without version", []post{{subject: "[PATCH 0/2] t", id: "0", body: "x\n"}, {subject: "[PATCH v3 1/2] a", id: "1", reply: "0"}, {subject: "[PATCH v3 2/2] b", id: "2", reply: "0"}}, []string{"v3 cover 1/2 2/2 [version-mixed]"}},
		{"one patch without version", []post{{subject: "[PATCH v2 0/2] t", id: "0", body: "x\n"}, {subject: "[PATCH v2 1/2] a", id: "1", reply: "0"}, {subject: "[PATCH 2/2] b", id: "2", reply: "0"}}, []string{"v2 cover 1/2 2/2 [version-mixed]"}},
		{"cover with version, files", []post{{subject: "[PATCH v2 0/2] t", body: "x\n"}, {subject: "[PATCH 1/2] a"}, {subject: "[PATCH 2/2] b"}}, []string{"v2 cover 1/2 2/2 [version-mixed]"}},
		{"v2 in reply to v1", []post{{subject: "[PATCH 0/1] t", id: "0", body: "x\n"}, {subject: "[PATCH 1/1] a", id: "1", reply: "0"}, {subject: "[PATCH v2 0/1] t", id: "20", reply: "0", body: "x\n", day: 1}, {subject: "[PATCH v2 1/1] a", id: "21", reply: "20", day: 1}}, []string{"v1 cover 1/1", "v2 cover 1/1"}},
		{"v2 without cover in reply to v1's cover", []post{{subject: "[PATCH 0/2] t", id: "0", body: "x\n"}, {subject: "[PATCH 1/2] a", id: "1", reply: "0"}, {subject: "[PATCH 2/2] b", id: "2", reply: "0"},
			{subject: "[PATCH v2 1/2] a", id: "21", reply: "0", day: 1}, {subject: "[PATCH v2 2/2] b", id: "22", reply: "0", day: 1}}, []string{"v1 cover 1/2 2/2", "v2 1/2 2/2"}},
		{"partial re-roll", []post{{subject: "[PATCH 0/2] t", id: "0", body: "x\n"}, {subject: "[PATCH 1/2] a", id: "1", reply: "0"}, {subject: "[PATCH 2/2] b", id: "2", reply: "0"},
			{subject: "[PATCH v2 2/2] b", id: "22", reply: "2", day: 1}}, []string{"v1 cover 1/2 2/2", "v2 cover 1/2 2/2 [partial-reroll]"}},
		{"old v2, new without version", []post{{subject: "[PATCH v2 1/2] a", id: "o1"}, {subject: "[PATCH v2 2/2] b", id: "o2", reply: "o1"}, {subject: "[PATCH 1/2] a", id: "n1", day: 5}, {subject: "[PATCH 2/2] b", id: "n2", reply: "n1", day: 5}}, []string{"v2 1/2 2/2", "v1 1/2 2/2"}},
		{"posted twice", []post{{subject: "[PATCH 1/2] a", id: "o1"}, {subject: "[PATCH 2/2] b", id: "o2", reply: "o1"}, {subject: "[PATCH 1/2] a", id: "n1", day: 5, diff: "n"}, {subject: "[PATCH 2/2] b", id: "n2", reply: "n1", day: 5}}, []string{"v1 1/2 2/2", "v1 1/2 2/2"}},
		{"posted twice below the same mail", []post{{subject: "[PATCH 1/2] a", id: "1", reply: "bug"}, {subject: "[PATCH 2/2] b", id: "2", reply: "bug"}, {subject: "[PATCH 1/2] a", id: "11", reply: "bug", day: 1, diff: "n"}, {subject: "[PATCH 2/2] b", id: "12", reply: "bug", day: 1, diff: "n"}}, []string{"v1 1/2 2/2", "v1 1/2 2/2"}},
		{"posted again in reply to itself", []post{{subject: "[PATCH 1/2] a", id: "1"}, {subject: "[PATCH 2/2] b", id: "2", reply: "1"}, {subject: "[PATCH 1/2] a", id: "11", reply: "1", day: 1, diff: "n"}, {subject: "[PATCH 2/2] b", id: "12", reply: "11", day: 1, diff: "n"}}, []string{"v1 1/2 2/2", "v1 1/2 2/2"}},
		{"cover and patches not threaded", []post{{subject: "[PATCH 0/2] t", id: "0@x", body: "x\n"}, {subject: "[PATCH 1/2] a", id: "1@x"}, {subject: "[PATCH 2/2] b", id: "2@x"}}, []string{"v1 cover 1/2 2/2"}},
		{"same mail twice", []post{{subject: "[PATCH 1/2] a", id: "1"}, {subject: "[PATCH 1/2] a", id: "1"}, {subject: "[PATCH 2/2] b", id: "2", reply: "1"}}, []string{"v1 1/2 2/2"}},
		{"part twice, differing", []post{{subject: "[PATCH 0/2] t", id: "0", body: "x\n"}, {subject: "[PATCH 1/2] a", id: "1", reply: "0"}, {subject: "[PATCH 2/2] b", id: "2", reply: "0"}, {subject: "[PATCH 2/2] b", id: "3", reply: "0", diff: "z"}}, []string{"v1 cover 1/2 2/2 [duplicate-part!]"}},
		{"part twice, files", []post{{subject: "[PATCH 1/2] a"}, {subject: "[PATCH 2/2] b"}, {subject: "[PATCH 2/2] b", diff: "z"}}, []string{"v1 1/2 2/2 [duplicate-part!]"}},
		{"file given twice", []post{{subject: "[PATCH 1/2] a"}, {subject: "[PATCH 2/2] b"}, {subject: "[PATCH 2/2] b"}}, []string{"v1 1/2 2/2 [duplicate-part]"}},
		{"totals differ", []post{{subject: "[PATCH 0/2] t", id: "0", body: "x\n"}, {subject: "[PATCH 1/2] a", id: "1", reply: "0"}, {subject: "[PATCH 2/3] b", id: "2", reply: "0"}}, []string{"v1 cover 1/3 2/3 missing [3] [total-mismatch! missing-part!]"}},
		{"extra part", []post{{subject: "[PATCH 1/2] a", id: "1"}, {subject: "[PATCH 2/2] b", id: "2", reply: "1"}, {subject: "[PATCH 3/2] c", id: "3", reply: "1"}}, []string{"v1 1/2 2/2 3/2 [extra-part]"}},
		{"not threaded, sent together", []post{{subject: "[PATCH 1/2] a", id: "1@x"}, {subject: "[PATCH 2/2] b", id: "2@x"}}, []string{"v1 1/2 2/2"}},
		{"not threaded, days apart", []post{{subject: "[PATCH 1/2] a", id: "1@x"}, {subject: "[PATCH 2/2] b", id: "2@x", day: 9}}, []string{"v1 1/2 missing [2] [missing-part!]", "v1 2/2 missing [1] [missing-part!]"}},
		{"unnumbered files", []post{{subject: "[PATCH] a"}, {subject: "[PATCH] b"}}, []string{"v1 1/2 2/2 [unnumbered]"}},
		{"unnumbered mails", []post{{subject: "[PATCH] a", id: "1"}, {subject: "[PATCH] b", id: "2"}}, []string{"v1 1/1", "v1 1/1"}},
		{"ver #2", []post{{subject: "[PATCH 1/2] a [ver #2]", id: "1"}, {subject: "[PATCH 2/2] b [ver #2]", id: "2", reply: "1"}}, []string{"v2 1/2 2/2"}},
		{"bug number", []post{{subject: "[bug#7] [PATCH v9 1/2] a", id: "1"}, {subject: "[bug#7] [PATCH v9 2/2] b", id: "2", reply: "1"}}, []string{"v9 1/2 2/2"}},
		{"index without total", []post{{subject: "[PATCH 01/] a", id: "1"}, {subject: "[PATCH 02/] b", id: "2", reply: "1"}}, []string{"v1 1/2 2/2 [total-unknown]"}},
		{"cover alone", []post{{subject: "[PATCH 0/2] t", id: "0", body: "x\n"}}, []string{"v1 cover missing [1 2] [missing-part!]"}},
		{"patch as 0/1", []post{{subject: "[PATCH 0/1] t", id: "0"}}, []string{"v1 1/1"}},
		{"cover with an interdiff", []post{{subject: "[PATCH 0/2] t", id: "0", body: "x\n" + testDiff("x")}}, []string{"v1 cover missing [1 2] [missing-part!]"}},
		{"no diff", []post{{subject: "[PATCH 1/1] t", id: "0", body: "text\n"}}, []string{"v1 1/1 [mail.no-diff!]"}},
		{"damaged", []post{{subject: "[PATCH] t", id: "0", body: "text\n---\n" + strings.Replace(testDiff("x"), " int c;\n", "", 1)}}, []string{"v1 1/1 [patch.damaged!]"}},
		{"loop of replies", []post{{subject: "[PATCH 1/2] a", id: "1", reply: "2"}, {subject: "[PATCH 2/2] b", id: "2", reply: "1"}}, []string{"v1 1/2 2/2"}},
		{"answers itself", []post{{subject: "[PATCH] a", id: "1", reply: "1"}}, []string{"v1 1/1"}},
		{"patch in a reply", []post{{subject: "Re: question", id: "1", reply: "0"}}, []string{"v1 1/1 [reply-used]"}},
		{"patch below scissors in a reply", []post{{subject: "Re: question", id: "1", reply: "0", body: "Try this:\n-- >8 --\nSubject: [PATCH] a\n\nText.\n---\n" + testDiff("x")}}, []string{"v1 1/1"}},
		{"numbers below scissors", []post{{subject: "Re: question", id: "1", reply: "0", body: "Try:\n-- >8 --\nSubject: [PATCH v2 1/2] a\n\nText.\n---\n" + testDiff("x")}}, []string{"v2 1/2 missing [2] [missing-part!]"}},
		{"replies do not count", []post{{subject: "[PATCH 1/1] a", id: "1"}, {subject: "Re: [PATCH 1/1] a", id: "2", reply: "1", body: "> " + strings.ReplaceAll(testDiff("x"), "\n", "\n> ") + "\nno\n"}}, []string{"v1 1/1"}},
		{"huge total", []post{{subject: "[PATCH 1/99999] a", id: "1"}}, nil},
	}
	for _, tt := range tests {
		all := loadAll(t, mbox(tt.posts...), LoadOptions{})
		if tt.want == nil {
			continue
		}
		var got []string
		for _, s := range all {
			got = append(got, brief(s))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
		// The order of the mails in the mbox must not matter, apart from files.
		if tt.posts[0].id == "" {
			continue
		}
		rev := slices.Clone(tt.posts)
		slices.Reverse(rev)
		var back []string
		for _, s := range loadAll(t, mbox(rev...), LoadOptions{}) {
			back = append(back, brief(s))
		}
		slices.Sort(got)
		slices.Sort(back)
		if !slices.Equal(got, back) {
			t.Errorf("%s, reversed:\n got %q\nwant %q", tt.name, back, got)
		}
	}
}

func TestChoose(t *testing.T) {
	old := []post{{subject: "[PATCH v2 1/2] a", id: "o1"}, {subject: "[PATCH v2 2/2] b", id: "o2", reply: "o1"},
		{subject: "Re: [PATCH v2 1/2] a", id: "r1", reply: "o1", from: "Rev <rev@example.org>", body: "Fine.\n\nReviewed-by: Rev <rev@example.org>\n"}}
	now := []post{{subject: "[PATCH 1/2] a", id: "n1", day: 5}, {subject: "[PATCH 2/2] b", id: "n2", reply: "n1", day: 5},
		{subject: "Re: [PATCH 2/2] b", id: "r2", reply: "n2", from: "Tess <tess@example.org>", day: 6, body: "> text\nTested-by: Tess <tess@example.org> # arm64\n> Acked-by: Quoted <q@example.org>\n"}}
	other := []post{{subject: "[PATCH] elsewhere", id: "x1"}}
	tests := []struct {
		name    string
		posts   []post
		opts    LoadOptions
		version int
		trailer string // of patch 1, then of patch 2
		err     string
	}{
		{name: "the later one", posts: slices.Concat(old, now), version: 1, trailer: "|Tested-by: Tess <tess@example.org> # arm64"},
		{name: "by root", posts: slices.Concat(old, now), opts: LoadOptions{Root: "<o1>"}, version: 2, trailer: "Reviewed-by: Rev <rev@example.org>|"},
		{name: "by a part", posts: slices.Concat(old, now), opts: LoadOptions{Root: "o2"}, version: 2, trailer: "Reviewed-by: Rev <rev@example.org>|"},
		{name: "by a reply", posts: slices.Concat(old, now), opts: LoadOptions{Root: "r1"}, version: 2, trailer: "Reviewed-by: Rev <rev@example.org>|"},
		{name: "by version", posts: slices.Concat(old, now), opts: LoadOptions{Version: 2}, version: 2, trailer: "Reviewed-by: Rev <rev@example.org>|"},
		{name: "unknown version", posts: slices.Concat(old, now), opts: LoadOptions{Version: 3}, err: "no series of version 3"},
		{name: "unknown id", posts: slices.Concat(old, now), opts: LoadOptions{Root: "nope@x"}, err: "no series has a mail with the id <nope@x>"},
		{name: "different series", posts: slices.Concat(old, other), err: "holds 2 different series; choose one by message id"},
	}
	for _, tt := range tests {
		tt.opts.Stdin = bytes.NewReader(mbox(tt.posts...))
		tt.opts.WithTrailers = true
		s, err := Load(context.Background(), []string{"-"}, tt.opts)
		if tt.err != "" {
			var ie *InputError
			if err == nil || !strings.Contains(err.Error(), tt.err) || !errors.As(err, &ie) {
				t.Errorf("%s: error %v", tt.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []string
		for _, p := range s.Patches {
			g := ""
			for _, r := range p.FromReplies {
				g += r.Key + ": " + r.Value
			}
			got = append(got, g)
		}
		if s.Version != tt.version || strings.Join(got, "|") != tt.trailer {
			t.Errorf("%s: v%d, trailers %q", tt.name, s.Version, got)
		}
	}
}

func TestMissingMessage(t *testing.T) {
	for _, tt := range []struct {
		posts []post
		want  string
	}{
		{[]post{{subject: "[PATCH 1/3] a", id: "1"}, {subject: "[PATCH 2/3] b", id: "2", reply: "1"}}, "1 of 3 parts is missing: 3/3"},
		{[]post{{subject: "[PATCH 2/7] a", id: "1"}}, "6 of 7 parts are missing: 1/7, 3/7, 4/7, 5/7, 6/7, 7/7"},
		{[]post{{subject: "[PATCH 11/20] a", id: "1"}}, "19 of 20 parts are missing: 1/20 to 10/20, 12/20 to 20/20"},
	} {
		s := loadAll(t, mbox(tt.posts...), LoadOptions{})[0]
		if len(s.Problems) != 1 || s.Problems[0].Message != tt.want || !s.Problems[0].Fatal {
			t.Errorf("%+v, want %q", s.Problems, tt.want)
		}
	}
}

func TestCoverReply(t *testing.T) {
	data := mbox(post{subject: "[PATCH 0/2] t", id: "0", body: "x\n"}, post{subject: "[PATCH 1/2] a", id: "1", reply: "0"}, post{subject: "[PATCH 2/2] b", id: "2", reply: "0"},
		post{subject: "Re: [PATCH 0/2] t", id: "r", reply: "0", from: "Rev <rev@example.org>", body: "For the series:\nAcked-by: Rev <rev@example.org>\nSigned-off-by: Rev <rev@example.org>\n"},
		post{subject: "Re: [PATCH 0/2] t", id: "r2", reply: "r", from: "Nil <nil@example.org>", body: "NACKed-by: Nil <nil@example.org>\nReviewed-by: Else <else@example.org>\n"})
	s := loadAll(t, data, LoadOptions{WithTrailers: true})[0]
	for _, p := range s.Patches {
		if len(p.FromReplies) != 2 || p.FromReplies[0].Key != "Acked-by" || !p.FromReplies[0].ToCover || p.FromReplies[0].MessageID != "r" {
			t.Errorf("patch %d: %+v", p.Index, p.FromReplies)
		}
	}
	if got := brief(s); got != "v1 cover 1/2 2/2 [nacked reply-sender]" {
		t.Error(got)
	}
}

func TestBaseInfo(t *testing.T) {
	cover := "Text.\n---\nbase-commit: cccccccccccccccccccccccccccccccccccccccc\nchange-id: 20240301-demo-0123456789ab\nprerequisite-change-id: 20240220-prep-ba98:v3\n" +
		"prerequisite-patch-id: 1111111111111111111111111111111111111111\nprerequisite-message-id: <m@example.org>\nprerequisite-patch-id: 2222222222222222222222222222222222222222\n"
	s := loadAll(t, mbox(post{subject: "[PATCH 0/1] t", id: "0", body: cover},
		post{subject: "[PATCH 1/1] a", id: "1", reply: "0", body: "x\n---\n" + testDiff("x") + "\nbase-commit: dddddddddddddddddddddddddddddddddddddddd\n"}), LoadOptions{})[0]
	want := []Prerequisite{{"change-id", "20240220-prep-ba98:v3"}, {"patch-id", "1111111111111111111111111111111111111111"}, {"message-id", "m@example.org"}, {"patch-id", "2222222222222222222222222222222222222222"}}
	if !slices.Equal(s.Prerequisites, want) {
		t.Errorf("prerequisites %v", s.Prerequisites)
	}
	if s.BaseCommit != "cccccccccccccccccccccccccccccccccccccccc" || s.ChangeID != "20240301-demo-0123456789ab" || brief(s) != "v1 cover 1/1 [base-mixed]" {
		t.Errorf("%s, base %s, change %s", brief(s), s.BaseCommit, s.ChangeID)
	}
	if files := s.Patches[0].Files; len(files) != 1 || files[0].Path() != "fs/a.c" {
		t.Errorf("files %v", files)
	}
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	write := func(name, data string) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	zip := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write([]byte(s))
		w.Close()
		return b.String()
	}
	one := post{subject: "[PATCH 1/2] a"}.String()
	two := post{subject: "[PATCH 2/2] b"}.String()
	utf16 := "\xff\xfe"
	for _, c := range strings.ReplaceAll(testDiff("x"), "\n", "\r\n") {
		utf16 += string([]byte{byte(c), 0})
	}
	tests := []struct {
		name    string
		sources []string
		want    string
	}{
		{"files", []string{write("f/2.patch", two), write("f/1.patch", one)}, "v1 1/2 2/2"},
		{"folder", []string{filepath.Dir(write("d/0001.patch", one)), write("d/0002.patch", two)}[:1], "v1 1/2 2/2"},
		{"quilt folder", []string{filepath.Dir(write("q/series", "# order\nb.diff -p1\na.diff\n../f/1.patch\n")), write("q/a.diff", post{subject: "[PATCH] a"}.String()), write("q/b.diff", post{subject: "[PATCH] b"}.String())}[:1], "v1 1/2 2/2 [unnumbered]"},
		{"maildir", []string{filepath.Dir(filepath.Dir(write("m/cur/1:2,S", one)))}, "v1 1/2 missing [2] [missing-part!]"},
		{"folder with other files", []string{filepath.Dir(write("o/1.patch", one)), write("o/2.patch", two), write("o/notes", "hello\n"), write("o/1.patch~", one), write("o/Makefile", "all:\n")}[:1], "v1 1/2 2/2"},
		{"gzip", []string{write("t.mbox.gz", zip(one+two))}, "v1 1/2 2/2"},
		{"git diff", []string{write("x.diff", testDiff("x"))}, "v1 1/1 [nameless]"},
		{"diff -u", []string{write("u.diff", "--- a.orig\n+++ a\n@@ -1 +1 @@\n-a\n+b\n")}, "v1 1/1 [nameless]"},
		{"svn diff", []string{write("s.diff", "Index: a.c\n=====================\n--- a.c\n+++ a.c\n@@ -1 +1 @@\n-a\n+b\n")}, "v1 1/1 [nameless]"},
		{"utf-16 diff", []string{write("w.diff", utf16)}, "v1 1/1 [nameless]"},
		{"git show", []string{write("show", "commit 0123456789012345678901234567890123456789 (HEAD -> main)\nAuthor: Ann Dev <ann@example.org>\nDate:   Mon Mar 4 10:00:01 2024 +0000\n\n    a: title\n    \n    Text.\n    \n    Signed-off-by: Ann Dev <ann@example.org>\n\n"+testDiff("x"))}, "v1 1/1"},
		{"quilt text", []string{write("quilt.diff", "a: title\n\nText.\n---\n"+testDiff("x"))}, "v1 1/1"},
		{"hg export", []string{write("hg", "# HG changeset patch\n# User Ann Dev <ann@example.org>\n# Date 1709546401 -3600\n# Node ID 0123456789012345678901234567890123456789\n# Parent  0\na: title\n\nText.\n\n"+testDiff("x")+"# HG changeset patch\n# User Ann Dev <ann@example.org>\nb: title\n\n"+testDiff("y"))}, "v1 1/2 2/2 [unnumbered]"},
		{"no final newline", []string{write("n.patch", strings.TrimSuffix(strings.TrimSuffix(post{subject: "[PATCH] a"}.String(), "-- \n2.43.0\n\n"), "\n"))}, "v1 1/1"},
		{"CRLF", []string{write("c.patch", strings.ReplaceAll(one+two, "\n", "\r\n"))}, "v1 1/2 2/2"},
	}
	for _, tt := range tests {
		s, err := Load(context.Background(), tt.sources, LoadOptions{})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := brief(s); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		for _, p := range s.Patches {
			if len(p.Files) != 1 || len(p.Files[0].Hunks) != 1 {
				t.Errorf("%s: patch %d has files %v", tt.name, p.Index, p.Files)
			}
		}
		if len(s.Sources) == 0 {
			t.Errorf("%s: no sources", tt.name)
		}
	}
	s, err := Load(context.Background(), []string{filepath.Join(dir, "show")}, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := s.Patches[0]
	if p.Subject != "a: title" || p.Message != "Text.\n\nSigned-off-by: Ann Dev <ann@example.org>" || p.Author.Addr != "ann@example.org" || p.Date.IsZero() || len(p.Trailers) != 1 || !strings.HasPrefix(p.Commit, "0123") {
		t.Errorf("git show: %+v", p)
	}
}

func TestExports(t *testing.T) {
	for name, data := range map[string]string{
		"hg":    "# HG changeset patch\n# User Ann Dev <ann@example.org>\n# Date 1709546401 -3600\n# Node ID 0123456789012345678901234567890123456789\n# Parent  0\na: title\n\nText.\n\n" + testDiff("x"),
		"git":   "commit 0123456789012345678901234567890123456789\nAuthor:     Ann Dev <ann@example.org>\nAuthorDate: Mon Mar 4 10:00:01 2024 +0000\nCommit:     X <x@y>\nCommitDate: Tue Mar 5 10:00:01 2024 +0000\n\n    a: title\n    \n    Text.\n\n" + testDiff("x"),
		"quilt": "a: title\n\nText.\n" + testDiff("x"),
	} {
		s := loadAll(t, []byte(data), LoadOptions{})[0]
		p := s.Patches[0]
		if p.Subject != "a: title" || strings.TrimSpace(p.Message) != "Text." || len(p.Files) != 1 {
			t.Errorf("%s: %q, message %q, %d files", name, p.Subject, p.Message, len(p.Files))
		}
		if name != "quilt" && (p.Author.Addr != "ann@example.org" || p.Date.Unix() != 1709546401 || len(p.Commit) != 40) {
			t.Errorf("%s: %v, %v, %q", name, p.Author, p.Date, p.Commit)
		}
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, data string) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	pull := "From: Ann <ann@example.org>\nSubject: [GIT PULL] changes\nMessage-ID: <p@x>\n\nThe following changes since commit 0123456789012345678901234567890123456789:\n\n  Linux\n\nare available in the Git repository at:\n\n  https://example.org/linux.git tags/for-next\n\nfor you to fetch\n"
	tests := []struct {
		name, source, want string
	}{
		{"missing file", filepath.Join(dir, "nope.patch"), "no such file"},
		{"empty", write("empty", ""), "is empty"},
		{"blank", write("blank", "\n \n"), "is empty"},
		{"binary", write("bin", "\x7fELF\x00\x00\x01"), "is binary data"},
		{"prose", write("prose", "Hello,\nthis is no patch.\n"), "is not a patch"},
		{"headless hunk", write("hunk", "@@ -1 +1 @@\n-a\n+b\n"), "not a whole patch"},
		{"html", write("page.html", "<!DOCTYPE html>\n<html><body>x</body></html>\n"), "HTML page"},
		{"xz", write("a.xz", "\xfd7zXZ\x00xxxx"), "compressed"},
		{"bad gzip", write("a.gz", "\x1f\x8bxxxxxxxxxxxxx"), "gzip"},
		{"pull request", write("pull", pull), "git fetch https://example.org/linux.git tags/for-next) and give the range 0123456789012345678901234567890123456789..FETCH_HEAD"},
		{"reply", write("reply", "From: a@b\nSubject: Re: [PATCH] x\nMessage-ID: <r@x>\n\nYes.\n"), "only replies"},
		{"robot", write("robot", "From: kernel test robot <lkp@example.org>\nSubject: fs/a.c:1: warning\nMessage-ID: <r@x>\n\nFYI.\n"), "report of a robot"},
		{"mail", write("mail", "From: a@b\nSubject: lunch\n\nAt noon?\n"), "holds no patch"},
		{"folder", filepath.Dir(write("folder/README", "x\n")), "folder without patches"},
		{"bad file in folder", filepath.Dir(write("bad/1.patch", "x\n")), "1.patch: is not a patch"},
		{"range without repository", "HEAD~2..HEAD", "needs a repository"},
		{"last n without repository", "-3", "needs a repository"},
		{"device", "/dev/null", "is empty"},
	}
	for _, tt := range tests {
		_, err := Load(context.Background(), []string{tt.source}, LoadOptions{})
		var ie *InputError
		if err == nil || !errors.As(err, &ie) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
			continue
		}
		if !strings.Contains(err.Error(), filepath.Base(tt.source)) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q does not name the input on one line", tt.name, err)
		}
	}
	if _, err := Load(context.Background(), nil, LoadOptions{}); err == nil {
		t.Error("no error without sources")
	}
	big := write("big.patch", strings.Repeat("x", 3<<20))
	if _, err := Load(context.Background(), []string{big}, LoadOptions{MaxBytes: 2 << 20}); err == nil || !strings.Contains(err.Error(), "larger than 2 MiB") {
		t.Errorf("big file: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Load(ctx, []string{big}, LoadOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestGitRange(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		c := exec.Command("git", args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Jörg Dev", "GIT_AUTHOR_EMAIL=j@example.org",
			"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.org", "GIT_AUTHOR_DATE=2024-03-04T10:00:01+0100")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("init", "-q", "-b", "main")
	for i := range 4 {
		os.WriteFile(filepath.Join(dir, "a.c"), []byte(strings.Repeat("int x;\n", 5+i)+"\tcafé\r\n"), 0o644)
		run("add", ".")
		run("commit", "-q", "-m", fmt.Sprintf("a: change %d", i), "-m", "From here on.\n--- is no diff\nÜ\n\nSigned-off-by: Jörg Dev <j@example.org>")
	}
	// A repository must not choose the shape of patches or run programs.
	marker := filepath.Join(dir, "ran")
	for k, v := range map[string]string{"diff.noprefix": "true", "diff.external": "touch " + marker, "format.attach": "xx", "format.coverLetter": "true",
		"format.subjectPrefix": "FOO", "core.fsmonitor": "touch " + marker, "format.numbered": "false", "diff.mnemonicPrefix": "true", "format.signature": "sig",
		"format.thread": "true", "format.useAutoBase": "whenAble", "color.ui": "always", "diff.context": "0", "format.from": "x@example.org"} {
		run("config", k, v)
	}
	tests := []struct {
		rev, want string
		base      string
	}{
		{"HEAD~2..", "v1 1/2 2/2", "HEAD~2"},
		{"HEAD~3..HEAD~1", "v1 1/2 2/2", "HEAD~3"},
		{"-3", "v1 1/3 2/3 3/3", "HEAD~3"},
		{"HEAD", "v1 1/1", "HEAD~1"},
		{"main~1", "v1 1/1", "main~2"},
	}
	for _, tt := range tests {
		s, err := Load(context.Background(), []string{tt.rev}, LoadOptions{Repo: dir})
		if err != nil {
			t.Errorf("%s: %v", tt.rev, err)
			continue
		}
		// The message has a line at which git am would cut it: that is said.
		if got := strings.ReplaceAll(strings.ReplaceAll(brief(s), " mail.message-cut", ""), " [mail.message-cut]", ""); got != tt.want || s.BaseCommit != run("rev-parse", tt.base) {
			t.Errorf("%s: %s, base %s", tt.rev, brief(s), s.BaseCommit)
		}
		p := s.Patches[len(s.Patches)-1]
		if p.Author != (mail.Address{Name: "Jörg Dev", Addr: "j@example.org"}) || len(p.Commit) != 40 || len(p.Files) != 1 || p.Files[0].Path() != "a.c" ||
			!strings.HasPrefix(p.Subject, "a: change") || len(p.Files[0].Hunks) == 0 || len(p.Files[0].Hunks[0].Lines) < 4 {
			t.Errorf("%s: %+v", tt.rev, p)
		}
		if info := strings.Split(run("show", "-s", "--format=%an|%ae|%at|%s", p.Commit), "|"); info[0] != p.Author.Name || info[1] != p.Author.Addr || info[2] != fmt.Sprint(p.Date.Unix()) || info[3] != p.Subject {
			t.Errorf("%s: git says %q of %v, %v, %q", tt.rev, info, p.Author, p.Date, p.Subject)
		}
		if want := "From here on.\n--- is no diff\nÜ\n\nSigned-off-by: Jörg Dev <j@example.org>"; p.Message != want {
			t.Errorf("%s: message %q", tt.rev, p.Message)
		}
	}
	for rev, want := range map[string]string{"nope..HEAD": "nor a revision", "HEAD..HEAD": "no commits", "nope": "nor a revision", "--help": "no such file"} {
		_, err := Load(context.Background(), []string{rev}, LoadOptions{Repo: dir})
		var ie *InputError
		if !errors.As(err, &ie) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", rev, err)
		}
	}
	if _, err := Load(context.Background(), []string{"HEAD"}, LoadOptions{Repo: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no git repository") {
		t.Errorf("outside a repository: %v", err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a program named in the repository's config was run")
	}
}

func TestArchivePage(t *testing.T) {
	page := "[PATCH 0/1] a: title\n\n[PATCH 0/1] a: title\n\n[Ann Dev]\n\nCover text.\n\n[PATCH 1/1] is the only one.\n\nbase-commit: 0123456789012345678901234567890123456789\n-- \n2.43.0\n\n" +
		"[PATCH 1/1] a: title\n\n[Ann Dev]\n\nText.\n\nSigned-off-by: Ann Dev <ann@example.org>\n---\n a.c | 2 +-\n\n" + testDiff("x") + "-- \n2.43"
	inbox := "* [PATCH v2 0/1] t\n@ 2024-03-04 10:00 Ann Dev\n  2024-03-04 10:00 ` [PATCH v2 1/1] a Ann Dev\n  0 siblings, 1 reply; 2+ messages in thread\n" +
		"From: Ann Dev @ 2024-03-04 10:00 UTC (permalink / raw)\n  To: list; +Cc: Bob\n\nCover text.\n\n-- \n2.43.0\n\n\n^ permalink raw reply\t[flat|nested] 2+ messages in thread\n\n" +
		"* [PATCH v2 1/1] a\n  2024-03-04 10:00 [PATCH v2 0/1] t Ann Dev\n@ 2024-03-04 10:00 ` Ann Dev\n  0 siblings, 0 replies; 2+ messages in thread\n" +
		"From: Ann Dev @ 2024-03-04 10:00 UTC (permalink / raw)\n  To: list; +Cc: Bob\n\nText.\n\nSigned-off-by: Ann Dev <ann@example.org>\n---\n" + testDiff("x") + "-- \n2.43.0\n\n\n^ permalink raw reply related\t[flat|nested] 2+ messages in thread\n"
	for name, data := range map[string]string{"run together": page, "CRLF": strings.ReplaceAll(page, "\n", "\r\n"), "public-inbox": inbox} {
		all := loadAll(t, []byte(data), LoadOptions{})
		want := "v1 cover 1/1"
		if name == "public-inbox" {
			want = "v2 cover 1/1"
		}
		if len(all) != 1 || brief(all[0]) != want {
			t.Errorf("%s: %d series, first %s", name, len(all), brief(all[0]))
			continue
		}
		p := all[0].Patches[0]
		if p.Message != "Text.\n\nSigned-off-by: Ann Dev <ann@example.org>" || p.Author != (mail.Address{Name: "Ann Dev", Addr: "ann@example.org"}) || len(p.Files) != 1 {
			t.Errorf("%s: %q by %v, %d files", name, p.Message, p.Author, len(p.Files))
		}
		if c := all[0].Cover; !strings.HasPrefix(c.Body, "Cover text.") || c.Author.Addr != "ann@example.org" {
			t.Errorf("%s: cover %q by %v", name, c.Body, c.Author)
		}
	}
}

func TestSeeds(t *testing.T) {
	dir := sharedtest.Path(t, "seeds")
	s, err := Load(context.Background(), []string{filepath.Join(dir, "svcrdma-inline-cover-and-patch.txt")}, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if brief(s) != "v1 cover 1/1" || len(s.Patches[0].Files) != 3 || s.BaseCommit == "" || s.Patches[0].Author.Addr == "" || len(s.Patches[0].Trailers) != 2 {
		t.Errorf("first seed: %s", brief(s))
	}
	s, err = Load(context.Background(), []string{filepath.Join(dir, "xpt-mutex-v1-2of7.eml")}, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Total != 7 || !slices.Equal(s.Missing, []int{1, 3, 4, 5, 6, 7}) || len(s.Patches[0].Files) != 6 || brief(s) != "v1 2/7 missing [1 3 4 5 6 7] [missing-part!]" {
		t.Errorf("second seed: %s, %d files", brief(s), len(s.Patches[0].Files))
	}
}

// TestSamples checks what the rows of the shared cases say about reading.
func TestSamples(t *testing.T) {
	dir := sharedtest.Path(t, "cases", "samples")
	for name, want := range map[string]string{
		"B01-v6-comma.mbox": "v6 1/3 2/3 3/3", "B02-missing-last.mbox": "v1 cover 1/3 2/3 missing [3] [missing-part!]", "B04-trailer-paren.patch": "v1 1/1",
		"B08-diff-in-message.patch": "v1 1/1 [mail.message-cut]", "B09-from-in-body.mbox": "v1 1/2 2/2", "B11-base64-body.eml": "v1 1/1",
		"B12-signed-header-plain-body.eml": "v1 1/1 [mail.mime-wrong]", "B14-base64-crlf.eml": "v1 1/1 [mail.quoted-crlf]", "B15-qp-body.eml": "v1 1/1",
		"B17-nocover-emptybody.mbox": "v1 1/2 2/2", "B18-out-of-order.mbox": "v1 cover 1/3 2/3 3/3", "B19-mode-line-cr.patch": "v1 1/1",
		"B22-github-style.patch": "v1 1/2 2/2", "B23-cc-in-body.mbox": "v1 1/1", "B24-comma-subject.eml": "v2 1/2 missing [2] [missing-part!]",
		"B28-b4-prereq.eml": "v1 cover missing [1 2] [missing-part!]", "B29-closes.patch": "v1 1/1", "B30-sob-in-diff.patch": "v1 1/1",
		"B33-series.mbox": "v1 cover 1/3 2/3 3/3", "B95-sob-comma.patch": "v1 1/1", "B96-old-v2-new-unversioned.mbox": "v1 1/2 2/2 [several]", "B97-bug-prefix.mbox": "v9 1/3 2/3 3/3",
	} {
		s, err := Load(context.Background(), []string{filepath.Join(dir, name)}, LoadOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if brief(s) != want {
			t.Errorf("%s: %s, want %s", name, brief(s), want)
		}
	}
}

// reRuleID matches the ids that the sources give to problems.
var reRuleID = regexp.MustCompile(`"((?:series|patch|mail)\.[a-z0-9-]+)"`)

func TestRules(t *testing.T) {
	ids := map[string]bool{}
	for _, r := range Rules {
		if ids[r.ID] || r.Title == "" || r.Source == "" || r.Fix == "" || r.Severity != checks.Error && r.Severity != checks.Warning && r.Severity != checks.Note {
			t.Errorf("rule %q is incomplete or there twice", r.ID)
		}
		ids[r.ID] = true
	}
	// Every id that the sources mention has its rule.
	for _, pat := range []string{"*.go", "mail/*.go"} {
		names, _ := filepath.Glob(pat)
		for _, n := range names {
			if strings.HasSuffix(n, "_test.go") {
				continue
			}
			b, err := os.ReadFile(n)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range reRuleID.FindAllStringSubmatch(string(b), -1) {
				if !ids[m[1]] {
					t.Errorf("%s: no rule for %q", n, m[1])
				}
			}
		}
	}
}

func TestJSON(t *testing.T) {
	s := loadAll(t, mbox(post{subject: "[PATCH 1/1] a", id: "1"}), LoadOptions{})[0]
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Series
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.Patches[0].Message != s.Patches[0].Message || back.Patches[0].Files[0].Path() != "fs/a.c" {
		t.Errorf("%s", b)
	}
}

// TestManyMails loads inputs whose mails could make the search for series slow.
func TestManyMails(t *testing.T) {
	const n = 1000
	small := "x\n---\n--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n"
	shapes := map[string]func(i int) post{
		"single mails":    func(i int) post { return post{subject: "[PATCH] a", id: fmt.Sprint(i)} },
		"first parts":     func(i int) post { return post{subject: "[PATCH 1/2] a", id: fmt.Sprint(i)} },
		"one long series": func(i int) post { return post{subject: fmt.Sprintf("[PATCH %d/1000] a", i+1), id: fmt.Sprint(i)} },
		"files":           func(i int) post { return post{subject: fmt.Sprintf("[PATCH %d/1000] a", i+1)} },
		"same file":       func(i int) post { return post{subject: "[PATCH 1/2] a", diff: fmt.Sprint(i)} },
		"chain": func(i int) post {
			return post{subject: "[PATCH v" + fmt.Sprint(i+1) + " 1/2] a", id: fmt.Sprint(i), reply: fmt.Sprint(i - 1)}
		},
		"chain of covers": func(i int) post {
			return post{subject: "[PATCH v" + fmt.Sprint(i+1) + " 0/2] a", id: fmt.Sprint(i), reply: fmt.Sprint(i - 1), body: "x\n"}
		},
		"totals": func(i int) post {
			return post{subject: fmt.Sprintf("[PATCH 1/%d] a", i+1), id: fmt.Sprint(i), reply: "0"}
		},
		"replies in a row": func(i int) post {
			return post{subject: "Re: [PATCH] a", id: fmt.Sprint(i + 1), reply: fmt.Sprint(i), body: "Acked-by: A <a@b>\n"}
		},
		"versions of one cover": func(i int) post {
			return post{subject: fmt.Sprintf("[PATCH v%d 1/2] a", i+1), id: fmt.Sprint(i + 1), reply: "0"}
		},
	}
	for name, shape := range shapes {
		posts := []post{{subject: "[PATCH] first", id: "0", body: small}}
		for i := range n {
			p := shape(i)
			if p.body == "" {
				p.body = strings.Replace(small, "+b", "+b"+p.diff, 1)
			}
			posts = append(posts, p)
		}
		start := time.Now()
		all, err := LoadAll(context.Background(), []string{"-"}, LoadOptions{Stdin: bytes.NewReader(mbox(posts...)), WithTrailers: true})
		if err != nil || len(all) == 0 {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%-22s %5d series in %v", name, len(all), time.Since(start).Round(time.Millisecond))
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(mbox(post{subject: "[PATCH v2 0/1] t", id: "0", body: "x\n"}, post{subject: "[PATCH 1/1] a", id: "1", reply: "0"}))
	f.Add([]byte("[PATCH 1/1] a: title\n\n[Ann Dev]\n\nText.\n---\n" + testDiff("x")))
	f.Add([]byte("commit 0123456789012345678901234567890123456789\nAuthor: a <b@c>\n\n    t\n\n" + testDiff("x")))
	f.Add([]byte("* [PATCH] t\nFrom: Ann @ 2024-03-04 10:00 UTC (permalink / raw)\n  To: x\n\n" + testDiff("x")))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := LoadAll(context.Background(), []string{"-"}, LoadOptions{Stdin: bytes.NewReader(data), WithTrailers: true})
		if err != nil {
			var ie *InputError
			if !errors.As(err, &ie) {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		for _, s := range all {
			if s.Cover == nil && len(s.Patches) == 0 {
				t.Errorf("series without parts: %+v", s)
			}
			if len(s.Missing)+len(s.Patches) < min(s.Total, maxMissing) {
				t.Errorf("%d patches, %d missing, total %d", len(s.Patches), len(s.Missing), s.Total)
			}
			if _, err := json.Marshal(s); err != nil {
				t.Error(err)
			}
		}
	})
}

// tenMegabytes is a series of 100 patches with 100 kB each.
func tenMegabytes() []byte {
	var b bytes.Buffer
	for i := range 100 {
		p := post{subject: fmt.Sprintf("[PATCH %d/100] a: change", i+1), id: fmt.Sprint(i), reply: "x"}
		var d strings.Builder
		d.WriteString("Text.\n---\n")
		for j := range 100 {
			fmt.Fprintf(&d, "diff --git a/fs/a%d.c b/fs/a%d.c\nindex 1111111111aa..2222222222bb 100644\n--- a/fs/a%d.c\n+++ b/fs/a%d.c\n@@ -1,20 +1,21 @@\n", j, j, j, j)
			for k := range 20 {
				fmt.Fprintf(&d, " \tstatic int variable_%d = something_else;\n", k)
			}
			d.WriteString("+\tstatic int one_more;\n")
		}
		p.body = d.String()
		b.WriteString(p.String())
	}
	return b.Bytes()
}

// BenchmarkLoad10MB loads a series of 10 MB; peak-MB is the memory the process
// got from the system, the input included.
func BenchmarkLoad10MB(b *testing.B) {
	path := filepath.Join(b.TempDir(), "big.mbox")
	data := tenMegabytes()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	data = nil
	runtime.GC()
	b.ReportAllocs()
	for b.Loop() {
		s, err := Load(context.Background(), []string{path}, LoadOptions{})
		if err != nil || len(s.Patches) != 100 || len(s.Problems) > 0 {
			b.Fatal(err, s.Problems)
		}
	}
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	b.ReportMetric(float64(ms.Sys)/1e6, "peak-MB")
}
