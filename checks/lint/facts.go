// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/patches"
)

// Facts is what is known about the series from outside its mails: from the
// kernel tree, its history and recorded runs. Every field is optional, and a
// rule that needs a fact that is not there says nothing.
type Facts struct {
	// Tree names the tree in messages: "linux", "debian:linux-source-7.3".
	Tree string
	// Commits holds what the tree's repository knows of the commit ids that
	// the series names, by the id as written (see References). An id without
	// an entry was not looked up.
	Commits map[string]Commit
	// HistoryCut says that the repository is shallow or a plain snapshot, so
	// that a commit that is not found proves nothing.
	HistoryCut bool
	// Base is what became of the series' base-commit; nil: not looked up.
	Base *Base
	// Prerequisites says for each Series.Prerequisites value that was looked
	// up whether it was found locally.
	Prerequisites map[string]bool
	// Prefixes gives for touched paths the subject prefixes ("svcrdma",
	// "x86/mm") that the tree's history uses for them, the most used first.
	Prefixes map[string][]Prefix
	// Subsystems gives for touched paths the titles of the MAINTAINERS entries
	// that own them, the most specific first.
	Subsystems map[string][]string
	// Scripts are findings of the tree's own scripts on this series. Check
	// passes them on, after taking out what it says itself.
	Scripts []checks.Finding
	// AssistedBy is what the tree's Documentation/process/coding-assistants.rst
	// asks for; nil: the tree has no such document, or is not known.
	AssistedBy *AssistedByDoc
	// TrailerKeys is the vocabulary of trailer keys in use in the tree's
	// documents or history; nil: only the built-in one counts.
	TrailerKeys []string
	// Previous is the posting of the version before this one.
	Previous *Previous
	// Runs are the recorded runs of exactly these patches that passed: claims
	// of testing then have something behind them.
	Runs []string
}

// Commit is one looked-up commit.
type Commit struct {
	Found bool
	// Ambiguous says that the id as written fits several commits.
	Ambiguous bool
	ID        string // full
	Title     string
	Date      time.Time // committer date
	InBase    bool      // an ancestor of the base that the series was tried on
	BaseKnown bool      // InBase means something
}

// Base is what became of the commit in the series' base-commit line.
type Base struct {
	Found bool
	ID    string // full
	// Exact says that the tree in use is at that commit.
	Exact bool
}

// Prefix is a subject prefix and how many of the latest commits to a path use
// it.
type Prefix struct {
	Text  string
	Count int
}

// AssistedByDoc is the tree's rule for Assisted-by.
type AssistedByDoc struct {
	Path string // of the document
	// Format is the value the document prescribes, as written there:
	// "LLM [TOOL1] [TOOL2]".
	Format string
}

// Previous is an earlier posting of the same series.
type Previous struct {
	Version   int
	Date      time.Time
	MessageID string
}

// Reference is a commit id that a patch names.
type Reference struct {
	Patch int    // 1-based
	ID    string // as written, lower case
	Title string // title given with it, may be ""
	Fixes bool   // it stands in a Fixes: trailer
	Line  int    // 1-based line in the patch's Message
}

// References lists the commit ids that the messages of the series name, for
// whoever looks them up in a repository.
func References(s *patches.Series) []Reference {
	var out []Reference
	for _, p := range s.Patches {
		for _, f := range fixesOf(p) {
			if f.id != "" {
				out = append(out, Reference{p.Index, strings.ToLower(f.id), f.title, true, f.line})
			}
		}
		for _, r := range commitRefs(p) {
			out = append(out, Reference{p.Index, strings.ToLower(r.id), r.title, false, r.line})
		}
	}
	return out
}

// TouchedPaths lists the old and new names of all files that the series
// changes, sorted, each once.
func TouchedPaths(s *patches.Series) []string {
	var out []string
	for _, p := range s.Patches {
		for _, f := range p.Files {
			for _, n := range []string{f.Old, f.New} {
				if n != "" {
					out = append(out, n)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var hexID = regexp.MustCompile(`^[0-9a-fA-F]{5,64}$`)
