// SPDX-License-Identifier: Apache-2.0

// Package variants chooses kernel configurations under which a patch is worth
// compiling besides the one that boots. Robots find most of what authors miss
// under another configuration: debug messages compiled out, a protocol version
// off, everything modular, 32 bit. Only objects are compiled, and only those
// that a touched file can change.
//
// Running a variant takes three steps; SRC is the source folder (it must hold
// no build of its own), OBJ an object folder of this variant alone:
//
//  1. Configure, when OBJ is new: write Fragment to a file and run
//     make ConfigArgs(SRC, OBJ, file). Then prove with kernelconfigs.Verify
//     that every symbol survived. About 5 s.
//  2. Compile the base: make BuildArgs(SRC, OBJ, jobs). The first make in OBJ
//     builds the host tools, 10 s; an object takes 0.5 to 1 s.
//  3. Rewrite SRC to the patched state, touching only files that differ, and
//     run the same make again: it rebuilds what depends on them.
//
// A variant with a Seed starts from a copy of the seed's folder (CopyBuild),
// taken after the seed's step 2, and from a clone of its ledger; then step 1,
// 2 and 3 as above. That saves the host tools and every object that does not
// depend on a symbol which differs: of the same 14 objects, two variants
// compile none again.
//
// The logs of 2 and 3 go into a ledger each (checks/warnings), the second one
// on top of a copy of the first. make gets -k, so that an error hides no other
// diagnostics: exit status 2 then means that something failed, and the log
// says what. Variants are independent: run as many at a time as there are
// processors, with one job each, since configuring and preparing do not use
// more. Without copies, the seven variants of the NFS set took 281 s for both
// sides of a patch to one folder of 14 objects, from nothing, on two busy
// processors, and 24 s after an edit of one file.
//
// Targets are folders, because kbuild then leaves out what the configuration
// disables. Narrow turns them into single objects once the .config is known,
// which is what makes a patch to one file of a large folder cheap.
//
// modpost needs the whole kernel to say which symbols exist. A modular variant
// is therefore checked by Undefined and Unexported: what a module newly needs
// must be exported somewhere in the tree. Of the others nothing is linked; what
// the link of a whole kernel would miss is found by Unlinked, as far as a part
// of the objects can tell.
package variants

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.config
var embedded embed.FS

// Variant is a configuration and what to compile under it.
type Variant struct {
	Name string `json:"name"`
	Arch string `json:"arch"` // make's ARCH
	Base string `json:"base"` // configuration target of make that Fragment goes on top of: "allnoconfig"
	// Fragment is the text of a configuration fragment, one line for each
	// symbol, sorted.
	Fragment string `json:"fragment"`
	// Targets are folders for make, each with a slash at its end.
	Targets []string `json:"targets"`
	// Sources are the source files whose objects the patch can change, for
	// Narrow.
	Sources []string `json:"sources"`
	// MakeVars are further words of the make command line: "W=1", "LLVM=1".
	MakeVars []string `json:"make_vars"`
	// Modular says that modules are linked, so that Undefined finds them.
	Modular bool `json:"modular,omitempty"`
	// Why it is worth compiling, one sentence.
	Why string `json:"why"`
	// Seed names the variant of which CopyBuild may make this one's object
	// folder after its base was built; "" for one that starts empty.
	Seed string `json:"seed,omitempty"`
	// SameAs names the variant that compiles these sources alike, as far as
	// the symbols that occur in them tell; "" when this one differs. A run
	// short of time leaves such a variant out and says so.
	SameAs string `json:"same_as,omitempty"`
}

// ConfigArgs are make's arguments that configure an empty object folder.
// fragment is the path of a file that holds v.Fragment.
func (v Variant) ConfigArgs(src, obj, fragment string) []string {
	return append([]string{"-s", "-C", src, "O=" + obj, "ARCH=" + v.Arch, "KCONFIG_ALLCONFIG=" + fragment}, append(v.compilerVars(), v.Base)...)
}

// BuildArgs are make's arguments that compile the targets given, or v.Targets
// when there are none.
func (v Variant) BuildArgs(src, obj string, jobs int, targets ...string) []string {
	if len(targets) == 0 {
		targets = v.Targets
	}
	args := []string{"-k", "-j" + strconv.Itoa(max(jobs, 1)), "--output-sync=target", "-C", src, "O=" + obj, "ARCH=" + v.Arch}
	return append(append(args, v.MakeVars...), targets...)
}

