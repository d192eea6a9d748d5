package engine

import (
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// denies is what the machine asks before a task runs: the task's failure if a hook denies it, else nil. The record of
// a denial comes before the decision that begins the task. In order:
//
//	a record of this run denies it                       denied
//	one of the run that is shared does, and its failure
//	is handled by the recipe                             denied, and recorded here
//	the run is replayed                                  not asked: what began has begun. With a run that is shared,
//	                                                     steps that do not stand are new here, and asked about
//	else                                                 the hooks decide
func (r *Run) denies(t *machine.Task) *machine.Failure {
	path, sharing := t.Path(), r.past.stands != nil
	f := r.past.denied[path]
	delete(r.past.denied, path)
	switch {
	case f != nil && !sharing:
		return f
	case f != nil && t.Absorbed(isAgent): // else it ended the other run, and is tried again
	case r.past.replaying && (!sharing || askedLater(t) || f == nil && past.Keeps(r.past.stands, path)):
		return nil
	default:
		if f = r.ending.askHooks(r.o.Before, path); f == nil {
			return nil
		}
	}
	r.noteEvent(journal.Event{At: r.now, Path: path, After: r.ending.decided(r.m) - 1,
		What: journal.StepDenied{Failure: f}})
	return f
}

// askHooks asks the hooks whether a task may run: its failure if one denies it, else nil.
func (e *ending) askHooks(before func(runtime.Moment) error, path string) *machine.Failure {
	if before == nil || e.cancelled {
		return nil
	}
	err := before(runtime.Moment{Point: runtime.StepBefore, Step: path})
	if err == nil {
		return nil
	}
	return &machine.Failure{Category: string(runtime.CategoryConfirmation), Code: "hook.denied", Err: err}
}

// askedLater reports whether a task only begins with a command of the machine: where a journal leaves that to do, the
// hooks are asked then.
func askedLater(t *machine.Task) bool {
	n := t.Node()
	return (n.Kind == machine.Call || n.Kind == machine.Wait) && (n.Foreach == nil || t.Whole() != t)
}

// applyDenied ends a step that has begun. Of one that has not, t is nil: the machine will find it denied.
func (r *Run) applyDenied(t *machine.Task, path string, f *machine.Failure) {
	if t != nil {
		r.past.settled(t)
		if t.Status() == machine.Waiting {
			r.m.Answer(t, nil, f)
			return
		}
		r.m.Finish(t, nil, value.Extent{}, f)
		return
	}
	r.past.deny(path, f)
}

// deny notes that a step is denied that has not begun.
func (p *leftOver) deny(path string, f *machine.Failure) {
	if p.denied == nil {
		p.denied = map[string]*machine.Failure{}
	}
	p.denied[path] = f
}

// denyAs denies what hooks denied in another run, as far as it stands.
func (p *leftOver) denyAs(events []journal.Event) {
	for i := range events {
		if what, ok := events[i].What.(journal.StepDenied); ok && past.Keeps(p.stands, events[i].Path) {
			p.deny(events[i].Path, what.Failure)
		}
	}
}

// asksNow reports whether the hooks are asked about a command that a journal left to do, as nothing has happened in its
// step yet.
func (p *leftOver) asksNow(c machine.Command, agents agentsOf) bool {
	t := c.Task
	if c.Op != machine.Start && c.Op != machine.Open || t.AtBreakpoint() || c.Again || t.Entered() || agents[t] != nil {
		return false
	}
	_, begun := p.unsure[t]
	return !begun
}
