// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
	kernelconfigs "patchcheck/kernel-configs"
)

// Config says what configuration a kernel gets: a base target of kconfig with
// fragments on top.
type Config struct {
	Base      string                `json:"base"` // "" means allnoconfig; tinyconfig, defconfig...
	Arch      string                `json:"arch"` // make's ARCH; "" means x86_64; i386
	Fragments *kernelconfigs.Merged `json:"-"`
}

func (c Config) base() string {
	if c.Base == "" {
		return "allnoconfig"
	}
	return c.Base
}

func (c Config) arch() string {
	if c.Arch == "" {
		return "x86_64"
	}
	return c.Arch
}

// Hash identifies the configuration asked for.
func (c Config) Hash() string {
	sum := sha256.Sum256([]byte(c.base() + "\x00" + c.arch() + "\x00" + c.Fragments.Hash()))
	return hex.EncodeToString(sum[:])
}

// BuildOptions say how make is run.
type BuildOptions struct {
	Targets   []string // nil means bzImage
	W         string   // kbuild's W=; "" none, "1", "12"
	C         string   // kbuild's C= (sparse); "" none
	Jobs      int      // 0 means the number of CPUs
	KeepGoing bool     // compile the rest too after an error, to report all of them
	Force     bool     // remake everything
	NoSandbox bool
	Progress  func(Progress)
	Timeout   time.Duration // 0 means three hours
}

// Progress is the state of a make.
type Progress struct {
	Steps    int    // kbuild steps done
	Expected int    // of the latest whole build of these targets; 0 unknown
	Line     string // "CC net/sunrpc/svc.o"
}

// BuildResult is a make that succeeded.
type BuildResult struct {
	Argv    []string      `json:"argv"` // make's command line, as it could be typed
	Objects []string      `json:"objects"`
	Steps   int           `json:"steps"`
	Elapsed time.Duration `json:"elapsed"`
	Log     string        `json:"log"` // path
	Sandbox Sandbox       `json:"sandbox"`
	Ledger  Ledger        `json:"-"` // whole object folder, after this build
	Release string        `json:"release"`
	Toolchain
}

// BuildError is code that does not compile or link: the series' fault when the
// base builds.
type BuildError struct {
	Targets []string // what failed: "net/sunrpc/svc.o"
	Lines   []string // first real error lines
	Objects []string // compiled all the same
	Log     string
	Ledger  Ledger // whole object folder, with what the failed targets said
	Elapsed time.Duration
}

func (e *BuildError) Error() string {
	s := "the kernel does not build"
	if len(e.Targets) > 0 {
		s += " (" + strings.Join(e.Targets[:min(3, len(e.Targets))], ", ") + ")"
	}
	if len(e.Lines) > 0 {
		s += ":\n  " + strings.Join(e.Lines, "\n  ")
	}
	return s
}

// InfraError is a build that failed for a reason that is not in the code.
type InfraError struct {
	What string
	Log  string
	Err  error
}

func (e *InfraError) Error() string {
	s := e.What
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *InfraError) Unwrap() error { return e.Err }

// pinned are make variables that would else let two builds of one source
// differ.
var pinned = []string{
	"KBUILD_BUILD_TIMESTAMP=2026-01-01 00:00:00 +0000", "KBUILD_BUILD_USER=patchcheck", "KBUILD_BUILD_HOST=patchcheck",
	"KBUILD_BUILD_VERSION=1", "LOCALVERSION=", "KCFLAGS=", "KAFLAGS=",
}

