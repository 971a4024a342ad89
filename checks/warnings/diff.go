// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Options of a comparison. The zero value compares everything as it is.
type Options struct {
	// Map says where the patch moved the lines of the base. Without it, lines
	// that are alike are paired by their source text and order.
	Map LineMapper
	// Objects restricts both sides to diagnostics of these object files; the
	// sets of objects compiled need not be equal then.
	Objects map[string]bool
	// MayDiffer tells objects that only one side has because the patch adds or
	// removes them.
	MayDiffer func(object string) bool
	// Ignore leaves out the diagnostics of a tool, on both sides.
	Ignore map[Tool]bool
	// Touched are the source files that the series changes. With them, a
	// warning flag whose diagnostics all vanished is told from one that the
	// patch cleaned up.
	Touched map[string]bool
	// BaseCompiler and PatchedCompiler identify the builds where the logs do
	// not: version line, and whatever else must be equal. Empty: not known.
	BaseCompiler, PatchedCompiler string
}

// Entry is a diagnostic of one side, counted once for each place. A header's
// diagnostic repeats in every object that includes it.
type Entry struct {
	Diagnostic
	Objects []string `json:"objects,omitempty"` // objects whose compile printed it, sorted
}

// Pair is one complaint on both sides.
type Pair struct {
	Base    Entry `json:"base"`
	Patched Entry `json:"patched"`
}

// NewNote is a note that the base does not have, below a diagnostic that it
// does: an old warning now also comes from another expansion of its macro.
type NewNote struct {
	Note
	Under Diagnostic `json:"under"`
}

// Result of a comparison. As JSON it is a Report.
type Result struct {
	New     []Entry
	Fixed   []Entry
	Moved   []Pair // alike, on another line
	Changed []Pair // the same complaint with other words, or no error any more
	Notes   []NewNote
	// Unknown are diagnostics of objects that only one side compiled: nothing
	// can be said about them.
	Unknown []Entry
	// Unchanged counts the rest of the patched side.
	Unchanged int
	// Incomparable gives the reasons why the sides must not be compared; New
	// and Fixed then only say how the two logs differ.
	Incomparable []string
	// Partial says what the comparison could not cover although it is valid:
	// objects that the patched build did not reach because of an error.
	Partial []string
	// OnlyBase and OnlyPatched are the objects that one side did not compile.
	OnlyBase    []string
	OnlyPatched []string
	// BaseFailed and PatchedFailed say that make gave up or an error was
	// printed.
	BaseFailed    bool
	PatchedFailed bool
	// Infra are lines of either log that blame the machine.
	Infra []string
	// Failed are the targets that make gave up on in the patched build.
	Failed []string
}

// Comparable tells whether New and Fixed are facts about the patch.
func (r *Result) Comparable() bool { return len(r.Incomparable) == 0 }

// DiffLogs decides whether two logs can be compared, and compares them.
func DiffLogs(base, patched Log, opts Options) Result {
	r := Diff(base.Diagnostics, patched.Diagnostics, opts)
	r.BaseFailed = len(base.Failed) > 0 || base.Errors() > 0
	r.PatchedFailed = len(patched.Failed) > 0 || patched.Errors() > 0
	r.Failed = patched.Failed
	r.Infra = append(slices.Clone(base.Infra), patched.Infra...)
	r.Incomparable = append(sameTools(&base, &patched, opts), r.Incomparable...)
	compareObjects(&r, &base, &patched, opts)
	if reason := vanishedFlag(&r, base.Diagnostics, patched.Diagnostics, opts); reason != "" {
		r.Incomparable = append(r.Incomparable, reason)
	}
	for _, side := range []struct {
		name string
		log  *Log
	}{{"base", &base}, {"patched", &patched}} {
		if side.log.Truncated {
			r.Partial = append(r.Partial, "the "+side.name+" log ends in the middle of a line")
		}
	}
	return r
}

