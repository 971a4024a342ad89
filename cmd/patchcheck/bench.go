// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"patchcheck/checks"
	"patchcheck/checks/fio"
	"patchcheck/checks/stats"
	"patchcheck/internal/bench"
	"patchcheck/internal/proc"
	"patchcheck/internal/run"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
)

const defaultBenchPlan = "nfs-latency"

// benchFlags are those of an experiment.
type benchFlags struct {
	runFlags
	design            bench.Design
	precision, resume string
	arms              []string
	aa, untilClear    bool
	allowNoise        bool
	format            formatFlag
	hosts             hostFlags
}

// formatFlag is --format and --json of commands that render an analysis.
type formatFlag struct {
	format string
	json   bool
}

func (f *formatFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "format", "rows", strings.Join(bench.Formats, ", "))
	cmd.Flags().BoolVar(&f.json, "json", false, "the same as --format json")
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(toAny(bench.Formats), cobra.ShellCompDirectiveNoFileComp))
}

// check finds a wrong format before hours are spent on a measurement.
func (f *formatFlag) check() error {
	if f.json {
		f.format = "json"
	}
	if !slices.Contains(bench.Formats, f.format) {
		return usageError("no format %q: there are %s", f.format, strings.Join(bench.Formats, ", "))
	}
	return nil
}

func (a *app) benchCmd() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench [SERIES...]",
		Short: "Measure a series against its base, with honest statistics",
		Long: `Measure what a series changes: base and patched kernels (and the patched one
with the plan's companions as a third arm) boot in random order, do the plan's
jobs, and are compared boot by boot. Without a difference that stands, it says
so, with the size that would have been seen. SERIES is as for "patchcheck run".

The number of boots is fixed (--boots) unless one of --precision, --budget and
--until-clear lets it grow; then the data are looked at several times and the
5 % error is spent over the looks, so that the claim holds all the same.

Exit code: 0 nothing got worse, 1 something did or a kernel failed, 2 bad input,
3 our infrastructure failed or nothing can be said, 130 interrupted (--resume
goes on). docs/bench.md explains the method.`,
		Example: `  patchcheck bench 0001-*.patch
  patchcheck bench --plan nfs-tail --budget 2h nfsd-testing..HEAD
  patchcheck bench --precision 0.1us --format sentence 0001-*.patch
  patchcheck bench compare before-*.json -- after-*.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.doBench(cmd, f, args) },
	}
	f.add(cmd)
	f.how(cmd.Flags())
	cmd.Flags().MarkHidden("fresh")
	fl := cmd.Flags()
	fl.StringVar(&f.o.Plan, "plan", defaultBenchPlan, "plan with a measure section: a file, or a bundled plan's name")
	fl.StringVar(&f.o.Accel, "accel", "auto", "how guests run: auto (found out by a boot), kvm, tcg")
	fl.BoolVar(&f.o.Incomplete, "incomplete", false, "try a series that lacks parts")
	fl.IntVar(&f.design.Boots, "boots", 0, fmt.Sprintf("boots of each kernel, or those before the first look (default: the plan's, else %d)", bench.DefaultBoots))
	fl.IntVar(&f.design.Max, "max-boots", 0, fmt.Sprintf("boots of each kernel at most, when their number may grow (default %d)", bench.DefaultMax))
	fl.IntVar(&f.design.Runs, "runs", 0, "measured runs of each job in a boot (default: the plan's)")
	fl.StringVar(&f.precision, "precision", "", "add boots until the primary metric's interval is within this much of its middle: 0.1us, 0.5%")
	fl.DurationVar(&f.design.Budget, "budget", 0, "add boots until the answer is clear or this much time is used: 30m")
	fl.BoolVar(&f.untilClear, "until-clear", false, "add boots until the answer is clear, up to --max-boots")
	fl.Uint64Var(&f.design.Seed, "seed", 0, "seed of the order of boots (default: drawn, and recorded)")
	fl.StringVar(&f.design.Primary, "primary", "", `metric that the experiment is about: "JOB/NAME" (default: the plan's, else the first)`)
	fl.StringSliceVar(&f.arms, "arms", nil, "these arms of base, patched, patched+companion; the first is what the others are compared with")
	fl.BoolVar(&f.aa, "aa", false, "measure the base against itself: what differs is noise")
	fl.BoolVar(&f.allowNoise, "allow-noise", false, "do not repeat boots on a noisy host; they are marked all the same")
	fl.StringVar(&f.resume, "resume", "", "go on with an experiment that was interrupted: its name or run folder")
	f.hosts.add(fl)
	f.format.add(cmd)
	cmd.AddCommand(a.benchCompareCmd(), a.benchReportCmd(), a.benchFioCmd())
	return cmd
}

