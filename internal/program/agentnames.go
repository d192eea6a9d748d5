package program

import (
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// ToolsToOthers returns the names of the tools by which an agent delegates and hands off, in the order of the agents.
func ToolsToOthers(def *agentDef) (names []string) {
	for _, id := range def.delegates {
		names = append(names, agentloop.DelegatePrefix+nameOfOther(id))
	}
	for _, id := range def.handoffs {
		names = append(names, agentloop.HandoffPrefix+nameOfOther(id))
	}
	for _, name := range value.SortedKeys(def.Loop.Delegates) { // of one in Go
		names = append(names, agentloop.DelegatePrefix+name)
	}
	for _, name := range value.SortedKeys(def.Loop.Handoffs) {
		names = append(names, agentloop.HandoffPrefix+name)
	}
	return names
}

// Unrestricted reports whether one of the agents may call all tools that are allowed.
func (a *AgentSet) Unrestricted() bool {
	for _, def := range a.Defs {
		if def.Loop.HasAllTools() {
			return true
		}
	}
	return false
}

// agentArguments are the parts of with that are evaluated with the step: not an agent that is written in place, but for
// instructions with expressions, nor one that is named.
func agentArguments(with *recipe.Value) *recipe.Value {
	if with == nil {
		return nil
	}
	parts := *with
	parts.Map = nil
	for _, f := range with.Map {
		if f.Key != "agent" || !f.Value.IsMap && f.Value.HasExpression() {
			parts.Map = append(parts.Map, f)
		} else if own := f.Value.Field("instructions"); own != nil && own.Value.HasExpression() {
			parts.Map = append(parts.Map, *own)
		}
	}
	return &parts
}

// withoutThem is an agent that is written in place without what agentArguments takes from it.
func withoutThem(a recipe.Agent) *recipe.Agent {
	if f := a.Spec.Field("instructions"); f != nil && f.Value.HasExpression() {
		spec := *a.Spec
		spec.Map = slices.DeleteFunc(slices.Clone(spec.Map),
			func(f recipe.Field) bool { return f.Key == "instructions" })
		a.Spec, a.Instructions = &spec, ""
	}
	return &a
}

// listedTools returns the tools that an agent lists. Without the key it has none; in a run of an earlier version it has
// all that are allowed.
func (c *compiler) listedTools(a *recipe.Agent) []string {
	f := a.Spec.Field("tools")
	switch {
	case f == nil && !c.rules.Listed:
		return agentloop.AllTools
	case f == nil:
		for _, key := range []string{"approval", "deny", "max_calls", "tool_concurrency"} {
			if of := a.Spec.Field(key); of != nil && !c.broken {
				c.errorf(of.Pos, diagnostics.CodeMissingKey, "list them, or write tools: all for all that are allowed",
					"agent %q has %s, and no tools", a.ID, key)
				c.lenient()
				break
			}
		}
		return nil
	case f.Value.Scalar == recipe.AllTools:
		return agentloop.AllTools
	}
	names := wordsOf(f.Value.Decoded())
	for i, name := range names {
		if name == agentloop.AnyTool {
			c.errorf(f.Value.List[i].Pos, diagnostics.CodeUnknownTool, "write tools: all for all that are allowed",
				"%q is not a tool", name)
			names[i] = ""
			c.lenient()
		}
	}
	return names
}

// lenient makes the last diagnostic a warning in a recipe that a run began with.
func (c *compiler) lenient() {
	if c.stored {
		c.list[len(c.list)-1].Level = diagnostics.Warn
	}
}

// checkNames checks the names under approval and deny, as far as they are known: an agent that lists its tools has no
// others. In a recipe that a run began with, what is wrong is a warning, and calls that no other key decides pause.
func (c *compiler) checkNames(a *recipe.Agent, def *agentDef) {
	for _, key := range []string{"approval", "deny"} {
		f := a.Spec.Field(key)
		if f == nil {
			continue
		}
		for _, entry := range f.Value.Map {
			c.noExpression(entry.Key, entry.Pos, key)
		}
		for _, entry := range f.Value.List {
			text, _ := entry.Scalar.(string)
			c.noExpression(text, entry.Pos, key)
		}
	}
	if f := a.Spec.Field("compact"); f != nil {
		for _, part := range f.Value.Map {
			text, _ := part.Value.Scalar.(string)
			c.noExpression(text, part.Value.Pos, "compact."+part.Key)
		}
	}
	if c.broken {
		return
	}
	known := slices.Concat(def.Loop.Listed(), ToolsToOthers(def))
	c.checkToolChoice(a, &def.Loop, known)
	if a.Spec.Field("tools") == nil && c.rules.Listed { // said by listedTools
		return
	}
	approval, deny := def.Loop.Unmatched(known)
	if def.Loop.HasAllTools() { // the rest is checked when a run begins, and what is denied need not be there
		program := func(name string) bool { return strings.HasPrefix(name, agentloop.ExecTool+":") }
		approval = slices.DeleteFunc(approval, func(name string) bool { return !program(name) })
		deny = slices.DeleteFunc(deny, func(name string) bool {
			return !program(name) && !strings.HasPrefix(agentloop.SuggestTool(name, known), "did you mean")
		})
	}
	at := func(key, name string) diagnostics.Position {
		v := a.Spec.Field(key).Value
		for _, entry := range v.Map {
			if entry.Key == name {
				return entry.Pos
			}
		}
		for _, entry := range v.List {
			if text, _ := entry.Scalar.(string); strings.TrimSpace(text) == name {
				return entry.Pos
			}
		}
		return v.Pos
	}
	for key, names := range map[string][]string{"approval": approval, "deny": deny} {
		for _, name := range names {
			if value.HoldsExpression(name) {
				continue // said above
			}
			c.errorf(at(key, name), diagnostics.CodeUnknownTool, agentloop.SuggestTool(name, known),
				"%s names %q, which is not a tool of the agent", key, name)
			c.lenient()
		}
	}
}

// noExpression refuses an expression where none is taken.
func (c *compiler) noExpression(text string, pos diagnostics.Position, key string) {
	if !value.HoldsExpression(text) {
		return
	}
	c.errorf(pos, diagnostics.CodeInvalidValue, "", "%q takes no expression", key)
	c.lenient()
}

// checkOthers reports agents that are not there, and those that would share a tool.
func (c *compiler) checkOthers(r *recipe.Recipe, a *recipe.Agent, def *agentDef) {
	tools := map[string]string{} // the agent of each
	check := func(what, prefix string, named recipe.Name) {
		tool := prefix + nameOfOther(named.Text)
		if other, taken := tools[tool]; taken && other != named.Text {
			c.errorf(named.Pos, diagnostics.CodeDuplicateName, "", "%s %q and %q would both be the tool %q",
				what, other, named.Text, tool)
		}
		tools[tool] = named.Text
		if !c.broken && c.inGo[named.Text] == nil &&
			!slices.ContainsFunc(r.Agents, func(a recipe.Agent) bool { return a.ID == named.Text }) {
			c.errorf(named.Pos, diagnostics.CodeUnknownName, c.suggestAgent(r, named.Text),
				"there is no agent %q", named.Text)
		}
	}
	for _, d := range a.Delegates() {
		if def.delegates != nil {
			check("delegates", agentloop.DelegatePrefix, d)
		}
	}
	for i, h := range a.Handoffs() {
		switch {
		case h.Text == a.ID:
			c.errorf(h.Pos, diagnostics.CodeInvalidValue, "to continue, an agent just calls its tools or answers",
				"agent %q hands off to itself", a.ID)
		case slices.Contains(def.handoffs[:i], h.Text):
			c.errorf(h.Pos, diagnostics.CodeDuplicateName, "", "%q appears twice in handoffs", h.Text)
		default:
			check("handoffs", agentloop.HandoffPrefix, h)
		}
	}
	if f := a.Spec.Field("max_handoffs"); f != nil && len(def.handoffs) == 0 {
		c.errorf(f.Value.Pos, diagnostics.CodeInvalidValue, "list agents under handoffs, or leave it out",
			"max_handoffs of agent %q means nothing without handoffs", a.ID)
	}
}

func textsOf(names []recipe.Name) (texts []string) {
	for _, n := range names {
		texts = append(texts, n.Text)
	}
	return texts
}

// suggestAgent says which agent of a recipe, or in Go, an unknown one may stand for.
func (c *compiler) suggestAgent(r *recipe.Recipe, id string) string {
	return c.suggest.hint(id, func() []string {
		ids := slices.Collect(maps.Keys(c.inGo))
		for _, a := range r.Agents {
			ids = append(ids, a.ID)
		}
		return value.Names(ids)
	})
}

// instructionsOf compiles the instructions of an agent. The text of a file of its own is taken as it is.
func (c *compiler) instructionsOf(def *agentDef, a *recipe.Agent, names *expr.Scope) {
	names = textNames("instructions", names)
	if f := a.Spec.Field("instructions"); f != nil {
		def.instructions = c.lower(f.Value, names)
		return
	}
	def.instructions = expr.Literal(a.Instructions)
	for _, d := range names.Suspects(source(a.Instructions, a.Pos, -1, 0)) {
		d.Hint = "the text of an agent's file is taken as it is: an agent in the recipe takes ${{ … }}"
		c.list = append(c.list, d)
	}
}

// checkToolChoice checks the tool that an agent must call, as checkNames does for approval.
func (c *compiler) checkToolChoice(a *recipe.Agent, l *agentloop.Loop, known []string) {
	choice := l.Options.ToolChoice
	words := []string{"", runtime.ToolsAuto, runtime.ToolsNone, runtime.ToolsRequired}
	if l.HasAllTools() || agentloop.Reserved(choice) || slices.Contains(slices.Concat(words, known), choice) {
		return
	}
	c.errorf(a.Spec.Field("tool_choice").Value.Pos, diagnostics.CodeUnknownTool, agentloop.SuggestTool(choice, known),
		"tool_choice names %q, which is not a tool of the agent", choice)
	c.lenient()
}