// sameTools lists what differs between the compilers and their flags.
func sameTools(base, patched *Log, opts Options) []string {
	var why []string
	bc, pc := cmp.Or(opts.BaseCompiler, base.Compiler), cmp.Or(opts.PatchedCompiler, patched.Compiler)
	switch {
	case bc != "" && pc != "" && bc != pc:
		why = append(why, fmt.Sprintf("different compilers: base %q, patched %q", bc, pc))
	case base.Dialect != "" && patched.Dialect != "" && base.Dialect != patched.Dialect:
		why = append(why, fmt.Sprintf("different compilers: the base log is of %s, the patched one of %s", base.Dialect, patched.Dialect))
	}
	for _, k := range []string{"W", "C", "CF", "CHECK", "ARCH", "CROSS_COMPILE", "CC", "LLVM", "KCFLAGS", "KBUILD_CFLAGS", "EXTRA_CFLAGS", "KERNELDOC"} {
		if len(base.MakeVars) == 0 || len(patched.MakeVars) == 0 {
			break
		}
		if b, p := base.MakeVars[k], patched.MakeVars[k]; b != p {
			why = append(why, fmt.Sprintf("different flags: make %s=%s for the base, %s=%s for the patched build", k, b, k, p))
		}
	}
	lost, gained := map[string]int{}, map[string]int{}
	for obj, b := range base.Flags {
		p, ok := patched.Flags[obj]
		if !ok {
			continue
		}
		for _, f := range b {
			if !slices.Contains(p, f) {
				lost[f]++
			}
		}
		for _, f := range p {
			if !slices.Contains(b, f) {
				gained[f]++
			}
		}
	}
	if len(lost) > 0 {
		why = append(why, fmt.Sprintf("different flags: the patched build dropped %s", strings.Join(slices.Sorted(maps.Keys(lost)), " ")))
	}
	if len(gained) > 0 {
		why = append(why, fmt.Sprintf("different flags: the patched build added %s", strings.Join(slices.Sorted(maps.Keys(gained)), " ")))
	}
	return why
}

// compareObjects says whether both sides compiled the same objects.
func compareObjects(r *Result, base, patched *Log, opts Options) {
	if len(base.Objects) == 0 && len(patched.Objects) == 0 {
		return
	}
	for o := range base.Objects {
		if !patched.Objects[o] && !mayDiffer(opts, o) {
			r.OnlyBase = append(r.OnlyBase, o)
		}
	}
	for o := range patched.Objects {
		if !base.Objects[o] && !mayDiffer(opts, o) {
			r.OnlyPatched = append(r.OnlyPatched, o)
		}
	}
	slices.Sort(r.OnlyBase)
	slices.Sort(r.OnlyPatched)
	if len(opts.Objects) > 0 {
		var missing []string
		for o := range opts.Objects {
			if (!base.Objects[o] || !patched.Objects[o]) && !mayDiffer(opts, o) {
				missing = append(missing, o)
			}
		}
		if len(missing) > 0 {
			slices.Sort(missing)
			r.Incomparable = append(r.Incomparable, fmt.Sprintf("not compiled on both sides: %s", sample(missing)))
		}
		return
	}
	if len(base.Objects) > 0 && len(patched.Objects) > 0 {
		var a, b []Entry
		r.New, a = split(r.New, r.OnlyPatched)
		r.Fixed, b = split(r.Fixed, r.OnlyBase)
		r.Unknown = append(append(r.Unknown, a...), b...)
	}
	switch {
	case len(r.OnlyBase) == 0 && len(r.OnlyPatched) == 0:
	case len(r.OnlyPatched) == 0 && r.PatchedFailed && !r.BaseFailed:
		// make stops at an error, so what comes after it is missing.
		r.Partial = append(r.Partial, fmt.Sprintf("the patched build stopped at an error: %s", objects(len(r.OnlyBase), "of the base was not compiled", "of the base were not compiled")))
	default:
		var parts []string
		if n := len(r.OnlyBase); n > 0 {
			parts = append(parts, fmt.Sprintf("%d only in the base (%s)", n, sample(r.OnlyBase)))
		}
		if n := len(r.OnlyPatched); n > 0 {
			parts = append(parts, fmt.Sprintf("%d only in the patched build (%s)", n, sample(r.OnlyPatched)))
		}
		r.Incomparable = append(r.Incomparable, fmt.Sprintf("different objects were compiled: %d on both sides, %s; one log is of an incremental build", len(base.Objects)-len(r.OnlyBase), strings.Join(parts, ", ")))
	}
}

