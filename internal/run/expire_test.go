// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/guestproto"
	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
	"patchcheck/vm"
)

// mute never answers; the host keeps it waiting as told.
type mute struct {
	start time.Time
	share float64 // of the wall time that it waits for a CPU
	hold  vm.Hold
}

func (g *mute) Call(ctx context.Context, verb string, req, resp any, onLog func(string)) error {
	<-ctx.Done()
	return &vm.NoAnswer{Verb: verb, After: time.Since(g.start), Err: context.Cause(ctx)}
}

func (g *mute) Hold() vm.Hold {
	h := g.hold
	h.Waited += time.Duration(g.share * float64(time.Since(g.start)))
	return h
}

// A step that does not end is the kernel's fault only if the guest could run.
func TestStepDeadline(t *testing.T) {
	crashed := make(chan struct{})
	close(crashed)
	for _, c := range []struct {
		name    string
		guest   mute
		crash   chan struct{}
		verdict checks.Verdict
		says    string
	}{
		{"idle host", mute{}, nil, checks.Fail, "did not finish within"},
		{"half of the time", mute{share: 0.5}, nil, checks.Fail, "did not finish within"},
		{"waited before the step only", mute{hold: vm.Hold{Waited: time.Hour}}, nil, checks.Fail, "did not finish within"},
		{"starved", mute{share: 0.97}, nil, checks.Infra, "the host is overloaded"},
		{"stopped", mute{hold: vm.Hold{Frozen: true}}, nil, checks.Infra, "QEMU was stopped by a signal"},
		{"crash", mute{}, crashed, checks.Fail, "the kernel had crashed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := c.guest
			g.start = time.Now()
			b := &bench{g: &g, plan: &testplans.Plan{}, hurry: 0.001, crash: c.crash}
			limit := 30 * time.Second
			if c.crash != nil {
				limit = time.Hour
			}
			err := b.call(t.Context(), &runfolder.Attempt{}, "cell", "umount", guestproto.VerbUmount, limit, nil, nil)
			var ce *cellError
			if !errors.As(err, &ce) || ce.verdict != c.verdict || !strings.Contains(ce.Error(), c.says) {
				t.Errorf("got %v (%+v), want %s with %q", err, ce, c.verdict, c.says)
			}
		})
	}
}

// After two cells that hung or stalled, the others do not wait as long.
func TestHungBefore(t *testing.T) {
	g := &mute{start: time.Now()}
	b := &bench{g: g, plan: &testplans.Plan{}, hurry: 0.001, hung: map[string]bool{}}
	b.slow("stalls", "read", (slowCall + time.Second).Microseconds(), new([]checks.Finding))
	for n, want := range []string{"", "2 cells before had hung or stalled", "3 cells before had hung or stalled"} {
		for _, step := range []string{"mount", "umount"} {
			err := b.call(t.Context(), &runfolder.Attempt{}, fmt.Sprintf("cell %d", n), step, guestproto.VerbMount, 10*time.Second, nil, nil)
			var ce *cellError
			if !errors.As(err, &ce) || ce.finding.ID != ruleHang.ID || strings.Contains(ce.Error(), "before") != (want != "") || !strings.Contains(ce.Error(), want) {
				t.Errorf("%s in cell %d: %v, want %q", step, n+1, err, want)
			}
		}
	}
}