// makeArgv is the command line of make.
func (w *Workspace) makeArgv(tc *Toolchain, cfg Config, opt BuildOptions, targets ...string) []string {
	jobs := opt.Jobs
	if jobs <= 0 {
		jobs = runtime.NumCPU()
	}
	argv := []string{"make", "-C", w.Src, "O=" + w.Obj, "ARCH=" + cfg.arch(), fmt.Sprintf("-j%d", jobs), "--output-sync=target", "--no-print-directory"}
	if opt.W != "" {
		// The kernel-doc checker costs a quarter of the time and is no part of an
		// object's saved command; CheckKernelDoc runs it on the files that matter.
		argv = append(argv, "W="+opt.W, "KERNELDOC=/dev/null")
	}
	if opt.C != "" {
		argv = append(argv, "C="+opt.C)
	}
	if opt.KeepGoing {
		argv = append(argv, "-k")
	}
	if opt.Force {
		argv = append(argv, "-B")
	}
	argv = append(argv, pinned...)
	argv = append(argv, tc.makeVars()...)
	return append(argv, targets...)
}

func (tc *Toolchain) env() []string {
	return []string{"PATH=" + tc.path(), "LC_ALL=C", "LANG=C", "HOME=/nonexistent", "TMPDIR=/tmp", "PYTHONDONTWRITEBYTECODE=1", "GIT_CEILING_DIRECTORIES=/", "TERM=dumb"}
}

// sandbox finds how to confine programs. Running a stranger's Makefile with
// everything in reach takes the user's word, so its lack is an error.
func (opt BuildOptions) sandbox(ctx context.Context) (Sandbox, error) {
	if opt.NoSandbox {
		return Sandbox{Reason: "switched off by --no-sandbox"}, nil
	}
	sb := FindSandbox(ctx)
	if err := ctx.Err(); err != nil {
		return sb, err
	}
	if !sb.Enabled {
		return sb, &InfraError{What: "a series' Makefiles cannot be kept from this machine's files and network, because " + sb.Reason + "; mend that, or trust the series with --no-sandbox"}
	}
	return sb, nil
}

// make runs make confined, with its output to out.
func (w *Workspace) make(ctx context.Context, sb Sandbox, tc *Toolchain, argv []string, out io.Writer) (proc.Result, error) {
	if err := unix.Flock(int(w.busy.Fd()), unix.LOCK_EX); err != nil {
		return proc.Result{Exit: -1}, fmt.Errorf("cannot lock the workspace: %w", err)
	}
	// The lock stays with whatever of make's processes is left, should make have
	// been killed; closing gives up our share only.
	defer func() {
		path := w.busy.Name()
		w.busy.Close()
		w.busy, _ = os.Open(path)
	}()
	return sb.run(ctx, append([]string{w.Src}, outside(tc.ccPath, tc.Python)...), []string{w.Obj}, tc.env(), proc.Cmd{
		Argv: argv, Dir: w.Obj, Merge: true, Stdout: out, MaxOutput: 1 << 20, Stdin: bytes.NewReader(nil), Inherit: []*os.File{w.busy},
	})
}

