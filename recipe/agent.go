package recipe

import (
	"bytes"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// agents reads the mapping of ids to agents.
func (w *walker) agents(n *yamlnode.Node) []Agent {
	var agents []Agent
	for _, f := range w.Map(n) {
		a := Agent{ID: f.Key, Pos: f.Pos}
		w.agent(&a, f.Value)
		agents = append(agents, a)
	}
	return agents
}

// agent checks the keys of one agent and fills it in.
func (w *walker) agent(a *Agent, n *yamlnode.Node) {
	w.arguments(n, agentObject, false)
	a.Spec = w.value(n)
	a.Model = a.Spec.text("model")
	a.Description = a.Spec.text("description")
	a.Instructions = a.Spec.text("instructions")
	w.collect(a.Spec.get("instructions"), a.Spec.get("compact").get("prompt"))
}

// text returns the string under a key; "" when there is none.
func (v *Value) text(key string) string {
	if below := v.get(key); below != nil {
		text, _ := below.Scalar.(string)
		return text
	}
	return ""
}

// AgentsOf returns the agents that a step of the kind agent may run: the one that the step names, or that is written in
// it, and those that get tasks or the conversation from it; all of the file where an expression names it or nothing
// does. It is nil when there is none of that id. One that is written in the step has its id.
func (r *Recipe) AgentsOf(s *Step) []Agent {
	asked := s.With.get("agent")
	known := make(map[string]int, len(r.Agents))
	for i, a := range r.Agents {
		known[a.ID] = i
	}
	var list []Agent
	taken := make([]bool, len(r.Agents))
	var add func(a Agent)
	name := func(id string) {
		if i, ok := known[id]; ok && !taken[i] {
			taken[i] = true
			add(r.Agents[i])
		}
	}
	add = func(a Agent) {
		list = append(list, a)
		for _, id := range a.Others() {
			name(id.Text)
		}
		for i := 0; a.delegatesToAny() && i < len(r.Agents); i++ {
			name(r.Agents[i].ID)
		}
	}
	switch {
	case asked != nil && asked.IsMap:
		add(Agent{ID: s.ID, Pos: asked.Pos, Model: asked.text("model"), Description: asked.text("description"),
			Instructions: asked.text("instructions"), Spec: asked})
	case asked == nil || asked.HasExpression():
		return r.Agents
	default:
		id, _ := asked.Literal().(string)
		name(id)
	}
	return list
}

// HandsOff reports whether an agent that the step may begin with can hand off to another.
func (r *Recipe) HandsOff(s *Step) bool {
	begin := r.AgentsOf(s)
	if asked := s.With.get("agent"); asked != nil && (asked.IsMap || !asked.HasExpression()) {
		begin = begin[:min(1, len(begin))]
	}
	return slices.ContainsFunc(begin, func(a Agent) bool { return len(a.Handoffs()) > 0 })
}

// Delegates are the ids of the agents that a may hand tasks to; none where an expression gives them.
func (a *Agent) Delegates() []Name {
	if a.delegatesToAny() {
		return nil
	}
	return a.names("delegates")
}

// delegatesToAny reports whether an expression gives the delegates, so that they may be any agents.
func (a *Agent) delegatesToAny() bool { return a.Spec.get("delegates").HasExpression() }

// Handoffs are the ids of the agents that may take over the conversation of a.
func (a *Agent) Handoffs() []Name { return a.names("handoffs") }

// Others are the ids of all agents that a names.
func (a *Agent) Others() []Name { return append(a.Delegates(), a.Handoffs()...) }

func (a *Agent) names(key string) (list []Name) {
	if v := a.Spec.get(key); v != nil {
		for _, e := range v.List {
			id, _ := e.Scalar.(string)
			list = append(list, Name{Text: id, Pos: e.Pos})
		}
	}
	return list
}

// readAgent reads an agent from a Markdown file: front matter with the keys of an agent, and the
// instructions below it.
func readAgent(id, filename string, data []byte) (*walker, Agent) {
	w := &walker{recipe: &Recipe{}}
	start := diagnostics.Position{File: filename, Line: 1, Column: 1}
	a := Agent{ID: id, Pos: start, File: filename}
	front, body, ok := yamlnode.CutFrontMatter(data)
	if !ok {
		w.Warnf(start, diagnostics.CodeFrontMatter, "end the front matter with a line of ---",
			"the front matter has no end, so it is read as instructions")
	}
	if len(bytes.TrimSpace(front)) > 0 {
		root, found := yamlnode.Parse(filename, front, nil)
		w.Diagnostics = append(w.Diagnostics, found...)
		if root != nil {
			w.agent(&a, root)
		}
	}
	instructions := strings.TrimSpace(string(body))
	if given := a.Spec.get("instructions"); given != nil && instructions != "" {
		w.Errorf(given.Pos, diagnostics.CodeInvalidValue, "leave the key out",
			"the text below the front matter is the instructions already")
	} else if given == nil {
		a.Instructions = instructions
	}
	return w, a
}
