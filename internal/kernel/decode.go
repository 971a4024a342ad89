// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchcheck/checks/console"
	"patchcheck/internal/proc"
)

// DecodeScript is the tree's script that turns addresses into lines.
const DecodeScript = "scripts/decode_stacktrace.sh"

// Limits on one decoding. nm and addr2line start anew for each address.
const (
	decodeTime    = 3 * time.Minute
	decodeMost    = 128 // addresses
	decodeSaid    = 20  // lines of what the tools said
	sectionMargin = 256 // bytes that may lie between two functions, which kallsyms counts to the first
)

// decodeTools are what the script runs, and the Debian packages that have it.
// It throws the words of nm and addr2line away, so their lack has to be found
// out before.
var decodeTools = []struct{ Tool, Package string }{
	{"bash", "bash"}, {"nm", "binutils"}, {"addr2line", "binutils"}, {"awk", "mawk"},
}

// Decoder gives the source lines of a kernel's addresses.
type Decoder struct {
	// Vmlinux is the linked kernel with its debug info.
	Vmlinux string
	// Script is scripts/decode_stacktrace.sh of the tree; never the series' own.
	Script []byte
	// Source is the folder of the sources, as the names in the debug info begin;
	// "" lets the script find it out.
	Source string
	// Modules is a folder to look for modules in; "" means that there are none.
	Modules   string
	NoSandbox bool
	Timeout   time.Duration // of all addresses together; 0 means three minutes

	mu    sync.Mutex
	known console.Positions // found so far: a crash comes again in the guests that confirm it
}

// DecodeError says why addresses have no line. Whatever lines there are stand
// all the same.
type DecodeError struct {
	Why  string   // "3 of 12 frames were decoded: ..."
	Said []string // what the tools printed on stderr
	Err  error    // may be nil
}

func (e *DecodeError) Error() string {
	s := e.Why
	if len(e.Said) > 0 {
		s += " (" + e.Said[0] + ")"
	}
	return s
}

func (e *DecodeError) Unwrap() error { return e.Err }

// Decode gives the lines of addresses, with the tree's script run confined. An
// error is a *DecodeError or that of ctx, and the lines found are valid then. It
// may be called from several goroutines, one of which waits for the other.
//
// The script is given nothing of a log but names and numbers that have the form
// the kernel prints, for it hands what it reads to bash and awk. It looks for a
// function by name alone: an address in a function whose name is not the only
// one, or whose size is not that of the log, has no line rather than a wrong one.
func (d *Decoder) Decode(ctx context.Context, syms []console.Symbol) (console.Positions, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := console.Positions{}
	for _, s := range syms {
		if ps, ok := d.known[s]; ok {
			out[s] = ps
		}
	}
	if len(out) == len(syms) {
		return out, nil
	}
	if len(d.Script) == 0 {
		return out, &DecodeError{Why: "the tree has no " + DecodeScript}
	}
	for _, t := range decodeTools {
		if !inSystem(t.Tool) {
			return out, &DecodeError{Why: fmt.Sprintf("%s needs %s, which this host does not have; install the Debian package %s", DecodeScript, t.Tool, t.Package)}
		}
	}
	vmlinux, err := realPath(d.Vmlinux)
	if err != nil {
		return out, &DecodeError{Why: err.Error(), Err: err}
	}
	funcs, err := functions(vmlinux)
	if err != nil {
		return out, &DecodeError{Why: fmt.Sprintf("%s cannot be used: %v", d.Vmlinux, err), Err: err}
	}
	var left []string // why addresses were not asked for, or not answered
	var ask []console.Symbol
	for _, s := range syms {
		switch why := funcs.unfit(s); {
		case len(out[s]) > 0: // known
		case s.Module != "" && d.Modules == "":
			left = append(left, fmt.Sprintf("%v is in a module, and there is no folder of modules", s))
		case s.Module == "" && why != "":
			left = append(left, why)
		case len(ask) == decodeMost:
			left = append(left, fmt.Sprintf("only %d addresses are decoded at once", decodeMost))
		default:
			ask = append(ask, s)
		}
	}
	if len(ask) == 0 {
		return out, &DecodeError{Why: tally(len(out), len(syms), left)}
	}
	res, dead, err := d.run(ctx, vmlinux, ask)
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	for i, l := range wholeLines(res.Stdout) {
		if i == len(ask) {
			break
		}
		if ps := d.parse(ask[i], l); len(ps) > 0 {
			out[ask[i]] = ps
		}
	}
	if d.known == nil {
		d.known = console.Positions{}
	}
	maps.Copy(d.known, out)
	if len(out) == len(syms) && err == nil {
		return out, nil
	}
	de := &DecodeError{Err: err, Said: saidLines(res.Stderr)}
	var limit *LimitError
	var pe *proc.Error
	switch {
	case dead:
		left = append(left, fmt.Sprintf("%s was ended after %v", DecodeScript, cmp.Or(d.Timeout, decodeTime)))
	case errors.As(err, &limit):
		left = append(left, fmt.Sprintf("%s was ended because it %s", DecodeScript, limit.What))
	case errors.As(err, &pe) && pe.Exit >= 0:
		left = append(left, fmt.Sprintf("%s failed with exit status %d", DecodeScript, pe.Exit))
	case err != nil:
		left = append(left, err.Error())
	case len(firstWithout(ask, out).Name) > 0:
		left = append(left, fmt.Sprintf("%s found no line for %v", DecodeScript, firstWithout(ask, out)))
		de.Said = append(de.Said, d.ownWords(ctx, vmlinux)...)
	}
	de.Why = tally(len(out), len(syms), left)
	return out, de
}

