// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchcheck/checks"
	"patchcheck/checks/warnings"
	"patchcheck/internal/cache"
	"patchcheck/internal/kernel"
	"patchcheck/internal/treefacts"
	kernelconfigs "patchcheck/kernel-configs"
	"patchcheck/kernel-configs/variants"
	"patchcheck/patches"
	"patchcheck/patches/diff"
)

// VariantRule is the rule of the findings of a configuration variant,
// "variant.NAME". Their severity is that of the diagnostic.
func VariantRule(name string) checks.Rule {
	for _, r := range []checks.Rule{RuleVariantInfra, RuleVariantUncovered} {
		if r.ID == "variant."+name {
			return r
		}
	}
	return checks.Rule{
		ID: "variant." + name, Severity: checks.Warning,
		Title:  "a diagnostic under another configuration, which the base does not have",
		Source: "Documentation/process/submit-checklist.rst, \"Build your code\": builds cleanly with CONFIG options set to y, m and n",
		Fix:    "fix what the compiler complains about; the configuration is named in the message",
	}
}

// RuleVariantInfra is a variant that could not be compiled for a reason that
// is not in the series.
var RuleVariantInfra = checks.Rule{
	ID: "variant.infra", Severity: checks.Error,
	Title:  "a configuration variant could not be compiled on this host",
	Source: "the build log",
	Fix:    "see the message; the other variants were compiled",
}

// RuleVariantUncovered is a touched source that none of the variants compiles.
var RuleVariantUncovered = checks.Rule{
	ID: "variant.uncovered", Severity: checks.Note,
	Title:  "a touched file that no configuration variant compiles",
	Source: "kernel-configs/variants",
	Fix:    "build a configuration that has it",
}

// BuildOptions say which states are compiled, and how.
type BuildOptions struct {
	Tree   *kernel.Tree
	Series *patches.Series
	// Base and States are the tree before the series and after each of its
	// patches, as treefacts.Result has them.
	Base   *diff.Overlay
	States []*diff.Overlay

	Cache *cache.Cache
	// Jobs is how many compilers may run at a time; 0: one per processor.
	Jobs int
	// Clang compiles the variants that start from nothing with clang, too.
	Clang bool
	// NoSparse leaves sparse out; it is also left out where it is not installed.
	NoSparse  bool
	NoSandbox bool
	// Only names the variants wanted; nil: all.
	Only []string
	// NoAlike leaves out variants that compile the touched sources like another
	// one, as far as their symbols tell.
	NoAlike bool
	// Progress is told what is being done, in a line; may be nil. It is called
	// from several goroutines, one at a time.
	Progress func(string)
	Timeout  time.Duration // of one make; 0: half an hour
}

// VariantCost is what a variant was and what it cost.
type VariantCost struct {
	Name     string        `json:"name"`
	Why      string        `json:"why"`
	CC       string        `json:"cc"`
	Sparse   bool          `json:"sparse,omitempty"`
	Base     time.Duration `json:"base"`    // configuring and compiling the base
	Patched  time.Duration `json:"patched"` // compiling all patches
	Objects  int           `json:"objects"` // of the touched sources under this configuration
	Compiled int           `json:"compiled"`
	Reused   bool          `json:"reused,omitempty"`  // every state was in the cache
	Skipped  string        `json:"skipped,omitempty"` // why it was not compiled
}

// String is the cost in a line.
func (c VariantCost) String() string {
	switch {
	case c.Skipped != "":
		return fmt.Sprintf("%s: not compiled, %s", c.Name, c.Skipped)
	case c.Reused:
		return fmt.Sprintf("%s: %d objects, from the cache", c.Name, c.Objects)
	case c.Objects == 0:
		return fmt.Sprintf("%s: compiles none of the touched sources; %.1f s", c.Name, (c.Base + c.Patched).Seconds())
	}
	return fmt.Sprintf("%s: %d objects, %d compiles, base %.1f s, patches %.1f s", c.Name, c.Objects, c.Compiled, c.Base.Seconds(), c.Patched.Seconds())
}

