// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"patchcheck/internal/bench"
	"patchcheck/testplans"
)

// cleanUp bounds undoing the set-up, which has to happen also when the user
// ended the measurement.
const cleanUp = time.Minute

// session is an export and a mount that exist for one boot's measurement.
type session struct {
	server, client *Host
	plan           *testplans.Plan
	mount          string // on the client
	mounted        string // the kernel's own words
	undo           []undo
}

type undo struct {
	h    *Host
	argv []string
}

func (u undo) do(ctx context.Context) error {
	_, err := u.h.Root(ctx, "", u.argv...)
	return err
}

// What is busy is tried again this often; no event tells when it no longer is.
// A flush within a second of another sets the cache's flush time ahead of the
// clock, and then nothing is cleaned until the clock has passed it
// (net/sunrpc/cache.c, write_flush, cache_clean): flushing faster than once a
// second never ends.
const (
	busyTries = 10
	busyPause = 1500 * time.Millisecond
)

// open exports a tmpfs of the plan's size from the server to the client alone,
// and mounts it there. address is the server's on the fabric.
func open(ctx context.Context, server, client *Host, p *testplans.Plan, address string) (_ *session, err error) {
	s := &session{server: server, client: client, plan: p}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	step := func(h *Host, back []string, argv ...string) error {
		if _, err := h.Root(ctx, "", argv...); err != nil {
			return err
		}
		if back != nil {
			s.undo = append(s.undo, undo{h, back})
		}
		return nil
	}
	folder := func(h *Host, name string) (string, error) {
		out, err := h.Root(ctx, "", "mktemp", "-d", "/run/patchcheck-"+name+".XXXXXX")
		if err != nil {
			return "", err
		}
		dir := strings.TrimSpace(out)
		if !ours.MatchString(dir) {
			return "", fmt.Errorf("%s: mktemp gave %q", h.Target, dir)
		}
		s.undo = append(s.undo, undo{h, []string{"rmdir", dir}})
		return dir, nil
	}
	route, err := client.Run(ctx, "", "sh", "-c", `PATH=$PATH:/usr/sbin:/sbin; ip -o route get "$1"`, "sh", address)
	if err != nil {
		return s, fmt.Errorf("the client finds no way to the server's address %s: %w", address, err)
	}
	from := source.FindStringSubmatch(route)
	if from == nil {
		return s, fmt.Errorf("%s: no source address towards %s in %q", client.Target, address, strings.TrimSpace(route))
	}
	export, err := folder(server, "export")
	if err != nil {
		return s, err
	}
	size := fmt.Sprintf("size=%d,mode=0777", int64(p.Server.Size))
	if err := step(server, []string{"umount", export}, "mount", "-t", "tmpfs", "-o", size, "patchcheck", export); err != nil {
		return s, err
	}
	// The client alone may mount it. tmpfs has no id of its own.
	at := from[1] + ":" + export
	if strings.Contains(from[1], ":") {
		at = "[" + from[1] + "]:" + export
	}
	id := fmt.Sprintf("fsid=%d", 0x70630000+time.Now().UnixNano()%0x10000)
	if err := step(server, []string{"exportfs", "-u", at}, "exportfs", "-o", "rw,no_root_squash,insecure,no_subtree_check,"+id, at); err != nil {
		return s, err
	}
	if s.mount, err = folder(client, "mnt"); err != nil {
		return s, err
	}
	version := p.Measure.NFS
	opts := fmt.Sprintf("vers=%s,proto=%s,port=%d", version, p.Fabric.Proto, p.Fabric.Port)
	if version == "3" {
		opts += ",nolock"
	}
	what := address + ":" + export
	if strings.Contains(address, ":") {
		what = "[" + address + "]:" + export
	}
	if err := step(client, []string{"umount", s.mount}, "mount", "-t", "nfs", "-o", opts, what, s.mount); err != nil {
		return s, whyNoMount(ctx, server, client, p, err)
	}
	stats, err := client.Run(ctx, "", "cat", "/proc/self/mountstats")
	if err != nil {
		return s, err
	}
	var xprt string
	s.mounted, xprt = mounted(stats, s.mount)
	if !strings.HasPrefix(xprt, p.Fabric.Proto+" ") || !slices.Contains(strings.Split(s.mounted, ","), "vers="+version) {
		return s, fmt.Errorf("%s: asked for NFSv%s over %s, got %q %q", client.Target, version, p.Fabric.Proto, s.mounted, xprt)
	}
	return s, nil
}

