// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchcheck/checks"
	"patchcheck/internal/cache"
	"patchcheck/internal/history"
	"patchcheck/internal/kernel"
	"patchcheck/internal/proc"
	"patchcheck/internal/quarantine"
	"patchcheck/internal/run"
	"patchcheck/internal/runfolder"
	"patchcheck/patches"
)

// resumeWithin is how long after its beginning a night that was killed is taken
// up again instead of a new one being begun.
const resumeWithin = 20 * time.Hour

// Nightly runs nights.
type Nightly struct {
	Config *Config
	DB     *history.DB
	Engine Engine
	Forge  Forge       // nil: pull requests cannot be had
	Base   run.Options // what every run has in common: folders, accelerator, tool
	// Site makes the pages in a folder; nil: there are none.
	Site func(ctx context.Context, dir string) error
	Now  func() time.Time
	Log  func(line string) // progress; nil: silent
	Lock string            // lock file; "" for the history's name with .nightly.lock
}

// Change is one thing that is not as it was last night.
type Change struct {
	Target history.Target `json:"target,omitzero"`
	Worse  bool           `json:"worse,omitempty"`
	Lines  []string       `json:"lines"` // for people; the first stands for all
}

// Result is a night.
type Result struct {
	Night   history.Night       `json:"night"`
	Resumed bool                `json:"resumed,omitempty"`
	Last    string              `json:"last,omitempty"` // night that this one is compared with
	Trees   []history.TreeState `json:"trees"`
	Jobs    []history.Job       `json:"jobs"`
	Changes []Change            `json:"changes,omitempty"`
	Trouble []string            `json:"trouble,omitempty"` // of our own: no reason to blame a series
	Ran     int                 `json:"ran"`               // jobs that were run
	Known   int                 `json:"known"`             // jobs whose answer was known
}

// Worse says that something got worse since last night.
func (r *Result) Worse() bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Worse })
}

// work is one job on its way.
type work struct {
	job      history.Job
	opts     run.Options
	series   *patches.Series // nil for a tree alone
	pr       *PullRequest
	priority int
	failing  int           // nights that it has been failing
	fresh    bool          // never answered before
	estimate time.Duration // from its last run; 0: unknown
	index    int           // in the configuration
}

// night is one run of Nightly.
type night struct {
	*Nightly
	n        history.Night
	res      *Result
	last     map[history.Target]history.Job // of the last night that had the target
	earlier  map[history.Target]history.Job // of this night, when it is resumed
	list     *quarantine.List
	deadline time.Time // of the night; zero: none
}

// Run does a night. The error is for what keeps a night from being one at all
// (a lock, the history, the interruption); everything else is in the result.
func (n *Nightly) Run(ctx context.Context) (*Result, error) {
	if n.Now == nil {
		n.Now = time.Now
	}
	if n.Log == nil {
		n.Log = func(string) {}
	}
	file := n.Lock
	if file == "" {
		file = n.DB.Path() + ".nightly.lock"
	}
	l, err := lock(file, n.Config.File, n.Now())
	if err != nil {
		return nil, err
	}
	defer l.Close()
	x := &night{Nightly: n, res: &Result{}}
	if n.Config.Quarantine != "" {
		if x.list, err = quarantine.Load(n.Config.Quarantine); err != nil {
			return nil, err
		}
	}
	x.n, x.res.Resumed, err = n.DB.BeginNight(ctx, n.Config.File, n.Now(), resumeWithin)
	if err != nil {
		return nil, err
	}
	if b := time.Duration(n.Config.Budget); b > 0 {
		x.deadline = n.Now().Add(b)
	}
	if x.res.Resumed {
		n.Log("going on with the night " + x.n.ID)
	}
	err = x.all(ctx)
	x.res.Night = x.n
	if ctx.Err() != nil {
		return x.res, ctx.Err() // the night stays open: the next call goes on with it
	}
	if err != nil {
		return x.res, err
	}
	x.n.Ended, x.n.State = n.Now().UTC(), history.Done
	x.n.Summary = x.res.Text()
	x.res.Night = x.n
	if err := n.DB.EndNight(ctx, x.n.ID, x.n.Ended, x.n.State, x.n.Summary); err != nil {
		return x.res, err
	}
	x.publish(ctx)
	return x.res, ctx.Err()
}

