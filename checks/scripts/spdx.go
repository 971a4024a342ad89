// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"path"
	"regexp"
	"strings"

	"patchcheck/checks"
)

var (
	reSPDX    = regexp.MustCompile(`SPDX-License-Identifier:\s*(.*)$`)
	reSPDXOp  = regexp.MustCompile(`\(|\)|\b(?:AND|OR|WITH)\b`)
	reSPDXEnd = regexp.MustCompile(`\s*(?:\*/|-->|\*\)|"|#>)\s*$`)
)

// SPDX judges the license line of a new file, as scripts/spdxcheck.py and the
// document behind it want it. licensed tells whether the tree holds a license
// or exception of that identifier; nil: not known. binary files, and files that
// have no place for a comment, are not judged.
func SPDX(patch int, file string, content []byte, licensed func(id string) bool) []checks.Finding {
	style, must := spdxStyle(file)
	if !must || strings.IndexByte(string(content[:min(len(content), 8000)]), 0) >= 0 {
		return nil
	}
	lines := strings.SplitN(string(content), "\n", 5)
	at, line := -1, ""
	for i, l := range lines {
		if strings.Contains(l, "SPDX-License-Identifier:") {
			at, line = i, strings.TrimRight(l, "\r")
			break
		}
	}
	w := checks.Where{Patch: patch, File: file, Line: 1}
	if at < 0 || at == 4 {
		if len(strings.TrimSpace(string(content))) == 0 {
			return nil
		}
		return []checks.Finding{RuleSPDXMissing.New(w, "the new file %s has no SPDX-License-Identifier", file)}
	}
	w.Line = at + 1
	var out []checks.Finding
	script := strings.HasPrefix(lines[0], "#!")
	xml := strings.HasPrefix(lines[0], "<?xml")
	rest := at
	if script || xml || at > 0 && strings.HasPrefix(lines[0], "%YAML") {
		rest--
	}
	if at > 0 && rest >= 1 && path.Ext(file) != ".rst" {
		f := RuleSPDXStyle.New(w, "the SPDX line of %s is line %d; it belongs into the first", file, at+1)
		f.Evidence = []string{line}
		out = append(out, f)
	} else if style != "" && !strings.HasPrefix(strings.TrimSpace(line), style) {
		f := RuleSPDXStyle.New(w, "the SPDX line of %s begins with %q; this kind of file wants %q", file, first(line), style)
		f.Evidence = []string{line}
		out = append(out, f)
	}
	expr := ""
	if m := reSPDX.FindStringSubmatch(line); m != nil {
		expr = reSPDXEnd.ReplaceAllString(m[1], "")
	}
	ids := strings.Fields(reSPDXOp.ReplaceAllString(expr, " "))
	if len(ids) == 0 {
		return append(out, RuleSPDXMissing.New(w, "the SPDX line of %s names no license", file))
	}
	for _, id := range ids {
		if licensed != nil && !licensed(id) {
			f := RuleSPDXUnknown.New(w, "%s is under %q, which LICENSES/ does not hold", file, clip(id, 60))
			f.Evidence = []string{line}
			out = append(out, f)
		}
	}
	if strings.Contains("/"+file, "/include/uapi/") && strings.HasSuffix(file, ".h") && strings.Contains(expr, "GPL") && !strings.Contains(expr, "Linux-syscall-note") {
		f := RuleSPDXUAPI.New(w, "%s is for user space, and its license has no Linux-syscall-note", file)
		f.Evidence = []string{line}
		out = append(out, f)
	}
	return out
}

func first(line string) string {
	if f := strings.Fields(line); len(f) > 0 {
		return clip(f[0], 12)
	}
	return ""
}

// spdxStyle is the comment that the line begins with, "" for any, and whether
// a file of this name needs the line.
func spdxStyle(file string) (style string, must bool) {
	base := path.Base(file)
	switch {
	case strings.HasPrefix(file, "LICENSES/"), base == ".gitignore", base == "MAINTAINERS", base == "CREDITS", base == "README":
		return "", false
	case base == "Makefile", base == "Kbuild", strings.HasPrefix(base, "Kconfig"), strings.HasPrefix(base, "Makefile."):
		return "#", true
	}
	switch path.Ext(base) {
	case ".c", ".dts", ".dtsi", ".dtso":
		return "//", true
	case ".h", ".S", ".lds":
		return "/*", true
	case ".rst":
		return "..", true
	case ".py", ".sh", ".pl", ".yaml", ".yml", ".awk", ".mk", ".tc":
		return "#", true
	case ".rs":
		return "//", true
	}
	return "", false
}

// LicenseFiles lists where a tree may keep the license or exception of an
// identifier. A file that holds it has a line "Valid-License-Identifier: ID" or
// "SPDX-Exception-Identifier: ID".
func LicenseFiles(id string) []string {
	stem := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(id, "+"), "-only"), "-or-later")
	var out []string
	for _, n := range []string{stem, id} {
		if n == "" || strings.ContainsAny(n, "/\\ ") || strings.HasPrefix(n, ".") || len(out) > 0 && n == stem {
			continue
		}
		for _, d := range []string{"preferred", "dual", "deprecated", "exceptions"} {
			out = append(out, "LICENSES/"+d+"/"+n)
		}
	}
	return out
}

// HoldsLicense tells whether the text of a file of LICENSES/ is about id.
func HoldsLicense(text []byte, id string) bool {
	for l := range strings.Lines(string(text)) {
		k, v, ok := strings.Cut(l, ":")
		if ok && (k == "Valid-License-Identifier" || k == "SPDX-Exception-Identifier") && strings.TrimSpace(v) == id {
			return true
		}
	}
	return false
}
