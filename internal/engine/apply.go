package engine

import (
	"fmt"
	"strings"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
)

// record adds an event of a task that happens now, and applies it.
func (r *Run) record(t *machine.Task, path string, what journal.What) {
	e := journal.Event{At: r.now, Path: path, After: r.ending.decided(r.m), What: what}
	r.noteEvent(e)
	r.takeIn(t, &e)
}

// Take applies events that the run has made itself, once they are in the store.
func (r *Run) Take(events []journal.Event) {
	for i := range events {
		r.takeIn(nil, &events[i])
	}
}

// takeIn is apply for an event that the run has made itself, which therefore cannot be illegal.
func (r *Run) takeIn(t *machine.Task, e *journal.Event) {
	r.serve(e)
	if err := r.apply(t, e); err != nil {
		panic(err)
	}
}

// apply applies an event: of now, of an earlier execution, or of the run that this one shares its record with. t is
// the task of the event; nil for events of the run and for ends of pauses. The error says that the event is illegal;
// then nothing has changed.
func (r *Run) apply(t *machine.Task, e *journal.Event) error {
	switch what := e.What.(type) {
	case journal.Begun:
		r.before.ReadUnknown(what.Unknown)
	case journal.CallBegun:
		r.past.begin(t, begunCall{what, made{e.At, r.past.owner}})
	case journal.CallFiles:
		r.waits.keepFiles(t, what.Files)
	case journal.CallEnded:
		r.applyEnded(t, e.Path, &what)
	case journal.AgentEvents:
		r.agents.of(t).apply(r, t, what)
	case journal.CallGiven:
		given := r.m.WithoutSlot(e.Path)
		if given == nil {
			return fmt.Errorf("step %q does not wait for a slot", e.Path)
		}
		r.m.Give(given, what.Output, what.Failure)
		r.budget.noteAnswer(e.Path, what.Answer)
	case journal.StepDenied:
		r.applyDenied(t, e.Path, what.Failure)
	case journal.TimerDue:
		r.m.Due(t, what.Timer)
	case journal.WaitOver:
		r.past.settled(t)
		r.m.Answer(t, what.Output, what.Failure)
	case journal.Said:
		r.past.settled(t)
		r.m.Answer(t, what.Output(), nil)
	case journal.PauseOpened:
		r.applyOpened(t, e.Path, &what)
	case journal.BatchBegun:
		r.batches.begin(e.At, what)
	case journal.BatchSent:
		return r.batches.know(what)
	case journal.PauseClosed: // its task ends a moment later
		r.applyClosed(what.Pause)
	case journal.TokenMinted:
		if p := r.waits.pause(what.Pause); p != nil {
			p.Minted = true
		}
	case journal.PauseAnswered:
		if err := r.applyAnswered(&what); err != nil {
			return err
		}
	case journal.ValueSent:
		if err := r.applySent(what); err != nil {
			return err
		}
	case journal.RollbackBegun, journal.RollbackEnded:
		if failed := r.undo.apply(e); failed != "" {
			r.Report(rollbackFailed(e.Path, failed))
		}
	case journal.Stopped: // no call ended the process
		r.past.begun = nil
	case journal.Paused:
		r.undo.atEnd, r.undo.wasUndone = false, r.ending.beginsAnew(r.o.Interrupt, r.waits.pauses, r.m.Doomed())
	case journal.Restarted:
		r.beginAgain(r.undo.restart)
	case journal.Shared:
		r.undo.leave(r.m.Undo())
	case journal.FinallyBegun:
		r.beginFinally(what)
	case journal.Cancelled:
		if r.ending.fixed != nil {
			r.quit()
			r.m.EndFinally()
			return nil
		}
		r.ending.forGood = &what.Reason
		restarts := r.undo.restart != nil
		r.undo.restart = nil
		r.batches.leaveAll(r)
		r.waits.dropAll(func(p *Pause) bool { return restarts || p.Reason != journal.Indeterminate })
	}
	if r.ending.forGood != nil { // it is rolled back once no question is pending
		r.undo.atEnd = len(r.waits.pauses) == 0
	}
	return nil
}

