package program

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
)

// choice is a key of an agent whose value an expression gives: model, tools, skills or delegates. It is evaluated when
// the agent begins, and again when the run is resumed, with the same result: what it reads is in the journal.
type choice struct {
	key   string
	who   string         // the agent's id
	value *expr.Template // reads inputs, consts and run only
	names []string       // that it may give, as far as known; sorted
	all   bool           // it gives no others
	pos   diagnostics.Position
}

// choicesOf compiles the keys of an agent of r whose values expressions give.
func (c *compiler) choicesOf(r *recipe.Recipe, def *agentDef, a *recipe.Agent, names *expr.Scope) {
	l := &def.Loop
	for _, key := range []string{"model", "tools", "skills", "delegates"} {
		f := a.Spec.Field(key)
		if f == nil || !f.Value.HasExpression() {
			continue
		}
		found := len(c.list)
		made := choice{key: key, who: a.ID, value: c.lower(f.Value, names), pos: f.Value.Pos}
		made.names, made.all = made.value.Names()
		made.names = value.Names(made.names)
		is, fits := made.value.Gives(key != "model")
		if fits && made.value.IsLiteral() {
			_, is = made.read(made.value.Literal())
			fits = is == ""
		}
		if !fits && !c.list[found:].HasErrors() {
			c.errorf(made.pos, diagnostics.CodeExprType, made.hint(), "%v", made.wrong(is))
		}
		if c.stored && c.list[found:].HasErrors() { // an earlier version took it for a name
			for i := range c.list[found:] {
				c.list[found+i].Level = diagnostics.Warn
			}
			continue
		}
		def.choices = append(def.choices, made)
		switch key {
		case "model":
			l.Model = ""
		case "tools":
			l.Tools = agentloop.AllTools // any
			if made.all {
				l.Tools = made.names
			}
		case "skills":
			l.Skills = nil
		case "delegates":
			def.delegates = c.delegatesOf(r, &made)
		}
	}
}

// namesOfAgents are what the expressions of the step's agents read. What only the step reads has a hint.
func (s *stepCompiler) namesOfAgents(inner *expr.Scope) expr.Scope {
	const hint = "an agent reads inputs, consts and run: let a sub-recipe with an input do the step"
	hints := map[string]string{}
	for ; inner != nil; inner = inner.Outer {
		for _, v := range inner.Vars {
			hints[v.Name] = hint
		}
	}
	return expr.Scope{Inputs: s.names.Inputs, Consts: s.names.Consts, Stored: s.stored, Hints: hints}
}

// untilVars are the names that an agent's until reads in addition to inputs, consts and run.
func (c *compiler) untilVars() []expr.Var {
	text := map[string]any{"type": "string"}
	whole := map[string]any{"type": "integer"}
	maybe := map[string]any{"type": []any{"string", "null"}}
	object := func(members map[string]any) map[string]any {
		return map[string]any{"type": "object", "additionalProperties": false, "properties": members}
	}
	var vars []expr.Var
	for i, v := range []struct {
		name   string
		schema map[string]any
	}{
		{"steps_done", whole}, {"text", text},
		{"calls", map[string]any{"type": "array", "items": object(map[string]any{
			"tool": text, "arguments": true, "result": maybe, "error": maybe})}},
		{"usage", object(map[string]any{"input_tokens": whole, "output_tokens": whole})},
	} {
		vars = append(vars, expr.Var{Name: v.name, Index: i, Type: expr.TypeOf(v.schema, c.stored)})
	}
	return vars
}

// needOfChoice notes what is known of a choice beside names: a loader of skills, and that there may be other names. All
// agents are known.
func (s *stepCompiler) needOfChoice(c *choice) {
	if c.key == "skills" {
		s.need(usePort, "skills", c.pos, s.path())
	}
	if !c.all && c.key != "delegates" {
		s.need(useOpen, strings.TrimSuffix(c.key, "s")+"s", c.pos, s.path())
	}
}

// choice returns the choice of that key; nil: there is none.
func (d *agentDef) choice(key string) *choice {
	for i := range d.choices {
		if d.choices[i].key == key {
			return &d.choices[i]
		}
	}
	return nil
}

// ChoosesTools reports whether an expression gives the agent's tools.
func (d *agentDef) ChoosesTools() bool { return d.choice("tools") != nil }

// Brings reports whether skills may bring the agent tools.
func (d *agentDef) Brings() bool { return len(d.Loop.Skills) > 0 || d.choice("skills") != nil }

// mayBe is the agent with all tools and skills that it may have, and the models that it may ask, as far as known.
func (d *agentDef) mayBe() (l agentloop.Loop, models []string) {
	l = d.Loop
	if l.Model != "" {
		models = []string{l.Model}
	}
	for i := range d.choices {
		switch c := &d.choices[i]; c.key {
		case "model":
			models = c.names
		case "tools":
			l.Tools = c.names
		case "skills":
			l.Skills = c.names
		}
	}
	return l, models
}

