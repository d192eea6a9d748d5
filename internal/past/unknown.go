package past

import (
	"cmp"
	"maps"
	"slices"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/resume"
)

// Unknown returns the calls that a run under another definition must ask about before it makes them: those with unknown
// outcome that it may repeat, which a pause asks about, if open is true for it, or which had begun when the process
// died; and those whose outcome a person gave, wherever they are: a later fork or generation may repeat them. kept are
// the steps that keep their results. With shared it returns the unknown calls of these instead: a fork does not make
// them without asking.
func (p *Past) Unknown(
	kept map[string]bool, shared bool, open func(pause string) bool,
) (unknown []journal.UnknownCall, err error) {
	f := unknownCalls{run: p.Run, generation: 1, agents: map[string]agentAtWork{}}
	for i := range p.Present() {
		f.next(&p.Present()[i])
	}
	asks := func(step string, begun bool) bool {
		return shared == (Keeps(kept, step) || kept[resume.DefinitionPath(step)]) || begun && !shared
	}
	add := func(step string, begun bool, d journal.UnknownCall) {
		if asks(step, begun) {
			unknown = append(unknown, d)
		}
	}
	for _, d := range f.settled {
		if !slices.ContainsFunc(f.asked, func(a askedCall) bool { // about it again
			return sameCall(&a.UnknownCall, &d) && (!open(a.pause) || asks(a.of, a.UnknownCall.About == ""))
		}) {
			unknown = append(unknown, d)
		}
	}
	for _, a := range f.asked {
		if open(a.pause) {
			add(a.of, a.UnknownCall.About == "", a.UnknownCall)
		}
	}
	for _, d := range f.begun {
		add(d.Step, true, d)
	}
	for _, path := range slices.Sorted(maps.Keys(f.agents)) {
		state, err := agents.Fold(f.agents[path].events)
		if err != nil {
			return nil, err
		}
		OpenCalls(&state, path, func(child, tool string, n int, args any) {
			add(path, false, journal.UnknownCall{Step: child, About: AboutCall(tool, args),
				Call: &resume.Call{Key: resume.Key(p.Run, f.agents[path].began, child, n, "")}})
		})
	}
	return unknown, nil
}

// unknownCalls reads a journal for calls with unknown outcome.
type unknownCalls struct {
	run        string
	generation int
	settled    []journal.UnknownCall // by a person
	asked      []askedCall
	begun      []journal.UnknownCall
	agents     map[string]agentAtWork // by path
}

// askedCall is a call with unknown outcome that a pause asks about.
type askedCall struct {
	journal.UnknownCall
	pause, of string                // of is the step
	inside    []journal.UnknownCall // instead of UnknownCall, of an agent that was stopped: its calls
}

// agentAtWork is what an agent has done so far.
type agentAtWork struct {
	events []agents.Event
	began  int // the generation of its keys
}

// next reads the next event.
func (f *unknownCalls) next(e *journal.Event) {
	switch what := e.What.(type) {
	case journal.Begun:
		f.asksFrom(what.Unknown)
	case journal.Redefined:
		f.generation = what.Generation
		f.asksFrom(what.Unknown)
	case journal.CallBegun:
		f.over(e.Path, false)
		f.begun = append(f.begun, journal.UnknownCall{Step: e.Path,
			Call: &resume.Call{Key: resume.Key(f.run, f.generation, e.Path, what.Ordinal, what.Key), At: e.At}})
	case journal.CallGiven:
		f.over(e.Path, true)
	case journal.CallEnded:
		if what.Settled {
			f.settledThere(e.Path, &what)
		}
		if !what.Unknown {
			f.over(e.Path, true)
		}
		delete(f.agents, e.Path)
	case journal.AgentEvents:
		a := f.agents[e.Path]
		a.events, a.began = append(a.events, what.Events...), cmp.Or(what.Began, a.began, f.generation)
		f.agents[e.Path] = a
	case journal.PauseOpened:
		f.opened(e, &what)
	case journal.PauseAnswered:
		f.decided(&what)
		f.asked = slices.DeleteFunc(f.asked, func(a askedCall) bool { return a.pause == what.Pause })
		if what.Generation > 0 {
			f.nextGeneration(what.Generation)
		}
	case journal.Restarted:
		f.nextGeneration(what.Generation)
	}
}

