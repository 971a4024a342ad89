// SPDX-License-Identifier: Apache-2.0

package treefacts

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchcheck/checks/lint"
	"patchcheck/internal/kernel"
	"patchcheck/internal/proc"
	"patchcheck/patches"
	"patchcheck/patches/diff"
)

// How far back a look into the history goes.
const (
	maxSubjects = 200  // commits that touched the files, for the subjects' prefixes
	maxMessages = 4000 // latest commits, for prerequisites named by an id in their message
	maxPatchIDs = 200  // latest commits, for prerequisites named by patch-id
	maxTouched  = 500  // commits that touched the files, for the same change or the base
	maxBlames   = 4
)

// history is the repository of a git tree.
type history struct {
	dir    string
	commit string
	limit  time.Duration
	cut    bool // shallow or partial: what is not there proves nothing
	repo   *diff.Repo
}

func openHistory(ctx context.Context, t *kernel.Tree, limit time.Duration) (*history, error) {
	r, err := diff.OpenRepo(ctx, t.Repo)
	if err != nil {
		return nil, err
	}
	h := &history{dir: t.Repo, commit: t.Commit, limit: limit, repo: r}
	out, err := h.git(ctx, nil, "rev-parse", "--is-shallow-repository")
	h.cut = err != nil || strings.TrimSpace(string(out)) != "false"
	return h, nil
}

func (h *history) close() { h.repo.Close() }

// git runs a plumbing command. It looks at nothing but objects, fetches none
// that are missing, and runs nothing that the repository's own configuration
// names.
func (h *history) git(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	argv := []string{"git", "--no-pager", "--git-dir=" + h.dir, "-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
		"-c", "log.showSignature=false", "-c", "log.mailmap=false", "-c", "diff.external=", "-c", "protocol.allow=never", "-c", "gc.auto=0",
		"-c", "i18n.logOutputEncoding=UTF-8", "-c", "core.quotePath=false", "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false"}
	env := append(proc.MinimalEnv(), "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8")
	if stdin == nil {
		stdin = bytes.NewReader(nil)
	}
	res, err := proc.Run(ctx, proc.Cmd{Argv: append(argv, args...), Env: env, Stdin: stdin, MaxOutput: 64 << 20})
	return res.Stdout, err
}

// history fills in what the repository knows.
func (g *gatherer) history(ctx context.Context) error {
	s, f := g.s, &g.res.Facts
	if g.repo == nil {
		if s.BaseCommit != "" {
			f.Base = &lint.Base{}
		}
		return nil
	}
	h := g.repo
	ctx, cancel := context.WithTimeout(ctx, 2*g.o.HistoryTime)
	defer cancel()
	if s.BaseCommit != "" {
		f.Base = &lint.Base{}
		if hexID.MatchString(s.BaseCommit) {
			if id, err := h.repo.Commit(s.BaseCommit); err == nil {
				f.Base = &lint.Base{Found: true, ID: id, Exact: id == g.t.Commit}
			}
		}
	}
	refs := lint.References(s)
	if len(refs) > 0 {
		f.Commits = map[string]lint.Commit{}
		for _, r := range refs {
			if ctx.Err() != nil {
				g.notRun("commits that the messages name: not all were looked up, as the history takes too long to read")
				break
			}
			if _, done := f.Commits[r.ID]; !done {
				if c, ok := h.look(ctx, r.ID); ok {
					f.Commits[r.ID] = c
				}
			}
		}
	}
	if px, err := h.prefixes(ctx, s); err != nil {
		g.notRun("subject prefixes: the history of the touched files takes too long to read (%v)", brief(err))
	} else {
		f.Prefixes = px
	}
	if len(s.Prerequisites) > 0 {
		f.Prerequisites = h.prerequisites(ctx, s.Prerequisites)
	}
	return nil
}

var hexID = regexp.MustCompile(`^[0-9a-fA-F]{5,64}$`)

func (h *history) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, h.limit, fmt.Errorf("more than %v", h.limit))
}

