// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"patchcheck/checks"
	"patchcheck/checks/stats"
	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	"patchcheck/testplans"
	"patchcheck/vm"
	"patchcheck/vm/image"
)

// answerVersion is part of every cell's key: raise it when what a cell does or
// how it is judged changes.
const answerVersion = 9

// cellKey is what a cell's answer depends on.
func (r *runner) cellKey(k *guestKernel, c testplans.Cell, imageKey string) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	p := r.plan
	enc.Encode([]any{answerVersion, k.key, k.probes, imageKey, r.rec.Accel.Name, c, p.Guest, p.Fabric, p.Server, p.Workload, p.Reconnects, p.Count, p.Values, p.Hold, p.Same, p.Memory, p.Slow})
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// storedAnswer is a cell's answer as it is kept: with the hash of its bytes, so that
// a damaged one is never believed.
type storedAnswer struct {
	SHA256 string          `json:"sha256"`
	Cell   json.RawMessage `json:"cell"`
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// known looks an answer up. Only PASS is reused: a failure is worth another
// look.
func (r *runner) known(key string) *runfolder.Cell {
	path := r.cache.Path("cells", key+".json")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var a storedAnswer
	c := &runfolder.Cell{}
	if json.Unmarshal(b, &a) != nil || a.SHA256 != sum(a.Cell) || json.Unmarshal(a.Cell, c) != nil {
		if a.SHA256 != "" || !json.Valid(b) { // else of a version that kept no hash
			r.note(fmt.Sprintf("the answer of a cell in the cache (%s) is damaged; the cell runs again", path))
		}
		return nil
	}
	if c.Key != key || c.Verdict != checks.Pass || c.Reused == "" || c.Last().Token == "" {
		return nil
	}
	return c
}

// remember keeps passing answers for later runs. A cell that shared its guest
// with one that did not pass is not among them: what is judged over a whole
// guest (growth of memory, leaks) is charged to its last cell.
func (r *runner) remember(cells []*runfolder.Cell) error {
	if r.o.Hook != nil {
		return nil
	}
	bad := map[string]bool{}
	for _, c := range cells {
		if c.Verdict != checks.Pass && len(c.Attempts) > 0 {
			for _, a := range c.Attempts {
				bad[a.Guest] = bad[a.Guest] || c.Reused == ""
			}
		}
	}
	for _, c := range cells {
		if c.Verdict != checks.Pass || !c.Final || c.Reused != "" || bad[c.Attempts[0].Guest] {
			continue
		}
		k := *c
		k.Reused = r.rec.ID
		b, err := json.Marshal(k)
		if err == nil {
			b, err = json.Marshal(storedAnswer{sum(b), b})
		}
		if err != nil {
			return err
		}
		if err = os.MkdirAll(r.cache.Path("cells"), 0o755); err == nil {
			err = cache.WriteFile(r.cache.Path("cells", c.Key+".json"), b, 0o644)
		}
		var full *cache.FullError
		switch {
		case cache.ReadOnly(err):
			return nil // a cache that cannot be written costs time, not truth
		case errors.As(err, &full):
			r.note("answers cannot be kept for later runs: " + err.Error())
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// matrix boots the guests and runs the plan's cells.
func (r *runner) matrix(ctx context.Context, kernels map[string]*guestKernel) error {
	s := r.begin("image")
	var img imageResult
	select {
	case img = <-r.images:
	case <-ctx.Done():
		return ctx.Err()
	}
	if img.err != nil {
		return fmt.Errorf("the guest image cannot be made: %w", img.err)
	}
	r.rec.Image = runfolder.Image{Key: img.img.Key, Bytes: img.img.Bytes, Compressed: img.img.CompressedBytes, Packages: packages(img.img)}
	s.End(view.OK, "%.1f MB, %.1f MB compressed", float64(img.img.Bytes)/1e6, float64(img.img.CompressedBytes)/1e6)

	accel, err := r.probe(ctx, kernels[cmp.Or(r.o.Alone, testplans.RoleBase)])
	if err != nil {
		return err
	}
	s = r.begin("matrix")
	m := &matrix{run: r.rec, plan: r.plan, kernels: kernels, initrd: img.img.Path, accel: accel, step: s, hook: r.o.Hook, seed: hash(r.plan.Name), hurry: r.o.hurry, base: map[string]*runfolder.Attempt{}, changed: map[string]string{}, earlier: map[string][]testplans.Cell{},
		guests: lastGuest(r.rec), note: r.note, tell: r.o.View.Print}
	all := r.cells()
	keys := map[string]string{}
	for _, c := range all {
		keys[c.ID()] = r.cellKey(kernels[c.Kernel], c, img.img.Key)
	}
	reused := 0
	for n := r.rec.Passes; n < max(1, r.o.Repeat); n++ {
		if r.o.Repeat > 1 {
			s.Update("pass %d of %d", n+1, r.o.Repeat)
		}
		final, kept := carry(r.plan, r.prior, keys, n)
		m.kept = kept
		var todo []testplans.Cell
		for _, c := range all {
			old := final[c.ID()]
			if old == nil && !r.o.Fresh && r.o.Hook == nil && r.o.Repeat < 2 && kept[c.ID()] == nil {
				if old = r.known(keys[c.ID()]); old != nil {
					old.Final = true
				}
			}
			if old == nil {
				todo = append(todo, c)
				continue
			}
			if err := r.rec.SaveCell(old); err != nil {
				return err
			}
			if c.Kernel == testplans.RoleBase {
				m.base[place(c)] = old.Last() // the patched cells are still compared with it
			}
			reused++
		}
		// draft puts a cell on record whose answer may still change.
		m.draft = func(c *runfolder.Cell) error {
			c.Key, c.Pass = keys[c.ID], n
			return r.rec.SaveCell(c)
		}
		save := func(c *runfolder.Cell) error {
			c.Key, c.Pass, c.Final = keys[c.ID], n, true
			afterFailure(r.prior[c.ID], c)
			return r.rec.SaveCell(c)
		}
		if k := len(r.rec.Resumed); k > 0 {
			r.rec.Resumed[k-1].Reused += len(final) + len(kept)
		}
		if err := m.all(ctx, todo, save); err != nil {
			return err
		}
		if err := r.remember(r.rec.Cells); err != nil {
			return err
		}
		if !allPass(r.rec.Cells) {
			break
		}
		r.rec.Passes = n + 1
		if err := r.save(); err != nil {
			return err
		}
	}
	pass := 0
	for _, c := range r.rec.Cells {
		if c.Verdict == checks.Pass {
			pass++
		}
	}
	status := view.OK
	detail := fmt.Sprintf("%d of %d cells pass", pass, len(r.rec.Cells))
	if reused > 0 {
		detail += fmt.Sprintf(", %d reused", reused)
	}
	if reused == len(r.rec.Cells) {
		status = view.Reused
	}
	if pass < len(r.rec.Cells) {
		status = view.Failed
	}
	if n := r.rec.Passes; n > 1 && pass == len(r.rec.Cells) {
		detail += fmt.Sprintf("; %d clean passes exclude a failure rate above %.1f %% per pass (95 %%)", n, 100*stats.ExcludedRate(n, 0.95))
	}
	s.End(status, "%s", detail)
	return nil
}

func allPass(cells []*runfolder.Cell) bool {
	for _, c := range cells {
		if c.Verdict != checks.Pass {
			return false
		}
	}
	return true
}

// probe finds out how guests can be accelerated.
func (r *runner) probe(ctx context.Context, k *guestKernel) (vm.Accel, error) {
	want, err := vm.ParseAccel(r.accel())
	if err != nil {
		return "", err
	}
	s := r.begin("accel")
	res, err := vm.Probe(ctx, vm.ProbeOptions{Want: want, Kernel: k.image, CacheFile: r.cache.Path("accel.json")})
	if err != nil {
		return "", err
	}
	r.rec.Accel = runfolder.Accel{Name: string(res.Accel), Reason: res.Reason}
	r.rec.Tools["qemu"] = qemuVersion(ctx)
	s.End(view.OK, "%s: %s", res.Accel, res.Reason)
	return res.Accel, nil
}

// verdict sums the run up. PASS needs every patch built without new warnings
// and every cell passed with proof from its guest.
func (r *runner) verdict() {
	v := checks.Pass
	var why []string
	bad := 0
	for _, f := range r.rec.Findings {
		switch {
		case strings.HasSuffix(f.ID, "infra"):
			// A tool that broke says nothing about the series.
			v = worst(v, checks.Infra)
			why = append(why, f.Message)
		case f.Gates():
			bad++
		}
	}
	if bad > 0 {
		v = worst(v, checks.Fail)
		why = append(why, plural(bad, "finding", "findings"))
	}
	by := map[checks.Verdict][]string{}
	r.quarantine(r.rec.Started)
	judged := 0
	for _, c := range r.rec.Cells {
		cv := c.Verdict
		if c.Quarantine != nil {
			continue
		}
		judged++
		if cv == checks.Pass && c.Last().Token == "" {
			cv = checks.Infra // never a PASS without the guest's own word
		}
		by[cv] = append(by[cv], c.ID)
		v = worst(v, cv)
	}
	for _, x := range []checks.Verdict{checks.Fail, checks.Unstable, checks.Infra, checks.BaseFails} {
		if n := len(by[x]); n > 0 {
			why = append(why, fmt.Sprintf("%d of %d cells %s", n, len(r.rec.Cells), x))
		}
	}
	if !r.o.BuildOnly && len(r.rec.Cells) == 0 {
		v, why = worst(v, checks.Infra), append(why, "no cell was run")
	} else if !r.o.BuildOnly && judged == 0 {
		v, why = worst(v, checks.Skip), append(why, "every cell is in quarantine")
	}
	r.rec.Verdict, r.rec.Reason = v, strings.Join(why, ", ")
}

func packages(img image.Image) map[string]string {
	m := map[string]string{}
	for _, p := range img.Packages {
		m[p.Name] = p.Version
	}
	return m
}

// qemuVersion is the first line of QEMU's own words.
func qemuVersion(ctx context.Context) string {
	res, err := proc.Run(ctx, proc.Cmd{Argv: []string{vm.DefaultQEMU, "--version"}})
	if err != nil {
		return "unknown"
	}
	l, _, _ := strings.Cut(string(res.Stdout), "\n")
	return l
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
