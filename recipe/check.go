package recipe

import (
	"math"
	"strconv"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/yamlnode"
)

// arguments checks a mapping whose values are kept as written: the arguments of a kind, an agent.
// With templates, a string that holds an expression is good for every type.
func (w *walker) arguments(n *yamlnode.Node, o *object, templates bool) map[string]*yamlnode.Node {
	fields := w.object(n, o)
	for _, key := range o.keys {
		if f := fields[key.Name]; f != nil && !(templates && isTemplate(f)) {
			w.argument(f, key)
		}
	}
	return fields
}

// argument checks one value against the type that the table gives it.
func (w *walker) argument(n *yamlnode.Node, key Argument) {
	switch key.Type {
	case typeString:
		if key.Allowed != nil {
			w.OneOf(n, key.Allowed...)
		} else {
			w.String(n)
		}
	case typeText:
		w.text(n)
	case typeStrings:
		w.names(n)
	case typePeople:
		w.people(n)
	case typeToolNames:
		if !isTemplate(n) && n.Value != AllTools {
			w.argument(n, Argument{Type: typeTools})
		}
	case typeTexts:
		if !isTemplate(n) {
			w.names(n)
		}
	case typeTools: // empty ones are dropped
		for _, item := range w.items(n) {
			w.String(item)
		}
	case typeBoolean:
		w.Bool(n)
	case typeNumber:
		w.Float(n)
	case typeLinks:
		w.links(n)
	case typeInteger:
		w.Int(n, math.MinInt, math.MaxInt)
	case typePositive:
		w.positive(n)
	case typeNatural:
		w.Int(n, 0, math.MaxInt32)
	case typeThousand:
		w.Int(n, 1, 1000)
	case typeExpression:
		w.condition(n)
	case typeMessages:
		w.messages(n)
	case typeApproval:
		w.approval(n)
	case typeSubagents:
		if n.Kind != yamlnode.Bool || n.Value == true {
			w.arguments(n, subagentsObject, false)
		}
	case typeMemory:
		if n.Kind == yamlnode.String {
			w.OneOf(n, "inherit")
		} else {
			w.arguments(n, memoryObject, false)
		}
	case typeRetrieve:
		w.arguments(n, retrieveObject, false)
	case typeCompact:
		w.arguments(n, compactObject, false)
	case typeAgent:
		if n.Kind == yamlnode.Map {
			w.arguments(n, agentObject, false)
		} else {
			w.Text(n)
		}
	}
}

// text checks a string that may stand in a file of its own.
func (w *walker) text(n *yamlnode.Node) {
	if n.Kind == yamlnode.Map {
		w.Text(w.object(n, fileObject)["file"])
	} else {
		w.String(n)
	}
}

func (w *walker) messages(n *yamlnode.Node) {
	for _, item := range w.List(n) {
		w.arguments(item, messageObject, true)
	}
}

func (w *walker) approval(n *yamlnode.Node) {
	if n.Kind != yamlnode.Map {
		w.OneOf(n, approvals...)
	}
	for _, f := range n.Fields {
		w.OneOf(f.Value, approvals...)
	}
}

// isTemplate reports whether n is a string that holds an expression.
func isTemplate(n *yamlnode.Node) bool {
	text, _ := n.Value.(string)
	return value.HoldsExpression(text)
}

// timeout reads a duration that is more than 0.
func (w *walker) timeout(n *yamlnode.Node) time.Duration {
	found := len(w.Diagnostics)
	d := w.Duration(n)
	if n != nil && n.Kind == yamlnode.String && d == 0 && len(w.Diagnostics) == found {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "leave it out for no limit", "%q must be more than 0", n.Key)
	}
	return d
}

// literal reads a string that may not hold an expression, because it is needed before the run.
func (w *walker) literal(n *yamlnode.Node) string {
	s := w.Text(n)
	if s != "" && isTemplate(n) {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q may not hold an expression", n.Key)
		return ""
	}
	return s
}

// fileOf returns the path when v has the form {file: path}.
func fileOf(v *Value) (path string, ok bool) {
	if v == nil || !v.IsMap || len(v.Map) != 1 || v.Map[0].Key != "file" {
		return "", false
	}
	path, ok = v.Map[0].Value.Scalar.(string)
	return path, ok
}

// collect remembers the texts among the values that stand in files.
func (w *walker) collect(texts ...*Value) {
	for _, v := range texts {
		if _, ok := fileOf(v); ok {
			w.files = append(w.files, v)
		}
	}
}

// locate returns the place of a JSON pointer below n, or of the deepest part of it that exists.
func locate(n *yamlnode.Node, pointer string) diagnostics.Position {
	for _, token := range value.Tokens(pointer) {
		below := child(n, token)
		if below == nil {
			break
		}
		n = below
	}
	return n.Pos
}

// keyOf returns the place of a key of the mapping at a JSON pointer below n.
func keyOf(n *yamlnode.Node, pointer, key string) diagnostics.Position {
	for _, token := range value.Tokens(pointer) {
		if n = child(n, token); n == nil {
			return diagnostics.Position{}
		}
	}
	for _, f := range n.Fields {
		if f.Key == key {
			return f.Pos
		}
	}
	return n.Pos
}

// isFile reports whether n has the form {file: path}.
func isFile(n *yamlnode.Node) bool {
	return n.Kind == yamlnode.Map && len(n.Fields) == 1 && n.Fields[0].Key == "file" &&
		n.Fields[0].Value.Kind == yamlnode.String
}

func child(n *yamlnode.Node, name string) *yamlnode.Node {
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Items) {
		return n.Items[i]
	}
	return n.Child(name)
}
