// SPDX-License-Identifier: Apache-2.0

package runfolder

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"patchcheck/checks"
)

func TestFollow(t *testing.T) {
	now := time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	r, err := Create(t.TempDir(), now, "x")
	if err != nil {
		t.Fatal(err)
	}
	// Without a begun file nothing is written: a run that is only made anew
	// from its parts has no progress.
	if err := r.SaveCell(&Cell{ID: "patched/a/v3", Verdict: checks.Pass}); err != nil {
		t.Fatal(err)
	}
	if ev, err := Events(r.Dir()); err != nil || len(ev) != 0 {
		t.Errorf("%v %v", ev, err)
	}
	if err := r.BeginProgress(now); err != nil {
		t.Fatal(err)
	}
	got := make(chan Event, 10)
	done := make(chan error)
	go func() {
		done <- Follow(t.Context(), r.Dir(), time.Millisecond, func(e Event) error { got <- e; return nil })
	}()
	next := func(kind string) Event {
		t.Helper()
		e := <-got
		if e.Kind != kind {
			t.Errorf("%+v, want %s", e, kind)
		}
		return e
	}
	next(EventBegin)
	r.Progress(Event{At: now, Kind: EventStep, Step: "build", Detail: "5%"})
	if e := next(EventStep); e.Step != "build" || e.Detail != "5%" || e.Status != "" {
		t.Errorf("%+v", e)
	}
	// A line that a killed process left unfinished is passed over, and the next
	// one is whole.
	f, err := os.OpenFile(r.Path(ProgressName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("\nno event\n{\"kind\":\"st")
	f.Close()
	if err := r.SaveCell(&Cell{ID: "patched/b/v3", Verdict: checks.Fail, Reason: "bad"}); err != nil {
		t.Fatal(err)
	}
	if e := next(EventCell); e.Cell != "patched/b/v3" || e.Verdict != checks.Fail || e.Done != 2 {
		t.Errorf("%+v", e)
	}
	r.Verdict = checks.Fail
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	if e := next(EventEnd); e.Verdict != checks.Fail {
		t.Errorf("%+v", e)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	ev, err := Events(r.Dir())
	var kinds []string
	for _, e := range ev {
		kinds = append(kinds, e.Kind)
	}
	if err != nil || !slices.Equal(kinds, []string{EventBegin, EventStep, EventCell, EventEnd}) {
		t.Errorf("%v %v", kinds, err)
	}
}

// A run whose process is gone does not keep anybody waiting, nor does one
// without progress; a caller that goes away ends the watch.
func TestFollowEnds(t *testing.T) {
	r, err := Create(t.TempDir(), time.Now(), "x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Follow(ctx, r.Dir(), time.Millisecond, func(Event) error { return nil }) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Follow(t.Context(), r.Dir(), time.Hour, func(Event) error { return nil }); err != nil {
		t.Error(err)
	}
	stop := errors.New("stop")
	if err := r.BeginProgress(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := Follow(t.Context(), r.Dir(), time.Hour, func(Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}
