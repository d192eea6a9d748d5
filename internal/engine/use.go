package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// toolCalls is the code for calls of tools that a limit refuses.
const toolCalls = "limits.tool_calls"

// countsTools reports whether the number of tool calls is limited.
func (b *budget) countsTools() bool {
	return b.steps.Tools || b.limits.ToolCalls > 0 || b.host.ToolCalls > 0
}

// countTools counts the calls of tools in an event: those of a step when they are over, those of an agent and its
// delegates when they begin, including a call that a limit then refuses.
func (b *budget) countTools(t *machine.Task, what journal.What) {
	if !b.countsTools() {
		return
	}
	n := int64(0)
	switch w := what.(type) {
	case *journal.CallEnded:
		c, ok := t.Node().Adapter.(*program.Call)
		if ok && c.Kind == program.ToolCall && (w.Failure == nil || w.Failure.Code != toolCalls) {
			n = 1
		}
	case journal.AgentEvents:
		for i := range w.Events {
			if w.Events[i].Kind == agents.ToolBegan {
				n++
			}
		}
	}
	if n > 0 {
		for _, a := range b.accountsOf(t) {
			a.used.Tools = min(a.used.Tools+n, journal.MaxAmount)
		}
	}
}

// checkTools refuses n more calls of tools if those are too many.
func (a *account) checkTools(n int64, name string) *runtime.Error {
	if a.limit.Tools == 0 || a.gone().Tools+a.reserved.Tools+n <= a.limit.Tools {
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryLimit, Code: "limits.tool_calls", Err: fmt.Errorf(
		"%s is not called: limits.tool_calls of %s is %d, and no call is left", name, a.owner(), a.limit.Tools)}
}

// owner names whose account it is.
func (a *account) owner() string {
	switch {
	case a.host:
		return "the host"
	case a.path != "":
		return fmt.Sprintf("step %q", a.path)
	}
	return "the run"
}

// limitTools refuses a call of a tool by an agent if it exceeds the limit; the call is counted already. The pause, if
// there is one, asks for more.
func (p *pending) limitTools() (*resume.Pause, error) {
	if p.Kind != program.ToolCall {
		return nil, nil
	}
	for _, a := range p.accounts {
		if err := a.checkTools(0, p.named()); err != nil {
			if a.pause {
				return a.askForMore(toolCalls, journal.Amount{}, 0, err.Error()), err
			}
			return nil, err
		}
	}
	return nil, nil
}

// modelUse is what expressions can read of a step besides its output, error and status.
type modelUse struct {
	journal.Answer                // of its model or agent
	used           journal.Amount // by its calls of models, including those of its body
}

// answerIn is what an event tells of the answer of a model or an agent.
func answerIn(what journal.What) journal.Answer {
	switch w := what.(type) {
	case journal.CallEnded:
		return w.Answer
	case journal.CallGiven:
		return w.Answer
	}
	return journal.Answer{}
}

// noteAnswer notes what the end of a call tells of the answer of a step's model or agent.
func (b *budget) noteAnswer(path string, a journal.Answer) {
	if a.Finish != "" || a.Calls != nil || b.uses[path] != nil {
		b.useOf(path).Answer = a
	}
}

// useOf returns the place of what a step uses, in the present generation.
func (b *budget) useOf(path string) *modelUse {
	u := b.uses[path]
	if u == nil {
		if u = new(modelUse); b.uses == nil {
			b.uses = map[string]*modelUse{}
		}
		b.uses[path] = u
	}
	return u
}

// addUse counts in a task, and in the steps around it, what a call used.
func (b *budget) addUse(t *machine.Task, used journal.Amount) {
	for ; t != nil; t = t.Owner() {
		paths := []string{t.Path(), t.Whole().Path()} // of an item and its foreach
		for _, path := range slices.Compact(paths) {
			u := b.useOf(path)
			u.used = u.used.Plus(used)
		}
	}
}