// experimenter is what "patchcheck bench" needs of internal/run.
type experimenter interface {
	bench.Booter
	Record() *bench.Experiment
	Folder() string
	Run() *runfolder.Run
	End(context.Context, error) error
}

var _ experimenter = (*run.Experiment)(nil)

func (a *app) doBench(cmd *cobra.Command, f *benchFlags, args []string) error {
	ctx := cmd.Context()
	if err := f.format.check(); err != nil {
		return err
	}
	if f.precision != "" {
		var err error
		if f.design.Precision, f.design.PrecisionUnit, err = bench.ParsePrecision(f.precision); err != nil {
			return usageError("--precision: %v", err)
		}
	}
	if f.design.Budget < 0 {
		return usageError("--budget: a time cannot be negative")
	}
	if f.aa && len(f.arms) > 0 {
		return usageError("--aa has arms of its own: leave out --arms")
	}
	if f.resume != "" {
		// What was planned holds: another design would not be the same experiment.
		for _, name := range []string{"plan", "boots", "max-boots", "runs", "precision", "budget", "until-clear", "seed", "primary", "allow-noise", "aa"} {
			if cmd.Flags().Changed(name) {
				return usageError("an experiment that is gone on with keeps its plan and its design: leave out --%s", name)
			}
		}
	}
	o, err := a.options(ctx, &f.runFlags, args)
	if err != nil {
		return err
	}
	o.Command = append([]string{"patchcheck", "bench"}, args...)
	o.View = view.New(a.stderr)
	if two, err := f.hosts.asked(); err != nil {
		return err
	} else if two {
		return a.benchHosts(ctx, f, &f.hosts, o)
	}
	mo := run.MeasureOptions{Arms: f.arms, AA: f.aa}
	var old *bench.Experiment
	if f.resume != "" {
		if len(args) > 0 {
			return usageError("an experiment that is gone on with keeps its series: leave out %s", strings.Join(args, " "))
		}
		if old, err = a.openBench(f.resume); err != nil {
			return err
		}
		mo.Resume = old.Dir()
	}
	e, err := run.NewExperiment(ctx, o, mo)
	if err != nil {
		var st *run.StoppedError
		if errors.As(err, &st) && st.Verdict != checks.Infra {
			return &exitError{exitFindings, fmt.Sprintf("there is nothing to measure: %s (run %s)", st.Reason, st.Run)}
		}
		return err
	}
	return a.conduct(ctx, f, e, old)
}

// conduct makes the experiment and reports on it.
func (a *app) conduct(ctx context.Context, f *benchFlags, e experimenter, old *bench.Experiment) error {
	rec := e.Record()
	err := f.prepare(rec, e.Folder(), old)
	if err == nil {
		follow := &benchView{w: a.stderr, arms: len(rec.Arms), budget: rec.Design.Budget}
		follow.begin(rec)
		err = bench.Conduct(ctx, rec, e, follow)
	}
	if eerr := e.End(ctx, err); eerr != nil && err == nil {
		err = eerr
	}
	if ctx.Err() != nil {
		line := []string{"patchcheck", "bench", "--resume", rec.ID}
		if a.runs != "" {
			line = append(line, "--out", a.runs)
		}
		fmt.Fprintf(a.stderr, "To go on from here:  %s\n", proc.Quote(line))
		return ctx.Err()
	}
	an, aerr := bench.Analyse(rec)
	if aerr == nil {
		aerr = a.keepReports(e.Folder(), an)
		if err == nil && aerr == nil {
			aerr = bench.Write(a.stdout, an, f.format.format)
		}
	}
	var ke *bench.KernelError
	switch {
	case errors.As(err, &ke):
		return &exitError{exitFindings, fmt.Sprintf("%v (run %s)", ke, rec.ID)}
	case err != nil:
		return err
	case aerr != nil:
		return aerr
	}
	return benchExit(an)
}

