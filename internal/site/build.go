// SPDX-License-Identifier: Apache-2.0

package site

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/history"
	"patchcheck/internal/page"
	"patchcheck/internal/runfolder"
)

// Config is how a site is built.
type Config struct {
	Dir    string // of the site; made if absent
	Tool   string // version
	Now    time.Time
	Rule   func(id string) (checks.Rule, bool)
	Nights int               // run pages are made for this many of the newest nights, and for first bad nights; 0 means 60
	Warn   func(line string) // of runs that have no page; may be nil

	// page renders a run; nil is internal/page. For tests.
	page func(w io.Writer, r *runfolder.Run) error
}

// Result says what a build did.
type Result struct {
	Nights, Cells        int
	Runs, RunsMade       int // run pages there are, and that were made now
	Written, Unchanged   int // files
	Loaded, Index, Total time.Duration
}

// stateName is the file by which the next build knows what it need not do
// again.
const stateName = ".patchcheck-site.json"

// state is what the last build did.
type state struct {
	Tool string            `json:"tool"`
	Runs map[string]string `json:"runs"` // run id -> what its page was made from
	// Cells are the pages of cells: path -> what it was made from.
	Cells map[string]string `json:"cells"`
}

// ForeignError is a folder that is not empty and no site of ours.
type ForeignError struct{ Dir string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s is not empty and no site of patchcheck's: name an empty folder, or one that does not exist", e.Dir)
}

// Build writes the site. What did not change is not written again: pages of
// runs are made once, the index and the cells' pages are written when their
// content differs.
func Build(ctx context.Context, db *history.DB, c Config) (*Result, error) {
	start := time.Now()
	if c.Nights == 0 {
		c.Nights = 60
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	if c.page == nil {
		c.page = func(w io.Writer, r *runfolder.Run) error { return page.Write(w, r, page.Options{Rule: c.Rule}) }
	}
	old, err := openSite(c.Dir)
	if err != nil {
		return nil, err
	}
	b := &builder{dir: c.Dir, res: &Result{}}
	for _, d := range []string{"runs", "cells"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("cannot make the site: %w", err)
		}
	}
	// The mark comes first: a build that is cut off leaves a site that the next
	// one goes on with.
	if err := b.saveState(old); err != nil {
		return nil, err
	}
	d, err := Load(ctx, db, c.Now)
	if err != nil {
		return nil, err
	}
	b.res.Loaded = time.Since(start)
	b.res.Nights = len(d.Nights)

	next := state{Tool: c.Tool, Runs: map[string]string{}, Cells: map[string]string{}}
	runs, err := db.Runs(ctx, history.Filter{Finished: true})
	if err != nil {
		return nil, err
	}
	want := d.wanted(c.Nights)
	for _, r := range runs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !validRun(r.ID) {
			continue
		}
		path := filepath.Join(c.Dir, filepath.FromSlash(runPath(r.ID)))
		have := false
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() {
			have = true
		}
		key := runKey(r.Dir)
		switch {
		case have && (key == "" || old.Runs[r.ID] == key && old.Tool == c.Tool):
			// Made already; or its run folder is gone, and the page is what is left.
			if next.Runs[r.ID] = old.Runs[r.ID]; key == "" && next.Runs[r.ID] == "" {
				next.Runs[r.ID] = "kept"
			}
			b.res.Runs++
			b.res.Unchanged++
			continue
		case key == "", !have && !want[r.ID]:
			continue
		}
		var buf bytes.Buffer
		rec, err := runfolder.Open(r.Dir)
		if err == nil {
			err = c.page(&buf, rec)
		}
		if err != nil {
			c.Warn(fmt.Sprintf("run %s has no page: %v", r.ID, err))
			continue
		}
		if err := b.put(runPath(r.ID), buf.Bytes()); err != nil {
			return nil, err
		}
		next.Runs[r.ID] = key
		b.res.Runs++
		b.res.RunsMade++
	}

	o := Options{Tool: c.Tool, Page: func(id string) bool { return next.Runs[id] != "" }}
	made := time.Now()
	var buf bytes.Buffer
	if err := d.index(&buf, o); err != nil {
		return nil, err
	}
	if err := b.put("index.html", buf.Bytes()); err != nil {
		return nil, err
	}
	b.res.Index = time.Since(made)
	keep := map[string]bool{}
	for _, g := range d.Groups {
		for _, cell := range g.Cells {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			b.res.Cells++
			name := cellPath(g.Target, cell.ID)
			keep[name] = true
			key := d.cellKey(g, cell, o)
			next.Cells[name] = key
			if _, err := os.Stat(filepath.Join(c.Dir, filepath.FromSlash(name))); err == nil && old.Tool == c.Tool && old.Cells[name] == key {
				b.res.Unchanged++
				continue
			}
			buf.Reset()
			if err := d.cell(&buf, g, cell, o); err != nil {
				return nil, err
			}
			if err := b.put(name, buf.Bytes()); err != nil {
				return nil, err
			}
		}
	}
	if err := b.sweep(keep, next); err != nil {
		return nil, err
	}
	if err := b.saveState(next); err != nil {
		return nil, err
	}
	b.res.Total = time.Since(start)
	return b.res, nil
}