// look finds the commit that an id names. ok is false when the repository
// could not be asked.
func (h *history) look(ctx context.Context, id string) (c lint.Commit, ok bool) {
	if !hexID.MatchString(id) {
		return c, false
	}
	ctx, cancel := h.bounded(ctx)
	defer cancel()
	out, err := h.git(ctx, strings.NewReader(id+"^{commit}\n"), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return c, false
	}
	line := strings.TrimSpace(string(out))
	if strings.HasSuffix(line, " ambiguous") {
		// Git says so only when several are commits.
		return lint.Commit{Found: true, Ambiguous: true}, true
	}
	full, kind, _ := strings.Cut(line, " ")
	if kind != "commit" {
		return c, true
	}
	out, err = h.git(ctx, nil, "log", "--no-walk", "--format=%ct%x00%s", full)
	if err != nil {
		return c, false
	}
	when, title, _ := strings.Cut(strings.TrimRight(string(out), "\n"), "\x00")
	sec, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		return c, false
	}
	c = lint.Commit{Found: true, ID: full, Title: title, Date: time.Unix(sec, 0).UTC()}
	_, err = h.git(ctx, nil, "merge-base", "--is-ancestor", full, h.commit)
	if err == nil {
		c.InBase, c.BaseKnown = true, true
	} else if brief(err).Error() == "exit status 1" && !h.cut {
		c.BaseKnown = true
	}
	return c, true
}

// reSubject splits a subject into prefix and summary: a prefix is made of
// words of at most this kind, and there may be several.
var reSubject = regexp.MustCompile(`^((?:\[?[A-Za-z0-9][\w./,+*()-]*\]?(?: [\w./-]+){0,2}: ?)+)\S`)

// prefixOf is the prefix of a commit's subject, "" when it has none or is a
// merge or a revert.
func prefixOf(subject string) string {
	if strings.HasPrefix(subject, "Merge ") || strings.HasPrefix(subject, "Revert ") {
		return ""
	}
	m := reSubject.FindStringSubmatch(subject)
	if m == nil {
		return ""
	}
	return strings.TrimRight(m[1], ": ")
}

// prefixes counts the subject prefixes of the latest commits to each touched
// path; a new file counts as its folder.
func (h *history) prefixes(ctx context.Context, s *patches.Series) (map[string][]lint.Prefix, error) {
	asked := map[string][]string{} // path in the history -> touched paths
	var args []string
	add := func(p, touched string) {
		if diff.CheckPath(p) != nil {
			return
		}
		if asked[p] == nil {
			args = append(args, ":(literal,top)"+p)
		}
		if !slices.Contains(asked[p], touched) {
			asked[p] = append(asked[p], touched)
		}
	}
	for _, p := range s.Patches {
		for _, f := range p.Files {
			if f.Old != "" {
				add(f.Old, f.Old)
			}
			if f.New != "" && f.New != f.Old {
				if d := path.Dir(f.New); f.IsNew && d != "." {
					add(d, f.New)
				} else if !f.IsNew && f.Old != "" {
					add(f.Old, f.New) // a rename's history is that of its old name
				}
			}
		}
	}
	if len(args) == 0 || len(args) > 60 {
		return nil, nil
	}
	ctx, cancel := h.bounded(ctx)
	defer cancel()
	out, err := h.git(ctx, nil, append([]string{"log", "--no-merges", "--max-count=" + strconv.Itoa(maxSubjects), "--name-only", "--format=%x00%s", h.commit, "--"}, args...)...)
	if err != nil && len(out) == 0 {
		return nil, err
	}
	counts := map[string]map[string]int{}
	for _, c := range strings.Split(string(out), "\x00") {
		lines := strings.Split(c, "\n")
		px := prefixOf(lines[0])
		if px == "" {
			continue
		}
		told := map[string]bool{}
		for _, n := range lines[1:] {
			for p := n; p != "" && p != "."; p = path.Dir(p) {
				for _, t := range asked[p] {
					if !told[t] {
						told[t] = true
						if counts[t] == nil {
							counts[t] = map[string]int{}
						}
						counts[t][px]++
					}
				}
			}
		}
	}
	res := map[string][]lint.Prefix{}
	for t, m := range counts {
		for px, n := range m {
			res[t] = append(res[t], lint.Prefix{Text: px, Count: n})
		}
		slices.SortFunc(res[t], func(a, b lint.Prefix) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Text, b.Text))
		})
	}
	return res, nil
}

