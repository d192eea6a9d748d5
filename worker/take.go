package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// attempt is one execution of a run.
type attempt struct {
	run checkpoint.Summary // as it was when the worker took it
	out *workflow.Outcome  // read when the execution is over
}

// mark is the state in which the worker left a run. While the state lasts, the worker leaves the run alone: if it was
// refused until some time, otherwise until something is due.
type mark struct {
	state
	refused error         // why; nil: the run waits
	wait    time.Duration // of a run that was refused; it grows with each refusal
	until   time.Time
}

// state is all that may change of a run that nobody holds.
type state struct {
	seq     int64 // of its last record
	signals int   // that are not done
}

// failedTime is how long a worker leaves a run alone that it could not execute as the store failed.
const failedTime = time.Second

// maxLeft is how many runs the worker remembers to have left; it then forgets some.
const maxLeft = 10_000

// page is how many runs are listed at a time.
const page = 64

// look takes the runs that are to be executed, until there is no room for more:
//
//  1. runs with signals, of its queues and without a queue
//  2. runs in which something is due, and interrupted runs
//  3. queued runs
func (l *loop) look(ctx context.Context) error {
	if !l.room() {
		return nil
	}
	l.rest, l.looked = nil, time.Now()
	mine := append([]string{""}, l.Queues...)
	filters := []checkpoint.Filter{{Queues: mine, Signalled: true}}
	if len(l.Queues) > 0 {
		filters = append(filters,
			checkpoint.Filter{Queues: l.Queues, DueBefore: execution.Now(ctx, l.Runtime.Store)},
			checkpoint.Filter{Queues: l.Queues, Phases: []checkpoint.Phase{checkpoint.PhaseInterrupted}},
			checkpoint.Filter{Queues: l.Queues, Phases: []checkpoint.Phase{checkpoint.PhaseQueued}})
	}
	var failed []error
	for _, f := range filters {
		f.Oldest, f.Limit = true, page
		for l.room() {
			runs, err := l.store.List(ctx, f)
			if err != nil { // runs that cannot be read do not hide the others
				failed = append(failed, err)
			}
			for i := range runs {
				if !l.room() {
					l.rest = runs[i:]
					break
				}
				if err := l.consider(ctx, &runs[i], f.Signalled); err != nil {
					failed = append(failed, err)
				}
			}
			if len(runs) < page || ctx.Err() != nil {
				break
			}
			f.After = runs[len(runs)-1].Cursor()
		}
	}
	return errors.Join(failed...)
}

// goOn takes runs that the last look found, unless others have them by now. It reports whether there is no more room.
func (l *loop) goOn(ctx context.Context) bool {
	if time.Since(l.looked) > restTime {
		l.rest = nil
	}
	for len(l.rest) > 0 && l.room() {
		run, _, err := l.store.Load(ctx, l.rest[0].ID, math.MaxInt64)
		if err != nil {
			return false // the next look tells
		}
		if run.Seq == l.rest[0].Seq {
			if err := l.consider(ctx, &run, true); err != nil {
				return false
			}
		}
		l.rest = l.rest[1:]
	}
	return !l.room()
}

func (l *loop) room() bool { return l.State().Executions < l.most }

// consider takes a run, unless somebody else has it, nothing is to be done, or there is no room. signalled says that
// the run may have signals that are not done; a run without is asked for none.
func (l *loop) consider(ctx context.Context, run *checkpoint.Summary, signalled bool) error {
	if run.Held || run.Status.Ended() || !l.room() || l.Works(run.ID) || l.busy(run.Recipe) {
		return nil
	}
	was, left := l.leftAs(run.ID)
	if !left {
		l.take(run, nil)
		return nil
	}
	now := state{run.Seq, was.signals}
	if signalled && now == was.state {
		signals, err := l.signals(ctx, run)
		if err != nil {
			return err
		}
		now.signals = len(signals)
	}
	due := run.Due()
	switch {
	case now != was.state:
		l.take(run, nil)
	case was.refused != nil && !was.until.After(time.Now()):
		l.take(run, was.refused)
	case was.refused == nil && !due.IsZero() && !due.After(execution.Now(ctx, l.Runtime.Store)):
		l.take(run, nil)
	}
	return nil
}

// leftAs returns how the worker left a run when it last tried to execute it; false: it is not known.
func (w *Worker) leftAs(runID string) (mark, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, ok := w.left[runID]
	return m, ok
}

