package expr

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
)

// kinds is a set of JSON types.
type kinds uint8

const (
	null kinds = 1 << iota
	boolean
	number
	text
	list
	dict
	anyKind = null | boolean | number | text | list | dict
)

var kindNames = [...]string{"null", "a boolean", "a number", "a string", "a list", "a map"}

// String names the set as it reads in messages: "a number or a string".
func (k kinds) String() string {
	switch k {
	case 0:
		return "something else"
	case anyKind:
		return "any value"
	}
	var names []string
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

func kindOf(v any) kinds {
	switch v.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case int64, float64, json.Number:
		return number
	case string:
		return text
	case []any:
		return list
	case map[string]any:
		return dict
	}
	return 0 // not decoded JSON
}

// static is what is known about a value before the run.
type static struct {
	kinds  kinds          // never empty
	known  bool           // the value is exactly this one
	value  any            // when known
	schema map[string]any // describes the value; nil: says nothing
	from   origin
}

func of(k kinds) static { return static{kinds: k} }

func constant(v any) static { return static{kinds: kindOf(v), known: true, value: v} }

var schemaKinds = map[string]kinds{"null": null, "boolean": boolean, "integer": number,
	"number": number, "string": text, "array": list, "object": dict}

// fromSchema reads the keywords of a JSON Schema that name types; it ignores all others, which can
// only narrow the set.
func fromSchema(schema any) static {
	m, ok := schema.(map[string]any)
	if !ok {
		return of(anyKind)
	}
	k := anyKind
	switch t := m["type"].(type) {
	case string:
		k = schemaKinds[t]
	case []any:
		k = 0
		for _, name := range t {
			s, _ := name.(string)
			k |= schemaKinds[s]
		}
	}
	if enum, ok := m["enum"].([]any); ok && len(enum) <= maxNodes {
		var e kinds
		for _, v := range enum {
			e |= kindOf(v)
		}
		k &= e
	}
	if k == 0 { // not a schema that any value fits; reported elsewhere
		k = anyKind
	}
	return static{kinds: k, schema: m}
}

// problem is a mistake in an expression: at compile time a diagnostic, at run time the reason of
// an Error.
type problem struct {
	code          diagnostics.Code
	message, hint string
}

func (p *problem) at(pos diagnostics.Position) diagnostics.Diagnostic {
	return diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe,
		Code: p.code, Message: p.message, Hint: p.hint, Position: pos}
}

func (p *problem) Error() string {
	if p.hint == "" {
		return p.message
	}
	return p.message + " (" + p.hint + ")"
}

// member is the type of the member or item key of t. A problem means that reading it fails in
// every run.
func (t static) member(key any, optional bool) (static, *problem) {
	if optional && t.kinds == null {
		return of(null), nil
	}
	name, isName := key.(string)
	fits := dict
	if !isName {
		fits = list | text
	}
	if t.kinds&fits == 0 {
		return static{}, noMember("", t.kinds, key)
	}
	m := of(anyKind)
	switch {
	case !isName:
		if t.schema["prefixItems"] == nil {
			m = part(t.schema["items"], t.from)
		}
	case t.known:
		members := t.value.(map[string]any)
		v, ok := members[name]
		if !ok {
			return static{}, unknown("field", name, members)
		}
		return constant(v), nil
	default:
		properties, _ := t.schema["properties"].(map[string]any)
		if schema, ok := properties[name]; ok {
			m = part(schema, t.from)
		} else if t.isClosed() && t.from != stored {
			return static{}, unknown("field", name, properties)
		}
	}
	if optional {
		m.kinds |= null
	}
	return m, nil
}

// unknown says that there is no such thing of that name, and which there is.
func unknown[V any](what, name string, known map[string]V) *problem {
	hint := ""
	if len(known) <= maxSuggested {
		hint = diagnostics.DidYouMean(name, slices.Collect(maps.Keys(known)))
	}
	return &problem{diagnostics.CodeExprName, fmt.Sprintf("unknown %s %q", what, shorten(name)), hint}
}

// noMember says that a value of this type, which stands at where, has no such member or item. Steps may be skipped, so
// that their outputs may be null; that is not what is wrong.
func (t static) noMember(where string, key any) *problem {
	k := t.kinds
	if t.from == output && k != null {
		k &^= null
	}
	p := noMember(where+" is ", k, key)
	if name, isName := key.(string); isName && k&^null == list {
		p.hint = fmt.Sprintf("read one item, as in %s[0].%s, or all: map(%[1]s, .%[2]s)", where, name)
	}
	return p
}

// noMember says that where, a value of the kinds k, cannot have a member or item key. Where is ""
// or "x is ".
func noMember(where string, k kinds, key any) *problem {
	p := &problem{code: diagnostics.CodeExprType}
	switch _, isName := key.(string); {
	case k == null:
		p.message = where + "null, which has no " + describeKey(key)
		p.hint = "read what may be null with ?."
	case k == dict && !isName:
		p.message = where + "a map, whose keys are strings, not " + kindOf(key).String()
	default:
		p.message = fmt.Sprintf("%s%s, which has no %s", where, k, describeKey(key))
	}
	return p
}

func describeKey(key any) string {
	switch key := key.(type) {
	case string:
		return fmt.Sprintf("field %q", shorten(key))
	case int64, json.Number:
		return fmt.Sprintf("item %v", key)
	}
	return "item by " + kindOf(key).String()
}

// told is what is known of steps.ID.finish, .usage, .calls and .messages, which are lists of lists with foreach.
var told = map[string]static{"finish": of(text | null), "usage": fromSchema(usageSchema),
	"calls": fromSchema(callsSchema), "messages": of(list | null)}

// runMembers are those of run, with more of them.
func runMembers(more map[string]any) map[string]any {
	for _, name := range []string{"id", "recipe", "version", "started_at"} {
		more[name] = map[string]any{"type": "string"}
	}
	return map[string]any{"additionalProperties": false, "properties": more}
}

// The schemas of run, also in a final scope, and of steps.ID.usage and .calls.
var (
	runSchema   = runMembers(map[string]any{})
	finalSchema = runMembers(map[string]any{"status": map[string]any{"type": "string"},
		"error": map[string]any{"type": []any{"object", "null"}}})
	usageSchema = map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{
		"calls": map[string]any{"type": "integer"}, "inputTokens": map[string]any{"type": "integer"},
		"outputTokens": map[string]any{"type": "integer"}, "costUsd": map[string]any{"type": "number"}}}
	callsSchema = map[string]any{"type": []any{"array", "null"}, "items": map[string]any{"type": "object",
		"additionalProperties": false, "properties": map[string]any{
			"tool": map[string]any{"type": "string"}, "arguments": true,
			"result": map[string]any{"type": []any{"string", "null"}},
			"error":  map[string]any{"type": []any{"string", "null"}}}}}
)