// prerequisites looks for the patches that a series builds on in the latest
// commits of its base. What could not be looked for is not in the answer.
func (h *history) prerequisites(ctx context.Context, ps []patches.Prerequisite) map[string]bool {
	ids, words := false, false
	for _, p := range ps {
		ids = ids || p.Kind == "patch-id"
		words = words || p.Kind != "patch-id"
	}
	found := map[string]bool{}
	if ids {
		ctx, cancel := h.bounded(ctx)
		defer cancel()
		text, err := h.git(ctx, nil, "log", "-p", "--no-merges", "--full-index", "--no-ext-diff", "--no-textconv", "--max-count="+strconv.Itoa(maxPatchIDs), h.commit)
		if err == nil {
			var out []byte
			if out, err = h.git(ctx, bytes.NewReader(text), "patch-id", "--stable"); err == nil {
				have := map[string]bool{}
				for l := range strings.Lines(string(out)) {
					id, _, _ := strings.Cut(l, " ")
					have[id] = true
				}
				for _, p := range ps {
					if p.Kind == "patch-id" {
						found[p.Value] = have[strings.ToLower(p.Value)]
					}
				}
			}
		}
	}
	if words {
		ctx, cancel := h.bounded(ctx)
		defer cancel()
		out, err := h.git(ctx, nil, "log", "--max-count="+strconv.Itoa(maxMessages), "--format=%B", h.commit)
		if err == nil {
			for _, p := range ps {
				if p.Kind != "patch-id" && p.Value != "" {
					found[p.Value] = bytes.Contains(out, []byte(p.Value))
				}
			}
		}
	}
	return found
}

// appliedBy is the commit of the base's history that makes the same change.
func (h *history) appliedBy(ctx context.Context, p *patches.Patch) string {
	ctx, cancel := h.bounded(ctx)
	defer cancel()
	id, err := h.repo.AppliedBy(ctx, p.Diff, p.Files, h.commit, maxTouched)
	if err != nil || id == "" {
		return ""
	}
	return h.name(ctx, id)
}

// name is a commit as the kernel's documents want it named.
func (h *history) name(ctx context.Context, id string) string {
	out, err := h.git(ctx, nil, "log", "--no-walk", "--format=%s", id)
	if err != nil {
		return fmt.Sprintf("%.12s", id)
	}
	return fmt.Sprintf("%.12s (%q)", id, strings.TrimSpace(string(out)))
}

// overtakenBy says which commits wrote the lines that stand where overtaken
// hunks belong.
func (h *history) overtakenBy(ctx context.Context, r *diff.Result) []string {
	var out []string
	n := 0
	for _, f := range r.Files {
		for _, k := range f.Hunks {
			if !k.Overtaken || k.FoundLine <= 0 || n == maxBlames {
				continue
			}
			n++
			ctx, cancel := h.bounded(ctx)
			by, err := h.repo.LinesBy(ctx, h.commit, f.Path, k.FoundLine, k.FoundLine+max(len(k.Found), 1)-1)
			cancel()
			if err != nil {
				continue
			}
			for _, a := range by[:min(len(by), 2)] {
				out = append(out, fmt.Sprintf("%s:%d: overtaken by %.12s (%q), %d lines", f.Path, k.FoundLine, a.Commit, a.Subject, a.Lines))
			}
		}
	}
	return out
}

// base names the commit whose blobs are those of the series' index lines.
func (h *history) base(ctx context.Context, s *patches.Series) string {
	var files [][]*diff.File
	for _, p := range s.Patches {
		files = append(files, p.Files)
	}
	ctx, cancel := h.bounded(ctx)
	defer cancel()
	m, err := h.repo.FindBase(ctx, files, maxTouched, h.commit)
	if err != nil || m.Total == 0 || m.Matched == 0 || m.Commit == h.commit {
		return ""
	}
	return fmt.Sprintf("%d of %d files are those of commit %s: --base %.12s", m.Matched, m.Total, h.name(ctx, m.Commit), m.Commit)
}
