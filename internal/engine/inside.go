package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// A tool that the recipe defines runs inside the step of the agent that calls it. Its steps are tasks of the run, with
// paths like ask/hotel.book#2/pay: they have slots, accounts, pauses and records like all others. The event of the
// agent that the call began opens the body, so a replay does the same. What the body came to is not recorded: it
// follows from what is.

// labelOf is what the path of a body has behind that of the agent's step. frame names the child that calls; "": the
// agent itself.
func labelOf(frame, tool string, call int) string {
	return strings.TrimSuffix("/"+frame, "/") + fmt.Sprintf("/%s#%d", tool, call)
}

// openInside begins the steps of a tool of the recipe.
func openInside(m *machine.Machine, t *machine.Task, e *agents.Event) {
	site := t.Node().Adapter.(*program.Call)
	more := e.Rest()
	if tool := site.Agents.Tools[more.Tool]; tool != nil {
		args, _ := value.Decode(more.Arguments) // they were checked
		m.Enter(t, &tool.Body, labelOf(e.Frame, more.Tool, e.Call), args)
	}
}

// deliver gives an agent at work the results of the tools of its recipe that have ended; false: the agent is not at
// work, or nil.
func (a *agent) deliver(r *Run) bool {
	if a == nil || a.call == nil || a.execution == nil {
		return false
	}
	a.inner = slices.DeleteFunc(a.inner, func(j *agents.Job) bool {
		reply, over := insideOf(a.call.task, j)
		if over {
			a.came = append(a.came, replied{j, reply})
		}
		return over
	})
	a.pump(r)
	return true
}

// insideOf returns what the steps of a tool of the recipe came to; false: they have not ended.
func insideOf(t *machine.Task, j *agents.Job) (reply agents.Reply, over bool) {
	output, failure, over, there := t.Inside(labelOf(j.Frame, j.Name, j.Call))
	switch {
	case !there:
		reply.Err = &runtime.Error{Category: runtime.CategoryConfig, Code: "tool.missing", Step: j.Path,
			Err: fmt.Errorf("the recipe has no tool %q any more", j.Name)}
		return reply, true
	case !over:
		return reply, false
	case failure != nil:
		reply.Err = &runtime.Error{Category: runtime.Category(failure.Category), Code: failure.Code, Err: failure.Err}
		return reply, true
	}
	reply.Output, reply.Err = value.JSON(output)
	return reply, true
}

// rest tells agents at work that nothing continues before somebody answers: steps inside them wait. It returns false
// if no agent is at work any more.
func (r *Run) rest() bool {
	if result := r.m.Result(); result == nil || result.Status != machine.Waiting {
		return false
	}
	for _, a := range r.agents.working() {
		a.execution.Rest()
		a.pump(r)
	}
	return len(r.agents.working()) > 0
}

// rests reports whether an agent only waits for tools of its recipe.
func (a *agent) rests() bool {
	return len(a.inner) > 0 && len(a.jobs)+len(a.came)+len(a.unsaid) == 0 && !a.saving
}
