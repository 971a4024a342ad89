// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"strings"
	"testing"
	"time"
)

const good = `# flaky
quarantine:
  - cell: patched/intel-*/v4.1
    plan: svcrdma-*
    owner: ann@example.org
    reason: umount sometimes takes longer than its deadline
    expires: 2027-01-31
  - {cell: "patched/*/v4.1", plan: "*", owner: bob, reason: second, expires: "2026-12-31"}
`

func day(s string) time.Time {
	d, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return d
}

func TestFind(t *testing.T) {
	l, err := Parse("q.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ plan, cell, now, holds, expired string }{
		{"svcrdma-inline", "patched/intel-216/v4.1", "2027-01-31T23:59:59Z", "ann@example.org", ""}, // the last day counts
		{"svcrdma-inline", "patched/intel-216/v4.1", "2027-02-01T00:00:00Z", "", "ann@example.org"},
		{"svcrdma-inline", "patched/mlx5/v4.1", "2026-12-31T00:00:00Z", "bob", ""},
		{"svcrdma-inline", "patched/mlx5/v4.1", "2027-01-01T00:00:00Z", "", "bob"},
		{"svcrdma-inline", "patched/intel-216/v3", "2026-12-01T00:00:00Z", "", ""},
		{"other", "patched/intel-216/v4.1", "2026-12-01T00:00:00Z", "bob", ""},
		{"svcrdma-inline", "base/intel-216/v4.1", "2026-12-01T00:00:00Z", "", ""},
		{"svcrdma-inline", "patched/intel-216/v4.1", "2027-02-01T01:00:00+02:00", "ann@example.org", ""}, // days are of UTC
	} {
		h, e := l.Find(tc.plan, tc.cell, day(tc.now))
		owner := func(e *Entry) string {
			if e == nil {
				return ""
			}
			return e.Owner
		}
		if owner(h) != tc.holds || owner(e) != tc.expired {
			t.Errorf("%+v: holds %q, expired %q", tc, owner(h), owner(e))
		}
	}
	if h, e := (*List)(nil).Find("p", "c", time.Now()); h != nil || e != nil {
		t.Error("an absent list has entries")
	}
	if l, err := Parse("empty.yaml", []byte("\n")); err != nil || len(l.Entries) != 0 {
		t.Errorf("empty file: %v", err)
	}
}

func TestParseErrors(t *testing.T) {
	entry := func(change ...string) string {
		s := "quarantine:\n  - cell: patched/a/v3\n    plan: p\n    owner: o\n    reason: r\n    expires: 2027-01-31\n"
		return strings.NewReplacer(change...).Replace(s)
	}
	for name, tc := range map[string]struct{ in, want string }{
		"no owner":     {entry("    owner: o\n", ""), "entry 1 has no owner"},
		"no end":       {entry("    expires: 2027-01-31\n", ""), "entry 1 has no expires"},
		"empty reason": {entry("reason: r", `reason: " "`), "entry 1 has no reason"},
		"bad day":      {entry("2027-01-31", "2027-02-30"), `[6:14] "2027-02-30" is no day`},
		"bad pattern":  {entry("patched/a/v3", "'patched/[/v3'"), `[2:11] "patched/[/v3" is no cell`},
		"not a cell":   {entry("patched/a/v3", "intel"), "is no cell or pattern"},
		"typing error": {entry("owner", "ownr"), "ownr"},
		"no list":      {"quarantine: 7\n", "quarantine"},
	} {
		_, err := Parse("q.yaml", []byte(tc.in))
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "quarantine file q.yaml cannot be used:") {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
	if _, err := Load(t.TempDir() + "/none.yaml"); err == nil {
		t.Error("an absent file is no error")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse("q.yaml", []byte(s))
		if err != nil {
			return
		}
		for _, e := range l.Entries {
			e.Matches("p", "patched/a/v3")
			if e.Owner == "" || e.Expires == "" {
				t.Errorf("an entry without owner or end was accepted: %+v", e)
			}
		}
	})
}
