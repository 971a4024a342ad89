// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/patches/diff"
)

// Modes of git that matter here.
const (
	modeFile    = 0o100644
	modeExec    = 0o100755
	modeSymlink = 0o120000
)

var (
	leftover = regexp.MustCompile(`(?:\.(?:orig|rej|o|ko|a|mod|mod\.c|swp|swo|cmd|bak|pyc|su|gcno|gcda|dtb|dtbo)|~)$|(?:^|/)(?:\.config(?:\.old)?|vmlinux(?:\.o)?|bzImage|System\.map|Module\.symvers|modules\.order|tags|TAGS|cscope\.\w+|compile_commands\.json|\.DS_Store|core|nohup\.out)$|(?:^|/)\d{4}-[^/]*\.patch$`)
	script   = regexp.MustCompile(`\.(?:sh|py|pl|awk|rb|tcl|bash|rsh|exp|bt|cocci|lua|t)$`)
)

// tabbed says that the kernel indents such a file by tabs.
func tabbed(name string) bool {
	switch path.Ext(name) {
	case ".c", ".h", ".S", ".dts", ".dtsi", ".lds":
		return true
	}
	b := path.Base(name)
	return b == "Makefile" || strings.HasPrefix(b, "Kconfig")
}

// prose says that blanks at the end of a line may have a meaning there, or
// that the file is a test's data.
func prose(name string) bool {
	switch path.Ext(name) {
	case ".md", ".patch", ".diff", ".svg", ".txt", ".out", ".expected", ".json", ".csv", ".ps", ".hex", ".ihex", ".log":
		return true
	}
	return strings.Contains(name, "/test-data/")
}

// diffText applies the rules about the text of the diff.
func (l *linter) diffText() {
	p := l.p
	l.unreadable()
	l.tabsLost()
	if m := p.Mail; m != nil && m.Facts.CRLF && len(m.Header) == 0 && len(p.Files) > 0 {
		l.add("diff.crlf", nil, "all lines of the file end in a carriage return and a newline; in a mail that is usual, in a patch file git apply takes it for content")
	}
	for _, f := range p.Files {
		name := f.Path()
		w := checks.Where{File: name}
		switch {
		case f.NewMode == modeSymlink && f.OldMode != modeSymlink:
			l.at("diff.symlink", w, nil, "%s becomes a symbolic link", name)
		case f.NewMode == modeExec && !script.MatchString(name) && path.Ext(name) != "" && (f.IsNew || f.OldMode == modeFile):
			l.at("diff.mode", w, nil, "%s becomes executable (mode %o)", name, f.NewMode)
		case !f.IsNew && !f.IsDelete && f.OldMode != 0 && f.NewMode != 0 && f.OldMode != f.NewMode && f.NewMode != modeFile && !script.MatchString(name):
			l.at("diff.mode", w, nil, "the mode of %s changes from %o to %o", name, f.OldMode, f.NewMode)
		}
		if f.IsNew && leftover.MatchString(name) {
			l.at("diff.leftover-file", w, nil, "%s does not belong into a patch", name)
		}
		if f.IsBinary && !f.IsDelete {
			l.at("diff.binary", w, nil, "%s is binary, so nobody can review it in a mail", name)
		}
		l.addedLines(f)
	}
	l.foreign()
}

// unreadable says more of a diff that could not be read than that it is
// damaged.
func (l *linter) unreadable() {
	p := l.p
	for _, f := range p.Files {
		for _, name := range []string{f.Old, f.New} {
			if name == "" {
				continue
			}
			if err := diff.CheckPath(name); err != nil {
				l.at("diff.unsafe-path", checks.Where{File: name}, []string{name}, "%v", err)
				return
			}
		}
	}
	if !l.damaged(p.Index) {
		return
	}
	if i := bytes.Index(p.Diff, []byte("diff --cc ")); i == 0 || i > 0 && p.Diff[i-1] == '\n' || bytes.HasPrefix(p.Diff, []byte("diff --combined ")) {
		l.add("diff.merge", nil, "the patch is a merge; git apply does not take it")
		l.drop("patch.", p.Index)
		return
	}
	_, err := diff.Parse(p.Diff)
	var pe *diff.ParseError
	if !errors.As(err, &pe) {
		return
	}
	switch pe.Class {
	case diff.UnsafePath:
		l.at("diff.unsafe-path", checks.Where{File: pe.File}, nil, "%s", pe.Reason)
		l.drop("patch.", p.Index)
	case diff.WhitespaceDamage, diff.Corrupt:
		// Reading ends where the diff breaks, so the other half is behind it.
		if ev := wrapped(append(bytes.Clone(p.Diff), p.Tail...)); len(ev) > 0 {
			l.add("diff.wrapped", ev, "%s of the diff broken in two%s", plural(len(ev)/2, "line"), l.mailer())
		}
	}
}

// drop takes back findings that a better one replaces.
func (l *linter) drop(prefix string, patch int) {
	l.out = slices.DeleteFunc(l.out, func(f checks.Finding) bool { return f.Where.Patch == patch && strings.HasPrefix(f.ID, prefix) })
}

// mailer names the program that sent the mail, for the "how it happened".
func (l *linter) mailer() string {
	m := l.p.Mail
	if m == nil {
		return ""
	}
	var how []string
	for _, h := range []string{"User-Agent", "X-Mailer"} {
		if v := m.Header.Get(h); v != "" {
			how = append(how, "sent with "+v)
			break
		}
	}
	switch {
	case m.Facts.Flowed:
		how = append(how, "format=flowed")
	case m.Facts.HTML:
		how = append(how, "with an HTML part")
	}
	if len(how) == 0 {
		return ""
	}
	return " (" + strings.Join(how, ", ") + ")"
}