func (x *night) trouble(format string, args ...any) {
	l := fmt.Sprintf(format, args...)
	x.res.Trouble = append(x.res.Trouble, l)
	x.Log(l)
}

func (x *night) all(ctx context.Context) error {
	if err := x.past(ctx); err != nil {
		return err
	}
	x.clean(ctx)
	tips, err := x.fetch(ctx)
	if err != nil {
		return err
	}
	todo, err := x.plan(ctx, tips)
	if err != nil {
		return err
	}
	if todo, err = x.known(ctx, todo); err != nil {
		return err
	}
	order(todo)
	for i, w := range todo {
		w.job.Position = i + 1
		if err := x.DB.SaveJob(ctx, w.job); err != nil {
			return err
		}
	}
	for _, w := range todo {
		if err := x.one(ctx, w); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if x.res.Jobs, err = x.DB.Jobs(ctx, x.n.ID); err != nil {
		return err
	}
	if x.res.Trees, err = x.DB.Trees(ctx, x.n.ID); err != nil {
		return err
	}
	return x.compare(ctx)
}

// past reads what earlier nights, and this one before it was killed, left.
func (x *night) past(ctx context.Context) error {
	x.last, x.earlier = map[history.Target]history.Job{}, map[history.Target]history.Job{}
	ns, err := x.DB.Nights(ctx, x.Config.File, 40)
	if err != nil {
		return err
	}
	for _, n := range ns {
		js, err := x.DB.Jobs(ctx, n.ID)
		if err != nil {
			return err
		}
		for _, j := range js {
			if n.ID == x.n.ID {
				x.earlier[j.Target] = j
			} else if old, ok := x.last[j.Target]; !ok || old.Run == "" && j.Run != "" && !old.State.Final() {
				x.last[j.Target] = j
			}
		}
		if n.ID != x.n.ID && x.res.Last == "" {
			x.res.Last = n.ID
		}
	}
	return nil
}

// fetch brings the trees up to date and says what became of each.
func (x *night) fetch(ctx context.Context) (map[string]Tip, error) {
	tips := map[string]Tip{}
	for _, t := range x.Config.Trees {
		x.Log("fetching the tree " + t.Name)
		s := history.TreeState{Tree: t.Name}
		old, err := x.DB.LastTree(ctx, t.Name, x.n.ID)
		if err != nil && !errors.Is(err, history.ErrUnknown) {
			return nil, err
		}
		tip, err := x.Engine.Fetch(ctx, t.From, t.Base)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			s.State, s.Detail = stateOf(err), brief(err)
			x.trouble("tree %s: %s: %s", t.Name, s.State, s.Detail)
		default:
			tips[t.Name] = tip
			s.ID, s.Tip = tip.ID, cmp.Or(tip.Commit, tip.ID)
			s.OldTip = old.Tip
			switch {
			case old.Tip == s.Tip:
				s.State = history.TreeSame
			case old.Tip == "" || tip.Commit == "":
				s.State = history.TreeNew
			default:
				s.State = history.TreeNew
				if yes, known := x.Engine.Contains(ctx, t.From, t.Base, old.Tip); known && !yes {
					s.State = history.TreeRewritten
					s.Detail = fmt.Sprintf("forced update: %.12s is no longer part of it, the tip is now %.12s", old.Tip, s.Tip)
				} else if !known {
					s.Detail = fmt.Sprintf("whether %.12s is still part of it could not be found out", old.Tip)
				}
			}
		}
		if err := x.DB.SaveTree(ctx, x.n.ID, s); err != nil {
			return nil, err
		}
	}
	return tips, nil
}

// stateOf chooses the state for a job, or a tree, that failed with err.
func stateOf(err error) history.State {
	var te *kernel.TreeError
	var full *cache.FullError
	switch {
	case errors.As(err, &full), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return history.DiskFull
	case errors.As(err, &te) && te.Infra:
		return history.FetchFailed
	case run.IsInput(err):
		return history.BadInput
	}
	return history.Broken
}