// compilerVars are the words that Kconfig has to see as well: the compiler
// decides which symbols exist.
func (v Variant) compilerVars() []string {
	var out []string
	for _, w := range v.MakeVars {
		if k, _, _ := strings.Cut(w, "="); k == "LLVM" || k == "CC" || k == "CROSS_COMPILE" || k == "PYTHON3" {
			out = append(out, w)
		}
	}
	return out
}

// Options of Select.
type Options struct {
	// Arch is the architecture of the boot kernel, "x86_64" when empty.
	Arch string
	// Clang compiles with LLVM=1, Sparse checks with C=1.
	Clang, Sparse bool
	// Python is the interpreter for kbuild's scripts; a version manager's
	// shim in PATH costs a tenth of a second for each object. Empty: PATH's.
	Python string
	// KernelDoc keeps W=1's kernel-doc checker. It sees the same source under
	// every configuration, so one build with it is enough.
	KernelDoc bool
	// MostSymbols bounds the variants of other subsystems that turn one
	// symbol off each; 0 means 3.
	MostSymbols int
}

func (o Options) makeVars() []string {
	vars := []string{"W=1"}
	if !o.KernelDoc {
		vars = append(vars, "KERNELDOC=/dev/null")
	}
	if o.Python != "" {
		vars = append(vars, "PYTHON3="+o.Python)
	}
	if o.Clang {
		vars = append(vars, "LLVM=1")
	}
	if o.Sparse {
		vars = append(vars, "C=1")
	}
	return vars
}

// set is the variants that were chosen by hand for a subsystem.
type set struct {
	name    string
	folders []string // compiled for
	members []member
}

// member is one variant of a set: its file goes on top of the set's first.
type member struct {
	file    string
	arch    string // "" is that of the boot kernel
	modular bool
	always  bool // differs from the first whatever symbols the sources use
	why     string
}

var sets = []set{{
	name:    "nfs",
	folders: []string{"fs/nfs", "fs/nfsd", "fs/lockd", "fs/nfs_common", "net/sunrpc", "drivers/infiniband/core", "drivers/infiniband/sw/rxe", "drivers/infiniband/sw/siw"},
	members: []member{
		{file: "nfs-all", always: true, why: "everything on, with debug messages, NFSv2 and LOCALIO: code that the boot kernel leaves out"},
		{file: "nfs-nodebug", why: "debug messages compiled out: variables that only they use"},
		{file: "nfs-nov4", why: "client without NFSv4, no back channel, no keys: stubs and prototypes of what is gone"},
		{file: "nfs-v41only", why: "minor versions 0 and 2 off: code shared between minor versions"},
		{file: "nfsd-nov4", why: "server without NFSv4: stubs of nfsd's headers"},
		{file: "nfs-modules", modular: true, always: true, why: "all modular: symbols that are used across modules and not exported"},
		{file: "nfs-i386", arch: "i386", always: true, why: "32 bit: size_t and long in format strings, 64-bit division, min() of unlike types"},
	},
}}

var reSetting = regexp.MustCompile(`^(?:CONFIG_(\w+)=(.*)|# CONFIG_(\w+) is not set)$`)

// settings reads a fragment: symbol without CONFIG_ -> value.
func settings(text string) map[string]string {
	out := map[string]string{}
	for _, l := range strings.Split(text, "\n") {
		m := reSetting.FindStringSubmatch(strings.TrimSpace(l))
		switch {
		case m == nil:
		case m[3] != "":
			out[m[3]] = "n"
		default:
			out[m[1]] = m[2]
		}
	}
	return out
}

func render(s map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if s[k] == "n" {
			fmt.Fprintf(&b, "# CONFIG_%s is not set\n", k)
		} else {
			fmt.Fprintf(&b, "CONFIG_%s=%s\n", k, s[k])
		}
	}
	return b.String()
}

func fragment(name string) map[string]string {
	b, err := embedded.ReadFile(name + ".config")
	if err != nil {
		panic(err) // cannot be: the file is part of the program
	}
	return settings(string(b))
}

// variant makes the member's Variant without targets.
func (s *set) variant(m member, opts Options) Variant {
	all := fragment(s.members[0].file)
	maps.Copy(all, fragment(m.file))
	v := Variant{
		Name: m.file, Arch: cmp.Or(m.arch, opts.Arch, "x86_64"), Base: "allnoconfig",
		Fragment: render(all), MakeVars: opts.makeVars(), Modular: m.modular, Why: m.why,
	}
	if m.arch == "" && m.file != s.members[0].file {
		v.Seed = s.members[0].file
	}
	return v
}

// changes lists the symbols that a member sets otherwise than the first.
func (s *set) changes(m member) []string {
	first := fragment(s.members[0].file)
	var out []string
	for k, v := range fragment(m.file) {
		if first[k] != v {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}
