// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Undefined lists the symbols that each module of the targets needs from
// elsewhere: module ("net/sunrpc/xprtrdma/rpcrdma.ko") -> symbols, sorted. obj
// is the object folder of a Modular variant after its build. Modules that did
// not link, because an object failed to compile, are missing.
func Undefined(obj string, targets []string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, t := range targets {
		list := filepath.Join(obj, t, "modules.order")
		f, err := os.Open(list)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing modular in this folder
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list the modules of %s: %w", t, err)
		}
		sc := bufio.NewScanner(f)
		for sc.Scan() {
			name := strings.TrimSpace(sc.Text())
			if name == "" || !filepath.IsLocal(name) {
				continue
			}
			syms, err := undefinedOf(filepath.Join(obj, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				f.Close()
				return nil, fmt.Errorf("cannot read the symbols of module %s: %w", name, err)
			}
			out[strings.TrimSuffix(name, path.Ext(name))+".ko"] = syms
		}
		f.Close()
		if err := sc.Err(); err != nil {
			return nil, fmt.Errorf("cannot list the modules of %s: %w", t, err)
		}
	}
	return out, nil
}

func undefinedOf(name string) ([]string, error) {
	all, err := symbolsIn(name)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range all {
		if undefined(s) {
			out = append(out, s.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func symbolsIn(name string) ([]elf.Symbol, error) {
	f, err := elf.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Symbols()
}

// undefined tells a symbol that must come from elsewhere; weak ones need not.
func undefined(s elf.Symbol) bool {
	return s.Section == elf.SHN_UNDEF && s.Name != "" && elf.ST_BIND(s.Info) == elf.STB_GLOBAL
}

// Unexported compares what the modules need before and after a series and
// returns the lines that modpost would print for needs that nothing in the
// tree exports. tree is the source with the series applied. Only new needs are
// looked up, so an unchanged module costs nothing; a look-up reads the sources
// of the tree once, some seconds.
func Unexported(tree fs.FS, base, patched map[string][]string) ([]string, error) {
	fresh := map[string][]string{} // symbol -> modules
	for mod, syms := range patched {
		for _, s := range syms {
			if old, ok := base[mod]; !ok || !slices.Contains(old, s) {
				fresh[s] = append(fresh[s], mod)
			}
		}
	}
	delete(fresh, "__this_module") // modpost makes it
	delete(fresh, "_GLOBAL_OFFSET_TABLE_")
	if len(fresh) == 0 {
		return nil, nil
	}
	if err := dropExported(tree, fresh); err != nil {
		return nil, err
	}
	var lines []string
	for s, mods := range fresh {
		for _, m := range mods {
			lines = append(lines, fmt.Sprintf("ERROR: modpost: %q [%s] undefined!", s, m))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// dropExported removes from wanted what an EXPORT_SYMBOL of the tree names.
// Exports that a macro assembles from parts cannot be found by name; symbols
// that begin like one of those are taken for exported.
func dropExported(tree fs.FS, wanted map[string][]string) error {
	for s := range wanted {
		for _, p := range assembled {
			if strings.HasPrefix(s, p) {
				delete(wanted, s)
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	names := make(chan string, 64)
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for p := range names {
				b, err := fs.ReadFile(tree, p)
				if err != nil || len(b) > maxSource {
					continue
				}
				for _, s := range exportsIn(b) {
					mu.Lock()
					delete(wanted, s)
					mu.Unlock()
				}
			}
		}()
	}
	// Where exports are, the likely folders first; drivers are the bulk and
	// rarely needed.
	var err error
	for _, dir := range []string{"net", "fs", "kernel", "lib", "mm", "crypto", "block", "security", "arch/x86", "init", "ipc", "io_uring", "include", "virt", "drivers", "sound"} {
		err = fs.WalkDir(tree, dir, func(p string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			left := len(wanted)
			mu.Unlock()
			if left == 0 {
				return fs.SkipAll
			}
			if d.Type().IsRegular() && (isUnit(p) || isHeader(p)) {
				names <- p
			}
			return nil
		})
		if err != nil {
			break
		}
	}
	close(names)
	wg.Wait()
	if err != nil {
		return fmt.Errorf("cannot search the tree for exported symbols: %w", err)
	}
	return nil
}

// assembled are beginnings of symbols whose EXPORT_SYMBOL stands in a macro.
var assembled = []string{"__x86_indirect_thunk_", "__get_user_", "__put_user_", "__sw_hweight", "__fentry__", "__x86_return_thunk", "kmalloc_caches", "__asan_", "__ubsan_", "__sanitizer_"}

// exportsIn lists the names in EXPORT_SYMBOL(x), EXPORT_SYMBOL_GPL(x),
// EXPORT_SYMBOL_NS_GPL(x, "NS"), EXPORT_PER_CPU_SYMBOL(x) and their like, and
// what EXPORT_STATIC_CALL(x) and EXPORT_TRACEPOINT_SYMBOL(x) make of x.
func exportsIn(b []byte) []string {
	var out []string
	for {
		i := bytes.Index(b, []byte("EXPORT_"))
		if i < 0 {
			return out
		}
		b = b[i:]
		end := 0
		for end < len(b) && (b[end] >= 'A' && b[end] <= 'Z' || b[end] == '_') {
			end++
		}
		macro := b[:end]
		if !bytes.Contains(macro, []byte("SYMBOL")) && !bytes.Contains(macro, []byte("STATIC_CALL")) || end >= len(b) || b[end] != '(' {
			b = b[end:]
			continue
		}
		b = bytes.TrimLeft(b[end+1:], " \t")
		n := 0
		for n < len(b) && (b[n] == '_' || b[n] >= '0' && b[n] <= '9' || b[n] >= 'A' && b[n] <= 'Z' || b[n] >= 'a' && b[n] <= 'z') {
			n++
		}
		switch name := string(b[:n]); {
		case n == 0:
		case bytes.Contains(macro, []byte("STATIC_CALL")):
			out = append(out, "__SCK__"+name, "__SCT__"+name)
		case bytes.Contains(macro, []byte("TRACEPOINT")):
			out = append(out, "__tracepoint_"+name, "__traceiter_"+name, "__SCK__tp_func_"+name, "__SCT__tp_func_"+name)
		default:
			out = append(out, name)
		}
		b = b[n:]
	}
}