// applyClosed applies that a pause no longer needs an answer.
func (r *Run) applyClosed(pause string) {
	if p := r.waits.pause(pause); p != nil && r.undo.restart == nil {
		r.waits.drop(p)
		r.m.Settle(p.task)
		r.Report(r.o.unasked(p)...)
	}
}

// applyEnded applies the end of a call.
func (r *Run) applyEnded(t *machine.Task, path string, what *journal.CallEnded) {
	r.budget.unholdAll(t)
	r.past.settled(t)
	delete(r.waits.files, t)
	if what.Models != nil {
		r.use(t, what.Models)
	}
	r.budget.countTools(t, what)
	r.budget.noteAnswer(path, what.Answer)
	site := t.Node().Adapter.(*program.Call)
	if r.Report(answerCut(path, site, what)...); what.Unknown {
		r.Report(r.o.callUnknown(path, site.Name, what.Why))
	}
	r.m.Finish(t, what.Output, what.Extent, what.Failure)
}

// use counts what a call used of models.
func (r *Run) use(t *machine.Task, used *journal.ModelUse) {
	r.drawn.mark(used.Model, used.Draws...)
	for _, tried := range used.Tried {
		r.drawn.mark(tried.Model, tried.Draws...)
	}
	r.budget.spent(t, used.Model, used.Used, used.Calls())
	r.m.Spend(t, used.Used.Micros)
}

// applyOpened applies a new pause of a step, or of an agent.
func (r *Run) applyOpened(t *machine.Task, path string, what *journal.PauseOpened) {
	opened := &Pause{Pause: what.Pause, task: t}
	if a := what.Agent; a != nil {
		opened.inAgent, opened.batched = a.Pause, a.Batched
		opened.strays = opened.InBatch() && !a.Batched.InBatch() && strings.HasSuffix(a.Place, placeOf("", 0))
		opened.again = a.Tries > 0 || a.Batched.InBatch() || opened.strays
		at := r.agents.of(t)
		at.tries[a.Place], at.batched[a.Place] = a.Tries, a.Batched
	} else {
		r.past.settled(t)
		if opened.Reason == journal.Indeterminate {
			call := t.Node().Adapter.(*program.Call)
			r.m.Unknown(t, call.Kind != program.AgentCall, call.OnIndeterminate == program.Ask)
		} else {
			r.m.Suspend(t) // if it is a call
		}
		r.waits.keep(t, what.Progress)
		opened.batched = what.Progress.Batched
		r.use(t, &what.Models)
		r.waits.count(path)
	}
	opened.key = r.before.Count(opened.uncounted())
	if r.waits.add(opened); r.batches.sees(opened) {
		r.budget.hold(t, opened.batched.ID, opened.batched.Reserved)
	}
}

// applyAnswered applies the end of a pause.
func (r *Run) applyAnswered(what *journal.PauseAnswered) error {
	p := r.waits.pause(what.Pause)
	if p == nil {
		return fmt.Errorf("no pause %q is pending", what.Pause)
	}
	if !what.Kept && !p.batched.InBatch() {
		r.before.keep(p, what.Next, what.Answer)
		again := what.Restart || r.o.Interrupt == resume.Restart
		if again && asksForMore(p) && past.Decision(what.Answer) == "raise" { // also for earlier steps
			r.budget.raise(p, what.Answer)
		}
	}
	if what.Generation == 0 && !what.Restart {
		r.before.use(p, what.Answer)
	}
	if what.Next == resume.Answered && agents.ApprovedForRun(what.Answer) {
		r.grants = r.grants.with(r.agents.approves(p))
	}
	switch {
	case what.Generation > 0:
		r.beginAgain(p)
		return nil
	case what.Restart:
		r.undo.atEnd, r.undo.restart = true, p
		return nil
	}
	r.answer(p, what.Next, what.Answer)
	return nil
}
