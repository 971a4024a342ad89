// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/checks/fio"
)

// triesAfterFailure is how often a place is tried again after a failure that
// is not the kernel's.
const triesAfterFailure = 2

// conductor runs one experiment.
type conductor struct {
	e     *Experiment
	boot  Booter
	see   Observer
	watch func() func() Noise
	now   func() time.Time
	spent time.Duration // on blocks of this experiment, earlier sessions included
}

// Conduct runs an experiment that New planned or Open read: it asks for boots
// in the planned order, repeats noisy ones, looks at the data when the design
// says so, and stops when the design says so. bench.json is written after each
// boot, so that an experiment that was interrupted can be read and gone on
// with. The experiment is filled whatever the error.
//
// One that has come to its end by its own rule stays as it is.
//
// A *KernelError ends it with that error; so does a boot that fails three
// times for other reasons. When ctx ends, Stop says so and ctx's error comes
// back.
func Conduct(ctx context.Context, e *Experiment, b Booter, o Observer) error {
	c := &conductor{e: e, boot: b, see: o, watch: watch, now: time.Now}
	return c.run(ctx)
}

func (c *conductor) run(ctx context.Context) error {
	e := c.e
	switch e.Stop.Reason {
	case StopBoots, StopPrecision, StopClear, StopBudget, StopMax:
		return nil // it has come to its end; going on would be another design
	}
	if e.Started.IsZero() {
		e.Started = c.now()
	}
	e.Stop, e.Ended = Stop{}, time.Time{}
	for _, b := range e.Boots {
		c.spent += b.Elapsed
	}
	err := c.blocks(ctx)
	switch {
	case ctx.Err() != nil:
		e.Stop = Stop{StopCanceled, "interrupted"}
		err = ctx.Err()
	case err != nil:
		e.Stop = Stop{StopFailed, err.Error()}
	}
	e.Ended = c.now()
	return errors.Join(err, e.Save())
}

func (c *conductor) blocks(ctx context.Context) error {
	e, d := c.e, c.e.Design
	for block := 1; block <= d.Max; block++ {
		// No block is begun that the budget would cut in two.
		if n := block - 1; d.Budget > 0 && n > 0 && c.spent+c.spent/time.Duration(n) > d.Budget {
			return c.end(StopBudget, fmt.Sprintf("the budget of %s is used: %s for %d boots of each arm", d.Budget, c.spent.Round(time.Second), n), n)
		}
		if err := c.block(ctx, block); err != nil {
			return err
		}
		if err := e.Save(); err != nil {
			return err
		}
		if !slices.Contains(d.Schedule, block) {
			continue
		}
		if block == d.Max {
			reason, text := StopMax, fmt.Sprintf("%d boots of each arm, as many as allowed", block)
			if !d.Grows() {
				reason, text = StopBoots, fmt.Sprintf("%d boots of each arm, as asked", block)
			}
			return c.end(reason, text, block)
		}
		if slices.ContainsFunc(e.Looks, func(l Look) bool { return l.Boots == block }) {
			continue // of an earlier session
		}
		stop, err := c.look(block, "")
		if err != nil {
			return err
		}
		if stop.Reason != "" {
			e.Stop = stop
			return nil
		}
	}
	return nil
}

// block runs what is missing of one block, then repeats what was noisy.
func (c *conductor) block(ctx context.Context, block int) error {
	var places []Place
	for _, p := range c.e.Order {
		if p.Block == block && p.Try == 1 {
			places = append(places, p)
		}
	}
	failed := map[string]int{}
	for len(places) > 0 {
		p := places[0]
		places = places[1:]
		if c.e.used(p.Block, p.Arm) != nil {
			continue
		}
		for _, b := range c.e.Boots {
			if b.Block == p.Block && b.Arm == p.Arm {
				p.Try = max(p.Try, b.Try+1)
			}
		}
		if p.Try > 1 {
			c.repeat(p)
		}
		b, err := c.one(ctx, p)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var ke *KernelError
		switch {
		case errors.As(err, &ke):
			return err
		case err != nil:
			if failed[p.Arm]++; failed[p.Arm] > triesAfterFailure {
				if u := (*unusable)(nil); errors.As(err, &u) && p.Arm != c.e.Arms[0].Name && c.e.used(p.Block, c.e.Arms[0].Name) != nil {
					// The base did the same work.
					return &KernelError{Arm: p.Arm, Text: u.text}
				}
				return fmt.Errorf("arm %s failed %d times: %w", p.Arm, failed[p.Arm], err)
			}
			places = append(places, p)
		case len(b.Noisy) > 0 && b.Try <= c.e.Design.Noise.Repeats && c.mayRepeat():
			b.Rejected = "noisy host, repeated: " + strings.Join(b.Noisy, ", ")
			places = append(places, p)
		}
		c.e.Boots = append(c.e.Boots, b)
		if err := c.e.Save(); err != nil {
			return err
		}
		if c.see != nil {
			c.see.Booted(b)
		}
	}
	return nil
}

// mayRepeat tells whether another noisy boot may be repeated: one for every
// three that count. On a host that is always noisy, repeating would only double
// the time.
func (c *conductor) mayRepeat() bool {
	used, repeated := 0, 0
	for _, b := range c.e.Boots {
		switch {
		case b.Rejected == "":
			used++
		case len(b.Noisy) > 0:
			repeated++
		}
	}
	return repeated < max(1, (used+1)/3)
}

// repeat adds the place to the order, behind its block.
func (c *conductor) repeat(p Place) {
	at := 0
	for i, x := range c.e.Order {
		if x.Block == p.Block {
			at = i + 1
		}
	}
	c.e.Order = slices.Insert(c.e.Order, at, p)
}

