package expr

import (
	"slices"

	"github.com/braise-run/braise/internal/expr/syntax"
)

// Names lists the texts that the value can be, or have as items, as far as the template says: those that stand in it,
// as they are or as branches of ?: and ??, and those that the schema of an input allows. all reports that there can be
// no others.
func (t *Template) Names() (names []string, all bool) {
	switch {
	case t.IsLiteral():
		return namesIn(t.Literal())
	case t.form == formList:
		return union(t.parts, (*Template).Names)
	case t.form != formExpr:
		return nil, false
	case t.expr.static.known:
		return namesIn(t.expr.static.value)
	}
	if enum, ok := enumOf(t.expr.static.schema); ok {
		return namesIn(enum)
	}
	node, err := parse(t.expr.source)
	if err != nil { // it was read before
		return nil, false
	}
	return namesOf(node)
}

// namesOf is Names for a part of an expression.
func namesOf(n syntax.Node) (names []string, all bool) {
	switch n := n.(type) {
	case *syntax.String:
		return []string{n.Value}, true
	case *syntax.Conditional:
		return union([]syntax.Node{n.Yes, n.No}, namesOf)
	case *syntax.Array:
		return union(n.Nodes, namesOf)
	case *syntax.Binary:
		if n.Operator == "??" {
			return union([]syntax.Node{n.Left, n.Right}, namesOf)
		}
	}
	return nil, false
}

// namesIn is Names for a value that is known.
func namesIn(v any) (names []string, all bool) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	all = true
	for _, e := range list {
		text, ok := e.(string)
		if all = all && ok; ok {
			names = append(names, text)
		}
	}
	return names, all
}

// union joins the names of parts.
func union[P any](parts []P, of func(P) ([]string, bool)) (names []string, all bool) {
	all = true
	for _, part := range parts {
		some, known := of(part)
		names, all = append(names, some...), all && known
	}
	slices.Sort(names)
	return slices.Compact(names), all
}

// enumOf is what the schema of a value allows, or of the items of a list.
func enumOf(schema map[string]any) ([]any, bool) {
	if items, ok := schema["items"].(map[string]any); ok && schema["type"] == "array" {
		schema = items
	}
	enum, ok := schema["enum"].([]any)
	return enum, ok && len(enum) <= maxNodes
}

// Gives reports whether the value can be a text, or a list where it is to be one; is names the types that it can have,
// as messages do.
func (t *Template) Gives(aList bool) (is string, ok bool) {
	k, want := text, text // of a text with expressions in it
	switch {
	case t.IsLiteral():
		k = kindOf(t.Literal())
	case t.form == formExpr:
		k = t.expr.static.kinds
	case t.form == formList:
		k = list
	case t.form == formMap:
		k = dict
	}
	if aList {
		want = list
	}
	return k.String(), k&want != 0
}

// chain falls a chain of accesses into its base and the members after it. Parentheses and the
// parser's own grouping of ?. make no difference.
func chain(n syntax.Node) (base syntax.Node, members []*syntax.Member) {
	for {
		switch node := n.(type) {
		case *syntax.Chain:
			n = node.Node
		case *syntax.Member:
			members = append(members, node)
			n = node.Node
		default:
			slices.Reverse(members)
			return n, members
		}
	}
}
