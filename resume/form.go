package resume

import (
	"maps"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
)

// filledIn says how what somebody filled in differs from the schema; nil: not at all. Unlike JSON Schema, it refuses
// names that the schema lacks, unless that says something of further ones.
func (p *Pause) filledIn(v any) error {
	if p.Schema == nil {
		return nil
	}
	want, err := compileSchema(closed(p.Schema))
	if err != nil {
		return err
	}
	problems := want.Check(v)
	if problems == nil {
		return nil
	}
	misfit := &schema.Misfit{Problems: problems}
	for _, wrong := range problems {
		names := value.Tokens(wrong.Path)
		if len(wrong.Known) == 0 || len(names) == 0 {
			continue
		}
		hint := "known here: " + strings.Join(wrong.Known, ", ")
		if near := diagnostics.Suggest(names[len(names)-1], wrong.Known); near != "" {
			hint = "did you mean \"" + near + "\"? " + hint
		}
		misfit.Text = schema.Describe(problems) + "\n  hint: " + hint
		break
	}
	return misfit
}

// closed is a schema that takes no properties but those that it describes. Where it lists none, or speaks of others, it
// stays as it is; so do the parts that it refers to.
func closed(s any) any {
	m, ok := s.(map[string]any)
	if !ok {
		return s
	}
	m = maps.Clone(m)
	if properties, ok := m["properties"].(map[string]any); ok {
		properties = maps.Clone(properties)
		for name, property := range properties {
			properties[name] = closed(property)
		}
		m["properties"] = properties
		_, more := m["additionalProperties"]
		if _, unevaluated := m["unevaluatedProperties"]; !more && !unevaluated {
			m["unevaluatedProperties"] = false
		}
	}
	if items, ok := m["items"]; ok {
		m["items"] = closed(items)
	}
	return m
}
