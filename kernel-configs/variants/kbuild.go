// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// makefile is what a folder's Makefile or Kbuild says about its objects.
type makefile struct {
	rules   []rule
	symbols []string // CONFIG_ symbols in it, without the prefix, in order of use
}

// rule is one "list-cond += items" line.
type rule struct {
	list  string   // "obj", "lib", or the composite object: "nfsd" of nfsd-y
	gate  string   // symbol in list-$(CONFIG_X), "" for list-y and list-objs
	conds []cond   // ifdef and ifeq around it
	items []string // "vfs.o", "filelayout/"
}

// cond is a condition on one symbol.
type cond struct {
	symbol string
	set    bool // the symbol has to be y or m
}

var (
	reRule   = regexp.MustCompile(`^([\w.-]+)-(y|m|objs|\$\(CONFIG_(\w+)\)|\$\(subst m,y,\$\(CONFIG_(\w+)\)\))[ \t]*[:+?]?=[ \t]*(.*)$`)
	reIfdef  = regexp.MustCompile(`^(ifdef|ifndef)[ \t]+CONFIG_(\w+)`)
	reIfeq   = regexp.MustCompile(`^(ifeq|ifneq)[ \t]*\([ \t]*\$\(CONFIG_(\w+)\)[ \t]*,[ \t]*([ymn]?)[ \t]*\)`)
	reMakSym = regexp.MustCompile(`\bCONFIG_(\w+)`)
)

// parseMakefile reads the rules that matter. What it does not understand
// (functions, computed names) gives no rule, and the objects concerned count
// as unknown.
func parseMakefile(text string) *makefile {
	m := &makefile{}
	for _, s := range reMakSym.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(m.symbols, s[1]) {
			m.symbols = append(m.symbols, s[1])
		}
	}
	text = strings.ReplaceAll(text, "\\\n", " ")
	var conds []cond
	for _, l := range strings.Split(text, "\n") {
		l, _, _ = strings.Cut(l, "#")
		l = strings.TrimSpace(l)
		switch {
		case strings.HasPrefix(l, "if"):
			c := cond{set: true} // a condition on something else holds, as far as is known
			if g := reIfdef.FindStringSubmatch(l); g != nil {
				c = cond{g[2], g[1] == "ifdef"}
			} else if g := reIfeq.FindStringSubmatch(l); g != nil {
				c = cond{g[2], (g[1] == "ifeq") == (g[3] == "y" || g[3] == "m")}
			}
			conds = append(conds, c)
		case strings.HasPrefix(l, "else"):
			if n := len(conds); n > 0 && conds[n-1].symbol != "" {
				conds[n-1].set = !conds[n-1].set
			}
		case l == "endif":
			if len(conds) > 0 {
				conds = conds[:len(conds)-1]
			}
		default:
			g := reRule.FindStringSubmatch(l)
			if g == nil {
				continue
			}
			r := rule{list: g[1], gate: g[3] + g[4], conds: slices.Clone(conds)}
			for _, it := range strings.Fields(g[5]) {
				if (strings.HasSuffix(it, ".o") || strings.HasSuffix(it, "/")) && !strings.Contains(it, "$") {
					r.items = append(r.items, it)
				}
			}
			m.rules = append(m.rules, r)
		}
	}
	return m
}

// answer of a question about the configuration.
type answer int

const (
	dontKnow answer = iota
	built
	notBuilt
)

// built tells whether the folder compiles item ("vfs.o" or "filelayout/")
// under a configuration. config gives "y", "m" or "" for a symbol.
func (m *makefile) built(item string, config func(symbol string) string) answer {
	return m.walk(item, config, 0)
}

func (m *makefile) walk(item string, config func(string) string, depth int) answer {
	if depth > 8 {
		return dontKnow
	}
	ans := dontKnow
	for _, r := range m.rules {
		if !slices.Contains(r.items, item) {
			continue
		}
		if ans == dontKnow {
			ans = notBuilt
		}
		if r.gate != "" && config(r.gate) == "" || slices.ContainsFunc(r.conds, func(c cond) bool { return c.symbol != "" && (config(c.symbol) != "") != c.set }) {
			continue
		}
		switch r.list {
		case "obj", "lib", "subdir":
			return built
		}
		// Part of a composite object, which has to be built itself.
		if w := m.walk(r.list+".o", config, depth+1); w != notBuilt {
			return w
		}
	}
	return ans
}

// gates lists the symbols that decide whether the folder compiles item.
func (m *makefile) gates(item string, depth int) []string {
	var out []string
	for _, r := range m.rules {
		if depth > 8 || !slices.Contains(r.items, item) {
			continue
		}
		if r.gate != "" {
			out = append(out, r.gate)
		}
		for _, c := range r.conds {
			if c.symbol != "" && c.set {
				out = append(out, c.symbol)
			}
		}
		if r.list != "obj" && r.list != "lib" && r.list != "subdir" {
			out = append(out, m.gates(r.list+".o", depth+1)...)
		}
	}
	return out
}

// kbuild reads the Makefiles of a tree.
type kbuild struct {
	tree fs.FS
	read map[string]*makefile
}

// folder gives the Makefile of dir, nil when there is none.
func (k *kbuild) folder(dir string) *makefile {
	if m, ok := k.read[dir]; ok {
		return m
	}
	var m *makefile
	for _, n := range []string{"Kbuild", "Makefile"} {
		if b, err := fs.ReadFile(k.tree, path.Join(dir, n)); err == nil {
			m = parseMakefile(string(b))
			break
		}
	}
	k.read[dir] = m
	return m
}

// Narrow turns the folders of a variant into single objects, given the
// finished configuration: config holds the values of .config by symbol,
// without CONFIG_, and only what is set. Folders are kept where the Makefile
// does not tell which objects it compiles. The result is empty when the
// configuration compiles none of the sources.
func Narrow(tree fs.FS, v Variant, config map[string]string) []string {
	if v.Modular {
		return v.Targets // modules are linked of whole folders
	}
	k := &kbuild{tree, map[string]*makefile{}}
	get := func(s string) string {
		if c := config[s]; c == "y" || c == "m" {
			return c
		}
		return ""
	}
	var out []string
	for _, src := range v.Sources {
		dir, obj := path.Dir(src), strings.TrimSuffix(path.Base(src), path.Ext(src))+".o"
		ans := dontKnow
		if m := k.folder(dir); m != nil {
			ans = m.built(obj, get)
		}
		for d := dir; ans == built && path.Dir(d) != "."; d = path.Dir(d) {
			if m := k.folder(path.Dir(d)); m != nil && m.built(path.Base(d)+"/", get) == notBuilt {
				ans = notBuilt
			}
		}
		switch ans {
		case built:
			out = append(out, path.Join(dir, obj))
		case dontKnow:
			out = append(out, dir+"/")
		}
	}
	return minimal(out)
}

// minimal sorts targets and drops those below a folder that is there as well.
func minimal(targets []string) []string {
	slices.Sort(targets)
	targets = slices.Compact(targets)
	return slices.DeleteFunc(targets, func(t string) bool {
		return slices.ContainsFunc(targets, func(f string) bool { return f != t && strings.HasSuffix(f, "/") && strings.HasPrefix(t, f) })
	})
}
