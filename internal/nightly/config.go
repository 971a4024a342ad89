// SPDX-License-Identifier: Apache-2.0

// Package nightly owns the job of a maintainer's night: which trees, series and
// plans there are, which of them have something new, in what order they are run
// within the time there is, what became of each, and what changed since last
// night. Building, running and judging are the business of internal/run; what
// was known before is that of internal/history.
package nightly

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"patchcheck/internal/strictyaml"
	"patchcheck/testplans"
)

// Config is a nightly configuration; docs/nightly.md is the manual.
type Config struct {
	File string `yaml:"-"`

	History string `yaml:"history"` // file; "" for the default
	Runs    string `yaml:"runs"`    // folder for run folders; "" for the default
	Cache   string `yaml:"cache"`   // folder; "" for the default

	Budget   Duration `yaml:"budget"`       // of a night; 0: none
	Deadline Duration `yaml:"job_deadline"` // of one job; default 4h
	Accel    string   `yaml:"accel"`        // auto, kvm, tcg
	Jobs     int      `yaml:"jobs"`         // of make; 0: the number of CPUs
	Culprit  *bool    `yaml:"culprit"`      // look for the patch that brought a failure; default true

	Quarantine string `yaml:"quarantine"` // file of flaky cells

	Disk    Disk    `yaml:"disk"`
	Publish Publish `yaml:"publish"`

	Trees  []Tree   `yaml:"trees"`
	Series []Series `yaml:"series"`
	Plans  []Plan   `yaml:"plans"`
}

// Disk bounds what nights leave behind.
type Disk struct {
	KeepDays  int            `yaml:"keep_days"`  // run folders of nights that are older go; default 60
	MaxRuns   testplans.Size `yaml:"max_runs"`   // then the oldest, until those left fit; 0: no bound
	CacheDays int            `yaml:"cache_days"` // cache entries not used for so long go; default 30, -1: never
	MinFree   testplans.Size `yaml:"min_free"`   // no job begins with less room; default 5 GiB
}

// Publish says where results go.
type Publish struct {
	Site    string   `yaml:"site"`    // folder for the pages
	GitHub  bool     `yaml:"github"`  // report on the pull requests that were tested
	Command []string `yaml:"command"` // run at the end of a night
}

// Tree is a kernel tree to test on.
type Tree struct {
	Name  string `yaml:"name"`
	From  string `yaml:"from"`  // tree spec: a folder, git+URL#branch, debian:..., a known name
	Base  string `yaml:"base"`  // revision; default the tip
	Alone string `yaml:"alone"` // test the tree itself too, judged like this kernel: patched or base
}

// Series is a source of series. Exactly one of From, Range and GitHub is set.
type Series struct {
	Name     string   `yaml:"name"`
	From     string   `yaml:"from"` // folder, mbox or mail
	Repo     string   `yaml:"repo"` // repository of Range
	Range    string   `yaml:"range"`
	GitHub   *GitHub  `yaml:"github"`
	Trees    []string `yaml:"trees"` // default: all
	Plans    []string `yaml:"plans"` // default: all
	Priority int      `yaml:"priority"`
}

// GitHub names pull requests: each open one with the label is a series.
type GitHub struct {
	Repo  string `yaml:"repo"` // OWNER/NAME
	Label string `yaml:"label"`
}

// Plan is a test plan and how it is used.
type Plan struct {
	Name      string   `yaml:"name"`
	Plan      string   `yaml:"plan"` // file or bundled plan; default Name
	Device    []string `yaml:"device"`
	NFS       []string `yaml:"nfs"`
	Debug     bool     `yaml:"debug"`
	Variants  bool     `yaml:"variants"`
	BuildOnly bool     `yaml:"build_only"`
	Repeat    int      `yaml:"repeat"`
	Priority  int      `yaml:"priority"`
}

// Duration is a length of time, written as 90m or 6h30m.
type Duration time.Duration

// UnmarshalYAML reads a duration.
func (d *Duration) UnmarshalYAML(node ast.Node) error {
	t := node.GetToken().Value
	v, err := time.ParseDuration(t)
	if err != nil || v < 0 {
		return &yaml.SyntaxError{Message: fmt.Sprintf("%q is no length of time: write 90m or 6h30m", t), Token: node.GetToken()}
	}
	*d = Duration(v)
	return nil
}

// ConfigError is a configuration that cannot be used.
type ConfigError struct {
	File string
	Msgs []string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("nightly configuration %s cannot be used:\n%s", e.File, strings.Join(e.Msgs, "\n"))
}

// LoadConfig reads a configuration. Paths in it are relative to its folder.
func LoadConfig(file string) (*Config, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, &ConfigError{file, []string{"  " + err.Error()}}
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	c, err := ParseConfig(abs, b)
	if err != nil {
		return nil, err
	}
	for _, p := range []*string{&c.History, &c.Runs, &c.Cache, &c.Quarantine, &c.Publish.Site} {
		*p = c.path(*p)
	}
	for i := range c.Trees {
		// A name of a tree, a package or an address is no path.
		if f := c.Trees[i].From; strings.ContainsRune(f, '/') && !strings.Contains(f, ":") {
			c.Trees[i].From = c.path(f)
		}
	}
	for i := range c.Series {
		c.Series[i].From, c.Series[i].Repo = c.path(c.Series[i].From), c.path(c.Series[i].Repo)
	}
	for i := range c.Plans {
		if p := c.Plans[i].Plan; strings.ContainsRune(p, '/') {
			c.Plans[i].Plan = c.path(p)
		}
	}
	return c, nil
}

