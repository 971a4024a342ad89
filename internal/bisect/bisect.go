// SPDX-License-Identifier: Apache-2.0

// Package bisect finds the change that brought a failure: a commit of a tree,
// by git bisect in a repository of its own, or a patch of a series. What a test
// of one state says comes from the caller; the user's repository is only read.
package bisect

import (
	"context"
	"fmt"
	"strings"
)

// Outcome is what a test says of one state.
type Outcome string

const (
	Good Outcome = "good"
	Bad  Outcome = "bad"
	Skip Outcome = "skip" // says nothing: it does not build, or fails in another way
)

// Answer is the outcome of testing one state.
type Answer struct {
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail,omitempty"` // for people
	Run     string  `json:"run,omitempty"`    // id of the run that says so
}

// Step is one state that was tested.
type Step struct {
	State string `json:"state"` // commit, or number of patches
	Title string `json:"title,omitempty"`
	Answer
}

// Result is the end of a search.
type Result struct {
	// Culprit is the change: a commit id, or a patch number. "" when skipped
	// states stand between the last good and the first bad one.
	Culprit string `json:"culprit,omitempty"`
	Title   string `json:"title,omitempty"` // its subject
	// Candidates are all that it can be when there is no Culprit.
	Candidates []string `json:"candidates,omitempty"`
	Steps      []Step   `json:"steps"`
	Log        string   `json:"log,omitempty"` // git's own, to be replayed with git bisect replay
}

// Text writes the result for people. what is "commit" or "patch".
func (r *Result) Text(what string) string {
	var b strings.Builder
	if r.Culprit != "" {
		fmt.Fprintf(&b, "culprit: %s %s", what, r.Culprit)
		if r.Title != "" {
			fmt.Fprintf(&b, ": %s", r.Title)
		}
		b.WriteByte('\n')
	} else {
		fmt.Fprintf(&b, "culprit: one of %d, because those between could not be tested:\n", len(r.Candidates))
		for _, c := range r.Candidates {
			fmt.Fprintf(&b, "  %s %s\n", what, c)
		}
	}
	if len(r.Steps) > 0 {
		b.WriteString("tested:\n")
		for _, s := range r.Steps {
			state := s.State
			if len(state) >= 40 {
				state = state[:12]
			}
			fmt.Fprintf(&b, "  %-4s  %s", s.Outcome, state)
			if s.Title != "" {
				fmt.Fprintf(&b, "  %s", s.Title)
			}
			if s.Detail != "" {
				fmt.Fprintf(&b, " (%s)", s.Detail)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Series finds the patch that brought a failure: the least n such that the
// series' first n patches show it and the first n-1 do not, as far as tests can
// tell. good patches are known to be right (0: the base), bad are known to
// fail. test is asked for numbers between them, each at most once.
func Series(ctx context.Context, good, bad int, title func(n int) string, test func(ctx context.Context, n int) (Answer, error)) (*Result, error) {
	if good >= bad {
		return nil, fmt.Errorf("cannot look for a culprit between patch %d, which is right, and patch %d, which fails", good, bad)
	}
	r := &Result{}
	skipped := map[int]bool{}
	for {
		n, ok := middle(good, bad, skipped)
		if !ok {
			break
		}
		a, err := test(ctx, n)
		if err != nil {
			return r, err
		}
		r.Steps = append(r.Steps, Step{State: fmt.Sprintf("first %d", n), Title: title(n), Answer: a})
		switch a.Outcome {
		case Good:
			good = n
		case Bad:
			bad = n
		default:
			skipped[n] = true
		}
	}
	if good+1 == bad {
		r.Culprit, r.Title = fmt.Sprint(bad), title(bad)
		return r, nil
	}
	for n := good + 1; n <= bad; n++ {
		r.Candidates = append(r.Candidates, fmt.Sprintf("%d: %s", n, title(n)))
	}
	return r, nil
}

// middle is the number between lo and hi, and not skipped, that is nearest to
// their middle.
func middle(lo, hi int, skipped map[int]bool) (int, bool) {
	mid := (lo + hi) / 2
	for d := 0; d <= hi-lo; d++ {
		for _, n := range []int{mid - d, mid + d} {
			if n > lo && n < hi && !skipped[n] {
				return n, true
			}
		}
	}
	return 0, false
}
