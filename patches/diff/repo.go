// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"
	"strconv"
	"strings"
	"sync"

	"patchcheck/internal/proc"
)

// gitEnv is the environment for git: nothing of the user's configuration, no
// lock taken for a refresh, no prompt, and no transport, so that a partial
// clone does not go to the network for a blob that it lacks.
func gitEnv() []string {
	return append(proc.MinimalEnv(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_PAGER=cat")
}

// Repo reads a git repository. It uses plumbing commands that neither look at
// nor touch the index, the refs and the work tree, with hooks and everything
// else that a repository's own configuration could run switched off.
type Repo struct {
	gitDir string

	mu    sync.Mutex // one question to cat-file at a time
	batch *batch
}

// OpenRepo finds the repository that the folder dir belongs to. The error of a
// folder outside any repository comes from git.
func OpenRepo(ctx context.Context, dir string) (*Repo, error) {
	res, err := proc.Run(ctx, proc.Cmd{
		Argv: []string{"git", "-c", "safe.directory=*", "rev-parse", "--absolute-git-dir"},
		Dir:  dir, Env: gitEnv(),
	})
	if err != nil {
		return nil, fmt.Errorf("%s is in no git repository: %w", dir, err)
	}
	return &Repo{gitDir: strings.TrimSpace(string(res.Stdout))}, nil
}

func (r *Repo) argv(args ...string) []string {
	return append([]string{"git", "--git-dir=" + r.gitDir,
		"-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
		"-c", "core.alternateRefsCommand=true", "-c", "log.showSignature=false", "-c", "protocol.allow=never"}, args...)
}

func (r *Repo) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	res, err := proc.Run(ctx, proc.Cmd{Argv: r.argv(args...), Dir: r.gitDir, Env: gitEnv(), Stdin: bytes.NewReader(stdin)})
	return res.Stdout, err
}

// Close ends the helper process.
func (r *Repo) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.batch != nil {
		r.batch.close()
		r.batch = nil
	}
	return nil
}

// batch is a running git cat-file --batch.
type batch struct {
	in     *io.PipeWriter
	out    *bufio.Reader
	cancel context.CancelFunc
	done   chan struct{}
}

func (b *batch) close() {
	b.in.Close()
	b.cancel()
	<-b.done
}

func (r *Repo) start() *batch {
	ctx, cancel := context.WithCancel(context.Background())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	b := &batch{in: inW, out: bufio.NewReaderSize(outR, 64<<10), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		// The output is consumed as it comes; the copy that proc keeps for
		// error messages is not needed.
		_, err := proc.Run(ctx, proc.Cmd{Argv: r.argv("cat-file", "--batch"), Dir: r.gitDir, Env: gitEnv(), Stdin: inR, Stdout: outW, MaxOutput: 1})
		if err == nil {
			err = io.EOF
		}
		outW.CloseWithError(err)
		inR.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { outR.CloseWithError(context.Canceled) })
	return b
}

