package recipe

import (
	"slices"

	"github.com/braise-run/braise/internal/value"
)

// HasExpression reports whether v, or any value in it, is a text that holds an expression: a ${{ that
// is not written $${{, which stands for the characters ${{. It is false for nil. It says nothing about
// keys, nor whether the expression is a good one.
func (v *Value) HasExpression() bool {
	if v == nil {
		return false
	}
	text, _ := v.Scalar.(string)
	return value.HoldsExpression(text) ||
		slices.ContainsFunc(v.List, (*Value).HasExpression) ||
		slices.ContainsFunc(v.Map, func(f Field) bool { return f.Value.HasExpression() })
}

// Literal returns v as decoded JSON, as it evaluates: $${{ is read as ${{ in every text that holds no
// expression. Texts that hold one are returned as written. It is for values that may hold expressions;
// Decoded returns all others. Each call returns a new value; nil for nil.
func (v *Value) Literal() any {
	return v.decoded(func(text string) string {
		if value.HoldsExpression(text) {
			return text
		}
		return value.Unescape(text)
	})
}
