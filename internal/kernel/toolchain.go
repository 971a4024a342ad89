// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"patchcheck/internal/proc"
)

// Toolchain is what a kernel is compiled with. Two kernels can be compared
// only when theirs are equal.
type Toolchain struct {
	CC      string `json:"cc"`      // as given to make: "gcc", "clang", "/opt/x/bin/gcc"
	LLVM    bool   `json:"llvm"`    // clang with LLVM's linker and tools
	Version string `json:"version"` // first line of CC --version
	Linker  string `json:"linker"`  // first line of LD --version
	Target  string `json:"target"`  // CC -dumpmachine
	Python  string `json:"python"`  // a real interpreter, for kbuild's scripts

	ccPath string
}

// ToolError is a program the host lacks, or one that does not work.
type ToolError struct {
	Tool    string
	Package string // Debian package that has it
	Err     error
}

func (e *ToolError) Error() string {
	s := "building a kernel needs " + e.Tool + ", which this host does not have"
	if e.Err != nil {
		s = fmt.Sprintf("building a kernel needs %s, which does not work here: %v", e.Tool, e.Err)
	}
	if e.Package != "" {
		s += "; install the Debian package " + e.Package
	}
	return s
}

func (e *ToolError) Unwrap() error { return e.Err }

// HostTools lists what a kernel build needs, with Debian's package names.
// A name with a slash is a header below /usr/include.
var HostTools = []struct{ Tool, Package string }{
	{"make", "make"}, {"gcc", "gcc"}, {"ld", "binutils"}, {"flex", "flex"}, {"bison", "bison"}, {"bc", "bc"},
	{"perl", "perl"}, {"python3", "python3"}, {"gzip", "gzip"}, {"tar", "tar"}, {"xz", "xz-utils"},
	{"sys/types.h", "libc6-dev"}, {"gelf.h", "libelf-dev"},
}

// MissingTools checks the host. The result is empty when a kernel can be built.
func MissingTools(cc string) []*ToolError {
	var miss []*ToolError
	for _, t := range HostTools {
		if strings.HasSuffix(t.Tool, ".h") {
			found, _ := filepath.Glob("/usr/include/" + t.Tool)
			multi, _ := filepath.Glob("/usr/include/*-linux-gnu*/" + t.Tool)
			if len(found)+len(multi) == 0 {
				miss = append(miss, &ToolError{Tool: "the header " + t.Tool, Package: t.Package})
			}
			continue
		}
		tool, pkg := t.Tool, t.Package
		if tool == "gcc" && cc != "" && cc != "gcc" {
			tool, pkg = cc, ""
		}
		if tool == "python3" {
			if findPython(context.Background()) == "" {
				miss = append(miss, &ToolError{Tool: tool, Package: pkg})
			}
			continue
		}
		if lookTool(tool) == "" {
			miss = append(miss, &ToolError{Tool: tool, Package: pkg})
		}
	}
	return miss
}

// lookTool finds a program in the system's folders first: version managers put
// slow shims in front of them.
func lookTool(name string) string {
	if strings.ContainsRune(name, '/') {
		if _, err := os.Stat(name); err == nil {
			return name
		}
		return ""
	}
	for _, d := range filepath.SplitList(systemPath) {
		p := filepath.Join(d, name)
		if fi, err := os.Stat(p); err == nil && !fi.IsDir() && fi.Mode()&0o111 != 0 {
			return p
		}
	}
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	return ""
}

// findPython returns a real interpreter. A shim in PATH is asked for what it
// stands for: it costs ten times the interpreter's start, 1,400 times a build.
func findPython(ctx context.Context) string {
	p := lookTool("python3")
	if p == "" || strings.HasPrefix(p, "/usr/") || strings.HasPrefix(p, "/bin/") {
		return p
	}
	res, err := proc.Run(ctx, proc.Cmd{Argv: []string{p, "-c", "import sys; print(sys.executable)"}})
	if err != nil {
		return ""
	}
	if real := strings.TrimSpace(string(res.Stdout)); filepath.IsAbs(real) {
		return real
	}
	return ""
}

// FindToolchain identifies the compiler. cc is "" or "gcc" for the host's gcc,
// "clang" for LLVM, or a program's path.
//
// The answer is kept for the life of the process.
func FindToolchain(ctx context.Context, cc string) (*Toolchain, error) {
	if cc == "" {
		cc = "gcc"
	}
	toolchains.Lock()
	defer toolchains.Unlock()
	if tc, ok := toolchains.m[cc]; ok {
		return tc, nil
	}
	tc, err := identify(ctx, cc)
	if err == nil {
		toolchains.m[cc] = tc
	}
	return tc, err
}

var toolchains = struct {
	sync.Mutex
	m map[string]*Toolchain
}{m: map[string]*Toolchain{}}

func identify(ctx context.Context, cc string) (*Toolchain, error) {
	tc := &Toolchain{CC: cc, LLVM: strings.HasPrefix(filepath.Base(cc), "clang")}
	if tc.ccPath = lookTool(cc); tc.ccPath == "" {
		return nil, &ToolError{Tool: cc, Package: map[string]string{"gcc": "gcc", "clang": "clang lld llvm"}[cc]}
	}
	first := func(argv ...string) (string, error) {
		res, err := proc.Run(ctx, proc.Cmd{Argv: argv})
		line, _, _ := strings.Cut(string(res.Stdout), "\n")
		if err == nil && line == "" {
			err = errors.New("it prints nothing")
		}
		return strings.TrimSpace(line), err
	}
	var err error
	if tc.Version, err = first(tc.ccPath, "--version"); err != nil {
		return nil, &ToolError{Tool: cc, Err: err}
	}
	if tc.Target, err = first(tc.ccPath, "-dumpmachine"); err != nil {
		return nil, &ToolError{Tool: cc, Err: err}
	}
	ld := "ld"
	if tc.LLVM {
		ld = "ld.lld"
	}
	p := lookTool(ld)
	if p == "" {
		return nil, &ToolError{Tool: ld, Package: map[string]string{"ld": "binutils", "ld.lld": "lld"}[ld]}
	}
	if tc.Linker, err = first(p, "--version"); err != nil {
		return nil, &ToolError{Tool: ld, Err: err}
	}
	if tc.Python = findPython(ctx); tc.Python == "" {
		return nil, &ToolError{Tool: "python3", Package: "python3"}
	}
	return tc, nil
}

// makeVars are the variables that choose the toolchain on make's command line.
func (tc *Toolchain) makeVars() []string {
	v := []string{"PYTHON3=" + tc.Python}
	switch {
	case tc.LLVM && tc.CC == "clang":
		v = append(v, "LLVM=1")
	case tc.CC != "gcc":
		v = append(v, "CC="+tc.CC)
	}
	return v
}

// path is PATH for a build.
func (tc *Toolchain) path() string {
	dir := filepath.Dir(tc.ccPath)
	for _, d := range filepath.SplitList(systemPath) {
		if d == dir {
			return systemPath
		}
	}
	return systemPath + ":" + dir
}