// Configure makes .config from cfg and proves that every symbol asked for is
// there. It does nothing when neither cfg nor the tree's Kconfig files changed
// since the last time; an equal result leaves .config untouched, so that
// nothing is rebuilt.
func (w *Workspace) Configure(ctx context.Context, tc *Toolchain, cfg Config, opt BuildOptions) error {
	if err := w.guardDefault(ctx); err != nil {
		return err
	}
	print, err := w.kconfigPrint()
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{cfg.Hash(), print, tc.Version, tc.Linker, tc.CC}, "\x00")))
	want := hex.EncodeToString(sum[:])
	if w.state.ConfigFor == want {
		if b, err := w.readObj(".config", 16<<20); err == nil {
			if c, err := kernelconfigs.ParseConfig(bytes.NewReader(b)); err == nil && len(cfg.Fragments.Verify(c)) == 0 {
				return nil
			}
		}
	}
	w.progress("configuring the kernel")
	if w.state.ConfigFor != "" {
		w.state.ConfigFor = ""
		if err := w.save(); err != nil {
			return err
		}
	}
	sb, err := opt.sandbox(ctx)
	if err != nil {
		return err
	}
	const fresh, wanted = ".config.patchcheck", ".config.wanted"
	run := func(target string, vars ...string) error {
		argv := append(w.makeArgv(tc, cfg, BuildOptions{Jobs: opt.Jobs}, target), "KCONFIG_CONFIG="+fresh)
		res, err := w.make(ctx, sb, tc, append(argv, vars...), nil)
		if err != nil {
			return w.makeFailed(ctx, err, string(res.Stdout), "", nil, "make "+target)
		}
		return nil
	}
	if err := w.writeObj(wanted, []byte(cfg.Fragments.Text())); err != nil {
		return explainFull(err, w.cache)
	}
	switch cfg.base() {
	case "allnoconfig", "allmodconfig", "allyesconfig", "alldefconfig":
		// The wishes are given to the target itself: what they make visible is
		// then treated as the target treats everything, so that allnoconfig stays
		// as small as it can be.
		if err := run(cfg.base(), "KCONFIG_ALLCONFIG="+wanted); err != nil {
			return err
		}
	default:
		if err := run(cfg.base()); err != nil {
			return err
		}
		b, err := w.readObj(fresh, 16<<20)
		if err != nil {
			return &InfraError{What: "make " + cfg.base() + " wrote no configuration", Err: err}
		}
		if err := w.writeObj(fresh, append(b, cfg.Fragments.Text()...)); err != nil {
			return explainFull(err, w.cache)
		}
		if err := run("olddefconfig"); err != nil {
			return err
		}
	}
	b, err := w.readObj(fresh, 16<<20)
	if err != nil {
		return &InfraError{What: "make wrote no configuration", Err: err}
	}
	c, err := kernelconfigs.ParseConfig(bytes.NewReader(b))
	if err != nil {
		return err
	}
	if miss := cfg.Fragments.Verify(c); len(miss) > 0 {
		kernelconfigs.Explain(miss, c, srcArch(cfg.arch()), func(name string) ([]byte, error) {
			b, _, err := readTreeFile(w.Src, name)
			return b, err
		})
		return &kernelconfigs.MissingError{Tree: w.tree.String(), Missing: miss}
	}
	if old, err := w.readObj(".config", 16<<20); err != nil || !bytes.Equal(old, b) {
		if err := w.writeObj(".config", b); err != nil {
			return explainFull(err, w.cache)
		}
	}
	w.state.ConfigFor = want
	return w.save()
}

func srcArch(arch string) string {
	if arch == "x86_64" || arch == "i386" {
		return "x86"
	}
	return arch
}

// writeObj replaces a file at the object folder's top.
func (w *Workspace) writeObj(name string, data []byte) error {
	tmp := filepath.Join(w.Dir, "incoming.config")
	if err := cache.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	if fi, err := os.Lstat(filepath.Join(w.Obj, name)); err == nil && fi.IsDir() {
		return fmt.Errorf("%s in the object folder is a folder", name)
	}
	t := w.newTime()
	if err := os.Chtimes(tmp, t, t); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(w.Obj, name))
}

