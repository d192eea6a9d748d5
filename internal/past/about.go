package past

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

// RollbackMark follows the path of a task in the path of its rollback.
const RollbackMark = "!rollback"

// FramePath is the path of an agent's child, or of the agent itself.
func FramePath(path, frame string) string { return strings.TrimSuffix(path+"/"+frame, "/") }

// Within reports whether a path is an agent's, or a child's of it.
func Within(path, agent string) bool { return path == agent || strings.HasPrefix(path, agent+"/") }

// Keeps reports whether a step keeps its result: it is among those kept, or a step around it is, such as an agent that
// called the tool which has the step.
func Keeps(kept map[string]bool, path string) bool {
	for !kept[path] {
		end := strings.LastIndexByte(path, '/')
		if end < 0 {
			return false
		}
		path = path[:end]
	}
	return true
}

// QuestionIn is the question of a step to a person or an outside system; "" for pauses of the engine.
func QuestionIn(p *resume.Pause) string {
	if p.Kind == resume.System {
		return ""
	}
	return p.Question()
}

// AtBreakpoint reports whether a pause is one before a step. A tool may ask for one that looks the same: then its step
// has begun.
func AtBreakpoint(p *resume.Pause) bool {
	return p.Kind == resume.System && p.Reason == journal.Breakpoint
}

// AboutOf returns the subject of a pause, as JSON.
func AboutOf(p *resume.Pause) string {
	var about any = []any{p.Prompt, p.Show}
	if len(p.To) > 0 {
		about = []any{p.Prompt, p.Show, p.To}
	}
	if p.Reason == journal.Indeterminate {
		about = p.Show // a call, whatever the prompt says of it
	}
	text, _ := value.JSON(about) // it was in a record
	return string(text)
}

// AboutCall is AboutOf for the pause that asks for the outcome of a call in an agent.
func AboutCall(tool string, args any) string {
	return AboutOf(&resume.Pause{Reason: journal.Indeterminate, Show: map[string]any{"tool": tool, "arguments": args}})
}

// Given is what is known of a call whose end a person gave by an answer.
func Given(c *resume.Call, answer any) *resume.Call {
	settled := resume.Call{}
	if c != nil {
		settled = *c
	}
	settled.Given = answer
	return &settled
}

// OpenCalls tells of the calls of an agent, and of its children, that may have an effect and are under way. n is the
// place of the call among those of the agent or child, from 1.
func OpenCalls(s *agents.State, path string, tell func(path, tool string, n int, args any)) {
	for i, c := range s.Calls {
		if c.Open && c.Effect == runtime.External {
			args, _ := value.Decode(c.Arguments) // it was checked
			tell(path, c.Name, i+1, args)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Children)) {
		OpenCalls(s.Children[name], FramePath(path, name), tell)
	}
}
