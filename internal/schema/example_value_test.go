package schema_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
)

// A value is made from what a schema says, and fits it; or none is.
func TestExample(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{}`, `null`},
		{`{"const": 7}`, `7`},
		{`{"type": "string", "default": "Ada"}`, `"Ada"`},
		{`{"examples": ["a", "b"]}`, `"a"`},
		{`{"enum": ["low", "high"]}`, `"low"`},
		{`{"type": "string"}`, `""`},
		{`{"type": "string", "minLength": 3}`, `"xxx"`},
		{`{"type": "integer"}`, `0`},
		{`{"type": "integer", "minimum": 4}`, `4`},
		{`{"type": "number", "maximum": -1.5}`, `-1.5`},
		{`{"type": "integer", "exclusiveMinimum": 4}`, `5`},
		{`{"type": "boolean"}`, `false`},
		{`{"type": ["null", "string"]}`, `null`},
		{`{"type": "array", "items": {"type": "integer"}}`, `[]`},
		{`{"type": "array", "minItems": 2, "items": {"enum": ["a"]}}`, `["a", "a"]`},
		{`{"type": "object", "required": ["n"], "additionalProperties": false, "properties": {"n": {"type": "integer"}, "of": {"type": "object"}}}`,
			`{"n": 0, "of": {}}`},
		{`{"properties": {"a": {"type": "string"}}}`, `{"a": ""}`},
		{`{"$ref": "#/$defs/id", "$defs": {"id": {"type": "integer", "minimum": 1}}}`, `1`},
		{`{"anyOf": [{"type": "integer"}, {"type": "string"}]}`, `0`},
		{`{"oneOf": [{"type": "boolean"}, {"type": "string"}]}`, `false`},
		{`{"allOf": [{"type": "object", "properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]}`, `{"a": 1, "b": 2}`},
		{`{"allOf": [{"type": "string", "minLength": 1}]}`, `"x"`},
		{`{"type": "string", "pattern": "^[0-9]{9}$"}`, ""},
		{`{"type": "integer", "minimum": 4, "multipleOf": 7}`, ""},
		{`{"type": "string", "minLength": 5000}`, ""},
		{`{"type": "array", "minItems": 2, "uniqueItems": true, "items": {"type": "integer"}}`, ""},
		{`false`, ""},
		{`{"type": "strange"}`, ""},
		{`7`, ""},
	} {
		doc, err := value.Decode([]byte(tt.schema))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := schema.Example(doc)
		if tt.want == "" {
			if ok {
				t.Errorf("%s: got %v, want none", tt.schema, got)
			}
			continue
		}
		want, err := value.Decode([]byte(tt.want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", tt.schema, ok, diff)
		}
	}
}

// A schema that contains itself, here in a hundred members, has a small example.
func TestExampleOfItself(t *testing.T) {
	properties := map[string]any{"n": map[string]any{"type": "integer"}}
	for i := range 100 {
		properties[fmt.Sprint("part", i)] = map[string]any{"$ref": "#"}
	}
	v, ok := schema.Example(map[string]any{"type": "object", "properties": properties})
	if text, err := value.JSON(v); ok && (err != nil || len(text) > 1<<20) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
