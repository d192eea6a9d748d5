package expr

import (
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr/syntax"
)

// lowerWhere lowers what is only evaluated where a condition is true, or false: reads of outputs of steps that the
// condition has found not to be null are [Ref.Optional].
func (c *compiler) lowerWhere(cond syntax.Node, holds bool, n syntax.Node) operand {
	before := c.sure
	c.sure = slices.Concat(before, notNull(cond, holds))
	defer func() { c.sure = before }()
	return c.lower(n)
}

// notNull names the steps whose outputs are not null where a condition holds, or does not.
func notNull(n syntax.Node, holds bool) []string {
	switch n := n.(type) {
	case *syntax.Unary:
		if n.Operator == "!" || n.Operator == "not" {
			return notNull(n.Node, !holds)
		}
	case *syntax.Binary:
		switch n.Operator {
		case "&&", "and":
			if holds {
				return slices.Concat(notNull(n.Left, true), notNull(n.Right, true))
			}
		case "||", "or":
			if !holds {
				return slices.Concat(notNull(n.Left, false), notNull(n.Right, false))
			}
		case "==", "!=":
			return compared(n, holds == (n.Operator == "=="))
		}
	}
	return nil
}

// compared names the step whose output is not null where a comparison finds two values equal, or not: null is another
// value than its output, or a text or number is the same as something in it.
func compared(n *syntax.Binary, equal bool) []string {
	for _, sides := range [][2]syntax.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
		base, members := chain(sides[0])
		root, ok := base.(*syntax.Name)
		if !ok || root.Value != "steps" || len(members) < 2 {
			continue
		}
		id, known := fieldName(members[0])
		field, read := fieldName(members[1])
		other, isText := sides[1].(*syntax.String)
		switch {
		case !known || !read:
		case field == "status" && equal && isText && other.Value == "succeeded":
			return []string{id}
		case field == "output" && equal != isNull(sides[1]) && isLiteral(sides[1]):
			return []string{id}
		}
	}
	return nil
}

func isNull(n syntax.Node) bool {
	name, ok := n.(*syntax.Name)
	_, null := n.(*syntax.Nil)
	return null || ok && name.Value == "null"
}

func isLiteral(n syntax.Node) bool {
	switch n.(type) {
	case *syntax.String, *syntax.Bool, *syntax.Integer, *syntax.Float:
		return true
	}
	return isNull(n)
}

// Want is the status that a step must have for a condition to be true.
type Want struct {
	Name   string
	Step   StepRef
	Status string
	Pos    diagnostics.Position
}

// wants lists what a condition wants of steps, by comparisons that "and" joins.
func (c *compiler) wants(n syntax.Node) []Want {
	b, ok := n.(*syntax.Binary)
	if !ok {
		return nil
	}
	if b.Operator == "&&" || b.Operator == "and" {
		return slices.Concat(c.wants(b.Left), c.wants(b.Right))
	}
	for _, sides := range [][2]syntax.Node{{b.Left, b.Right}, {b.Right, b.Left}} {
		base, members := chain(sides[0])
		root, ok := base.(*syntax.Name)
		if !ok || root.Value != "steps" || len(members) != 2 {
			continue
		}
		id, _ := fieldName(members[0])
		field, _ := fieldName(members[1])
		step, known := c.scope.Steps[id]
		if status := wanted(field, b.Operator, sides[1]); known && status != "" {
			return []Want{{id, step, status, c.at(root)}}
		}
	}
	return nil
}

// wanted is the status of a step with which the comparison of one of its fields is true; "": any.
func wanted(field, operator string, with syntax.Node) string {
	text, ok := with.(*syntax.String)
	switch {
	case ok && field == "status" && operator == "==":
		return text.Value
	case field == "error" && operator == "!=" && isNull(with):
		return "failed"
	}
	return ""
}
