package schema

import (
	"maps"
	"slices"
	"strings"
)

// Example returns a value that fits a JSON Schema: what it names (const, default, examples, enum), else the smallest
// value of its type. It is false if none was found: not every schema says how to make one.
func Example(doc any) (v any, ok bool) {
	s, err := CompileValue(doc)
	if err != nil {
		return nil, false
	}
	v = (&maker{doc: doc}).make(doc)
	return v, s.Check(v) == nil
}

// maker makes an example.
type maker struct {
	doc   any
	depth int // of references and parts
	made  int // values so far
}

// How deep an example is, and how many values it has: a schema may contain itself.
const (
	exampleDepth  = 24
	exampleValues = 10_000
)

func (m *maker) make(schema any) any {
	s, ok := schema.(map[string]any)
	m.depth++
	defer func() { m.depth-- }()
	if m.made++; !ok || m.depth > exampleDepth || m.made > exampleValues {
		return nil
	}
	if v, given := s["const"]; given {
		return v
	}
	if v, given := s["default"]; given {
		return v
	}
	for _, name := range []string{"examples", "enum"} {
		if list, _ := s[name].([]any); len(list) > 0 {
			return list[0]
		}
	}
	if ref, _ := s["$ref"].(string); strings.HasPrefix(ref, "#") {
		v, _ := lookup(m.doc, strings.TrimPrefix(ref, "#"))
		return m.make(v)
	}
	for _, name := range []string{"oneOf", "anyOf"} {
		if list, _ := s[name].([]any); len(list) > 0 {
			return m.make(list[0])
		}
	}
	if list, _ := s["allOf"].([]any); len(list) > 0 {
		whole := map[string]any{}
		for _, part := range append(slices.Clone(list), without(s, "allOf")) {
			v, isObject := m.make(part).(map[string]any)
			if !isObject && len(list) == 1 {
				return m.make(part)
			}
			maps.Copy(whole, v)
		}
		return whole
	}
	return m.ofType(s)
}

// ofType makes the smallest value of a type.
func (m *maker) ofType(s map[string]any) any {
	types := typesOf(s)
	typ := ""
	switch {
	case len(types) > 0:
		typ = types[0]
	case s["properties"] != nil:
		typ = "object"
	}
	switch typ {
	case "object":
		v := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if m.depth < exampleDepth/4 || slices.Contains(required, any(name)) {
				v[name] = m.make(properties[name])
			}
		}
		return v
	case "array":
		v := []any{}
		for range count(s, "minItems") {
			v = append(v, m.make(s["items"]))
		}
		return v
	case "string":
		return strings.Repeat("x", int(count(s, "minLength")))
	case "integer", "number":
		for _, name := range []string{"minimum", "maximum"} {
			if n, given := s[name]; given {
				return n
			}
		}
		if n, given := s["exclusiveMinimum"].(int64); given {
			return n + 1
		}
		return int64(0)
	case "boolean":
		return false
	}
	return nil
}

// count is a number of a schema; a large one is cut, and the example does not fit.
func count(s map[string]any, name string) int64 {
	n, _ := s[name].(int64)
	return max(0, min(n, 1000))
}

func without(s map[string]any, name string) map[string]any {
	rest := maps.Clone(s)
	delete(rest, name)
	return rest
}
