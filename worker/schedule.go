package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Start records a run of one recipe, as [workflow.Workflow.Enqueue] does. It returns the run's id.
type Start func(ctx context.Context, inputs map[string]any, opts *workflow.EnqueueOptions) (string, error)

// Schedule begins runs at given times. Every worker with the schedule does so, and the id of a run says for which time
// it is, NAME-20261122T0200Z in UTC: so each time has one run, however many workers there are.
type Schedule struct {
	Name   string            // begins the ids of the runs: letters, digits and - _ .
	Start  Start             // records a run
	Inputs map[string]any    // of every run; nil: none
	Cron   string            // minute, hour, day of the month, month, day of the week; as crontab(5) has them
	Zone   *time.Location    // in which Cron is read; nil: UTC
	Queue  string            // of the runs; "": the first of the worker's
	Labels map[string]string // of the runs; nil: none
	// Last also begins a run for the last time that has passed while no worker was there to see it. By default such
	// times are skipped. It needs a store that is a checkpoint.Documents.
	Last bool
}

// Check returns what is wrong with the schedule; nil: nothing is.
func (s *Schedule) Check() error {
	at := time.Unix(0, 0)
	if err := (checkpoint.Run{ID: s.runID(at), Digest: "0", StartedAt: at}).Check(); err != nil {
		return fmt.Errorf("schedule %q: its name begins the ids of its runs, so it has letters, digits and - _ . only",
			s.Name)
	}
	if len(strings.Fields(s.Cron)) != 5 || !gronx.IsValid(s.Cron) {
		return fmt.Errorf("schedule %q: cron %q is not a time\n  hint: it has five fields: minute, hour, day of the "+
			"month, month, day of the week; each night at two is \"0 2 * * *\"", s.Name, s.Cron)
	}
	if s.Start == nil {
		return fmt.Errorf("schedule %q: it has no Start", s.Name)
	}
	if s.Next(time.Now()).IsZero() {
		return fmt.Errorf("schedule %q: cron %q never comes", s.Name, s.Cron)
	}
	return nil
}

// checkSchedules checks the schedules of a worker.
func (w *Worker) checkSchedules() error {
	for i := range w.Schedules {
		s := &w.Schedules[i]
		if err := s.Check(); err != nil {
			return err
		}
		if slices.ContainsFunc(w.Schedules[:i], func(o Schedule) bool { return o.Name == s.Name }) {
			return fmt.Errorf("schedule %q: there are two of this name, and their runs would have the same ids", s.Name)
		}
		if _, ok := w.Runtime.Store.(checkpoint.Documents); s.Last && !ok {
			return fmt.Errorf("schedule %q: a %T does not keep its last time", s.Name, w.Runtime.Store)
		}
	}
	return nil
}

// runID is the id of the run for a time.
func (s *Schedule) runID(at time.Time) string {
	return s.Name + "-" + at.UTC().Format("20060102T1504Z")
}

// Next returns the first time of the schedule after t; zero: there is none within the years that the library looks at.
// When the clocks of the zone go forward, a time that they leave out comes at the moment of the change. When they go
// back, a time that they show twice comes once, the first time, unless the schedule is for every hour or every few.
func (s *Schedule) Next(t time.Time) time.Time {
	t = t.In(cmp.Or(s.Zone, time.UTC))
	fields, err := gronx.Segments(s.Cron)
	if err != nil {
		return time.Time{}
	}
	hourly := strings.HasPrefix(fields[2], "*")
	for inclusive := false; ; inclusive = true {
		_, offset := t.Zone()
		_, end := t.ZoneBounds()
		// Until the clocks change, a clock without changes shows the same.
		next, err := gronx.NextTickAfter(s.Cron, t.In(time.FixedZone("", offset)), inclusive)
		if err != nil {
			return time.Time{}
		}
		if end.IsZero() || next.Before(end) {
			return next.In(t.Location())
		}
		_, changed := end.Zone()
		shift := time.Duration(changed-offset) * time.Second
		if t = end; hourly {
			continue
		}
		if next.Before(end.Add(shift)) {
			return end
		}
		t = end.Add(max(-shift, 0))
	}
}

