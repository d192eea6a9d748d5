package workflow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/runtime"
)

// Cancel ends a run for good that is paused or was interrupted: what it did is rolled back, its tokens
// die, and nobody can go on with it. reason is for people, "" for none. The Outcome has the status
// cancelled, which is also an error; of a run that has ended already it is the outcome that it had. A
// run that somebody works on is refused (run.busy): its context ends it.
//
// When ctx ends before everything was rolled back, the error is rollback.interrupted: Cancel or Recover
// goes on with it, and with nothing else.
func Cancel(ctx context.Context, runID, reason string, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID, recover: true, cancel: &reason}
	return l.run(nil)
}

// cancelForGood writes down that nothing goes on but rolling back. Open pauses need no answer any more.
func (r *run) cancelForGood(reason string) {
	pauses := r.pauses
	r.record(nil, "", journal.Cancelled{Reason: reason})
	const doubt = "it was called, and it is not known whether it had its effect"
	for _, p := range pauses {
		if p.Reason == journal.Indeterminate {
			r.rollbackFailed(p.Step+engine.RollbackMark, doubt)
		}
		r.note(p.Step, journal.PauseClosed{Pause: p.ID})
	}
	var paths []string
	for t := range r.unsure {
		paths = append(paths, t.Path())
	}
	slices.Sort(paths)
	for _, path := range paths {
		r.rollbackFailed(path+engine.RollbackMark, doubt)
	}
}

// cancelledForGood is the error of such a run.
func cancelledForGood(reason string) *runtime.Error {
	return &runtime.Error{Category: runtime.CategoryCancelled, Code: "run.cancelled",
		Err: fmt.Errorf("the run was cancelled for good: %w", cancelledBecause(cmp.Or(reason, "no reason was given")))}
}

// cancelledBecause is a context.Canceled with words of its own.
type cancelledBecause string

func (c cancelledBecause) Error() string { return string(c) }

func (c cancelledBecause) Is(target error) bool { return target == context.Canceled }
