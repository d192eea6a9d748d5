package checkpointtest

import (
	"context"
	"fmt"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// ids lists the runs that a filter lets through.
func (h *harness) ids(f checkpoint.Filter) []string {
	h.Helper()
	all, err := h.s.List(h.ctx, f)
	h.want("List", err, nil)
	ids := []string{}
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

// history creates runs of every status. The later in the list, the newer.
func (h *harness) history() {
	h.Helper()
	end := func(status string) checkpoint.Record { return rec(600, checkpoint.RunEnded, "", "status", status) }
	due := func(pause string, hours int) checkpoint.Record {
		return opened(pause, "dueAt", start.Add(time.Duration(hours)*time.Hour))
	}
	paused := rec(600, checkpoint.RunPaused, "")
	for i, r := range []struct {
		id, recipe string
		recs       []checkpoint.Record
	}{
		{"ok", "greet", []checkpoint.Record{end("ok")}},
		{"failed", "other", []checkpoint.Record{due("p", 1), end("error")}},
		{"cancelled", "greet", []checkpoint.Record{end("cancelled")}},
		{"paused", "other", []checkpoint.Record{due("p", 5), due("q", 3), paused}},
		{"expiring", "greet", []checkpoint.Record{opened("p", "expiresAt", start.Add(2*time.Hour)), paused}},
		{"waiting", "greet", []checkpoint.Record{opened("p"), paused}},
		{"running", "greet", []checkpoint.Record{rec(600, "step.end", "")}},
	} {
		run := makeRun(r.id, i)
		run.Recipe = r.recipe
		l, err := h.s.Create(h.ctx, run, "me", long, r.recs...)
		h.want("Create", err, nil)
		h.want("Release", h.s.Release(h.ctx, l), nil)
	}
}

func testList(h *harness) {
	h.same("no runs", h.ids(checkpoint.Filter{}), []string{})
	h.history()
	h.create("same-a") // started when "ok" did
	h.create("same-b")
	for _, tt := range []struct {
		filter checkpoint.Filter
		want   []string
	}{
		{checkpoint.Filter{},
			[]string{"running", "waiting", "expiring", "paused", "cancelled", "failed", "same-b", "same-a", "ok"}},
		{checkpoint.Filter{Limit: 2}, []string{"running", "waiting"}},
		{checkpoint.Filter{Limit: 99, Phases: in(checkpoint.PhaseWaiting)}, []string{"waiting", "expiring", "paused"}},
		{checkpoint.Filter{Limit: 1, Phases: in(checkpoint.PhaseWaiting), Recipe: "other"}, []string{"paused"}},
		{checkpoint.Filter{Phases: in(checkpoint.PhaseOK)}, []string{"ok"}},
		{checkpoint.Filter{Phases: in(checkpoint.PhaseFailed)}, []string{"failed"}},
		{checkpoint.Filter{Phases: in(checkpoint.PhaseCancelled)}, []string{"cancelled"}},
		{checkpoint.Filter{Phases: in(checkpoint.PhaseRunning, checkpoint.PhaseInterrupted)},
			[]string{"running", "same-b", "same-a"}},
		{checkpoint.Filter{Recipe: "other"}, []string{"paused", "failed"}},
		{checkpoint.Filter{Recipe: "' OR 1=1 --"}, []string{}},
		{checkpoint.Filter{Phases: in("%")}, []string{}},
		{checkpoint.Filter{DueBefore: start.Add(2*time.Hour - 1)}, []string{}},
		{checkpoint.Filter{DueBefore: start.Add(2 * time.Hour)}, []string{"expiring"}},
		{checkpoint.Filter{DueBefore: start.Add(9 * time.Hour)}, []string{"expiring", "paused"}},
		{checkpoint.Filter{DueBefore: start.Add(9 * time.Hour), Limit: 1}, []string{"expiring"}},
	} {
		h.same(fmt.Sprintf("%+v", tt.filter), h.ids(tt.filter), tt.want)
	}
}

func testDelete(h *harness) {
	h.history()
	h.want("Delete", h.s.Delete(h.ctx, "waiting"), nil)
	h.want("Delete again", h.s.Delete(h.ctx, "waiting"), checkpoint.ErrNotFound)
	_, _, err := h.s.Load(h.ctx, "waiting", 0)
	h.want("Load", err, checkpoint.ErrNotFound)
	_, err = h.s.Claim(h.ctx, "waiting", "me", 0)
	h.want("Claim", err, checkpoint.ErrNotFound)
	h.same("what is left", h.ids(checkpoint.Filter{}),
		[]string{"running", "expiring", "paused", "cancelled", "failed", "ok"})

	l := h.claim("running", long)
	h.want("Delete of a run that is held", h.s.Delete(h.ctx, "running"), checkpoint.ErrBusy)
	h.append(l, 2, note("still there"))
	_, err = h.s.Renew(h.ctx, l, 0)
	h.want("Renew", err, nil)
	h.want("Delete of a run whose lease ran out", h.s.Delete(h.ctx, "running"), nil)
	h.want("Append", h.s.Append(h.ctx, l, 3, note("gone")), checkpoint.ErrNotFound)
	h.want("Release", h.s.Release(h.ctx, l), checkpoint.ErrNotFound)
}

func testPrune(h *harness) {
	h.history()
	prune := func(want int, before time.Time, statuses ...checkpoint.Status) {
		h.Helper()
		n, err := h.s.Prune(h.ctx, before, statuses...)
		h.want("Prune", err, nil)
		h.same(fmt.Sprintf("runs pruned of %v", statuses), n, want)
	}
	last := start.Add(10 * time.Minute) // of every run but those that began later
	prune(0, last)
	h.claim("failed", long)
	prune(2, last.Add(1))
	h.same("what is left", h.ids(checkpoint.Filter{}), []string{"running", "waiting", "expiring", "paused", "failed"})
	prune(0, last.Add(1))
	prune(3, last.Add(1), checkpoint.Paused, checkpoint.Failed)
	h.same("what is left", h.ids(checkpoint.Filter{}), []string{"running", "failed"})
	_, err := h.s.Definition(h.ctx, digest)
	h.want("Definition that is in use", err, nil)

	prune(1, last.Add(1), checkpoint.Running)
	h.want("Delete", h.s.Delete(h.ctx, "failed"), checkpoint.ErrBusy)
	run := checkpoint.Run{ID: "new", Digest: "other", Definition: []byte("{}"), StartedAt: start}
	l, err := h.s.Create(h.ctx, run, "me", long)
	h.want("Create", err, nil)
	h.append(l, 1, rec(600, checkpoint.RunEnded, "", "status", "ok"))
	h.want("Release", h.s.Release(h.ctx, l), nil)
	prune(1, last.Add(1))
	_, err = h.s.Definition(h.ctx, "other")
	h.want("Definition that is not in use", err, checkpoint.ErrNotFound)
	_, err = h.s.Definition(h.ctx, digest)
	h.want("Definition that is in use", err, nil)
}

// calls are all methods of a store that take a context, each on the run that l holds.
func calls(s checkpoint.Store, l checkpoint.Lease, after int64) map[string]func(context.Context) error {
	signals, querier := s.(checkpoint.Signals), s.(checkpoint.Querier)
	return map[string]func(context.Context) error{
		"Create": func(ctx context.Context) error {
			_, err := s.Create(ctx, makeRun("new", 0), "me", 0)
			return err
		},
		"Claim":   func(ctx context.Context) error { _, err := s.Claim(ctx, l.RunID, "me", 0); return err },
		"Renew":   func(ctx context.Context) error { _, err := s.Renew(ctx, l, long); return err },
		"Release": func(ctx context.Context) error { return s.Release(ctx, l) },
		"Append":  func(ctx context.Context) error { return s.Append(ctx, l, after, note("new")) },
		"AnswerPause": func(ctx context.Context) error {
			return s.AnswerPause(ctx, l, after, []byte("one"), answer("p", 0))
		},
		"FindPause": func(ctx context.Context) error {
			_, err := s.FindPause(ctx, l.RunID, []byte("one"))
			return err
		},
		"Load":       func(ctx context.Context) error { _, _, err := s.Load(ctx, l.RunID, 0); return err },
		"Definition": func(ctx context.Context) error { _, err := s.Definition(ctx, digest); return err },
		"List":       func(ctx context.Context) error { _, err := s.List(ctx, checkpoint.Filter{}); return err },
		"Delete":     func(ctx context.Context) error { return s.Delete(ctx, l.RunID) },
		"Prune": func(ctx context.Context) error {
			_, err := s.Prune(ctx, time.Now(), checkpoint.Running, checkpoint.Paused)
			return err
		},
		"PutSignal":  func(ctx context.Context) error { return signals.PutSignal(ctx, l.RunID, cancelling("a")) },
		"Signals":    func(ctx context.Context) error { _, err := signals.Signals(ctx, l.RunID, true); return err },
		"EndSignals": func(ctx context.Context) error { return signals.EndSignals(ctx, l, "a") },
		"Count": func(ctx context.Context) error {
			_, err := querier.Count(ctx, checkpoint.Filter{}, 0)
			return err
		},
		"Pauses": func(ctx context.Context) error {
			_, err := querier.Pauses(ctx, checkpoint.PauseFilter{})
			return err
		},
	}
}

func testContexts(h *harness) {
	if c, ok := h.s.(checkpoint.Cancellable); ok && c.Cancellable() != h.s {
		h.Error("Cancellable returns another store")
	}
	l := h.create("run", opened("p"), minted("p", "one"))
	done, cancel := context.WithCancel(h.ctx)
	cancel()
	for name, call := range calls(h.s, l, 3) {
		h.want(name, call(done), context.Canceled)
	}
	h.same("runs", h.ids(checkpoint.Filter{}), []string{"run"})
	h.shows("run", opened("p"), minted("p", "one"))
	h.append(l, 3, note("the lease holds"))
}

func testClose(h *harness) {
	l := h.create("run", opened("p"), minted("p", "one"))
	h.want("Close", h.s.Close(), nil)
	for name, call := range calls(h.s, l, 3) {
		h.want(name, call(h.ctx), checkpoint.ErrClosed)
	}
	h.want("Close again", h.s.Close(), nil)
}

// in lists phases.
func in(phases ...checkpoint.Phase) []checkpoint.Phase { return phases }