// sideOf is what compiling one state under one variant said.
type sideOf struct {
	Ledger    kernel.Ledger       `json:"ledger"`
	Failed    []string            `json:"failed,omitempty"`
	Lines     []string            `json:"lines,omitempty"` // make's own words when it failed
	Undefined map[string][]string `json:"undefined,omitempty"`
	Symbols   variants.Symbols    `json:"symbols,omitzero"`  // of objects that are not linked
	Missing   string              `json:"missing,omitempty"` // the configuration cannot be had
}

// work is one variant on its way through the states.
type work struct {
	variants.Variant
	tc     *kernel.Toolchain
	sparse bool
	cfg    kernel.Config
	keys   []string  // of the base and of each state
	hashes []string  // OverlayHash of each state, the base first
	sides  []*sideOf // likewise; nil: to be compiled
	sub    *kernel.Workspace
	cost   VariantCost
	err    error // not the code's fault
}

func (w *work) done() bool {
	return w.err != nil || w.cost.Skipped != "" || !slices.Contains(w.sides, nil)
}

const variantVersion = 2

// Variants compiles what the series touches under other configurations, before
// it and after each of its patches, and reports what each patch brings. Only
// objects are compiled. Results are kept by content: a series that was compiled
// before costs nothing, and an edited one only what depends on the edit. A
// variant that this host cannot compile is a finding; the error is one that
// ends everything.
func Variants(ctx context.Context, o BuildOptions) ([]checks.Finding, []VariantCost, error) {
	if len(o.States) == 0 {
		return nil, nil, nil
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		if o.Progress != nil {
			mu.Lock()
			defer mu.Unlock()
			o.Progress(fmt.Sprintf(format, args...))
		}
	}
	dir, err := o.Tree.Export(ctx)
	if err != nil {
		return nil, nil, err
	}
	all := append([]*diff.Overlay{o.Base}, o.States...)
	last := all[len(all)-1]
	works, left, err := o.choose(ctx, overlayFS(dir, last))
	if err != nil || len(works) == 0 {
		return left, nil, err
	}
	if err := o.keys(ctx, works, all); err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(works, func(w *work) bool { return !w.done() }) {
		if err := o.compile(ctx, works, all, dir, say); err != nil {
			return nil, nil, err
		}
	}
	findings := append(o.compare(works, all, dir), left...)
	var costs []VariantCost
	for _, w := range works {
		costs = append(costs, w.cost)
	}
	return findings, costs, nil
}

