// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"io"
)

// Status is the fate of one patch of a series.
type Status string

// The statuses, as they are printed.
const (
	OK       Status = "ok"
	Failed   Status = "FAILED"
	NotTried Status = "NOT TRIED" // a patch before it failed
)

// PatchResult is what became of one patch of a series.
type PatchResult struct {
	Index  int     `json:"index"` // 1-based place in the series as given
	Status Status  `json:"status"`
	Result *Result `json:"result"` // of a patch not tried: of applying it alone, see Alone

	// Alone: the patch was not tried, and applies by itself to the tree as
	// the last good patch left it.
	Alone bool `json:"alone,omitempty"`
}

// SeriesResult is what became of a series.
type SeriesResult struct {
	OK      bool          `json:"ok"`
	Patches []PatchResult `json:"patches"`
}

// FirstFailure returns the patch that failed, or nil.
func (s *SeriesResult) FirstFailure() *PatchResult {
	for i := range s.Patches {
		if s.Patches[i].Status == Failed {
			return &s.Patches[i]
		}
	}
	return nil
}

// ApplySeries applies patches one on the other and stops at the first that
// does not fit; those behind it are looked at alone. The overlay returned has
// the good ones in it. The list of one patch may be nil with the error of
// Parse in errs, which may be nil as a whole.
func ApplySeries(t *Overlay, patches [][]*File, opts Options, errs ...error) (*Overlay, *SeriesResult, error) {
	s := &SeriesResult{OK: true}
	for i, files := range patches {
		pr := PatchResult{Index: i + 1, Status: OK}
		var next *Overlay
		if i < len(errs) && errs[i] != nil {
			pe, ok := errs[i].(*ParseError)
			if !ok {
				return t, nil, errs[i]
			}
			next, pr.Result = t, ResultOf(pe)
		} else {
			var err error
			if next, pr.Result, err = Apply(t, files, opts); err != nil {
				return t, nil, fmt.Errorf("patch %d: %w", i+1, err)
			}
		}
		fits := pr.Result.Applies || pr.Result.ThreeWay == "clean"
		switch {
		case !s.OK:
			pr.Status, pr.Alone = NotTried, fits
		case fits:
			t = next
		default:
			pr.Status, s.OK = Failed, false
		}
		s.Patches = append(s.Patches, pr)
	}
	return t, s, nil
}

// Explain writes one line for each patch and the whole story of the one that
// failed; names are the patches' subjects and may be shorter than the series.
func (s *SeriesResult) Explain(w io.Writer, names ...string) error {
	for i := range s.Patches {
		p := &s.Patches[i]
		line := fmt.Sprintf("%d/%d %s", p.Index, len(s.Patches), p.Status)
		if i < len(names) {
			line += "  " + names[i]
		}
		switch p.Status {
		case OK:
			if p.Result.Class != Clean {
				line += fmt.Sprintf(" (%s)", p.Result.Class)
			}
		case NotTried:
			if p.Alone {
				line += " (would apply alone)"
			} else {
				line += fmt.Sprintf(" (alone: %s)", p.Result.Class)
			}
		case Failed:
			line += fmt.Sprintf(" (%s)", p.Result.Class)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if f := s.FirstFailure(); f != nil {
		if _, err := fmt.Fprintf(w, "\npatch %d: ", f.Index); err != nil {
			return err
		}
		return f.Result.Explain(w)
	}
	return nil
}
