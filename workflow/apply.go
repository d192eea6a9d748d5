package workflow

import (
	"fmt"
	"slices"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
)

// record keeps an event of a task that happens now, and takes it in.
func (r *run) record(t *machine.Task, path string, what journal.What) {
	r.recordAll(t, []journal.Event{{At: r.events.now, Path: path, After: r.decided(), What: what}})
}

// recordAll is record for events that happen together.
func (r *run) recordAll(t *machine.Task, events []journal.Event) {
	for i := range events {
		r.noteEvent(events[i])
	}
	r.takeIn(t, events)
}

// takeIn is apply for events that the run has made itself, so that none of them is illegal.
func (r *run) takeIn(t *machine.Task, events []journal.Event) {
	for i := range events {
		if err := r.apply(t, &events[i]); err != nil {
			panic(err)
		}
	}
}

// applyAgain is apply for an event of an earlier leg. known are the tasks that have begun, by path.
func (r *run) applyAgain(e *journal.Event, known map[string]*machine.Task) error {
	path := e.Path
	switch what := e.What.(type) {
	case journal.TimerDue:
		i := slices.IndexFunc(r.armed,
			func(a machine.Command) bool { return a.Task.Path() == e.Path && a.Timer == what.Timer })
		if i < 0 {
			return nil // it was disarmed in that moment
		}
		t := r.armed[i].Task
		r.armed = slices.Delete(r.armed, i, i+1)
		return r.apply(t, e)
	case journal.PauseAnswered:
		err := r.apply(nil, e)
		if what.Generation > 0 {
			clear(known)
		}
		return err
	case journal.PauseOpened:
		if what.Agent != nil {
			path = what.Agent.Step
		}
	case journal.CallBegun, journal.CallEnded, journal.AgentEvents, journal.WaitOver:
	default:
		return r.apply(nil, e)
	}
	if known[path] == nil {
		return fmt.Errorf("step %q has not begun", path)
	}
	return r.apply(known[path], e)
}

// apply takes in what happened: now, in an earlier leg, or in the run that this one shares its record with. t is the
// task that the event is of; nil for events of the run and of pauses that end. The error says that the event cannot
// be: then nothing has changed.
func (r *run) apply(t *machine.Task, e *journal.Event) error {
	switch what := e.What.(type) {
	case journal.CallBegun:
		if r.replaying { // else the call is about to be made
			if r.unsure == nil {
				r.unsure = map[*machine.Task]int{}
			}
			r.unsure[t] = what.Ordinal
		}
	case journal.CallEnded:
		r.applyEnded(t, e.Path, &what)
	case journal.AgentEvents:
		r.applyAgent(t, what)
	case journal.CallGiven:
		if !r.m.Give(e.Path, what.Output) {
			return fmt.Errorf("step %q does not wait for a slot", e.Path)
		}
	case journal.TimerDue:
		r.m.Due(t, what.Timer)
	case journal.WaitOver:
		r.settled(t)
		r.m.Answer(t, what.Output, what.Failure)
	case journal.PauseOpened:
		r.applyOpened(t, e.Path, &what)
	case journal.PauseClosed: // its task ends a moment later
		r.pauses = slices.DeleteFunc(r.pauses, func(p *openPause) bool { return p.ID == what.Pause })
	case journal.PauseAnswered:
		return r.applyAnswered(&what)
	case journal.ValueSent:
		return r.applySent(what)
	case journal.RollbackBegun, journal.RollbackEnded:
		r.undone(e)
	case journal.Paused:
		r.atEnd, r.wasUndone = false, r.interrupt == resume.Restart
	case journal.Cancelled:
		r.forGood, r.pauses = &what.Reason, nil
	}
	return nil
}

// applyEnded takes in the end of a call.
func (r *run) applyEnded(t *machine.Task, path string, what *journal.CallEnded) {
	r.settled(t)
	r.use(t, what.Models)
	if what.Unknown {
		r.callUnknown(path, t.Node().Adapter.(*program.Call).Name, what.Why)
	}
	r.m.Finish(t, what.Output, what.Size-1, what.Failure)
}

// use counts what a call asked of models. What calls of this leg use is in the accounts already, an attempt at a time.
func (r *run) use(t *machine.Task, used journal.ModelUse) {
	if r.replaying {
		for _, n := range used.Draws {
			r.markDrawn(used.Model, n)
		}
		r.spent(t, used.Used)
	}
	r.m.Spend(t, used.Used.Micros)
}

// applyOpened takes in a pause of a step, or of an agent.
func (r *run) applyOpened(t *machine.Task, path string, what *journal.PauseOpened) {
	opened := &openPause{Pause: what.Pause, task: t}
	if a := what.Agent; a != nil {
		opened.inAgent, opened.again = a.Pause, a.Tries > 0
		r.logOf(t).tries[a.Place] = a.Tries
	} else {
		r.settled(t)
		r.m.Suspend(t) // if it is a call
		r.keep(t, what.Progress)
		r.use(t, what.Models)
		if r.opened == nil {
			r.opened = map[string]int{}
		}
		r.opened[path]++
	}
	r.count(opened)
	r.pauses = append(r.pauses, opened)
}

// applyAnswered takes the end of a pause.
func (r *run) applyAnswered(what *journal.PauseAnswered) error {
	p := r.pauseByID(what.Pause)
	if p == nil {
		return fmt.Errorf("no pause %q is open", what.Pause)
	}
	if what.Kept {
		r.useAnswer(p, what.Answer)
	} else {
		r.keepAnswer(p, what.Next, what.Answer)
	}
	if what.Generation > 0 {
		r.beginAgain(p)
		return nil
	}
	r.answer(p, what.Next, what.Answer)
	return nil
}
