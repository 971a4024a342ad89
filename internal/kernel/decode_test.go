// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchcheck/checks/console"
)

// elfSymbol is a symbol of a made-up vmlinux, all of whose bytes are code.
type elfSymbol struct {
	name       string
	addr, size uint64
	bind       elf.SymBind
}

// writeELF writes a file that has the symbols and, when asked, a section of line
// numbers, with nothing in them.
func writeELF(t testing.TB, debug bool, syms ...elfSymbol) string {
	t.Helper()
	var strs, names, tab bytes.Buffer
	strs.WriteByte(0)
	names.WriteByte(0)
	binary.Write(&tab, binary.LittleEndian, elf.Sym64{})
	for _, s := range syms {
		binary.Write(&tab, binary.LittleEndian, elf.Sym64{Name: uint32(strs.Len()), Info: elf.ST_INFO(s.bind, elf.STT_FUNC), Shndx: 1, Value: s.addr, Size: s.size})
		strs.WriteString(s.name + "\x00")
	}
	type section struct {
		name string
		h    elf.Section64
		data []byte
	}
	sections := []section{
		{}, {name: ".text", h: elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: 0x1000}, data: make([]byte, 16)},
		{name: ".symtab", h: elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: 3, Info: 1, Entsize: 24}, data: tab.Bytes()},
		{name: ".strtab", h: elf.Section64{Type: uint32(elf.SHT_STRTAB)}, data: strs.Bytes()},
		{name: ".shstrtab", h: elf.Section64{Type: uint32(elf.SHT_STRTAB)}},
	}
	if debug {
		sections = append(sections, section{name: ".debug_line", h: elf.Section64{Type: uint32(elf.SHT_PROGBITS)}, data: []byte{0}})
	}
	for i := range sections {
		sections[i].h.Name = uint32(names.Len())
		names.WriteString(sections[i].name + "\x00")
	}
	sections[4].data = names.Bytes()
	var body bytes.Buffer
	for i := range sections {
		if i > 0 {
			sections[i].h.Off, sections[i].h.Size = uint64(64+body.Len()), uint64(len(sections[i].data))
			body.Write(sections[i].data)
		}
	}
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: uint64(64 + body.Len()), Ehsize: 64, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 4}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, head)
	out.Write(body.Bytes())
	for _, s := range sections {
		binary.Write(&out, binary.LittleEndian, s.h)
	}
	path := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// lineScript gives each address the line that is its offset, in the form of the
// kernel's script.
const lineScript = `[[ $1 == "-R" ]] && shift
while read -r sym mod; do
	mod=${mod#[}; mod=${mod%]}; name=${sym%%+*}; off=${sym#*+}; off=${off%/*}
	echo "$name ($2/net/$name.c:$((off)) (discriminator 2) $2/./net/caller.c:7)${mod:+ $mod}"
done
`

func sym(name string, off, size uint64) console.Symbol {
	return console.Symbol{Name: name, Offset: off, Size: size}
}

func trap(s console.Symbol) console.Symbol {
	s.Trap = true
	return s
}

