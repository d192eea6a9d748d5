package program

import (
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
)

// shape is a JSON Schema of what is known of a value before the run; nil or empty: nothing.
type shape = map[string]any

// closed describes an object that has these members, or some of them, and no others.
func closed(members shape) shape {
	return shape{"type": "object", "properties": members, "additionalProperties": false}
}

func textShape() shape { return shape{"type": "string"} }

func listOf(items shape) shape { return shape{"type": "array", "items": items} }

// toolOutputs are those of the built-in tools, as docs/recipe-format.md has them.
var toolOutputs = map[string]shape{
	"exec.run": closed(shape{"code": shape{"type": "integer"}, "stdout": textShape(), "stderr": textShape()}),
}

// outputOf describes the output of a step that succeeds.
func (c *compiler) outputOf(s *recipe.Step) shape {
	if s.OnError.Set != nil { // its output is that value, or this
		return nil
	}
	out := c.outputOfOne(s)
	switch f := s.Foreach; {
	case f == nil:
		return out
	case f.Collect:
		out = closed(shape{"status": textShape(), "output": out, "error": shape{}})
	}
	return listOf(out)
}

// outputOfOne is outputOf for one item: what the kind always gives, else what output.schema asks for.
func (c *compiler) outputOfOne(s *recipe.Step) shape {
	var asked shape
	if s.Output != nil {
		asked = s.Output.SchemaJSON
	}
	var out shape
	switch uses := s.Uses.Text; {
	case len(asked) > 0 && (uses == "model" || uses == "agent"):
		return asked
	case uses == "model":
		out = closed(shape{"text": textShape()})
	case uses == "agent":
		out = outputOfAgent(s, c.handsOff(c.in.recipe, s))
	case uses == "set":
		out = fieldsOf(s.With)
	case s.Body != nil:
		out = c.outputOfBody(s.Body)
	case uses == "say":
		out = closed(shape{"text": textShape(), "value": shape{}})
	case s.Human != nil:
		out = outputOfHuman(s.Human)
	case s.Loop != nil:
		out = closed(shape{"last": c.lastOf(s.Loop), "iterations": shape{"type": "integer"},
			"reason": textShape()})
	case s.Fork != nil:
		out = c.outputOfFork(s.Fork)
	case s.Switch != nil:
		out = closed(shape{"case": shape{"type": []any{"string", "null"}}, "output": shape{}})
	case s.Retrieve != nil:
		out = closed(shape{"documents": shape{"type": "array"}})
	case s.Index != nil:
		n := shape{"type": "integer"}
		out = closed(shape{"added": n, "updated": n, "deleted": n, "skipped": n})
	default:
		out = toolOutputs[uses]
	}
	if len(out) == 0 {
		return asked
	}
	return out
}

func outputOfAgent(s *recipe.Step, handsOff bool) shape {
	members := shape{"text": textShape(), "steps": shape{"type": "integer"}, "stop_reason": textShape()}
	if handsOff {
		members["agent"] = textShape()
	}
	return closed(members)
}

func outputOfHuman(h *recipe.Human) shape {
	if h.AnswerJSON != nil {
		return h.AnswerJSON
	}
	if h.OnExpire.Set != nil {
		return nil
	}
	decisions := []any{"approve", "reject"}
	if len(h.Decisions) > 0 {
		decisions = nil
	}
	for _, d := range h.Decisions {
		decisions = append(decisions, d.Text)
	}
	form := shape{}
	if h.FormJSON != nil {
		form = h.FormJSON
	}
	return closed(shape{"decision": shape{"enum": decisions}, "form": form})
}

func (c *compiler) outputOfFork(f *recipe.Fork) shape {
	branches, names := shape{}, []any{nil}
	for _, b := range f.Branches {
		names = append(names, b.Name)
		if branches[b.Name] = c.outputOfBody(b.Body); f.Mode == "settle" {
			branches[b.Name] = closed(shape{"status": textShape(), "output": branches[b.Name], "error": shape{}})
		}
	}
	if f.Mode == "race" {
		return closed(shape{"winner": shape{"enum": names}, "output": shape{}})
	}
	return closed(branches)
}

func (c *compiler) outputOfBody(b *recipe.Body) shape {
	switch {
	case b == nil || b.Ref.Text != "" && b.Recipe == nil: // reported elsewhere
		return nil
	case b.Recipe != nil && b.Recipe.Output == nil, b.Recipe == nil && b.Output == nil:
		return nil
	case b.Recipe != nil:
		return c.shapeOf(b.Recipe.Output)
	}
	return c.shapeOf(b.Output)
}

// shapeOf describes a value as written.
func (c *compiler) shapeOf(v *recipe.Value) shape {
	if v == nil {
		return nil
	}
	if known, ok := c.shapes[v]; ok { // a file may be used in many places
		return known
	}
	var s shape
	switch {
	case v.IsList:
		s = shape{"type": "array"}
	case v.IsMap:
		members := shape{}
		for _, f := range v.Map {
			members[f.Key] = c.shapeOf(f.Value)
		}
		s = closed(members)
	case !v.HasExpression():
		s = shape{"type": jsonTypes[value.TypeName(v.Scalar)]}
	}
	c.shapes[v] = s
	return s
}

// fieldsOf describes only the names of the fields of a value as written: reading another field is a warning.
func fieldsOf(v *recipe.Value) shape {
	switch {
	case v == nil:
		return shape{}
	case v.IsList:
		return shape{"type": "array"}
	case !v.IsMap:
		return shape{}
	}
	members := shape{}
	for _, f := range v.Map {
		members[f.Key] = fieldsOf(f.Value)
	}
	return shape{"type": "object", "properties": members}
}

// jsonTypes are the types of scalars, by what messages call them.
var jsonTypes = map[string]any{"null": "null", "a boolean": "boolean", "a number": "number",
	"a string": "string"}

// outputs describes the outputs of steps.
func (c *compiler) outputs(steps []recipe.Step) map[string]expr.Type {
	types := map[string]expr.Type{}
	for i := range steps {
		if s := c.outputOf(&steps[i]); len(s) > 0 {
			types[steps[i].ID] = c.typeOf(s)
		}
	}
	return types
}

// typeOf makes a type of a shape. In a recipe that a run began with, a wrong use of it is a warning.
func (c *compiler) typeOf(s shape) expr.Type { return expr.TypeOf(s, c.stored) }