// choose makes the list of variants, and says which sources none of them
// compiles.
func (o BuildOptions) choose(ctx context.Context, src fs.FS) (works []*work, left []checks.Finding, err error) {
	var touched []string
	for _, c := range o.States[len(o.States)-1].Changed() {
		touched = append(touched, c.Path)
	}
	baseHas := map[string]bool{}
	for _, c := range o.Base.Changed() {
		baseHas[c.Path] = true
	}
	// What the companions below the series touch is not the series'.
	mine := map[string]bool{}
	for _, p := range o.Series.Patches {
		for _, f := range p.Files {
			mine[f.Old], mine[f.New] = true, true
		}
	}
	touched = slices.DeleteFunc(touched, func(p string) bool { return baseHas[p] && !mine[p] })
	sel, err := variants.Select(src, touched, variants.Options{})
	if err != nil {
		return nil, nil, err
	}
	for _, f := range slices.Sorted(maps.Keys(sel.Left)) {
		if ext := path.Ext(f); ext == ".c" || ext == ".S" || ext == ".rs" {
			if _, err := fs.Stat(src, f); err == nil && !strings.HasPrefix(f, "tools/") && !strings.HasPrefix(f, "scripts/") {
				left = append(left, RuleVariantUncovered.New(checks.Where{File: f}, "no configuration variant compiles %s: %s", f, sel.Left[f]))
			}
		}
	}
	gcc, err := kernel.FindToolchain(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	var clang *kernel.Toolchain
	var clangErr error
	if o.Clang {
		if clang, clangErr = kernel.FindToolchain(ctx, "clang"); clangErr == nil {
			clangErr = tooOld(o.Tree, clang.Version)
		}
	}
	sparse := !o.NoSparse && slices.ContainsFunc([]string{"/usr/local/bin", "/usr/bin", "/bin"}, func(d string) bool {
		fi, err := os.Stat(filepath.Join(d, "sparse")) // where builds look for programs
		return err == nil && !fi.IsDir()
	})
	add := func(v variants.Variant, tc *kernel.Toolchain, sparse bool) error {
		if o.Only != nil && !slices.Contains(o.Only, v.Name) {
			return nil
		}
		frag, err := kernelconfigs.Parse(v.Name, v.Fragment)
		if err != nil {
			return err
		}
		m, err := kernelconfigs.Merge(frag)
		if err != nil {
			return err
		}
		w := &work{Variant: v, tc: tc, sparse: sparse, cfg: kernel.Config{Base: v.Base, Arch: v.Arch, Fragments: m}}
		w.cost = VariantCost{Name: v.Name, Why: v.Why, CC: "gcc", Sparse: sparse}
		if tc != nil {
			w.cost.CC = tc.CC
		}
		if o.NoAlike && v.SameAs != "" {
			w.cost.Skipped = "the touched sources ask for none of its symbols: it compiles like " + v.SameAs
		}
		works = append(works, w)
		return nil
	}
	for i, v := range sel.Variants {
		// sparse sees much the same under every configuration of a compiler, so
		// the first variant, which has everything on, is the one it reads.
		if err := add(v, gcc, i == 0 && sparse); err != nil {
			return nil, nil, err
		}
	}
	if !o.Clang {
		return works, left, nil
	}
	for _, v := range sel.Variants {
		if v.Seed != "" {
			continue
		}
		v.Name += "-clang"
		n := len(works)
		if err := add(v, clang, false); err != nil {
			return nil, nil, err
		}
		if len(works) == n {
			continue // not wanted
		}
		w := works[n]
		w.cost.CC = "clang"
		if clangErr != nil {
			w.cost.Skipped = clangErr.Error()
		}
	}
	return works, left, nil
}

// reLLVM finds the least version of LLVM in scripts/min-tool-version.sh, whose
// last word in that branch is the one for most architectures.
var (
	reLLVM    = regexp.MustCompile(`(?s)\nllvm\)(.*?);;`)
	reVersion = regexp.MustCompile(`\d+(?:\.\d+)+`)
)

// tooOld says that the tree does not take this clang: its configuration would
// fail, and then nothing is compiled.
func tooOld(t *kernel.Tree, version string) error {
	b, _, err := t.ReadFile("scripts/min-tool-version.sh")
	if err != nil {
		return nil // an old tree: it says so itself if it must
	}
	m := reLLVM.FindSubmatch(b)
	if m == nil {
		return nil
	}
	all := reVersion.FindAllString(string(m[1]), -1)
	have := reVersion.FindString(version)
	if len(all) == 0 || have == "" {
		return nil
	}
	least := all[len(all)-1]
	if slices.Compare(numbers(have), numbers(least)) < 0 {
		return fmt.Errorf("clang %s is older than this tree takes (%s, scripts/min-tool-version.sh)", have, least)
	}
	return nil
}

// numbers splits a version.
func numbers(v string) (out []int) {
	for _, s := range strings.Split(v, ".") {
		n, _ := strconv.Atoi(s)
		out = append(out, n)
	}
	return out
}

// keys identifies each state under each variant, and takes what the cache has.
func (o BuildOptions) keys(ctx context.Context, works []*work, all []*diff.Overlay) error {
	if err := o.Tree.Identify(ctx); err != nil {
		return err
	}
	hashes := make([]string, len(all))
	for i, s := range all {
		h, err := kernel.OverlayHash(kernel.FromDiff(s))
		if err != nil {
			return err
		}
		hashes[i] = h
	}
	for _, w := range works {
		w.sides, w.hashes = make([]*sideOf, len(all)), hashes
		if w.cost.Skipped != "" {
			continue
		}
		for i := range all {
			h := sha256.New()
			v := w.Variant
			v.Why, v.SameAs, v.Seed, v.MakeVars = "", "", "", nil
			parts := []any{variantVersion, o.Tree.ID, hashes[i], v, w.sparse, w.tc.CC, w.tc.Version, w.tc.Linker}
			// Earlier patches of the series ran in the same object folder.
			if i > 1 {
				parts = append(parts, hashes[1:i])
			}
			if err := json.NewEncoder(h).Encode(parts); err != nil {
				return err
			}
			key := hex.EncodeToString(h.Sum(nil))[:32]
			w.keys = append(w.keys, key)
			w.sides[i] = o.load(key)
		}
		w.cost.Reused = w.done()
		if w.done() {
			w.cost.Objects = compiledObjects(w.sides[len(w.sides)-1].Ledger)
		}
	}
	return nil
}

const sideName = "side.json"

func (o BuildOptions) load(key string) *sideOf {
	d, err := o.Cache.Lookup("variants", key)
	if err != nil {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(d, sideName))
	if err != nil {
		return nil
	}
	s := &sideOf{}
	if json.Unmarshal(b, s) != nil {
		return nil
	}
	o.Cache.Touch("variants", key)
	return s
}

func (o BuildOptions) store(key string, s *sideOf) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = o.Cache.Put("variants", key, func(d string) error { return os.WriteFile(filepath.Join(d, sideName), b, 0o644) })
	return err
}

