package value

import "strings"

// NextExpression finds the first ${{ of a text as written in a recipe; at is -1 when there is none. Where it is written
// $${{, which stands for the characters ${{, escaped is true and at is the place of the first $. Texts are read from
// the left: in $$${{ the last three characters are escaped by the second one.
func NextExpression(text string) (at int, escaped bool) {
	at = strings.Index(text, "${{")
	if at > 0 && text[at-1] == '$' {
		return at - 1, true
	}
	return at, false
}

// HoldsExpression reports whether a text, as written, holds a ${{ that is not escaped.
func HoldsExpression(text string) bool {
	for {
		at, escaped := NextExpression(text)
		if !escaped {
			return at >= 0
		}
		text = text[at+len("$${{"):]
	}
}

// Unescape returns a text, as written, with $${{ read as ${{. It is for texts that hold no expression.
func Unescape(text string) string { return strings.ReplaceAll(text, "$${{", "${{") }
