// SPDX-License-Identifier: Apache-2.0

// Package debian owns getting packages of any Debian suite without changing
// the host: a private apt root with lists, archives and settings of its own,
// the host's mirror and proxy, and Debian's archive keyring. apt checks every
// download against the signed index. It works as root and as anybody else.
package debian

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
)

// Keyring is where the package debian-archive-keyring puts Debian's keys.
const Keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// MirrorEnv overrides the mirror found in the host's configuration.
const MirrorEnv = "PATCHCHECK_DEBIAN_MIRROR"

// Root is a private apt root for one set of suites.
type Root struct {
	cache    *cache.Cache
	dir      string
	suites   []string
	arch     string
	progress func(string)
	refresh  bool
	ready    bool // indexes are there
	trusted  bool // for tests: a mirror whose index nobody signed
}

// Options say how a Root behaves.
type Options struct {
	Suites   []string     // "bookworm", "trixie-backports"; a suite on the security archive ends in -security
	Arch     string       // "" means amd64
	Refresh  bool         // read the mirror's indexes anew even if there are some
	Progress func(string) // told what is being done, in a line; may be nil
}

// Package is one package that was found, and after Download also fetched.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Arch    string `json:"arch"`
	Size    int64  `json:"size"`             // bytes of the .deb
	SHA256  string `json:"sha256,omitempty"` // as apt's signed index says
	Path    string `json:"path,omitempty"`   // of the .deb; set by Download
}

// NotFoundError is a package that no index of the root has.
type NotFoundError struct {
	Name   string
	Suites []string
	Detail string
}

