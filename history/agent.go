package history

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// agent makes trace events from the recorded events of a loop: those of all executions that a journal has, without
// models, snapshots and retries. The zero agent, with its path, has read no event.
type agent struct {
	path  string // of the loop
	state agents.State
	waits bool
	list  []trace.Event

	content bool           // as of Reader
	shown   map[string]int // how many messages were, by the path of the loop; nil: none
}

// add reads the next event, and returns its trace events, without times. An event that is illegal in the
// current state of the loop is an error.
func (a *agent) add(e agents.Event) ([]trace.Event, error) {
	a.list = nil
	root := find(&a.state, "")
	if a.waits && e.Kind != agents.Started {
		a.emit(a.path, trace.AgentStart,
			"agent", root.InCharge(), "depth", root.Start.Depth, "resume", true, "usage", root.Total())
	}
	a.waits = false
	n, more := e.Call, e.Rest()
	if more.Pause != nil {
		n = more.Pause.Call
	}
	var before agentloop.Call
	var answered agents.Pause
	if s := find(&a.state, e.Frame); s != nil {
		if n > 0 && n <= len(s.Calls) {
			before = s.Calls[n-1]
		}
		if more.Answer != nil {
			if i := slices.IndexFunc(s.Pauses, func(o agents.Pause) bool { return o.ID == more.Answer.Pause }); i >= 0 {
				answered = s.Pauses[i]
			}
		}
	}
	next, err := agents.Reduce(a.state, e)
	if err != nil {
		return nil, err
	}
	a.state = next
	s, path := find(&a.state, e.Frame), a.pathOf(e.Frame)
	if n > 0 && before.Name != "" && !touched(before) {
		a.emitAbout(before.Arguments, path, trace.ToolStart, "call", n, "tool", before.Name)
	}
	switch e.Kind {
	case agents.Permission:
		if before.For != agents.ForApproval {
			a.emit(path, trace.PermissionRequest, "call", n, "tool", before.Name)
		}
		scope := string(cmp.Or(more.Scope, "once"))
		data := []any{"call", n, "tool", before.Name, "allow", more.Allow, "scope", scope}
		if more.Arguments != nil {
			data = append(data, "edited", true)
		}
		a.emitAbout(more.Arguments, path, trace.PermissionResponse, data...)
	case agents.ToolEnded:
		if e.Code == "" {
			a.emitAbout(e.Text, path, trace.ToolEnd, "call", n, "tool", before.Name)
			break
		}
		message := strings.TrimPrefix(e.Text, "error: ")
		a.emit(path, trace.AgentError, "what", "tool", "call", n, "tool", before.Name, "message", message)
		a.emitAbout(e.Text, path, trace.ToolEnd, "call", n, "tool", before.Name, "error", e.Code)
	case agents.Paused:
		switch more.Pause.For {
		case agents.ForApproval:
			a.emit(path, trace.PermissionRequest, "call", n, "tool", before.Name)
		case agents.ForHuman:
			a.emit(path, trace.HumanRequest, "call", n)
		}
	case agents.Answered:
		if answered.For == agents.ForHuman {
			a.emit(path, trace.HumanResponse, "call", answered.Call)
		}
	case agents.Started, agents.Ended:
		a.edge(s, path, &e)
	default:
		a.tell(s, path, &e)
	}
	return a.list, nil
}

// tell adds the trace events of an event that does not belong to a call.
func (a *agent) tell(s *agents.State, path string, e *agents.Event) {
	switch more := e.Rest(); e.Kind {
	case agents.MemoryLoaded:
		a.emitAbout(e.Messages, path, trace.MemoryLoad, "messages", len(e.Messages))
	case agents.Retrieved:
		a.emitAbout(more.Documents, path, trace.Retrieve, "documents", len(more.Documents))
	case agents.Steered:
		a.emit(path, trace.Steer, "messages", len(more.Notes))
	case agents.Compacted:
		if more.Summary != "" {
			a.emitAbout(more.Summary, path, trace.Compact, "messages", more.From, "usage", e.Usage)
			break
		}
		a.emit(path, trace.Compact, "archive", e.Text)
	case agents.ModelBegan, agents.ModelAgain: // tool.end has results, and other steps what an agent continues with
		asked := slices.DeleteFunc(slices.Clone(s.Messages[max(a.shown[path], s.Own):]),
			func(m runtime.Message) bool {
				return m.Role == runtime.ToolRole || m.Text == "" && m.Role == runtime.User
			})
		a.emitAbout(asked, path, trace.ModelStart, "step", s.Steps)
	case agents.ModelEnded:
		var answer any
		if len(e.Messages) > 0 {
			answer = agents.Shown(e.Messages)[0]
		}
		a.emitAbout(answer, path, trace.ModelEnd, "finish", e.Finish, "usage", e.Usage)
		if a.shown == nil {
			a.shown = map[string]int{}
		}
		a.shown[path] = len(s.Messages)
		if s.Phase == agents.Calling {
			names := []any{}
			for _, c := range s.Calls[s.Round:] {
				names = append(names, c.Name)
			}
			a.emit(path, trace.ToolCallsBegin, "tools", names)
		}
	case agents.HandedOff:
		a.emit(path, trace.AgentHandoff, "call", e.Call, "from", s.InCharge(), "to", more.Agent)
	case agents.SubagentSet:
		switch {
		case !more.Subagent.Closed:
			a.emit(path, trace.SubagentStarted, "id", more.Subagent.ID)
		case more.Subagent.Last == "":
			a.emit(path, trace.SubagentCompleted, "id", more.Subagent.ID)
		}
	case agents.MemorySaved:
		a.items(s, path)
		a.emit(path, trace.MemorySave, "messages", len(s.Remembered()))
	}
}

