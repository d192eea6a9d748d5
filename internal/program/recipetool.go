package program

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// Tool is a tool that a recipe defines, compiled.
type Tool struct {
	agents.RecipeTool
	Body  machine.Body
	Steps []PlanStep // what it does, ids relative to it
	src   *recipe.Tool
	file  *file
}

// tool compiles a tool of a recipe, once; nil: it was not read.
func (c *compiler) tool(src *recipe.Tool) *Tool {
	if t, done := c.tools[src]; done {
		return t
	}
	c.tools[src] = nil
	if src.Body == nil || src.Body.Recipe == nil {
		if src.Body != nil && !c.broken {
			c.errorf(src.Body.Ref.Pos, diagnostics.CodeFile, "read the recipe with recipe.Load",
				"sub-recipe %q was not loaded", src.Body.Ref.Text)
		}
		return nil
	}
	around := inputsAround(src.Body.Recipe)
	for _, own := range src.Body.Recipe.Inputs {
		if slices.ContainsFunc(around, func(in recipe.Input) bool { return in.Name == own.Name }) {
			c.errorf(own.Pos, diagnostics.CodeDuplicateName, "choose another name: its steps read both",
				"tool %q has an input %q, and so has the recipe", src.Name, own.Name)
			c.lenient()
		}
	}
	sub := c.file(src.Body.Recipe)
	t := &Tool{src: src, file: sub, Steps: sub.steps}
	t.Name, t.Description = src.Name, cmp.Or(src.Description, src.Body.Recipe.Description)
	t.Effect, t.Parameters = runtime.Effect(src.Effect), sub.inputs.parameters()
	t.Body = machine.Body{Graph: sub.graph, Around: sub.around(), Inputs: func(given any) (map[string]any, error) {
		args, _ := given.(map[string]any)
		inputs, err := sub.inputs.Check(args)
		if err != nil {
			return nil, fmt.Errorf("tool %q: %w", src.Name, err)
		}
		return inputs, nil
	}}
	c.tools[src] = t
	return t
}

// inputsAround are the inputs of the recipe that defines the tool whose steps the recipe is.
func inputsAround(r *recipe.Recipe) []recipe.Input {
	if r.ToolOf() == nil {
		return nil
	}
	return r.ToolOf().Inputs
}

// around returns their names.
func (f *file) around() (names []string) {
	for _, in := range inputsAround(f.recipe) {
		names = append(names, in.Name)
	}
	return names
}

