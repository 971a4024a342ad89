// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"patchcheck/checks/stats"
)

// Defaults of a Design.
const (
	DefaultBoots  = 5 // below it the rank test cannot answer
	DefaultRuns   = 3
	DefaultWarmup = 1
	DefaultMax    = 24 // of an experiment that may grow: with five looks; claims need the second one, of eight boots
	// Of a claim. One in a hundred, as a patch that is called slower and is not
	// costs its author a day; five boots of each kernel can just reach it.
	DefaultAlpha    = 0.01
	DefaultInterval = 0.05 // of intervals: 95 %, as everybody reads them
)

// DefaultNoise are the limits for hosts that nobody keeps quiet. They are
// about the host alone: a boot is never repeated for what it measured.
var DefaultNoise = NoiseLimits{Others: 0.15, Steal: 0.05, QEMUs: 0, Repeats: 1}

// Grows tells whether the experiment may go on after its first look.
func (d Design) Grows() bool { return d.Precision > 0 || d.Budget > 0 || d.Max > d.Boots }

// withDefaults fills what was not asked for and fixes the schedule of looks.
func (d Design) withDefaults() (Design, error) {
	if d.Boots < 0 || d.Runs < 0 || d.Warmup < 0 || d.Max < 0 {
		return d, errors.New("numbers of boots and runs cannot be negative")
	}
	if d.Boots == 0 {
		d.Boots = DefaultBoots
	}
	if d.Runs == 0 {
		d.Runs = DefaultRuns
	}
	if d.Alpha == 0 {
		d.Alpha, d.Interval = DefaultAlpha, DefaultInterval
	}
	if d.Alpha < 0.001 || d.Alpha > 0.2 {
		return d, fmt.Errorf("a chance of %g for a false claim: say one from 0.001 to 0.2", d.Alpha)
	}
	if d.Max == 0 {
		d.Max = d.Boots
		if d.Precision > 0 || d.Budget > 0 {
			d.Max = max(DefaultMax, d.Boots)
		}
	}
	if d.Max < d.Boots {
		return d, fmt.Errorf("at most %d boots an arm, but the first look is at %d", d.Max, d.Boots)
	}
	if d.Noise == (NoiseLimits{}) {
		d.Noise = DefaultNoise
	}
	if d.Seed == 0 {
		d.Seed = rand.Uint64()>>11 | 1 // fits a JSON number
	}
	if len(d.Schedule) == 0 {
		d.Schedule = schedule(d.Boots, d.Max)
	}
	return d, nil
}

// schedule looks first after boots and then whenever the data have grown by
// half: five looks from 5 to 24.
func schedule(boots, most int) []int {
	s := []int{boots}
	for n := boots; n < most; {
		n = max(n+1, (3*n+1)/2)
		if n*5/4 > most { // a look just before the last one is wasted
			n = most
		}
		s = append(s, min(n, most))
	}
	return s
}

// Method says in words how the experiment ends and why its claims hold.
func (d Design) Method() string {
	e := d.errors()
	if !d.Grows() {
		return fmt.Sprintf("a fixed number of boots, looked at once: %g %% error of claims, %g %% of intervals", e.claim*100, e.interval*100)
	}
	return fmt.Sprintf("group-sequential: looks at %s boots an arm; %g %% error of claims and %g %% of intervals, spent over the looks in proportion to the boots (Lan-DeMets); intervals are repeated confidence intervals, which hold whichever rule ends the experiment",
		list(d.Schedule), e.claim*100, e.interval*100)
}

func list(ns []int) string {
	s := ""
	for i, n := range ns {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(n)
	}
	return s
}

// order gives the places of one block: each arm once, in random order. It
// depends on the seed and the block alone, so that an experiment that goes on
// keeps its order.
func order(seed uint64, block int, arms []Arm) []Place {
	rnd := rand.New(rand.NewPCG(seed, uint64(block)))
	ps := make([]Place, len(arms))
	for i, k := range rnd.Perm(len(arms)) {
		ps[i] = Place{Block: block, Arm: arms[k].Name, Try: 1}
	}
	return ps
}

// levels are the nominal errors of intervals and of claims at a look.
type levels struct{ interval, claim float64 }

// errors are those over the whole experiment.
func (d Design) errors() levels {
	claim := cmp.Or(d.Alpha, DefaultAlpha)
	return levels{cmp.Or(d.Interval, claim), claim}
}

