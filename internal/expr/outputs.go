package expr

import (
	"fmt"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr/syntax"
)

// Type is what is known of an output of a step, or of a part of it, before the run. The zero Type is: nothing.
type Type struct {
	schema map[string]any
	from   origin
}

// origin says whether a value comes from the output of a step, and so what a field that is not known means.
type origin uint8

const (
	elsewhere origin = iota
	output
	stored // output, of a recipe that a run began with: what is wrong is a warning
)

// TypeOf is the type of an output that a JSON Schema, decoded, describes. With old, what cannot be is a warning and no
// error: runs have begun with the recipe.
func TypeOf(schema map[string]any, old bool) Type {
	if old {
		return Type{schema, stored}
	}
	return Type{schema, output}
}

// Items is the type of the items of a list that one expression gives.
func (t *Template) Items() Type {
	if t == nil || t.form != formExpr || t.expr.static.from == elsewhere {
		return Type{}
	}
	items, _ := t.expr.static.schema["items"].(map[string]any)
	return Type{items, t.expr.static.from}
}

// static is what the compiler knows of such a value. Steps may be skipped, so that it may always be null.
func (t Type) static() static {
	if t.schema == nil {
		return of(anyKind)
	}
	return part(t.schema, t.from)
}

// part is what is known of a part of a value, by its schema.
func part(schema any, from origin) static {
	t := fromSchema(schema)
	switch t.from = from; from {
	case output:
		t.kinds |= null
	case stored: // only fields are looked at
		t.kinds = anyKind
	}
	return t
}

// isClosed reports whether the schema has named all fields.
func (t static) isClosed() bool {
	return t.schema["patternProperties"] == nil && t.schema["additionalProperties"] == false
}

// unknownField is what is odd about a field of an output that may be readable; nil: nothing.
func (t static) unknownField(key any, optional bool) *problem {
	name, ok := key.(string)
	properties, _ := t.schema["properties"].(map[string]any)
	if _, named := properties[name]; !ok || named || t.from == elsewhere {
		return nil
	}
	p := unknown("field", name, properties)
	switch {
	case t.isClosed() && t.from == stored:
		return p
	case t.isClosed(): // member says so
		return nil
	}
	if optional || len(properties) == 0 || slices.ContainsFunc(describing, func(keyword string) bool {
		return t.schema[keyword] != nil
	}) {
		return nil
	}
	p.message = fmt.Sprintf("this output is not known to have a field %q", shorten(name))
	if p.hint == "" {
		p.hint = "read what may be missing with ?."
	}
	return p
}

// describing are the keywords that may describe fields beside properties.
var describing = []string{"$ref", "additionalProperties", "allOf", "anyOf", "dependentSchemas", "if", "oneOf",
	"patternProperties"}

// never reports a comparison of an output, such as a decision, with a word that it cannot be.
func (c *compiler) never(n syntax.Node, l, r static) {
	if r.from != elsewhere {
		l, r = r, l
	}
	choices, ok := l.schema["enum"].([]any)
	word, isWord := r.value.(string)
	if !ok || !isWord || l.from == elsewhere || len(choices) > maxSuggested || slices.Contains(choices, r.value) {
		return
	}
	var known []string
	for _, choice := range choices {
		if s, ok := choice.(string); ok {
			known = append(known, s)
		}
	}
	wrong := &problem{diagnostics.CodeExprType, fmt.Sprintf("this is never %q", shorten(word)),
		diagnostics.DidYouMean(word, known)}
	if l.from == stored {
		c.warn(n, wrong)
	} else {
		c.report(n, wrong)
	}
}