func TestDecode(t *testing.T) {
	vmlinux := writeELF(t, true,
		elfSymbol{"accept", 0x1000, 0x20, elf.STB_GLOBAL}, elfSymbol{"connect", 0x1030, 0x40, elf.STB_LOCAL},
		elfSymbol{"twice", 0x1080, 0x20, elf.STB_LOCAL}, elfSymbol{"twice", 0x10a0, 0x20, elf.STB_LOCAL},
		elfSymbol{"weak", 0x10c0, 0x20, elf.STB_WEAK}, elfSymbol{"last", 0x10e0, 0, elf.STB_GLOBAL})
	ret, struck := sym("connect", 0x11, 0x50), trap(sym("accept", 0x11, 0x20))
	for name, c := range map[string]struct {
		script  string
		syms    []console.Symbol
		modules bool
		want    map[console.Symbol]string // positions, joined
		why     []string                  // parts of the error
		said    string
	}{
		"all": {script: lineScript, syms: []console.Symbol{struck, ret}, want: map[console.Symbol]string{struck: "net/accept.c:17 net/caller.c:7", ret: "net/connect.c:16 net/caller.c:7"}},
		"a module": {script: lineScript, modules: true, syms: []console.Symbol{{Name: "in_module", Offset: 5, Size: 9, Module: "nfsd"}},
			want: map[console.Symbol]string{{Name: "in_module", Offset: 5, Size: 9, Module: "nfsd"}: "net/in_module.c:4 net/caller.c:7"}},
		"a module without its folder": {script: lineScript, syms: []console.Symbol{ret, {Name: "in_module", Offset: 5, Size: 9, Module: "nfsd"}},
			want: map[console.Symbol]string{ret: "net/connect.c:16 net/caller.c:7"}, why: []string{"1 of 2 frames", "in_module+0x5/0x9 [nfsd] is in a module"}},
		"a size to the next function": {script: lineScript, syms: []console.Symbol{sym("accept", 2, 0x30), sym("last", 2, 0x999)},
			want: map[console.Symbol]string{sym("accept", 2, 0x30): "net/accept.c:1 net/caller.c:7", sym("last", 2, 0x999): "net/last.c:1 net/caller.c:7"}},
		"another kernel":     {script: lineScript, syms: []console.Symbol{sym("accept", 1, 0x1f), sym("gone", 1, 2)}, why: []string{"the frames were not decoded", "accept has 0x20 bytes in vmlinux and 0x1f in the log", "no function gone"}},
		"two of one name":    {script: lineScript, syms: []console.Symbol{sym("twice", 1, 0x20)}, why: []string{"2 functions have the name twice"}},
		"a weak name":        {script: lineScript, syms: []console.Symbol{sym("weak", 1, 0x20)}, why: []string{"no function weak"}},
		"no script":          {syms: []console.Symbol{ret}, why: []string{"the tree has no scripts/decode_stacktrace.sh"}},
		"it fails":           {script: "read -r l; echo 'accept (net/a.c:3)'; echo 'cannot go on' >&2; exit 3", syms: []console.Symbol{struck, ret}, want: map[console.Symbol]string{struck: "net/a.c:3"}, why: []string{"1 of 2 frames", "exit status 3"}, said: "cannot go on"},
		"it hangs":           {script: "read -r l; echo 'accept (net/a.c:3)'; echo 'so slow' >&2; sleep 600", syms: []console.Symbol{struck, ret}, why: []string{"was ended after"}},
		"it prints escapes":  {script: "cat >/dev/null; printf 'accept (\\e[31mnet/a.c:3)\\nconnect (net/a b.c:3)\\n'", syms: []console.Symbol{struck, ret}, why: []string{"found no line for accept+0x11/0x20"}},
		"it prints markup":   {script: "cat >/dev/null; echo 'accept (<script>:3)'", syms: []console.Symbol{struck}, why: []string{"found no line"}},
		"it answers another": {script: "cat >/dev/null; echo 'connect (net/a.c:3)'", syms: []console.Symbol{struck}, why: []string{"found no line"}},
		"it repeats":         {script: "cat", syms: []console.Symbol{struck}, why: []string{"found no line"}},
		"it talks on":        {script: "cat >/dev/null; echo 'accept (net/a.c:3)'; echo; echo 'accept (net/a.c:4)'", syms: []console.Symbol{struck}, want: map[console.Symbol]string{struck: "net/a.c:3"}},
		"it knows no line":   {script: "cat >/dev/null; echo 'accept (net/a.c:?)'", syms: []console.Symbol{struck}, why: []string{"found no line"}},
		"a cut line":         {script: "cat >/dev/null; printf 'accept (net/a.c:3)'", syms: []console.Symbol{struck}, why: []string{"found no line"}},
		"it leads out":       {script: "cat >/dev/null; echo 'accept (net/../../../etc/passwd:3)'", syms: []console.Symbol{struck}, want: map[console.Symbol]string{struck: "../../etc/passwd:3"}},
	} {
		t.Run(name, func(t *testing.T) {
			// Programs take their time under load: only the one that hangs ends so.
			d := Decoder{Vmlinux: vmlinux, Script: []byte(c.script), Source: "/src/linux", NoSandbox: !FindSandbox(t.Context()).Enabled, Timeout: time.Minute}
			if name == "it hangs" {
				d.Timeout = time.Second
			}
			if c.modules {
				d.Modules = t.TempDir()
			}
			at, err := d.Decode(t.Context(), c.syms)
			for s, want := range c.want {
				var got []string
				for _, p := range at[s] {
					got = append(got, p.String())
				}
				if strings.Join(got, " ") != want {
					t.Errorf("%v is at %q, want %q", s, got, want)
				}
			}
			if len(at) > len(c.want) && name != "it hangs" {
				t.Errorf("more than wanted: %v", at)
			}
			if len(c.why) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var de *DecodeError
			if !errors.As(err, &de) {
				t.Fatalf("the error is %v, want a *DecodeError", err)
			}
			for _, w := range c.why {
				if !strings.Contains(de.Why, w) {
					t.Errorf("it says %q, want %q in it", de.Why, w)
				}
			}
			if c.said != "" && (len(de.Said) == 0 || de.Said[0] != c.said) {
				t.Errorf("of its stderr there is %q, want %q", de.Said, c.said)
			}
		})
	}
}

