// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"patchcheck/internal/cache"
	"patchcheck/internal/debian"
	"patchcheck/internal/proc"
)

// debianSuites are where kernel sources are looked for, in this order. The
// first holds newer kernels built for a stable release.
var debianSuites = []string{"trixie-backports", "sid"}

var reLinuxSource = regexp.MustCompile(`^linux-source-([0-9]+)\.([0-9]+)$`)

// debianMeta is what an unpacked source package says of itself.
type debianMeta struct {
	Package string `json:"package"`
	Version string `json:"version"`
	Suite   string `json:"suite"`
	SHA256  string `json:"sha256"` // of the .deb
	Top     string `json:"top"`    // folder of the sources within the entry
}

const debianMetaName = "debian.json"

// resolveDebian finds an unpacked package in the cache or fetches one. When
// the series that was asked for is gone from Debian, the next newer one is
// taken and the tree's notes say so.
func resolveDebian(ctx context.Context, c *cache.Cache, name string, opt TreeOptions) (*Tree, error) {
	if opt.Base != "" {
		return nil, &TreeError{Msg: fmt.Sprintf("a Debian package has no revisions, so --base %s means nothing here", opt.Base)}
	}
	if !reLinuxSource.MatchString(name) {
		return nil, &TreeError{Msg: "expected debian:linux-source-VERSION, such as " + DefaultTree}
	}
	if !opt.Refresh {
		if t := cachedDebian(c, name); t != nil {
			return t, nil
		}
	}
	lock, err := c.Lock(ctx, "tree-debian", func(h string) { opt.Progress("waiting for " + h + ", which unpacks a kernel tree") })
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if !opt.Refresh {
		if t := cachedDebian(c, name); t != nil {
			return t, nil
		}
	}
	pkg, suite, note, err := findDebian(ctx, c, name, opt)
	if err != nil {
		if t := newestDebian(c, name); t != nil {
			t.Notes = append(t.Notes, fmt.Sprintf("%s cannot be fetched (%v); %s from the cache was taken", name, err, t.PackageVersion))
			return t, nil
		}
		return nil, err
	}
	t, err := unpackDebian(ctx, c, pkg, suite, opt)
	if err != nil {
		return nil, err
	}
	if note != "" {
		t.Notes = append(t.Notes, note)
	}
	return t, nil
}

// findDebian downloads name, or the next newer series.
func findDebian(ctx context.Context, c *cache.Cache, name string, opt TreeOptions) (p debian.Package, suite, note string, err error) {
	var gone *debian.NotFoundError
	for _, suite := range debianSuites {
		r, err := debian.Open(ctx, c, debian.Options{Suites: []string{suite}, Refresh: opt.Refresh, Progress: opt.Progress})
		if err != nil {
			return p, "", "", &TreeError{Infra: true, Msg: "cannot be fetched", Err: err}
		}
		got, err := r.Download(ctx, false, name)
		if err == nil {
			return got[0], suite, "", nil
		}
		if !errors.As(err, &gone) {
			return p, "", "", &TreeError{Infra: true, Msg: "cannot be fetched", Err: err}
		}
	}
	for _, suite := range debianSuites {
		r, err := debian.Open(ctx, c, debian.Options{Suites: []string{suite}, Progress: opt.Progress})
		if err != nil {
			continue
		}
		names, err := r.Names(ctx, "linux-source-")
		if err != nil {
			continue
		}
		next := nextSeries(name, names)
		if next == "" {
			continue
		}
		opt.Progress(name + " is gone from Debian; taking " + next)
		got, err := r.Download(ctx, false, next)
		if err != nil {
			continue
		}
		return got[0], suite, fmt.Sprintf("Debian no longer has %s; %s (%s) was taken", name, next, got[0].Version), nil
	}
	return p, "", "", &TreeError{Msg: fmt.Sprintf("Debian has neither %s nor a newer series in %s; name another with --tree", name, strings.Join(debianSuites, " or "))}
}

// nextSeries picks the smallest series of names above the one in name.
func nextSeries(name string, names []string) string {
	series := func(n string) (int, bool) {
		m := reLinuxSource.FindStringSubmatch(n)
		if m == nil {
			return 0, false
		}
		a, _ := strconv.Atoi(m[1])
		b, _ := strconv.Atoi(m[2])
		return a*10000 + b, true
	}
	want, _ := series(name)
	best, bestN := "", 0
	for _, n := range names {
		if s, ok := series(n); ok && s > want && (best == "" || s < bestN) {
			best, bestN = n, s
		}
	}
	return best
}