func compiledObjects(l kernel.Ledger) int { return len(objectsOf(l)) }

// objectsOf lists what was compiled; sparse has entries of sources.
func objectsOf(l kernel.Ledger) (out []string) {
	for obj := range l {
		if strings.HasSuffix(obj, ".o") {
			out = append(out, obj)
		}
	}
	slices.Sort(out)
	return out
}

// compile brings all variants through all states that are not known yet.
func (o BuildOptions) compile(ctx context.Context, works []*work, all []*diff.Overlay, dir string, say func(string, ...any)) error {
	ws, err := kernel.OpenWorkspace(ctx, o.Cache, o.Tree, "variants", func(s string) { say("%s", s) })
	if err != nil {
		return err
	}
	defer ws.Close()
	var open []*work
	defer func() {
		for _, w := range works {
			if w.sub != nil {
				w.sub.Close()
			}
		}
	}()
	for _, w := range works {
		if w.done() {
			continue
		}
		if w.sub, err = ws.Sub(ctx, subName(w)); err != nil {
			return err
		}
		open = append(open, w)
	}
	for i, state := range all {
		var todo []*work
		for _, w := range open {
			if w.sides[i] == nil && !w.done() {
				todo = append(todo, w)
			}
		}
		if len(todo) == 0 {
			continue
		}
		if _, err := ws.Sync(ctx, kernel.FromDiff(state)); err != nil {
			return err
		}
		src := overlayFS(dir, state)
		// Those that others are copied from come first.
		first := slices.DeleteFunc(slices.Clone(todo), func(w *work) bool { return o.seed(w, works) != nil })
		rest := slices.DeleteFunc(slices.Clone(todo), func(w *work) bool { return slices.Contains(first, w) })
		for _, batch := range [][]*work{first, rest} {
			o.atOnce(batch, func(w *work, jobs int) {
				say("%s, %s", w.Name, stateName(i, o.Series))
				w.err = o.one(ctx, w, i, works, src, jobs)
			})
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
		}
		for _, w := range todo {
			var full *cache.FullError
			if errors.As(w.err, &full) {
				return w.err
			}
		}
	}
	return nil
}

func stateName(i int, s *patches.Series) string {
	if i == 0 {
		return "base"
	}
	return fmt.Sprintf("patch %d", s.Patches[i-1].Index)
}

// subName is the object folder of a variant: another fragment or compiler gets
// another one, since make would compile everything again.
func subName(w *work) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{w.Base, w.Arch, w.Fragment, w.tc.CC, w.tc.Version}, "\x00")))
	return strings.ToLower(w.Name) + "-" + hex.EncodeToString(sum[:4])
}

// seed is the variant whose object folder w may start from, when w has none of
// its own and that one takes part.
func (o BuildOptions) seed(w *work, works []*work) *work {
	if w.Seed == "" || !w.sub.Fresh() {
		return nil
	}
	for _, s := range works {
		if s.Name == w.Seed && s.sub != nil && s.tc == w.tc && s.err == nil {
			return s
		}
	}
	return nil
}

// atOnce runs a batch with as many compilers as allowed.
func (o BuildOptions) atOnce(batch []*work, run func(w *work, jobs int)) {
	if len(batch) == 0 {
		return
	}
	jobs := cmp.Or(o.Jobs, runtime.NumCPU())
	at := min(len(batch), jobs)
	each := max(1, jobs/at)
	queue := make(chan *work)
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			for w := range queue {
				run(w, each)
			}
		})
	}
	for _, w := range batch {
		queue <- w
	}
	close(queue)
	wg.Wait()
}

