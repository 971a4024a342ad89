// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/internal/sarif"
	"patchcheck/patches/mail"
)

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// json is the whole report. Strings are as they are in the patch: JSON escapes
// what a terminal would obey.
func (r *Report) json(w io.Writer) error {
	type patch struct {
		Index   int    `json:"index"`
		Subject string `json:"subject"`
	}
	v := struct {
		Tool     string           `json:"tool"`
		Outcome  Outcome          `json:"outcome"`
		Title    string           `json:"title"`
		Version  int              `json:"version"`
		Total    int              `json:"total"`
		Missing  []int            `json:"missing,omitempty"`
		Patches  []patch          `json:"patches"`
		Tree     string           `json:"tree,omitempty"`
		Findings []checks.Finding `json:"findings"`
		Silenced []checks.Finding `json:"silenced,omitempty"`
		Notes    []string         `json:"notes,omitempty"`
	}{Tool: "patchcheck " + r.Tool, Outcome: r.Outcome(), Tree: r.Tree, Findings: r.sorted(), Silenced: r.Silenced, Notes: r.Notes, Patches: []patch{}}
	if s := r.Series; s != nil {
		v.Title, v.Version, v.Total, v.Missing = s.Title, s.Version, s.Total, s.Missing
		for _, p := range s.Patches {
			v.Patches = append(v.Patches, patch{p.Index, p.Subject})
		}
	}
	if v.Findings == nil {
		v.Findings = []checks.Finding{}
	}
	return encode(w, v)
}

// sarif writes SARIF 2.1.0 (OASIS), which code forges read.
func (r *Report) sarif(w io.Writer) error {
	rules := &sarif.Rules{List: []sarif.Rule{}}
	results := []sarif.Result{}
	add := func(f checks.Finding, silenced bool) {
		res := sarif.Result{RuleID: f.ID, RuleIndex: rules.Add(f, r.Rule), Level: string(f.Severity), Message: sarif.Text{Text: mail.Printable(f.Message)}}
		uri, line := f.Where.File, f.Where.Line
		if uri == "" {
			uri, line = r.source(f.Where.Patch), 0
		}
		if uri != "-" {
			ph := &sarif.Physical{Artifact: sarif.Artifact{URI: sarif.URI(uri)}}
			if line > 0 {
				ph.Region = &sarif.Region{StartLine: line}
			}
			res.Locations = []sarif.Location{{Physical: ph}}
		}
		if pa := r.patch(f.Where.Patch); pa != nil {
			res.Props = map[string]string{"patch": fmt.Sprintf("%d/%d %s", pa.Index, pa.Total, pa.Subject)}
		}
		if silenced {
			res.Suppress = []sarif.Suppression{{Kind: "external"}}
		}
		results = append(results, res)
	}
	for _, f := range r.sorted() {
		add(f, false)
	}
	for _, f := range r.Silenced {
		add(f, true)
	}
	return encode(w, map[string]any{
		"$schema": sarif.Schema,
		"version": sarif.Version,
		"runs": []any{map[string]any{
			"tool":    map[string]any{"driver": map[string]any{"name": "patchcheck", "version": r.Tool, "rules": rules.List}},
			"results": results,
		}},
	})
}

// github writes workflow commands, which GitHub Actions shows beside the
// lines of a pull request.
func (r *Report) github(out io.Writer) error {
	w := bufio.NewWriter(out)
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	prop := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, f := range r.sorted() {
		cmd := map[checks.Severity]string{checks.Error: "error", checks.Warning: "warning", checks.Note: "notice"}[f.Severity]
		var props []string
		if f.Where.File != "" {
			props = append(props, "file="+prop.Replace(clean(f.Where.File)))
			if f.Where.Line > 0 {
				props = append(props, fmt.Sprintf("line=%d", f.Where.Line))
			}
		}
		props = append(props, "title="+prop.Replace(clean(f.ID)))
		text := f.Message
		if pa := r.patch(f.Where.Patch); pa != nil {
			text = fmt.Sprintf("%d/%d: %s", pa.Index, pa.Total, text)
		}
		if len(f.Evidence) > 0 {
			text += "\n" + strings.Join(f.Evidence, "\n")
		}
		if f.Fix != "" {
			text += "\nFix: " + f.Fix
		}
		fmt.Fprintf(w, "::%s %s::%s\n", cmd, strings.Join(props, ","), data.Replace(mail.Printable(text)))
	}
	return w.Flush()
}

// b4 writes the array that b4 expects of an external check command: the worst
// status, the counts, and the findings as text.
func (r *Report) b4(w io.Writer) error {
	type entry struct {
		Tool    string `json:"tool"`
		Status  string `json:"status"`
		Summary string `json:"summary"`
		URL     string `json:"url"`
		Details string `json:"details"`
	}
	e := entry{Tool: "patchcheck", Status: "pass", Summary: r.Summary()}
	switch {
	case r.Count(checks.Error) > 0:
		e.Status = "fail"
	case r.Count(checks.Warning) > 0:
		e.Status = "warn"
	}
	var lines []string
	for _, f := range r.sorted() {
		lines = append(lines, fmt.Sprintf("%s: %s [%s]", f.Severity, mail.Printable(strings.TrimPrefix(f.Where.String()+": "+f.Message, ": ")), f.ID))
		for _, ev := range f.Evidence {
			lines = append(lines, "    | "+mail.Printable(ev))
		}
		if f.Fix != "" {
			lines = append(lines, "    fix: "+mail.Printable(f.Fix))
		}
	}
	e.Details = strings.Join(slices.Concat(lines, r.Notes), "\n")
	return encode(w, []entry{e})
}