// Addresses that were found are not asked for again.
func TestDecodeRemembers(t *testing.T) {
	vmlinux := writeELF(t, true, elfSymbol{"accept", 0x1000, 0x20, elf.STB_GLOBAL}, elfSymbol{"connect", 0x1030, 0x40, elf.STB_LOCAL})
	d := Decoder{Vmlinux: vmlinux, Script: []byte(lineScript), Source: "/src/linux", NoSandbox: !FindSandbox(t.Context()).Enabled}
	first, second := sym("accept", 0x11, 0x20), sym("connect", 0x11, 0x40)
	if at, err := d.Decode(t.Context(), []console.Symbol{first}); err != nil || len(at) != 1 {
		t.Fatalf("%v, %v", at, err)
	}
	d.Script = []byte("cat >/dev/null; echo 'connect (net/b.c:5)'")
	at, err := d.Decode(t.Context(), []console.Symbol{first, second, sym("gone", 1, 2)})
	if len(at) != 2 || at[first][0].File != "net/accept.c" || at[second][0].File != "net/b.c" {
		t.Errorf("the second time: %v", at)
	}
	if err == nil || !strings.Contains(err.Error(), "2 of 3 frames were decoded: vmlinux has no function gone") {
		t.Errorf("the second time: %v", err)
	}
	d.Script = nil
	if at, err := d.Decode(t.Context(), []console.Symbol{second, first}); err != nil || len(at) != 2 {
		t.Errorf("the third time: %v, %v", at, err)
	}
}

// What nm and addr2line say is thrown away by the script and has to be asked
// for.
func TestDecodeTellsWhatToolsSay(t *testing.T) {
	if !inSystem("addr2line") || !inSystem("nm") {
		t.Skip("needs binutils")
	}
	vmlinux := writeELF(t, true, elfSymbol{"accept", 0x1000, 0x20, elf.STB_GLOBAL})
	b, err := os.ReadFile(vmlinux)
	if err != nil {
		t.Fatal(err)
	}
	// The last section's header: 1 GiB that the file does not have.
	binary.LittleEndian.PutUint64(b[len(b)-32:], 1<<30)
	if err := os.WriteFile(vmlinux, b, 0o644); err != nil {
		t.Fatal(err)
	}
	d := Decoder{Vmlinux: vmlinux, Script: []byte("cat"), NoSandbox: !FindSandbox(t.Context()).Enabled}
	_, err = d.Decode(t.Context(), []console.Symbol{sym("accept", 1, 0x20)})
	var de *DecodeError
	if !errors.As(err, &de) || !strings.Contains(strings.Join(de.Said, "\n"), "vmlinux") {
		t.Errorf("got %v, %+v; want what the tools say of the file", err, de)
	}
}