func (f *unknownCalls) nextGeneration(n int) {
	f.generation, f.agents = n, map[string]agentAtWork{}
	for _, a := range f.asked { // it asks
		f.begun = append(f.begun, a.UnknownCall)
	}
	f.asked = nil
}

// asksFrom reads the calls that a run asks about from its beginning on.
func (f *unknownCalls) asksFrom(list []journal.UnknownCall) {
	for _, d := range list {
		if d.Call != nil && d.Call.Given != nil {
			f.settle(d)
		} else {
			f.begun = append(f.begun, d)
		}
	}
}

// decided reads the answer to a question about a call.
func (f *unknownCalls) decided(what *journal.PauseAnswered) {
	i := slices.IndexFunc(f.asked, func(a askedCall) bool { return a.pause == what.Pause })
	if i < 0 || what.Next != resume.Answered {
		return
	}
	list := f.asked[i].inside
	if list == nil {
		list = []journal.UnknownCall{f.asked[i].UnknownCall}
	}
	for _, d := range list {
		if Decision(what.Answer) == "retry" {
			f.unsettle(&d)
			continue
		}
		d.Call = Given(d.Call, what.Answer)
		f.settle(d)
	}
}

// callsShown are the calls that the question about a stopped agent shows; nil: it is another question.
func callsShown(p *resume.Pause) (list []journal.UnknownCall) {
	shown, _ := p.Show.([]any)
	for _, v := range shown {
		m, _ := v.(map[string]any)
		tool, _ := m["tool"].(string)
		key, _ := m["key"].(string)
		list = append(list, journal.UnknownCall{Step: p.Step, About: AboutCall(tool, m["arguments"]),
			Call: &resume.Call{Tool: tool, Arguments: m["arguments"], Key: key}})
	}
	return list
}

// settledThere reads the end of a call that a person gave in the run that this one is a fork of. The beginning of the
// fork says more, unless an earlier version recorded it.
func (f *unknownCalls) settledThere(path string, what *journal.CallEnded) {
	d := journal.UnknownCall{Step: path}
	if slices.ContainsFunc(f.settled, func(other journal.UnknownCall) bool { return sameCall(&other, &d) }) {
		return
	}
	answer := map[string]any{"decision": "result", "form": what.Output}
	if what.Failure != nil {
		answer = map[string]any{"decision": "fail"}
	}
	d.Call = Given(nil, answer)
	f.settle(d)
}

// settle notes a call whose end a person gave.
func (f *unknownCalls) settle(d journal.UnknownCall) {
	f.unsettle(&d)
	f.settled = append(f.settled, d)
}

// unsettle forgets such a call: it is made again.
func (f *unknownCalls) unsettle(d *journal.UnknownCall) {
	f.settled = slices.DeleteFunc(f.settled, func(other journal.UnknownCall) bool { return sameCall(&other, d) })
}

// sameCall reports whether two are about the same call: of a step the last one, in an agent the one with that key.
func sameCall(a, b *journal.UnknownCall) bool {
	return a.Step == b.Step && a.About == b.About &&
		(a.About == "" || a.Call == nil || b.Call == nil || a.Call.Key == b.Call.Key)
}

// opened reads the beginning of a pause.
func (f *unknownCalls) opened(e *journal.Event, what *journal.PauseOpened) {
	p, of := &what.Pause, e.Path
	d := journal.UnknownCall{Step: p.Step, Call: p.Call}
	if what.Agent != nil {
		of, d.About = what.Agent.Step, AboutOf(p)
	}
	if f.begun = slices.DeleteFunc(f.begun, func(b journal.UnknownCall) bool {
		return b.Step == d.Step && b.About == d.About
	}); p.Reason == journal.Indeterminate {
		f.asked = append(f.asked, askedCall{d, p.ID, of, callsShown(p)})
	}
}

// over forgets the call of a step; of an agent, those in it too if the agent has ended.
func (f *unknownCalls) over(step string, ended bool) {
	f.begun = slices.DeleteFunc(f.begun, func(d journal.UnknownCall) bool {
		return d.Step == step && d.About == "" || ended && Within(d.Step, step)
	})
}
