// SPDX-License-Identifier: Apache-2.0

// Package runfolder owns the record of a run: its types and its files. A run
// folder is enough to make every report again, to resume, and to repeat each
// external command by hand. It neither runs nor judges anything.
//
// Files: run.json (Run without cells), cells/KERNEL.DEVICE.vNFS.json (one per
// cell), console/NAME/console.log (each guest's console, byte for byte), logs/ (make
// and tool output), commands.sh (external commands, pasteable), series/ (the
// patches as understood), report.txt, page.html; inputs.json, series/input.N and steps/
// (what was asked, as it was read, and what finished steps found: enough to go
// on with the run), lock (held while a process works on the run).
//
// Files are replaced as a whole; only console logs and commands.sh grow.
package runfolder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/guestproto"
	"patchcheck/testplans"
)

// Schema is the version of the files; readers refuse a newer one.
const Schema = 1

// Run is one invocation.
type Run struct {
	Schema  int       `json:"schema"`
	ID      string    `json:"id"`
	Tool    string    `json:"tool"` // patchcheck's version
	Command []string  `json:"command"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`

	Series     Series         `json:"series"`
	Tree       Tree           `json:"tree"`
	Companions []Patch        `json:"companions,omitempty"`
	Plan       testplans.Plan `json:"plan"`
	PlanID     string         `json:"plan_id"` // hash of the plan as used

	Host    Host              `json:"host"`
	Tools   map[string]string `json:"tools,omitempty"` // compiler, qemu, ...: version line
	Accel   Accel             `json:"accel"`
	Kernels map[string]Kernel `json:"kernels,omitempty"` // by role
	Image   Image             `json:"image"`
	Sandbox string            `json:"sandbox,omitempty"` // how builds were confined

	Apply    []Apply          `json:"apply,omitempty"`
	Builds   []Build          `json:"builds,omitempty"`
	Findings []checks.Finding `json:"findings,omitempty"` // not tied to a cell
	Steps    []Step           `json:"steps"`
	Verdict  checks.Verdict   `json:"verdict"`
	Reason   string           `json:"reason,omitempty"`   // of a verdict that is not PASS
	Repeat   int              `json:"repeat,omitempty"`   // clean passes asked per cell
	Passes   int              `json:"passes,omitempty"`   // clean passes of the matrix that are done
	Resumed  []Resumption     `json:"resumed,omitempty"`  // when a process other than the first went on with it
	Notes    []string         `json:"notes,omitempty"`    // what happened to us on the way: a damaged cache entry, a compiler killed
	Variants []string         `json:"variants,omitempty"` // configurations that each patch was compiled in
	NotRun   []string         `json:"not_run,omitempty"`

	JobKey string `json:"job_key,omitempty"` // of all that the answer depends on and that is known before a build
	Target Target `json:"target,omitzero"`   // the names under which the history keeps it; empty: they follow from the rest

	// Shard is set when the run did only some of the plan's cells; Shards when
	// it was put together of such runs.
	Shard  *Shard     `json:"shard,omitempty"`
	Shards []ShardRun `json:"shards,omitempty"`

	// Cells are kept in files of their own.
	Cells []*Cell `json:"-"`

	dir  string
	lock *cache.Lock
}

// Shard is a part of a plan's cells that is run by itself.
type Shard struct {
	Index int      `json:"index"` // from 1
	Of    int      `json:"of"`
	Cells []string `json:"cells"` // ids, in the plan's order
}

// ShardRun is one run that a merged run was made of.
type ShardRun struct {
	Run     string         `json:"run"` // its id
	Shard   string         `json:"shard,omitempty"`
	Verdict checks.Verdict `json:"verdict"`
	Reason  string         `json:"reason,omitempty"`
	Host    Host           `json:"host"`
	Cells   []string       `json:"cells,omitempty"` // whose answers were taken from it
}

