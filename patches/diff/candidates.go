// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"
	"strings"
)

// NamedTree is a tree that a series may be meant for.
type NamedTree struct {
	Name   string // as the user knows it: "nfsd-testing", "debian:linux-source-7.3"
	Tree   Tree
	Commit string // full id of its commit; "" when it is no commit
}

// Candidate is how well a series fits a tree.
type Candidate struct {
	Name         string        `json:"name"`
	Commit       string        `json:"commit,omitempty"`
	BaseCommit   bool          `json:"base_commit"` // it is the base-commit that the series names
	BlobsMatched int           `json:"blobs_matched"`
	BlobsTotal   int           `json:"blobs_total"` // files with an index line that the series does not create
	PathsPresent int           `json:"paths_present"`
	PathsTotal   int           `json:"paths_total"` // files that the series changes and does not create
	Applied      int           `json:"applied"`     // patches that apply, in order
	Series       *SeriesResult `json:"series,omitempty"`
	Error        string        `json:"error,omitempty"` // the tree could not be read
}

// Candidates tries a series on several trees, the best first: the one that is
// the series' base-commit (an id of seven digits or more, or ""), then the one
// with the most blobs of the index lines, then the one that takes the most
// patches, then the one that has the most of the files. A tree that cannot be
// read is in the list too, last and with its error. Equal ones stay in the
// order given.
func Candidates(trees []NamedTree, patches [][]*File, baseCommit string, opts Options) []Candidate {
	want := Wanted(patches)
	paths := oldPaths(patches)
	out := make([]Candidate, 0, len(trees))
	for _, nt := range trees {
		c := Candidate{Name: nt.Name, Commit: nt.Commit, BlobsTotal: len(want), PathsTotal: len(paths)}
		c.BaseCommit = len(baseCommit) >= 7 && nt.Commit != "" && strings.HasPrefix(nt.Commit, strings.ToLower(baseCommit))
		for _, p := range paths {
			if CheckPath(p) != nil {
				continue
			}
			content, _, err := nt.Tree.ReadFile(p)
			if err != nil {
				if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrSymlink) {
					c.Error = err.Error()
				}
				continue
			}
			c.PathsPresent++
			if oid, ok := want[p]; ok && oidMatches(oid, content) {
				c.BlobsMatched++
			}
		}
		_, s, err := ApplySeries(NewOverlay(nt.Tree), patches, opts)
		if err != nil {
			c.Error = err.Error()
		} else {
			c.Series = s
			for i := range s.Patches {
				if s.Patches[i].Status == OK {
					c.Applied++
				}
			}
		}
		out = append(out, c)
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		switch {
		case (a.Error == "") != (b.Error == ""):
			return a.Error == ""
		case a.BaseCommit != b.BaseCommit:
			return a.BaseCommit
		case a.BlobsMatched != b.BlobsMatched:
			return a.BlobsMatched > b.BlobsMatched
		case a.Applied != b.Applied:
			return a.Applied > b.Applied
		}
		return a.PathsPresent > b.PathsPresent
	})
	return out
}

// oldPaths lists the files that a series needs to be there, sorted.
func oldPaths(patches [][]*File) []string {
	made, seen := map[string]bool{}, map[string]bool{}
	var out []string
	for _, files := range patches {
		for _, f := range files {
			if f.Old != "" && !made[f.Old] && !seen[f.Old] {
				seen[f.Old] = true
				out = append(out, f.Old)
			}
			if f.New != "" {
				made[f.New] = true
			}
		}
	}
	sort.Strings(out)
	return out
}

// ExplainCandidates writes one line for each candidate.
func ExplainCandidates(w io.Writer, cs []Candidate) error {
	for i := range cs {
		c := &cs[i]
		line := c.Name
		if c.Commit != "" {
			line += fmt.Sprintf(" (%.12s)", c.Commit)
		}
		line += ": "
		var facts []string
		if c.BaseCommit {
			facts = append(facts, "is the base-commit")
		}
		if c.BlobsTotal > 0 {
			facts = append(facts, fmt.Sprintf("%d of %d blobs match", c.BlobsMatched, c.BlobsTotal))
		}
		facts = append(facts, fmt.Sprintf("%d of %d files present", c.PathsPresent, c.PathsTotal))
		switch {
		case c.Error != "":
			facts = append(facts, "cannot be read: "+c.Error)
		case c.Series.OK:
			facts = append(facts, fmt.Sprintf("all %d patches apply", len(c.Series.Patches)))
		default:
			f := c.Series.FirstFailure()
			facts = append(facts, fmt.Sprintf("patch %d of %d fails (%s)", f.Index, len(c.Series.Patches), f.Result.Class))
		}
		if _, err := fmt.Fprintln(w, line+strings.Join(facts, ", ")); err != nil {
			return err
		}
	}
	return nil
}
