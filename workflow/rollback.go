package workflow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// rolled is how far a rollback has come.
type rolled uint8

const (
	rollbackBegun rolled = iota + 1 // it may have had its effect
	rollbackOver                    // undone, or reported
)

var (
	errGraceOver = errors.New("the run was cancelled and the grace period is over")
	errUnsure    = errors.New("an earlier process began it, and it is not known whether it had its effect; " +
		"it is not repeated")
	errNoPause = errors.New("the tool asked for a pause, and a rollback cannot pause")
)

// undoAtEnd rolls back what is to be rolled back at the end of this leg: of a run that has failed or was
// cancelled for good, and of one that pauses and will begin again. The error says why the rest is left
// to a recovery.
func (r *run) undoAtEnd() *runtime.Error {
	result := r.m.Result()
	switch {
	case r.journal.err != nil || r.leg != nil && r.leg.ended:
	case r.forGood != nil:
		return r.rollBack()
	case r.cancelled: // a recovery goes on
	case result.Status == machine.Failed, result.Status == machine.Waiting && r.interrupt == resume.Restart:
		return r.rollBack()
	}
	return nil
}

// rollBack undoes what the run has done, one task after the other. What cannot be undone is reported,
// and what an earlier leg did is not done again.
func (r *run) rollBack() *runtime.Error {
	tasks := r.m.Undo()
	if len(tasks) > 0 {
		r.events.settle(r.m)
	}
	for _, t := range tasks {
		path := t.Path() + engine.RollbackMark
		if r.rolled[path] == rollbackOver {
			continue
		}
		if r.ctx.Err() != nil {
			return r.leftToUndo()
		}
		if err := r.undo(t, path); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) leftToUndo() *runtime.Error {
	return &runtime.Error{Category: runtime.CategoryCancelled, Code: "rollback.interrupted",
		Err: fmt.Errorf("%w, before everything was rolled back", cancelCause(r.ctx))}
}

// undo rolls back one task:
//
//  1. work out the arguments, and whether an earlier process has begun it already
//  2. write down that it begins: from here on it may have had its effect
//  3. call the tool
//  4. note how that went, and tell
func (r *run) undo(t *machine.Task, path string) *runtime.Error {
	rb := t.Node().Rollback
	in := &invocation{run: r, task: t, call: rb.Adapter.(*program.Call), path: path, ordinal: 1,
		ctx: r.ctx, told: make(chan detailed)}
	repeatable, err := in.prepareRollback(rb)
	switch begun := r.rolled[path] == rollbackBegun; {
	case err != nil:
	case begun && !repeatable:
		err = errUnsure
	default:
		if !begun {
			r.record(nil, path, journal.RollbackBegun{})
		}
		if r.flush(); r.journal.err != nil {
			return storeError(r.journal.err)
		}
		if err := r.owned(); err != nil {
			return r.fencedRollback(err)
		}
		r.events.tick()
		r.events.add(in.event(), in.content())
		err = in.callRollback(rb.Timeout)
		r.events.tick()
		if in.fenced != nil {
			return r.fencedRollback(in.fenced)
		}
		if errors.Is(err, errGraceOver) {
			return r.leftToUndo()
		}
	}
	data := trace.Data{{Key: "ok", Value: err == nil}}
	text := ""
	if err != nil {
		text = strings.ToValidUTF8(err.Error(), "\uFFFD")
		data = append(trace.Data{{Key: "message", Value: text}}, data...)
		r.warn("a rollback failed", slog.String("step", path), slog.String("error", text))
	}
	r.record(nil, path, journal.RollbackEnded{Error: text})
	r.events.add(trace.Event{Kind: trace.StepRollback, Step: path, Data: data}, nil)
	return nil
}

// fencedRollback stops rolling back: whoever has the run now does the rest.
func (r *run) fencedRollback(err error) *runtime.Error {
	r.journal.err = err
	return storeError(err)
}

// rollbackFailed adds the finding about a rollback that failed.
func (r *run) rollbackFailed(path, text string) {
	r.found.add(diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindWorkflow,
		Code: diagnostics.CodeRollbackFailed,
		Step: path, Message: fmt.Sprintf("step %q was not rolled back: %s",
			strings.TrimSuffix(path, engine.RollbackMark), text)})
}

func (r *run) markRolled(path string, how rolled) {
	if r.rolled == nil {
		r.rolled = map[string]rolled{}
	}
	r.rolled[path] = how
}

// prepareRollback works out the arguments of a rollback, and whether it may be called twice.
func (in *invocation) prepareRollback(rb *machine.Rollback) (repeatable bool, err error) {
	defer func() {
		if p := recover(); p != nil { // the tool's, when it was asked about its effect
			err = in.fault(in.panicked(p)).Err
		}
	}()
	if in.input, err = rb.With.Eval(in.task.Ended()); err != nil {
		return false, err
	}
	limit := in.run.limits.MaxOutputBytes
	switch size, err := value.Size(in.input, limit); {
	case err != nil:
		return false, fmt.Errorf("the arguments are not JSON: %w", err)
	case size > limit:
		return false, fmt.Errorf("the arguments have more than %d bytes", limit)
	}
	if err := in.prepareTool(); err != nil {
		return false, in.fault(err).Err
	}
	return in.repeatable(), nil
}

// callRollback calls the tool, for so long at most. The end of the run's context does not stop it at
// once: it has the grace period to come to its end.
func (in *invocation) callRollback(limit time.Duration) error {
	r := in.run
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	defer cancel(nil)
	late := fmt.Errorf("it timed out after %v", limit)
	ctx, stop := context.WithTimeoutCause(ctx, limit, late)
	defer stop()
	defer context.AfterFunc(r.ctx, func() {
		grace := time.NewTimer(r.limits.Grace)
		defer grace.Stop()
		select {
		case <-grace.C:
			cancel(errGraceOver)
		case <-ctx.Done():
		}
	})()
	in.setContext(ctx, cancel)
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.reachedCall(beforeTool, beforeModel)
		in.do()
		in.reachedCall(afterTool, afterModel)
	}()
	stopped, settled := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case ev := <-in.told:
			r.events.tick()
			r.events.add(ev.Event, ev.content)
			continue
		case <-stopped:
			timer := time.NewTimer(settleTime)
			defer timer.Stop()
			stopped, settled = nil, timer.C
			continue
		case <-settled:
			r.warn("a rollback ignored its context and was left behind", slog.String("step", in.path))
			return context.Cause(ctx)
		case <-done:
		}
		switch {
		case in.pause != nil:
			return errNoPause
		case in.failure != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case in.failure != nil:
			return in.failure.Err
		}
		return nil
	}
}

// undone takes note of an event of a rollback.
func (r *run) undone(e *journal.Event) {
	r.atEnd = true
	what, over := e.What.(journal.RollbackEnded)
	if !over {
		r.markRolled(e.Path, rollbackBegun)
		return
	}
	r.markRolled(e.Path, rollbackOver)
	if what.Error != "" {
		r.rollbackFailed(e.Path, what.Error)
	}
}

// stoppedBy is the finding about the error that a run would have had if its rolling back had come to an
// end.
func stoppedBy(err error) diagnostics.Diagnostic {
	d := diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
		Code: diagnostics.CodeStepFailed, Message: err.Error()}
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		d.Step = e.Step
	}
	return d
}
