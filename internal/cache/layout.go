// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// layoutVersion is raised when the sections of the cache, or what lies in them,
// change in a way that their own versions do not cover.
const layoutVersion = 1

const (
	layoutName = "layout"
	layoutHead = "patchcheck cache, layout "
)

// sections are the folders that a cache has had before it had a layout file.
var sections = []string{"cells", "debian", "images", "kerneldoc", "kernels", "locks", "scripts", "tmp", "trees", "variants", "work", "accel.json"}

// checkLayout makes sure that the folder is a cache of the version want, or
// becomes one. A folder with other people's files in it is refused: a sweep and
// gc delete in it.
func (c *Cache) checkLayout(want int) error {
	have, err := c.layout()
	if err != nil || have == want {
		return err
	}
	switch {
	case have > want:
		return fmt.Errorf("the cache %s is of layout %d and this patchcheck knows up to %d: a newer patchcheck made it; update, or set PATCHCHECK_CACHE to another folder", c.root, have, want)
	case have > 0:
		if err := c.renew(have); err != nil {
			return err
		}
	}
	err = WriteFile(c.Path(layoutName), []byte(layoutHead+strconv.Itoa(want)+"\n"), 0o644)
	if ReadOnly(err) && have == 0 {
		return nil // it can be read all the same
	}
	return err
}

// layout is the version on record; 0 for an empty folder and for a cache from
// before there were versions, whose layout is that of version 1.
func (c *Cache) layout() (int, error) {
	b, err := os.ReadFile(c.Path(layoutName))
	if err == nil {
		s, ok := strings.CutPrefix(strings.TrimSpace(string(b)), layoutHead)
		n, nerr := strconv.Atoi(s)
		if !ok || nerr != nil || n < 1 {
			return 0, fmt.Errorf("%s says %.60q, which is no layout of a cache; set PATCHCHECK_CACHE to an empty or a new folder", c.Path(layoutName), b)
		}
		return n, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("cannot read the cache: %w", err)
	}
	ents, err := os.ReadDir(c.root)
	if err != nil {
		return 0, fmt.Errorf("cannot read the cache: %w", err)
	}
	for _, e := range ents {
		if !slices.Contains(sections, e.Name()) && !strings.HasPrefix(e.Name(), newPrefix) {
			return 0, fmt.Errorf("%s is not empty and no cache of patchcheck (there is %q in it); set PATCHCHECK_CACHE, or --cache, to an empty or a new folder", c.root, e.Name())
		}
	}
	return 0, nil
}

// renew empties a cache of an older layout. Nobody may be using it.
func (c *Cache) renew(have int) error {
	l, err := c.Lock(context.Background(), "layout", nil)
	if err != nil {
		return err
	}
	defer l.Close()
	if now, err := c.layout(); err != nil || now != have {
		return err // another process did it
	}
	for _, s := range sections {
		if s == "locks" {
			continue
		}
		if err := RemoveAll(c.Path(s)); err != nil {
			return explain(fmt.Errorf("the cache %s is of the older layout %d and cannot be emptied: %w", c.root, have, err), c.root)
		}
	}
	c.notes = append(c.notes, fmt.Sprintf("the cache %s was of the older layout %d: it was emptied, and trees, kernels and images are made anew", c.root, have))
	return nil
}
