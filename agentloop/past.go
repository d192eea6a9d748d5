package agentloop

import (
	"cmp"
	"slices"
	"strings"

	"github.com/braise-run/braise/trace"
)

// Past tells from the journal of a loop what happened in it: the trace of all legs as far as a journal has
// it, without models, snapshots and retries. The zero Past, with its Path, is at the beginning.
type Past struct {
	Path  string // of the loop
	state State
	waits bool
	list  []trace.Event
}

// PastCall is a call that has no result yet.
type PastCall struct {
	Path string `json:"path"`           // of the loop that makes it
	Call int    `json:"call,omitempty"` // its number; 0: of the model
	Tool string `json:"tool,omitempty"`
}

// State is what the events so far come to. Nobody may change it.
func (p *Past) State() *State { return &p.state }

// Add takes the next event, and returns what it tells, without times. An event that is illegal where the
// loop stands is an error.
func (p *Past) Add(e Event) ([]trace.Event, error) {
	p.list = nil
	root := p.state.find("")
	if p.waits && e.Kind != Started {
		p.emit(p.Path, trace.AgentStart, "agent", root.Start.Agent, "depth", root.Start.Depth, "resume", true, "usage", root.Total())
	}
	p.waits = false
	n := e.Call
	if e.Pause != nil {
		n = e.Pause.Call
	}
	var before Call
	var answered Pause
	if s := p.state.find(e.Frame); s != nil {
		if n > 0 && n <= len(s.Calls) {
			before = s.Calls[n-1]
		}
		if e.Answer != nil {
			if i := slices.IndexFunc(s.Pauses, func(o Pause) bool { return o.ID == e.Answer.Pause }); i >= 0 {
				answered = s.Pauses[i]
			}
		}
	}
	if err := p.state.apply(&e); err != nil {
		return nil, err
	}
	s, path := p.state.find(e.Frame), p.pathOf(e.Frame)
	if n > 0 && before.Name != "" && !before.touched() {
		p.emit(path, trace.ToolStart, "call", n, "tool", before.Name)
	}
	switch e.Kind {
	case Permission:
		if before.For != ForApproval {
			p.emit(path, trace.PermissionRequest, "call", n, "tool", before.Name)
		}
		p.emit(path, trace.PermissionResponse, "call", n, "tool", before.Name, "allow", e.Allow, "scope", string(cmp.Or(e.Scope, "once")))
	case ToolEnded:
		if e.Code == "" {
			p.emit(path, trace.ToolEnd, "call", n, "tool", before.Name)
			break
		}
		p.emit(path, trace.AgentError, "what", "tool", "call", n, "tool", before.Name, "message", strings.TrimPrefix(e.Text, "error: "))
		p.emit(path, trace.ToolEnd, "call", n, "tool", before.Name, "error", e.Code)
	case Paused:
		switch e.Pause.For {
		case ForApproval:
			p.emit(path, trace.PermissionRequest, "call", n, "tool", before.Name)
		case ForHuman:
			p.emit(path, trace.HumanRequest, "call", n)
		}
	case Answered:
		if answered.For == ForHuman {
			p.emit(path, trace.HumanResponse, "call", answered.Call)
		}
	case Started, Ended:
		p.edge(s, path, &e)
	default:
		p.tell(s, path, &e)
	}
	return p.list, nil
}

