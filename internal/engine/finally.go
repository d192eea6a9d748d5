package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// close ends the execution of a run that has nothing else to do. A run that ends for good runs its finally first: how
// it ends is recorded, and does not change any more. An execution that was told to stop leaves that to the next one.
func (r *Run) close() {
	e := &r.ending
	result := r.m.Result()
	waits := e.forGood == nil && (result == nil || result.Status == machine.Waiting)
	switch {
	case e.fixed != nil, e.broken, waits, r.undo.restart != nil, r.undo.left != nil, !r.m.HasFinally():
	case e.cancelled && e.forGood == nil && result.Status == machine.Cancelled: // the next execution continues
	case e.cut != nil || r.todo.drains:
		cause := e.cause
		if r.todo.drains {
			cause = ErrDrained
		}
		if cause == nil {
			cause = context.Canceled
		}
		r.undo.left = &runtime.Error{Category: runtime.CategoryCancelled, Code: "finally.interrupted",
			Err: fmt.Errorf("%w, before its finally", CancelCause(cause))}
	default:
		err, _ := r.View().Err().(*runtime.Error)
		r.record(nil, "", r.ending.fixes(err, r.o.Redact))
		return
	}
	r.todo.over = true
}

// fixes says how a run ends, with err or without one.
func (e *ending) fixes(err *runtime.Error, redact *value.Redactor) journal.FinallyBegun {
	what := journal.FinallyBegun{Status: "ok"}
	if err == nil {
		return what
	}
	what.Status = "error"
	if e.forGood != nil {
		what.Status, what.Reason = "cancelled", *e.forGood
	}
	what.Error = map[string]any{"category": string(err.Category), "code": err.Code, "step": err.Step,
		"message": valid(redact.Text(err.Err.Error()))}
	return what
}

// beginFinally applies that.
func (r *Run) beginFinally(what journal.FinallyBegun) {
	if !r.past.replaying {
		r.trace.settle(r.m)
	}
	r.quit()
	r.past.unsure, r.past.begun = nil, nil
	r.undo.atEnd, r.todo.over = false, false
	r.ending.fixed, r.ending.forGood = &what, nil
	r.m.Finally(what.Status, what.Error)
}

// quit forgets what has not ended: timers, calls, questions, agents at work.
func (r *Run) quit() {
	r.todo.disarmAll()
	r.past.pending, r.past.armed, r.past.halted = nil, nil, nil
	r.waits.dropAll(func(*Pause) bool { return true })
	r.agents = nil
}

// cancelledForGood is why the run was cancelled for good; nil: it was not.
func (e *ending) cancelledForGood() *string {
	if f := e.fixed; f != nil && f.Status == "cancelled" {
		return &f.Reason
	}
	return e.forGood
}

// failedFinally are the diagnostics about what went wrong in a finally.
func failedFinally(m *machine.Machine) (list diagnostics.List) {
	if m.Result() == nil {
		return nil
	}
	for _, f := range m.FailedFinally() {
		d := diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindWorkflow,
			Code: diagnostics.CodeFinallyFailed, Step: f.Path}
		switch of, cut := strings.CutSuffix(f.Path, machine.FinallyMark); {
		case !cut:
			d.Message = fmt.Sprintf("step %q of finally failed: %v", f.Path, f.Err)
		case of == "":
			d.Step, d.Message = "", fmt.Sprintf("finally was cut off: %v", f.Err)
		default:
			d.Step, d.Message = of, fmt.Sprintf("finally of step %q was cut off: %v", of, f.Err)
		}
		list = append(list, d)
	}
	return list
}
