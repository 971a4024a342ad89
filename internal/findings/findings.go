// SPDX-License-Identifier: Apache-2.0

// Package findings owns how findings are shown: text for people, and the
// formats that other programs read. All of them are made from the same Report.
// Text of the patch never reaches a terminal as it is.
package findings

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/patches"
	"patchcheck/patches/mail"
)

// Report is what one invocation found.
type Report struct {
	Tool     string // version of patchcheck
	Series   *patches.Series
	Findings []checks.Finding
	Silenced []checks.Finding // taken out by the configuration
	// Tree is the tree that the series was held against, "" for none.
	Tree string
	// Notes are remarks about the invocation that are no findings: what was
	// not looked at, and why.
	Notes []string
	// Rule describes a rule by its id; nil knows none.
	Rule func(id string) (checks.Rule, bool)
}

// Formats lists the formats that Write knows.
var Formats = []string{"text", "json", "sarif", "github", "checkpatch", "terse", "b4"}

// Write shows the report in one of Formats. colour is for text only.
func Write(w io.Writer, format string, r *Report, colour bool) error {
	switch format {
	case "", "text":
		return r.text(w, colour)
	case "json", "sarif":
		var b bytes.Buffer
		show := r.json
		if format == "sarif" {
			show = r.sarif
		}
		if err := show(&b); err != nil {
			return err
		}
		_, err := w.Write(mail.PrintableJSON(b.Bytes()))
		return err
	case "github":
		return r.github(w)
	case "checkpatch":
		return r.checkpatch(w, true)
	case "terse":
		return r.checkpatch(w, false)
	case "b4":
		return r.b4(w)
	}
	return fmt.Errorf("no format is named %q; there are: %s", format, strings.Join(Formats, ", "))
}

// Outcome is the report in one word.
type Outcome string

// The outcomes, from the best to the worst.
const (
	Ready      Outcome = "READY"      // nothing that gates
	Findings   Outcome = "FINDINGS"   // errors or warnings
	Incomplete Outcome = "INCOMPLETE" // parts of the series are missing
	Infra      Outcome = "INFRA"      // something of ours did not work
)

// Outcome says what the findings come to.
func (r *Report) Outcome() Outcome {
	out := Ready
	for _, f := range r.Findings {
		switch {
		case strings.HasSuffix(f.ID, ".infra"):
			return Infra
		case f.ID == "series.missing-part":
			out = Incomplete
		case f.Severity != checks.Note && out == Ready:
			out = Findings
		}
	}
	return out
}

// Count returns the number of findings of a severity.
func (r *Report) Count(s checks.Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Summary is the counts in words: "1 error, 2 warnings".
func (r *Report) Summary() string {
	var parts []string
	for _, s := range []checks.Severity{checks.Error, checks.Warning, checks.Note} {
		if n := r.Count(s); n == 1 {
			parts = append(parts, "1 "+string(s))
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %ss", n, s))
		}
	}
	if len(parts) == 0 {
		return "no findings"
	}
	return strings.Join(parts, ", ")
}

// sorted gives the findings by patch, errors first, otherwise in their order.
func (r *Report) sorted() []checks.Finding {
	rank := map[checks.Severity]int{checks.Error: 0, checks.Warning: 1, checks.Note: 2}
	fs := slices.Clone(r.Findings)
	slices.SortStableFunc(fs, func(a, b checks.Finding) int {
		return cmp.Or(cmp.Compare(a.Where.Patch, b.Where.Patch), cmp.Compare(rank[a.Severity], rank[b.Severity]))
	})
	return fs
}

// patch returns the patch of a finding, or nil.
func (r *Report) patch(index int) *patches.Patch {
	if r.Series == nil {
		return nil
	}
	for _, p := range r.Series.Patches {
		if p.Index == index {
			return p
		}
	}
	return nil
}

// source names the file a patch was read from, for formats that need a file.
// Standard input is "-", as checkpatch writes it.
func (r *Report) source(index int) string {
	if r.Series == nil || len(r.Series.Sources) == 0 {
		return "-"
	}
	src := r.Series.Sources
	if len(src) == 1 {
		return src[0]
	}
	for _, s := range src { // files of git format-patch begin with their number
		var n int
		base := path.Base(s)
		if i := strings.Index(base, "-"); i > 0 && base[0] == 'v' {
			base = base[i+1:]
		}
		if _, err := fmt.Sscanf(base, "%04d-", &n); err == nil && n == index {
			return s
		}
	}
	return src[0]
}

// why is the document behind a rule.
func (r *Report) why(id string) string {
	if r.Rule == nil {
		return ""
	}
	rule, ok := r.Rule(id)
	if !ok {
		return ""
	}
	return rule.Source
}