func (c *Config) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return filepath.Join(filepath.Dir(c.File), p)
}

// ParseConfig reads the content of a configuration and fills in defaults.
func ParseConfig(name string, b []byte) (*Config, error) {
	c := &Config{File: name}
	if err := strictyaml.Unmarshal(b, c); err != nil {
		return nil, &ConfigError{name, []string{err.Error()}}
	}
	var msgs []string
	bad := func(at, format string, args ...any) { msgs = append(msgs, strictyaml.At(b, at, format, args...)) }
	names := func(key string, n int, get func(int) string) []string {
		var out []string
		for i := range n {
			at := fmt.Sprintf("$.%s[%d]", key, i)
			switch name := get(i); {
			case name == "":
				bad(at, "entry %d of %s has no name", i+1, key)
			case strings.ContainsAny(name, "\n\t") || len(name) > 80:
				bad(at+".name", "a name is one line of at most 80 characters")
			case slices.Contains(out, name):
				bad(at+".name", "two entries of %s are called %q", key, name)
			default:
				out = append(out, name)
			}
		}
		return out
	}
	trees := names("trees", len(c.Trees), func(i int) string { return c.Trees[i].Name })
	names("series", len(c.Series), func(i int) string { return c.Series[i].Name })
	plans := names("plans", len(c.Plans), func(i int) string { return c.Plans[i].Name })
	if len(c.Trees) == 0 || len(c.Plans) == 0 {
		msgs = append(msgs, "  a night needs trees and plans: name at least one of each")
	}
	alone := false
	for i, t := range c.Trees {
		at := fmt.Sprintf("$.trees[%d]", i)
		if t.From == "" {
			bad(at, "tree %q has no from: a folder, git+URL#branch, debian:linux-source-X.Y, or a known name", t.Name)
		}
		switch t.Alone {
		case "":
		case testplans.RolePatched, testplans.RoleBase:
			alone = true
		default:
			bad(at+".alone", "%q is no kernel's role: patched (the tree has the series already) or base", t.Alone)
		}
	}
	if len(c.Series) == 0 && !alone {
		msgs = append(msgs, "  there is nothing to test: name series, or give a tree \"alone: patched\"")
	}
	for i, s := range c.Series {
		at := fmt.Sprintf("$.series[%d]", i)
		n := 0
		for _, set := range []bool{s.From != "", s.Range != "", s.GitHub != nil} {
			if set {
				n++
			}
		}
		switch {
		case n != 1:
			bad(at, "series %q needs one source: from (folder, mbox), range with repo, or github", s.Name)
		case s.Range != "" && s.Repo == "":
			bad(at+".range", "a range needs its repository (repo)")
		case s.Range == "" && s.Repo != "":
			bad(at+".repo", "a repository needs a range")
		case s.Range != "" && (!strings.Contains(s.Range, "..") || strings.HasPrefix(s.Range, "-")):
			bad(at+".range", "%q is no range: write A..B", s.Range)
		case s.GitHub != nil && (strings.Count(s.GitHub.Repo, "/") != 1 || s.GitHub.Label == ""):
			bad(at+".github", "pull requests need repo (OWNER/NAME) and label")
		}
		for j, n := range s.Trees {
			if !slices.Contains(trees, n) {
				bad(fmt.Sprintf("%s.trees[%d]", at, j), "there is no tree %q; there are %s", n, strings.Join(trees, ", "))
			}
		}
		for j, n := range s.Plans {
			if !slices.Contains(plans, n) {
				bad(fmt.Sprintf("%s.plans[%d]", at, j), "there is no plan %q; there are %s", n, strings.Join(plans, ", "))
			}
		}
	}
	switch c.Accel {
	case "", "auto", "kvm", "tcg":
	default:
		bad("$.accel", "%q is none of auto, kvm, tcg", c.Accel)
	}
	for at, n := range map[string]int{"$.jobs": c.Jobs, "$.disk.keep_days": c.Disk.KeepDays} {
		if n < 0 {
			bad(at, "%d is below 0", n)
		}
	}
	if len(msgs) > 0 {
		slices.Sort(msgs)
		return nil, &ConfigError{name, msgs}
	}
	if c.Deadline == 0 {
		c.Deadline = Duration(4 * time.Hour)
	}
	if c.Disk.KeepDays == 0 {
		c.Disk.KeepDays = 60
	}
	if c.Disk.CacheDays == 0 {
		c.Disk.CacheDays = 30
	}
	if c.Disk.MinFree == 0 {
		c.Disk.MinFree = 5 << 30
	}
	for i := range c.Plans {
		if c.Plans[i].Plan == "" {
			c.Plans[i].Plan = c.Plans[i].Name
		}
	}
	return c, nil
}