func TestDecodeWithoutMeans(t *testing.T) {
	good := writeELF(t, true, elfSymbol{"accept", 0x1000, 0x20, elf.STB_GLOBAL})
	ask := []console.Symbol{sym("accept", 1, 0x20)}
	text := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(text, []byte("int a;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, vmlinux := range map[string]string{"no such file": filepath.Join(t.TempDir(), "x"), "no ELF file": text, "no debug info": writeELF(t, false)} {
		d := Decoder{Vmlinux: vmlinux, Script: []byte(lineScript)}
		if at, err := d.Decode(t.Context(), ask); err == nil || !strings.Contains(err.Error(), want) || len(at) > 0 {
			t.Errorf("%s: %v, %v", want, at, err)
		}
	}
	tools := decodeTools
	defer func() { decodeTools = tools }()
	decodeTools = []struct{ Tool, Package string }{{"no-such-addr2line", "binutils"}}
	d := Decoder{Vmlinux: good, Script: []byte(lineScript)}
	if _, err := d.Decode(t.Context(), ask); err == nil || !strings.Contains(err.Error(), "needs no-such-addr2line") || !strings.Contains(err.Error(), "package binutils") {
		t.Errorf("without addr2line: %v", err)
	}
	decodeTools = tools
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Decode(ctx, ask); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if at, err := d.Decode(t.Context(), nil); err != nil || len(at) > 0 {
		t.Errorf("nothing to decode: %v, %v", at, err)
	}
}

// The vmlinux is a series': no script of the tree's reads it unconfined.
func TestDecodeNeedsSandbox(t *testing.T) {
	old := FindSandbox(t.Context())
	sandboxes.Lock()
	sandboxes.found = &Sandbox{Reason: "none for this test"}
	sandboxes.Unlock()
	defer func() {
		sandboxes.Lock()
		sandboxes.found = &old
		sandboxes.Unlock()
	}()
	d := Decoder{Vmlinux: writeELF(t, true, elfSymbol{"accept", 0x1000, 0x20, elf.STB_GLOBAL}), Script: []byte(lineScript)}
	if _, err := d.Decode(t.Context(), []console.Symbol{sym("accept", 1, 0x20)}); err == nil || !strings.Contains(err.Error(), "unconfined, and none for this test") {
		t.Errorf("without a sandbox: %v", err)
	}
}

func TestDecodeIsConfined(t *testing.T) {
	if sb := FindSandbox(t.Context()); !sb.Enabled {
		t.Skip("no sandbox here: " + sb.Reason)
	}
	vmlinux := writeELF(t, true, elfSymbol{"accept", 0x1000, 0x20, elf.STB_GLOBAL})
	beside := filepath.Join(filepath.Dir(vmlinux), "secret")
	if err := os.WriteFile(beside, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for what, script := range map[string]string{
		"reads a file beside vmlinux": "cat " + beside,
		"writes vmlinux":              "echo x >> " + vmlinux,
		"sees the network":            "cat /sys/class/net/lo/address",
	} {
		d := Decoder{Vmlinux: vmlinux, Script: []byte("cat >/dev/null; test -r " + vmlinux + " || exit 0; " + script + " || exit 7")}
		_, err := d.Decode(t.Context(), []console.Symbol{sym("accept", 1, 0x20)})
		if err == nil || !strings.Contains(err.Error(), "exit status 7") {
			t.Errorf("the script %s: %v", what, err)
		}
	}
}

func FuzzDecodeParse(f *testing.F) {
	f.Add("accept (net/a.c:3 net/b.c:4 (discriminator 1))")
	f.Add("accept (??:0)")
	f.Add("accept (/src/linux/./include/x.h:?)")
	d := Decoder{Source: "/src/linux"}
	f.Fuzz(func(t *testing.T, l string) {
		for _, p := range d.parse(console.Symbol{Name: "accept"}, l) {
			if p.Line <= 0 || p.File == "" || strings.ContainsAny(p.File, " \t\x1b<>&\"'\\`$\n") {
				t.Errorf("%q gives %+v", l, p)
			}
		}
	})
}

// A kernel with debug info keeps its vmlinux, others keep what they always kept.
func TestStoreKeepsDebugInfo(t *testing.T) {
	f := newFake(t)
	plain := f.build(t, Base, nil)
	if plain.Vmlinux() != "" || plain.Source != "" {
		t.Errorf("a kernel without debug info keeps %q", plain.Vmlinux())
	}
	if _, err := os.Stat(filepath.Join(plain.Dir, debugName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a vmlinux in its entry: %v", err)
	}
	r := f.request(t, Base, nil)
	r.Config = wanted(t, "CONFIG_WANTED=y\nCONFIG_DEBUG_INFO=y\nCONFIG_DEBUG_INFO_DWARF5=y\n")
	k, err := f.Kernel(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(k.Vmlinux())
	if err != nil || len(b) == 0 {
		t.Fatalf("no vmlinux was kept: %v", err)
	}
	if !strings.HasSuffix(k.Source, "/src") {
		t.Errorf("its sources lay in %q", k.Source)
	}
	again, err := f.Kernel(t.Context(), r)
	if err != nil || !again.Reused || again.Vmlinux() != k.Vmlinux() || again.Source != k.Source {
		t.Errorf("from the cache: %+v, %v", again, err)
	}
	// What is in the cache is checked before use.
	if err := os.WriteFile(k.Vmlinux(), append(b, 'x'), 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err = f.Kernel(t.Context(), r); err != nil || again.Reused {
		t.Errorf("a changed vmlinux was used: %+v, %v", again, err)
	}
}

// Keys of kernels without debug info are those of earlier versions.
func TestDebugInfoInKey(t *testing.T) {
	for text, want := range map[string]bool{
		"CONFIG_A=y\n":                                                  false,
		"CONFIG_DEBUG_INFO_NONE=y\n":                                    false,
		"# CONFIG_DEBUG_INFO_DWARF5 is not set\n":                       false,
		"CONFIG_DEBUG_INFO_DWARF5=y\nCONFIG_DEBUG_INFO_REDUCED=y\n":     true,
		"CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y\nCONFIG_DEBUG=y\n": true,
	} {
		if r := (Request{Config: wanted(t, text)}); r.wantsDebugInfo() != want {
			t.Errorf("%q wants debug info: %v", text, !want)
		}
	}
}
