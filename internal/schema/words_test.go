package schema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/schema"
)

// trust 4.6: a wrong type or word is named.
func TestWrongWordsAreNamed(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{"type":"strng"}`, `/type: "strng" is not a type; did you mean "string"?`},
		{`{"type":["string","nul"]}`, `/type/1: "nul" is not a type; did you mean "null"?`},
		{`{"properties":{"a":{"type":"int"}}}`, `/properties/a/type: "int" is not a type; did you mean "integer"?`},
		{`{"type":"Any"}`, `/type: "Any" is not a type: there are array, boolean, integer, null, number, object, string`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"bool"}`, `/type: "bool" is not a type; did you mean "boolean"?`},
		{`{"additionalProperties":"flase"}`, `/additionalProperties: must be a boolean or an object, not "flase"`},
		{`{"minLength":"two"}`, `/minLength: must be an integer, not "two"`},
		{`{"type":1}`, `/type: must be one of "array", "boolean", "integer", "null", "number", "object", "string"`},
		{`{"type":[]}`, `/type: must have at least 1 item, not 0`},
	} {
		if _, err := schema.Compile([]byte(tt.schema)); err == nil || err.Error() != tt.want {
			t.Errorf("%s\n got %v\nwant %s", tt.schema, err, tt.want)
		}
	}
	for _, tt := range []struct{ schema, value, want string }{
		{`{"enum":["low","high"]}`, `"hihg"`, `must be one of "low", "high", not "hihg"; did you mean "high"?`},
		{`{"const":"yes"}`, `"yess"`, `must be "yes", not "yess"; did you mean "yes"?`},
		{`{"enum":["low","high"]}`, `3`, `must be one of "low", "high"`},
	} {
		s, err := schema.Compile([]byte(tt.schema))
		if err != nil {
			t.Fatal(err)
		}
		if got := schema.Describe(s.Check(decode(t, tt.value))); got != tt.want {
			t.Errorf("%s on %s: got %s, want %s", tt.schema, tt.value, got, tt.want)
		}
	}
}

// trust 4.3: keywords that are probably misspelt.
func TestMisspelt(t *testing.T) {
	for _, tt := range []struct {
		schema string
		want   []schema.Misspelling
	}{
		{`{"type":"object","requred":["a"],"properties":{"a":{"minimun":1},"requred":{}}}`, []schema.Misspelling{
			{"/properties/a", "minimun", "minimum"}, {"", "requred", "required"}}},
		{`{"minlength":1,"items":{"defs":{"typ":1}}}`, []schema.Misspelling{
			{"/items", "defs", "$defs"}, {"", "minlength", "minLength"}}},
		{`{"example":{"typ":1},"x-typ":1,"unit":"cm","const":{"typ":1},"enum":[{"typ":1}],"not":{"anyOf":[true,{"titel":""}]}}`,
			[]schema.Misspelling{{"/not/anyOf/1", "titel", "title"}}},
		{`true`, nil},
	} {
		if diff := cmp.Diff(tt.want, schema.Misspelt(decode(t, tt.schema))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.schema, diff)
		}
	}
}

// trust 6.11: a count does not wrap around.
func TestCountsDoNotWrap(t *testing.T) {
	for _, tt := range []struct{ schema, value, want string }{
		{`{"minLength":1e30}`, `"a"`, `must have at least 2147483647 characters, not 1`},
		{`{"minLength":18446744073709551617}`, `"aa"`, `must have at least 2147483647 characters, not 2`},
		{`{"minItems":9223372036854775807}`, `[]`, `must have at least 2147483647 items, not 0`},
		{`{"maxItems":1e19,"maxLength":1e19,"maxProperties":1e19}`, `[1]`, ``},
		{`{"maxLength":1e30}`, `"a"`, ``},
		{`{"contains":{},"maxContains":1e19,"minContains":1}`, `[1]`, ``},
	} {
		s, err := schema.Compile([]byte(tt.schema))
		if err != nil {
			t.Fatal(err)
		}
		if got := schema.Describe(s.Check(decode(t, tt.value))); got != tt.want {
			t.Errorf("%s on %s: got %q, want %q", tt.schema, tt.value, got, tt.want)
		}
	}
}
