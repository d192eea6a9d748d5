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
	list, err := v.details([]string{path})
	if err != nil {
		return nil, err
	}
	d := &list[0]
	if _, begun := v.index[path]; begun {
		d.Inside = v.within(path)
	}
	return d, nil
}

// details returns what is known of steps, but for what is inside of them. It looks at the run once, for all of them.
func (v *view) details(paths []string) ([]Detail, error) {
	listed := map[string]*Step{}
	for i := range v.run.Steps {
		listed[v.run.Steps[i].Step] = &v.run.Steps[i]
	}
	inputs, said := map[string]any{}, map[string][]any{}
	if v.look != nil {
		wanted := map[string]bool{}
		for _, path := range paths {
			wanted[path] = true
		}
		v.mu.Lock()
		inputs = v.look.Inputs(wanted)
		said = v.look.Said(inputs)
		v.mu.Unlock()
	}
	list := make([]Detail, 0, len(paths))
	works := map[string]*Work{}
	for _, path := range paths {
		i, begun := v.index[path]
		d := Detail{Input: inputs[path]}
		switch step := listed[path]; {
		case step != nil:
			d.Step = *step
		case begun:
			d.Step = v.stepOf(&v.states[i])
		default:
			return nil, notThere(v.run.RunID, path)
		}
		if begun {
			d.Output, d.Finish = v.states[i].Output, v.states[i].Finish
		}
		if d.Uses == "model" {
			d.Said = messagesOf(said[path])
		}
		if a := v.log.agents[path]; a != nil {
			work := workOf(path, &a.state)
			d.Work = &work
			addWorks(works, d.Work)
		}
		list = append(list, d)
	}
	if len(works) > 0 {
		v.log.times(works)
	}
	return list, nil
}

// messagesOf makes messages of what expressions see as them.
func messagesOf(said []any) (list []runtime.Message) {
	for _, one := range said {
		m, _ := one.(map[string]any)
		role, _ := m["role"].(string)
		text, _ := m["text"].(string)
		list = append(list, runtime.Message{Role: runtime.Role(role), Text: text})
	}
	return list
}

// addWorks adds the work of a loop, and of its children, by path.
func addWorks(works map[string]*Work, w *Work) {
	works[w.Path] = w
	for i := range w.Children {
		addWorks(works, &w.Children[i])
	}
}

// times fills in when the calls of loops began and ended.
func (r *journalLog) times(works map[string]*Work) {
	for _, e := range r.events {
		w := works[e.Step]
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
