// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"patchcheck/internal/cache"
)

// Part is a piece of the cache that can be removed on its own.
type Part struct {
	cache.Usage
	What  string // "workspace", "kernel", for people
	InUse bool   // a running patchcheck holds it
}

// what names the sections of the cache.
var what = map[string]string{
	"work": "workspace: source copy and objects; the next build is a cold one without it", "kernels": "built kernel", "trees": "kernel tree",
	"debian": "Debian packages and indexes", "images": "guest image", "kerneldoc": "kernel-doc results",
}

// Parts lists the cache, largest first.
func Parts(c *cache.Cache) ([]Part, error) {
	us, err := c.Usage()
	if err != nil {
		return nil, err
	}
	var parts []Part
	for _, u := range us {
		if u.Section == "locks" || strings.HasPrefix(u.Key, ".") {
			continue
		}
		p := Part{Usage: u, What: what[u.Section]}
		if name := lockOf(u.Section, u.Key); name != "" {
			l, err := c.TryLock(name)
			p.InUse = errors.Is(err, cache.ErrBusy)
			l.Close()
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// lockOf is the lock under which a part is used.
func lockOf(section, key string) string {
	switch section {
	case "work":
		return "work-" + key
	case "debian":
		return "debian-" + key
	}
	return ""
}

// RemovePart deletes a part, or returns an error that matches cache.ErrBusy
// when it is in use.
func RemovePart(c *cache.Cache, p Part) error {
	if name := lockOf(p.Section, p.Key); name != "" {
		l, err := c.TryLock(name)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", p.Section, p.Key, err)
		}
		defer l.Close()
	}
	fi, err := os.Lstat(c.Path(p.Section, p.Key))
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}
	if !fi.IsDir() {
		return os.Remove(c.Path(p.Section, p.Key))
	}
	return c.Remove(p.Section, p.Key)
}

// Clean sweeps up what killed runs left and removes the parts for which drop
// says so. It returns the bytes freed; parts in use are left alone.
func Clean(c *cache.Cache, drop func(Part) bool) (freed int64, err error) {
	c.Sweep()
	parts, err := Parts(c)
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		if p.InUse || !drop(p) {
			continue
		}
		rerr := RemovePart(c, p)
		switch {
		case rerr == nil:
			freed += p.Bytes
		case !errors.Is(rerr, cache.ErrBusy) && err == nil:
			err = rerr
		}
	}
	return freed, err
}