// one compiles one state under one variant.
func (o BuildOptions) one(ctx context.Context, w *work, i int, works []*work, src fs.FS, jobs int) error {
	start := time.Now()
	defer func() {
		if i == 0 {
			w.cost.Base += time.Since(start)
		} else {
			w.cost.Patched += time.Since(start)
		}
	}()
	if s := o.seed(w, works); s != nil && !s.sub.Fresh() {
		if err := w.sub.CopyObjects(s.sub); err != nil {
			return err
		}
	}
	if err := w.sub.Trust(ctx, w.hashes[1:i+1]); err != nil {
		return err
	}
	side := &sideOf{Ledger: kernel.Ledger{}}
	opt := kernel.BuildOptions{W: "1", Jobs: jobs, KeepGoing: true, NoSandbox: o.NoSandbox, Timeout: cmp.Or(o.Timeout, 30*time.Minute)}
	if err := w.sub.Configure(ctx, w.tc, w.cfg, opt); err != nil {
		var missing *kernelconfigs.MissingError
		var be *kernel.BuildError
		switch {
		case errors.As(err, &missing):
			side.Missing = missing.Error()
		case errors.As(err, &be):
			side.Failed, side.Lines = append(side.Failed, "configuration"), be.Lines
		default:
			return err
		}
		w.sides[i] = side
		return o.store(w.keys[i], side)
	}
	values, err := w.sub.ConfigValues()
	if err != nil {
		return err
	}
	targets := variants.Narrow(src, w.Variant, values)
	// A folder or source that this state does not have is no target.
	targets = slices.DeleteFunc(slices.Clone(targets), func(t string) bool {
		if strings.HasSuffix(t, "/") {
			fi, err := fs.Stat(src, strings.TrimSuffix(t, "/"))
			return err != nil || !fi.IsDir()
		}
		for _, ext := range []string{".c", ".S"} {
			if _, err := fs.Stat(src, strings.TrimSuffix(t, ".o")+ext); err == nil {
				return false
			}
		}
		return true
	})
	if len(targets) > 0 {
		opt.Targets = targets
		if w.sparse {
			opt.C = "1"
		}
		var led kernel.Ledger
		res, err := w.sub.Build(ctx, w.tc, w.cfg, opt)
		var be *kernel.BuildError
		switch {
		case err == nil:
			led = res.Ledger
			w.cost.Compiled += len(res.Objects)
		case errors.As(err, &be):
			led = be.Ledger
			side.Failed, side.Lines = be.Targets, be.Lines
			w.cost.Compiled += len(be.Objects)
		default:
			return err
		}
		// The folder knows more objects than these: of earlier series, and of the
		// host's tools.
		for obj, lines := range led {
			if within(obj, targets) {
				side.Ledger[obj] = lines
			}
		}
		if w.Modular {
			if side.Undefined, err = variants.Undefined(w.sub.Obj, targets); err != nil {
				return err
			}
		} else if side.Symbols, err = variants.SymbolsOf(w.sub.Obj, objectsOf(side.Ledger)); err != nil {
			return err
		}
	}
	w.cost.Objects = max(w.cost.Objects, compiledObjects(side.Ledger))
	w.sides[i] = side
	return o.store(w.keys[i], side)
}

// within tells whether an object, or a source that sparse looked at, belongs to
// the targets.
func within(obj string, targets []string) bool {
	stem := strings.TrimSuffix(obj, path.Ext(obj))
	for _, t := range targets {
		if strings.HasSuffix(t, "/") && strings.HasPrefix(obj, t) || strings.TrimSuffix(t, ".o") == stem {
			return true
		}
	}
	return false
}

