package history

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Detail is all that is known of a step.
type Detail struct {
	Step
	Input  any    `json:"input,omitempty"`  // with ${{ secrets.NAME }} for secrets; nil: none, or not known
	Output any    `json:"output,omitempty"` // nil: null, or not known
	Finish string `json:"finish,omitempty"` // why the last answer of its model ended; "": not known
	Inside []Step `json:"inside,omitempty"` // what is in its bodies that have begun, in plan order; nil: nothing
	Work   *Work  `json:"work,omitempty"`   // of an agent; nil: it is none, or has not begun
	// Said is what a step of the kind model was told, without instructions, and what it answered; nil: nothing, or it
	// is none. The conversation of an agent is in Work.
	Said []runtime.Message `json:"-"`
}

// Work is what an agent, or a child of one, has done.
type Work struct {
	Path     string            `json:"path"`            // of the step, or of the child: ask/research#2
	Agent    string            `json:"agent,omitempty"` // its name; "": it has none
	Messages []runtime.Message `json:"messages"`        // the conversation, without the system prompt; never nil
	Calls    []ToolCall        `json:"calls"`           // in order; never nil
	Usage    runtime.Usage     `json:"usage"`           // without that of the children
	Finish   string            `json:"finish,omitempty"`
	Stop     string            `json:"stop,omitempty"`     // why it stopped; "": it has not
	Children []Work            `json:"children,omitempty"` // by path; nil: none
}

// ToolCall is a call of a tool by an agent.
type ToolCall struct {
	Call      int             `json:"call"` // its number, from 1
	Step      int             `json:"step"` // of the loop
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Done      bool            `json:"done,omitempty"`
	Result    string          `json:"result,omitempty"`   // what the model saw
	Error     string          `json:"error,omitempty"`    // the code of a failure; "": it did not fail
	StartedAt time.Time       `json:"startedAt,omitzero"` // zero: it has not begun
	EndedAt   time.Time       `json:"endedAt,omitzero"`   // zero: it has not ended
}

// detail returns all that is known of a step.
func (v *view) detail(path string) (*Detail, error) {
	n := slices.IndexFunc(v.run.Steps, func(s Step) bool { return s.Step == path })
	i, begun := v.index[path]
	var step Step
	switch {
	case n >= 0:
		step = v.run.Steps[n]
	case begun:
		step = v.stepOf(&v.states[i])
	default:
		return nil, notThere(v.run.RunID, path)
	}
	d := v.details([]Step{step})[0]
	if begun {
		d.Inside = v.within(path)
	}
	if step.Uses == "model" && v.engine != nil {
		v.mu.Lock()
		said := v.engine.Said(path, d.Input)
		v.mu.Unlock()
		for _, one := range said {
			m, _ := one.(map[string]any)
			role, _ := m["role"].(string)
			text, _ := m["text"].(string)
			d.Said = append(d.Said, runtime.Message{Role: runtime.Role(role), Text: text})
		}
	}
	if a := v.log.agents[path]; a != nil {
		work := workOf(path, &a.state)
		v.log.times(&work)
		d.Work = &work
	}
	return &d, nil
}

// details returns what is known of steps, but for what is inside of them and what agents did.
func (v *view) details(steps []Step) []Detail {
	inputs := map[string]any{}
	if v.engine != nil {
		paths := map[string]bool{}
		for i := range steps {
			paths[steps[i].Step] = true
		}
		v.mu.Lock()
		inputs = v.engine.Inputs(paths)
		v.mu.Unlock()
	}
	list := make([]Detail, 0, len(steps))
	for _, step := range steps {
		d := Detail{Step: step, Input: inputs[step.Step]}
		if i, ok := v.index[step.Step]; ok {
			d.Output, d.Finish = v.states[i].Output, v.states[i].Finish
		}
		list = append(list, d)
	}
	return list
}

// times fills in when the calls of a loop, and of its children, began and ended.
func (r *journalLog) times(w *Work) {
	loops := map[string]*Work{}
	var add func(w *Work)
	add = func(w *Work) {
		loops[w.Path] = w
		for i := range w.Children {
			add(&w.Children[i])
		}
	}
	add(w)
	for _, e := range r.events {
		w := loops[e.Step]
		n, _ := e.Data.Get("call").(int64)
		if w == nil || n < 1 || int(n) > len(w.Calls) {
			continue
		}
		switch call := &w.Calls[n-1]; e.Kind {
		case trace.ToolStart:
			call.StartedAt, call.EndedAt = e.At, time.Time{}
		case trace.ToolEnd:
			call.EndedAt = e.At
		}
	}
}

// workOf tells what a loop has done.
func workOf(path string, s *agents.State) Work {
	w := Work{Path: path, Agent: s.Start.Agent, Messages: slices.Concat([]runtime.Message{}, s.Messages),
		Calls: []ToolCall{}, Usage: s.Usage, Finish: s.Finish, Stop: string(s.Stop)}
	for i, c := range s.Calls {
		w.Calls = append(w.Calls, ToolCall{Call: i + 1, Step: c.Step, Tool: c.Name, Arguments: c.Arguments,
			Done: c.Done, Result: c.Result, Error: c.Code})
	}
	for _, name := range value.SortedKeys(s.Children) {
		w.Children = append(w.Children, workOf(path+"/"+name, s.Children[name]))
	}
	return w
}