// wrapped finds pairs of lines that were one: the second begins with none of
// the marks of a hunk line, and the first is as wide as mail programs wrap.
func wrapped(d []byte) []string {
	var out []string
	inHunk := false
	prev := ""
	for _, t := range strings.Split(string(d), "\n") {
		switch {
		case strings.HasPrefix(t, "@@ "):
			inHunk = true
		case strings.HasPrefix(t, "diff "), strings.HasPrefix(t, "index "), strings.HasPrefix(t, "-- "):
			inHunk = false
		case inHunk && t != "" && !strings.ContainsRune(" +-\\@", rune(t[0])) && len(prev) > 40 && strings.ContainsRune(" +-", rune(prev[0])):
			out = append(out, prev, t)
		}
		prev = t
	}
	return out
}

// tabsLost finds a diff of tab-indented files in which no line has a tab.
func (l *linter) tabsLost() {
	tabs, blanks, nbsp := 0, 0, 0
	var ev, evNBSP []string
	for _, f := range l.p.Files {
		if !tabbed(f.Path()) {
			continue
		}
		for _, h := range f.Hunks {
			for _, ln := range h.Lines {
				switch t := ln.Text; {
				case strings.HasPrefix(t, "\t"):
					tabs++
				case strings.HasPrefix(t, "        "):
					blanks++
					ev = append(ev, ln.String())
				}
				// Kernel code has none, but for a few in comments.
				if t := ln.Text; strings.Contains(t, "\u00a0") && !comment.MatchString(t) && !strings.Contains(t, "\"") && !strings.Contains(t, "/*") {
					nbsp++
					evNBSP = append(evNBSP, ln.String())
				}
			}
		}
	}
	if nbsp > 0 {
		l.add("diff.nbsp", evNBSP, "%s of the diff with non-breaking spaces (U+00A0) in place of blanks%s", plural(nbsp, "line"), l.mailer())
	}
	if tabs == 0 && blanks >= 2 {
		l.add("diff.tabs-lost", ev, "%s of the diff indented by blanks and none by a tab: the tabs were turned into blanks on the way%s", plural(blanks, "line"), l.mailer())
	}
}

// addedLines looks at each line that the patch adds to a file.
func (l *linter) addedLines(f *diff.File) {
	name := f.Path()
	contextCR := false
	type hit struct {
		n    int
		text string
	}
	var space, cr, noEOL, conflict []hit
	for _, h := range f.Hunks {
		n := h.NewStart
		for _, ln := range h.Lines {
			switch ln.Op {
			case diff.Context:
				contextCR = contextCR || strings.HasSuffix(ln.Text, "\r")
			case diff.Delete:
				contextCR = contextCR || strings.HasSuffix(ln.Text, "\r")
				continue
			case diff.Add:
				t := ln.Text
				if strings.HasSuffix(t, "\r") {
					cr = append(cr, hit{n, t})
					t = strings.TrimRight(t, "\r")
				}
				if t != "" && (t[len(t)-1] == ' ' || t[len(t)-1] == '\t') {
					space = append(space, hit{n, t})
				}
				if ln.NoEOL {
					noEOL = append(noEOL, hit{n, t})
				}
				if len(t) >= 7 && (strings.HasPrefix(t, "<<<<<<<") || strings.HasPrefix(t, ">>>>>>>") || strings.HasPrefix(t, "|||||||")) && (len(t) == 7 || t[7] == ' ') {
					conflict = append(conflict, hit{n, t})
				}
			}
			n++
		}
	}
	tell := func(id string, hs []hit, format string) {
		if len(hs) == 0 {
			return
		}
		var ev []string
		for _, h := range hs {
			ev = append(ev, fmt.Sprintf("%d: %s", h.n, h.text))
		}
		l.at(id, checks.Where{File: name, Line: hs[0].n}, ev, format, plural(len(hs), "added line"))
	}
	tell("diff.conflict-marker", conflict, "%s with a conflict marker")
	if !prose(name) && !f.IsBinary {
		tell("diff.trailing-space", space, "%s with blanks at the end")
	}
	m := l.p.Mail
	if !contextCR && (m == nil || !m.Facts.QuotedCRLF && !m.Facts.CRLF) && !prose(name) {
		tell("diff.added-cr", cr, "%s with a carriage return at the end")
	}
	if f.NewMode != modeSymlink && (tabbed(name) || path.Ext(name) == ".rst" || path.Ext(name) == ".yaml" || path.Ext(name) == ".rs") {
		tell("diff.no-newline", noEOL, "%s as the last one, without a newline")
	}
}

// topLevel are the folders and files at the top of the kernel tree.
var topLevel = strings.Fields("Documentation LICENSES arch block certs crypto drivers fs include init io_uring ipc kernel lib mm net rust samples scripts security sound tools usr virt firmware COPYING CREDITS Kbuild Kconfig MAINTAINERS Makefile README .clang-format .cocciconfig .editorconfig .get_maintainer.ignore .gitattributes .gitignore .mailmap .rustfmt.toml .clippy.toml .pylintrc .kunitconfig")

// foreign says once that the series is not made at the top of a kernel tree.
func (l *linter) foreign() {
	if l.p != l.s.Patches[0] || !l.on("diff.foreign-path") {
		return
	}
	paths := TouchedPaths(l.s)
	if len(paths) == 0 {
		return
	}
	for _, name := range paths {
		top, _, _ := strings.Cut(name, "/")
		if slices.Contains(topLevel, top) {
			return
		}
	}
	l.add("diff.foreign-path", paths, "no path of the series begins with a folder of the kernel tree: %s", paths[0])
}
