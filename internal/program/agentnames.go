package program

import (
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
)

// DelegateTools returns the names of the tools by which an agent delegates, in the order of its delegates.
func DelegateTools(def *agentDef) []string {
	names := make([]string, len(def.delegates))
	for i, id := range def.delegates {
		names[i] = "delegate_" + delegateName(id)
	}
	return names
}

// Unrestricted reports whether one of the agents does not list its tools.
func (a *AgentSet) Unrestricted() bool {
	for _, def := range a.Defs {
		if def.Loop.Tools == nil {
			return true
		}
	}
	return false
}

// checkNames checks the names under approval and deny, as far as they are known: an agent that lists its tools has no
// others. In a recipe that a run began with, what is wrong is a warning, and calls that no other key decides pause.
func (c *compiler) checkNames(a *recipe.Agent, def *agentDef) {
	for _, key := range []string{"tools", "approval", "deny"} {
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
	known := slices.Concat(def.Loop.Tools, DelegateTools(def))
	approval, deny := def.Loop.Unmatched(known)
	if def.Loop.Tools == nil { // the rest is checked when a run begins, and what is denied need not be there
		approval = nil
		deny = slices.DeleteFunc(deny, func(name string) bool {
			return !strings.HasPrefix(agentloop.SuggestTool(name, known), "did you mean")
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
			if c.stored {
				c.list[len(c.list)-1].Level = diagnostics.Warn
			}
		}
	}
}

// noExpression refuses an expression where none is taken.
func (c *compiler) noExpression(text string, pos diagnostics.Position, key string) {
	if !value.HoldsExpression(text) {
		return
	}
	c.errorf(pos, diagnostics.CodeInvalidValue, "", "%q takes no expression", key)
	if c.stored {
		c.list[len(c.list)-1].Level = diagnostics.Warn
	}
}