// Refused returns why the worker left a run as it was when it last tried to execute it; nil: it did not. The error says
// what the worker lacks for the run, for example, and the worker tries again from time to time.
func (w *Worker) Refused(runID string) error {
	m, _ := w.leftAs(runID)
	return m.refused
}

// signals returns the signals of a run that are not done.
func (l *loop) signals(ctx context.Context, run *checkpoint.Summary) ([]checkpoint.Signal, error) {
	open, err := l.store.Signals(ctx, run.ID, true)
	if err != nil {
		return nil, fmt.Errorf("signals of run %q: %w", run.ID, err)
	}
	return open, nil
}

// busy reports whether there are as many executions of a recipe as there may be.
func (l *loop) busy(recipe string) bool {
	most, bounded := l.MaxRunsOf[recipe]
	if !bounded {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.working {
		if x.run.Recipe == recipe {
			most--
		}
	}
	return most <= 0
}

// take begins an execution of a run. refused is why the run was refused as it is; nil: it was not.
func (l *loop) take(run *checkpoint.Summary, refused error) {
	x := &attempt{run: *run}
	l.mu.Lock()
	l.working[run.ID] = x
	l.mu.Unlock()
	go func() {
		x.out = l.execute(&x.run, refused)
		l.ended <- x
	}()
}

// execute executes a run, until it ends or pauses.
func (l *loop) execute(run *checkpoint.Summary, refused error) *workflow.Outcome {
	rt := *l.Runtime
	if l.Bind != nil {
		wf, err := l.compiled.Load(l.ctx, l.Runtime.Store, run.Digest)
		if err == nil {
			var bound *runtime.Runtime
			if bound, err = l.Bind(l.ctx, wf); err == nil {
				rt = *bound
			}
		}
		if err != nil {
			return &workflow.Outcome{Status: workflow.StatusError, RunID: run.ID, Err: err}
		}
	}
	rt.By, rt.Drain = "", l.drained
	out, _ := workflow.Recover(l.ctx, run.ID, &rt, &workflow.ResumeOptions{Complete: true, Unattended: true,
		Refused: refused, Compiled: &l.compiled})
	return out
}

// end notes the end of an execution.
func (l *loop) end(x *attempt) {
	l.mu.Lock()
	delete(l.working, x.run.ID)
	was := l.left[x.run.ID]
	delete(l.left, x.run.ID)
	l.mu.Unlock()
	e, _ := errors.AsType[*runtime.Error](x.out.Err)
	if e != nil && (e.Code == "run.busy" || e.Code == "run.ended" || e.Code == "run.notFound") {
		return // somebody else was quicker
	}
	wait := execution.RefusedFor(was.wait)
	if e != nil && (e.Code == "store.failed" || e.Code == "run.fenced") {
		wait = failedTime
	}
	if err := l.leave(x, wait); err != nil {
		l.warn(fmt.Sprintf("it is not known how run %s was left", x.run.ID), err)
	}
	if l.Ended != nil {
		l.Ended(x.out)
	}
}

// leave remembers in which state a run is that has not ended: one that waits until something is due, and one whose
// execution was refused, so that nothing was recorded, for some time.
func (l *loop) leave(x *attempt, wait time.Duration) error {
	if x.out.Status == workflow.StatusOK {
		return nil
	}
	ctx := context.WithoutCancel(l.ctx)
	run, _, err := l.store.Load(ctx, x.run.ID, math.MaxInt64)
	if err != nil || run.Status.Ended() {
		return err
	}
	signals, err := l.signals(ctx, &run)
	if err != nil {
		return err
	}
	m := mark{state: state{run.Seq, len(signals)}}
	switch {
	case x.out.Status == workflow.StatusPaused && execution.Called(signals, run.Pauses):
		return nil // a signal came since
	case x.out.Status == workflow.StatusPaused:
	case run.Seq == x.run.Seq:
		m.refused, m.wait, m.until = x.out.Err, wait, time.Now().Add(wait)
		l.warn(fmt.Sprintf("run %s is left as it is", x.run.ID), x.out.Err)
	default:
		return nil // it was interrupted
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.left {
		if len(l.left) < maxLeft {
			break
		}
		delete(l.left, id)
	}
	l.left[x.run.ID] = m
	return nil
}
