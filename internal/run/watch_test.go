// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"testing"
	"time"

	"patchcheck/internal/runfolder"
	"patchcheck/testplans"
)

// deaf never answers.
type deaf struct{}

func (deaf) Call(ctx context.Context, _ string, _, _ any, _ func(string)) error {
	<-ctx.Done()
	return ctx.Err()
}

// A step of a kernel that has crashed is not waited for until its deadline.
func TestCrashEndsStep(t *testing.T) {
	w := newWatch("")
	b := &bench{g: deaf{}, plan: &testplans.Plan{}, hurry: 0.001, crash: w.crash}
	w.Write([]byte("[    9.1] ------------[ cut here ]------------\n[    9.1] WARNING: net/sunrpc/svc.c:100 at svc_example+0x10/0x20, CPU#0: nfsd/77\n"))
	select {
	case <-w.crash:
		t.Fatal("a WARN was taken for a crash")
	default:
	}
	w.Write([]byte("[    9.2] BUG: kernel NULL pointer dereference, address: 0000000000000010\n[    9.2] #PF: supervisor read access in kernel mode\n[    9.2] Oops: Oops: 0000 [#1] SMP\n"))
	err := b.call(t.Context(), &runfolder.Attempt{}, "c", "mount", "nfs.mount", time.Hour, nil, nil)
	var ce *cellError
	if !errors.As(err, &ce) || ce.finding.ID != "guest.died" {
		t.Errorf("got %v", err)
	}
}
