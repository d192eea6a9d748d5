package engine

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// FramePath is the path of an agent's child, or of the agent itself.
func FramePath(path, frame string) string { return strings.TrimSuffix(path+"/"+frame, "/") }

// DoubtsOf returns the calls that a run under another definition must ask about before it makes them: those with
// unknown outcome that it may repeat, which a pause asks about, if open is true for it, or which had begun when the
// process died; and those whose outcome a person gave, wherever they are: a later fork or generation may repeat them.
// events are those of the present definition, run is the run's id. With shared it returns the unknown calls of steps
// that keep their results instead: a fork does not make them without asking.
func DoubtsOf(
	run string, events []journal.Event, stands map[string]bool, shared bool, open func(pause string) bool,
) (doubts []journal.Doubt, err error) {
	f := doubtful{run: run, generation: 1, said: journal.Settlements{}, agents: map[string]agentAtWork{}}
	for i := range events {
		f.next(&events[i])
	}
	asks := func(step string, begun bool) bool {
		return shared == (standsIn(stands, step) || stands[resume.DefinitionPath(step)]) || begun && !shared
	}
	add := func(step string, begun bool, d journal.Doubt) {
		if asks(step, begun) {
			doubts = append(doubts, d)
		}
	}
	for _, d := range f.settled {
		if !slices.ContainsFunc(f.asked, func(a askedDoubt) bool { // about it again
			return sameCall(&a.Doubt, &d) && (!open(a.pause) || asks(a.of, a.Doubt.About == ""))
		}) {
			doubts = append(doubts, d)
		}
	}
	for _, a := range f.asked {
		if open(a.pause) {
			add(a.of, a.Doubt.About == "", a.Doubt)
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
		openCalls(&state, path, func(child, tool string, n int, args any) {
			add(path, false, journal.Doubt{Step: child, About: aboutCall(tool, args),
				Call: &resume.Call{Key: resume.Key(run, f.agents[path].began, child, n, "")}})
		})
	}
	return doubts, nil
}

// doubtful reads a journal for calls with unknown outcome.
type doubtful struct {
	run        string
	generation int
	settled    []journal.Doubt // by a person
	asked      []askedDoubt
	begun      []journal.Doubt
	agents     map[string]agentAtWork // by path
	said       journal.Settlements
}

// askedDoubt is a call with unknown outcome that a pause asks about.
type askedDoubt struct {
	journal.Doubt
	pause, of string          // of is the step
	inside    []journal.Doubt // instead of Doubt, of an agent that was stopped: its calls
}

// agentAtWork is what an agent has done so far.
type agentAtWork struct {
	events []agents.Event
	began  int // the generation of its keys
}

// next reads the next event.
func (f *doubtful) next(e *journal.Event) {
	if s := f.said.Next(e); s != nil && s.Answer == nil { // in a fork
		f.settledThere(e.Path, s, e.What.(journal.CallEnded).Output)
	}
	switch what := e.What.(type) {
	case journal.Begun:
		f.doubts(what.Doubts)
	case journal.Redefined:
		f.generation = what.Generation
		f.doubts(what.Doubts)
	case journal.CallBegun:
		f.over(e.Path, false)
		f.begun = append(f.begun, journal.Doubt{Step: e.Path,
			Call: &resume.Call{Key: resume.Key(f.run, f.generation, e.Path, what.Ordinal, what.Key), At: e.At}})
	case journal.CallGiven:
		f.over(e.Path, true)
	case journal.CallEnded:
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
		f.asked = slices.DeleteFunc(f.asked, func(a askedDoubt) bool { return a.pause == what.Pause })
		if what.Generation > 0 {
			f.nextGeneration(what.Generation)
		}
	case journal.Restarted:
		f.nextGeneration(what.Generation)
	}
}

func (f *doubtful) nextGeneration(n int) {
	f.generation, f.agents = n, map[string]agentAtWork{}
	for _, a := range f.asked { // it asks
		f.begun = append(f.begun, a.Doubt)
	}
	f.asked = nil
}

// doubts reads the calls that a run asks about from its beginning on.
func (f *doubtful) doubts(list []journal.Doubt) {
	for _, d := range list {
		if d.Call != nil && d.Call.Given != nil {
			f.settle(d)
		} else {
			f.begun = append(f.begun, d)
		}
	}
}

// decided reads the answer to a question about a call.
func (f *doubtful) decided(what *journal.PauseAnswered) {
	i := slices.IndexFunc(f.asked, func(a askedDoubt) bool { return a.pause == what.Pause })
	if i < 0 || what.Next != resume.Answered {
		return
	}
	list := f.asked[i].inside
	if list == nil {
		list = []journal.Doubt{f.asked[i].Doubt}
	}
	for _, d := range list {
		if decided(what.Answer) == "retry" {
			f.unsettle(&d)
			continue
		}
		d.Call = given(d.Call, what.Answer)
		f.settle(d)
	}
}

// callsShown are the calls that the question about a stopped agent shows; nil: it is another question.
func callsShown(p *resume.Pause) (list []journal.Doubt) {
	shown, _ := p.Show.([]any)
	for _, v := range shown {
		m, _ := v.(map[string]any)
		tool, _ := m["tool"].(string)
		key, _ := m["key"].(string)
		list = append(list, journal.Doubt{Step: p.Step, About: aboutCall(tool, m["arguments"]),
			Call: &resume.Call{Tool: tool, Arguments: m["arguments"], Key: key}})
	}
	return list
}

// settledThere reads the end of a call that a person gave in the run that this one is a fork of. The beginning of the
// fork says more, unless an earlier version recorded it.
func (f *doubtful) settledThere(path string, s *journal.Settlement, output any) {
	d := journal.Doubt{Step: path}
	if slices.ContainsFunc(f.settled, func(other journal.Doubt) bool { return sameCall(&other, &d) }) {
		return
	}
	answer := map[string]any{"decision": "result", "form": output}
	if s.Failure != nil {
		answer = map[string]any{"decision": "fail"}
	}
	d.Call = given(nil, answer)
	f.settle(d)
}

// settle notes a call whose end a person gave.
func (f *doubtful) settle(d journal.Doubt) {
	f.unsettle(&d)
	f.settled = append(f.settled, d)
}

// unsettle forgets such a call: it is made again.
func (f *doubtful) unsettle(d *journal.Doubt) {
	f.settled = slices.DeleteFunc(f.settled, func(other journal.Doubt) bool { return sameCall(&other, d) })
}

// sameCall reports whether two are about the same call: of a step the last one, in an agent the one with that key.
func sameCall(a, b *journal.Doubt) bool {
	return a.Step == b.Step && a.About == b.About &&
		(a.About == "" || a.Call == nil || b.Call == nil || a.Call.Key == b.Call.Key)
}

// opened reads the beginning of a pause.
func (f *doubtful) opened(e *journal.Event, what *journal.PauseOpened) {
	p, of := &what.Pause, e.Path
	d := journal.Doubt{Step: p.Step, Call: p.Call}
	if what.Agent != nil {
		of, d.About = what.Agent.Step, AboutOf(p)
	}
	if f.begun = slices.DeleteFunc(f.begun, func(b journal.Doubt) bool {
		return b.Step == d.Step && b.About == d.About
	}); p.Reason == journal.Indeterminate {
		f.asked = append(f.asked, askedDoubt{d, p.ID, of, callsShown(p)})
	}
}

// over forgets the call of a step; of an agent, those in it too if the agent has ended.
func (f *doubtful) over(step string, ended bool) {
	f.begun = slices.DeleteFunc(f.begun, func(d journal.Doubt) bool {
		return d.Step == step && d.About == "" || ended && within(d.Step, step)
	})
}

// openCalls tells of the calls of an agent, and of its children, that may have an effect and are under way. n is the
// place of the call among those of the agent or child, from 1.
func openCalls(s *agents.State, path string, tell func(path, tool string, n int, args any)) {
	for i, c := range s.Calls {
		if c.Open && c.Effect == runtime.External {
			args, _ := value.Decode(c.Arguments) // it was checked
			tell(path, c.Name, i+1, args)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Children)) {
		openCalls(s.Children[name], FramePath(path, name), tell)
	}
}

// QuestionIn is the question of a step to a person or an outside system; "" for pauses of the engine.
func QuestionIn(p *resume.Pause) string {
	if p.Kind == resume.System {
		return ""
	}
	return p.Question()
}

// RollbackMark follows the path of a task in the path of its rollback.
const RollbackMark = "!rollback"
