// SPDX-License-Identifier: Apache-2.0

// Package config reads .patchcheck.yaml of a kernel tree and config.yaml of
// the user, and applies what they say about findings. It knows no rules: the
// caller says which ids exist.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/internal/strictyaml"
)

// TreeFile is the name of the configuration at the top of a kernel tree.
const TreeFile = ".patchcheck.yaml"

// Config is what the configuration files say together.
type Config struct {
	// Tree and Plan are used when the command line names none.
	Tree string `yaml:"tree"`
	Plan string `yaml:"plan"`
	// Trees gives names to tree specs, for --tree NAME.
	Trees map[string]string `yaml:"trees"`
	Lint  Lint              `yaml:"lint"`
	// History false keeps runs out of the history.
	History *bool `yaml:"history"`
	// Files are the configuration files that were read, the tree's first.
	Files []string `yaml:"-"`
}

// Lint is the part about findings.
type Lint struct {
	Strict   *bool             `yaml:"strict"`
	Profiles []string          `yaml:"profiles"` // instead of those that the paths choose; [none] for none
	Silence  []Silence         `yaml:"silence"`
	Severity map[string]string `yaml:"severity"` // by rule id or pattern: error, warning, note
}

// Silence takes findings out of reports. Empty lists mean everywhere.
type Silence struct {
	ID     string   `yaml:"id"`     // rule id, or a pattern: "checkpatch.*"
	Paths  []string `yaml:"paths"`  // of the tree: "drivers/staging/", "*.rst", "fs/**/trace.h"
	Trees  []string `yaml:"trees"`  // names or specs of trees
	Reason string   `yaml:"reason"` // for people
}

// Error is a configuration file that cannot be used. Its messages name line
// and column.
type Error struct {
	Name string
	Msgs []string
}

func (e *Error) Error() string {
	return fmt.Sprintf("configuration %s cannot be used:\n%s", e.Name, strings.Join(e.Msgs, "\n"))
}

// UserFile is the user's configuration file, whether it exists or not; "" when
// there is no home.
func UserFile() string {
	d := os.Getenv("XDG_CONFIG_HOME")
	if d == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		d = filepath.Join(home, ".config")
	}
	return filepath.Join(d, "patchcheck", "config.yaml")
}

// Load reads the configuration of the tree in the folder tree ("" for none)
// and that of the user. Absent files are no error. Single values of the tree
// win, lists and maps add up.
func Load(tree string) (*Config, error) {
	c := &Config{}
	var names []string
	if tree != "" {
		names = append(names, filepath.Join(tree, TreeFile))
	}
	if u := UserFile(); u != "" {
		names = append(names, u)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, &Error{name, []string{"  " + err.Error()}}
		}
		one, err := Parse(name, b)
		if err != nil {
			return nil, err
		}
		c.merge(one)
		c.Files = append(c.Files, name)
	}
	return c, nil
}

func (c *Config) merge(o *Config) {
	c.Tree, c.Plan = cmp.Or(c.Tree, o.Tree), cmp.Or(c.Plan, o.Plan)
	if c.History == nil {
		c.History = o.History
	}
	if c.Lint.Strict == nil {
		c.Lint.Strict = o.Lint.Strict
	}
	if c.Lint.Profiles == nil {
		c.Lint.Profiles = o.Lint.Profiles
	}
	c.Lint.Silence = append(c.Lint.Silence, o.Lint.Silence...)
	add := func(to *map[string]string, from map[string]string) {
		for k, v := range from {
			if *to == nil {
				*to = map[string]string{}
			}
			if _, ok := (*to)[k]; !ok {
				(*to)[k] = v
			}
		}
	}
	add(&c.Trees, o.Trees)
	add(&c.Lint.Severity, o.Lint.Severity)
}