// compare makes the findings: for each patch what is new under each variant.
// What several variants say alike is one finding.
func (o BuildOptions) compare(works []*work, all []*diff.Overlay, dir string) []checks.Finding {
	type same struct {
		patch      int
		id         string // of the rule in checks/warnings
		file, text string
	}
	var out []checks.Finding
	at := map[same]int{}
	names := map[int][]string{}
	add := func(w *work, f checks.Finding) {
		k := same{f.Where.Patch, f.ID, f.Where.File, f.Message}
		if i, ok := at[k]; ok {
			names[i] = append(names[i], w.Name)
			return
		}
		at[k] = len(out)
		names[len(out)] = []string{w.Name}
		if f.ID != RuleVariantInfra.ID {
			f.ID = VariantRule(w.Name).ID
		}
		out = append(out, f)
	}
	for _, w := range works {
		if w.err != nil {
			add(w, RuleVariantInfra.New(checks.Where{}, "%v", w.err))
			w.cost.Skipped = cmp.Or(w.cost.Skipped, w.err.Error())
		}
		if w.err != nil || w.cost.Skipped != "" {
			continue
		}
		if m := w.sides[0].Missing; m != "" {
			// Another version of the kernel, or a symbol that this compiler or
			// architecture does not have.
			w.cost.Skipped = "the tree cannot be configured so: " + firstLine(m)
			continue
		}
		for i := 1; i < len(all); i++ {
			for _, f := range o.step(w, works, i, all, dir) {
				f.Where.Patch = o.Series.Patches[i-1].Index
				add(w, f)
			}
		}
	}
	for i := range out {
		n := names[i]
		where := "in configuration " + n[0]
		if len(n) > 1 {
			where = fmt.Sprintf("in configurations %s", strings.Join(n[:min(len(n), 4)], ", "))
			if len(n) > 4 {
				where += fmt.Sprintf(" and %d more", len(n)-4)
			}
		}
		out[i].Message += " (" + where + ")"
	}
	rank := map[checks.Severity]int{checks.Error: 0, checks.Warning: 1, checks.Note: 2}
	slices.SortStableFunc(out, func(a, b checks.Finding) int {
		return cmp.Or(cmp.Compare(a.Where.Patch, b.Where.Patch), cmp.Compare(rank[a.Severity], rank[b.Severity]))
	})
	return out
}

func firstLine(s string) string {
	l, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return l
}

// step is what patch i brings under one variant.
func (o BuildOptions) step(w *work, works []*work, i int, all []*diff.Overlay, dir string) []checks.Finding {
	before, after := w.sides[i-1], w.sides[i]
	if after.Missing != "" && before.Missing == "" {
		f := warnings.RuleError.New(checks.Where{}, "the kernel cannot be configured any more: %s", firstLine(after.Missing))
		f.Evidence = strings.Split(strings.TrimSpace(after.Missing), "\n")
		return []checks.Finding{f}
	}
	if before.Missing != "" || after.Missing != "" {
		return nil
	}
	touched := map[string]bool{}
	for _, f := range o.Series.Patches[i-1].Files {
		touched[f.Old], touched[f.New] = true, true
	}
	var out []checks.Finding
	failed := false
	res := warnings.DiffLedgers(parsed(before.Ledger), parsed(after.Ledger), warnings.Options{
		Map: warnings.MapEdits(treefacts.LineChanges(all[i-1], all[i])), Touched: touched,
	})
	for _, f := range warnings.Findings(res) {
		if f.ID == warnings.RuleChanged.ID || f.ID == warnings.RuleExpansion.ID {
			continue // nobody mends these for another configuration
		}
		failed = failed || f.ID == warnings.RuleError.ID
		out = append(out, f)
	}
	if len(after.Failed) > 0 && !failed && len(before.Failed) == 0 {
		// make gave up without a diagnostic of a compiler: a missing rule, a
		// Makefile that cannot be read.
		f := warnings.RuleError.New(checks.Where{}, "make cannot build %s", strings.Join(after.Failed[:min(3, len(after.Failed))], ", "))
		f.Evidence = after.Lines
		out = append(out, f)
	}
	if len(after.Failed) > 0 || len(before.Failed) > 0 {
		return out // objects that are missing have symbols, too
	}
	if w.Modular {
		lines, err := variants.Unexported(overlayFS(dir, all[i]), before.Undefined, after.Undefined)
		if err != nil {
			out = append(out, RuleVariantInfra.New(checks.Where{}, "the exported symbols cannot be looked up: %v", err))
		}
		for _, l := range lines {
			f := warnings.RuleModpost.New(checks.Where{}, "%s", strings.TrimPrefix(l, "ERROR: modpost: "))
			f.Evidence = []string{l}
			out = append(out, f)
		}
		return out
	}
	var others []variants.Symbols
	for _, other := range works {
		if other != w && len(other.sides) > i && other.sides[i] != nil {
			others = append(others, other.sides[i].Symbols)
		}
	}
	for _, l := range variants.Unlinked(w.Variant, before.Symbols, after.Symbols, others) {
		out = append(out, warnings.RuleModpost.New(checks.Where{}, "%s", l))
	}
	return out
}

