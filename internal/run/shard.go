// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"patchcheck/internal/config"
	"patchcheck/internal/kernel"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
	"patchcheck/patches/bundled"
	"patchcheck/testplans"
)

// A plan's cells can be run on several machines: Shards deals them out, a Spec
// carries one part with everything it needs, and Merge makes one run of the
// answers.

// MaxShards is the number of jobs that GitHub allows in one matrix.
const MaxShards = 256

// SpecSchema is the version of Spec; readers refuse a newer one.
const SpecSchema = 1

// Spec is one shard of a run, self-contained: it can be run where neither the
// plan nor the series is.
type Spec struct {
	Schema int             `json:"schema"`
	Tool   string          `json:"tool"` // version that wrote it; all shards must be of one
	Shard  runfolder.Shard `json:"shard"`
	Plan   SpecPlan        `json:"plan"`
	Series SpecSeries      `json:"series"`
	// Tree is a tree's spec as for --tree. A folder must exist where the shard
	// runs.
	Tree       string         `json:"tree"`
	Base       string         `json:"base,omitempty"`
	Accel      string         `json:"accel,omitempty"` // "" and "auto" find out
	Repeat     int            `json:"repeat,omitempty"`
	Variants   bool           `json:"variants,omitempty"`
	Incomplete bool           `json:"incomplete,omitempty"`
	Settings   *config.Config `json:"settings,omitempty"` // of .patchcheck.yaml and the user
}

// SpecPlan is a plan and how it is restricted.
type SpecPlan struct {
	Name   string   `json:"name"`
	Text   string   `json:"text"` // YAML
	ID     string   `json:"id"`   // of the plan as used
	Debug  bool     `json:"debug,omitempty"`
	Device []string `json:"device,omitempty"`
	NFS    []string `json:"nfs,omitempty"`
}

// SpecSeries is a series: its sources as they were read (Kept), or only their
// paths where the shard runs (Sources). Both empty mean the bundled example.
type SpecSeries struct {
	ID      string       `json:"id,omitempty"` // SeriesID; checked when set
	Title   string       `json:"title,omitempty"`
	Sources []string     `json:"sources,omitempty"`
	Kept    []SpecSource `json:"kept,omitempty"`
}

// SpecSource is one source with its bytes (base64 in JSON: mails are not
// always UTF-8).
type SpecSource struct {
	patches.Kept
	Data []byte `json:"data"`
}

func input(source, format string, args ...any) error {
	return &patches.InputError{Source: source, Reason: fmt.Sprintf(format, args...)}
}

// Shards deals the plan's cells out to at most n shards; n = 0 means as many
// as there can be. Cells that are compared with each other (the same device
// and NFS version on both kernels) stay together, so each shard has the base
// cells that it needs.
func Shards(p *testplans.Plan, n int) ([]runfolder.Shard, error) {
	if n < 0 || n > MaxShards {
		return nil, input("--shards", "must be 0 to %d", MaxShards)
	}
	cells := p.Cells()
	var order []string
	for _, c := range cells {
		if !slices.Contains(order, place(c)) {
			order = append(order, place(c))
		}
	}
	if len(order) == 0 {
		return nil, input(p.Name, "the plan has no cells")
	}
	if n == 0 {
		n = MaxShards
	}
	n = min(n, len(order))
	out := make([]runfolder.Shard, n)
	for i := range out {
		out[i].Index, out[i].Of = i+1, n
	}
	for _, c := range cells {
		// Neighbours go together: they share guests, and what is judged over the
		// cells of one guest sees as many as can be.
		s := &out[slices.Index(order, place(c))*n/len(order)]
		s.Cells = append(s.Cells, c.ID())
	}
	return out, nil
}

