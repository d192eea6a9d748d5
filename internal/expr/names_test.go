package expr

import (
	"strings"
	"testing"
)

// What a text can be is known where it stands there, where a constant has it, or where the schema of an input lists it.
func TestNames(t *testing.T) {
	words := map[string]any{"type": "string", "enum": []any{"b", "a"}}
	scope := &Scope{
		Inputs: map[string]any{"flag": map[string]any{"type": "boolean"}, "one": words, "any": true,
			"maybe": map[string]any{"enum": []any{"a", nil}},
			"list":  map[string]any{"type": "array", "items": words}, "open": map[string]any{"type": "array"}},
		Consts: map[string]any{"word": "c", "words": []any{"c", "d"}, "mixed": []any{"c", int64(1)}},
	}
	for _, tt := range []struct {
		text  string
		names string
		all   bool
		is    string // a list, a string …
	}{
		{"plain", "plain", true, "a string"},
		{`${{ "a" }}`, "a", true, "a string"},
		{`${{ consts.word }}`, "c", true, "a string"},
		{`${{ consts.words }}`, "c d", true, "a list"},
		{`${{ consts.mixed }}`, "c", false, "a list"},
		{`${{ inputs.flag ? "a" : "b" }}`, "a b", true, "a string"},
		{`${{ inputs.flag ? "a" : inputs.flag ? "b" : "c" }}`, "a b c", true, "a string"},
		{`${{ inputs.flag ? "a" : inputs.any }}`, "a", false, "any value"},
		{`${{ inputs.flag ? ["a", "b"] : [] }}`, "a b", true, "a list"},
		{`${{ [inputs.flag ? "a" : "b", "c"] }}`, "a b c", true, "a list"},
		{`${{ [inputs.any, "c"] }}`, "c", false, "a list"},
		{`${{ inputs.any ?? "a" }}`, "a", false, "a boolean or a number or a string or a list or a map"},
		{`${{ inputs.one }}`, "a b", true, "a string"},
		{`${{ inputs.list }}`, "a b", true, "a list"},
		{`${{ inputs.maybe }}`, "a", false, "null or a string"},
		{`${{ inputs.open }}`, "", false, "a list"},
		{`${{ inputs.open[0] }}`, "", false, "any value"},
		{`${{ inputs.flag }}`, "", false, "a boolean"},
		{`${{ 1 }}`, "", false, "a number"},
		{`a${{ inputs.one }}`, "", false, "a string"},
		{`${{ run.id }}`, "", false, "a string"},
	} {
		tmpl, list := scope.Text(source(tt.text))
		if err := list.Err(); err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		names, all := tmpl.Names()
		got := map[string]bool{}
		for _, name := range names {
			got[name] = true
		}
		want := strings.Fields(tt.names)
		for _, name := range want {
			if !got[name] {
				t.Errorf("%s: %q is not among %q", tt.text, name, names)
			}
		}
		if len(got) != len(want) || all != tt.all {
			t.Errorf("%s: got %q, %t, want %q, %t", tt.text, names, all, want, tt.all)
		}
		is, isText := tmpl.Gives(false)
		_, isList := tmpl.Gives(true)
		may := func(kind string) bool { return strings.Contains(tt.is, kind) || tt.is == "any value" }
		if is != tt.is || isText != may("a string") || isList != may("a list") {
			t.Errorf("%s: got %s, a string %t, a list %t, want %s", tt.text, is, isText, isList, tt.is)
		}
	}
}

// A list that is written in place has the names of its items.
func TestNamesOfItems(t *testing.T) {
	scope := &Scope{Inputs: map[string]any{"flag": map[string]any{"type": "boolean"}, "any": true}}
	item := func(text string) *Template {
		tmpl, list := scope.Text(source(text))
		if err := list.Err(); err != nil {
			t.Fatal(err)
		}
		return tmpl
	}
	for _, tt := range []struct {
		last string
		want string
		all  bool
	}{
		{`${{ inputs.flag ? "b" : "" }}`, " a b", true},
		{`${{ inputs.any }}`, "a", false},
		{"c", "a c", true},
	} {
		names, all := List([]*Template{item("a"), item(tt.last)}).Names()
		if got := strings.Join(names, " "); got != tt.want || all != tt.all {
			t.Errorf("%s: got %q, %t, want %q, %t", tt.last, got, all, tt.want, tt.all)
		}
	}
}
