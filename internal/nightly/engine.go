// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"patchcheck/internal/cache"
	"patchcheck/internal/kernel"
	"patchcheck/internal/proc"
	"patchcheck/internal/run"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
)

// Tip is a tree as it was fetched.
type Tip struct {
	ID      string // of the content
	Commit  string // "" for a tree that is no git repository
	Version string
}

// Engine is what a night needs of the rest of the program; tests have one of
// their own.
type Engine interface {
	// Fetch brings a tree up to date.
	Fetch(ctx context.Context, spec, base string) (Tip, error)
	// Contains says whether the commit old is still part of the tree's history.
	// known is false when that cannot be found out.
	Contains(ctx context.Context, spec, base, old string) (yes, known bool)
	// Load reads a series from a folder, a file or a range of repo.
	Load(ctx context.Context, source, repo string) (*patches.Series, error)
	// Key says what a run would be about.
	Key(ctx context.Context, o run.Options) (*run.Job, error)
	Run(ctx context.Context, o run.Options) (*runfolder.Run, error)
	// Clean removes what the cache has not used for days.
	Clean(ctx context.Context, days int) error
	// Free is the room left, in bytes, where runs and cache are.
	Free() (int64, error)
}

// PullRequest is a pull request with its series.
type PullRequest struct {
	Repo   string // OWNER/NAME
	Number int
	Title  string
	Head   string // commit id
	Series *patches.Series
	Err    error // why there is no Series
}

// Forge is what a night needs of GitHub.
type Forge interface {
	// PullRequests lists the open ones with a label, with their series.
	PullRequests(ctx context.Context, repo, label string) ([]PullRequest, error)
	// Report publishes a run on a pull request.
	Report(ctx context.Context, pr PullRequest, r *runfolder.Run) error
}

// engine is the real one.
type engine struct {
	cacheDir, runsDir string
}

// NewEngine gives the engine that builds and runs.
func NewEngine(cacheDir, runsDir string) Engine { return &engine{cacheDir, runsDir} }

func (e *engine) tree(ctx context.Context, spec, base string, refresh bool) (*kernel.Tree, *cache.Cache, error) {
	c, err := cache.Open(e.cacheDir)
	if err != nil {
		return nil, nil, err
	}
	t, err := kernel.Resolve(ctx, c, spec, kernel.TreeOptions{Base: base, Refresh: refresh})
	if err != nil {
		return nil, nil, err
	}
	if err := t.Identify(ctx); err != nil {
		t.Close()
		return nil, nil, err
	}
	return t, c, nil
}

func (e *engine) Fetch(ctx context.Context, spec, base string) (Tip, error) {
	t, _, err := e.tree(ctx, spec, base, true)
	if err != nil {
		return Tip{}, err
	}
	defer t.Close()
	return Tip{t.ID, t.Commit, t.Version}, nil
}

// Contains asks git. A tree that was cloned into the cache has its tip only, so
// first the history since the old tip is fetched.
func (e *engine) Contains(ctx context.Context, spec, base, old string) (yes, known bool) {
	t, c, err := e.tree(ctx, spec, base, false)
	if err != nil || t.Commit == "" {
		return false, false
	}
	defer t.Close()
	git := func(args ...string) (string, error) {
		argv := append([]string{"git", "--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "--git-dir=" + t.Repo}, args...)
		res, err := proc.Run(ctx, proc.Cmd{Argv: argv, Env: append(proc.MinimalEnv(), "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "GIT_OPTIONAL_LOCKS=0")})
		return strings.TrimSpace(string(res.Stdout)), err
	}
	ask := func() (yes, known bool) {
		_, err := git("merge-base", "--is-ancestor", old, t.Commit)
		var pe *proc.Error
		switch {
		case err == nil:
			return true, true
		case errors.As(err, &pe) && pe.Exit == 1:
			return false, true
		}
		return false, false
	}
	yes, known = ask()
	ours := strings.HasPrefix(t.Repo, c.Root()+string(filepath.Separator))
	if yes || !ours {
		return yes, known
	}
	if _, err := os.Stat(filepath.Join(t.Repo, "shallow")); err != nil {
		return yes, known
	}
	// Our own clone, cut off at its tip. How far back the old tip lies is known
	// from its date, if it was ever fetched here.
	l, err := c.Lock(ctx, strings.TrimSuffix(filepath.Base(t.Repo), ".git"), nil)
	if err != nil {
		return false, false
	}
	defer l.Close()
	least := time.Now().Unix()
	for _, id := range []string{old, t.Commit} {
		out, err := git("log", "-1", "--format=%ct", id)
		n, perr := strconv.ParseInt(out, 10, 64)
		if err != nil || perr != nil {
			return false, false
		}
		least = min(least, n)
	}
	if _, err := git("fetch", "--quiet", "--no-tags", "--shallow-since="+strconv.FormatInt(least-86400, 10), "origin", t.Commit); err != nil {
		return false, false
	}
	return ask()
}

func (e *engine) Load(ctx context.Context, source, repo string) (*patches.Series, error) {
	return patches.Load(ctx, []string{source}, patches.LoadOptions{Repo: repo})
}

func (e *engine) Key(ctx context.Context, o run.Options) (*run.Job, error) { return run.JobKey(ctx, o) }

func (e *engine) Run(ctx context.Context, o run.Options) (*runfolder.Run, error) {
	return run.Run(ctx, o)
}

func (e *engine) Clean(ctx context.Context, days int) error {
	_, err := run.GC(ctx, run.GCOptions{CacheDir: e.cacheDir, RunsDir: e.runsDir, KeepDays: days})
	return err
}

func (e *engine) Free() (int64, error) {
	least := int64(-1)
	for _, d := range []string{e.cacheDir, e.runsDir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return 0, fmt.Errorf("cannot make %s: %w", d, err)
		}
		n, err := cache.FreeBytes(d)
		if err != nil {
			return 0, err
		}
		if least < 0 || n < least {
			least = n
		}
	}
	return least, nil
}
