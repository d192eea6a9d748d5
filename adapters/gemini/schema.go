package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxSchemas is how many schemas there may be in one. References make copies.
const maxSchemas = 2000

// taken are the keywords of JSON Schema that the API takes, as the doc comment of ResponseJsonSchema has it. oneOf is
// the same as anyOf to it.
var taken = []string{"type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems",
	"minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required", "propertyOrdering"}

// lowered is a schema in the form that the API takes: other keywords are a part of the description, and a reference is
// replaced by what it refers to, as the API refuses those within others and those beside a description. The engine
// checks all of it. It is false if a reference cannot be replaced, such as one to itself, where the form then takes
// anything, or if the schema is no object.
func lowered(schema json.RawMessage) (json.RawMessage, bool) {
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	var root map[string]any
	if d.Decode(&root) != nil || root == nil {
		return nil, false
	}
	l := &lowering{root: root}
	form, err := json.Marshal(l.schema(root, nil))
	if err != nil { // it was JSON
		return nil, false
	}
	return form, !l.lost
}

// lowering lowers the schemas in one.
type lowering struct {
	root  map[string]any
	count int  // of schemas so far
	lost  bool // a reference was not replaced
}

// schema lowers a schema. refs are the references that it stands in.
func (l *lowering) schema(s map[string]any, refs []string) map[string]any {
	l.count++
	if ref, ok := s["$ref"].(string); ok {
		target, found := l.at(ref)
		if !found || slices.Contains(refs, ref) || l.count > maxSchemas {
			l.lost = true
			target = nil
		}
		whole := maps.Clone(target)
		if whole == nil {
			whole = map[string]any{}
		}
		for key, v := range s {
			if key != "$ref" {
				whole[key] = v
			}
		}
		return l.schema(whole, append(slices.Clip(refs), ref))
	}
	form := map[string]any{}
	var left []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		switch v := s[key]; {
		case strings.HasPrefix(key, "$"), key == "definitions": // references are replaced
		case key == "enum" && !allowed(v), !slices.Contains(taken, key):
			if key == "const" && allowed([]any{v}) && s["enum"] == nil {
				form["enum"] = []any{v}
				continue
			}
			text, _ := json.Marshal(v) // it was JSON
			left = append(left, fmt.Sprintf("%s: %s", key, text))
		default:
			form[key] = l.value(key, v, refs)
		}
	}
	if left != nil {
		description, _ := s["description"].(string)
		form["description"] = strings.TrimSpace(description + " {" + strings.Join(left, ", ") + "}")
	}
	return form
}

// value lowers what a keyword has.
func (l *lowering) value(key string, v any, refs []string) any {
	switch key {
	case "items", "additionalProperties":
		if _, isBool := v.(bool); isBool && key == "additionalProperties" {
			return v
		}
		return l.sub(v, refs)
	case "prefixItems", "anyOf", "oneOf":
		list, _ := v.([]any)
		forms := make([]any, len(list))
		for i, sub := range list {
			forms[i] = l.sub(sub, refs)
		}
		return forms
	case "properties":
		properties, _ := v.(map[string]any)
		forms := map[string]any{}
		for name, sub := range properties {
			forms[name] = l.sub(sub, refs)
		}
		return forms
	}
	return v
}

// sub lowers a schema within another. true takes anything; what false is for is in no answer.
func (l *lowering) sub(v any, refs []string) map[string]any {
	s, _ := v.(map[string]any)
	return l.schema(s, refs)
}

// at is the schema at a reference within the whole one, such as #/$defs/city.
func (l *lowering) at(ref string) (map[string]any, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	var at any = l.root
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if path == "" {
			break
		}
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch v := at.(type) {
		case map[string]any:
			at = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	s, ok := at.(map[string]any)
	return s, ok
}

// allowed reports whether the API takes these values in an enum: strings and numbers.
func allowed(enum any) bool {
	list, _ := enum.([]any)
	return !slices.ContainsFunc(list, func(v any) bool {
		switch v.(type) {
		case string, json.Number:
			return false
		}
		return true
	})
}