// unusable is a boot whose runs are no result.
type unusable struct{ text string }

func (u *unusable) Error() string { return u.text }

// one makes one boot. The record is complete whatever the error, except when
// ctx ended.
func (c *conductor) one(ctx context.Context, p Place) (Boot, error) {
	n := len(c.e.Boots) + 1
	if c.see != nil {
		planned := 0
		for _, s := range c.e.Design.Schedule {
			if planned = s; s >= p.Block {
				break
			}
		}
		c.see.Booting(p, n, planned*len(c.e.Arms))
	}
	start := c.now()
	done := c.watch()
	b, err := c.boot.Boot(ctx, p.Arm, n)
	b.Noise = done()
	took := c.now().Sub(start)
	c.spent += took
	b.Arm, b.Index, b.Block, b.Try = p.Arm, n, p.Block, p.Try
	if b.Started.IsZero() {
		b.Started = start
	}
	if b.Elapsed == 0 {
		b.Elapsed = took
	}
	b.Noisy = c.e.Design.Noise.broken(b.Noise)
	if err == nil {
		err = c.e.keep(&b)
	}
	if err != nil {
		b.Rejected = "failed: " + err.Error()
	}
	return b, err
}

// keep writes the raw outputs of a boot and says whether they are a result.
func (e *Experiment) keep(b *Boot) error {
	measured := 0
	for i := range b.Runs {
		r := &b.Runs[i]
		if len(r.Raw) > 0 {
			r.Fio = filepath.Join(RawDir, fmt.Sprintf("%03d-%s-%s-%d.json", b.Index, slug(b.Arm), slug(r.Job), r.Index))
			if e.dir != "" {
				if err := os.MkdirAll(filepath.Join(e.dir, RawDir), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(e.dir, r.Fio), r.Raw, 0o644); err != nil {
					return fmt.Errorf("cannot keep fio's output: %w", err)
				}
			}
			raw := r.Raw
			if r.Raw = nil; e.dir == "" {
				r.Raw = raw
			}
			o, err := fio.Parse(bytes.NewReader(raw))
			if err != nil {
				return &unusable{fmt.Sprintf("job %s, run %d: %v", r.Job, r.Index, err)}
			}
			r.out = &o
			if o.Verdict() != checks.Pass {
				text := "no result"
				if fs := o.Findings(checks.Where{}); len(fs) > 0 {
					text = fs[0].Message
				}
				return &unusable{fmt.Sprintf("job %s, run %d: %s", r.Job, r.Index, text)}
			}
		}
		if !r.Warmup && r.Invalid == "" {
			measured++
		}
	}
	if measured == 0 {
		why := "it has no measured run"
		for _, r := range b.Runs {
			if r.Invalid != "" {
				why = r.Invalid
			}
		}
		return &unusable{"nothing of this boot can be used: " + why}
	}
	return nil
}

func slug(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, s)
}

// used is the boot of an arm that counts in a block, nil when there is none.
func (e *Experiment) used(block int, arm string) *Boot {
	for i := range e.Boots {
		if b := &e.Boots[i]; b.Block == block && b.Arm == arm && b.Rejected == "" {
			return b
		}
	}
	return nil
}

// look analyses the primary metric at n boots an arm and applies the stopping
// rule. ends is why this is the last look whatever it shows, "" when it need
// not be.
func (c *conductor) look(n int, ends string) (Stop, error) {
	e, d := c.e, c.e.Design
	at, spent, err := d.levels(e.Looks, n, ends != "")
	if err != nil {
		return Stop{}, err
	}
	l := Look{At: c.now(), Boots: n, Level: at.interval, Claim: at.claim, Spent: spent}
	var stop Stop
	row, ok := e.primary(at)
	if u := d.PrecisionUnit; ok && d.Precision > 0 && u != "%" && u != "" && u != row.Unit {
		return Stop{}, fmt.Errorf("a precision in %s was asked for, but %s is in %s: name another metric with --primary, or give the precision in %%", u, row.Name, cmpOr(row.Unit, "plain numbers"))
	}
	if ok {
		loc := row.Location()
		l.Metric, l.Diff, l.Lo, l.Hi, l.Unit = row.Name, loc.Diff, finite(loc.Lo), finite(loc.Hi), row.Unit
		half := (loc.Hi - loc.Lo) / 2
		if d.PrecisionUnit == "%" && loc.Base != 0 {
			half = half / loc.Base * 100
		}
		switch {
		// A claim ends the experiment unless it was asked for a precision:
		// then the size is the question.
		case d.Precision > 0 && row.Outcome.Answers() && half >= 0 && half <= d.Precision:
			stop = Stop{StopPrecision, fmt.Sprintf("the interval of %s is within ±%s", row.Name, precise(d.Precision, cmpOr(d.PrecisionUnit, row.Unit)))}
		case d.Precision == 0 && row.Outcome.Claims():
			stop = Stop{StopClear, fmt.Sprintf("%s: the difference is shown", row.Name)}
		case row.Exact && !row.Varies:
			stop = Stop{StopClear, row.Name + " is an exact count"}
		}
	}
	l.Stop = cmp.Or(ends, stop.Reason)
	e.Looks = append(e.Looks, l)
	if c.see != nil {
		c.see.Looked(l)
	}
	return stop, nil
}

// end looks for the last time and stops for the reason given.
func (c *conductor) end(reason, text string, n int) error {
	e := c.e
	if k := len(e.Looks); n >= 2 && (k == 0 || e.Looks[k-1].Boots < n) {
		if _, err := c.look(n, reason); err != nil {
			return err
		}
	}
	e.Stop = Stop{reason, text}
	return nil
}
