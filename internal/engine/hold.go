package engine

import (
	"slices"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/runtime"
)

// Hold lets no more calls start, so that another process can continue the run from its events. Agents stop between
// two calls. Calls in progress finish, including further attempts. [View.Idle] reports when they have.
func (r *Run) Hold() { r.todo.hold = true }

// Idle reports whether no call is in progress: then the events of a held run have its whole state. Call it when Next
// has returned None.
func (v View) Idle() bool {
	if v.calls.any() || v.undo.call != nil {
		return false
	}
	return !slices.ContainsFunc(v.m.Calls(), func(t *machine.Task) bool {
		p, begun := t.Driver.(*pending)
		return begun && !(p.Kind == program.AgentCall && (p.agent.stays() || p.agent.rests()))
	})
}

// stays reports whether an agent has stopped between two calls.
func (a *agent) stays() bool { return a.kept.Record != nil || a.kept.Job != nil }

// canStay reports whether an agent can stop before an action: a call would start, nothing is in progress, and all that
// was done is in an event. Calls of layers have no events, so an agent does not stop between them.
func (a *agent) canStay(act agents.Action) bool {
	if len(a.jobs)+len(a.came)+len(a.unsaid) > 0 || a.begins {
		return false
	}
	switch {
	case act.Record != nil:
		return beginsCall(act.Record.Kind)
	case act.Job == nil:
		return false
	}
	switch act.Job.Op {
	case agents.InitLayer, agents.RecallLayer, agents.StoreLayer, agents.DisposeLayer:
		return false
	}
	return true
}

// beginsCall reports whether an event of an agent says that a call begins.
func beginsCall(k agents.Kind) bool {
	switch k {
	case agents.ModelBegan, agents.ModelAgain, agents.ToolBegan, agents.ToolAgain:
		return true
	}
	return false
}

// goOn ends an agent that has stopped between two calls, with the cause.
func (a *agent) goOn(cause error) {
	kept := a.kept
	a.kept = agents.Action{}
	switch {
	case kept.Record != nil:
		a.execution.Broken(&runtime.Error{Category: runtime.CategoryCancelled, Code: "step.cancelled", Err: cause})
	case kept.Job != nil:
		a.execution.Done(kept.Job, agents.Reply{Err: cause})
	}
}