func (e *NotFoundError) Error() string {
	s := fmt.Sprintf("Debian package %s is not in %s", e.Name, strings.Join(e.Suites, ", "))
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// UnavailableError is a mirror that cannot be used: no network, no apt, no
// keyring. It says nothing about the package.
type UnavailableError struct {
	What string
	Err  error
}

func (e *UnavailableError) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// Open prepares the root of these suites below the cache's debian folder. It
// uses no network.
func Open(ctx context.Context, c *cache.Cache, opt Options) (*Root, error) {
	if len(opt.Suites) == 0 {
		return nil, errors.New("debian: no suite given")
	}
	r := &Root{cache: c, suites: opt.Suites, arch: opt.Arch, progress: opt.Progress, refresh: opt.Refresh}
	if r.arch == "" {
		r.arch = "amd64"
	}
	if r.progress == nil {
		r.progress = func(string) {}
	}
	for _, s := range append([]string{r.arch}, r.suites...) {
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`).MatchString(s) {
			return nil, fmt.Errorf("debian: %q is no suite or architecture", s)
		}
	}
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, &UnavailableError{What: "Debian packages cannot be fetched because this host has no " + tool + "; use a Debian or Ubuntu host, or a tree given by its folder"}
		}
	}
	if _, err := os.Stat(Keyring); err != nil {
		return nil, &UnavailableError{What: "Debian packages cannot be checked because " + Keyring + " is missing; install debian-archive-keyring"}
	}
	r.dir = c.Path("debian", strings.Join(r.suites, "+")+"_"+r.arch)
	return r, nil
}

// lock keeps two processes from working on one root at once, and writes its
// settings.
func (r *Root) lock(ctx context.Context) (*cache.Lock, error) {
	l, err := r.cache.Lock(ctx, "debian-"+filepath.Base(r.dir), func(h string) { r.progress("waiting for " + h + ", which fetches Debian packages") })
	if err != nil {
		return nil, err
	}
	if err := r.setUp(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (r *Root) archives() string { return r.cache.Path("debian", "archives") }

// setUp writes apt.conf and sources.list.
func (r *Root) setUp(ctx context.Context) error {
	for _, d := range []string{"lists/partial", "etc", "cache", "state"} {
		if err := os.MkdirAll(filepath.Join(r.dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(r.archives(), "partial"), 0o755); err != nil {
		return err
	}
	list := filepath.Join(r.dir, "sources.list")
	sources, err := r.sources(ctx)
	if err != nil {
		if _, serr := os.Stat(list); serr != nil {
			return err
		}
		// The host's configuration is gone; what worked before may still do.
	} else if err := writeIfDifferent(list, []byte(sources)); err != nil {
		return err
	}
	if err := writeIfDifferent(filepath.Join(r.dir, "status"), nil); err != nil {
		return err
	}
	q := func(p string) string { return strconv.Quote(p) }
	var b strings.Builder
	// The host's own hooks must not run for us: some remove files of the host.
	for _, k := range []string{"APT::Update::Pre-Invoke", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success", "DPkg::Pre-Invoke", "DPkg::Post-Invoke", "DPkg::Pre-Install-Pkgs", "APT::Archives", "APT::Default-Release", "APT::Architectures", "Dir::Etc::Preferences", "Dir::Etc::PreferencesParts"} {
		fmt.Fprintf(&b, "#clear %s;\n", k)
	}
	fmt.Fprintf(&b, "Dir::State %s;\nDir::State::Lists %s;\nDir::State::Status %s;\nDir::State::extended_states %s;\n",
		q(filepath.Join(r.dir, "state")), q(filepath.Join(r.dir, "lists")), q(filepath.Join(r.dir, "status")), q(filepath.Join(r.dir, "state", "extended_states")))
	fmt.Fprintf(&b, "Dir::Cache %s;\nDir::Cache::Archives %s;\n", q(filepath.Join(r.dir, "cache")), q(r.archives()))
	fmt.Fprintf(&b, "Dir::Etc::SourceList %s;\nDir::Etc::SourceParts \"/dev/null\";\nDir::Etc::Preferences \"/dev/null\";\nDir::Etc::PreferencesParts \"/dev/null\";\n", q(list))
	fmt.Fprintf(&b, "Dir::Log %s;\n", q(filepath.Join(r.dir, "state")))
	fmt.Fprintf(&b, "APT::Architecture %s;\nAPT::Architectures { %s; };\n", q(r.arch), q(r.arch))
	b.WriteString("APT::Sandbox::User \"root\";\nAPT::Keep-Downloaded-Packages \"true\";\nAPT::Install-Recommends \"false\";\nAPT::Get::List-Cleanup \"false\";\n")
	b.WriteString("Acquire::Retries \"3\";\nAcquire::Languages \"none\";\nAcquire::http::Timeout \"30\";\nAcquire::https::Timeout \"30\";\nAcquire::PDiffs \"false\";\nAcquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\nAcquire::IndexTargets::deb::Contents-deb::DefaultEnabled \"false\";\n")
	return writeIfDifferent(filepath.Join(r.dir, "apt.conf"), []byte(b.String()))
}

// sources makes sources.list from the mirrors that the host itself uses.
func (r *Root) sources(ctx context.Context) (string, error) {
	main, security := os.Getenv(MirrorEnv), os.Getenv(MirrorEnv)
	if main == "" {
		res, err := proc.Run(ctx, proc.Cmd{Argv: []string{"apt-get", "indextargets", "--format", "$(SITE)|$(ORIGIN)|$(RELEASE)", "Created-By: Packages"}})
		if err != nil {
			return "", &UnavailableError{What: "the host's apt configuration cannot be read", Err: err}
		}
		main, security = pickMirrors(string(res.Stdout))
		if main == "" {
			return "", &UnavailableError{What: "the host's apt configuration names no Debian mirror; put the address of one into " + MirrorEnv}
		}
	}
	var b strings.Builder
	for _, s := range r.suites {
		site := main
		if strings.HasSuffix(s, "-security") {
			if site = security; site == "" {
				r.progress("the host uses no security mirror, so " + s + " is left out")
				continue
			}
		}
		how := "signed-by=" + Keyring
		if r.trusted {
			how = "trusted=yes"
		}
		fmt.Fprintf(&b, "deb [%s] %s %s main\n", how, site, s)
	}
	return b.String(), nil
}

// pickMirrors reads "site|origin|release" lines.
func pickMirrors(out string) (main, security string) {
	for _, line := range strings.Split(out, "\n") {
		f := strings.Split(line, "|")
		if len(f) < 3 || f[0] == "" {
			continue
		}
		// Before the host's first update the origin is not known yet; then the
		// path, which is "debian" on Debian's mirrors, has to do.
		if f[1] != "Debian" && (f[1] != "" || !strings.Contains(f[0], "/debian")) {
			continue
		}
		if strings.HasSuffix(f[2], "-security") || strings.Contains(f[0], "debian-security") {
			if security == "" {
				security = f[0]
			}
		} else if main == "" {
			main = f[0]
		}
	}
	return main, security
}

func writeIfDifferent(path string, data []byte) error {
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, data) {
		return nil
	}
	return cache.WriteFile(path, data, 0o644)
}

// apt runs one of apt's programs on the root.
func (r *Root) apt(ctx context.Context, tool string, args ...string) (proc.Result, error) {
	argv := append([]string{tool, "-c", filepath.Join(r.dir, "apt.conf"), "-q"}, args...)
	env := append(proc.MinimalEnv(), "DEBIAN_FRONTEND=noninteractive")
	return proc.Run(ctx, proc.Cmd{Argv: argv, Env: env, Dir: r.archives()})
}

// aptElsewhere runs apt where there are no packages: with --print-uris it
// leaves out of its list what it finds in the current folder or its archive.
func (r *Root) aptElsewhere(ctx context.Context, tool string, args ...string) (proc.Result, error) {
	none := filepath.Join(r.dir, "none")
	if err := os.MkdirAll(filepath.Join(none, "partial"), 0o755); err != nil {
		return proc.Result{Exit: -1}, err
	}
	argv := append([]string{tool, "-c", filepath.Join(r.dir, "apt.conf"), "-q", "-o", "Dir::Cache::Archives=" + none}, args...)
	env := append(proc.MinimalEnv(), "DEBIAN_FRONTEND=noninteractive")
	return proc.Run(ctx, proc.Cmd{Argv: argv, Env: env, Dir: none})
}

// update reads the mirror's indexes.
func (r *Root) update(ctx context.Context) error {
	r.progress("reading the package index of " + strings.Join(r.suites, ", "))
	res, err := r.apt(ctx, "apt-get", "-o", "APT::Update::Error-Mode=any", "update")
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		all := string(res.Stderr) + string(res.Stdout)
		if strings.Contains(all, "does not have a Release file") || strings.Contains(all, "404  Not Found") {
			return &UnavailableError{What: fmt.Sprintf("the Debian mirror does not carry all of %s", strings.Join(r.suites, ", ")), Err: firstAptError(all, err)}
		}
		return &UnavailableError{What: "the Debian mirror cannot be read; is there a network?", Err: firstAptError(all, err)}
	}
	r.ready = true
	return os.WriteFile(filepath.Join(r.dir, "updated"), nil, 0o644)
}

// firstAptError picks apt's own words.
func firstAptError(out string, err error) error {
	sc := bufio.NewScanner(strings.NewReader(out))
	for sc.Scan() {
		for _, p := range []string{"E: ", "Err:", "W: "} {
			if strings.HasPrefix(sc.Text(), p) {
				return errors.New(strings.TrimPrefix(sc.Text(), p))
			}
		}
	}
	return err
}

// ensureIndex reads the indexes when there are none, or when Refresh was asked
// for and not yet done.
func (r *Root) ensureIndex(ctx context.Context) error {
	if r.ready {
		return nil
	}
	if !r.refresh {
		if _, err := os.Stat(filepath.Join(r.dir, "updated")); err == nil {
			r.ready = true
			return nil
		}
	}
	return r.update(ctx)
}

// fetchURI is a line of apt-get --print-uris: 'URI' file size hash.
var fetchURI = regexp.MustCompile(`^'([^']+)' (\S+) ([0-9]+) ?(?:SHA256:([0-9a-f]{64}))?`)

// Resolve finds packages, with everything they depend on when closure is set
// (no recommended packages; as for an empty system). The names may carry
// "=version" or "/suite".
func (r *Root) Resolve(ctx context.Context, closure bool, names ...string) ([]Package, error) {
	l, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return r.resolve(ctx, closure, names)
}

func (r *Root) resolve(ctx context.Context, closure bool, names []string) ([]Package, error) {
	if err := checkNames(names); err != nil {
		return nil, err
	}
	if err := r.ensureIndex(ctx); err != nil {
		return nil, err
	}
	args := []string{"download", "--print-uris"}
	if closure {
		args = []string{"install", "--yes", "--print-uris", "--no-install-recommends", "--reinstall"}
	}
	res, err := r.aptElsewhere(ctx, "apt-get", append(append(args, "--"), names...)...)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, r.explain(res, names, err)
	}
	return parseURIs(string(res.Stdout))
}

