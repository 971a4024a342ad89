// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
)

// SourcePackage is the source of a Debian package, fetched.
type SourcePackage struct {
	Name    string
	Version string    // Debian's, as in the .dsc's name
	Files   []Package // the .dsc, the upstream archive, Debian's changes: Name is the file's name
}

// Upstream is the path of the upstream archive (NAME_VERSION.orig.tar.*).
func (s SourcePackage) Upstream() (string, error) {
	for _, f := range s.Files {
		if strings.Contains(f.Name, ".orig.tar.") && !strings.HasSuffix(f.Name, ".asc") {
			return f.Path, nil
		}
	}
	return "", fmt.Errorf("the Debian source package %s has no upstream archive", s.Name)
}

// Source fetches the source of a package. Indexes of sources are large and
// rarely wanted, so they are kept apart from those of binary packages and read
// at the first call.
func (r *Root) Source(ctx context.Context, name string) (SourcePackage, error) {
	if err := checkNames([]string{name}); err != nil {
		return SourcePackage{}, err
	}
	l, err := r.lock(ctx)
	if err != nil {
		return SourcePackage{}, err
	}
	defer l.Close()
	lists, list := filepath.Join(r.dir, "lists-source"), filepath.Join(r.dir, "sources-source.list")
	for _, d := range []string{filepath.Join(lists, "partial"), r.sourceFolder()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return SourcePackage{}, err
		}
	}
	binary, err := os.ReadFile(filepath.Join(r.dir, "sources.list"))
	if err != nil {
		return SourcePackage{}, err
	}
	if err := writeIfDifferent(list, []byte(sourceLines(string(binary)))); err != nil {
		return SourcePackage{}, err
	}
	apt := func(args ...string) (proc.Result, error) {
		argv := append([]string{"apt-get", "-c", filepath.Join(r.dir, "apt.conf"), "-q", "-o", "Dir::State::Lists=" + lists, "-o", "Dir::Etc::SourceList=" + list}, args...)
		return proc.Run(ctx, proc.Cmd{Argv: argv, Env: append(proc.MinimalEnv(), "DEBIAN_FRONTEND=noninteractive"), Dir: r.sourceFolder()})
	}
	update := func() error {
		r.progress("reading the source index of " + strings.Join(r.suites, ", "))
		res, err := apt("-o", "APT::Update::Error-Mode=any", "update")
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &UnavailableError{What: "the Debian mirror's index of sources cannot be read; is there a network?", Err: firstAptError(string(res.Stderr)+string(res.Stdout), err)}
		}
		return os.WriteFile(filepath.Join(lists, "updated"), nil, 0o644)
	}
	fresh := false
	if _, err := os.Stat(filepath.Join(lists, "updated")); err != nil || r.refresh {
		if err := update(); err != nil {
			return SourcePackage{}, err
		}
		fresh = true
	}
	for {
		s, err := r.source(ctx, apt, name)
		if err == nil || fresh || ctx.Err() != nil {
			return s, err
		}
		// The mirror may have moved on since the index was read.
		if err := update(); err != nil {
			return SourcePackage{}, err
		}
		fresh = true
	}
}

func (r *Root) sourceFolder() string { return r.cache.Path("debian", "sources") }

func (r *Root) source(ctx context.Context, apt func(...string) (proc.Result, error), name string) (SourcePackage, error) {
	// Files that are in the current folder already are left out of the list.
	none := filepath.Join(r.dir, "none")
	if err := os.MkdirAll(none, 0o755); err != nil {
		return SourcePackage{}, err
	}
	list := []string{"source", "--download-only", "--print-uris", "--", name}
	res, err := apt(append([]string{"-o", "Dir::Cache::Archives=" + none}, list...)...)
	if err != nil {
		return SourcePackage{}, &NotFoundError{Name: name + " (source)", Suites: r.suites, Detail: firstAptError(string(res.Stderr), err).Error()}
	}
	s := SourcePackage{Name: name}
	if s.Files, err = parseSourceURIs(string(res.Stdout)); err != nil {
		return s, err
	}
	var size int64
	missing := false
	for i := range s.Files {
		f := &s.Files[i]
		f.Path = filepath.Join(r.sourceFolder(), f.Name)
		if v, ok := strings.CutSuffix(f.Name, ".dsc"); ok {
			_, s.Version, _ = strings.Cut(v, "_")
		}
		if f.verify() != nil {
			missing = true
			size += f.Size
		}
	}
	if s.Version == "" || len(s.Files) < 2 {
		return s, fmt.Errorf("apt lists no whole source package for %s", name)
	}
	if !missing {
		return s, nil
	}
	if free, err := cache.FreeBytes(r.sourceFolder()); err == nil && free < size {
		return s, &cache.FullError{Path: r.cache.Root(), Err: fmt.Errorf("%d MB are to be downloaded", size>>20)}
	}
	r.progress(fmt.Sprintf("downloading the source of %s %s, %.1f MB", name, s.Version, float64(size)/1e6))
	if res, err := apt("source", "--download-only", "--", name+"="+s.Version); err != nil {
		if ctx.Err() != nil {
			return s, ctx.Err()
		}
		return s, &UnavailableError{What: "the source of " + name + " cannot be fetched", Err: firstAptError(string(res.Stderr), err)}
	}
	var errs []error
	for _, f := range s.Files {
		if err := f.verify(); err != nil {
			errs = append(errs, fmt.Errorf("apt downloaded %s and it is not what the index says: %w", f.Name, err))
		}
	}
	return s, errors.Join(errs...)
}

// sourceLines turns the lines of a sources.list into those for sources.
func sourceLines(binary string) string {
	var b strings.Builder
	for line := range strings.Lines(binary) {
		if rest, ok := strings.CutPrefix(line, "deb "); ok {
			b.WriteString("deb-src " + rest)
		}
	}
	return b.String()
}

// parseSourceURIs reads what apt-get source --print-uris prints: 'URI' file
// size hash, and lines for people. A file without a SHA-256 is refused.
func parseSourceURIs(out string) ([]Package, error) {
	var files []Package
	for line := range strings.Lines(out) {
		m := fetchURI.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		name := m[2]
		if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
			return nil, fmt.Errorf("apt names the file %q, which is no plain name", name)
		}
		if m[4] == "" {
			return nil, fmt.Errorf("apt gives no SHA-256 for %s", name)
		}
		p := Package{Name: name, SHA256: m[4]}
		if _, err := fmt.Sscan(m[3], &p.Size); err != nil {
			return nil, fmt.Errorf("apt gives the size %q for %s", m[3], name)
		}
		files = append(files, p)
	}
	return files, nil
}