// levels gives the nominal errors of a look at n boots an arm after the looks
// before, and what of the error of claims is spent with it; intervals spend the
// same share of theirs. The last look of all spends what is left; it is the last
// one because of the schedule or the clock, not because of what was seen.
func (d Design) levels(before []Look, n int, last bool) (levels, float64, error) {
	whole := d.errors()
	if !d.Grows() {
		return whole, whole.claim, nil
	}
	var ns []int
	var ss []float64
	for _, l := range before {
		if l.Boots < n {
			ns, ss = append(ns, l.Boots), append(ss, l.Spent/whole.claim)
		}
	}
	spent := min(1, float64(n)/float64(d.Max))
	if last {
		spent = 1
	}
	ns, ss = append(ns, n), append(ss, spent)
	at := func(whole float64) (float64, error) {
		of := make([]float64, len(ss))
		for i, s := range ss {
			of[i] = s * whole
		}
		ls, err := stats.Levels(ns, of)
		if err != nil {
			return 0, err
		}
		return ls[len(ls)-1], nil
	}
	var l levels
	var err error
	if l.interval, err = at(whole.interval); err == nil {
		l.claim, err = at(whole.claim)
	}
	return l, spent * whole.claim, err
}

// New plans an experiment. dir is the run folder that it is kept in, "" to
// keep it in memory only.
func New(dir string, d Design, arms []Arm, jobs []Job) (*Experiment, error) {
	e := &Experiment{Schema: Schema, Arms: arms, Jobs: slices.Clone(jobs)}
	return e, e.Prepare(dir, d)
}

// Prepare fixes the design of an experiment whose arms and jobs are known, and
// with it the order of the boots. It has to come before the first boot.
func (e *Experiment) Prepare(dir string, d Design) error {
	d, err := d.withDefaults()
	if err != nil {
		return err
	}
	if len(e.Arms) < 2 {
		return fmt.Errorf("%d arm: there is nothing to compare", len(e.Arms))
	}
	names := map[string]bool{}
	for _, a := range e.Arms {
		if a.Name == "" || names[a.Name] {
			return fmt.Errorf("arm %q: arms need different names", a.Name)
		}
		names[a.Name] = true
	}
	if len(e.Jobs) == 0 {
		return errors.New("no job: there is nothing to measure")
	}
	if len(e.Boots) > 0 {
		return errors.New("the design cannot change after the first boot")
	}
	e.Design, e.dir, e.Order = d, dir, nil
	for i := range e.Jobs {
		if e.Jobs[i].Hash == "" {
			h := sha256.Sum256([]byte(e.Jobs[i].Text))
			e.Jobs[i].Hash = hex.EncodeToString(h[:])
		}
	}
	for b := 1; b <= d.Max; b++ {
		e.Order = append(e.Order, order(d.Seed, b, e.Arms)...)
	}
	return nil
}

// Resume takes over the boots of an experiment that was interrupted: the same
// arms and jobs, and the design is that of the earlier one. Raw outputs are
// copied into the new run folder.
func (e *Experiment) Resume(dir string, old *Experiment) error {
	if diff := e.other(old); diff != "" {
		return fmt.Errorf("the experiment in %s cannot be gone on with: %s", old.dir, diff)
	}
	e.Design, e.Order, e.Looks, e.Started, e.Stop = old.Design, old.Order, old.Looks, old.Started, old.Stop
	e.Boots, e.dir = old.Boots, dir
	if dir == "" || dir == old.dir {
		return nil
	}
	return os.CopyFS(filepath.Join(dir, RawDir), os.DirFS(filepath.Join(old.dir, RawDir)))
}

// other says why boots of old are not boots of e; "" when they are.
func (e *Experiment) other(old *Experiment) string {
	if len(old.Arms) != len(e.Arms) || len(old.Jobs) != len(e.Jobs) {
		return fmt.Sprintf("it has %d arms and %d jobs, now there are %d and %d", len(old.Arms), len(old.Jobs), len(e.Arms), len(e.Jobs))
	}
	for i, a := range old.Arms {
		if a.Name != e.Arms[i].Name || a.Key != e.Arms[i].Key {
			return fmt.Sprintf("its arm %s is another kernel than %s now", a.Name, e.Arms[i].Name)
		}
	}
	for i, j := range old.Jobs {
		if j.Name != e.Jobs[i].Name || j.Hash != e.Jobs[i].Hash {
			return fmt.Sprintf("its job %s is another one now", j.Name)
		}
	}
	if old.Accel.Name != e.Accel.Name {
		return fmt.Sprintf("its guests ran under %s, now there is %s", old.Accel.Name, e.Accel.Name)
	}
	return ""
}