// wanted names the runs that shall have a page: those of the newest nights,
// and those that show a failure for the first or the last time.
func (d *Data) wanted(nights int) map[string]bool {
	want := map[string]bool{}
	from := max(0, len(d.Nights)-nights)
	for _, g := range d.Groups {
		for _, c := range g.Columns[from:] {
			want[c.Run] = true
		}
		for _, f := range g.Failures {
			if f.FixedIn == "" || slices.Index(d.Nights, f.LastBad) >= from {
				want[f.FirstRun], want[f.LastRun] = true, true
			}
		}
	}
	return want
}

// cellKey says what a cell's page is made from.
func (d *Data) cellKey(g *Group, c *Cell, o Options) string {
	h := sha256.New()
	var b []byte
	for n, s := range c.Squares {
		b = append(b[:0], d.Nights[n]...)
		b = append(b, code(s))
		if s != nil {
			b = append(b, s.Signature...)
			b = binary.LittleEndian.AppendUint64(b, uint64(s.Work))
			if s.Reused {
				b = append(b, 'r')
			}
		}
		col := g.Columns[n]
		b = append(b, col.State...)
		b = append(b, o.page(col.Run)...)
		if cu, ok := g.Culprits[d.Nights[n]+"\n"+c.ID]; ok {
			b = append(b, culprit(cu)...)
		}
		h.Write(b)
	}
	for _, x := range c.Counts {
		b = append(b[:0], x.Name...)
		for _, v := range x.Values {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// runKey says what a run's page is made from, "" when there is no run folder.
func runKey(dir string) string {
	if dir == "" {
		return ""
	}
	fi, err := os.Stat(filepath.Join(dir, "run.json"))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d %d", fi.Size(), fi.ModTime().UnixNano())
}

// openSite reads the last build's state and refuses a folder of somebody else.
func openSite(dir string) (state, error) {
	s := state{Runs: map[string]string{}}
	b, err := os.ReadFile(filepath.Join(dir, stateName))
	switch {
	case err == nil:
		if json.Unmarshal(b, &s) != nil || s.Runs == nil {
			s = state{Runs: map[string]string{}} // damaged: everything is made anew
		}
		return s, nil
	case !errors.Is(err, fs.ErrNotExist):
		return s, fmt.Errorf("cannot use the site's folder: %w", err)
	}
	ents, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("cannot use the site's folder: %w", err)
	}
	if len(ents) > 0 {
		return s, &ForeignError{dir}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return s, fmt.Errorf("cannot make the site: %w", err)
	}
	return s, nil
}

type builder struct {
	dir string
	res *Result
}

// put writes a file of the site, as a whole or not at all, unless it is there
// with that content.
func (b *builder) put(name string, content []byte) error {
	path := filepath.Join(b.dir, filepath.FromSlash(name))
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(strip(old), strip(content)) {
		b.res.Unchanged++
		return nil
	}
	tmp := path + ".tmp"
	err := os.WriteFile(tmp, content, 0o644)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
		return fmt.Errorf("cannot write the site: %w", err)
	}
	b.res.Written++
	return nil
}

// strip is a page without its footer, which says when it was made: that alone
// is no change.
func strip(page []byte) []byte {
	if i := bytes.LastIndex(page, []byte("<footer>")); i >= 0 {
		if j := bytes.Index(page[i:], []byte("</footer>")); j >= 0 {
			return slices.Concat(page[:i], page[i+j:])
		}
	}
	return page
}

func (b *builder) saveState(s state) error {
	j, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(b.dir, stateName)
	tmp := path + ".tmp"
	if err = os.WriteFile(tmp, append(j, '\n'), 0o644); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("cannot write the site: %w", err)
	}
	return nil
}

// sweep removes pages that are no longer linked: of cells that the history
// forgot, and of runs that it forgot.
func (b *builder) sweep(cells map[string]bool, s state) error {
	for _, sub := range []string{"cells", "runs"} {
		ents, err := os.ReadDir(filepath.Join(b.dir, sub))
		if err != nil {
			return fmt.Errorf("cannot read the site: %w", err)
		}
		for _, e := range ents {
			name := sub + "/" + e.Name()
			id, ok := strings.CutSuffix(e.Name(), ".html")
			if cells[name] || sub == "runs" && s.Runs[id] != "" || !ok && !strings.HasSuffix(name, ".html.tmp") {
				continue
			}
			if err := os.Remove(filepath.Join(b.dir, filepath.FromSlash(name))); err != nil {
				return fmt.Errorf("cannot remove an old page: %w", err)
			}
		}
	}
	return nil
}

// etag names a content for caches.
func etag(b []byte) string {
	h := sha256.Sum256(b)
	return `"` + hex.EncodeToString(h[:12]) + `"`
}