// Object returns an object by any name that git understands and that has no
// newline: an id, "HEAD^{tree}", "v6.1:Makefile". An object that is not there
// gives an error matching fs.ErrNotExist. It need not be reachable from a ref.
func (r *Repo) Object(name string) (oid, kind string, content []byte, err error) {
	if name == "" || strings.ContainsAny(name, "\n\x00") {
		return "", "", nil, fmt.Errorf("%q is no name of a git object", name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.batch == nil {
		r.batch = r.start()
	}
	fail := func(err error) (string, string, []byte, error) {
		r.batch.close()
		r.batch = nil
		return "", "", nil, fmt.Errorf("git cat-file in %s: %w", r.gitDir, err)
	}
	if _, err := io.WriteString(r.batch.in, name+"\n"); err != nil {
		return fail(err)
	}
	head, err := r.batch.out.ReadString('\n')
	if err != nil {
		return fail(err)
	}
	head = strings.TrimSuffix(head, "\n")
	if strings.HasSuffix(head, " missing") || strings.HasSuffix(head, " ambiguous") {
		return "", "", nil, &fs.PathError{Op: "git cat-file", Path: name, Err: fs.ErrNotExist}
	}
	f := strings.Fields(head)
	if len(f) != 3 {
		return fail(fmt.Errorf("unexpected answer %q", head))
	}
	n, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || n < 0 || n > maxFile {
		return fail(fmt.Errorf("object %s is too large (%s bytes)", f[0], f[2]))
	}
	content = make([]byte, n+1)
	if _, err := io.ReadFull(r.batch.out, content); err != nil {
		return fail(err)
	}
	return f[0], f[1], content[:n:n], nil
}

// Blob looks a blob up by its id, which may be abbreviated; it fits
// Options.Blob.
func (r *Repo) Blob(oid string) ([]byte, error) {
	if !isHex(oid) {
		return nil, fmt.Errorf("%q is no blob id", oid)
	}
	_, kind, content, err := r.Object(oid + "^{blob}")
	if err != nil {
		return nil, err
	}
	if kind != "blob" {
		return nil, fmt.Errorf("%s is a %s, not a blob", oid, kind)
	}
	return content, nil
}

// Commit returns the full id of a commit, which may be known only as an
// object that no ref reaches.
func (r *Repo) Commit(rev string) (string, error) {
	oid, _, _, err := r.Object(rev + "^{commit}")
	return oid, err
}

// Tree is the tree of a commit. It is read straight from the object store: no
// checkout, no work tree.
func (r *Repo) Tree(rev string) (Tree, error) {
	oid, _, content, err := r.Object(rev + "^{tree}")
	if err != nil {
		return nil, err
	}
	t := &gitTree{repo: r, dirs: map[string]map[string]treeEntry{}}
	if t.dirs["."], err = parseTree(content, len(oid)/2); err != nil {
		return nil, err
	}
	return t, nil
}

type treeEntry struct {
	mode uint32
	oid  string
}

// gitTree reads a commit's files.
type gitTree struct {
	repo *Repo
	mu   sync.Mutex
	dirs map[string]map[string]treeEntry // by path; nil for a path that is no folder
}

// parseTree reads a tree object: "mode name NUL id" over and over, the id
// being of n bytes.
func parseTree(b []byte, n int) (map[string]treeEntry, error) {
	out := map[string]treeEntry{}
	for len(b) > 0 {
		sp := bytes.IndexByte(b, ' ')
		nul := bytes.IndexByte(b, 0)
		if sp < 0 || nul < sp || len(b) < nul+1+n {
			return nil, errors.New("damaged git tree object")
		}
		mode, err := strconv.ParseUint(string(b[:sp]), 8, 32)
		if err != nil {
			return nil, errors.New("damaged git tree object")
		}
		out[string(b[sp+1:nul])] = treeEntry{mode: uint32(mode), oid: fmt.Sprintf("%x", b[nul+1:nul+1+n])}
		b = b[nul+1+n:]
	}
	return out, nil
}

func (t *gitTree) entry(name string) (treeEntry, error) {
	absent := &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	dir := "."
	parts := strings.Split(name, "/")
	for i, c := range parts {
		e, ok := t.dirs[dir][c]
		if !ok {
			return treeEntry{}, absent
		}
		if i == len(parts)-1 {
			return e, nil
		}
		switch e.mode & modeType {
		case modeLink:
			return treeEntry{}, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w (%s)", ErrSymlink, strings.Join(parts[:i+1], "/"))}
		case 0o040000:
		default:
			return treeEntry{}, absent
		}
		next := strings.Join(parts[:i+1], "/")
		if _, ok := t.dirs[next]; !ok {
			_, _, content, err := t.repo.Object(e.oid)
			if err != nil {
				return treeEntry{}, err
			}
			if t.dirs[next], err = parseTree(content, len(e.oid)/2); err != nil {
				return treeEntry{}, err
			}
		}
		dir = next
	}
	return treeEntry{}, absent
}

// ReadFile implements Tree.
func (t *gitTree) ReadFile(name string) ([]byte, fs.FileMode, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, err := t.entry(name)
	if err != nil {
		return nil, 0, err
	}
	var mode fs.FileMode
	switch e.mode & modeType {
	case 0o040000, modeGitlink:
		return nil, fs.ModeDir | 0o755, nil
	case modeLink:
		mode = fs.ModeSymlink | 0o777
	default:
		mode = 0o644
		if e.mode&0o100 != 0 {
			mode = 0o755
		}
	}
	_, _, content, err := t.repo.Object(e.oid)
	return content, mode, err
}

// blobID is the id of a file without reading it; "" when it is absent.
func (t *gitTree) blobID(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, err := t.entry(name)
	if err != nil {
		return ""
	}
	return e.oid
}

// Wanted maps each file that a series changes to the blob id that its first
// change was made against. Files that the series itself creates are not in it.
func Wanted(patches [][]*File) map[string]string {
	want := map[string]string{}
	made := map[string]bool{}
	for _, files := range patches {
		for _, f := range files {
			if f.Old != "" && !made[f.Old] && f.OldOID != "" && !nullOID(f.OldOID) {
				if _, ok := want[f.Old]; !ok {
					want[f.Old] = f.OldOID
				}
			}
			if f.New != "" {
				made[f.New] = true
			}
			if f.Old != "" {
				made[f.Old] = true
			}
		}
	}
	return want
}

// BaseMatchCommit is a commit and how well its blobs are those of a series'
// index lines.
type BaseMatchCommit struct {
	Commit  string `json:"commit"`
	Matched int    `json:"matched"` // files whose blob is the one of the index line
	Total   int    `json:"total"`   // files with an index line
}

// FindBase looks for the commit that a series was made against: the one at
// which the most files have the blobs of the index lines. It looks at the tips
// first and then at the latest max commits, reachable from any ref, that
// touched one of the files; a state of several files begins at the commit that
// touched the last of them, so no other commit can fit better. The first full
// match ends the search. It returns Total 0 when the series names no blobs.
func (r *Repo) FindBase(ctx context.Context, patches [][]*File, max int, tips ...string) (BaseMatchCommit, error) {
	want := Wanted(patches)
	best := BaseMatchCommit{Total: len(want)}
	if len(want) == 0 {
		return best, nil
	}
	paths := make([]string, 0, len(want))
	for p := range want {
		if CheckPath(p) == nil {
			paths = append(paths, p)
		}
	}
	sort.Strings(paths)
	try := func(rev string) error {
		t, err := r.Tree(rev)
		if err != nil {
			return err
		}
		n := 0
		for _, p := range paths {
			if id := t.(*gitTree).blobID(p); id != "" && len(want[p]) >= 4 && strings.HasPrefix(id, want[p]) {
				n++
			}
		}
		if n > best.Matched {
			best.Matched = n
			best.Commit, err = r.Commit(rev)
		}
		return err
	}
	for _, tip := range tips {
		if err := try(tip); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return best, err
		}
		if best.Matched == best.Total {
			return best, nil
		}
	}
	args := append([]string{"rev-list", "--all", "--max-count=" + strconv.Itoa(max), "--"}, literal(paths)...)
	revs, err := r.run(ctx, nil, args...)
	if err != nil {
		return best, err
	}
	args = append([]string{"diff-tree", "--stdin", "--root", "-r", "-m", "--raw", "--no-abbrev", "--no-renames", "--"}, literal(paths)...)
	raw, err := r.run(ctx, revs, args...)
	if err != nil {
		return best, err
	}
	commit, tried := "", map[string]bool{}
	for _, l := range strings.Split(string(raw), "\n") {
		if l == "" {
			continue
		}
		if l[0] != ':' {
			commit, _, _ = strings.Cut(l, " ")
			continue
		}
		meta, p, ok := strings.Cut(l, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) < 5 || tried[commit] {
			continue
		}
		if q, _, quoted := unquote(p); strings.HasPrefix(p, `"`) && quoted {
			p = q
		}
		if w := want[p]; len(w) < 4 || !strings.HasPrefix(f[3], w) {
			continue
		}
		tried[commit] = true
		if err := try(commit); err != nil {
			return best, err
		}
		if best.Matched == best.Total {
			break
		}
	}
	return best, nil
}

// literal keeps git from reading names as patterns.
func literal(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = ":(literal,top)" + p
	}
	return out
}