// Resumption is one continuation of a run that was killed or interrupted.
type Resumption struct {
	At     time.Time `json:"at"`
	Tool   string    `json:"tool"`             // patchcheck's version
	Notes  []string  `json:"notes,omitempty"`  // what had changed meanwhile, and what that meant
	Reused int       `json:"reused,omitempty"` // cells taken over
}

// Target names what is tested night after night, whatever its state: the tree,
// the series and the plan as a nightly configuration calls them.
type Target struct {
	Tree   string `json:"tree,omitempty"`
	Series string `json:"series,omitempty"`
	Plan   string `json:"plan,omitempty"`
}

// Series is what was tested.
type Series struct {
	ID         string   `json:"id"` // hash of all diffs and messages, in order
	Title      string   `json:"title"`
	Version    int      `json:"version"`
	Total      int      `json:"total"`
	Missing    []int    `json:"missing,omitempty"`
	Cover      bool     `json:"cover"`
	BaseCommit string   `json:"base_commit,omitempty"`
	Sources    []string `json:"sources"`
	Bundled    bool     `json:"bundled,omitempty"`
	Patches    []Patch  `json:"patches"`
}

// Patch identifies one patch.
type Patch struct {
	Index   int    `json:"index"`
	Subject string `json:"subject"`
	Author  string `json:"author,omitempty"`
	ID      string `json:"id"` // hash of message and diff
	Files   int    `json:"files"`
	Added   int    `json:"added"`
	Deleted int    `json:"deleted"`
}

// Tree is the base.
type Tree struct {
	Spec           string `json:"spec"`
	Kind           string `json:"kind"`
	Version        string `json:"version"` // "7.3.4"
	Commit         string `json:"commit,omitempty"`
	PackageVersion string `json:"package_version,omitempty"`
	ID             string `json:"id"`
	Exact          string `json:"exact"` // "exact", "not exact", "unknown": blob ids of the series' index lines
}

// Host is the machine.
type Host struct {
	OS     string `json:"os"`
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	MemMiB int64  `json:"mem_mib"`
}

// Accel is how guests were accelerated and how that was found out.
type Accel struct {
	Name   string `json:"name"` // kvm or tcg
	Reason string `json:"reason,omitempty"`
}

// Kernel is one built kernel.
type Kernel struct {
	Role     string        `json:"role"`
	Key      string        `json:"key"`
	Release  string        `json:"release"`
	Compiler string        `json:"compiler"`
	Config   string        `json:"config"` // hash of .config
	Image    string        `json:"image"`  // hash of the boot image
	Reused   bool          `json:"reused,omitempty"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	Objects  int           `json:"objects"`          // compiled by this run
	Absent   []string      `json:"absent,omitempty"` // count fields it lacks
}

// Image is the guest's root.
type Image struct {
	Key        string            `json:"key"`
	Bytes      int64             `json:"bytes"`
	Compressed int64             `json:"compressed"`
	Packages   map[string]string `json:"packages,omitempty"`
}

// Apply is the outcome of applying one patch.
type Apply struct {
	Patch int      `json:"patch"`
	Class string   `json:"class"`
	Lines []string `json:"lines,omitempty"` // per file and hunk, for people
	Text  string   `json:"text,omitempty"`  // of a conflict: expected, found, how to redo
}

// Build is the outcome of building after one patch.
type Build struct {
	Patch   int           `json:"patch"` // 0: base
	OK      bool          `json:"ok"`
	Reused  bool          `json:"reused,omitempty"`
	Objects int           `json:"objects"`
	New     int           `json:"new"` // warnings
	Fixed   int           `json:"fixed"`
	Elapsed time.Duration `json:"elapsed_ns"`
	Make    time.Duration `json:"make_ns"` // in make itself
	Log     string        `json:"log,omitempty"`
}

// Step is one phase of the run as the terminal showed it.
type Step struct {
	Name    string        `json:"name"`
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed_ns"`
	Status  string        `json:"status"` // ok, failed, reused, skipped
	Detail  string        `json:"detail,omitempty"`
}

