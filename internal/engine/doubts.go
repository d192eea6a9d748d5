package engine

import (
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

// DoubtsOf are the calls of steps that begin again of which nobody knows whether they had their effect: those
// that somebody is being asked about, by a pause that open is true for, those that had begun when the process
// died, and those that a person said the end of.
func DoubtsOf(
	past []journal.Event, stands map[string]bool, open func(pause string) bool,
) (doubts []journal.Doubt, err error) {
	add := func(step, about string) { doubts = append(doubts, journal.Doubt{Step: step, About: about}) }
	begun := map[string]bool{}
	inAgents := map[string][]agents.Event{}
	said := journal.Settlements{}
	for i := range past {
		e := &past[i]
		if said.Next(e) != nil && !stands[e.Path] { // by a person, who is asked once more
			add(e.Path, "")
		}
		switch what := e.What.(type) {
		case journal.CallBegun:
			begun[e.Path] = true
		case journal.CallEnded:
			delete(begun, e.Path)
			delete(inAgents, e.Path)
		case journal.AgentEvents:
			inAgents[e.Path] = append(inAgents[e.Path], what.Events...)
		case journal.PauseOpened:
			delete(begun, e.Path)
			switch p := &what.Pause; {
			case p.Reason != journal.Indeterminate || !open(p.ID):
			case what.Agent == nil:
				add(p.Step, "")
			case !stands[what.Agent.Step]:
				add(p.Step, AboutOf(p))
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(begun)) {
		add(path, "")
	}
	for _, path := range slices.Sorted(maps.Keys(inAgents)) {
		if stands[path] {
			continue
		}
		state, err := agents.Fold(inAgents[path])
		if err != nil {
			return nil, err
		}
		openCalls(&state, path, func(path, tool string, _ int, args any) { add(path, aboutCall(tool, args)) })
	}
	return doubts, nil
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

// QuestionIn is what a person, or somebody outside, was asked by a step; "" for pauses of the engine's own.
func QuestionIn(p *resume.Pause) string {
	if p.Kind == resume.System {
		return ""
	}
	return p.Question()
}

// RollbackMark follows the path of a task in the path of its rollback.
const RollbackMark = "!rollback"
