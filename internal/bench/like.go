// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"slices"
	"strings"

	"patchcheck/checks/fio"
)

// Unlike says why two experiments do not measure the same thing, most
// important first; nil when they do. The kernels' code is what may differ: not
// the work, the configuration, the accelerator, the machine.
func Unlike(a, b *Experiment) (why []string) {
	differ := func(what, x, y string) {
		if x != y {
			why = append(why, fmt.Sprintf("%s: %s and %s", what, orNone(x), orNone(y)))
		}
	}
	jobs := map[string]Job{}
	for _, j := range a.Jobs {
		jobs[j.Name] = j
	}
	common := 0
	for _, j := range b.Jobs {
		o, ok := jobs[j.Name]
		if !ok {
			continue
		}
		if common++; o.Hash != j.Hash {
			why = append(why, fmt.Sprintf("job %s is another one: %s", j.Name, jobDiff(o.Text, j.Text)))
		}
	}
	if common == 0 || len(a.Jobs) != len(b.Jobs) {
		why = append(why, fmt.Sprintf("jobs: %s and %s", jobNames(a.Jobs), jobNames(b.Jobs)))
	}
	differ("accelerator", a.Accel.Name, b.Accel.Name)
	differ("kernel architecture", arch(a), arch(b))
	if len(a.Hosts) != len(b.Hosts) {
		why = append(why, fmt.Sprintf("%d and %d machines", len(a.Hosts), len(b.Hosts)))
	} else {
		for i := range a.Hosts {
			differ("CPU", a.Hosts[i].CPU, b.Hosts[i].CPU)
			differ("CPUs of the host", fmt.Sprint(a.Hosts[i].CPUs), fmt.Sprint(b.Hosts[i].CPUs))
			differ("link", a.Hosts[i].Link, b.Hosts[i].Link)
		}
	}
	differ("kernel config", config(a), config(b))
	differ("compiler", compiler(a), compiler(b))
	differ("guest", fmt.Sprintf("%d CPUs, %d MiB", a.Guest.CPUs, a.Guest.MemMiB), fmt.Sprintf("%d CPUs, %d MiB", b.Guest.CPUs, b.Guest.MemMiB))
	differ("fabric", a.Fabric, b.Fabric)
	differ("mount", mountOptions(a.Mount), mountOptions(b.Mount))
	differ("fio", a.Versions["fio"], b.Versions["fio"])
	differ("qemu", a.Versions["qemu"], b.Versions["qemu"])
	return why
}

func orNone(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func jobNames(js []Job) string {
	var ns []string
	for _, j := range js {
		ns = append(ns, j.Name)
	}
	return orNone(strings.Join(ns, ", "))
}

// jobDiff is the first line that only one of two job texts has.
func jobDiff(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	only := func(p, q []string) string {
		for _, l := range p {
			if l = strings.TrimSpace(l); l != "" && !slices.ContainsFunc(q, func(m string) bool { return strings.TrimSpace(m) == l }) {
				return l
			}
		}
		return "nothing"
	}
	return fmt.Sprintf("%q and %q", only(x, y), only(y, x))
}

func arch(e *Experiment) string {
	if len(e.Arms) > 0 {
		return e.Arms[0].Arch
	}
	return ""
}

// config and compiler are of the base arm: those of the others may differ by
// what the series adds.
func config(e *Experiment) string {
	if len(e.Arms) > 0 {
		c := e.Arms[0].Config
		return c[:min(12, len(c))]
	}
	return ""
}

func compiler(e *Experiment) string {
	if len(e.Arms) > 0 {
		return e.Arms[0].Compiler
	}
	return ""
}

// Side is one group of results that Loose compares.
type Side struct {
	Name    string
	Label   string
	Files   []string     // where the outputs come from, for messages
	Outputs []fio.Output // one per run
	Values  []Metric     // in place of outputs: one per run
}

// Loose makes an experiment of results whose order and boots nobody recorded:
// each output is one independent run. differs names what the sides did
// differently; then the numbers compare the work, not the kernels.
func Loose(sides []Side, floor float64) (e *Experiment, differs []string) {
	e = &Experiment{Schema: Schema, Design: Design{Alpha: DefaultAlpha, Interval: DefaultInterval, Floor: floor}}
	var first *fio.Output
	named := map[string]bool{}
	for _, s := range sides {
		e.Arms = append(e.Arms, Arm{Name: s.Name, Label: s.Label})
		for i := range s.Outputs {
			o := &s.Outputs[i]
			if first == nil {
				first = o
			}
			_, why := fio.Comparable(*first, *o)
			for _, w := range why {
				if !named[w] {
					named[w] = true
					differs = append(differs, w)
				}
			}
			e.Boots = append(e.Boots, Boot{Arm: s.Name, Index: len(e.Boots) + 1, Runs: []Run{{Index: 1, out: o}}})
		}
		for _, v := range s.Values {
			e.Boots = append(e.Boots, Boot{Arm: s.Name, Index: len(e.Boots) + 1,
				Runs: []Run{{Index: 1, Metrics: map[string]Metric{"value": v}}}})
		}
	}
	return e, differs
}

// Across compares an arm of one experiment with an arm of another: the first
// is the base. Boots of the two did not alternate, so what changed on the
// machine in between counts too; floor is the share below which nothing is
// claimed. differs is Unlike's.
func Across(a, b *Experiment, armA, armB string, floor float64) (e *Experiment, differs []string, err error) {
	differs = Unlike(a, b)
	e = &Experiment{Schema: Schema, Title: b.Title, Jobs: a.Jobs, Hosts: b.Hosts, Accel: b.Accel, Versions: b.Versions, Fabric: b.Fabric, Mount: b.Mount,
		Design: Design{Alpha: DefaultAlpha, Interval: DefaultInterval, Floor: floor, Primary: a.Design.Primary, Runs: a.Design.Runs}}
	e.across = true
	if a.Accel.Name == "tcg" {
		e.Accel = a.Accel
	}
	names := [2]string{armA + " of " + a.ID, armB + " of " + b.ID}
	if a.ID == b.ID {
		names = [2]string{armA, armB}
	}
	if names[0] == names[1] {
		return nil, differs, fmt.Errorf("%s is one and the same side", names[0])
	}
	for i, x := range []*Experiment{a, b} {
		from := [2]string{armA, armB}[i]
		k := slices.IndexFunc(x.Arms, func(m Arm) bool { return m.Name == from })
		if k < 0 {
			return nil, differs, fmt.Errorf("%s has no arm %q: it has %s", x.ID, from, armNames(x))
		}
		arm := x.Arms[k]
		arm.Name = names[i]
		e.Arms = append(e.Arms, arm)
		for _, bt := range x.boots(from) {
			c := *bt
			c.Arm, c.Index = names[i], len(e.Boots)+1
			e.Boots = append(e.Boots, c)
		}
	}
	e.Limits = append(e.Limits, "the two sides were not measured in turns: what changed between the two runs counts too")
	return e, differs, nil
}

func armNames(e *Experiment) string {
	var ns []string
	for _, a := range e.Arms {
		ns = append(ns, a.Name)
	}
	return strings.Join(ns, ", ")
}
