// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"path"
	"regexp"
	"strings"
)

// cleanPath gives a path relative to the source tree. Kernel logs name one
// file in several ways: fs//nfs/dir.c, fs/nfs/./trace.h, ../fs/nfs/dir.c of an
// O= build, and an absolute path. Roots are the folders to cut off, longest
// first.
func cleanPath(p string, roots []string) string {
	if p == "" || p[0] == '<' || p[0] == '{' {
		return p
	}
	if strings.HasPrefix(p, "/tmp/") && reTmp.MatchString(p) {
		return "/tmp/N" // the compiler's own assembler file
	}
	for _, r := range roots {
		if rest, ok := strings.CutPrefix(p, r); ok && rest != "" && rest[0] == '/' {
			p = strings.TrimLeft(rest, "/")
			break
		}
	}
	if strings.Contains(p, "//") || strings.Contains(p, "./") {
		p = path.Clean(p)
		for strings.HasPrefix(p, "../") {
			p = p[3:]
		}
	}
	return p
}

// topFolders are the first path components of a kernel source file.
var topFolders = map[string]bool{
	"arch": true, "block": true, "certs": true, "crypto": true, "Documentation": true, "drivers": true,
	"fs": true, "include": true, "init": true, "io_uring": true, "ipc": true, "kernel": true, "lib": true,
	"mm": true, "net": true, "rust": true, "samples": true, "scripts": true, "security": true, "sound": true,
	"tools": true, "usr": true, "virt": true,
}

// guessRoots finds the source folder that the absolute paths of a log share:
// the prefix that leaves a kernel path behind for most of them. A shorter
// prefix wins a tie, since include/net/sock.h also ends in net/sock.h.
func guessRoots(paths map[string]int) []string {
	votes := map[string]int{}
	for p, n := range paths {
		for i := 1; i < len(p); i++ {
			if p[i] != '/' {
				continue
			}
			j := strings.IndexByte(p[i+1:], '/')
			if j < 0 {
				break
			}
			if topFolders[p[i+1:i+1+j]] && !systemFolder(p[:i]) {
				votes[p[:i]] += n
			}
		}
	}
	best := ""
	for r, n := range votes {
		if best == "" || n > votes[best] || n == votes[best] && (len(r) < len(best) || len(r) == len(best) && r < best) {
			best = r
		}
	}
	if best == "" {
		return nil
	}
	return []string{best}
}

// systemFolder keeps /home/net/... and /usr/lib/... from being taken for
// folders of a kernel tree.
func systemFolder(p string) bool {
	switch p {
	case "/home", "/usr", "/tmp", "/root", "/var", "/opt", "/mnt", "/srv", "/build", "/usr/local":
		return true
	}
	return strings.HasPrefix(p, "/usr/lib")
}

var (
	reFlag       = regexp.MustCompile(`\s*\[(-W[^\]\s]*|-f[a-z-]+|enabled by default|as requested by -W[^\]]*)\]$`)
	reDidYouMean = regexp.MustCompile(`[;,] did you mean '[^']*'\?|; did you mean to use '[^']*'\?`)
	rePlace      = regexp.MustCompile(`([\w.+-]*[/.][\w./+-]*):\d+(?::\d+)?`)
	reAtLine     = regexp.MustCompile(`\b([Ll]ines?) \d+\b`)
	reOffset     = regexp.MustCompile(`\+0x[0-9a-fA-F]+(?:/0x[0-9a-fA-F]+)?`)
	reAddress    = regexp.MustCompile(`\b0x[0-9a-fA-F]{5,}\b`)
	reClone      = regexp.MustCompile(`\.(?:isra|constprop|part|cold|llvm|lto_priv|localalias|ipa_ra)(?:\.\d+)*\b`)
	reCounter    = regexp.MustCompile(`\b(__compiletime_assert_|__(?:UNIQUE_ID|ADDRESSABLE|_+UNIQUE_ID)_[A-Za-z_]*?_?|\.L|\.LC|__func__\.|__key\.|__already_done\.|__warned\.|_rs\.|descriptor\.)\d+\b`)
	reFrame      = regexp.MustCompile(`\b\d+\b`)
	reStack      = regexp.MustCompile(`([=+-])-?\d+`)
	reTmp        = regexp.MustCompile(`/tmp/cc\w{6}(?:\.\w+)?|/tmp/\w+-[0-9a-f]{6}\.\w+`)
	reInit       = regexp.MustCompile(`near initialization for '[^']*'`)
	reUnmet      = regexp.MustCompile(`^(?:\(.*\) selects |unmet direct dependencies detected for )(\w+)`)
)