// prepare fixes the design: the plan's, with what the command line says.
func (f *benchFlags) prepare(rec *bench.Experiment, folder string, old *bench.Experiment) error {
	if old != nil {
		return rec.Resume(folder, old)
	}
	d, x := rec.Design, f.design
	d.Boots, d.Runs, d.Max = cmp.Or(x.Boots, d.Boots), cmp.Or(x.Runs, d.Runs), cmp.Or(x.Max, d.Max)
	d.Primary, d.Seed = cmp.Or(x.Primary, d.Primary), x.Seed
	d.Precision, d.PrecisionUnit, d.Budget = x.Precision, x.PrecisionUnit, x.Budget
	if f.untilClear && d.Max == 0 {
		d.Max = max(bench.DefaultMax, d.Boots)
	}
	if f.allowNoise {
		d.Noise = bench.DefaultNoise
		d.Noise.Repeats = 0
	}
	return rec.Prepare(folder, d)
}

// keepReports writes the readable forms beside the record.
func (a *app) keepReports(folder string, an *bench.Analysis) error {
	for name, format := range map[string]string{"bench.txt": "rows", "bench.html": "html"} {
		var b bytes.Buffer
		if err := bench.Write(&b, an, format); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// benchExit turns an analysis into an exit code.
func benchExit(an *bench.Analysis) error {
	switch {
	case len(an.Worse()) > 0:
		return &exitError{code: exitFindings}
	case !an.Comparable():
		return &exitError{exitInfra, "nothing can be said: no metric has enough " + an.Unit}
	}
	return nil
}

// benchView tells a person how the experiment goes.
type benchView struct {
	w       io.Writer
	arms    int
	budget  time.Duration
	started time.Time
}

func (v *benchView) begin(e *bench.Experiment) {
	var arms []string
	for _, x := range e.Arms {
		arms = append(arms, x.Name)
	}
	fmt.Fprintf(v.w, "measure: %s; seed %d; %s\n", strings.Join(arms, " against "), e.Design.Seed, e.Design.Method())
	if e.Design.Max < bench.DefaultBoots {
		fmt.Fprintf(v.w, "measure: %d boots of each kernel cannot show a difference, only exact counts: at least %d are needed\n", e.Design.Max, bench.DefaultBoots)
	}
}

func (v *benchView) Booting(p bench.Place, n, planned int) {
	v.started = time.Now()
	again := ""
	if p.Try > 1 {
		again = fmt.Sprintf(", try %d", p.Try)
	}
	fmt.Fprintf(v.w, "boot %d of %d: %s%s\n", n, max(n, planned), p.Arm, again)
}

func (v *benchView) Booted(b bench.Boot) {
	say := ""
	switch {
	case b.Rejected != "":
		say = ", not used: " + b.Rejected
	case len(b.Noisy) > 0:
		say = ", noisy: " + strings.Join(b.Noisy, ", ")
	}
	fmt.Fprintf(v.w, "  took %s%s\n", b.Elapsed.Round(time.Second), say)
}

func (v *benchView) Looked(l bench.Look) {
	what := "go on"
	if l.Stop != "" {
		what = "stop: " + l.Stop
	}
	fmt.Fprintf(v.w, "look at %d boots of each: %s; %s\n", l.Boots, l, what)
}

// openBench finds an experiment by run folder, by id, or the newest for "" and
// "latest".
func (a *app) openBench(name string) (*bench.Experiment, error) {
	parent, err := a.runsDir()
	if err != nil {
		return nil, err
	}
	if name == "" || name == "latest" {
		dirs, err := filepath.Glob(filepath.Join(parent, "*", bench.File))
		if err != nil {
			return nil, err
		}
		if len(dirs) == 0 {
			return nil, usageError("no measurements yet in %s: patchcheck bench makes one", parent)
		}
		slices.Sort(dirs)
		name = filepath.Dir(dirs[len(dirs)-1])
	} else if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) && !strings.Contains(name, "/") {
		name = filepath.Join(parent, name)
	}
	e, err := bench.Open(name)
	if err != nil {
		return nil, usageError("%v", err)
	}
	return e, nil
}

// isBench tells whether an argument names a run folder with a measurement.
func (a *app) isBench(name string) bool {
	if _, err := os.Stat(filepath.Join(name, bench.File)); err == nil {
		return true
	}
	parent, err := a.runsDir()
	if err != nil || strings.Contains(name, "/") || name == "" {
		return false
	}
	_, err = os.Stat(filepath.Join(parent, name, bench.File))
	return err == nil
}

func (a *app) benchReportCmd() *cobra.Command {
	f := &formatFlag{}
	cmd := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Print a measurement again, in one of several forms",
		Long: `Print a measurement again from its run folder. RUN is a run folder or a run's
id; default is the newest. Formats: rows (metrics before and after), sentence
and table (for a commit message), sweep (one option over several values), json,
bench (lines for benchstat), html (a page with plots).`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			e, err := a.openBench(strings.Join(args, ""))
			if err != nil {
				return err
			}
			an, err := bench.Analyse(e)
			if err != nil {
				return err
			}
			if err := bench.Write(a.stdout, an, f.format); err != nil {
				return usageError("%v", err)
			}
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

type compareFlags struct {
	formatFlag
	force  bool
	floor  float64
	arms   []string
	better string
	unit   string
}

func (a *app) benchCompareCmd() *cobra.Command {
	f := &compareFlags{}
	cmd := &cobra.Command{
		Use:   "compare (RUN RUN | FILE... -- FILE... | FILE)",
		Short: "Compare measurements of two runs, or outputs of fio that you made yourself",
		Long: `Compare what was measured at two times or on two machines, the first side as
the base:

  RUN RUN            the same arm of two run folders of patchcheck bench
  FILE... -- FILE... fio's JSON output (json+ keeps all percentiles), one file
                     per run; a file may also hold plain numbers, one per run,
                     and a folder stands for the files in it
  FILE               one JSON object with two arrays of numbers

Sides that did different work, or ran with another configuration, accelerator,
architecture or CPU, are refused (exit 2) unless --force-unlike; then the result
says what differs. At least five runs a side are needed, and nobody knows the
order in which they were made, so changes below --floor are not claimed.

Exit code: 0 nothing got worse, 1 something did or a run failed, 2 bad input, 3
nothing can be said.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.compare(f, args, cmd.ArgsLenAtDash())
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&f.force, "force-unlike", false, "compare sides that are not alike, and say so in the result")
	fl.Float64Var(&f.floor, "floor", stats.LooseFloor*100, "smallest change in percent that is claimed")
	fl.StringSliceVar(&f.arms, "arms", nil, "arm of the first and of the second run (default: patched, else the only common one)")
	fl.StringVar(&f.better, "better", "lower", "of plain numbers, which side is better: lower, higher, none")
	fl.StringVar(&f.unit, "unit", "", "of plain numbers: ns, s, B/s, 1/s, or any word")
	return cmd
}

func (a *app) compare(f *compareFlags, args []string, dash int) error {
	if f.floor < 0 || f.floor >= 100 {
		return usageError("--floor %g: say a share in percent, from 0 to below 100", f.floor)
	}
	if !slices.Contains([]string{"lower", "higher", "none"}, f.better) {
		return usageError("--better %s: say lower, higher or none", f.better)
	}
	var sides [2][]string
	switch {
	case dash > 0 && dash < len(args):
		sides = [2][]string{args[:dash], args[dash:]}
	case dash >= 0:
		return usageError("one side of -- is empty: name files on both")
	case len(args) == 2:
		sides = [2][]string{args[:1], args[1:]}
	case len(args) == 1:
		return a.compareSamples(f, args[0])
	default:
		return usageError("put -- between the base's files and the others': patchcheck bench compare before-*.json -- after-*.json")
	}
	runs := 0
	for _, s := range sides {
		for _, x := range s {
			if a.isBench(x) {
				runs++
			}
		}
	}
	switch {
	case runs == 2 && len(sides[0]) == 1 && len(sides[1]) == 1:
		return a.compareRuns(f, sides[0][0], sides[1][0])
	case runs > 0:
		return usageError("compare either two run folders, or files with files")
	}
	var loose [2]bench.Side
	failed := false
	for i, files := range sides {
		s, bad, err := a.loadSide(f, files)
		if err != nil {
			return err
		}
		s.Name = [2]string{"base", "patched"}[i]
		loose[i], failed = s, failed || bad
	}
	if (len(loose[0].Values) > 0) != (len(loose[1].Values) > 0) || len(loose[0].Values) > 0 && len(loose[0].Outputs)+len(loose[1].Outputs) > 0 {
		return usageError("one side is fio's output, the other plain numbers")
	}
	return a.compareLoose(f, loose[:], failed)
}

// compareLoose compares two sides, failed saying that a run of theirs failed.
func (a *app) compareLoose(f *compareFlags, sides []bench.Side, failed bool) error {
	e, differs := bench.Loose(sides, f.floor/100)
	if err := f.unlike(e, differs); err != nil {
		return err
	}
	an, err := bench.Analyse(e)
	if err != nil {
		if failed {
			return &exitError{exitFindings, err.Error()}
		}
		return err
	}
	if err := bench.Write(a.stdout, an, f.format); err != nil {
		return usageError("%v", err)
	}
	if failed {
		return &exitError{code: exitFindings}
	}
	return benchExit(an)
}

// unlike refuses sides that are not alike, or notes that they are not.
func (f *compareFlags) unlike(e *bench.Experiment, differs []string) error {
	if len(differs) == 0 {
		return nil
	}
	if !f.force {
		return usageError("the sides are not alike, so a difference would not be the kernel's:\n  %s\n--force-unlike compares them all the same", strings.Join(differs, "\n  "))
	}
	e.Differs = differs
	return nil
}

func (a *app) compareRuns(f *compareFlags, x, y string) error {
	b, err := a.openBench(x)
	if err != nil {
		return err
	}
	p, err := a.openBench(y)
	if err != nil {
		return err
	}
	arms := f.arms
	switch len(arms) {
	case 0:
		arm := bench.Patched
		has := func(e *bench.Experiment, n string) bool {
			return slices.ContainsFunc(e.Arms, func(m bench.Arm) bool { return m.Name == n })
		}
		if !has(b, arm) || !has(p, arm) {
			arm = bench.Base
		}
		arms = []string{arm, arm}
	case 1:
		arms = []string{arms[0], arms[0]}
	case 2:
	default:
		return usageError("--arms: one arm for both runs, or one for each")
	}
	e, differs, err := bench.Across(b, p, arms[0], arms[1], f.floor/100)
	if err != nil {
		return usageError("%v", err)
	}
	if err := f.unlike(e, differs); err != nil {
		return err
	}
	an, err := bench.Analyse(e)
	if err != nil {
		return err
	}
	if err := bench.Write(a.stdout, an, f.format); err != nil {
		return usageError("%v", err)
	}
	return benchExit(an)
}

// compareSamples compares the two arrays of one file.
func (a *app) compareSamples(f *compareFlags, file string) error {
	b, err := a.readInput(file)
	if err != nil {
		return err
	}
	names, values, ok := bench.Samples(b)
	if !ok || len(names) != 2 {
		return usageError("%s does not hold two arrays of numbers, such as {\"before\": [1, 2], \"after\": [1, 2]}; to compare files put -- between the two sides", file)
	}
	var sides []bench.Side
	for i, n := range names {
		sides = append(sides, bench.Side{Name: n, Values: f.metrics(values[i])})
	}
	return a.compareLoose(f, sides, false)
}

func (f *compareFlags) metrics(values []float64) (ms []bench.Metric) {
	for _, v := range values {
		ms = append(ms, bench.Metric{Value: v, Unit: f.unit, Better: bench.Direction(f.better)})
	}
	return ms
}

func (a *app) readInput(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.stdin)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, usageError("%v", err)
	}
	return b, nil
}

// loadSide reads the runs of one side. Those that failed are named and left
// out; failed says whether one did.
func (a *app) loadSide(f *compareFlags, names []string) (s bench.Side, failed bool, err error) {
	var files []string
	for _, n := range names {
		if fi, err := os.Stat(n); err == nil && fi.IsDir() {
			ents, err := os.ReadDir(n)
			if err != nil {
				return s, false, usageError("%v", err)
			}
			before := len(files)
			for _, e := range ents {
				if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
					files = append(files, filepath.Join(n, e.Name()))
				}
			}
			if len(files) == before {
				return s, false, usageError("%s has no files", n)
			}
			continue
		}
		files = append(files, n)
	}
	for _, n := range files {
		b, err := a.readInput(n)
		if err != nil {
			return s, false, err
		}
		if _, values, ok := bench.Samples(b); ok && len(values) == 1 {
			s.Values = append(s.Values, f.metrics(values[0])...)
			continue
		}
		o, err := fio.Parse(bytes.NewReader(b))
		if err != nil {
			return s, false, usageError("%s: %v", n, err)
		}
		where := checks.Where{File: n}
		if v := o.Verdict(); v != checks.Pass {
			failed = true
			for _, x := range o.Findings(where) {
				fmt.Fprintf(a.stderr, "%s: %s, not compared: %s\n", n, v, x.Message)
				break
			}
			continue
		}
		for _, x := range o.Noise {
			fmt.Fprintf(a.stderr, "%s: fio said: %s\n", n, x)
		}
		s.Files, s.Outputs = append(s.Files, n), append(s.Outputs, o)
	}
	return s, failed, nil
}

// fioReport is what "bench fio --json" says of one file.
type fioReport struct {
	File     string           `json:"file"`
	Verdict  checks.Verdict   `json:"verdict"`
	Version  string           `json:"version,omitempty"`
	Findings []checks.Finding `json:"findings,omitempty"`
	Noise    []string         `json:"noise,omitempty"` // lines around the document
	Rows     []fio.Pooled     `json:"rows"`
}

func (a *app) benchFioCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fio FILE...",
		Short: "Say what can be said of fio's JSON output",
		Long: `Read fio's JSON output ("-": standard input), whatever stands around it, and
say whether the run is a result: errors of jobs and messages are named, a
percentile is given only where 10/(1-q) I/Os stand behind it, and a job that
failed gives no numbers.

Exit code: 0 a result, 1 a job failed, 2 no fio output, 3 the job was set up
wrongly and did nothing.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			worst := exitReady
			reports := []fioReport{}
			for i, n := range args {
				b, err := a.readInput(n)
				if err != nil {
					return err
				}
				o, err := fio.Parse(bytes.NewReader(b))
				if err != nil {
					return usageError("%s: %v", n, err)
				}
				r := fioReport{File: n, Verdict: o.Verdict(), Version: o.Version, Findings: o.Findings(checks.Where{File: n}), Noise: o.Noise, Rows: o.Latency(bench.Quantiles...)}
				switch r.Verdict {
				case checks.Pass:
				case checks.Infra:
					if worst == exitReady {
						worst = exitInfra
					}
				default:
					worst = exitFindings
				}
				if reports = append(reports, r); asJSON {
					continue
				}
				if i > 0 {
					fmt.Fprintln(a.stdout)
				}
				var say []string
				for _, f := range r.Findings {
					say = append(say, f.ID+": "+f.Message)
				}
				bench.FioText(a.stdout, n, o, string(r.Verdict), say)
			}
			if asJSON {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", " ")
				enc.SetEscapeHTML(false)
				if err := enc.Encode(reports); err != nil {
					return err
				}
			}
			if worst != exitReady {
				return &exitError{code: worst}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}