// checkShard says why the plan's cells cannot be run in this part.
func checkShard(p *testplans.Plan, s *runfolder.Shard) error {
	name := fmt.Sprintf("shard %d of %d", s.Index, s.Of)
	if len(s.Cells) == 0 {
		return input(name, "names no cells")
	}
	cells := p.Cells()
	var known []string
	base := map[string]string{}
	for _, c := range cells {
		known = append(known, c.ID())
		if c.Kernel == testplans.RoleBase {
			base[place(c)] = c.ID()
		}
	}
	for i, id := range s.Cells {
		if !slices.Contains(known, id) {
			return input(name, "the plan %s has no cell %q (patchcheck plan show lists them)", p.Name, id)
		}
		if slices.Contains(s.Cells[:i], id) {
			return input(name, "names the cell %s twice", id)
		}
	}
	for _, c := range cells {
		if b := base[place(c)]; b != "" && slices.Contains(s.Cells, c.ID()) && !slices.Contains(s.Cells, b) {
			return input(name, "%s is compared with %s, which must be in the same shard", c.ID(), b)
		}
	}
	return nil
}

// cells are those that this run is to answer for.
func (r *runner) cells() []testplans.Cell {
	all := r.plan.Cells()
	if r.rec.Shard == nil {
		return all
	}
	return slices.DeleteFunc(all, func(c testplans.Cell) bool { return !slices.Contains(r.rec.Shard.Cells, c.ID()) })
}

// loadPlan reads the plan from where the options say.
func loadPlan(o Options) (*testplans.Plan, error) {
	if len(o.PlanText) > 0 {
		return testplans.Parse(o.Plan, o.PlanText)
	}
	return testplans.Load(o.Plan)
}

// readKept reads the series from sources that were read elsewhere.
func (r *runner) readKept() error {
	sources := r.o.Sources
	if len(sources) == 0 {
		sources = []string{"-"}
	}
	s, err := patches.Reload(r.o.Kept, sources, patches.LoadOptions{})
	if err != nil {
		return err
	}
	if len(r.o.Sources) == 0 {
		s.Sources = []string{"bundled:" + bundled.Example}
	}
	r.ser, r.kept = s, r.o.Kept
	return nil
}

// PlanOf is the plan that the options ask for, restricted as they say.
func PlanOf(o Options) (*testplans.Plan, error) {
	r := &runner{o: o}
	err := r.readPlan()
	return r.plan, err
}

// Specs makes the specs of a run in n shards; see Shards. The series is read
// here, once, so all shards have the same one.
func Specs(ctx context.Context, o Options, n int) ([]Spec, error) {
	text := o.PlanText
	if len(text) == 0 {
		var err error
		if text, err = testplans.Source(o.Plan); err != nil {
			return nil, err
		}
		o.PlanText = text
	}
	r := &runner{o: o}
	if err := r.readPlan(); err != nil {
		return nil, err
	}
	for _, names := range [][]string{r.plan.Kernel.Configs, r.plan.Kernel.Companions} {
		for _, f := range names {
			if strings.ContainsRune(f, filepath.Separator) {
				return nil, &patches.InputError{Source: o.Plan, Reason: fmt.Sprintf("names %s, a file of this machine, which a shard elsewhere does not have", f),
					Hint: "use the bundled fragments and companions, or run the plan in one piece"}
			}
		}
	}
	if err := r.readSeries(ctx); err != nil {
		return nil, err
	}
	if err := runnable(r.ser, o.Incomplete); err != nil {
		return nil, err
	}
	if len(r.kept) == 0 {
		return nil, errors.New("the series cannot be put into a spec: its sources were not kept")
	}
	shards, err := Shards(r.plan, n)
	if err != nil {
		return nil, err
	}
	if o.Tree == "" {
		o.Tree = kernel.DefaultTree
	}
	base := o.Base
	if base == "" {
		base = r.ser.BaseCommit
	}
	ser := SpecSeries{ID: SeriesID(r.ser), Title: r.ser.Title, Sources: o.Sources}
	for _, k := range r.kept {
		ser.Kept = append(ser.Kept, SpecSource{k, k.Data})
	}
	var out []Spec
	for _, s := range shards {
		out = append(out, Spec{Schema: SpecSchema, Tool: o.Tool, Shard: s, Series: ser,
			Plan: SpecPlan{Name: o.Plan, Text: string(text), ID: planID(r.plan), Debug: o.Debug, Device: o.Device, NFS: o.NFS},
			Tree: o.Tree, Base: base, Accel: o.Accel, Repeat: o.Repeat, Variants: o.Variants, Incomplete: o.Incomplete, Settings: o.Config})
	}
	return out, nil
}