// brief words an error in a line: what failed, and the last words of the
// program that did, without its command line.
func brief(err error) string {
	var te *kernel.TreeError
	var pe *proc.Error
	if !errors.As(err, &te) || !errors.As(te.Err, &pe) {
		return firstLine(err.Error())
	}
	msg, _, _ := strings.Cut(te.Msg, ";")
	ls := strings.Split(strings.TrimSpace(pe.Tail), "\n")
	return fmt.Sprintf("%s: %s", msg, strings.TrimSpace(ls[len(ls)-1]))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// source is a series under a name.
type source struct {
	name   string
	of     *Series // entry of the configuration
	series *patches.Series
	pr     *PullRequest
	state  history.State // when there is no series
	detail string
}

// sources reads the series of the configuration.
func (x *night) sources(ctx context.Context) ([]source, error) {
	var out []source
	for i := range x.Config.Series {
		s := &x.Config.Series[i]
		if s.GitHub == nil {
			from := cmp.Or(s.From, s.Range)
			ser, err := x.Engine.Load(ctx, from, s.Repo)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			one := source{name: s.Name, of: s, series: ser}
			if err != nil {
				one.series, one.state, one.detail = nil, history.BadInput, brief(err)
			}
			out = append(out, one)
			continue
		}
		if x.Forge == nil {
			out = append(out, source{name: s.Name, of: s, state: history.BadInput, detail: "GitHub cannot be asked: no token, see docs/nightly.md"})
			continue
		}
		x.Log(fmt.Sprintf("asking for pull requests of %s labelled %s", s.GitHub.Repo, s.GitHub.Label))
		prs, err := x.Forge.PullRequests(ctx, s.GitHub.Repo, s.GitHub.Label)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			out = append(out, source{name: s.Name, of: s, state: history.FetchFailed, detail: brief(err)})
			continue
		}
		for i := range prs {
			pr := prs[i]
			one := source{name: fmt.Sprintf("%s#%d", s.Name, pr.Number), of: s, series: pr.Series, pr: &pr}
			if pr.Err != nil {
				one.series, one.state, one.detail = nil, history.FetchFailed, firstLine(pr.Err.Error())
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// alone is the name of the series that is none.
const alone = "-"

// plan makes the jobs of the night. Those that cannot be run are recorded with
// their state at once; the others are returned.
func (x *night) plan(ctx context.Context, tips map[string]Tip) ([]*work, error) {
	srcs, err := x.sources(ctx)
	if err != nil {
		return nil, err
	}
	var out []*work
	trees, err := x.DB.Trees(ctx, x.n.ID)
	if err != nil {
		return nil, err
	}
	index := 0
	told := map[string]bool{}
	add := func(t *Tree, p *Plan, s source) error {
		index++
		w := &work{series: s.series, pr: s.pr, index: index,
			job: history.Job{Night: x.n.ID, Target: history.Target{Tree: t.Name, Series: s.name, Plan: p.Name}, State: history.Waiting}}
		w.priority = p.Priority
		o := x.Base
		o.Plan, o.Device, o.NFS, o.Debug, o.Variants, o.BuildOnly, o.Repeat = p.Plan, p.Device, p.NFS, p.Debug, p.Variants, p.BuildOnly, max(1, p.Repeat)
		o.Tree, o.Base, o.Series, o.Target, o.Quarantine = t.From, t.Base, s.series, w.job.Target, x.list
		o.Accel, o.Jobs = cmp.Or(x.Config.Accel, o.Accel), cmp.Or(x.Config.Jobs, o.Jobs)
		if s.of == nil {
			o.Alone = t.Alone
		} else {
			w.priority += s.of.Priority
		}
		tip, ok := tips[t.Name]
		if ok && tip.Commit != "" {
			o.Base = tip.Commit // the same for all jobs of the night
		}
		w.opts = o
		switch {
		case !ok:
			for _, st := range trees {
				if st.Tree == t.Name {
					w.job.State, w.job.Detail = st.State, st.Detail
				}
			}
		case s.state != "":
			w.job.State, w.job.Detail = s.state, s.detail
		default:
			out = append(out, w)
			return nil
		}
		if s.state != "" && ok && !told[s.name] {
			told[s.name] = true
			x.trouble("series %s: %s: %s", s.name, w.job.State, w.job.Detail)
		}
		return x.DB.SaveJob(ctx, w.job)
	}
	for i := range x.Config.Trees {
		t := &x.Config.Trees[i]
		for j := range x.Config.Plans {
			p := &x.Config.Plans[j]
			if t.Alone != "" {
				if err := add(t, p, source{name: alone}); err != nil {
					return nil, err
				}
			}
			for _, s := range srcs {
				if len(s.of.Trees) > 0 && !slices.Contains(s.of.Trees, t.Name) || len(s.of.Plans) > 0 && !slices.Contains(s.of.Plans, p.Name) {
					continue
				}
				if err := add(t, p, s); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// words names a target for people.
func words(t history.Target) string {
	if t.Series == alone {
		return fmt.Sprintf("%s with %s", t.Tree, t.Plan)
	}
	return fmt.Sprintf("%s on %s with %s", t.Series, t.Tree, t.Plan)
}

// known takes out the jobs whose answer is known and records them.
func (x *night) known(ctx context.Context, todo []*work) ([]*work, error) {
	var out []*work
	for _, w := range todo {
		// A resumed night keeps what it has answered.
		if e, ok := x.earlier[w.job.Target]; ok && e.State.Final() && (e.Run != "" || e.State == history.Hung) {
			if e.State == history.Known {
				x.res.Known++
			}
			continue
		}
		j, err := x.Engine.Key(ctx, w.opts)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			w.job.State, w.job.Detail = stateOf(err), brief(err)
			x.trouble("%s: %s: %s", words(w.job.Target), w.job.State, w.job.Detail)
			if err := x.DB.SaveJob(ctx, w.job); err != nil {
				return nil, err
			}
			continue
		}
		w.job.Key = j.Key
		r, err := x.DB.ByKey(ctx, j.Key)
		switch {
		case errors.Is(err, history.ErrUnknown):
			if err := x.weigh(ctx, w); err != nil {
				return nil, err
			}
			out = append(out, w)
		case err != nil:
			return nil, err
		default:
			w.job.State, w.job.Run, w.job.Verdict, w.job.Detail = history.Known, r.ID, r.Verdict, r.Reason
			if c, ok := x.culpritOf(ctx, w.job.Target, r.ID); ok {
				w.job.Culprit = c
			}
			x.res.Known++
			if err := x.DB.SaveJob(ctx, w.job); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// culpritOf finds the culprit that an earlier night named for the same run.
func (x *night) culpritOf(ctx context.Context, t history.Target, runID string) (history.Culprit, bool) {
	js, err := x.DB.JobsOf(ctx, t, 100)
	if err != nil {
		return history.Culprit{}, false
	}
	for _, j := range js {
		if j.Run == runID && j.Culprit.Patch > 0 {
			return j.Culprit, true
		}
	}
	return history.Culprit{}, false
}

// weigh finds out what decides a job's place in the night.
func (x *night) weigh(ctx context.Context, w *work) error {
	js, err := x.DB.JobsOf(ctx, w.job.Target, 400)
	if err != nil {
		return err
	}
	w.fresh = true
	for _, j := range js {
		if j.Night == x.n.ID || j.Run == "" {
			continue
		}
		if w.fresh && j.Verdict == checks.Pass {
			w.fresh = false
			break
		}
		w.fresh = false
		if history.Failing(j.Verdict) {
			w.failing++
		} else {
			break
		}
	}
	rs, err := x.DB.Runs(ctx, history.Filter{Target: w.job.Target, Finished: true, Limit: 10})
	if err != nil {
		return err
	}
	for _, r := range rs {
		if d := r.Ended.Sub(r.Started); r.Executed > 0 {
			w.estimate = d
			break
		}
	}
	return nil
}

// order sorts the jobs of a night: by priority, the highest first; then those
// that fail, the longest first; then what was never answered; then what takes
// least time, so that as many as possible fit; then as written.
func order(todo []*work) {
	slices.SortStableFunc(todo, func(a, b *work) int {
		return cmp.Or(
			cmp.Compare(b.priority, a.priority),
			cmp.Compare(b.failing, a.failing),
			boolFirst(a.fresh, b.fresh),
			cmp.Compare(a.estimate, b.estimate),
			cmp.Compare(a.index, b.index),
		)
	})
}

func boolFirst(a, b bool) int {
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return 0
}

// one runs a job and records what became of it.
func (x *night) one(ctx context.Context, w *work) error {
	j := &w.job
	left := time.Duration(0)
	if !x.deadline.IsZero() {
		left = x.deadline.Sub(x.Now())
		if left <= 0 || w.estimate > left {
			j.State, j.Detail = history.Left, "the night's time was used up"
			if left > 0 {
				j.Detail = fmt.Sprintf("its last run took %v, the night had %v left", w.estimate.Round(time.Minute), left.Round(time.Minute))
			}
			return x.DB.SaveJob(ctx, *j)
		}
	}
	if !x.room(ctx) {
		j.State = history.DiskFull
		free, _ := x.Engine.Free()
		j.Detail = fmt.Sprintf("%d MiB are free, disk.min_free asks for %v", free>>20, x.Config.Disk.MinFree)
		x.trouble("%s: %s: %s", words(j.Target), j.State, j.Detail)
		return x.DB.SaveJob(ctx, *j)
	}
	j.State, j.Started = history.Running, x.Now().UTC()
	if err := x.DB.SaveJob(ctx, *j); err != nil {
		return err
	}
	x.Log("running " + words(j.Target))
	limit := time.Duration(x.Config.Deadline)
	if left > 0 {
		limit = min(limit, left)
	}
	jctx, cancel := context.WithTimeout(ctx, limit)
	rec, err := x.Engine.Run(jctx, w.opts)
	over := jctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
	cancel()
	x.res.Ran++
	switch {
	case ctx.Err() != nil:
		j.State, j.Ended = history.Interrupted, x.Now().UTC()
		// ctx is over; the record must be written all the same.
		return errors.Join(ctx.Err(), x.DB.SaveJob(context.WithoutCancel(ctx), *j))
	case err != nil && over && left > 0 && limit == left:
		j.State, j.Detail = history.Left, "the night's time was used up while it ran; what it built and passed is kept"
	case err != nil && over:
		j.State, j.Detail = history.Hung, fmt.Sprintf("it did not end within job_deadline (%v)%s", limit, lastStep(rec))
		x.trouble("%s: %s: %s", words(j.Target), j.State, j.Detail)
	case err != nil:
		j.State, j.Detail = stateOf(err), brief(err)
		x.trouble("%s: %s: %s", words(j.Target), j.State, j.Detail)
	default:
		j.Run, j.Verdict, j.Detail = rec.ID, rec.Verdict, firstLine(rec.Reason)
		j.State = outcome(rec.Findings, rec.Verdict, rec.Reason)
		if err := x.DB.RecordIn(ctx, rec, x.n.ID); err != nil {
			return err
		}
		if j.State != history.Done && j.State != history.Conflict && j.State != history.BaseBroken {
			x.trouble("%s: %s: %s", words(j.Target), j.State, j.Detail)
		}
	}
	j.Ended = x.Now().UTC()
	if err := x.DB.SaveJob(ctx, *j); err != nil {
		return err
	}
	if j.State == history.Done && j.Verdict == checks.Fail && w.series != nil && (x.Config.Culprit == nil || *x.Config.Culprit) {
		if err := x.culprit(ctx, w, rec); err != nil {
			return err
		}
	}
	if x.Config.Publish.GitHub && w.pr != nil && j.State == history.Done && x.Forge != nil {
		if err := x.Forge.Report(ctx, *w.pr, rec); err != nil {
			x.trouble("%s: the result could not be published: %v", words(j.Target), brief(err))
		}
	}
	return nil
}

func lastStep(rec *runfolder.Run) string {
	if rec == nil || len(rec.Steps) == 0 {
		return ""
	}
	return "; it was at step " + rec.Steps[len(rec.Steps)-1].Name
}

// outcome says what a run that ended means for its job.
func outcome(findings []checks.Finding, verdict checks.Verdict, reason string) history.State {
	for _, f := range findings {
		switch f.ID {
		case "apply.fails":
			return history.Conflict
		case "build.base-fails":
			return history.BaseBroken
		}
	}
	if verdict == checks.Infra {
		if strings.Contains(reason, "no space left") {
			return history.DiskFull
		}
		return history.Broken
	}
	return history.Done
}

// room says whether there is enough, after clearing up if need be.
func (x *night) room(ctx context.Context) bool {
	enough := func() bool {
		n, err := x.Engine.Free()
		return err != nil || n >= int64(x.Config.Disk.MinFree)
	}
	if enough() {
		return true
	}
	x.Log("room is short: removing what the cache has not used for three days")
	if x.Config.Disk.CacheDays >= 0 {
		if err := x.Engine.Clean(ctx, min(3, x.Config.Disk.CacheDays)); err != nil {
			x.trouble("the cache could not be cleared up: %v", err)
		}
	}
	return enough()
}

// clean removes old run folders and cache entries.
func (x *night) clean(ctx context.Context) {
	if d := x.Config.Disk.CacheDays; d >= 0 {
		if err := x.Engine.Clean(ctx, d); err != nil && ctx.Err() == nil {
			x.trouble("the cache could not be cleared up: %v", brief(err))
		}
	}
	if err := x.cleanRuns(ctx); err != nil && ctx.Err() == nil {
		x.trouble("old run folders could not be removed: %v", brief(err))
	}
}

// cleanRuns removes run folders of nights that are too old, and the oldest
// until those left fit. It keeps those that the history does not have, those
// that still answer for a target, and those that a failure which lasts began
// with. Run folders that no night made are not touched.
func (x *night) cleanRuns(ctx context.Context) error {
	if x.Base.RunsDir == "" {
		return nil
	}
	dirs, err := runfolder.List(x.Base.RunsDir)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	ts, err := x.DB.Targets(ctx)
	if err != nil {
		return err
	}
	for _, t := range ts {
		keep[t.Latest.ID] = true
		g, err := x.DB.Grid(ctx, t.Target, 0)
		if err != nil {
			return err
		}
		for _, f := range g.Failures() {
			if f.FixedIn == "" {
				keep[f.FirstRun], keep[f.LastRun] = true, true
			}
		}
	}
	for _, j := range x.last {
		keep[j.Run] = true
	}
	type old struct {
		dir   string
		bytes int64
		gone  bool
	}
	var mine []old // newest first
	var total int64
	limit := x.Now().AddDate(0, 0, -x.Config.Disk.KeepDays)
	for _, d := range dirs {
		r, err := runfolder.Open(d)
		if err != nil || r.Target == (runfolder.Target{}) || runfolder.Working(d) {
			continue
		}
		n := size(d)
		total += n
		// A run that was cut off is in no history and answers for nothing.
		cut := r.Ended.IsZero() && r.Started.Before(limit)
		if _, err := x.DB.Facts(ctx, r.ID); err != nil && !cut || keep[r.ID] {
			continue
		}
		mine = append(mine, old{d, n, r.Started.Before(limit)})
	}
	removed := 0
	for i := len(mine) - 1; i >= 0; i-- {
		o := mine[i]
		if !o.gone && (x.Config.Disk.MaxRuns == 0 || total <= int64(x.Config.Disk.MaxRuns)) {
			continue
		}
		if err := os.RemoveAll(o.dir); err != nil {
			return err
		}
		total -= o.bytes
		removed++
	}
	if removed > 0 {
		x.Log(fmt.Sprintf("%d old run folders removed", removed))
	}
	return nil
}

func size(dir string) (n int64) {
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if fi, err := d.Info(); err == nil {
				n += fi.Size()
			}
		}
		return nil
	})
	return n
}

// publish runs the hooks. What fails there is trouble, not the night's end.
func (x *night) publish(ctx context.Context) {
	p := x.Config.Publish
	if p.Site != "" {
		switch {
		case x.Site == nil:
			x.trouble("the pages were not made: this patchcheck cannot")
		default:
			if err := x.Site(ctx, p.Site); err != nil {
				x.trouble("the pages in %s could not be made: %v", p.Site, brief(err))
			}
		}
	}
	if len(p.Command) == 0 {
		return
	}
	f, err := os.CreateTemp("", "patchcheck-night-")
	if err == nil {
		defer os.Remove(f.Name())
		_, err = io.WriteString(f, x.n.Summary)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		x.trouble("the command could not be run: %v", err)
		return
	}
	env := append(proc.MinimalEnv(), "PATCHCHECK_NIGHT="+x.n.ID, "PATCHCHECK_SUMMARY="+f.Name(), "PATCHCHECK_HISTORY="+x.DB.Path(),
		"PATCHCHECK_CHANGED="+digit(len(x.res.Changes) > 0), "PATCHCHECK_WORSE="+digit(x.res.Worse()))
	cctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if _, err := proc.Run(cctx, proc.Cmd{Argv: p.Command, Dir: filepath.Dir(x.Config.File), Env: env, Stderr: nil}); err != nil {
		x.trouble("publish.command failed: %v", brief(err))
	}
}

func digit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
