package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// maxCoerced limits the memory that a text takes as a value.
const maxCoerced = 64 << 20

// Coerce turns the text of a command line into a value by the type that the schema s wants:
//
//   - where a string will do, the text is the value; null is nil if that will do too
//   - where only other types will do, the text is read as JSON: 3, true, null, ["a"], {"k":1}
//   - without a type, a text that is a value of enum or const is that value; then anyOf and oneOf
//     are tried in turn; everything else is a string
//
// The value has a right type but is not checked otherwise. nil is the schema that says nothing.
func Coerce(s map[string]any, text string) (any, error) {
	types := typesOf(s)
	if types == nil {
		return coerceUntyped(s, text)
	}
	if slices.Contains(types, "string") {
		if text == "null" && slices.Contains(types, "null") {
			return nil, nil
		}
		return text, nil
	}
	if value.WeightOfText([]byte(text)) > maxCoerced {
		return nil, fmt.Errorf("takes more than %d bytes of memory", maxCoerced)
	}
	v, err := value.Decode([]byte(text))
	if err == nil && slices.ContainsFunc(types, func(t string) bool { return hasType(v, t) }) {
		return value.DecodeStrict([]byte(text)) // its members once each
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = typeNames[t]
		switch t {
		case "boolean":
			names[i] = "true or false"
		case "array", "object":
			names[i] += " as JSON"
		}
	}
	return nil, fmt.Errorf("must be %s, not %s", oneOf(names), short(text))
}

func coerceUntyped(s map[string]any, text string) (any, error) {
	choices, _ := s["enum"].([]any)
	if c, ok := s["const"]; ok {
		choices = append(slices.Clone(choices), c)
	}
	if len(choices) > 0 {
		if v, err := value.Decode([]byte(text)); err == nil && !slices.Contains(texts(choices), text) &&
			slices.ContainsFunc(choices, func(c any) bool { return value.Equal(c, v) }) {
			return v, nil
		}
		return text, nil
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		forms, _ := s[key].([]any)
		var wrong []string
		for _, form := range forms {
			form, _ := form.(map[string]any)
			v, err := Coerce(form, text)
			if err == nil {
				err = checkForm(form, v)
			}
			if err == nil {
				return v, nil
			}
			wrong = append(wrong, err.Error())
		}
		if wrong != nil {
			return nil, fmt.Errorf("fits none of %d forms: %s", len(wrong), strings.Join(wrong, "; or "))
		}
	}
	return text, nil
}

// checkForm is for choosing between forms, which may differ in more than type.
func checkForm(form map[string]any, v any) error {
	s, err := CompileValue(form)
	if err != nil {
		return nil // it refers to the rest of the schema, say
	}
	if ps := s.Check(v); ps != nil {
		return errors.New(Describe(ps))
	}
	return nil
}

// typesOf returns what a schema says about the type; nil if nothing.
func typesOf(s map[string]any) []string {
	switch t := s["type"].(type) {
	case string:
		return []string{t}
	case []any:
		return texts(t)
	}
	return nil
}

// texts returns the strings among values.
func texts(values []any) []string {
	var out []string
	for _, v := range values {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// hasType reports whether v has a type by its name in JSON Schema.
func hasType(v any, name string) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case int64, json.Number:
		return name == "integer" || name == "number"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}