// tell adds what an event says that is not of a call.
func (p *Past) tell(s *State, path string, e *Event) {
	switch e.Kind {
	case MemoryLoaded:
		p.emit(path, trace.MemoryLoad, "messages", len(e.Messages))
	case Retrieved:
		p.emit(path, trace.Retrieve, "documents", len(e.Documents))
	case Steered:
		p.emit(path, trace.Steer, "messages", len(e.Notes))
	case Compacted:
		p.emit(path, trace.Compact, "archive", e.Text)
	case ModelBegan, ModelAgain:
		p.emit(path, trace.ModelStart, "step", s.Steps)
	case ModelEnded:
		p.emit(path, trace.ModelEnd, "finish", e.Finish, "usage", e.Usage)
		if s.Phase == Calling {
			names := []any{}
			for _, c := range s.Calls[s.Round:] {
				names = append(names, c.Name)
			}
			p.emit(path, trace.ToolCallsBegin, "tools", names)
		}
	case SubagentSet:
		if !e.Subagent.Closed {
			p.emit(path, trace.SubagentStarted, "id", e.Subagent.ID)
		}
	case MemorySaved:
		p.emit(path, trace.MemorySave, "messages", len(s.Messages)-s.Own)
	}
}

// edge adds what the begin or the end of a loop says, to its parent too.
func (p *Past) edge(s *State, path string, e *Event) {
	outer, last := "", e.Frame
	if i := strings.LastIndexByte(e.Frame, '/'); i >= 0 {
		outer, last = e.Frame[:i], e.Frame[i+1:]
	}
	name, _, _ := strings.Cut(last, "#")
	outer = p.pathOf(outer)
	delegate := []any{"agent", name, "depth", s.Start.Depth, "call", ordinalOf(last)}
	delegated := e.Frame != "" && s.Start.Subagent == ""
	if e.Kind == Started {
		if delegated {
			p.emit(outer, trace.DelegateStart, delegate...)
		}
		p.emit(path, trace.AgentStart, "agent", cmp.Or(s.Start.Agent, name), "depth", s.Start.Depth)
		return
	}
	if s.Stop == StopError {
		p.emit(path, trace.AgentError, append(known("code", s.Code), "message", s.Failure)...)
	}
	p.emit(path, trace.AgentEnd, "stopReason", string(s.Stop))
	switch {
	case delegated && s.Stop == StopError:
		p.emit(outer, trace.AgentError, "what", "delegate", "call", ordinalOf(last), "message", s.Failure)
		fallthrough
	case delegated:
		p.emit(outer, trace.DelegateEnd, delegate...)
	case e.Frame != "" && s.Stop == StopError:
		p.emit(outer, trace.SubagentFailed, "id", s.Start.Subagent)
	case e.Frame != "":
		p.emit(outer, trace.SubagentCompleted, "id", s.Start.Subagent)
	}
}

// Wait notes that the loop waits from here on, and returns what that tells.
func (p *Past) Wait() []trace.Event {
	p.waits, p.list = true, nil
	p.emit(p.Path, trace.AgentEnd, "stopReason", string(stopPaused))
	return p.list
}

// Open returns the calls that have no result, in the order of the calls, a child's behind the call that it is of.
func (p *Past) Open() []PastCall { return p.state.openCalls(p.Path) }

func (s *State) openCalls(path string) (list []PastCall) {
	if s.Phase == Asking {
		return []PastCall{{Path: path}}
	}
	if s.Phase != Calling {
		return nil
	}
	for i := s.Round; i < len(s.Calls); i++ {
		if s.Calls[i].Done {
			continue
		}
		list = append(list, PastCall{path, i + 1, s.Calls[i].Name})
		for name, child := range s.Children { // at most one has the number
			if ordinalOf(name) == i+1 {
				list = append(list, child.openCalls(path+"/"+name)...)
			}
		}
	}
	return list
}

// find returns the state of a frame; nil before it has begun.
func (s *State) find(frame string) *State {
	for frame != "" && s != nil {
		var name string
		name, frame, _ = strings.Cut(frame, "/")
		s = s.Children[name]
	}
	return s
}

func (p *Past) pathOf(frame string) string {
	return strings.TrimSuffix(p.Path+"/"+frame, "/")
}

func (p *Past) emit(path string, kind trace.Kind, data ...any) {
	p.list = append(p.list, trace.Event{Kind: kind, Step: path, Data: appendAttrs(nil, data)})
}
