package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// rolled is the progress of a rollback.
type rolled struct {
	over   bool   // undone, or reported; else it may have had its effect
	effect string // recorded when it began
}

// undoing is the progress of the run in rolling back: one task after the other, the last one first. It is the [caller]
// of a rollback.
type undoing struct {
	atEnd     bool              // only rollbacks are left to do
	wasUndone bool              // this generation paused, and was rolled back
	restart   *Pause            // whose answer has the run rolled back, and then begins it again; nil: none
	rolled    map[string]rolled // by path of the rollback
	shared    map[string]bool   // paths of tasks that another run rolls back, or nobody does
	listed    bool              // tasks is
	tasks     []*machine.Task   // tasks that are left
	call      *pending          // the rollback in progress; nil: none
	saving    bool              // it waits for the store
	left      *runtime.Error    // why the rest is left to a recovery; nil: nothing is
}

// ErrGrace is the error of a rollback that was stopped because the grace period of a cancelled run is over.
var ErrGrace = errors.New("the run was cancelled and the grace period is over")

var (
	errUnsure = errors.New("an earlier process began it, and it is not known whether it had its effect; " +
		"it is not repeated")
	errNoPause = errors.New("the tool asked for a pause, and a rollback cannot pause")
)

// wrapUp runs when the machine has nothing more to do. It begins the rollbacks at the end of a run that has failed or
// was cancelled for good, or of one that pauses and will restart.
func (r *Run) wrapUp() {
	result := r.m.Result()
	switch e := &r.ending; {
	case e.broken, e.fixed != nil:
	case e.forGood != nil:
		r.undo.atEnd = true
		return
	case e.cancelled: // a recovery continues
	case result.Status == machine.Failed,
		result.Status == machine.Waiting && r.ending.beginsAnew(r.o.Interrupt, r.waits.pauses, r.m.Doomed()):
		r.undo.atEnd = true
		return
	}
	r.close()
}

// beginsAnew reports whether an answer will restart the waiting run at its first step: it is rolled back before. A run
// that cannot succeed any more and asks for the outcome of a call does not restart; it only ends.
func (e *ending) beginsAnew(interrupt resume.Interrupt, pauses []*Pause, doomed bool) bool {
	ends := e.forGood != nil || e.fixed != nil || doomed && slices.ContainsFunc(pauses,
		func(p *Pause) bool { return p.Reason == journal.Indeterminate && !e.mayRetry(p.task) })
	return interrupt == resume.Restart && !ends
}

// Undone lets a run that was rolled back for a pause accept an answer.
func (r *Run) Undone() { r.undo.atEnd, r.undo.wasUndone, r.todo.over = false, true, false }

// next continues the rollback. It returns false while something is in progress. It reports what cannot be undone,
// and does not repeat what an earlier execution did.
func (u *undoing) next(r *Run) bool {
	if u.call != nil {
		if u.saving { // it is in the store
			u.saving = false
			u.entered(r, u.call)
			return true
		}
		return false
	}
	if r.todo.hold && r.ending.cut == nil && !r.ending.broken {
		return r.endDrain()
	}
	if !u.listed {
		u.listed = true
		u.tasks = slices.DeleteFunc(r.m.Undo(), func(t *machine.Task) bool { return u.shared[t.Path()] })
		if len(u.tasks) > 0 {
			r.trace.settle(r.m)
		}
	}
	u.tasks = slices.DeleteFunc(u.tasks,
		func(t *machine.Task) bool { return u.rolled[t.Path()+past.RollbackMark].over })
	if len(u.tasks) == 0 || r.ending.broken {
		u.end()
		r.close()
		return true
	}
	if r.ending.cut != nil {
		u.leaveRest(r.ending.cause)
		r.close()
		return true
	}
	t := u.tasks[0]
	u.tasks = u.tasks[1:]
	u.begin(r, t)
	return true
}

// begin rolls back one task:
//
//  1. work out the arguments, and whether an earlier process has begun it already
//  2. record that it begins: from here on it may have had its effect
//  3. call the tool
//  4. record the result, and report it
func (u *undoing) begin(r *Run, t *machine.Task) {
	rb := t.Node().Rollback
	path := t.Path() + past.RollbackMark
	p := r.calls.newCall(u, t, rb.Adapter.(*program.Call), path, r.now)
	p.Rollback = true
	err := r.o.prepareRollback(p, rb, &r.tools)
	before, begun := u.rolled[path]
	switch {
	case err != nil:
	case begun && !p.begunAs(before.effect).repeatable():
		err = errUnsure
	default:
		if rb.Timeout > 0 {
			p.deadline, p.late = r.now.Add(rb.Timeout), fmt.Errorf("it timed out after %v", rb.Timeout)
		}
		u.call = p
		if !begun {
			r.record(nil, path, journal.RollbackBegun{Effect: string(p.Effect)})
		}
		if len(r.unsaved.events) > 0 && r.unsaved.durable {
			u.saving = true
			r.todo.ask(Command{Op: Save})
			return
		}
		p.entered(r, p)
		return
	}
	u.undid(r, p, err)
}

// end ends the rollback of this execution.
func (u *undoing) end() { u.listed, u.tasks = false, nil }

// leaveRest leaves the rest to a recovery.
func (u *undoing) leaveRest(cause error) {
	u.left = &runtime.Error{Category: runtime.CategoryCancelled, Code: "rollback.interrupted",
		Err: fmt.Errorf("%w, before everything was rolled back", CancelCause(cause))}
	u.end()
}

func (*undoing) mayPause(*pending) bool { return false }

