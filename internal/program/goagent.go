package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// goAgent begins the description of a recipe whose agent is written in Go. The digest of the agent follows.
const goAgent = "An agent written in Go: "

// CompileLoop compiles a recipe of one step, agent, that runs a loop. Its inputs are prompt and context, and its
// output is the agent's. archive keeps what compaction removes from conversations; nil: none.
func CompileLoop(l *agentloop.Loop, archive agentloop.Archive) (*Program, error) {
	return compileLoop(l, archive, Now)
}

func compileLoop(l *agentloop.Loop, archive agentloop.Archive, rules Rules) (*Program, error) {
	if err := l.Validate(); err != nil {
		return nil, ConfigError("agent.invalid", "%w", err)
	}
	spec := map[string]any{}
	if l.Model != "" {
		spec["model"] = l.Model
	}
	step := map[string]any{"uses": "agent", "with": map[string]any{"agent": spec,
		"prompt": "${{ inputs.prompt }}", "context": "${{ inputs.context }}"}}
	if l.Schema != nil {
		step["output"] = map[string]any{"schema": l.Schema}
	}
	text, err := flow(map[string]any{"apiVersion": "braise/v1", "name": "agent", "description": goAgent + l.Digest(),
		"inputs": map[string]any{"prompt": map[string]any{"type": "string"},
			"context": map[string]any{"type": "string", "default": ""}},
		"steps":  map[string]any{"agent": step},
		"output": "${{ steps.agent.output }}"})
	if err != nil {
		return nil, err
	}
	r, err := recipe.Parse(fmt.Sprintf("agent %s", l.Name), text)
	if err != nil {
		return nil, err
	}
	p, err := Compile(r, nil, nil)
	if err != nil {
		return nil, err
	}
	p.Archive, p.rules = archive, rules
	p.others.compile = func(rules Rules) (*Program, error) { return compileLoop(l, archive, rules) }
	p.Overlaps = overlaps(l, map[*agentloop.Loop]bool{})
	p.Calls[0].Agents.Defs[""] = &agentDef{Loop: *l}
	p.Calls[0].Agents.HandsOff = len(l.Handoffs) > 0
	return p, nil
}

// InGo reports whether the recipe has agents that are written in Go, so that it does not describe them.
func (p *Program) InGo() bool {
	return strings.HasPrefix(p.Recipe.Description, goAgent) || len(p.Recipe.AgentsInGo()) > 0
}

// flow writes YAML on one line.
func flow(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if err != nil {
		err = errors.Join(errors.New("the schema of the answer is not JSON"), err)
	}
	return b.Bytes(), err
}

// overlaps reports whether calls of a loop, or of one that it names, may overlap.
func overlaps(l *agentloop.Loop, seen map[*agentloop.Loop]bool) bool {
	if l == nil || seen[l] {
		return false
	}
	seen[l] = true
	several := l.ToolConcurrency > 1
	for _, d := range l.Others() {
		several = overlaps(d, seen) || several
	}
	return several
}

// outside are the agents in Go that a recipe may name.
type outside struct {
	inGo     map[string]*agentloop.Loop
	ran      map[string]string // the digests of those that it names, so far
	recorded map[string]string // the same, of a stored recipe
}

// agentsInGo adds to a set the agents in Go that its step may run: one that the step names, delegates, and all of them
// where an expression names one. It returns them with the tools that they may call.
func (s *stepCompiler) agentsInGo(set *AgentSet, src *recipe.Step) (list []recipe.Agent) {
	names, begins, any := s.recipe.Outside(src)
	for _, id := range value.SortedKeys(s.inGo) {
		if any && set.Defs[id] == nil {
			names = append(names, recipe.Name{Text: id, Pos: src.Uses.Pos})
		}
	}
	for _, n := range names {
		l := s.inGo[n.Text]
		if l == nil || set.Defs[n.Text] != nil {
			continue
		}
		set.Defs[n.Text] = &agentDef{Loop: *l}
		if f := src.With.Field("agent"); begins || f != nil && f.Value.Scalar == n.Text {
			set.IDs = append(set.IDs, n.Text)
		}
		s.useInGo(n, l)
		list = append(list, toolsInGo(l, s.recipe.ToolOf() != nil))
	}
	return list
}

// handsOff reports whether an agent that a step may begin with can hand off to another. Of a stored recipe's agents in
// Go that is not known.
func (c *compiler) handsOff(r *recipe.Recipe, s *recipe.Step) bool {
	names, begins, _ := r.Outside(s)
	for id, l := range c.inGo {
		f := s.With.Field("agent")
		named := f != nil && f.Value.Scalar == id &&
			slices.ContainsFunc(names, func(n recipe.Name) bool { return n.Text == id })
		if (begins || named) && (c.stored || len(l.Handoffs) > 0) {
			return true
		}
	}
	return r.HandsOff(s)
}

// useInGo notes that a step may run an agent in Go, and what that needs of a run's runtime.
func (s *stepCompiler) useInGo(n recipe.Name, l *agentloop.Loop) {
	if s.stored {
		s.ran[n.Text] = s.recorded[n.Text]
		return
	}
	s.ran[n.Text] = l.Digest()
	s.has.Overlaps = s.has.Overlaps || overlaps(l, map[*agentloop.Loop]bool{})
	at := func(string, int) diagnostics.Position { return n.Pos }
	seen := map[*agentloop.Loop]bool{}
	var need func(l *agentloop.Loop)
	need = func(l *agentloop.Loop) {
		if seen[l] {
			return
		}
		seen[l] = true
		plain := *l
		plain.Tools = slices.DeleteFunc(l.Listed(), func(name string) bool { return hasTool(l.Own, name) })
		s.needOf(&plain, l.Memory.Thread != "", at)
		for _, other := range l.Others() {
			need(other)
		}
	}
	need(l)
}

// toolsInGo is an agent in Go as far as it says which tools of the recipe it may call. In the steps of such a tool
// there are none: a tool must not call itself.
func toolsInGo(l *agentloop.Loop, inTool bool) recipe.Agent {
	tools := &recipe.Value{IsList: true}
	switch {
	case inTool:
	case l.HasAllTools():
		tools = &recipe.Value{Scalar: recipe.AllTools}
	default:
		for _, name := range l.Listed() {
			tools.List = append(tools.List, &recipe.Value{Scalar: name})
		}
	}
	spec := &recipe.Value{IsMap: true, Map: []recipe.Field{{Key: "tools", Value: tools}}}
	return recipe.Agent{ID: l.Name, Spec: spec}
}

func hasTool(own []runtime.Tool, name string) bool {
	return slices.ContainsFunc(own, func(t runtime.Tool) bool { return t.Spec().Name == name })
}

// withAgentsInGo returns the recipe with the agents in Go that it may run: those count for its digest.
func (c *compiler) withAgentsInGo(r *recipe.Recipe) (*recipe.Recipe, error) {
	if maps.Equal(c.ran, r.AgentsInGo()) {
		return r, nil
	}
	return r.WithAgentsInGo(c.ran)
}