// Cell is the answer of one cell.
type Cell struct {
	ID       string           `json:"id"`
	Spec     testplans.Cell   `json:"spec"`
	Key      string           `json:"key"` // kernel, image, plan parts, accelerator: what the answer depends on
	Verdict  checks.Verdict   `json:"verdict"`
	Reason   string           `json:"reason,omitempty"`
	Findings []checks.Finding `json:"findings,omitempty"`
	Attempts []Attempt        `json:"attempts"`
	Reused   string           `json:"reused,omitempty"` // run id that this answer comes from

	// Quarantine is set when the cell is known to be flaky: it was run, and its
	// verdict stands, but the run's verdict does not count it.
	Quarantine *Quarantine `json:"quarantine,omitempty"`

	// Final: compared with the base kernel and attributed. An answer that is not
	// was on its way when the run ended.
	Final bool `json:"final,omitempty"`
	Pass  int  `json:"pass,omitempty"` // of a run that repeats the matrix: which pass, from 0
}

// Quarantine is the entry of the quarantine file that a cell fell under.
type Quarantine struct {
	Owner   string `json:"owner"`
	Reason  string `json:"reason"`
	Expires string `json:"expires"` // last day on which it holds, "2027-01-31"
}

// Attempt is one execution of a cell in a guest.
type Attempt struct {
	Guest      string                     `json:"guest"` // console/GUEST/console.log
	Fresh      bool                       `json:"fresh"` // alone in its guest
	Kernel     string                     `json:"kernel"`
	Accel      string                     `json:"accel"`
	Started    time.Time                  `json:"started"`
	Elapsed    time.Duration              `json:"elapsed_ns"`
	Verdict    checks.Verdict             `json:"verdict"`
	Steps      []CellStep                 `json:"steps"`
	Values     map[string]int64           `json:"values,omitempty"`
	Hists      map[string]guestproto.Hist `json:"hists,omitempty"` // of the counted part of the workload
	Rest       map[string]guestproto.Hist `json:"rest,omitempty"`  // from there to the umount
	Invalid    bool                       `json:"invalid,omitempty"`
	Mounted    string                     `json:"mounted,omitempty"`        // the kernel's own words: version and transport
	SUnreclaim int64                      `json:"sunreclaim_kib,omitempty"` // after the cell, without nfsd's reply cache
	FreeKiB    int64                      `json:"free_kib,omitempty"`       // memory in no use at all, after the cell
	Slabs      map[string]int64           `json:"slabs,omitempty"`          // active objects by cache, after the cell
	Before     *Memory                    `json:"before,omitempty"`         // the same, before the first cell of its guest
	Nth        int                        `json:"nth,omitempty"`            // its place among the cells of its guest, from 1
	Compared   Compared                   `json:"compared"`
	Token      string                     `json:"token,omitempty"` // positive proof from the guest: set when every step answered done
	Findings   []checks.Finding           `json:"findings,omitempty"`
}

// Memory is a sample of what a guest's kernel holds.
type Memory struct {
	SUnreclaim int64            `json:"sunreclaim_kib,omitempty"` // without nfsd's reply cache
	FreeKiB    int64            `json:"free_kib,omitempty"`       // in no use at all
	Slabs      map[string]int64 `json:"slabs,omitempty"`          // active objects by cache
}

// Compared counts what was compared with the generated content.
type Compared struct {
	ClientBytes int64 `json:"client_bytes"` // read back by the client after its cache was dropped
	ServerBytes int64 `json:"server_bytes"` // read from the exported files
	Files       int   `json:"files"`
}

