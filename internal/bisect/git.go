// SPDX-License-Identifier: Apache-2.0

package bisect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
)

// Git is a bisection over the commits of a repository. Its state, git's own
// bisect state and the answers, is kept in Dir: Run with the same Dir, Good and
// Bad goes on where it was left.
type Git struct {
	Dir  string // a folder of ours, made if absent
	Repo string // the repository's git folder; only read
	Good string // revision of Repo that is known to be right
	Bad  string // revision of Repo that is known to fail
	// Paths restricts the search to commits that touch them.
	Paths []string
	Test  func(ctx context.Context, commit string) (Answer, error)
	Say   func(line string) // progress; may be nil
}

// InputError is a revision or repository that cannot be bisected.
type InputError struct{ Msg string }

func (e *InputError) Error() string { return e.Msg }

// git runs git on our repository. Nothing of the user's configuration counts.
func (g *Git) git(ctx context.Context, args ...string) (string, error) {
	argv := append([]string{"git", "--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "--git-dir=" + filepath.Join(g.Dir, "repo.git")}, args...)
	res, err := proc.Run(ctx, proc.Cmd{Argv: argv, Dir: g.Dir, Env: gitEnv()})
	return strings.TrimRight(string(res.Stdout), "\n"), err
}

func gitEnv() []string {
	return append(proc.MinimalEnv(), "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_NO_LAZY_FETCH=1")
}

// source runs git on the user's repository, for reading.
func (g *Git) source(ctx context.Context, args ...string) (string, error) {
	argv := append([]string{"git", "--no-pager", "-c", "core.fsmonitor=false", "--git-dir=" + g.Repo}, args...)
	res, err := proc.Run(ctx, proc.Cmd{Argv: argv, Env: gitEnv()})
	return strings.TrimRight(string(res.Stdout), "\n"), err
}

// Resolve gives the full id of a revision of the user's repository.
func (g *Git) Resolve(ctx context.Context, rev string) (string, error) {
	if rev == "" || strings.HasPrefix(rev, "-") {
		return "", &InputError{fmt.Sprintf("%q is no revision", rev)}
	}
	id, err := g.source(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if err != nil {
		return "", &InputError{fmt.Sprintf("%s names no commit of %s", rev, g.Repo)}
	}
	return id, nil
}

// prepare makes our repository, which borrows the user's objects, and starts
// or continues the bisection.
func (g *Git) prepare(ctx context.Context) error {
	good, err := g.Resolve(ctx, g.Good)
	if err != nil {
		return err
	}
	bad, err := g.Resolve(ctx, g.Bad)
	if err != nil {
		return err
	}
	if good == bad {
		return &InputError{fmt.Sprintf("--good and --bad are the same commit %.12s", good)}
	}
	format, err := g.source(ctx, "rev-parse", "--show-object-format")
	if err != nil {
		return err
	}
	common, err := g.source(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(g.Dir, 0o755); err != nil {
		return fmt.Errorf("cannot make a place for the bisection: %w", err)
	}
	repo := filepath.Join(g.Dir, "repo.git")
	if _, err := os.Stat(filepath.Join(repo, "HEAD")); err != nil {
		if err := cache.RemoveAll(repo); err != nil {
			return err
		}
		if _, err := proc.Run(ctx, proc.Cmd{Argv: []string{"git", "init", "--quiet", "--bare", "--object-format=" + format, repo}, Env: gitEnv()}); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(repo, "objects", "info", "alternates"), []byte(filepath.Join(common, "objects")+"\n"), 0o644); err != nil {
		return err
	}
	// A repository without its whole history says so in this file.
	b, err := os.ReadFile(filepath.Join(common, "shallow"))
	if err == nil {
		err = os.WriteFile(filepath.Join(repo, "shallow"), b, 0o644)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if was, err := os.ReadFile(filepath.Join(g.Dir, "range")); err == nil && string(was) == g.rangeWords(good, bad) {
		if _, err := os.Stat(filepath.Join(repo, "BISECT_LOG")); err == nil {
			return nil // to be continued
		}
	}
	g.git(ctx, "bisect", "reset") // of another range; nothing to reset is no error
	// git bisect wants a HEAD to come back to.
	if _, err := g.git(ctx, "update-ref", "--no-deref", "HEAD", bad); err != nil {
		return err
	}
	argv := append([]string{"bisect", "start", "--no-checkout", bad, good, "--"}, g.Paths...)
	if out, err := g.git(ctx, argv...); err != nil {
		return &InputError{fmt.Sprintf("git cannot bisect between good %.12s and bad %.12s: %s", good, bad, firstOf(out, err))}
	}
	return os.WriteFile(filepath.Join(g.Dir, "range"), []byte(g.rangeWords(good, bad)), 0o644)
}

func (g *Git) rangeWords(good, bad string) string {
	return good + " " + bad + " " + strings.Join(g.Paths, " ") + "\n"
}

func firstOf(out string, err error) string {
	var pe *proc.Error
	s := out
	if errors.As(err, &pe) && strings.TrimSpace(pe.Tail) != "" {
		s = pe.Tail
	}
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if s == "" {
		return err.Error()
	}
	return s
}

var (
	reFirstBad = regexp.MustCompile(`(?m)^# first bad commit: \[([0-9a-f]+)\] (.*)$`)
	rePossible = regexp.MustCompile(`(?m)^# possible first bad commit: \[([0-9a-f]+)\] (.*)$`)
)

// Run bisects to the end. When ctx ends or a test fails, the next Run goes on.
func (g *Git) Run(ctx context.Context) (*Result, error) {
	if g.Say == nil {
		g.Say = func(string) {}
	}
	if err := g.prepare(ctx); err != nil {
		return nil, err
	}
	r := &Result{}
	answers := g.answers()
	for {
		log, err := g.git(ctx, "bisect", "log")
		if err != nil {
			return nil, err
		}
		r.Log = log + "\n"
		if m := reFirstBad.FindStringSubmatch(log); m != nil {
			r.Culprit, r.Title = m[1], m[2]
			r.Steps = g.steps(ctx, log, answers)
			return r, nil
		}
		if ms := rePossible.FindAllStringSubmatch(log, -1); ms != nil {
			for _, m := range ms {
				r.Candidates = append(r.Candidates, fmt.Sprintf("%.12s: %s", m[1], m[2]))
			}
			r.Steps = g.steps(ctx, log, answers)
			return r, nil
		}
		commit, err := g.git(ctx, "rev-parse", "--verify", "--quiet", "BISECT_HEAD")
		if err != nil {
			return nil, &InputError{fmt.Sprintf("git knows no commit to test between good %s and bad %s: is the good one an ancestor?", g.Good, g.Bad)}
		}
		a, ok := answers[commit]
		if !ok {
			left := g.left(ctx)
			title, _ := g.git(ctx, "log", "-1", "--format=%s", commit)
			g.Say(fmt.Sprintf("testing %.12s %s%s", commit, title, left))
			if a, err = g.Test(ctx, commit); err != nil {
				return nil, err
			}
			answers[commit] = a
			if err := g.save(answers); err != nil {
				return nil, err
			}
			g.Say(fmt.Sprintf("%s  %.12s %s (%s)", a.Outcome, commit, title, a.Detail))
		}
		out, err := g.git(ctx, "bisect", string(a.Outcome), commit)
		// Exit 2: only skipped commits are left; the log says which.
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var pe *proc.Error
		if err != nil && !(errors.As(err, &pe) && pe.Exit == 2) {
			return nil, &InputError{fmt.Sprintf("git bisect: %s", firstOf(out, err))}
		}
	}
}

// left words how many tests are to come.
func (g *Git) left(ctx context.Context) string {
	out, err := g.git(ctx, "rev-list", "--count", "refs/bisect/bad", "--not", "--glob=refs/bisect/good-*")
	n := 0
	if _, serr := fmt.Sscan(out, &n); err != nil || serr != nil || n < 1 {
		return ""
	}
	steps := 0
	for m := n; m > 1; m = (m + 1) / 2 {
		steps++
	}
	return fmt.Sprintf(" (%d commits left, about %d tests)", n, steps)
}

func (g *Git) answersFile() string { return filepath.Join(g.Dir, "answers.json") }

func (g *Git) answers() map[string]Answer {
	m := map[string]Answer{}
	if b, err := os.ReadFile(g.answersFile()); err == nil {
		json.Unmarshal(b, &m) // half a file cannot be: it is written whole
	}
	if m == nil {
		m = map[string]Answer{}
	}
	return m
}

func (g *Git) save(m map[string]Answer) error {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	return cache.WriteFile(g.answersFile(), append(b, '\n'), 0o644)
}

var reMark = regexp.MustCompile(`(?m)^git bisect (good|bad|skip) ([0-9a-f]+)$`)

// steps lists what was tested, in order, with the reasons.
func (g *Git) steps(ctx context.Context, log string, answers map[string]Answer) []Step {
	var out []Step
	for _, m := range reMark.FindAllStringSubmatch(log, -1) {
		a, ok := answers[m[2]]
		if !ok {
			continue // the ends, which were given
		}
		title, _ := g.git(ctx, "log", "-1", "--format=%s", m[2])
		out = append(out, Step{State: m[2], Title: title, Answer: a})
	}
	return out
}
