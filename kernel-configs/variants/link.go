// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Symbols are what objects that are not linked need and have: global symbol ->
// an object with it ("net/sunrpc/svc.o").
type Symbols struct {
	Needs   map[string]string `json:"needs,omitempty"`
	Defines map[string]string `json:"defines,omitempty"`
}

// SymbolsOf reads the objects, which are named below the folder obj. Those that
// are not there, because they failed to compile, are passed over.
func SymbolsOf(obj string, objects []string) (Symbols, error) {
	out := Symbols{map[string]string{}, map[string]string{}}
	for _, o := range objects {
		if err := out.read(obj, o); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return out, fmt.Errorf("cannot read the symbols of %s: %w", o, err)
		}
	}
	for s := range out.Defines {
		delete(out.Needs, s)
	}
	return out, nil
}

func (s Symbols) read(obj, name string) error {
	all, err := symbolsIn(filepath.Join(obj, name))
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return err
	}
	for _, sym := range all {
		bind := elf.ST_BIND(sym.Info)
		switch {
		case undefined(sym):
			s.Needs[sym.Name] = name
		case sym.Section != elf.SHN_UNDEF && sym.Name != "" && (bind == elf.STB_GLOBAL || bind == elf.STB_WEAK):
			s.Defines[sym.Name] = name
		}
	}
	return nil
}

// division matches what gcc calls for a division of 64 bits on an architecture
// of 32, which libgcc has and the kernel does not
// (gcc.gnu.org/onlinedocs/gccint/Integer-library-routines.html).
var division = regexp.MustCompile(`^__(u?div|u?mod|u?divmod)di[34]$`)

// Unlinked says, as a linker would, which symbols the objects of the variant
// need that the kernel would not have. What other folders define is not
// compiled and has to be believed; so a symbol counts when
//   - it is a division of libgcc,
//   - one of the variant's own sources defines it before the change, or under
//     another variant (the symbols in others), but not here.
//
// What was so before the change is not new and left out.
func Unlinked(v Variant, before, after Symbols, others []Symbols) []string {
	var lines []string
	for _, s := range slices.Sorted(maps.Keys(after.Needs)) {
		if _, old := before.Needs[s]; old {
			continue
		}
		why := ""
		if division.MatchString(s) {
			why = "a 64-bit division on a 32-bit architecture: see div_u64() and do_div()"
		} else if o, ok := before.Defines[s]; ok {
			why = o + " defined it before"
		} else {
			for _, other := range others {
				o, ok := other.Defines[s]
				if stem := strings.TrimSuffix(o, path.Ext(o)); ok && (slices.Contains(v.Sources, stem+".c") || slices.Contains(v.Sources, stem+".S")) {
					why = o + " defines it in other configurations only"
					break
				}
			}
		}
		if why != "" {
			lines = append(lines, fmt.Sprintf("undefined reference to `%s' in %s (%s)", s, after.Needs[s], why))
		}
	}
	return lines
}