// splitFlag separates the option in brackets at the end of a message. Of
// [-Werror=foo] and [-Werror,-Wfoo] it gives -Wfoo.
func splitFlag(msg string) (text, flag string) {
	if !strings.HasSuffix(msg, "]") {
		return msg, ""
	}
	m := reFlag.FindStringSubmatchIndex(msg)
	if m == nil {
		return msg, ""
	}
	flag = msg[m[2]:m[3]]
	if i := strings.LastIndexByte(flag, ','); i >= 0 {
		flag = flag[i+1:]
	}
	if rest, ok := strings.CutPrefix(flag, "-Werror="); ok {
		flag = "-W" + rest
	}
	if !strings.HasPrefix(flag, "-") {
		flag = ""
	}
	// "-Wfoo=2" and "-Wfoo=" are levels of one warning.
	if i := strings.IndexByte(flag, '='); i > 0 {
		flag = flag[:i]
	}
	return msg[:m[0]], flag
}

// normalText takes out of a message what changes when unrelated code does.
func normalText(s string) string {
	if strings.Contains(s, "did you mean") {
		s = reDidYouMean.ReplaceAllString(s, "")
	}
	if strings.IndexByte(s, ':') >= 0 {
		s = rePlace.ReplaceAllStringFunc(s, func(m string) string {
			p, _, _ := strings.Cut(m, ":")
			return baseOf(p) + ":N"
		})
	}
	if strings.Contains(s, "ine") {
		s = reAtLine.ReplaceAllString(s, "$1 N")
	}
	if strings.Contains(s, "0x") {
		s = reOffset.ReplaceAllString(s, "")
		s = reAddress.ReplaceAllString(s, "0xN")
	}
	if strings.IndexByte(s, '.') >= 0 {
		s = reClone.ReplaceAllString(s, "")
	}
	if strings.Contains(s, "__") || strings.IndexByte(s, '.') >= 0 {
		s = reCounter.ReplaceAllString(s, "${1}N")
	}
	if strings.Contains(s, "/tmp/") {
		s = reTmp.ReplaceAllString(s, "/tmp/N")
	}
	if strings.Contains(s, "near init") {
		s = reInit.ReplaceAllString(s, "near initialization")
	}
	return s
}

// normalMessage is normalText with what is known of the tool.
func normalMessage(d *Diagnostic) string {
	msg, _ := splitFlag(d.Message)
	switch {
	case d.Tool == Kconfig:
		// Who selects a symbol and what it lacks changes with every symbol
		// that comes or goes; that this symbol lacks something does not.
		if m := reUnmet.FindStringSubmatch(msg); m != nil {
			return "unmet direct dependencies of " + m[1]
		}
	case d.Tool == Sparse && len(d.Notes) > 0:
		// "incorrect type in assignment" says which only below.
		for i := range d.Notes {
			msg += "; " + d.Notes[i].Message
		}
	case d.Tool == Objtool:
		return reStack.ReplaceAllString(normalText(msg), "${1}N")
	case strings.HasPrefix(d.Flag, "-Wframe-larger-than"), strings.HasPrefix(d.Flag, "-Wstack-usage"):
		return reFrame.ReplaceAllString(msg, "N")
	}
	return normalText(msg)
}

func baseOf(p string) string {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[i+1:]
	}
	return p
}

// normalFunction takes the suffixes off that the compiler gives to clones of a
// function.
func normalFunction(f string) string {
	f = strings.TrimSuffix(f, "()")
	if strings.IndexByte(f, '.') >= 0 {
		f = reClone.ReplaceAllString(f, "")
	}
	return f
}