// AppliedBy returns the commit of rev's history that makes the same change as
// the diff text (git patch-id --stable), or "". It looks at the latest max
// commits that touched one of the files.
func (r *Repo) AppliedBy(ctx context.Context, diff []byte, files []*File, rev string, max int) (string, error) {
	id, err := r.run(ctx, diff, "patch-id", "--stable")
	if err != nil {
		return "", err
	}
	want, _, _ := strings.Cut(string(id), " ")
	if want == "" {
		return "", nil
	}
	var paths []string
	seen := map[string]bool{}
	for _, f := range files {
		for _, p := range []string{f.Old, f.New} {
			if p != "" && !seen[p] && CheckPath(p) == nil {
				seen[p] = true
				paths = append(paths, p)
			}
		}
	}
	if len(paths) == 0 {
		return "", nil
	}
	start, err := r.Commit(rev)
	if err != nil {
		return "", err
	}
	args := append([]string{"rev-list", "--no-merges", "--max-count=" + strconv.Itoa(max), start, "--"}, literal(paths)...)
	revs, err := r.run(ctx, nil, args...)
	if err != nil {
		return "", err
	}
	// In chunks: the diffs of many commits are large, and most answers are
	// found early.
	list := strings.Fields(string(revs))
	for len(list) > 0 {
		n := min(len(list), 100)
		text, err := r.run(ctx, []byte(strings.Join(list[:n], "\n")+"\n"), "diff-tree", "--stdin", "--root", "-p", "--no-ext-diff", "--no-textconv", "--full-index")
		if err != nil {
			return "", err
		}
		ids, err := r.run(ctx, text, "patch-id", "--stable")
		if err != nil {
			return "", err
		}
		for _, l := range strings.Split(string(ids), "\n") {
			if pid, commit, ok := strings.Cut(l, " "); ok && pid == want {
				return commit, nil
			}
		}
		list = list[n:]
	}
	return "", nil
}