// told is what expressions see as finish, usage or calls of a step. working are the agents that have not ended.
func (b *budget) told(t *machine.Task, what string, working agentsOf) any {
	u := cmp.Or(b.uses[t.Path()], &modelUse{})
	switch {
	case what == "calls":
		return b.callsOf(t, working)
	case what == "usage":
		return map[string]any{"calls": u.used.Calls, "inputTokens": u.used.Sent,
			"outputTokens": u.used.Tokens - u.used.Sent, "costUsd": float64(u.used.Micros) / 1e6}
	case u.Finish != "":
		return u.Finish
	}
	return nil
}

// callsOf returns the calls of tools by the agent of a step, of a foreach those of its items in order. It is nil if
// they are not known: another run, or an earlier definition, had made them, and this one did not read any then.
func (b *budget) callsOf(t *machine.Task, working agentsOf) any {
	if t.Node().Foreach != nil && t.Whole() == t {
		list, items := []any{}, t.Items()
		for i := range items {
			calls, known := b.callsOf(&items[i], working).([]any)
			if !known {
				return nil
			}
			list = append(list, calls...)
		}
		return list
	}
	if u := b.uses[t.Path()]; u != nil && u.Calls != nil {
		return u.Calls
	}
	if a := working[t]; a != nil {
		return a.callsSoFar()
	}
	c, ok := t.Node().Adapter.(*program.Call)
	if ok && c.Kind == program.AgentCall && t.Status() == machine.Succeeded {
		return nil
	}
	return []any{}
}

// spent counts what an event says that so many calls used, the last of them of a model.
func (b *budget) spent(t *machine.Task, model string, used journal.Amount, calls int) {
	b.sum(model, used, calls)
	if t == nil || used == (journal.Amount{}) {
		return
	}
	for _, a := range b.accountsOf(t) {
		a.used = a.used.Plus(used)
	}
	b.addUse(t, used)
}

// sum adds what calls used to the run's total. A call that is shared with another run used nothing here.
func (b *budget) sum(model string, used journal.Amount, calls int) {
	if used == (journal.Amount{}) {
		return
	}
	b.total, b.calls = b.total.Plus(used), b.calls+int64(calls)
	if b.models == nil {
		b.models = map[string]checkpoint.Usage{}
	}
	used.Calls = int64(calls)
	u := b.models[model]
	u.Add(used.Total())
	b.models[model] = u
}

// recall counts in the run's accounts what was used under earlier definitions. Its steps, and
// the limits, are those of the present one.
func (b *budget) recall(events []journal.Event) {
	accounts := b.accountsOf(nil)
	add := func(model string, used journal.Amount, calls int) {
		b.sum(model, used, calls)
		for _, a := range accounts {
			a.used = a.used.Plus(used)
		}
	}
	for i := range events {
		switch what := events[i].What.(type) {
		case journal.CallEnded:
			used := what.Models.All()
			add(used.Model, used.Used, used.Calls())
		case journal.AgentEvents:
			add(what.Model(), what.Used, len(what.Calls))
		case journal.PauseOpened:
			add(what.Models.Model, what.Models.Used, what.Models.Calls())
		}
	}
}

// say adds to an event the calls of models by an agent or child that no other event has.
func (a *agent) say(what *journal.AgentEvents, path string) {
	if d := a.unsaid[path]; d != nil {
		what.Calls, what.Used = append(what.Calls, d.calls...), what.Used.Plus(d.used)
		unspend(a.call.accounts, d.used)
		delete(a.unsaid, path)
	}
}

// usage is what the run used of models, in all executions, together and of each.
func (b *budget) usage() (checkpoint.Usage, map[string]checkpoint.Usage) {
	used := b.total
	used.Calls = b.calls
	return used.Total(), maps.Clone(b.models)
}

// nextGeneration forgets what steps used and agents keep in the present generation.
func (b *budget) nextGeneration() { b.uses, b.kept = nil, 0 }

// usedBy is what a step used of models in the present generation, and why the last answer of its model ended.
func (b *budget) usedBy(path string) (used journal.Amount, finish string) {
	if u := b.uses[path]; u != nil {
		return u.used, u.Finish
	}
	return used, ""
}
