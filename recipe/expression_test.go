package recipe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/recipe"
)

func TestHasExpression(t *testing.T) {
	for _, tt := range []struct {
		text    string
		want    bool
		literal string
	}{
		{"", false, ""},
		{"plain", false, "plain"},
		{"$ {{ a }}", false, "$ {{ a }}"},
		{"{{ a }}", false, "{{ a }}"},
		{"${ a }", false, "${ a }"},
		{"${{ a }}", true, "${{ a }}"},
		{"not closed ${{", true, "not closed ${{"},
		{"$${{ a }}", false, "${{ a }}"},
		{"a $${{ b", false, "a ${{ b"},
		{"$$${{", false, "$${{"},
		{"$$${{{{", false, "$${{{{"}, // taking the escape out would make an opening of what stands beside it
		{"$${{${{ a }}", true, "$${{${{ a }}"},
		{"$${{ a }} ${{ b }}", true, "$${{ a }} ${{ b }}"},
		{"$${{ a }} $${{ b }}", false, "${{ a }} ${{ b }}"},
		{"${{ a }} $${{ b }}", true, "${{ a }} $${{ b }}"},
	} {
		v := &recipe.Value{Scalar: tt.text}
		if got := v.HasExpression(); got != tt.want {
			t.Errorf("HasExpression of %q = %t, want %t", tt.text, got, tt.want)
		}
		if got := v.Literal(); got != tt.literal {
			t.Errorf("Literal of %q = %q, want %q", tt.text, got, tt.literal)
		}
	}
}

func TestHasExpressionInside(t *testing.T) {
	expression, escape := &recipe.Value{Scalar: "${{ a }}"}, &recipe.Value{Scalar: "$${{ a }}"}
	list := func(items ...*recipe.Value) *recipe.Value { return &recipe.Value{IsList: true, List: items} }
	object := func(v *recipe.Value) *recipe.Value {
		return &recipe.Value{IsMap: true, Map: []recipe.Field{{Key: "${{ k }}", Value: v}}}
	}
	for _, tt := range []struct {
		name    string
		v       *recipe.Value
		want    bool
		literal any
	}{
		{"nil", nil, false, nil},
		{"a number", &recipe.Value{Scalar: int64(1)}, false, int64(1)},
		{"a list with one", list(escape, expression), true, []any{"${{ a }}", "${{ a }}"}},
		{"a list without", list(escape, nil), false, []any{"${{ a }}", nil}},
		{"deep", list(object(list(expression))), true, []any{map[string]any{"${{ k }}": []any{"${{ a }}"}}}},
		{"a key", object(escape), false, map[string]any{"${{ k }}": "${{ a }}"}},
	} {
		if got := tt.v.HasExpression(); got != tt.want {
			t.Errorf("%s: HasExpression = %t, want %t", tt.name, got, tt.want)
		}
		if diff := cmp.Diff(tt.literal, tt.v.Literal()); diff != "" {
			t.Errorf("%s: Literal: (-want +got)\n%s", tt.name, diff)
		}
	}
}