// parameters is the JSON Schema of the inputs as arguments of a tool.
func (in *InputSet) parameters() json.RawMessage {
	properties, required := map[string]any{}, []any{}
	for _, d := range in.List {
		one := map[string]any{}
		for key, v := range d.SchemaJSON {
			one[key] = v
		}
		if d.HasDefault {
			one["default"] = d.Default
		} else {
			required = append(required, d.Name)
		}
		properties[d.Name] = one
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	text, _ := value.JSON(s) // it was read from JSON
	return text
}

// ownTools returns the tools that were compiled, by position, with the calls that their steps may make.
func (c *compiler) ownTools() (list []*Tool) {
	for _, t := range c.tools {
		if t != nil {
			t.Calls = t.file.innerCalls(map[*file]bool{})
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *Tool) int { return a.src.Pos.Compare(b.src.Pos) })
	return list
}

// innerCalls are the calls of tools that the steps of a file may make, those of the files that they run included.
func (f *file) innerCalls(seen map[*file]bool) (list []agents.Inner) {
	if seen[f] {
		return nil
	}
	seen[f] = true
	for _, call := range f.calls {
		switch {
		case call.Kind == ToolCall:
			list = append(list, agents.Inner{Tool: call.Name, Args: argumentsOf(call)})
		case call.Agents != nil:
			list = append(list, call.Agents.innerCalls()...)
		}
	}
	for _, sub := range f.files {
		list = append(list, sub.innerCalls(seen)...)
	}
	return list
}

// innerCalls are the calls that the agents of a step may make; those of tools of their recipe are in its file.
func (a *AgentSet) innerCalls() (list []agents.Inner) {
	for _, id := range value.SortedKeys(a.Defs) {
		def := a.Defs[id]
		if def.Loop.HasAllTools() {
			list = append(list, agents.Inner{Tool: "*", ByAgent: true})
		}
		for _, name := range def.Loop.Listed() {
			if name != "" && !agentloop.Reserved(name) && a.Tools[name] == nil {
				list = append(list, agents.Inner{Tool: name, ByAgent: true})
			}
		}
	}
	return list
}

// argumentsOf are the arguments of a call as written, without the words of a program if an expression gives some; nil
// where one gives all arguments.
func argumentsOf(call *Call) json.RawMessage {
	if call.With != nil && !call.With.IsMap {
		return nil
	}
	args := argumentsAsWritten(call.With)
	if argv := call.With.Field("argv"); argv != nil && argv.Value.HasExpression() {
		m, _ := args.(map[string]any)
		delete(m, "argv")
	}
	text, err := value.JSON(args)
	if err != nil {
		return nil
	}
	return text
}

// FitsTools is the error of a run whose host has a tool by the name of one of the recipe's, or tools that can do more
// to the world than the effect that the recipe says; nil: it has not.
func (p *Program) FitsTools(specs []runtime.ToolSpec) error {
	if len(p.OwnTools) == 0 {
		return nil
	}
	byName := make(map[string]runtime.ToolSpec, len(specs))
	for _, s := range specs {
		byName[s.Name] = s
	}
	for _, d := range p.weakEffects(byName) {
		return ConfigError(d.Code, "%s: %s%s", d.Position, d.Message, HintLine(d.Hint))
	}
	return nil
}

// weakEffects reports the tools of the recipe whose steps can do more to the world than it says.
func (p *Program) weakEffects(specs map[string]runtime.ToolSpec) (list diagnostics.List) {
	of := func(name string) *runtime.ToolSpec {
		if s, ok := specs[name]; ok {
			return &s
		}
		return nil
	}
	for _, t := range p.OwnTools {
		if _, taken := specs[t.Name]; taken && recipe.ReservedTool(t.Name) == "" {
			list = append(list, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe,
				Code: diagnostics.CodeDuplicateName, Position: t.src.Pos, Hint: "choose another name",
				Message: fmt.Sprintf("the host has a tool %q already", t.Name)})
		}
		known := !slices.ContainsFunc(t.Calls,
			func(c agents.Inner) bool { return c.Tool != "*" && of(c.Tool) == nil })
		if strongest := t.Strongest(of); t.Effect != "" && known && agents.Stronger(t.Effect, strongest) != t.Effect {
			list = append(list, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe,
				Code: diagnostics.CodeInvalidValue, Position: t.src.EffectPos,
				Hint: fmt.Sprintf("write effect: %s, or leave it out", strongest),
				Message: fmt.Sprintf("effect of tool %q is %s, and its steps can have the effect %s", t.Name, t.Effect,
					strongest)})
		}
	}
	return list
}

// toolsOf finds the tools of the recipe that the agents of a step may call.
func (s *stepCompiler) toolsOf(set *AgentSet, src *recipe.Step, inGo []recipe.Agent) {
	all := append(slices.Clip(s.recipe.AgentsOf(src)), inGo...)
	for _, name := range s.recipe.ToolsOf(all, src.Uses.Pos, !s.rules.Listed) {
		t := s.tool(s.recipe.Tool(name.Text))
		if t == nil {
			continue
		}
		if set.Tools == nil {
			set.Tools = map[string]*Tool{}
		}
		set.Tools[t.Name] = t
		s.in.files = append(s.in.files, t.file)
	}
}

// Own describes the tools of the recipe that the agents may call, by name.
func (a *AgentSet) Own() (list []agents.RecipeTool) {
	for _, name := range value.SortedKeys(a.Tools) {
		list = append(list, a.Tools[name].RecipeTool)
	}
	return list
}

// InAgent returns the step of a tool of the recipe that an agent has called, by its path without numbers:
// ask/hotel.book/pay.
func (p *Program) InAgent(path string) (PlanStep, bool) {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		for _, t := range p.OwnTools {
			if t.Name != part || i == 0 {
				continue
			}
			if s := stepAt(t.Steps, strings.Join(parts[i+1:], "/")); s != nil {
				return Prefixed([]PlanStep{*s}, strings.Join(parts[:i+1], "/")+"/")[0], true
			}
		}
	}
	return PlanStep{}, false
}

// stepAt finds a step, or one in a body, by its id; nil: there is none.
func stepAt(steps []PlanStep, id string) *PlanStep {
	for i := range steps {
		if steps[i].ID == id {
			return &steps[i]
		}
		if s := stepAt(steps[i].Body, id); s != nil {
			return s
		}
	}
	return nil
}
