// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"patchcheck/checks"
	"patchcheck/checks/console"
	"patchcheck/internal/kernel"
)

// lines turns the addresses of a crash into source lines; *kernel.Decoder does.
type lines interface {
	Decode(ctx context.Context, syms []console.Symbol) (console.Positions, error)
}

// linesOf is what decodes the crashes of a kernel that has debug info, nil for
// others. The script is the tree's: the series' own, if it changes it, is not
// run on what the series' kernel printed.
func (r *runner) linesOf(k *kernel.Kernel) lines {
	if k.Vmlinux() == "" {
		return nil
	}
	script, _, err := r.tree.ReadFile(kernel.DecodeScript)
	if err != nil {
		script = nil // the decoder says so, when there is something to decode
	}
	return &kernel.Decoder{Vmlinux: k.Vmlinux(), Script: script, Source: k.Source, NoSandbox: r.o.NoSandbox}
}

// sourceOf gives the lines around a place in the sources that a kernel was built
// from, nil where there are none.
func (r *runner) sourceOf(q kernel.Request) func(checks.Where) *checks.Source {
	return func(w checks.Where) *checks.Source {
		if w.File == "" || w.Line < 1 {
			return nil
		}
		read := r.tree.ReadFile
		if q.Overlay != nil && slices.Contains(q.Overlay.Paths(), w.File) {
			read = q.Overlay.ReadFile
		}
		b, mode, err := read(w.File)
		if err != nil || !mode.IsRegular() {
			return nil
		}
		return linesAround(b, w)
	}
}

// decoding gives what puts file and line to a report's frames: of the lines that
// a finding shows, with the first frame in a touched file as the place to look
// at. What could not be decoded stands as it was, and the finding returned says
// why; it is nil when there is nothing to say.
func decoding(ctx context.Context, ls lines, touched []string) func(*console.Report) *checks.Finding {
	return func(rep *console.Report) *checks.Finding {
		if ls == nil || ctx.Err() != nil {
			return nil
		}
		syms := rep.Symbols(console.EvidenceLines)
		if len(syms) == 0 {
			return nil
		}
		at, err := ls.Decode(ctx, syms)
		rep.Decode(at, func(file string) bool { return slices.Contains(touched, file) })
		if err == nil || ctx.Err() != nil {
			return nil
		}
		why, said := fmt.Sprintf("the frames were not decoded: %v", err), []string(nil)
		var de *kernel.DecodeError
		if errors.As(err, &de) {
			why, said = de.Why, de.Said
		}
		f := console.NotDecoded(why, said)
		return &f
	}
}
