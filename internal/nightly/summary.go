// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"patchcheck/checks"
	"patchcheck/internal/history"
)

// compare finds what changed since last night, job by job.
func (x *night) compare(ctx context.Context) error {
	for _, t := range x.res.Trees {
		if t.State == history.TreeRewritten {
			x.res.Changes = append(x.res.Changes, Change{Lines: []string{fmt.Sprintf("tree %s was rewritten: %s", t.Tree, t.Detail)}})
		}
	}
	for _, j := range x.res.Jobs {
		c := Change{Target: j.Target}
		say := func(format string, args ...any) { c.Lines = append(c.Lines, fmt.Sprintf(format, args...)) }
		old, had := x.last[j.Target]
		then := x.then(ctx, old)
		switch {
		case j.State == history.Conflict && then != history.Conflict:
			c.Worse = true
			say("does not apply any more: %s", j.Detail)
		case j.State == history.BaseBroken && then != history.BaseBroken:
			c.Worse = true
			say("the tree does not build, without the series: %s", j.Detail)
		case j.Run == "" || j.State == history.Broken || j.State == history.DiskFull:
			continue // trouble, or left over; both are listed elsewhere
		case !had || old.Run == "":
			// Never answered before, or not last night: compared with the last
			// answer there is.
			prev, err := x.lastAnswer(ctx, j)
			if err != nil {
				return err
			}
			if prev == nil {
				if f, err := x.DB.Facts(ctx, j.Run); err == nil {
					c.Worse = history.Failing(f.Verdict)
					say("first answer: %s%s", f.Verdict, tail(f.Reason))
					for _, cell := range f.Cells {
						if history.Failing(cell.Verdict) && len(c.Lines) < 12 {
							say("FAILS        %s: %s", cell.ID, cell.Signature)
						}
					}
				}
			} else if err := x.diff(ctx, &c, prev, j.Run); err != nil {
				return err
			}
		case old.Run != j.Run:
			prev, err := x.DB.Facts(ctx, old.Run)
			if errors.Is(err, history.ErrUnknown) {
				continue
			}
			if err != nil {
				return err
			}
			if prev.Verdict == checks.Infra {
				// Last night had no answer: the one before it counts.
				if p, err := x.lastAnswer(ctx, j); err != nil {
					return err
				} else if p != nil {
					prev = p
				}
			}
			if err := x.diff(ctx, &c, prev, j.Run); err != nil {
				return err
			}
		}
		if len(c.Lines) > 0 {
			if j.Culprit.Patch > 0 {
				in := ""
				if j.Culprit.Cell != "" {
					in = ", seen in " + j.Culprit.Cell
				}
				say("culprit      patch %d: %s%s", j.Culprit.Patch, j.Culprit.Subject, in)
			} else if c.Worse && j.Target.Series == alone {
				say("hint         patchcheck bisect finds the commit (docs/nightly.md)")
			}
			x.res.Changes = append(x.res.Changes, c)
		}
	}
	return nil
}

// then is the state of an earlier job, or, when its answer was known, the state
// in which that answer was given.
func (x *night) then(ctx context.Context, j history.Job) history.State {
	if j.State != history.Known {
		return j.State
	}
	f, err := x.DB.Facts(ctx, j.Run)
	if err != nil {
		return j.State
	}
	return outcome(f.Findings, f.Verdict, f.Reason)
}

func (x *night) diff(ctx context.Context, c *Change, prev *history.Facts, id string) error {
	now, err := x.DB.Facts(ctx, id)
	if err != nil {
		return err
	}
	d, err := x.DB.Diff(ctx, prev, now)
	if err != nil {
		return err
	}
	d.NoTiming = "" // of interest to who asks for a comparison, not every night
	if d.SameResults() {
		return nil
	}
	c.Worse = d.Worse()
	d.Lines(func(l string) { c.Lines = append(c.Lines, l) })
	return nil
}

// lastAnswer is the newest run of an earlier night that answers for the job's
// target; nil when there is none.
func (x *night) lastAnswer(ctx context.Context, j history.Job) (*history.Facts, error) {
	js, err := x.DB.JobsOf(ctx, j.Target, 400)
	if err != nil {
		return nil, err
	}
	for _, o := range js {
		if o.Night == x.n.ID || o.Run == "" || o.Verdict == checks.Infra {
			continue
		}
		f, err := x.DB.Facts(ctx, o.Run)
		if errors.Is(err, history.ErrUnknown) {
			continue
		}
		return f, err
	}
	return nil, nil
}

func tail(s string) string {
	if s == "" {
		return ""
	}
	return " (" + firstLine(s) + ")"
}

// Text is the night for people: one line when there is nothing to say.
func (r *Result) Text() string {
	var b strings.Builder
	left := 0
	var leftOver []string
	for _, j := range r.Jobs {
		if j.State == history.Left || j.State == history.Waiting {
			left++
			leftOver = append(leftOver, fmt.Sprintf("%s (%s)", words(j.Target), j.Detail))
		}
	}
	since := ""
	if r.Last != "" {
		since = " since " + r.Last
	}
	fmt.Fprintf(&b, "night %s: ", r.Night.ID)
	switch {
	case len(r.Changes) == 0 && r.Last == "" && len(r.Trouble) == 0:
		b.WriteString("nothing to say")
	case len(r.Changes) == 0:
		b.WriteString("nothing changed" + since)
	case r.Worse():
		b.WriteString("something got worse" + since)
	default:
		b.WriteString("changes" + since + ", none for the worse")
	}
	fmt.Fprintf(&b, " (%s run, %d known", count(r.Ran, "job"), r.Known)
	if left > 0 {
		fmt.Fprintf(&b, ", %d left over", left)
	}
	b.WriteString(")\n")
	for _, c := range r.Changes {
		if c.Target == (history.Target{}) {
			fmt.Fprintf(&b, "%s\n", c.Lines[0])
			continue
		}
		fmt.Fprintf(&b, "%s\n", words(c.Target))
		for _, l := range c.Lines {
			fmt.Fprintf(&b, "  %s\n", l)
		}
	}
	if len(r.Trouble) > 0 {
		b.WriteString("trouble of our own, which says nothing about the code:\n")
		for _, l := range r.Trouble {
			fmt.Fprintf(&b, "  %s\n", l)
		}
	}
	if left > 0 {
		b.WriteString("left over:\n")
		for _, l := range leftOver {
			fmt.Fprintf(&b, "  %s\n", l)
		}
	}
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
