// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
	"patchcheck/patches/diff"
)

// git runs git on a repository without its hooks, its pager, a terminal prompt
// or anything else that would write to it or ask somebody.
func git(ctx context.Context, repo string, args ...string) (string, error) {
	argv := append(gitArgv(repo), args...)
	res, err := proc.Run(ctx, proc.Cmd{Argv: argv, Env: gitEnv()})
	return strings.TrimRight(string(res.Stdout), "\n"), err
}

func gitArgv(repo string) []string {
	argv := []string{"git", "--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false", "-c", "core.attributesFile=/dev/null", "-c", "gc.auto=0", "-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60", "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false"}
	if repo != "" {
		argv = append(argv, "--git-dir="+repo)
	}
	return argv
}

func gitEnv() []string {
	return append(proc.MinimalEnv(), "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ASKPASS=true", "SSH_ASKPASS=true", "GIT_SSH_COMMAND=ssh -oBatchMode=yes")
}

// gitDir returns the git folder of the work tree or bare repository at dir, or
// "" when dir itself is none. A folder below a repository's top does not
// count, except that the top of a linked work tree does.
func gitDir(ctx context.Context, dir string) string {
	_, errDot := os.Lstat(filepath.Join(dir, ".git"))
	_, errHead := os.Stat(filepath.Join(dir, "HEAD"))
	_, errObj := os.Stat(filepath.Join(dir, "objects"))
	if errDot != nil && (errHead != nil || errObj != nil) {
		return ""
	}
	res, err := proc.Run(ctx, proc.Cmd{Argv: append(gitArgv(""), "-C", dir, "rev-parse", "--absolute-git-dir"), Env: gitEnv()})
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(res.Stdout))
}

