// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"patchcheck/internal/cache"
)

// Ledger maps an object file, as make names it ("net/sunrpc/svc.o"), to the
// diagnostics of its latest compile: the lines make printed for it, source
// paths relative to the tree's top. An object that compiled without a word has
// an empty entry. A ledger always describes the whole object folder, so two of
// them can be compared even though each build compiles only a few objects.
type Ledger map[string][]string

func readLedger(path string) (Ledger, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l := Ledger{}
	return l, json.Unmarshal(b, &l)
}

func (l Ledger) write(path string) error {
	b, err := json.MarshalIndent(l, "", " ")
	if err != nil {
		return err
	}
	return cache.WriteFile(path, append(b, '\n'), 0o644)
}

// Text renders the ledger as the log of one build of everything, in a fixed
// order: what checks/warnings parses.
func (l Ledger) Text() string {
	objs := make([]string, 0, len(l))
	for o := range l {
		objs = append(objs, o)
	}
	sort.Strings(objs)
	var b strings.Builder
	for _, o := range objs {
		step := "LD"
		switch path.Ext(o) {
		case ".o":
			step = "CC"
		case ".c":
			step = "CHECK"
		}
		fmt.Fprintf(&b, "  %-7s %s\n", step, o)
		for _, s := range l[o] {
			b.WriteString(s + "\n")
		}
	}
	return b.String()
}

func (l Ledger) clone() Ledger {
	c := make(Ledger, len(l))
	for k, v := range l {
		c[k] = v
	}
	return c
}

// reStep is kbuild's quiet line: "  CC [M]  net/sunrpc/svc.o".
var reStep = regexp.MustCompile(`^  ([A-Z][A-Z0-9_]*)(?: \[[A-Z]+\])? +(\S+)(?: .*)?$`)

// logParser follows make's output. With --output-sync=target the lines of one
// target come together and begin with its step line.
type logParser struct {
	src     string // prefix to cut off paths
	steps   int
	objects []string        // compiled, in order
	seen    map[string]bool // every target whose step was printed
	led     Ledger
	loose   []string // lines that belong to no step: make's own words
	current string
	step    string // "CC", "LD"
	failed  []string
}

func newLogParser(src string, led Ledger) *logParser {
	return &logParser{src: src + "/", seen: map[string]bool{}, led: led}
}

var (
	reMakeLine   = regexp.MustCompile(`^(?:[a-z0-9_/.-]*make)(?:\[\d+\])?: `)
	reMakeFailed = regexp.MustCompile(`^[a-z0-9_/.-]*make(?:\[\d+\])?: \*\*\* \[[^\]]*?:? ?(?:[^ \]]+: )?([^ \]]+)\] (?:Error \d+|[A-Z].*)`)
)

// compiles tells the steps whose target is an object with diagnostics.
func compiles(step string) bool {
	switch step {
	case "CC", "AS", "HOSTCC", "HOSTCXX", "CHECK", "CPP", "RUSTC":
		return true
	}
	return false
}

func (p *logParser) line(s string) {
	s = strings.ReplaceAll(s, p.src, "")
	if m := reStep.FindStringSubmatch(s); m != nil {
		p.steps++
		p.step, p.current = m[1], m[2]
		known := p.seen[p.current]
		p.seen[p.current] = true
		switch {
		case !compiles(p.step):
			// LD, MODPOST, OBJCOPY: an entry only when they say something.
			delete(p.led, p.current)
		case strings.HasPrefix(p.step, "HOST"):
			delete(p.led, p.current)
		default:
			p.led[p.current] = []string{}
			// The symbol tables of the link are no objects of the source.
			if p.step != "CHECK" && !known && !strings.HasPrefix(p.current, ".tmp_") {
				p.objects = append(p.objects, p.current)
			}
		}
		return
	}
	if reMakeLine.MatchString(s) {
		p.loose = append(p.loose, s)
		p.current = ""
		if m := reMakeFailed.FindStringSubmatch(s); m != nil {
			p.failed = append(p.failed, m[1])
		}
		return
	}
	if strings.TrimSpace(s) == "" || strings.HasPrefix(s, "Kernel: ") && strings.Contains(s, " is ready ") {
		return // the last line of a good build is no diagnostic
	}
	if p.current == "" {
		p.loose = append(p.loose, s)
		return
	}
	p.led[p.current] = append(p.led[p.current], s)
}

// parseLog reads a whole log into the ledger and returns the parser.
func parseLog(r io.Reader, src string, led Ledger) (*logParser, error) {
	p := newLogParser(src, led)
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(br)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return p, nil
			}
			return p, err
		}
		p.line(line)
	}
}

const maxLine = 64 << 10

// readLine returns a line without its end; what goes beyond maxLine is cut off.
func readLine(br *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, more, err := br.ReadLine()
		if len(line) < maxLine {
			line = append(line, part[:min(len(part), maxLine-len(line))]...)
		}
		if err != nil {
			if len(line) > 0 && errors.Is(err, io.EOF) {
				return string(line), nil
			}
			return "", err
		}
		if !more {
			return string(line), nil
		}
	}
}

// prune drops objects that are no more, and those whose source is no more: make
// leaves their files behind, and their old diagnostics would count. The names
// are what make printed, so no link is followed out of the folders.
func (w *Workspace) prune() {
	obj, err := os.OpenRoot(w.Obj)
	if err != nil {
		clear(w.led)
		return
	}
	defer obj.Close()
	src, err := os.OpenRoot(w.Src)
	if err != nil {
		return
	}
	defer src.Close()
	there := func(dir *os.Root, rel string) bool {
		_, err := dir.Lstat(rel)
		return err == nil
	}
	for o := range w.led {
		if !filepath.IsLocal(o) {
			delete(w.led, o)
			continue
		}
		stem, ok := strings.CutSuffix(o, ".o")
		if !ok {
			continue
		}
		if !there(obj, o) {
			delete(w.led, o)
			continue
		}
		if there(src, stem+".c") || there(src, stem+".S") || there(obj, stem+".c") || there(obj, stem+".S") || there(src, w.sourceOf(o)) {
			continue
		}
		delete(w.led, o)
		obj.Remove(o)
		obj.Remove(path.Join(path.Dir(o), "."+path.Base(o)+".cmd"))
	}
}

// sourceOf reads an object's source, relative to the tree, from its command
// file: "source_net/sunrpc/svc.o := /path/net/sunrpc/svc.c". A source that
// kbuild does not name counts as the tree's Makefile, which is always there.
func (w *Workspace) sourceOf(obj string) string {
	b, err := w.readObj(path.Join(path.Dir(obj), "."+path.Base(obj)+".cmd"), 4<<20)
	if err != nil {
		return "Makefile"
	}
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "source_"+obj+" := "); ok {
			if rel, ok := strings.CutPrefix(rest, w.Src+"/"); ok && filepath.IsLocal(rel) {
				return rel
			}
			return "Makefile"
		}
	}
	return "Makefile"
}