// last returns the last time of the schedule that is after one time and not after another; zero: there is none.
func (s *Schedule) last(after, until time.Time) (last time.Time) {
	for t := s.Next(after); !t.IsZero() && !t.After(until); t = s.Next(t) {
		last = t
	}
	return last
}

// A time counts as missed when nobody looked for missedTime. The clock is looked at every clockTime, as it may be set,
// and computers sleep.
const (
	missedTime = time.Minute
	clockTime  = 10 * time.Second
)

// keep begins the runs of a schedule until ctx ends.
func (l *loop) keep(ctx context.Context, s *Schedule) {
	seen := execution.Now(ctx, l.Runtime.Store)
	if s.Last {
		seen = l.recall(ctx, s, seen)
	}
	for ctx.Err() == nil {
		now := execution.Now(ctx, l.Runtime.Store)
		if at := s.last(seen, now); !at.IsZero() {
			if now.Sub(at) < missedTime || s.Last {
				l.beginFor(ctx, s, at, s.Next(at).Sub(now))
			}
			seen = at
		}
		left := s.Next(seen).Sub(execution.Now(ctx, l.Runtime.Store))
		select {
		case <-ctx.Done():
		case <-time.After(min(max(left, time.Millisecond), clockTime)):
		}
	}
}

// beginFor records the run for a time. It goes on trying while the store fails, until the next time, which is in left.
func (l *loop) beginFor(ctx context.Context, s *Schedule, at time.Time, left time.Duration) {
	queue := s.Queue
	if queue == "" && len(l.Queues) > 0 {
		queue = l.Queues[0]
	}
	opts := &workflow.EnqueueOptions{RunID: s.runID(at), Queue: queue, Labels: s.Labels, By: "schedule " + s.Name}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		_, err := s.Start(ctx, s.Inputs, opts)
		e, _ := errors.AsType[*runtime.Error](err)
		switch {
		case err == nil, e != nil && e.Code == "run.exists":
			l.note(ctx, s, at)
			return
		case e != nil && e.Code != "store.failed": // it would fail again
			l.warn(fmt.Sprintf("schedule %q: no run began for %s", s.Name, at.UTC().Format(time.RFC3339)), err)
			return
		}
		select {
		case <-ctx.Done():
			l.warn(fmt.Sprintf("schedule %q: no run began for %s", s.Name, at.UTC().Format(time.RFC3339)), err)
			return
		case <-time.After(wait):
		}
	}
}

// schedules is the collection in which stores keep the last time of each schedule that has one, by name.
const schedules = "braise.schedules"

// note keeps the last time of a schedule, so that it is known after the run was removed.
func (l *loop) note(ctx context.Context, s *Schedule, at time.Time) {
	documents, ok := l.Runtime.Store.(checkpoint.Documents)
	if !s.Last || !ok {
		return
	}
	if err := guard.Documented(documents).PutDocument(ctx, schedules,
		checkpoint.Document{Name: s.Name, Text: at.UTC().Format(time.RFC3339)}); err != nil {
		l.warn(fmt.Sprintf("schedule %q: its last time was not kept", s.Name), err)
	}
}

// recall returns the last time of a schedule. For a new schedule that is now: what has passed is not missed.
func (l *loop) recall(ctx context.Context, s *Schedule, now time.Time) time.Time {
	documents, ok := l.Runtime.Store.(checkpoint.Documents)
	if !ok {
		return now
	}
	all, err := guard.Documented(documents).Documents(ctx, schedules)
	if err != nil {
		l.warn(fmt.Sprintf("schedule %q: its last time is not known", s.Name), err)
		return now
	}
	for _, d := range all {
		if at, err := time.Parse(time.RFC3339, d.Text); d.Name == s.Name && err == nil {
			return at
		}
	}
	l.note(ctx, s, now)
	return now
}