// run gives the addresses to the script. dead says that it took too long.
func (d *Decoder) run(ctx context.Context, vmlinux string, ask []console.Symbol) (res proc.Result, dead bool, err error) {
	argv := []string{"bash", DecodeScript}
	text := string(d.Script)
	ret := strings.Contains(text, `"-R"`)
	// A script that knows -R takes one from each address, so that a call's line
	// is that of the call and not of what it returns to. A trap's address is
	// exact. So the script gets the address that is meant, with -R.
	if ret {
		argv = append(argv, "-R")
	}
	// "auto" is the script's own word for finding out.
	argv = append(argv, vmlinux, cmp.Or(d.Source, "auto"))
	s := Script{Files: map[string][]byte{DecodeScript: d.Script}, NoSandbox: d.NoSandbox, Hostile: true, Reads: []string{vmlinux}, MaxOutput: 4 << 20}
	if d.Modules != "" {
		m, err := realPath(d.Modules)
		if err != nil {
			return res, false, err
		}
		s.Reads = append(s.Reads, m)
		argv = append(argv, m)
	}
	s.Argv = argv
	var in strings.Builder
	for _, a := range ask {
		if !a.Trap && a.Offset > 0 {
			a.Offset--
		}
		fmt.Fprintln(&in, a)
	}
	s.Stdin = []byte(in.String())
	tctx, cancel := context.WithTimeout(ctx, cmp.Or(d.Timeout, decodeTime))
	defer cancel()
	res, err = RunScript(tctx, s)
	return res, err != nil && tctx.Err() != nil, err
}

// ownWords runs the two programs once by themselves: the script throws away
// what they say.
func (d *Decoder) ownWords(ctx context.Context, vmlinux string) []string {
	tctx, cancel := context.WithTimeout(ctx, cmp.Or(d.Timeout, decodeTime))
	defer cancel()
	res, err := RunScript(tctx, Script{Argv: []string{"bash", "-c", `nm -- "$1" >/dev/null; addr2line -i -e "$1" 0x0 >/dev/null`, "bash", vmlinux},
		NoSandbox: d.NoSandbox, Hostile: true, Reads: []string{vmlinux}, MaxOutput: 1 << 20})
	said := saidLines(res.Stderr)
	if err != nil && len(said) == 0 {
		said = []string{err.Error()}
	}
	return said
}

var (
	positionRE = regexp.MustCompile(`^ ?([A-Za-z0-9_./+,@=~-]{1,300}):([0-9]{1,7}|\?)(?: \(discriminator [0-9]+\))?`)
	nowhereRE  = regexp.MustCompile(`^ ?\?\?:(?:0|\?)`)
)

// parse reads the script's answer for an address: "name (file:line file:line)".
// A name in the debug info can be anything, and one that no source of a kernel
// has gives no line.
func (d *Decoder) parse(s console.Symbol, l string) []console.Position {
	l = strings.TrimSpace(l)
	name, code, ok := strings.Cut(l, " (")
	// A Rust name comes back demangled.
	if !ok || name != s.Name && !strings.HasPrefix(s.Name, "_R") {
		return nil
	}
	if s.Module != "" {
		code = strings.TrimSuffix(code, " "+s.Module)
	}
	if code, ok = strings.CutSuffix(code, ")"); !ok {
		return nil
	}
	var out []console.Position
	for code != "" {
		if m := nowhereRE.FindString(code); m != "" {
			code = code[len(m):]
			continue
		}
		m := positionRE.FindStringSubmatch(code)
		if m == nil {
			return nil
		}
		code = code[len(m[0]):]
		n, err := strconv.Atoi(m[2])
		if err != nil || n == 0 {
			continue // addr2line's "file:?"
		}
		file := m[1]
		if d.Source != "" {
			file = strings.TrimPrefix(file, d.Source+"/")
		}
		out = append(out, console.Position{File: path.Clean(file), Line: n})
	}
	return out
}