// resolveCommit makes a tree of a commit of repo: opt.Base, else the series'
// base-commit when the repository holds it (reachable or not), else HEAD.
func resolveCommit(ctx context.Context, c *cache.Cache, repo, lineage string, opt TreeOptions) (*Tree, error) {
	var notes []string
	rev := "HEAD"
	switch {
	case opt.Base != "":
		rev = opt.Base
		if strings.HasPrefix(rev, "-") {
			return nil, &TreeError{Spec: repo, Msg: fmt.Sprintf("--base %s is no revision", rev)}
		}
	case opt.SeriesBase != "":
		if !regexp.MustCompile(`^[0-9a-fA-F]{7,64}$`).MatchString(opt.SeriesBase) {
			notes = append(notes, fmt.Sprintf("the series' base-commit %q is no commit id; HEAD was taken", opt.SeriesBase))
		} else if _, err := git(ctx, repo, "cat-file", "-e", opt.SeriesBase+"^{commit}"); err == nil {
			rev = opt.SeriesBase
		} else {
			notes = append(notes, fmt.Sprintf("the series' base-commit %.12s is not in the repository; HEAD was taken", opt.SeriesBase))
		}
	}
	out, err := git(ctx, repo, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if err != nil {
		if rev == "HEAD" {
			return nil, &TreeError{Spec: repo, Msg: "the repository has no commit yet"}
		}
		return nil, &TreeError{Spec: repo, Msg: fmt.Sprintf("--base %s names no commit there", rev)}
	}
	t := &Tree{Kind: KindGit, Commit: out, Repo: repo, Notes: notes, lineage: lineage, git: &catFile{repo: repo}}
	title, err := git(ctx, repo, "log", "-1", "--format=%T%n%s", out)
	if err != nil {
		return nil, err
	}
	treeID, subject, _ := strings.Cut(title, "\n")
	t.ID, t.CommitTitle = "git:"+treeID, subject
	t.Version, err = looksLikeKernel(func(name string) ([]byte, error) {
		b, _, err := t.git.read(out, name)
		return b, err
	})
	if err != nil {
		t.git.Close()
		return nil, &TreeError{Spec: repo, Msg: fmt.Sprintf("commit %.12s is no kernel tree", out), Err: err}
	}
	return t, nil
}

// hasSecret reports whether a URL carries credentials. The user name of ssh is
// none; over HTTP it may be a token.
func hasSecret(url string) bool {
	u, err := neturl.Parse(url)
	if err != nil || u.User == nil {
		return false
	}
	_, password := u.User.Password()
	return password || u.Scheme == "http" || u.Scheme == "https"
}

// withoutUser is a tree's spec as it may be shown.
func withoutUser(spec string) string {
	url, ok := strings.CutPrefix(spec, "git+")
	if u, err := neturl.Parse(url); ok && err == nil && hasSecret(url) {
		u.User = nil
		return "git+" + u.String()
	}
	return spec
}

// resolveRemote keeps a partial clone of one branch in the cache.
func resolveRemote(ctx context.Context, c *cache.Cache, spec string, opt TreeOptions) (*Tree, error) {
	url, branch, _ := strings.Cut(spec, "#")
	if hasSecret(url) {
		// It would be kept in the run folder and in the repository's config.
		return nil, &TreeError{Spec: withoutUser(spec), Msg: "the URL has a user name or password in it; leave it out and let git ask its credential helper (gitcredentials(7))"}
	}
	if branch == "" {
		branch = "HEAD"
	}
	if url == "" || strings.HasPrefix(url, "-") || strings.HasPrefix(branch, "-") || strings.HasPrefix(url, "ext::") {
		return nil, &TreeError{Spec: spec, Msg: "expected git+URL#branch"}
	}
	sum := sha256.Sum256([]byte(url))
	key := "git-" + hex.EncodeToString(sum[:8])
	lock, err := c.Lock(ctx, key, func(h string) { opt.Progress("waiting for " + h + ", which fetches " + url) })
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	repo := c.Path("trees", key+".git")
	if _, err := os.Stat(filepath.Join(repo, "HEAD")); err != nil {
		if err := cache.RemoveAll(repo); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Dir(repo), 0o755); err != nil {
			return nil, err
		}
		if _, err := proc.Run(ctx, proc.Cmd{Argv: append(gitArgv(""), "init", "--quiet", "--bare", repo), Env: gitEnv()}); err != nil {
			return nil, err
		}
		if _, err := git(ctx, repo, "remote", "add", "origin", url); err != nil {
			return nil, err
		}
	}
	ref := "refs/patchcheck/" + hex.EncodeToString([]byte(branch))
	_, have := git(ctx, repo, "rev-parse", "--verify", "--quiet", ref)
	if have != nil || opt.Refresh {
		opt.Progress("fetching " + url + " " + branch)
		_, err := git(ctx, repo, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", "+"+branch+":"+ref)
		if err != nil {
			return nil, &TreeError{Spec: spec, Infra: true, Msg: fmt.Sprintf("cannot fetch %s from %s; without a network use --tree with a folder, or debian:linux-source-VERSION if a Debian mirror is reachable", branch, url), Err: err}
		}
	}
	// A base that the branch's tip does not bring along has to be asked for.
	for _, want := range []string{opt.Base, opt.SeriesBase} {
		if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(want) {
			continue
		}
		if _, err := git(ctx, repo, "cat-file", "-e", want+"^{commit}"); err != nil {
			opt.Progress("fetching commit " + want[:12])
			git(ctx, repo, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", want)
		}
		break
	}
	if opt.Base == "" && opt.SeriesBase == "" {
		opt.Base = ref
	} else if opt.Base == "" {
		if _, err := git(ctx, repo, "cat-file", "-e", opt.SeriesBase+"^{commit}"); err != nil {
			opt.Base = ref
			t, err := resolveCommit(ctx, c, repo, "remote:"+url, opt)
			if err == nil {
				t.Notes = append(t.Notes, fmt.Sprintf("the series' base-commit %.12s cannot be fetched; the tip of %s was taken", opt.SeriesBase, branch))
			}
			return t, err
		}
	}
	return resolveCommit(ctx, c, repo, "remote:"+url, opt)
}

// Export makes Dir available: for git trees, the commit's files are written to
// the cache once. Neither the repository's index nor its work tree is used.
func (t *Tree) Export(ctx context.Context) (string, error) {
	if t.Dir != "" {
		return t.Dir, nil
	}
	key := strings.ReplaceAll(t.ID, ":", "-")
	if dir, err := t.cache.Lookup("trees", key); err == nil {
		t.cache.Touch("trees", key)
		t.Dir, t.owned = dir, true
		return dir, nil
	}
	lock, err := t.cache.Lock(ctx, "tree-"+key, nil)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	dir, err := t.cache.Lookup("trees", key)
	if err != nil {
		dir, err = t.cache.Put("trees", key, func(dir string) error {
			return pipe(ctx, append(gitArgv(t.Repo), "archive", "--format=tar", t.Commit), []string{"tar", "-x", "-f", "-", "-C", dir, "--no-same-owner"})
		}, cache.Light)
	}
	if err != nil {
		return "", &TreeError{Spec: t.Spec, Infra: true, Msg: fmt.Sprintf("cannot write out commit %.12s", t.Commit), Err: err}
	}
	t.Dir, t.owned = dir, true
	return dir, nil
}

// pipe runs from | into; both have to succeed.
func pipe(ctx context.Context, from, into []string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errc := make(chan error, 1)
	go func() {
		// MaxOutput 1: the data goes through the pipe and is not kept.
		_, err := proc.Run(ctx, proc.Cmd{Argv: from, Env: gitEnv(), Stdout: w, MaxOutput: 1})
		w.Close()
		errc <- err
	}()
	_, err = proc.Run(ctx, proc.Cmd{Argv: into, Stdin: r})
	r.Close()
	if err != nil {
		cancel()
		<-errc
		return err
	}
	return <-errc
}

// catFile reads blobs through one git process.
type catFile struct {
	repo string
	mu   sync.Mutex
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

func (c *catFile) start() error {
	if c.cmd != nil {
		return nil
	}
	argv := append(gitArgv(c.repo), "cat-file", "--batch")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = gitEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start git: %w", err)
	}
	// The process ends by itself when its standard input does, which is when
	// this process is gone, however that comes about.
	c.cmd, c.in, c.out = cmd, in, bufio.NewReaderSize(out, 64<<10)
	return nil
}

// Close ends the git process.
func (c *catFile) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd != nil {
		c.in.Close()
		c.cmd.Wait()
		c.cmd = nil
	}
}

func (c *catFile) read(commit, name string) ([]byte, fs.FileMode, error) {
	if strings.ContainsAny(name, "\n\x00") {
		return nil, 0, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	notExist := &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "." {
		return nil, fs.ModeDir | 0o755, nil
	}
	// The mode stands in the folder's tree object.
	dir, base := filepath.Split(name)
	kind, listing, err := c.object(commit + ":" + strings.TrimSuffix(dir, "/"))
	if errors.Is(err, errNoObject) || err == nil && kind != "tree" {
		return nil, 0, c.beyondLink(commit, name, notExist)
	}
	if err != nil {
		return nil, 0, err
	}
	mode, ok := treeMode(listing, base, len(commit)/2)
	switch {
	case !ok || mode == "160000":
		return nil, 0, notExist
	case mode == "40000":
		return nil, fs.ModeDir | 0o755, nil
	}
	_, data, err := c.object(commit + ":" + name)
	if err != nil {
		if errors.Is(err, errNoObject) {
			err = notExist
		}
		return nil, 0, err
	}
	switch mode {
	case "120000":
		return data, fs.ModeSymlink | 0o777, nil
	case "100755":
		return data, 0o755, nil
	}
	return data, 0o644, nil
}

// beyondLink tells a path through a symbolic link from one that is not there.
func (c *catFile) beyondLink(commit, name string, notExist error) error {
	parts := strings.Split(name, "/")
	for i := 1; i < len(parts); i++ {
		kind, listing, err := c.object(commit + ":" + strings.Join(parts[:i-1], "/"))
		if err != nil || kind != "tree" {
			return notExist
		}
		if mode, _ := treeMode(listing, parts[i-1], len(commit)/2); mode == "120000" {
			return &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w (%s)", diff.ErrSymlink, strings.Join(parts[:i], "/"))}
		}
	}
	return notExist
}

var errNoObject = errors.New("no such object")

func (c *catFile) object(name string) (kind string, data []byte, err error) {
	if err := c.start(); err != nil {
		return "", nil, err
	}
	if _, err := io.WriteString(c.in, name+"\n"); err != nil {
		return "", nil, fmt.Errorf("git cat-file ended: %w", err)
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		return "", nil, fmt.Errorf("git cat-file ended: %w", err)
	}
	if strings.HasSuffix(line, " missing\n") || strings.HasSuffix(line, " ambiguous\n") {
		return "", nil, errNoObject
	}
	f := strings.Fields(line)
	if len(f) != 3 {
		return "", nil, fmt.Errorf("git cat-file answered %q", line)
	}
	n, err := strconv.Atoi(f[2])
	if err != nil {
		return "", nil, fmt.Errorf("git cat-file answered %q", line)
	}
	data = make([]byte, n+1)
	if _, err := io.ReadFull(c.out, data); err != nil {
		return "", nil, err
	}
	return f[1], data[:n], nil
}

// treeMode finds an entry in a raw tree object: "mode name\0hash" repeated.
func treeMode(listing []byte, name string, hashLen int) (string, bool) {
	s := string(listing)
	for s != "" {
		head, rest, ok := strings.Cut(s, "\x00")
		if !ok || len(rest) < hashLen {
			return "", false
		}
		mode, n, _ := strings.Cut(head, " ")
		if n == name {
			return mode, true
		}
		s = rest[hashLen:]
	}
	return "", false
}

// Close ends helper processes of the tree. The tree stays usable.
func (t *Tree) Close() {
	if t.git != nil {
		t.git.Close()
	}
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