var (
	// ours is a folder that mktemp made for us: what is removed and unmounted
	// later must be nothing else.
	ours   = regexp.MustCompile(`^/run/patchcheck-(export|mnt)\.[A-Za-z0-9]{6}$`)
	source = regexp.MustCompile(`\bsrc ([0-9a-fA-F.:]+)`)
)

// mounted finds a mount's options and transport in /proc/self/mountstats.
func mounted(text, at string) (opts, xprt string) {
	in := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "device "):
			in = strings.Contains(line, " mounted on "+at+" with fstype nfs")
		case in && strings.HasPrefix(line, "opts:"):
			opts = strings.TrimSpace(strings.TrimPrefix(line, "opts:"))
		case in && strings.HasPrefix(line, "xprt:"):
			xprt = strings.TrimSpace(strings.TrimPrefix(line, "xprt:"))
		}
	}
	return opts, xprt
}

// close undoes what open did, in reverse, and goes on after a failure.
func (s *session) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUp)
	defer cancel()
	var errs []error
	for _, u := range slices.Backward(s.undo) {
		err := u.do(ctx)
		for try := 0; err != nil && try < busyTries && strings.Contains(err.Error(), "busy"); try++ {
			// The server keeps the export, and files of NFSv3 in it, open for a
			// while; a flush of the export table makes it let go (exportfs(8)
			// -f). Clients of other exports are looked up again, no more.
			select {
			case <-time.After(busyPause):
			case <-ctx.Done():
			}
			if u.h == s.server {
				undo{u.h, []string{"exportfs", "-f"}}.do(ctx) // what it says is of no use; the next try tells
			}
			err = u.do(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("left behind: %w", err))
		}
	}
	s.undo = nil
	return errors.Join(errs...)
}

// runs does the plan's jobs, warm-up first, jobs alternating.
func (s *session) runs(ctx context.Context, d bench.Design) ([]bench.Run, error) {
	var out []bench.Run
	for i := range d.Warmup + d.Runs {
		for _, j := range s.plan.Measure.Jobs {
			if !possible(j) {
				continue
			}
			r := bench.Run{Job: j.Name, Index: i + 1, Warmup: i < d.Warmup, Started: time.Now()}
			raw, err := s.client.Root(ctx, j.Fio, "sh", "-c", `mkdir -p "$1" && cd "$1" && exec fio --output-format=json+ --eta=never -`, "sh", path.Join(s.mount, j.Name))
			r.Elapsed, r.Raw = time.Since(r.Started), []byte(raw)
			var ce *CommandError
			// fio exits with 1 also when a job failed; its document says how.
			if err != nil && !(errors.As(err, &ce) && strings.Contains(raw, "{")) {
				return out, fmt.Errorf("job %s, run %d: %w", j.Name, i+1, err)
			}
			out = append(out, r)
		}
	}
	// find -delete is not everywhere.
	for _, j := range s.plan.Measure.Jobs {
		if !possible(j) {
			continue
		}
		if _, err := s.client.Root(ctx, "", "rm", "-rf", "--", path.Join(s.mount, j.Name)); err != nil {
			return out, err
		}
	}
	return out, nil
}

// possible says whether a job can be done on a machine without our agent.
func possible(j testplans.MeasureJob) bool { return j.Fio != "" && !j.Counted }