// function is a place that a name in vmlinux stands for.
type function struct {
	addr, size uint64 // size as the symbol table says it; 0 unknown
	room       uint64 // bytes to the next symbol, which is kallsyms' size
}

type functionTable map[string][]function

// functions reads the symbol table of a kernel that a series made: whatever it
// holds, the outcome is a table or an error.
func functions(vmlinux string) (t functionTable, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("damaged ELF file: %v", p)
		}
	}()
	f, err := elf.Open(vmlinux)
	var fe *elf.FormatError
	if errors.As(err, &fe) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("it is no ELF file")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if s := f.Section(".debug_line"); s == nil && f.Section(".zdebug_line") == nil {
		return nil, errors.New("it has no debug info; the kernel's configuration needs CONFIG_DEBUG_INFO_DWARF5=y, which the fragment debuginfo sets")
	}
	syms, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("it has no symbols: %w", err)
	}
	var addrs []uint64
	t = functionTable{}
	for _, s := range syms {
		if int(s.Section) >= len(f.Sections) || s.Section == elf.SHN_UNDEF || f.Sections[s.Section].Flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		addrs = append(addrs, s.Value)
		// The script takes nm's "t" and "T" only, and weak ones are "W".
		if typ := elf.ST_TYPE(s.Info); typ != elf.STT_FUNC && typ != elf.STT_NOTYPE || elf.ST_BIND(s.Info) == elf.STB_WEAK {
			continue
		}
		t[s.Name] = append(t[s.Name], function{addr: s.Value, size: s.Size})
	}
	sort.Slice(addrs, func(i, j int) bool { return addrs[i] < addrs[j] })
	for _, fs := range t {
		for i := range fs {
			n := sort.Search(len(addrs), func(j int) bool { return addrs[j] > fs[i].addr })
			if n < len(addrs) {
				fs[i].room = addrs[n] - fs[i].addr
			}
		}
	}
	return t, nil
}

// unfit says why an address cannot be asked for by its name, "" when it can.
func (t functionTable) unfit(s console.Symbol) string {
	fs := t[s.Name]
	if len(fs) == 0 {
		return fmt.Sprintf("vmlinux has no function %s: is it of another kernel?", s.Name)
	}
	for _, f := range fs[1:] {
		if f.addr != fs[0].addr {
			return fmt.Sprintf("%d functions have the name %s", len(fs), s.Name)
		}
	}
	f := fs[0]
	if s.Size != f.room && f.size != 0 && (s.Size < f.size || s.Size-f.size > sectionMargin) {
		return fmt.Sprintf("%s has %#x bytes in vmlinux and %#x in the log: it is of another kernel", s.Name, f.size, s.Size)
	}
	return ""
}

// tally says how much was decoded and the first reasons why the rest was not.
func tally(got, all int, left []string) string {
	var why []string
	for _, l := range left {
		if len(why) < 3 && (len(why) == 0 || why[len(why)-1] != l) {
			why = append(why, l)
		}
	}
	s := fmt.Sprintf("%d of %d frames were decoded", got, all)
	if got == 0 {
		s = "the frames were not decoded"
	}
	return s + ": " + strings.Join(why, "; ")
}

func firstWithout(syms []console.Symbol, at console.Positions) console.Symbol {
	for _, s := range syms {
		if len(at[s]) == 0 {
			return s
		}
	}
	return console.Symbol{}
}

// wholeLines are the lines of an output but for one that was cut off.
func wholeLines(b []byte) []string {
	ls := strings.Split(string(b), "\n")
	return ls[:len(ls)-1]
}

func saidLines(b []byte) []string {
	var out []string
	for l := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n") {
		if l != "" && len(out) < decodeSaid {
			out = append(out, l)
		}
	}
	return out
}

// inSystem says whether a script can run a program: confined it sees the
// system's folders only.
func inSystem(tool string) bool {
	for _, d := range filepath.SplitList(systemPath) {
		if fi, err := os.Stat(filepath.Join(d, tool)); err == nil && !fi.IsDir() && fi.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

func realPath(p string) (string, error) {
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}
