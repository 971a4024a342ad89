// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"time"

	"patchcheck/internal/cache"
	"patchcheck/internal/kernel"
	"patchcheck/internal/runfolder"
)

// GCOptions say what may go.
type GCOptions struct {
	CacheDir string
	RunsDir  string
	All      bool
	DryRun   bool
	KeepDays int
}

// GC reports the cache's size by section and removes entries not used for
// KeepDays, or all of them. What another process holds is left alone. Run
// folders are records and are only counted.
func GC(ctx context.Context, o GCOptions) ([]string, error) {
	c, err := cache.Open(o.CacheDir)
	if err != nil {
		return nil, err
	}
	if !o.DryRun {
		c.Sweep()
	}
	all, err := kernel.Parts(c)
	if err != nil {
		return nil, err
	}
	type sum struct {
		bytes, freed  int64
		n, gone, held int
	}
	by := map[string]*sum{}
	limit := time.Now().AddDate(0, 0, -o.KeepDays).Unix()
	for _, u := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := by[u.Section]
		if s == nil {
			s = &sum{}
			by[u.Section] = s
		}
		s.bytes += u.Bytes
		s.n++
		if !o.All && u.Used >= limit {
			continue
		}
		if u.InUse {
			s.held++
			continue
		}
		if !o.DryRun {
			if err := kernel.RemovePart(c, u); err != nil {
				s.held++
				continue
			}
		}
		s.freed += u.Bytes
		s.gone++
	}
	var out []string
	var total, freed int64
	for _, name := range sortedKeys(by) {
		s := by[name]
		l := fmt.Sprintf("%-10s %8s in %d entries", name, size(s.bytes), s.n)
		if s.gone > 0 {
			verb := "removed"
			if o.DryRun {
				verb = "would remove"
			}
			l += fmt.Sprintf("; %s %d (%s)", verb, s.gone, size(s.freed))
		}
		if s.held > 0 {
			l += fmt.Sprintf("; %d in use by another process", s.held)
		}
		out = append(out, l)
		total += s.bytes
		freed += s.freed
	}
	out = append(out, fmt.Sprintf("%-10s %8s in %s", "total", size(total-freed*b2i(!o.DryRun)), c.Root()))
	dirs, err := runfolder.List(o.RunsDir)
	if err != nil {
		return out, err
	}
	var runs int64
	for _, d := range dirs {
		filepath.WalkDir(d, func(p string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				if fi, err := e.Info(); err == nil {
					runs += fi.Size()
				}
			}
			return nil
		})
	}
	sort.Strings(dirs)
	return append(out, fmt.Sprintf("%-10s %8s in %d run folders (records; remove what you do not need in %s)", "runs", size(runs), len(dirs), o.RunsDir)), nil
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
