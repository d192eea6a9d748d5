package resume_test

import (
	"testing"

	"github.com/braise-run/braise/resume"
)

// trust 8.7: a form refuses names that its schema lacks, unless the schema speaks of others.
func TestFormsRefuseUnknownNames(t *testing.T) {
	type m = map[string]any
	amount := m{"type": "object", "properties": m{"amount": m{"type": "number"}, "note": m{"type": "string"}}}
	with := func(schema m, key string, v any) m {
		c := m{key: v}
		for k, v := range schema {
			c[k] = v
		}
		return c
	}
	const unknown = `/amont: is not a known property` + "\n  hint: did you mean \"amount\"? known here: amount, note"
	for _, tt := range []struct {
		name   string
		schema any
		form   any
		want   string
	}{
		{"known", amount, m{"amount": int64(1)}, ""},
		{"misspelt", amount, m{"amont": int64(1)}, unknown},
		{"unknown", amount, m{"other": int64(1)}, "/other: is not a known property\n  hint: known here: amount, note"},
		{"said to be free", with(amount, "additionalProperties", true), m{"amont": int64(1)}, ""},
		{"said to be numbers", with(amount, "additionalProperties", m{"type": "number"}), m{"amont": int64(1)}, ""},
		{"said to be closed", with(amount, "additionalProperties", false), m{"amont": int64(1)}, unknown},
		{"by unevaluatedProperties", with(amount, "unevaluatedProperties", true), m{"amont": int64(1)}, ""},
		{"by a pattern", with(amount, "patternProperties", m{"^amo": m{}}), m{"amont": int64(1)}, ""},
		{"by another part", with(amount, "anyOf", []any{m{"properties": m{"amont": m{}}}}), m{"amont": int64(1)}, ""},
		{"by a reference", with(with(amount, "$defs", m{"x": m{"properties": m{"amont": m{}}}}), "$ref", "#/$defs/x"), m{"amont": int64(1)}, ""},
		{"deep", m{"type": "object", "properties": m{"order": amount}}, m{"order": m{"amont": int64(1)}},
			`/order/amont: is not a known property` + "\n  hint: did you mean \"amount\"? known here: amount, note"},
		{"in a list", m{"type": "array", "items": amount}, []any{m{"amont": int64(1)}},
			`/0/amont: is not a known property` + "\n  hint: did you mean \"amount\"? known here: amount, note"},
		{"no names at all", m{"type": "object"}, m{"amont": int64(1)}, ""},
		{"anything", nil, m{"amont": int64(1)}, ""},
		{"as a type", true, m{"amont": int64(1)}, ""},
	} {
		for what, p := range map[string]*resume.Pause{
			"form":   {ID: "ask", Kind: resume.Human, Step: "ask", Schema: tt.schema, Decisions: []string{"approve", "reject"}},
			"answer": {ID: "ask", Kind: resume.Human, Step: "ask", Schema: tt.schema},
		} {
			answer, want := tt.form, ""
			if what == "form" {
				answer = m{"decision": "approve", "form": tt.form}
			}
			if tt.want != "" {
				want = "the " + what + ` for human pause "ask" of step "ask": ` + tt.want
			}
			got := ""
			if _, err := p.Check(answer); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s, %s: %s\nwant %s", tt.name, what, got, want)
			}
		}
	}
}
