// SPDX-License-Identifier: Apache-2.0

package run

import (
	"time"

	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
)

// tellEvery is the least time between two details of a step that reach the
// progress file; begin and end always do.
const tellEvery = time.Second

// tell has the steps of this run written to its progress file, for those who
// watch it from another process. That file is no part of the record: a full
// disk is noticed where the record is written.
func (r *runner) tell() {
	if r.rec.BeginProgress(time.Now()) != nil {
		return
	}
	rec := r.rec
	var name string
	var last time.Time
	r.o.View.Observe(func(s view.Step) {
		now := time.Now()
		if s.Name == name && s.Status == "" && now.Sub(last) < tellEvery {
			return
		}
		name, last = s.Name, now
		rec.Progress(runfolder.Event{At: now, Kind: runfolder.EventStep, Step: s.Name, Status: string(s.Status), Detail: s.Detail, Started: s.Started, Elapsed: s.Elapsed})
	})
}