// ReadSpec reads a spec and refuses what it does not know.
func ReadSpec(name string, rd io.Reader) (*Spec, error) {
	d := json.NewDecoder(rd)
	d.DisallowUnknownFields()
	s := &Spec{}
	if err := d.Decode(s); err != nil {
		return nil, input(name, "is no spec of a shard: %v", err)
	}
	if s.Schema < 1 || s.Schema > SpecSchema {
		return nil, input(name, "has schema %d and this patchcheck reads %d: update patchcheck", s.Schema, SpecSchema)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, input(name, "has more text behind the spec")
	}
	if s.Plan.Text == "" {
		return nil, input(name, "has no plan (plan.text)")
	}
	return s, nil
}

// Options are the options to run the spec with; o holds those that belong to
// the machine: cache, runs, view, tool, jobs.
func (s *Spec) Options(o Options) (Options, error) {
	name := fmt.Sprintf("shard %d of %d", s.Shard.Index, s.Shard.Of)
	if s.Tool != "" && s.Tool != o.Tool {
		return o, &patches.InputError{Source: name, Reason: fmt.Sprintf("was made by patchcheck %s and this is %s", s.Tool, o.Tool),
			Hint: "use one version for all shards, else they cannot be put together"}
	}
	o.Plan, o.PlanText, o.Debug, o.Device, o.NFS = s.Plan.Name, []byte(s.Plan.Text), s.Plan.Debug, s.Plan.Device, s.Plan.NFS
	if o.Plan == "" {
		o.Plan = "of the spec"
	}
	p, err := PlanOf(o)
	if err != nil {
		return o, err
	}
	if id := planID(p); s.Plan.ID != "" && id != s.Plan.ID {
		return o, input(name, "its plan reads differently here (%.12s, it was %.12s)", id, s.Plan.ID)
	}
	if err := checkShard(p, &s.Shard); err != nil {
		return o, err
	}
	sh := s.Shard
	o.Shard = &sh
	o.Sources = s.Series.Sources
	for _, k := range s.Series.Kept {
		k.Kept.Data = k.Data
		o.Kept = append(o.Kept, k.Kept)
	}
	if s.Series.ID != "" {
		r := &runner{o: o}
		if err := r.readSeries(context.Background()); err != nil {
			return o, err
		}
		if id := SeriesID(r.ser); id != s.Series.ID {
			return o, input(name, "its series reads differently here (%.12s, it was %.12s)", id, s.Series.ID)
		}
		if len(r.kept) > 0 && len(o.Kept) == 0 {
			o.Kept = r.kept // do not read it twice: it may change meanwhile
		}
	}
	if o.Tree == "" {
		o.Tree = s.Tree
	}
	if o.Accel == "" || o.Accel == "auto" {
		o.Accel = s.Accel
	}
	o.Base, o.Repeat, o.Variants, o.Incomplete, o.Config = s.Base, s.Repeat, s.Variants, s.Incomplete, s.Settings
	return o, nil
}

// FindRuns lists the run folders that are at or below dir, as downloaded
// artifacts lie: at most three folders deep.
func FindRuns(dir string) ([]string, error) {
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return nil, input(dir, "is no folder")
	}
	level := []string{dir}
	var out []string
	for range 4 {
		var next []string
		for _, d := range level {
			if _, err := os.Stat(filepath.Join(d, "run.json")); err == nil {
				out = append(out, d)
				continue
			}
			ents, err := os.ReadDir(d)
			if err != nil {
				return nil, err
			}
			for _, e := range ents {
				if e.IsDir() {
					next = append(next, filepath.Join(d, e.Name()))
				}
			}
		}
		level = next
	}
	if len(out) == 0 {
		return nil, input(dir, "holds no run folder")
	}
	return out, nil
}
