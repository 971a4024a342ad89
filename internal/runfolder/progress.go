// SPDX-License-Identifier: Apache-2.0

package runfolder

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"patchcheck/checks"
)

// ProgressName is the file in a run folder to which the process that works on
// the run appends what it does, as JSON lines. It is there for those who watch:
// nothing is judged by it, and a run without it is whole.
const ProgressName = "progress.jsonl"

// Kinds of events.
const (
	EventBegin = "begin" // a process took the run up, for the first time or again
	EventStep  = "step"  // a step began, said something, or ended
	EventCell  = "cell"  // a cell has a new answer; it may change while failures are attributed
	EventEnd   = "end"   // the run has its verdict
)

// Event is one line of the progress.
type Event struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`

	// Of a step. Status is "" while it runs.
	Step    string        `json:"step,omitempty"`
	Status  string        `json:"status,omitempty"`
	Detail  string        `json:"detail,omitempty"`
	Started time.Time     `json:"started,omitzero"`
	Elapsed time.Duration `json:"elapsed_ns,omitempty"`

	// Of a cell.
	Cell  string `json:"cell,omitempty"`
	Done  int    `json:"done,omitempty"`  // cells that have an answer
	Total int    `json:"total,omitempty"` // cells of the plan

	// Of a cell or of the run.
	Verdict checks.Verdict `json:"verdict,omitempty"`
	Reason  string         `json:"reason,omitempty"`
}

// BeginProgress starts the progress file, or goes on with it.
func (r *Run) BeginProgress(now time.Time) error {
	f, err := os.OpenFile(r.Path(ProgressName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return r.Progress(Event{At: now, Kind: EventBegin, Total: len(r.Plan.Cells())})
}

// Progress appends an event, as a whole line, to a progress file that was
// begun. Without one it does nothing.
func (r *Run) Progress(e Event) error {
	f, err := os.OpenFile(r.Path(ProgressName), os.O_APPEND|os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := json.Marshal(e)
	if err == nil {
		b = append(b, '\n')
		// A process that was killed in the middle of a line left it without end.
		if fi, serr := f.Stat(); serr == nil && fi.Size() > 0 {
			last := make([]byte, 1)
			if _, rerr := f.ReadAt(last, fi.Size()-1); rerr == nil && last[0] != '\n' {
				b = append([]byte{'\n'}, b...)
			}
		}
		_, err = f.Write(b)
	}
	return errors.Join(err, f.Close())
}

// cellProgress tells of a cell's answer.
func (r *Run) cellProgress(c *Cell) error {
	done := 0
	for _, x := range r.Cells {
		if x.Verdict != "" {
			done++
		}
	}
	return r.Progress(Event{At: time.Now(), Kind: EventCell, Cell: c.ID, Verdict: c.Verdict, Reason: c.Reason, Done: done, Total: len(r.Plan.Cells())})
}

// Follow calls each for every event of the run in dir, from the first on, and
// goes on as they are appended, looking every interval. It returns nil when the
// run has ended or no process works on it any more, ctx's error when that is
// done first, and each's error at once. Lines that are no events are passed
// over.
func Follow(ctx context.Context, dir string, interval time.Duration, each func(Event) error) error {
	var f *os.File
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	var rest []byte
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		working := Working(dir) // asked before reading: what was written until then is seen
		if f == nil {
			var err error
			if f, err = os.Open(filepath.Join(dir, ProgressName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if f != nil {
			b, err := io.ReadAll(io.LimitReader(f, 16<<20))
			if err != nil {
				return err
			}
			rest = append(rest, b...)
			for {
				i := bytes.IndexByte(rest, '\n')
				if i < 0 {
					break
				}
				var e Event
				if json.Unmarshal(rest[:i], &e) == nil && e.Kind != "" {
					if err := each(e); err != nil {
						return err
					}
				}
				rest = rest[i+1:]
			}
			if len(b) == 16<<20 {
				continue
			}
		}
		if !working {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// Events reads the progress so far; none without an error when there is no
// file.
func Events(dir string) ([]Event, error) {
	f, err := os.Open(filepath.Join(dir, ProgressName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Event
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var e Event
		if json.Unmarshal(sc.Bytes(), &e) == nil && e.Kind != "" {
			out = append(out, e)
		}
	}
	return out, sc.Err()
}