// edge adds the trace events of the start or the end of a loop, also to its parent.
func (a *agent) edge(s *agents.State, path string, e *agents.Event) {
	outer, last := "", e.Frame
	if i := strings.LastIndexByte(e.Frame, '/'); i >= 0 {
		outer, last = e.Frame[:i], e.Frame[i+1:]
	}
	name, _, _ := strings.Cut(last, "#")
	outer = a.pathOf(outer)
	delegate := []any{"agent", name, "depth", s.Start.Depth, "call", ordinalOf(last)}
	delegated := e.Frame != "" && s.Start.Subagent == ""
	if e.Kind == agents.Started {
		if delegated {
			a.emit(outer, trace.DelegateStart, delegate...)
		}
		a.emit(path, trace.AgentStart, "agent", cmp.Or(s.Start.Agent, name), "depth", s.Start.Depth)
		return
	}
	if s.Stop != agentloop.StopError && s.Stop != agentloop.StopCancelled && !s.Saved { // else it has told them
		a.items(s, path)
	}
	if s.Stop == agentloop.StopError {
		what := []any{"message", s.Failure}
		if s.Code != "" {
			what = append(what, "code", s.Code)
		}
		a.emit(path, trace.AgentError, what...)
	}
	a.emit(path, trace.AgentEnd, "stopReason", string(s.Stop))
	switch {
	case delegated && s.Stop == agentloop.StopError:
		a.emit(outer, trace.AgentError, "what", "delegate", "call", ordinalOf(last), "message", s.Failure)
		fallthrough
	case delegated:
		a.emit(outer, trace.DelegateEnd, delegate...)
	case e.Frame != "" && s.Stop == agentloop.StopError:
		a.emit(outer, trace.SubagentFailed, "id", s.Start.Subagent)
	case e.Frame != "":
		a.emit(outer, trace.SubagentCompleted, "id", s.Start.Subagent)
	}
}

// items adds the events that sum up what a loop did.
func (a *agent) items(s *agents.State, path string) {
	names := []any{}
	for _, c := range s.Calls {
		names = append(names, c.Name)
	}
	a.emitAbout(agents.Planned(s), path, trace.AgentItem, "item", "plan", "steps", s.Steps, "tools", names)
	a.emitAbout(map[string]any{"text": s.Text}, path, trace.AgentItem, "item", "response", "bytes", len(s.Text))
}

// wait notes that the loop waits from here on, and returns the trace events of that.
func (a *agent) wait() []trace.Event {
	a.waits, a.list = true, nil
	a.emit(a.path, trace.AgentEnd, "stopReason", "paused")
	return a.list
}

// openCalls returns the calls that have no result, in call order. The calls of a child follow the call that made it.
func openCalls(s *agents.State, path string) (list []Call) {
	if s.Phase == agents.Asking {
		return []Call{{Path: path}}
	}
	if s.Phase != agents.Calling {
		return nil
	}
	for i := s.Round; i < len(s.Calls); i++ {
		if s.Calls[i].Done {
			continue
		}
		list = append(list, Call{path, i + 1, s.Calls[i].Name})
		for name, child := range s.Children { // at most one has the number
			if ordinalOf(name) == i+1 {
				list = append(list, openCalls(child, path+"/"+name)...)
			}
		}
	}
	return list
}

// touched reports whether anything was recorded of a call except that the model asked for it.
func touched(c agentloop.Call) bool { return c.Begun || c.Decided || c.Pauses > 0 || c.Done }

// ordinalOf returns the number of the call that made a child, from the child's name: research#2.
func ordinalOf(name string) int {
	_, digits, _ := strings.Cut(name, "#")
	n, _ := strconv.Atoi(digits) // the loop takes no other names
	return n
}

// find returns the state of a frame, or nil before it has begun.
func find(s *agents.State, frame string) *agents.State {
	for frame != "" && s != nil {
		var name string
		name, frame, _ = strings.Cut(frame, "/")
		s = s.Children[name]
	}
	return s
}

func (a *agent) pathOf(frame string) string {
	return strings.TrimSuffix(a.path+"/"+frame, "/")
}

func (a *agent) emit(path string, kind trace.Kind, data ...any) {
	a.list = append(a.list, trace.Event{Kind: kind, Step: path, Data: attrs(data)})
}

// emitAbout emits an event with what it is about, if that is wanted and there is something.
func (a *agent) emitAbout(content any, path string, kind trace.Kind, data ...any) {
	switch v := content.(type) {
	case json.RawMessage:
		if content = nil; len(v) > 0 {
			content = agents.Decoded(v)
		}
	case []runtime.Message:
		if content = nil; len(v) > 0 {
			content = map[string]any{"messages": agents.Shown(v)}
		}
	case []runtime.Document:
		if len(v) == 0 {
			content = nil
		}
	}
	if a.content && content != nil && content != "" {
		data = append(slices.Clip(data), "content", content)
	}
	a.emit(path, kind, data...)
}

// attrs makes the data of an event from names and values, sorted by name.
func attrs(data []any) trace.Data { return agents.AppendAttrs(nil, data) }