// kconfigPrint identifies everything that make's config targets read: the
// tree, and what of the overlay can matter to them.
func (w *Workspace) kconfigPrint() (string, error) {
	h := sha256.New()
	io.WriteString(h, w.state.TreeID)
	for _, p := range w.state.Overlay {
		if !strings.HasPrefix(path.Base(p), "Kconfig") && !strings.HasPrefix(p, "scripts/") && !strings.Contains(p, "/configs/") && !strings.HasPrefix(p, "kernel/configs/") && p != "Makefile" && path.Base(path.Dir(p)) != "arch" && !(strings.HasPrefix(p, "arch/") && path.Base(p) == "Makefile") {
			continue
		}
		b, mode, err := readTreeFile(w.Src, p)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		fmt.Fprintf(h, "\x00%s\x00%o\x00%x", p, mode, sha256.Sum256(b))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Build runs one make on the synced and configured workspace. The error is a
// *BuildError when the code is at fault and an *InfraError when it is not;
// both leave the ledger right for what was compiled.
func (w *Workspace) Build(ctx context.Context, tc *Toolchain, cfg Config, opt BuildOptions) (*BuildResult, error) {
	targets := opt.Targets
	if len(targets) == 0 {
		targets = []string{"bzImage"}
	}
	for _, t := range targets {
		if strings.HasPrefix(t, "-") || strings.ContainsAny(t, "= \t\n") {
			return nil, fmt.Errorf("%q is no target of make", t)
		}
	}
	if free, err := cache.FreeBytes(w.Dir); err == nil && free < 512<<20 {
		return nil, &cache.FullError{Path: w.cache.Root(), Err: unix.ENOSPC}
	}
	timeout := opt.Timeout
	if timeout == 0 {
		timeout = 3 * time.Hour
	}
	if err := w.guardDefault(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("make took longer than %v", timeout))
	defer cancel()
	sb, err := opt.sandbox(ctx)
	if err != nil {
		return nil, err
	}
	argv := w.makeArgv(tc, cfg, opt, targets...)

	if err := os.MkdirAll(filepath.Join(w.Dir, "logs"), 0o755); err != nil {
		return nil, explainFull(err, w.cache)
	}
	w.dropOldLogs()
	start := time.Now()
	rel := filepath.Join("logs", fmt.Sprintf("make-%d.log", start.UnixNano()))
	log, err := os.Create(filepath.Join(w.Dir, rel))
	if err != nil {
		return nil, explainFull(err, w.cache)
	}
	defer log.Close()
	w.state.Building, w.state.BuildStart, w.state.Log = true, start.UnixNano(), rel
	if err := w.save(); err != nil {
		return nil, err
	}
	stepsKey := cfg.Hash()[:16] + " " + strings.Join(targets, " ")
	expected := w.state.Steps[stepsKey]
	whole := len(w.led) == 0

	// make -> pipe -> log file and parser. The parser works on its own ledger,
	// so that what it has is valid however make ends.
	pr, pw := io.Pipe()
	parser := newLogParser(w.Src, w.led.clone())
	parsed := make(chan error, 1)
	go func() {
		br := bufio.NewReaderSize(pr, 64<<10)
		var err error
		for {
			var line string
			if line, err = readLine(br); err != nil {
				break
			}
			if _, err = io.WriteString(log, line+"\n"); err != nil {
				break
			}
			before := parser.steps
			parser.line(line)
			if parser.steps > before && opt.Progress != nil {
				opt.Progress(Progress{Steps: parser.steps, Expected: expected, Line: parser.step + " " + parser.current})
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err != nil {
			cancel()
		}
		pr.CloseWithError(err)
		parsed <- err
	}()
	res, merr := w.make(ctx, sb, tc, argv, pw)
	pw.Close()
	perr := <-parsed
	elapsed := time.Since(start)

	logPath := filepath.Join(w.Dir, rel)
	said := tail(logPath)
	clean := merr == nil || res.Exit > 0 && res.Exit < 128 && res.Signal == 0 && ctx.Err() == nil && !reKilled.MatchString(said)
	w.led = parser.led
	if !clean {
		// Some objects may be half-written or their words lost.
		if err := w.repair(); err != nil {
			return nil, err
		}
	}
	w.finish()
	if perr != nil {
		return nil, explainFull(&InfraError{What: "the build log cannot be written", Log: logPath, Err: perr}, w.cache)
	}
	all := w.led.clone() // with what failed objects said
	w.prune()
	if err := w.led.write(filepath.Join(w.Dir, "ledger.json")); err != nil {
		return nil, explainFull(err, w.cache)
	}
	if merr == nil && whole {
		w.state.Steps[stepsKey] = parser.steps
	}
	w.state.Building = false
	if err := w.save(); err != nil {
		return nil, err
	}
	if merr != nil {
		parser.led = all
		err := w.makeFailed(ctx, merr, said, logPath, parser, "make")
		var be *BuildError
		if errors.As(err, &be) {
			be.Elapsed = elapsed
		}
		return nil, err
	}
	out := &BuildResult{Argv: argv, Objects: parser.objects, Steps: parser.steps, Elapsed: elapsed, Log: logPath, Sandbox: sb, Ledger: w.led.clone(), Toolchain: *tc}
	if b, err := w.readObj("include/config/kernel.release", 1<<10); err == nil {
		out.Release = strings.TrimSpace(string(b))
	}
	return out, nil
}

// finish notes the end of a make by the highest clock seen.
func (w *Workspace) finish() {
	if now := time.Now().UnixNano(); now > w.state.BuildEnd {
		w.state.BuildEnd = now
	}
	w.tellEnd()
}

func (w *Workspace) dropOldLogs() {
	logs, _ := filepath.Glob(filepath.Join(w.Dir, "logs", "make-*.log"))
	sort.Strings(logs)
	for len(logs) > 10 {
		os.Remove(logs[0])
		logs = logs[1:]
	}
}

// tail reads the end of a log.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const keep = 1 << 20
	if fi, err := f.Stat(); err == nil && fi.Size() > keep {
		f.Seek(-keep, io.SeekEnd)
	}
	b, _ := io.ReadAll(f)
	return string(b)
}

var (
	// gcc's driver and make each have their words for a program that was killed.
	reKilled   = regexp.MustCompile(`(?m)(?:fatal error: Killed signal terminated program|[Kk]illed \(program \w+\)|internal compiler error: Killed|^Killed$|\bKilled\b.*(?:gcc|cc1|ld|clang|objtool)|\] Killed$|unable to execute command: Killed|collect2: fatal error: ld terminated with signal 9|Error 137$|virtual memory exhausted|out of memory allocating|Cannot allocate memory)`)
	reNoSpace  = regexp.MustCompile(`No space left on device|Disk quota exceeded`)
	reNoTool   = regexp.MustCompile(`(?m)^.*?(?:/bin/sh: (?:\d+: )?(\S+): not found|make(?:\[\d+\])?: (\S+): No such file or directory)$`)
	reRealErr  = regexp.MustCompile(`(?:^|: )(?:fatal )?error(?:\[\w+\])?: |^error: |: undefined reference to|multiple definition of|^ERROR: modpost|: Error: |\*\*\* No rule to make target|: \*\*\* missing separator|: \*\*\* recipe commences|Unmet dependencies|: syntax error|: multiple definition`)
	reInclude  = regexp.MustCompile(`^In file included from|^\s+from `)
	maxErrShow = 12
)

// makeFailed turns a failed make into a typed error.
func (w *Workspace) makeFailed(ctx context.Context, err error, out, logPath string, p *logParser, what string) error {
	out = strings.ReplaceAll(out, w.Src+"/", "")
	var pe *proc.Error
	errors.As(err, &pe)
	var le *LimitError
	switch {
	case errors.As(err, &le) && le.Host:
		return &InfraError{What: fmt.Sprintf("%s was ended because it %s; give it more room, or fewer --jobs", what, le.What), Log: logPath}
	case errors.As(err, &le):
		// No honest build comes near the limits.
		be := &BuildError{Log: logPath, Lines: []string{fmt.Sprintf("%s was ended because it %s, which no build of a kernel does", what, le.What)}}
		if p != nil {
			be.Objects, be.Ledger = p.objects, p.led.clone()
		}
		return be
	case ctx.Err() != nil:
		return &InfraError{What: what + " was interrupted", Log: logPath, Err: context.Cause(ctx)}
	case reNoSpace.MatchString(out):
		return &cache.FullError{Path: w.cache.Root(), Err: unix.ENOSPC}
	case pe != nil && pe.Exit < 0:
		return &ToolError{Tool: "make", Package: "make", Err: pe.Err}
	case reKilled.MatchString(out):
		m := reKilled.FindString(out)
		return &InfraError{What: fmt.Sprintf("a program of the build was killed or had no memory (%q); this host has too little memory for so many jobs at once, try fewer with --jobs", strings.TrimSpace(m)), Log: logPath}
	case pe != nil && (pe.Signal != 0 || pe.Exit > 128):
		return &InfraError{What: what + " was killed", Log: logPath, Err: err}
	}
	if m := reNoTool.FindStringSubmatch(out); m != nil {
		tool := m[1] + m[2]
		if lookTool(tool) == "" {
			return &ToolError{Tool: tool}
		}
	}
	be := &BuildError{Log: logPath, Lines: errorLines(out)}
	if p != nil {
		be.Targets, be.Objects, be.Ledger = p.failed, p.objects, p.led.clone()
	}
	if len(be.Lines) == 0 {
		be.Lines = lastLines(out, maxErrShow)
	}
	return be
}

// errorLines picks the first lines that say what is wrong, with the include
// chain above and the source excerpt below the first of them.
func errorLines(out string) []string {
	lines := strings.Split(out, "\n")
	var pick []string
	for i, l := range lines {
		if !reRealErr.MatchString(l) {
			continue
		}
		if len(pick) == 0 {
			from := i
			for from > 0 && reInclude.MatchString(lines[from-1]) {
				from--
			}
			pick = append(pick, lines[from:i]...)
		}
		pick = append(pick, l)
		for j := i + 1; j < len(lines) && j <= i+2 && strings.HasPrefix(lines[j], " ") && !reStep.MatchString(lines[j]); j++ {
			pick = append(pick, lines[j])
		}
		if len(pick) >= maxErrShow {
			break
		}
	}
	return pick
}

func lastLines(s string, n int) []string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[max(0, len(lines)-n):]
}

// repair makes the object folder trustworthy after a make that did not end by
// itself: it was killed with us, or interrupted. An object counts only when
// its command file is no older than it, as kbuild writes that last, and when
// make printed its step and went on, as its diagnostics would be lost else. All
// others that this make wrote are removed and will be made again.
func (w *Workspace) repair() error {
	if !w.state.Building {
		return nil
	}
	printed := map[string]bool{}
	led := w.led
	if f, err := os.Open(filepath.Join(w.Dir, w.state.Log)); err == nil {
		p, err := parseLog(f, w.Src, led)
		f.Close()
		if err != nil {
			return err
		}
		printed = p.seen
		// What make printed last may have been cut off behind its first line, or
		// be still in the pipe: only what is followed by more is there in whole.
		delete(printed, p.current)
		if p.step == "CHECK" { // of the source, after the object's own step
			delete(printed, strings.TrimSuffix(p.current, path.Ext(p.current))+".o")
		}
	}
	// Nothing of that make may still be writing.
	if err := unix.Flock(int(w.busy.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("cannot lock the workspace: %w", err)
	}
	defer unix.Flock(int(w.busy.Fd()), unix.LOCK_UN)
	// One second of slack for file systems with coarse times; what is removed
	// in vain is compiled again, no more.
	since := time.Unix(0, w.state.BuildStart).Add(-time.Second)
	err := filepath.WalkDir(w.Obj, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name := d.Name()
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".cmd") {
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return nil // gone meanwhile
		}
		if fi.ModTime().Before(since) {
			return nil
		}
		cmd := filepath.Join(filepath.Dir(p), "."+name+".cmd")
		ci, cerr := os.Lstat(cmd)
		rel, _ := filepath.Rel(w.Obj, p)
		bad := false
		switch {
		case strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".d"):
			bad = true // a compile that did not finish
		case cerr == nil && ci.ModTime().Before(fi.ModTime()):
			bad = true
		case strings.HasSuffix(name, ".o") && fi.Size() == 0:
			bad = true
		case strings.HasSuffix(name, ".o") && !printed[filepath.ToSlash(rel)] && !strings.HasPrefix(rel, "tools/"):
			// Programs below tools/ are made without a word.
			bad = true
		}
		if bad {
			os.Remove(p)
			os.Remove(cmd)
			delete(led, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.prune()
	w.finish()
	if err := w.led.write(filepath.Join(w.Dir, "ledger.json")); err != nil {
		return err
	}
	w.state.Building = false
	return w.save()
}