// CellStep is one verb of a cell.
type CellStep struct {
	Name    string          `json:"name"`
	Elapsed time.Duration   `json:"elapsed_ns"`
	Error   string          `json:"error,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// WorkTime is the time of the attempt's reads and writes: what is left without
// booting, mounting and comparing.
func (a *Attempt) WorkTime() (d time.Duration) {
	for _, s := range a.Steps {
		if strings.Contains(s.Name, ": write") || strings.Contains(s.Name, ": read") {
			d += s.Elapsed
		}
	}
	return d
}

// Last is the attempt that decides.
func (c *Cell) Last() *Attempt {
	if len(c.Attempts) == 0 {
		return &Attempt{}
	}
	return &c.Attempts[len(c.Attempts)-1]
}

// Create makes a new run folder below parent.
func Create(parent string, now time.Time, name string) (*Run, error) {
	base := now.UTC().Format("20060102-150405") + "-" + slug(name)
	for i := 0; i < 100; i++ {
		id := base
		if i > 0 {
			id = fmt.Sprintf("%s.%d", base, i)
		}
		dir := filepath.Join(parent, id)
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return nil, fmt.Errorf("cannot make the folder for runs: %w", err)
		}
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot make the run folder: %w", err)
		}
		for _, sub := range []string{"cells", "console", "logs", "series", "steps"} {
			if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
				return nil, fmt.Errorf("cannot make the run folder: %w", err)
			}
		}
		lock, err := cache.TryLockFile(filepath.Join(dir, lockName))
		if err != nil {
			return nil, fmt.Errorf("cannot make the run folder: %w", err)
		}
		return &Run{Schema: Schema, ID: id, Started: now, Kernels: map[string]Kernel{}, Tools: map[string]string{}, dir: dir, lock: lock}, nil
	}
	return nil, fmt.Errorf("cannot find a free run folder name like %s in %s", base, parent)
}

func slug(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, s)
	for strings.Contains(s, "--") {
		s = strings.ReplaceAll(s, "--", "-")
	}
	s = strings.Trim(s, "-")
	if len(s) > 20 {
		s = strings.Trim(s[:20], "-")
	}
	if s == "" {
		s = "run"
	}
	return s
}

// Dir is the run folder.
func (r *Run) Dir() string { return r.dir }

// Path is a path in the run folder.
func (r *Run) Path(elem ...string) string {
	return filepath.Join(append([]string{r.dir}, elem...)...)
}

// Save writes run.json.
func (r *Run) Save() error {
	if err := writeJSON(r.Path("run.json"), r); err != nil {
		return err
	}
	if r.Finished() {
		return r.Progress(Event{At: time.Now(), Kind: EventEnd, Verdict: r.Verdict, Reason: r.Reason})
	}
	return nil
}

// SaveCell writes the cell's file and adds it to Cells when it is new.
func (r *Run) SaveCell(c *Cell) error {
	known := false
	for i, x := range r.Cells {
		if x.ID == c.ID {
			r.Cells[i], known = c, true
		}
	}
	if !known {
		r.Cells = append(r.Cells, c)
	}
	if err := writeJSON(r.cellPath(c.ID), c); err != nil {
		return err
	}
	return r.cellProgress(c)
}

func (r *Run) cellPath(id string) string {
	return r.Path("cells", strings.ReplaceAll(id, "/", ".")) + ".json"
}

// DropCell removes a cell's file, if it has one, and takes it out of Cells.
func (r *Run) DropCell(id string) error {
	r.Cells = slices.DeleteFunc(r.Cells, func(c *Cell) bool { return c.ID == id })
	if err := os.Remove(r.cellPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot write the run folder: %w", err)
	}
	return nil
}

// WriteFile replaces a file of the run folder as a whole.
func (r *Run) WriteFile(data []byte, elem ...string) error {
	return write(r.Path(elem...), data)
}

// WriteJSON replaces a JSON file of the run folder as a whole.
func (r *Run) WriteJSON(v any, elem ...string) error { return writeJSON(r.Path(elem...), v) }

// lockName is held by the process that works on the run; the kernel drops the
// lock when it dies.
const lockName = "lock"

// Resume opens a run folder to go on with it. An error that matches
// cache.ErrBusy says that another process still does.
func Resume(dir string) (*Run, error) {
	r, err := Open(dir)
	if err != nil {
		return nil, err
	}
	if r.lock, err = cache.TryLockFile(r.Path(lockName)); err != nil {
		return nil, fmt.Errorf("run %s: %w", r.ID, err)
	}
	sweepFiles(dir)
	if r.Kernels == nil {
		r.Kernels = map[string]Kernel{}
	}
	if r.Tools == nil {
		r.Tools = map[string]string{}
	}
	// Folders that came later than the run.
	if err := os.MkdirAll(r.Path("steps"), 0o755); err != nil {
		return nil, fmt.Errorf("cannot write the run folder: %w", err)
	}
	return r, nil
}

// Close gives the run up to other processes.
func (r *Run) Close() error {
	if r == nil {
		return nil
	}
	return r.lock.Close()
}

// Working says that a process works on the run folder.
func Working(dir string) bool { return cache.Held(filepath.Join(dir, lockName)) }

// Finished says that the run has a verdict.
func (r *Run) Finished() bool { return r.Verdict != "" }

// Sweep removes run folders that were begun and never got as far as a record,
// and half-written files in others. Folders that a process works on are left
// alone.
func Sweep(parent string) {
	ents, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range ents {
		dir := filepath.Join(parent, e.Name())
		if !e.IsDir() || !reID.MatchString(e.Name()) || Working(dir) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "run.json")); errors.Is(err, fs.ErrNotExist) {
			// It may have been made by another process this very moment.
			if fi, err := e.Info(); err == nil && time.Since(fi.ModTime()).Abs() > time.Minute {
				os.RemoveAll(dir)
			}
			continue
		}
		sweepFiles(dir)
	}
}

// sweepFiles removes what a process that was killed was writing in a run folder.
func sweepFiles(dir string) {
	for _, pattern := range []string{".new-*", "*/.new-*"} {
		left, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, p := range left {
			cache.SweepFile(p)
		}
	}
}

// reID matches what Create names run folders.
var reID = regexp.MustCompile(`^\d{8}-\d{6}-[a-z0-9-]+(\.\d+)?$`)

// Command notes an external command in commands.sh so that it can be repeated
// by hand.
func (r *Run) Note(line string) error {
	f, err := os.OpenFile(r.Path("commands.sh"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// writeJSON replaces path as a whole, so that a reader or a crash never sees
// half a file.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return write(path, append(b, '\n'))
}

func write(path string, data []byte) error {
	err := cache.WriteFile(path, data, 0o644)
	var full *cache.FullError
	switch {
	case errors.As(err, &full):
		// Its own words speak of the cache.
		return fmt.Errorf("cannot write the run folder %s: no space left (%s); free some, or choose another place with --out: %w", filepath.Dir(path), cache.Free(filepath.Dir(path)), full.Err)
	case err != nil:
		return fmt.Errorf("cannot write the run folder: %w", err)
	}
	return nil
}

// Open reads a run folder.
func Open(dir string) (*Run, error) {
	b, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no run folder: it has no run.json (patchcheck runs lists the runs)", dir)
	}
	if err != nil {
		return nil, err
	}
	r := &Run{dir: dir}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s/run.json is damaged: %w", dir, err)
	}
	if r.Schema > Schema {
		return nil, fmt.Errorf("%s was written by a newer patchcheck (schema %d, this one reads %d): update patchcheck", dir, r.Schema, Schema)
	}
	names, err := filepath.Glob(filepath.Join(dir, "cells", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			return nil, err
		}
		c := &Cell{}
		if err := json.Unmarshal(b, c); err != nil {
			return nil, fmt.Errorf("%s is damaged: %w", n, err)
		}
		r.Cells = append(r.Cells, c)
	}
	order := map[string]int{}
	for i, c := range r.Plan.Cells() {
		order[c.ID()] = i
	}
	sort.SliceStable(r.Cells, func(i, j int) bool { return order[r.Cells[i].ID] < order[r.Cells[j].ID] })
	return r, nil
}

// List gives the run folders below parent, newest first.
func List(parent string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(parent, "*", "run.json"))
	if err != nil {
		return nil, err
	}
	for i := range names {
		names[i] = filepath.Dir(names[i])
	}
	sort.Sort(sort.Reverse(sort.StringSlice(names)))
	return names, nil
}
