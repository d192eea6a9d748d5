package recipe

import (
	"bytes"
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
	w.collect(a.Spec.get("instructions"))
}

// text returns the string under a key; "" when there is none.
func (v *Value) text(key string) string {
	if below := v.get(key); below != nil {
		text, _ := below.Scalar.(string)
		return text
	}
	return ""
}

// readAgent reads an agent from a Markdown file: front matter with the keys of an agent, and the
// instructions below it.
func readAgent(id, filename string, data []byte) (*walker, Agent) {
	w := &walker{recipe: &Recipe{}}
	start := diagnostics.Position{File: filename, Line: 1, Column: 1}
	a := Agent{ID: id, Pos: start, File: filename}
	front, body, ok := yamlnode.CutFrontMatter(data)
	if !ok {
		w.Warnf(start, diagnostics.CodeFrontMatter, "end the front matter with a line of ---", "the front matter has no end, so it is read as instructions")
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
		w.Errorf(given.Pos, diagnostics.CodeInvalidValue, "leave the key out", "the text below the front matter is the instructions already")
	} else if given == nil {
		a.Instructions = instructions
	}
	return w, a
}
