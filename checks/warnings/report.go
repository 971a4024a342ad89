// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"encoding/json"
	"strings"
)

// Item is a diagnostic or note as the JSON report lists it. Diagnostics of the
// form FILE:LINE[:COL]: SEVERITY: MESSAGE have their parts; all others, such
// as the linker's, only Raw.
type Item struct {
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`
	Col      int      `json:"col,omitempty"`
	Severity Severity `json:"severity,omitempty"`
	Message  string   `json:"message,omitempty"`
	Raw      string   `json:"raw,omitempty"`
	Objects  int      `json:"objects,omitempty"` // that printed it, when more than one
}

// Report is a Result in the form that `--json` prints.
type Report struct {
	Comparable   bool     `json:"comparable"`
	Incomparable []string `json:"incomparable,omitempty"`
	New          []Item   `json:"new"`
	Fixed        []Item   `json:"fixed"`
	Moved        int      `json:"moved"`
	Changed      []Item   `json:"changed"`
	Unchanged    int      `json:"unchanged"`
	Unknown      []Item   `json:"unknown,omitempty"`
	OnlyBase     []string `json:"only_base,omitempty"`
	OnlyPatched  []string `json:"only_patched,omitempty"`
	Failed       []string `json:"failed,omitempty"`
	Infra        []string `json:"infra,omitempty"`
	Partial      []string `json:"partial,omitempty"`
}

// Report lists r. Notes that are new below an old diagnostic count as new.
func (r *Result) Report() Report {
	rep := Report{Comparable: r.Comparable(), Incomparable: r.Incomparable, Moved: len(r.Moved), Unchanged: r.Unchanged,
		Partial: r.Partial, OnlyBase: r.OnlyBase, OnlyPatched: r.OnlyPatched, Failed: r.Failed, Infra: r.Infra, New: []Item{}, Fixed: []Item{}, Changed: []Item{}}
	for _, e := range r.New {
		rep.New = append(rep.New, e.item())
	}
	for _, n := range r.Notes {
		rep.New = append(rep.New, Item{Raw: strings.TrimSpace(n.Raw)})
	}
	for _, e := range r.Fixed {
		rep.Fixed = append(rep.Fixed, e.item())
	}
	for _, e := range r.Unknown {
		rep.Unknown = append(rep.Unknown, e.item())
	}
	for _, c := range r.Changed {
		rep.Changed = append(rep.Changed, c.Patched.item())
	}
	return rep
}

// MarshalJSON gives the Report: what `patchcheck warnings --json` prints and
// other programs read.
func (r Result) MarshalJSON() ([]byte, error) { return json.Marshal(r.Report()) }

func (e *Entry) item() Item {
	it := Item{Raw: strings.TrimSpace(e.Raw)}
	if e.plain {
		it = Item{File: e.File, Line: e.Line, Col: e.Col, Severity: e.Severity, Message: e.Message}
	}
	if len(e.Objects) > 1 {
		it.Objects = len(e.Objects)
	}
	return it
}
