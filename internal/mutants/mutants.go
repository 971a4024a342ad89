// SPDX-License-Identifier: Apache-2.0

// Package mutants reads the bank of seeded faults (testdata/mutants) and makes
// a series of each: the bundled series with the faulty patches on top. Its
// README.md explains the manifest.
package mutants

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Manifest is the name of the file that lists the mutants of a folder.
const Manifest = "mutants.yaml"

// Plan says under which plan a mutant must be seen.
type Plan string

const (
	Default  Plan = "default"  // the plan of the series as it is
	Debug    Plan = "debug"    // the same plan on a debug kernel
	Variants Plan = "variants" // compiling in the other configurations
)

// Expect is the outcome that a run must have.
type Expect string

const (
	Fail      Expect = "FAIL"
	Pass      Expect = "PASS"
	NotTested Expect = "NOT-TESTED" // passes, and the report says what was not tested
)

// Mutant is one variant of the series.
type Mutant struct {
	Name    string   `yaml:"name"`
	Mistake string   `yaml:"mistake"` // what is wrong, one or two sentences
	Patches []string `yaml:"patches"` // file names, on top of the series in this order
	Plan    Plan     `yaml:"plan"`
	Expect  Expect   `yaml:"expect"`
	By      []string `yaml:"by"` // one of these must have found it; none when it must pass

	// What must be run for the fault to show; the runner takes less time with
	// less. Empty: one device that grants much, and NFSv3.
	Device []string `yaml:"device"`
	NFS    []string `yaml:"nfs"`
	// Full asks for the plan's own amount of I/O instead of a small part.
	Full bool `yaml:"full"`

	dir string
}

// oracles are the values of By, but for "console." and a class.
var oracles = []string{
	"warning.new", "build.patch", "build.variant", "boot", "got", "refused",
	"count", "contents", "callback", "step", "hang", "slow", "leak", "not_tested",
}

// Load reads the manifest of dir. The error names each entry that is wrong.
func Load(dir string) ([]Mutant, error) {
	file := filepath.Join(dir, Manifest)
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("seeded faults: %w", err)
	}
	var all []Mutant
	if err := yaml.UnmarshalWithOptions(b, &all, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var errs []error
	seen := map[string]bool{}
	for i := range all {
		all[i].dir = dir
		if seen[all[i].Name] {
			errs = append(errs, fmt.Errorf("%s: two entries are called %q", file, all[i].Name))
		}
		seen[all[i].Name] = true
		for _, problem := range all[i].problems() {
			errs = append(errs, fmt.Errorf("%s: %q: %s", file, all[i].Name, problem))
		}
	}
	return all, errors.Join(errs...)
}

func (m *Mutant) problems() []string {
	var p []string
	add := func(format string, args ...any) { p = append(p, fmt.Sprintf(format, args...)) }
	if m.Name == "" || m.Mistake == "" {
		add("name and mistake must not be empty")
	}
	if len(m.Patches) == 0 {
		add("there is no patch")
	}
	for _, f := range m.Patches {
		if f != filepath.Base(f) || filepath.Ext(f) != ".patch" {
			add("%q is not the name of a patch in the same folder", f)
		}
	}
	switch m.Plan {
	case Default, Debug, Variants:
	default:
		add("plan %q is none of default, debug, variants", m.Plan)
	}
	switch m.Expect {
	case Pass:
		if len(m.By) > 0 {
			add("it must pass, so nothing can find it (by)")
		}
	case Fail, NotTested:
		if len(m.By) == 0 {
			add("nothing is named that must find it (by)")
		}
	default:
		add("expect %q is none of FAIL, PASS, NOT-TESTED", m.Expect)
	}
	for _, v := range m.NFS {
		if !slices.Contains([]string{"3", "4.0", "4.1", "4.2"}, v) {
			add("nfs %q is no NFS version", v)
		}
	}
	for _, o := range m.By {
		if class, ok := strings.CutPrefix(o, "console."); ok && class != "" {
			continue
		}
		if !slices.Contains(oracles, o) {
			add("by: %q is none of %s, console.CLASS", o, strings.Join(oracles, ", "))
		}
	}
	return p
}

// subject matches the subject's prefix of a format-patch mail.
var subject = regexp.MustCompile(`(?m)^Subject: \[PATCH(?: (\d+)/\d+)?\] `)

// Series returns base with the mutant's patches on top, numbered anew as one
// series. base are the mails of the series that is mutated; its cover letter,
// whose list of patches would no longer be true, is left out.
func (m Mutant) Series(base [][]byte) ([][]byte, error) {
	var mails [][]byte
	for i, b := range base {
		s := subject.FindSubmatch(b)
		if s == nil {
			return nil, fmt.Errorf("mutant %s: mail %d of the series has no [PATCH n/m] in its subject", m.Name, i+1)
		}
		if strings.Trim(string(s[1]), "0") != "" || len(s[1]) == 0 {
			mails = append(mails, b)
		}
	}
	for _, f := range m.Patches {
		b, err := os.ReadFile(filepath.Join(m.dir, f))
		if err != nil {
			return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		if !subject.Match(b) {
			return nil, fmt.Errorf("mutant %s: %s has no [PATCH] in its subject", m.Name, f)
		}
		mails = append(mails, b)
	}
	for i, b := range mails {
		at := subject.FindIndex(b)
		head := fmt.Appendf(nil, "Subject: [PATCH %d/%d] ", i+1, len(mails))
		mails[i] = bytes.Join([][]byte{b[:at[0]], head, b[at[1]:]}, nil)
	}
	return mails, nil
}