// Parse reads one file; name is for messages.
func Parse(name string, b []byte) (*Config, error) {
	c := &Config{}
	if strings.TrimSpace(string(b)) == "" {
		return c, nil
	}
	if err := strictyaml.Unmarshal(b, c); err != nil {
		return nil, &Error{name, []string{err.Error()}}
	}
	var msgs []string
	bad := func(at, format string, args ...any) { msgs = append(msgs, strictyaml.At(b, at, format, args...)) }
	for i, s := range c.Lint.Silence {
		at := fmt.Sprintf("$.lint.silence[%d]", i)
		if s.ID == "" {
			bad(at, "a silence entry needs an id: that of a rule, or a pattern such as checkpatch.*")
		} else if _, err := path.Match(s.ID, ""); err != nil {
			bad(at+".id", "%q is no pattern: %v", s.ID, err)
		}
		for j, p := range s.Paths {
			if p == "" || strings.HasPrefix(p, "/") || strings.Contains(p, "..") {
				bad(fmt.Sprintf("%s.paths[%d]", at, j), "%q is no path within the tree", p)
			} else if _, err := path.Match(strings.ReplaceAll(p, "**", "*"), ""); err != nil {
				bad(fmt.Sprintf("%s.paths[%d]", at, j), "%q is no pattern: %v", p, err)
			}
		}
	}
	for id, sev := range c.Lint.Severity {
		if !slices.Contains([]string{"error", "warning", "note"}, sev) {
			bad("$.lint.severity", "severity %q of %s is not known; allowed: error, warning, note", sev, id)
		}
	}
	for n, spec := range c.Trees {
		if spec == "" || strings.ContainsAny(n, "/ \t") {
			bad("$.trees", "tree %q needs a name without slashes or blanks, and a spec", n)
		}
	}
	if len(msgs) > 0 {
		slices.Sort(msgs)
		return nil, &Error{name, msgs}
	}
	return c, nil
}

// Validate refuses rule ids that no rule has, and profiles that do not exist:
// a misspelt silence would silence nothing.
func (c *Config) Validate(known func(id string) bool, profiles []string) error {
	name := strings.Join(c.Files, ", ")
	var msgs []string
	check := func(id string) {
		if !strings.ContainsAny(id, "*?[") && !known(id) {
			msgs = append(msgs, fmt.Sprintf("  no rule has the id %q (patchcheck explain lists them)", id))
		}
	}
	for _, s := range c.Lint.Silence {
		check(s.ID)
	}
	for id := range c.Lint.Severity {
		check(id)
	}
	for _, p := range c.Lint.Profiles {
		if p != "none" && !slices.Contains(profiles, p) {
			msgs = append(msgs, fmt.Sprintf("  no profile is named %q; there are: %s", p, strings.Join(profiles, ", ")))
		}
	}
	if len(msgs) > 0 {
		slices.Sort(msgs)
		return &Error{name, msgs}
	}
	return nil
}

// Apply sets severities and takes out what is silenced. trees are the names
// by which the tree is known; touched gives the paths of a patch (0: of the
// series), for findings that name no file: they are silenced when every path
// is.
func (c *Config) Apply(fs []checks.Finding, trees []string, touched func(patch int) []string) (kept, silenced []checks.Finding) {
	for _, f := range fs {
		for id, sev := range c.Lint.Severity {
			if matchID(id, f.ID) {
				f.Severity = checks.Severity(sev)
			}
		}
		if sev, ok := c.Lint.Severity[f.ID]; ok { // the exact id beats patterns
			f.Severity = checks.Severity(sev)
		}
		if slices.ContainsFunc(c.Lint.Silence, func(s Silence) bool { return s.covers(f, trees, touched) }) {
			silenced = append(silenced, f)
			continue
		}
		kept = append(kept, f)
	}
	return kept, silenced
}

func matchID(pattern, id string) bool {
	ok, _ := path.Match(pattern, id)
	return ok
}

func (s Silence) covers(f checks.Finding, trees []string, touched func(int) []string) bool {
	if !matchID(s.ID, f.ID) {
		return false
	}
	if len(s.Trees) > 0 && !slices.ContainsFunc(s.Trees, func(t string) bool {
		return slices.ContainsFunc(trees, func(have string) bool { ok, _ := path.Match(t, have); return ok || t == have })
	}) {
		return false
	}
	if len(s.Paths) == 0 {
		return true
	}
	paths := []string{f.Where.File}
	if f.Where.File == "" {
		if touched == nil {
			return false
		}
		paths = touched(f.Where.Patch)
	}
	if len(paths) == 0 {
		return false
	}
	for _, p := range paths {
		if !slices.ContainsFunc(s.Paths, func(g string) bool { return matchPath(g, p) }) {
			return false
		}
	}
	return true
}

// matchPath matches a path against a pattern of the configuration: a folder
// ("fs/nfsd/"), a pattern without slash for the last element ("*.rst"), or a
// pattern for the whole path in which "**" stands for any number of folders.
func matchPath(pattern, name string) bool {
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(name, pattern)
	}
	if !strings.Contains(pattern, "/") {
		ok, _ := path.Match(pattern, path.Base(name))
		return ok
	}
	return matchParts(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

func matchParts(pattern, name []string) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == "**" {
		for i := range len(name) + 1 {
			if matchParts(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	if len(name) == 0 {
		return false
	}
	ok, _ := path.Match(pattern[0], name[0])
	return ok && matchParts(pattern[1:], name[1:])
}