// entered calls the tool of a rollback, which needs no slot.
func (u *undoing) entered(r *Run, p *pending) {
	if r.ending.broken {
		u.call = nil
		u.end()
		r.close()
		return
	}
	r.trace.tell(p, r.now, r.o.callEvent(p, r.unsaved.durable), r.o.content(p))
	r.todo.ask(r.calls.attempt(p, r.now, r.by))
}

// prepareRollback works out the arguments of a rollback.
func (o *Options) prepareRollback(p *pending, rb *machine.Rollback, seen *tools) (err error) {
	if p.Input, err = rb.With.Eval(p.task.Ended()); err != nil {
		return err
	}
	limit := o.Limits.MaxOutputBytes
	switch size, err := value.Size(p.Input, limit); {
	case err != nil:
		return fmt.Errorf("the arguments are not JSON: %w", err)
	case size > limit:
		return fmt.Errorf("the arguments have more than %d bytes", limit)
	}
	return o.prepareTool(p, seen)
}

// stop leaves a rollback that waits for its next attempt to a recovery.
func (u *undoing) stop(r *Run) {
	if p := u.call; p != nil && p.stage == delayed {
		r.todo.disarm(p.timer)
		p.ended(r, p, outcome{}, ErrGrace)
	}
}

// leave leaves tasks to the run that they are shared with.
func (u *undoing) leave(tasks []*machine.Task) {
	u.shared = map[string]bool{}
	for _, t := range tasks {
		u.shared[t.Path()] = true
	}
}

func (*undoing) tell(e *events, _ *pending, ev trace.Event, content any, live bool) {
	if e.append(ev); !live {
		e.show(ev, content)
	}
}

func (*undoing) fellBack(*pending, string) {} // it calls tools

func (u *undoing) returned(r *Run, p *pending, res Result) { u.ended(r, p, outcome{}, res.Bad) }

func (*undoing) abandoned(string) outcome { return outcome{} }

// ended handles the end of the call of a rollback. err is nil if it succeeded.
func (u *undoing) ended(r *Run, p *pending, end outcome, err error) {
	p.stage, u.call = over, nil
	switch {
	case r.ending.broken:
		u.end()
		r.close()
		return
	case errors.Is(err, ErrGrace):
		u.leaveRest(r.ending.cause)
		r.close()
		return
	case end.pause != nil:
		err = errNoPause
	case end.late, err != nil && p.late != nil && !r.now.Before(p.deadline):
		err = p.late
	}
	u.undid(r, p, err)
}

// undid records the result of a rollback, and reports it.
func (u *undoing) undid(r *Run, p *pending, err error) {
	data := trace.Data{{Key: "ok", Value: err == nil}}
	text := ""
	if err != nil {
		text = valid(r.o.Redact.Error(err).Error())
		data = append(trace.Data{{Key: "message", Value: text}}, data...)
		r.todo.ask(Command{Op: Warn, Detail: &Detail{Text: text, Path: p.Path}})
	}
	r.record(nil, p.Path, journal.RollbackEnded{Error: text})
	r.trace.add(trace.Event{At: r.now, Kind: trace.StepRollback, Step: p.Path, Data: data}, nil)
}

// rollbackFailed is the diagnostic about a failed rollback.
func rollbackFailed(path, text string) diagnostics.Diagnostic {
	return diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindWorkflow,
		Code: diagnostics.CodeRollbackFailed,
		Step: path, Message: fmt.Sprintf("step %q was not rolled back: %s",
			strings.TrimSuffix(path, past.RollbackMark), text)}
}

// apply applies an event of a rollback. failed is why one has failed; "": none has.
func (u *undoing) apply(e *journal.Event) (failed string) {
	u.atEnd = true
	if u.rolled == nil {
		u.rolled = map[string]rolled{}
	}
	switch what := e.What.(type) {
	case journal.RollbackBegun:
		u.rolled[e.Path] = rolled{effect: what.Effect}
	case journal.RollbackEnded:
		u.rolled[e.Path] = rolled{over: true}
		return what.Error
	}
	return ""
}

// CancelForGood records that only rollbacks continue. Pending pauses need no answer any more, except those about calls
// with unknown outcome: the run asks about each such call first, unless the end is forced.
func (r *Run) CancelForGood(reason string, force bool) {
	r.todo.over = false
	pauses, pending := slices.Clone(r.waits.pauses), slices.Clone(r.past.pending)
	force = force || r.ending.fixed != nil // nothing comes after a finally
	if r.undo.restart != nil {
		pauses = nil // they were closed
	}
	r.TakeNow([]journal.Event{{At: r.now, After: r.ending.decided(r.m), By: r.unsaved.by,
		Signal: r.unsaved.signal, What: journal.Cancelled{Reason: reason}}})
	for _, p := range pauses {
		if !force && p.Reason == journal.Indeterminate {
			continue
		}
		switch {
		case p.Reason != journal.Indeterminate:
		case r.ending.fixed != nil && p.Call != nil:
			r.Report(r.o.callUnknown(p.Step, p.Call.Tool, ""))
		default:
			r.Report(rollbackFailed(p.Step+past.RollbackMark, unknownOutcome))
		}
		r.TakeNow([]journal.Event{{At: r.now, Path: p.Step, After: r.m.Decided(),
			What: journal.PauseClosed{Pause: p.ID}}})
	}
	for _, c := range pending {
		if c.Op != machine.Start {
			continue
		}
		switch p, unknown := r.interrupted(c); {
		case !unknown:
		case force && r.ending.fixed == nil:
			r.Report(rollbackFailed(p.Path+past.RollbackMark, unknownOutcome))
		case force:
			r.Report(r.o.callUnknown(p.Path, p.Name, ""))
		case p.followsUnknown(r) == program.Ignore:
			r.Report(r.o.callUnknown(p.Path, p.Name, ""))
		}
	}
}

const unknownOutcome = "it was called, and it is not known whether it had its effect"
