// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"fmt"
	"maps"
	"slices"
)

// Ledger holds the diagnostics of each object's latest compile. An object that
// compiled cleanly has an empty entry. Steps that are no objects have theirs
// under the name of what they make: "Module.symvers", "vmlinux.o", "Kconfig".
type Ledger map[string][]Diagnostic

// The keys of diagnostics that belong to no object.
const (
	ledgerKconfig = "Kconfig"
	ledgerBuild   = "(build)" // make itself, documentation, what no object claims
)

// Update takes in the log of one build. An object that the log compiles loses
// what the ledger had of it; one that the log only checks (sparse, kernel-doc
// alone) keeps its compiler's diagnostics. Errors of make and of the linker
// last until the next build.
//
// The log is best written with make --output-sync=target, which keeps the
// diagnostics of an object together; without it, they are told apart by file
// and include chain.
func (l Ledger) Update(log Log) {
	for o := range log.Objects {
		l[o] = nil
	}
	for o := range log.Steps {
		l[o] = nil
	}
	delete(l, ledgerBuild)
	for o := range log.Checked {
		if !log.Objects[o] {
			l.drop(o, Sparse)
		}
	}
	type toolOf struct {
		key  string
		tool Tool
	}
	fresh := map[toolOf]bool{}
	for _, d := range log.Diagnostics {
		k := ledgerKey(&d)
		if !log.Objects[k] && !log.Steps[k] {
			// No step of this log announced it: what this tool said of the
			// object before is replaced, once.
			if t := (toolOf{k, d.Tool}); !fresh[t] {
				fresh[t] = true
				l.drop(k, d.Tool)
			}
		}
		l[k] = append(l[k], d)
	}
}

// drop removes what one tool said of an object.
func (l Ledger) drop(object string, t Tool) {
	if ds, ok := l[object]; ok {
		// The slice may be shared with a clone.
		l[object] = slices.DeleteFunc(slices.Clone(ds), func(d Diagnostic) bool { return d.Tool == t })
	}
}

func ledgerKey(d *Diagnostic) string {
	switch {
	case d.Tool == Kconfig:
		return ledgerKconfig
	case d.Tool == Make, d.Tool == Sphinx, d.Tool == Script:
		return ledgerBuild
	case d.Object != "":
		return d.Object
	case d.Path != "":
		return d.Path // kernel-doc of a header, a device tree
	}
	return ledgerBuild
}

// Clone gives a ledger that can be updated without changing l.
func (l Ledger) Clone() Ledger { return maps.Clone(l) }

// Remove drops objects that are no longer built, such as those of a source
// file that the patch deletes.
func (l Ledger) Remove(objects ...string) {
	for _, o := range objects {
		delete(l, o)
	}
}

// Restrict gives the part of l that belongs to the objects that keep accepts.
func (l Ledger) Restrict(keep func(object string) bool) Ledger {
	out := Ledger{}
	for o, ds := range l {
		if keep(o) {
			out[o] = ds
		}
	}
	return out
}

// Diagnostics lists everything, in the order of the objects' names.
func (l Ledger) Diagnostics() []Diagnostic {
	var out []Diagnostic
	for _, o := range slices.Sorted(maps.Keys(l)) {
		out = append(out, l[o]...)
	}
	return out
}

// DiffLedgers compares two states of an object folder. Objects that only one
// of them has are taken for added or removed by the patch, unless nothing is
// left to compare.
func DiffLedgers(base, patched Ledger, opts Options) Result {
	if len(opts.Objects) > 0 {
		keep := func(o string) bool { return opts.Objects[o] }
		base, patched = base.Restrict(keep), patched.Restrict(keep)
	}
	baseDs, patchedDs := base.Diagnostics(), patched.Diagnostics()
	r := Diff(baseDs, patchedDs, opts)
	common := 0
	for _, o := range slices.Sorted(maps.Keys(base)) {
		if _, ok := patched[o]; ok {
			common++
		} else {
			r.OnlyBase = append(r.OnlyBase, o)
		}
	}
	for _, o := range slices.Sorted(maps.Keys(patched)) {
		if _, ok := base[o]; !ok {
			r.OnlyPatched = append(r.OnlyPatched, o)
		}
	}
	r.BaseFailed, r.PatchedFailed = countErrors(baseDs) > 0, countErrors(patchedDs) > 0
	if opts.BaseCompiler != "" && opts.PatchedCompiler != "" && opts.BaseCompiler != opts.PatchedCompiler {
		r.Incomparable = append(r.Incomparable, fmt.Sprintf("different compilers: base %q, patched %q", opts.BaseCompiler, opts.PatchedCompiler))
	}
	if common == 0 && (len(base) > 0) != (len(patched) > 0) || common == 0 && len(base) > 0 {
		r.Incomparable = append(r.Incomparable, fmt.Sprintf("no object was compiled on both sides: base %d, patched %d", len(base), len(patched)))
	}
	return r
}
