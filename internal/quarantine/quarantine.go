// SPDX-License-Identifier: Apache-2.0

// Package quarantine reads the list of cells that are known to be flaky. Such
// a cell is still run and shown, but does not decide a run's verdict, until its
// entry expires. It judges nothing itself.
package quarantine

import (
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"patchcheck/internal/runfolder"
	"patchcheck/internal/strictyaml"
)

// Entry is one line of the list.
type Entry struct {
	Cell    string `yaml:"cell"`    // cell id or pattern: "patched/intel-*/v4.1"; '*' does not match '/'
	Plan    string `yaml:"plan"`    // plan name or pattern
	Owner   string `yaml:"owner"`   // who sees to it
	Reason  string `yaml:"reason"`  // what is known
	Expires string `yaml:"expires"` // last day (UTC) on which it holds: 2027-01-31
}

// List is a quarantine file.
type List struct {
	File    string  `yaml:"-"`
	Entries []Entry `yaml:"quarantine"`
}

// Error is a file that cannot be used.
type Error struct {
	File string
	Msgs []string
}

func (e *Error) Error() string {
	return fmt.Sprintf("quarantine file %s cannot be used:\n%s", e.File, strings.Join(e.Msgs, "\n"))
}

// Load reads a file.
func Load(file string) (*List, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, &Error{file, []string{"  " + err.Error()}}
	}
	return Parse(file, b)
}

// Parse reads the content of a file; name is for messages. Every entry needs
// all five keys: one without owner, reason or end would stay for ever.
func Parse(name string, b []byte) (*List, error) {
	l := &List{File: name}
	if strings.TrimSpace(string(b)) == "" {
		return l, nil
	}
	if err := strictyaml.Unmarshal(b, l); err != nil {
		return nil, &Error{name, []string{err.Error()}}
	}
	var msgs []string
	for i, e := range l.Entries {
		bad := func(key, format string, args ...any) {
			at := fmt.Sprintf("$.quarantine[%d]", i)
			if key != "" {
				at += "." + key
			}
			msgs = append(msgs, strictyaml.At(b, at, format, args...))
		}
		for _, f := range []struct{ key, value string }{{"cell", e.Cell}, {"plan", e.Plan}, {"owner", e.Owner}, {"reason", e.Reason}, {"expires", e.Expires}} {
			if strings.TrimSpace(f.value) == "" {
				bad("", "entry %d has no %s; an entry needs cell, plan, owner, reason and expires", i+1, f.key)
			}
		}
		if _, err := path.Match(e.Cell, "x"); err != nil || e.Cell != "" && strings.Count(e.Cell, "/") != 2 {
			bad("cell", "%q is no cell or pattern of cells; write KERNEL/DEVICE/vNFS, such as patched/intel-*/v4.1", e.Cell)
		}
		if _, err := path.Match(e.Plan, "x"); err != nil {
			bad("plan", "%q is no plan name or pattern", e.Plan)
		}
		if _, err := time.Parse(time.DateOnly, e.Expires); err != nil && e.Expires != "" {
			bad("expires", "%q is no day; write it as 2027-01-31", e.Expires)
		}
	}
	if len(msgs) > 0 {
		return nil, &Error{name, msgs}
	}
	return l, nil
}

// Expired says whether the entry's last day is over.
func (e *Entry) Expired(now time.Time) bool {
	return now.UTC().Format(time.DateOnly) > e.Expires
}

// Matches says whether the entry is about a cell of a plan.
func (e *Entry) Matches(plan, cell string) bool {
	p, err := path.Match(e.Plan, plan)
	if err != nil || !p {
		return false
	}
	c, err := path.Match(e.Cell, cell)
	return err == nil && c
}

// Record is the entry as a run keeps it.
func (e *Entry) Record() *runfolder.Quarantine {
	return &runfolder.Quarantine{Owner: e.Owner, Reason: e.Reason, Expires: e.Expires}
}

// Find gives the first entry that holds for a cell on the day of now, or nil;
// when there is none, the first that did and has expired.
func (l *List) Find(plan, cell string, now time.Time) (holds, expired *Entry) {
	if l == nil {
		return nil, nil
	}
	for i := range l.Entries {
		e := &l.Entries[i]
		if !e.Matches(plan, cell) {
			continue
		}
		if !e.Expired(now) {
			return e, nil
		}
		if expired == nil {
			expired = e
		}
	}
	return nil, expired
}