// Author is a commit that lines of a file come from.
type Author struct {
	Commit  string `json:"commit"`
	Subject string `json:"subject"`
	Lines   int    `json:"lines"`
}

// LinesBy says which commits the lines from..to (1-based, inclusive) of a file
// of rev come from, the one with the most lines first: for a hunk that was
// overtaken, by what.
func (r *Repo) LinesBy(ctx context.Context, rev, name string, from, to int) ([]Author, error) {
	if err := CheckPath(name); err != nil {
		return nil, err
	}
	start, err := r.Commit(rev)
	if err != nil {
		return nil, err
	}
	out, err := r.run(ctx, nil, "blame", "--porcelain", "--no-textconv", "-L", fmt.Sprintf("%d,%d", from, to), start, "--", name)
	if err != nil {
		return nil, err
	}
	by := map[string]*Author{}
	var order []*Author
	current := ""
	for l := range strings.Lines(string(out)) {
		l = strings.TrimSuffix(l, "\n")
		switch {
		case strings.HasPrefix(l, "\t"):
		case strings.HasPrefix(l, "summary "):
			by[current].Subject = l[len("summary "):]
		default:
			id, rest, _ := strings.Cut(l, " ")
			if f := strings.Fields(rest); len(id) < 40 || !isHex(id) || len(f) < 2 {
				continue
			}
			current = id
			if by[id] == nil {
				by[id] = &Author{Commit: id}
				order = append(order, by[id])
			}
			by[id].Lines++
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return order[i].Lines > order[j].Lines })
	res := make([]Author, len(order))
	for i, a := range order {
		res[i] = *a
	}
	return res, nil
}