// MayBe is the agent with all tools and skills that it may have, as far as known.
func (d *agentDef) MayBe() agentloop.Loop {
	l, _ := d.mayBe()
	return l
}

// delegatesOf are the agents that a choice of delegates may give: all, where that is not known.
func (c *compiler) delegatesOf(r *recipe.Recipe, made *choice) []string {
	ids := slices.Collect(maps.Keys(c.inGo))
	for _, a := range r.Agents {
		ids = append(ids, a.ID)
	}
	for _, name := range made.names {
		if !slices.Contains(ids, name) && !c.broken {
			c.errorf(made.pos, diagnostics.CodeUnknownName, c.suggestAgent(r, name), "there is no agent %q", name)
		}
	}
	if made.all {
		return made.names
	}
	return value.Names(ids)
}

// choose evaluates the choices of an agent that begins in env. It returns the ids of the agent's delegates.
func (d *agentDef) choose(l *agentloop.Loop, env *agentEnv) (delegates []string, err error) {
	delegates = d.delegates
	for i := range d.choices {
		c := &d.choices[i]
		if c.key == "delegates" && d.delegates == nil { // it has none
			continue
		}
		v, err := c.value.Eval(env)
		if err != nil {
			return nil, err
		}
		names, is := c.read(v)
		if is != "" {
			return nil, ConfigError("agent.arguments", "%s: %w%s", c.pos, c.wrong(is), HintLine(c.hint()))
		}
		switch c.key {
		case "model":
			l.Model = names[0]
		case "tools":
			l.Tools, l.NeedsTools = names, true
		case "skills":
			l.Skills = names
		case "delegates":
			if err := c.delegate(l, names, d.delegates); err != nil {
				return nil, err
			}
			delegates = names
		}
	}
	return delegates, nil
}

// delegate checks the ids of chosen delegates, and takes the approvals of the others from the loop.
func (c *choice) delegate(l *agentloop.Loop, ids, known []string) error {
	tools := map[string]string{} // the agent of each
	for _, id := range ids {
		tool := agentloop.DelegatePrefix + nameOfOther(id)
		if !slices.Contains(known, id) {
			return ConfigError(diagnostics.CodeUnknownAgent, "%s: %s of agent %q: there is no agent %q%s",
				c.pos, c.key, c.who, id, HintLine(diagnostics.DidYouMean(id, known)))
		}
		if other, taken := tools[tool]; taken {
			return ConfigError("agent.arguments", "%s: %s %q and %q of agent %q would both be the tool %q",
				c.pos, c.key, other, id, c.who, tool)
		}
		tools[tool] = id
	}
	l.Approval = maps.Clone(l.Approval)
	for _, id := range known {
		if tool := agentloop.DelegatePrefix + nameOfOther(id); tools[tool] == "" {
			delete(l.Approval, tool)
		}
	}
	return nil
}

// read reads the names in what the expression gave. is says what that is instead; "": it is good.
func (c *choice) read(v any) (names []string, is string) {
	text, isText := v.(string)
	list, isList := v.([]any)
	switch {
	case c.key == "model" && strings.TrimSpace(text) != "":
		return []string{strings.TrimSpace(text)}, ""
	case c.key == "model" && isText:
		return nil, "an empty string"
	case c.key == "model" || !isList:
		return nil, value.TypeName(v)
	}
	for _, e := range list {
		name, ok := e.(string)
		if !ok {
			return nil, "a list with " + value.TypeName(e)
		}
		names = append(names, name)
	}
	names = value.Names(names)
	if c.key == "tools" && slices.Contains(names, agentloop.AnyTool) {
		return nil, `a list with "*"`
	}
	return names, ""
}

// wrong is the error of a value that is something else than it must be.
func (c *choice) wrong(is string) error {
	what := "a list of names"
	if c.key == "model" {
		what = "the name of a model"
	}
	return fmt.Errorf("%s of agent %q must be %s, not %s", c.key, c.who, what, is)
}

// hint shows what the value may be.
func (c *choice) hint() string {
	if c.key == "model" {
		return `such as '${{ inputs.hard ? "large" : "fast" }}'`
	}
	if c.key == "skills" {
		return `such as '${{ inputs.legal ? ["refunds", "law"] : ["refunds"] }}'; none are []`
	}
	if c.key == "delegates" {
		return `such as '${{ inputs.legal ? ["critic", "lawyer"] : ["critic"] }}'; none are []`
	}
	return `such as '${{ inputs.write ? ["file.read", "file.write"] : ["file.read"] }}'; none are []`
}
