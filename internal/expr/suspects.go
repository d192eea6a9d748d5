package expr

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
)

// braces matches {{ name… }} and ${ name… }, which other engines take for expressions.
var braces = regexp.MustCompile(`\{\{-?\s*(([a-zA-Z_]\w*)[^{}]*?)\s*-?\}\}|\$\{\s*(([a-zA-Z_]\w*)[^{}]*?)\s*\}`)

// maxSuspects is how many are reported of one scalar.
const maxSuspects = 10

// suspects warns of braces in the text between expressions that begin with a name in scope.
func (s *Scope) suspects(src Source, pieces []piece) (list diagnostics.List) {
	if s.Braces || !strings.Contains(src.Text, "{") {
		return nil
	}
	for _, p := range pieces {
		if p.expression {
			continue
		}
		for _, m := range braces.FindAllStringSubmatchIndex(p.text, -1) {
			at := 2 // where the groups of the alternative are
			if m[at] < 0 {
				at = 6
			}
			inner, name := p.text[m[at]:m[at+1]], p.text[m[at+2]:m[at+3]]
			if !s.begins(name, strings.TrimLeft(inner[len(name):], " ")) || len(list) == maxSuspects {
				continue
			}
			list = append(list, diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeExprText,
				Message:  fmt.Sprintf("%q is plain text here", shorten(p.text[m[0]:m[1]])),
				Hint:     fmt.Sprintf("did you mean \"${{ %s }}\"?", shorten(inner)),
				Position: src.at(p.column + utf8.RuneCountInString(p.text[:m[0]])),
			})
		}
	}
	return list
}

// begins reports whether an expression that begins with a name, followed by rest, reads something of the scope.
func (s *Scope) begins(name, rest string) bool {
	switch name {
	case "inputs", "consts", "steps", "run", "secrets":
		return strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "?.") || strings.HasPrefix(rest, "[")
	}
	_, _, ok := s.variable(name)
	return ok
}