func checkNames(names []string) error {
	if len(names) == 0 {
		return errors.New("debian: no package named")
	}
	for _, n := range names {
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9+.:-]*([=/][A-Za-z0-9+.:~-]+)?$`).MatchString(n) {
			return fmt.Errorf("%q is no name of a Debian package", n)
		}
	}
	return nil
}

var (
	reUnable  = regexp.MustCompile(`Unable to locate package (\S+)|Couldn't find any package by [a-z ]+ '([^']+)'|Package '?(\S+?)'? has no installation candidate|Version '[^']*' for '(\S+)' was not found|Can't find a source to download version '[^']*' of '([^']+)'|No packages found`)
	reFetched = regexp.MustCompile(`(?m)^E: (Failed to fetch .*|Unable to fetch .*)`)
)

// explain turns apt's error output into a typed error.
func (r *Root) explain(res proc.Result, names []string, err error) error {
	stderr := string(res.Stderr)
	if m := reUnable.FindStringSubmatch(stderr); m != nil {
		name := strings.Join(names, ", ")
		for _, g := range m[1:] {
			if g != "" {
				name = g
			}
		}
		return &NotFoundError{Name: name, Suites: r.suites}
	}
	if m := reFetched.FindStringSubmatch(stderr); m != nil {
		return &UnavailableError{What: "a Debian package cannot be downloaded", Err: errors.New(m[1])}
	}
	if strings.Contains(stderr, "No space left") || strings.Contains(stderr, "enough free space") {
		return &cache.FullError{Path: r.cache.Root(), Err: err}
	}
	if strings.Contains(stderr, "unmet dependencies") || strings.Contains(stderr, "held broken packages") {
		detail := "its dependencies cannot be met there"
		for _, line := range strings.Split(string(res.Stdout), "\n") {
			if strings.Contains(line, "Depends:") || strings.Contains(line, "Conflicts:") {
				detail += "; " + strings.TrimSpace(line)
			}
		}
		return &NotFoundError{Name: strings.Join(names, ", "), Suites: r.suites, Detail: detail}
	}
	return err
}

func parseURIs(out string) ([]Package, error) {
	var pkgs []Package
	for _, line := range strings.Split(out, "\n") {
		m := fetchURI.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		name, version, arch, ok := splitDebName(m[2])
		if !ok {
			return nil, fmt.Errorf("apt answered with the file name %q, which is not NAME_VERSION_ARCH.deb", m[2])
		}
		size, _ := strconv.ParseInt(m[3], 10, 64)
		pkgs = append(pkgs, Package{Name: name, Version: version, Arch: arch, Size: size, SHA256: m[4]})
	}
	if len(pkgs) == 0 {
		return nil, errors.New("apt named no package to fetch")
	}
	sort.Slice(pkgs, func(i, j int) bool { return pkgs[i].Name < pkgs[j].Name })
	return pkgs, nil
}

// splitDebName reads apt's file name, in which a colon is written %3a.
func splitDebName(file string) (name, version, arch string, ok bool) {
	f := strings.Split(strings.TrimSuffix(file, ".deb"), "_")
	if len(f) != 3 || !strings.HasSuffix(file, ".deb") {
		return "", "", "", false
	}
	return f[0], strings.NewReplacer("%3a", ":", "%3A", ":").Replace(f[1]), f[2], true
}

func (p Package) file() string {
	return fmt.Sprintf("%s_%s_%s.deb", p.Name, strings.ReplaceAll(p.Version, ":", "%3a"), p.Arch)
}

// Download resolves and fetches. Files that are there already and match the
// index are not fetched again; one that was cut short is continued. When the
// mirror no longer has what the index says, the index is read anew, once.
func (r *Root) Download(ctx context.Context, closure bool, names ...string) ([]Package, error) {
	l, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	pkgs, err := r.resolve(ctx, closure, names)
	var nf *NotFoundError
	if errors.As(err, &nf) && !r.refresh {
		// The index may be older than the package.
		if uerr := r.update(ctx); uerr == nil {
			pkgs, err = r.resolve(ctx, closure, names)
		}
	}
	if err != nil {
		return nil, err
	}
	got, err := r.fetch(ctx, pkgs)
	var ua *UnavailableError
	if errors.As(err, &ua) && strings.Contains(err.Error(), "404") {
		if err := r.update(ctx); err != nil {
			return nil, err
		}
		if pkgs, err = r.resolve(ctx, closure, names); err != nil {
			return nil, err
		}
		got, err = r.fetch(ctx, pkgs)
	}
	return got, err
}

// fetch downloads exactly these versions into the archive folder.
func (r *Root) fetch(ctx context.Context, pkgs []Package) ([]Package, error) {
	var want []string
	var bytesLeft int64
	out := make([]Package, len(pkgs))
	for i, p := range pkgs {
		p.Path = filepath.Join(r.archives(), p.file())
		out[i] = p
		if p.verify() != nil {
			os.Remove(p.Path)
			want = append(want, p.Name+":"+r.archOf(p)+"="+p.Version)
			bytesLeft += p.Size
		}
	}
	if len(want) == 0 {
		return out, nil
	}
	if free, err := cache.FreeBytes(r.archives()); err == nil && free < bytesLeft {
		return nil, &cache.FullError{Path: r.cache.Root(), Err: fmt.Errorf("%d MB are to be downloaded", bytesLeft>>20)}
	}
	r.progress(fmt.Sprintf("downloading %d Debian package%s, %.1f MB", len(want), map[bool]string{true: "s"}[len(want) > 1], float64(bytesLeft)/1e6))
	// `apt-get download` writes to the current folder, takes exact versions,
	// checks the signed hash and resumes from partial/.
	res, err := r.apt(ctx, "apt-get", append([]string{"download", "--"}, want...)...)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, r.explain(res, want, err)
	}
	for _, p := range out {
		if err := p.verify(); err != nil {
			return nil, fmt.Errorf("apt downloaded %s and it is not what the index says: %w", p.Name, err)
		}
	}
	return out, nil
}

func (r *Root) archOf(p Package) string {
	if p.Arch == "all" {
		return r.arch
	}
	return p.Arch
}

// verify checks a downloaded file against the index.
func (p Package) verify() error {
	f, err := os.Open(p.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return err
	}
	if n != p.Size {
		return fmt.Errorf("%s has %d bytes, the index says %d", p.Path, n, p.Size)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); p.SHA256 != "" && sum != p.SHA256 {
		return fmt.Errorf("%s has SHA-256 %s, the index says %s", p.Path, sum, p.SHA256)
	}
	return nil
}

// Names lists the packages of the root's indexes whose names begin with
// prefix, sorted.
func (r *Root) Names(ctx context.Context, prefix string) ([]string, error) {
	l, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := r.ensureIndex(ctx); err != nil {
		return nil, err
	}
	res, err := r.apt(ctx, "apt-cache", "pkgnames", "--", prefix)
	if err != nil {
		return nil, err
	}
	names := strings.Fields(string(res.Stdout))
	sort.Strings(names)
	return names, nil
}

// Extract unpacks the files of a package below dir. No maintainer script runs.
func Extract(ctx context.Context, p Package, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	_, err := proc.Run(ctx, proc.Cmd{Argv: []string{"dpkg-deb", "-x", p.Path, dir}})
	return err
}
