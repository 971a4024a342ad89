// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"patchcheck/internal/strictyaml"
	"patchcheck/patches"
)

//go:embed profiles/*.yaml
var profileFiles embed.FS

// Profile is what the maintainers of some paths ask for beyond the general
// documents.
type Profile struct {
	Name    string   `yaml:"name"`
	Title   string   `yaml:"title"`  // for messages: "NFSD"
	Source  string   `yaml:"source"` // the kernel document
	Paths   []string `yaml:"paths"`  // folders end in "/", other entries are patterns of path.Match
	Exclude []string `yaml:"exclude"`
	// Rules gives severities by rule id, and turns strict rules on.
	Rules map[string]string `yaml:"rules"`
	// Lists are the mailing lists that patches go to.
	Lists []string `yaml:"lists"`
	// CoverFrom is the number of patches from which on a cover letter is
	// wanted; 0: as everywhere.
	CoverFrom int `yaml:"cover_from"`
	// TreeTags are the words of which one must be in the subject's brackets.
	TreeTags []string `yaml:"tree_tags"`
	// Sides are groups of paths with maintainers of their own that one series
	// must not mix.
	Sides []Side `yaml:"sides"`
	// FunctionNames says how names of new functions begin, the first entry
	// whose paths match counts.
	FunctionNames []NameRule `yaml:"function_names"`
}

// Side is one of the groups of paths.
type Side struct {
	Name  string   `yaml:"name"`
	Paths []string `yaml:"paths"`
}

// NameRule is the custom for names in some files.
type NameRule struct {
	Paths []string `yaml:"paths"`
	Match string   `yaml:"match"` // regular expression; "" allows every name
	Say   string   `yaml:"say"`   // the custom in words
	re    *regexp.Regexp
}

func (s Side) match(name string) bool     { return matchAny(s.Paths, name) }
func (n NameRule) match(name string) bool { return matchAny(n.Paths, name) }
func (p *Profile) match(name string) bool {
	return matchAny(p.Paths, name) && !matchAny(p.Exclude, name)
}

// matchAny matches a path against folders ("fs/nfsd/") and patterns
// ("net/sunrpc/svc*").
func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if strings.HasSuffix(p, "/") {
			if strings.HasPrefix(name, p) {
				return true
			}
			continue
		}
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

// Profiles lists the bundled maintainer profiles by name.
var Profiles = func() []*Profile {
	files, err := profileFiles.ReadDir("profiles")
	if err != nil {
		panic(err)
	}
	var out []*Profile
	for _, f := range files {
		b, err := profileFiles.ReadFile("profiles/" + f.Name())
		if err != nil {
			panic(err)
		}
		p, err := parseProfile(f.Name(), b)
		if err != nil {
			panic(err)
		}
		out = append(out, p)
	}
	return out
}()

func parseProfile(name string, b []byte) (*Profile, error) {
	p := &Profile{}
	if err := strictyaml.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	if p.Name == "" || p.Source == "" || len(p.Paths) == 0 {
		return nil, fmt.Errorf("profile %s: name, source and paths are needed", name)
	}
	for id, sev := range p.Rules {
		if _, ok := ruleByID[id]; !ok {
			return nil, fmt.Errorf("profile %s: no rule %q", name, id)
		}
		if !slices.Contains([]string{"error", "warning", "note"}, sev) {
			return nil, fmt.Errorf("profile %s: severity %q of %s is not error, warning or note", name, sev, id)
		}
	}
	for i := range p.FunctionNames {
		n := &p.FunctionNames[i]
		if n.Match == "" {
			continue
		}
		re, err := regexp.Compile(n.Match)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", name, err)
		}
		n.re = re
	}
	return p, nil
}

// profilesFor chooses the profiles of a series: those named, or those that a
// touched path belongs to.
func profilesFor(s *patches.Series, named []string) []*Profile {
	var out []*Profile
	if len(named) > 0 {
		for _, p := range Profiles {
			if slices.Contains(named, p.Name) {
				out = append(out, p)
			}
		}
		return out
	}
	paths := TouchedPaths(s)
	for _, p := range Profiles {
		if slices.ContainsFunc(paths, p.match) {
			out = append(out, p)
		}
	}
	return out
}

// profilesOf are those of the series' profiles that hold for one patch: it
// touches their paths.
func (l *linter) profilesOf(p *patches.Patch) []*Profile {
	if len(l.o.Profiles) > 0 {
		return l.profiles
	}
	var out []*Profile
	for _, pr := range l.profiles {
		for _, f := range p.Files {
			if f.Old != "" && pr.match(f.Old) || f.New != "" && pr.match(f.New) {
				out = append(out, pr)
				break
			}
		}
	}
	return out
}
