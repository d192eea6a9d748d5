package endpoint

import (
	"encoding/json"
	"slices"
)

// maxStrictDepth is how deep a schema of strict mode may nest.
// https://platform.openai.com/docs/guides/structured-outputs
const maxStrictDepth = 10

// FormOf reports whether the schema of an answer has a root of the type object, without which OpenAI and others refuse
// it, and whether it keeps to what their strict mode takes.
func FormOf(schema json.RawMessage) (isObject, isStrict bool) {
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil || root["type"] != "object" {
		return false, false
	}
	return true, root["anyOf"] == nil && strict(root, 1)
}

// strict reports whether a schema keeps to what strict mode takes everywhere: a few keywords, and
// objects whose properties are all required, with no others. Anything else is sent without strict:
// the endpoint then tries its best, and the engine checks the answer in any case.
func strict(schema any, depth int) bool {
	s, ok := schema.(map[string]any)
	if !ok || depth > maxStrictDepth || s["type"] == nil && s["$ref"] == nil && s["anyOf"] == nil {
		return false
	}
	all := true
	for key, value := range s {
		switch key {
		case "type", "enum", "const", "description", "title", "$ref", "required":
		case "additionalProperties":
			all = all && value == false
		case "items":
			all = all && strict(value, depth+1)
		case "anyOf":
			list, _ := value.([]any)
			for _, sub := range list {
				all = all && strict(sub, depth+1)
			}
		case "properties", "$defs":
			subs, _ := value.(map[string]any)
			for _, sub := range subs {
				all = all && strict(sub, depth+1)
			}
		default:
			return false
		}
	}
	return all && (!isObject(s) || closed(s))
}

func isObject(s map[string]any) bool {
	types, _ := s["type"].([]any)
	return s["type"] == "object" || s["properties"] != nil || slices.Contains(types, any("object"))
}

// closed reports whether an object has exactly the properties that its schema names.
func closed(s map[string]any) bool {
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for name := range properties {
		if !slices.Contains(required, any(name)) {
			return false
		}
	}
	return s["additionalProperties"] == false
}