// split parts the entries that come only from the objects given. Without a
// unit the object is a guess from the order of the log, and proves nothing.
func split(l []Entry, objects []string) (rest, of []Entry) {
	for _, e := range l {
		other := func(o string) bool { return !slices.Contains(objects, o) }
		if e.Unit == "" || len(e.Objects) == 0 || slices.ContainsFunc(e.Objects, other) {
			rest = append(rest, e)
		} else {
			of = append(of, e)
		}
	}
	return rest, of
}

func mayDiffer(opts Options, obj string) bool { return opts.MayDiffer != nil && opts.MayDiffer(obj) }

func objects(n int, one, many string) string {
	if n == 1 {
		return "1 object " + one
	}
	return strconv.Itoa(n) + " objects " + many
}

// sample names the first few of a list.
func sample(l []string) string {
	const most = 3
	if len(l) <= most {
		return strings.Join(l, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(l[:most], ", "), len(l)-most)
}

// vanishedFlag finds a warning option of which the base has diagnostics in
// several files and the patched side none at all. A patch rarely cleans up
// files that it does not touch; a dropped option does.
func vanishedFlag(r *Result, base, patched []Diagnostic, opts Options) string {
	const fewest = 3 // files; fewer can well be one fix in a header
	files := map[string]map[string]bool{}
	for i := range base {
		if d := &base[i]; strings.HasPrefix(d.Flag, "-W") && d.Tool == Compiler && !opts.Ignore[d.Tool] && (len(opts.Objects) == 0 || opts.Objects[d.Object]) {
			if files[d.Flag] == nil {
				files[d.Flag] = map[string]bool{}
			}
			files[d.Flag][d.Path] = true
		}
	}
	for i := range patched {
		delete(files, patched[i].Flag)
	}
	for _, f := range slices.Sorted(maps.Keys(files)) {
		untouched := 0
		for p := range files[f] {
			if !opts.Touched[p] && !slices.Contains(r.OnlyBase, objectOf(p)) {
				untouched++
			}
		}
		if untouched >= fewest {
			return fmt.Sprintf("different flags: the base warns with %s in %d files, the patched build nowhere; the option was probably dropped", f, len(files[f]))
		}
	}
	return ""
}

// item is an entry while it is being paired.
type item struct {
	Entry
	path    string // of the patched tree
	line    int    // of the patched tree, 0 unknown
	kept    bool   // the patch left the line alone
	mapped  bool   // line and kept come from Options.Map
	noteKey string
	mate    *item // what it was paired with
	done    bool
}

// Diff compares two lists of diagnostics that were printed for the same
// objects with the same tools.
func Diff(base, patched []Diagnostic, opts Options) Result {
	var r Result
	b, p := collect(base, opts, true), collect(patched, opts, false)

	pair := func(x, y *item) {
		x.done, y.done = true, true
		x.mate, y.mate = y, x
		r.record(x, y)
	}
	full := func(i *item) string { return i.key(i.path) + "\x00" + i.Function }
	bare := func(i *item) string { return i.key(i.path) }

	match(b, p, full, nil, pair)
	// The name of the function is a help, not a proof: it may have been
	// renamed by the patch, and a mixed log may not show it.
	match(b, p, bare, func(x, y *item) bool {
		if x.Function == "" || y.Function == "" || x.Raw == y.Raw {
			return true
		}
		return opts.Map != nil && x.kept && x.line == y.line && x.line != 0
	}, pair)
	// What was an error and is a warning now is no news.
	match(b, p, func(i *item) string {
		return i.path + "\x00" + i.Flag + "\x00" + normalMessage(&i.Diagnostic) + "\x00" + i.Function
	},
		func(x, y *item) bool { return x.Severity == SevError && y.Severity != SevError }, pair)

	for _, i := range b {
		if !i.done {
			r.Fixed = append(r.Fixed, i.Entry)
		}
	}
	fresh := map[*item]bool{}
	for _, i := range p {
		if !i.done {
			r.New = append(r.New, i.Entry)
			fresh[i] = true
		}
	}
	sortEntries(r.New)
	sortEntries(r.Fixed)
	r.Notes = newNotes(b, p, fresh)
	return r
}

// record files a pair under what happened to it.
func (r *Result) record(x, y *item) {
	was, _ := splitFlag(x.Message)
	is, _ := splitFlag(y.Message)
	switch {
	case x.Severity != y.Severity, normalText(was) != normalText(is):
		r.Changed = append(r.Changed, Pair{x.Entry, y.Entry})
	case x.Line != y.Line, x.Path != y.Path:
		r.Moved = append(r.Moved, Pair{x.Entry, y.Entry})
	default:
		r.Unchanged++
	}
}

// collect makes items of the diagnostics that take part. A place in a header
// counts once, however many objects print it; a macro that is expanded at
// several places makes as many diagnostics.
func collect(ds []Diagnostic, opts Options, base bool) []*item {
	spots := map[string]*item{}
	var items []*item
	for i := range ds {
		d := &ds[i]
		if opts.Ignore[d.Tool] || len(opts.Objects) > 0 && d.Object != "" && !opts.Objects[d.Object] {
			continue
		}
		it := &item{Entry: Entry{Diagnostic: *d}, path: d.Path, line: d.Line, kept: true}
		if d.Object != "" {
			it.Objects = []string{d.Object}
		}
		if d.Path != "" && d.Path != d.Unit && (d.Tool == Compiler || d.Tool == Sparse) {
			var where strings.Builder
			fmt.Fprintf(&where, "%s:%d:%d:%s:%s:%s", d.Path, d.Line, d.Col, d.Severity, d.Message, d.Function)
			for n := range d.Notes {
				if note := &d.Notes[n]; note.expansion() {
					fmt.Fprintf(&where, "\x00%s:%d", note.Path, note.Line)
				}
			}
			if s := spots[where.String()]; s != nil {
				if d.Object != "" && !slices.Contains(s.Objects, d.Object) {
					s.Objects = append(s.Objects, d.Object)
				}
				continue
			}
			spots[where.String()] = it
		}
		if base && opts.Map != nil && d.Path != "" {
			it.path, it.line, it.kept = opts.Map(d.Path, d.Line)
			it.mapped = d.Line > 0
		}
		for _, n := range d.Notes {
			it.noteKey += n.Raw + "\n"
		}
		items = append(items, it)
	}
	for _, it := range items {
		slices.Sort(it.Objects)
	}
	return items
}

// match pairs the items of both sides that have one key. Of several alike the
// best fits first: the very same line with the same notes, the line the patch
// moved it to, the same source text, then in order.
func match(b, p []*item, key func(*item) string, ok func(x, y *item) bool, pair func(x, y *item)) {
	type bucket struct{ b, p []*item }
	buckets := map[string]*bucket{}
	var order []string
	for _, i := range b {
		if i.done {
			continue
		}
		k := key(i)
		if buckets[k] == nil {
			buckets[k] = &bucket{}
			order = append(order, k)
		}
		buckets[k].b = append(buckets[k].b, i)
	}
	for _, i := range p {
		if i.done {
			continue
		}
		if bk := buckets[key(i)]; bk != nil {
			bk.p = append(bk.p, i)
		}
	}
	fits := []func(x, y *item) bool{
		func(x, y *item) bool { return x.kept && x.line == y.line && x.Raw == y.Raw && x.noteKey == y.noteKey },
		func(x, y *item) bool { return x.kept && x.line == y.line && x.Col == y.Col && x.File == y.File },
		func(x, y *item) bool { return x.kept && x.line == y.line && x.line > 0 },
		func(x, y *item) bool { return x.Source != "" && x.Source == y.Source && x.noteKey == y.noteKey },
		func(x, y *item) bool { return x.Source != "" && x.Source == y.Source },
		near,
	}
	for _, k := range order {
		bk := buckets[k]
		for _, fit := range fits {
			if len(bk.b) == 0 || len(bk.p) == 0 {
				break
			}
			pairUp(bk.b, bk.p, func(x, y *item) bool { return (ok == nil || ok(x, y)) && fit(x, y) }, pair)
			bk.b = slices.DeleteFunc(bk.b, func(i *item) bool { return i.done })
			bk.p = slices.DeleteFunc(bk.p, func(i *item) bool { return i.done })
		}
	}
}

// near tells whether two items that are alike can be one. Within a function,
// or where the patch's effect on the lines is not known, they can. Otherwise
// the same message somewhere else in the file is another complaint, and the
// old one was fixed: sparse and clang do not name functions.
func near(x, y *item) bool {
	if !x.mapped || y.line == 0 || x.Function != "" || y.Function != "" || x.Tool == KernelDoc {
		return true
	}
	const rewritten, kept = 40, 5 // lines; a statement can span a few
	d := max(x.line-y.line, y.line-x.line)
	return d <= kept || !x.kept && d <= rewritten
}

// manyAlike bounds the quadratic search within one bucket: beyond it, items
// are paired in order only.
const manyAlike = 2000

func pairUp(b, p []*item, fit func(x, y *item) bool, pair func(x, y *item)) {
	if len(b)*len(p) > manyAlike*manyAlike {
		for i := 0; i < min(len(b), len(p)); i++ {
			if fit(b[i], p[i]) {
				pair(b[i], p[i])
			}
		}
		return
	}
	for _, x := range b {
		if x.done {
			continue
		}
		for _, y := range p {
			if !y.done && fit(x, y) {
				pair(x, y)
				break
			}
		}
	}
}

// newNotes finds expansions of macros that the base does not have at all, or
// not so often, below diagnostics that it does have. Other notes ("declared
// here") explain; these tell where the complaint comes from.
func newNotes(b, p []*item, fresh map[*item]bool) []NewNote {
	have := map[string]int{}
	for _, i := range b {
		for n := range i.Diagnostic.Notes {
			have[i.Diagnostic.Notes[n].key()]++
		}
	}
	var out []NewNote
	seen := map[string]bool{}
	// Notes of new diagnostics are part of them. Of the others, those go
	// first whose own counterpart in the base has the note as well: the new
	// one is then the one that is left.
	for _, matched := range []bool{true, false} {
		for _, i := range p {
			if fresh[i] || i.Tool != Compiler {
				continue
			}
			for n := range i.Diagnostic.Notes {
				note := &i.Diagnostic.Notes[n]
				if !note.expansion() {
					continue
				}
				k := note.key()
				inMate := i.mate != nil && slices.ContainsFunc(i.mate.Diagnostic.Notes, func(o Note) bool { return o.key() == k })
				if inMate != matched {
					continue
				}
				if have[k]--; have[k] >= 0 || seen[k] {
					continue
				}
				seen[k] = true
				out = append(out, NewNote{*note, i.Diagnostic})
			}
		}
	}
	return out
}

func sortEntries(l []Entry) {
	slices.SortStableFunc(l, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Message, b.Message))
	})
}
