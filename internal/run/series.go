// SPDX-License-Identifier: Apache-2.0

package run

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"

	"patchcheck/internal/runfolder"
	"patchcheck/patches"
	"patchcheck/patches/diff"
)

// SeriesID identifies what a series says and changes: subjects, messages and
// diffs of its patches, in order. Mail headers and the cover letter do not
// count, so writing the test block into the letter does not change it.
func SeriesID(s *patches.Series) string {
	h := sha256.New()
	for _, p := range s.Patches {
		fmt.Fprintf(h, "%s\n", patchID(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func patchID(p *patches.Patch) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\x00%s\x00%s\x00", p.Index, p.Subject, p.Message)
	h.Write(p.Diff)
	return hex.EncodeToString(h.Sum(nil))
}

func seriesRecord(s *patches.Series) runfolder.Series {
	r := runfolder.Series{ID: SeriesID(s), Title: s.Title, Version: s.Version, Total: s.Total, Missing: s.Missing,
		Cover: s.Cover != nil, BaseCommit: s.BaseCommit, Sources: s.Sources}
	for _, p := range s.Patches {
		r.Patches = append(r.Patches, patchRecord(p))
	}
	return r
}

func patchRecord(p *patches.Patch) runfolder.Patch {
	r := runfolder.Patch{Index: p.Index, Subject: p.Subject, Author: p.Author.String(), ID: patchID(p), Files: len(p.Files)}
	for _, f := range p.Files {
		r.Added += f.Added
		r.Deleted += f.Deleted
	}
	return r
}

// touched lists the paths that a series changes.
func touched(s *patches.Series) []string {
	seen := map[string]bool{}
	for _, p := range s.Patches {
		for _, f := range p.Files {
			for _, n := range []string{f.Old, f.New} {
				if n != "" {
					seen[n] = true
				}
			}
		}
	}
	out := make([]string, 0, len(seen))
	for n := range seen {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// applyRecord lists what became of each hunk that was not placed exactly.
func applyRecord(n int, r *diff.Result) runfolder.Apply {
	a := runfolder.Apply{Patch: n, Class: string(r.Class)}
	for _, f := range r.Files {
		for i, h := range f.Hunks {
			switch {
			case h.Offset != 0:
				a.Lines = append(a.Lines, fmt.Sprintf("%s: hunk %d of %d at offset %+d", f.Path, i+1, len(f.Hunks), h.Offset))
			case h.Class != diff.Clean:
				a.Lines = append(a.Lines, fmt.Sprintf("%s: hunk %d of %d: %s", f.Path, i+1, len(f.Hunks), h.Class))
			}
		}
		if len(f.Hunks) == 0 && f.Class != diff.Clean {
			a.Lines = append(a.Lines, fmt.Sprintf("%s: %s", f.Path, f.Class))
		}
	}
	return a
}

// exactness sums up whether the tree is the one the series was made against:
// only the first patch that touches a file can be compared with the tree.
func exactness(results []*diff.Result) string {
	seen := map[string]bool{}
	match, differ := 0, 0
	for _, r := range results {
		for _, f := range r.Files {
			if seen[f.Path] {
				continue
			}
			seen[f.Path] = true
			switch f.Base {
			case diff.BaseMatch:
				match++
			case diff.BaseDiffers:
				differ++
			}
		}
	}
	switch {
	case differ > 0:
		return "not exact"
	case match > 0:
		return "exact"
	}
	return "unknown"
}