// parsed reads the diagnostics of each object.
func parsed(l kernel.Ledger) warnings.Ledger {
	out := make(warnings.Ledger, len(l))
	for obj, lines := range l {
		// sparse prints under the source's name, and compares by object.
		name := obj
		if s, ok := strings.CutSuffix(obj, ".c"); ok {
			name = s + ".o"
		}
		if len(lines) == 0 {
			out[name] = append(out[name], nil...)
			continue
		}
		log := warnings.ParseString(strings.Join(lines, "\n") + "\n")
		for i := range log.Diagnostics {
			log.Diagnostics[i].Object = name
		}
		out[name] = append(out[name], log.Diagnostics...)
	}
	return out
}

// overlayFS is a state of the tree as a file system: the folder dir, and what
// differs from it.
func overlayFS(dir string, o *diff.Overlay) fs.FS {
	f := &stateFS{below: os.DirFS(dir), files: map[string]diff.Change{}, folders: map[string]map[string]bool{}}
	for _, c := range o.Changed() {
		f.files[c.Path] = c
		for p := c.Path; p != "."; p = path.Dir(p) {
			d := path.Dir(p)
			if f.folders[d] == nil {
				f.folders[d] = map[string]bool{}
			}
			f.folders[d][path.Base(p)] = true
		}
	}
	return f
}

type stateFS struct {
	below   fs.FS
	files   map[string]diff.Change
	folders map[string]map[string]bool // names in a folder that the overlay knows
}

func (f *stateFS) Open(name string) (fs.File, error) {
	if c, ok := f.files[name]; ok {
		if c.Deleted {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return &stateFile{Reader: bytes.NewReader(c.Content), info: stateInfo{c}}, nil
	}
	if f.folders[name] == nil {
		return f.below.Open(name)
	}
	es, err := f.ReadDir(name)
	if err != nil {
		return nil, err
	}
	return &stateFile{Reader: bytes.NewReader(nil), info: stateInfo{diff.Change{Path: name, Mode: fs.ModeDir | 0o755}}, entries: es}, nil
}

func (f *stateFS) ReadDir(name string) ([]fs.DirEntry, error) {
	es, err := fs.ReadDir(f.below, name)
	names := f.folders[name]
	if err != nil && (names == nil || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	if names == nil {
		return es, nil
	}
	es = slices.DeleteFunc(es, func(e fs.DirEntry) bool { return names[e.Name()] })
	for n := range names {
		// A folder whose files are all removed is still there below.
		if fi, err := fs.Stat(f, path.Join(name, n)); err == nil {
			es = append(es, fs.FileInfoToDirEntry(fi))
		}
	}
	slices.SortFunc(es, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return es, nil
}

// stateFile is a file of the overlay, or a folder that it changes.
type stateFile struct {
	*bytes.Reader
	info    stateInfo
	entries []fs.DirEntry // not read yet
}

func (f *stateFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *stateFile) Close() error               { return nil }

func (f *stateFile) Read(b []byte) (int, error) {
	if f.info.IsDir() {
		return 0, &fs.PathError{Op: "read", Path: f.info.c.Path, Err: errors.New("is a folder")}
	}
	return f.Reader.Read(b)
}

func (f *stateFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if !f.info.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: f.info.c.Path, Err: errors.New("is no folder")}
	}
	if n <= 0 || n > len(f.entries) {
		if n > 0 && len(f.entries) == 0 {
			return nil, io.EOF
		}
		n = len(f.entries)
	}
	out := f.entries[:n]
	f.entries = f.entries[n:]
	return out, nil
}

type stateInfo struct{ c diff.Change }

func (i stateInfo) Name() string       { return path.Base(i.c.Path) }
func (i stateInfo) Size() int64        { return int64(len(i.c.Content)) }
func (i stateInfo) Mode() fs.FileMode  { return i.c.Mode }
func (i stateInfo) ModTime() time.Time { return time.Time{} }
func (i stateInfo) IsDir() bool        { return i.c.Mode.IsDir() }
func (i stateInfo) Sys() any           { return nil }