// cachedDebian returns the newest unpacked version of exactly that package.
func cachedDebian(c *cache.Cache, name string) *Tree {
	var best *Tree
	dirs, _ := filepath.Glob(c.Path("trees", "debian-"+name+"_*"))
	sort.Strings(dirs)
	for _, d := range dirs {
		t, err := openDebian(c, filepath.Base(d))
		if err == nil && (best == nil || debianNewer(t.PackageVersion, best.PackageVersion)) {
			best = t
		}
	}
	return best
}

// newestDebian is the fallback without a network: the next newer series that
// is in the cache.
func newestDebian(c *cache.Cache, name string) *Tree {
	var names []string
	dirs, _ := filepath.Glob(c.Path("trees", "debian-linux-source-*"))
	for _, d := range dirs {
		n, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(d), "debian-"), "_")
		names = append(names, n)
	}
	if next := nextSeries(name, names); next != "" {
		return cachedDebian(c, next)
	}
	return nil
}

// debianNewer asks dpkg, which knows what ~ means.
func debianNewer(a, b string) bool {
	_, err := proc.Run(context.Background(), proc.Cmd{Argv: []string{"dpkg", "--compare-versions", a, "gt", b}})
	return err == nil
}

// openDebian makes a Tree of a cache entry.
func openDebian(c *cache.Cache, key string) (*Tree, error) {
	dir, err := c.Lookup("trees", key)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, debianMetaName))
	if err != nil {
		return nil, err
	}
	var m debianMeta
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	if !filepath.IsLocal(m.Top) {
		return nil, fmt.Errorf("%s names the folder %q", filepath.Join(dir, debianMetaName), m.Top)
	}
	top := filepath.Join(dir, m.Top)
	version, err := looksLikeKernel(func(n string) ([]byte, error) { return os.ReadFile(filepath.Join(top, n)) })
	if err != nil {
		return nil, err
	}
	c.Touch("trees", key)
	id := "debian:" + m.Package + "_" + m.Version + ":" + m.SHA256
	return &Tree{Kind: KindDebian, Version: version, PackageVersion: m.Version, ID: id, Dir: top, owned: true, lineage: id}, nil
}

// unpackDebian unpacks the package's tarball into the cache.
func unpackDebian(ctx context.Context, c *cache.Cache, p debian.Package, suite string, opt TreeOptions) (*Tree, error) {
	key := "debian-" + p.Name + "_" + strings.ReplaceAll(p.Version, ":", "%3a")
	if t, err := openDebian(c, key); err == nil {
		return t, nil
	}
	opt.Progress(fmt.Sprintf("unpacking %s %s", p.Name, p.Version))
	_, err := c.Put("trees", key, func(dir string) error {
		// A kernel tree takes about 1.6 GB; a full disk in the middle is a worse
		// message than this one.
		if free, err := cache.FreeBytes(dir); err == nil && free < 2<<30 {
			return &cache.FullError{Path: c.Root(), Err: errors.New("a kernel tree needs 2 GiB")}
		}
		deb := filepath.Join(dir, "deb")
		if err := debian.Extract(ctx, p, deb); err != nil {
			return err
		}
		tars, _ := filepath.Glob(filepath.Join(deb, "usr/src/linux-source-*.tar.*"))
		if len(tars) != 1 {
			return fmt.Errorf("package %s %s has %d source archives in usr/src where one is expected", p.Name, p.Version, len(tars))
		}
		if _, err := proc.Run(ctx, proc.Cmd{Argv: []string{"tar", "-x", "-f", tars[0], "-C", dir, "--no-same-owner"}}); err != nil {
			return err
		}
		if err := cache.RemoveAll(deb); err != nil {
			return err
		}
		ents, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		top := ""
		for _, e := range ents {
			if e.IsDir() {
				top = e.Name()
			}
		}
		b, err := json.MarshalIndent(debianMeta{p.Name, p.Version, suite, p.SHA256, top}, "", " ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, debianMetaName), b, 0o644)
	}, cache.Light)
	if err != nil {
		return nil, &TreeError{Infra: true, Msg: "cannot be unpacked", Err: err}
	}
	return openDebian(c, key)
}
