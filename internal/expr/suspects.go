package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
)

// braces matches {{ name… }}, ${ name… } and {name}, which other engines take for expressions. Of each the group is
// what stands inside.
var braces = regexp.MustCompile(`\{\{-?\s*([a-zA-Z_][^{}]*?)\s*-?\}\}` +
	`|\$\{\s*([a-zA-Z_][^{}]*?)\s*\}|\{([a-zA-Z_]\w*)\}`)

var (
	firstName = regexp.MustCompile(`^\w+`)
	// read matches the beginning of a text that reads an input or a step, with the names in it.
	read = regexp.MustCompile(`^(inputs|steps)\??\.(\w+)(?:\??\.(\w+))?`)
)

// maxSuspects is how many are reported of one scalar.
const maxSuspects = 10

// Suspects warns of what stands in a text that is no template, but was probably meant as one.
func (s *Scope) Suspects(src Source) diagnostics.List {
	return s.suspects(src.indexed(), []piece{{text: src.Text}})
}

// suspects warns of text that was probably meant as an expression: a scalar that is one, and braces between
// expressions.
func (s *Scope) suspects(src Source, pieces []piece) (list diagnostics.List) {
	if s.Braces {
		return nil
	}
	warn := func(found, hint string, at int) {
		list = append(list, diagnostics.Diagnostic{
			Level: diagnostics.Warn, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeExprText,
			Message: fmt.Sprintf("%q is plain text here", shorten(found)), Hint: hint, Position: src.at(at),
		})
	}
	if text := strings.TrimSpace(src.Text); s.bare(text) {
		warn(text, meant(text), utf8.RuneCountInString(src.Text[:strings.Index(src.Text, text)]))
		return list
	}
	for _, p := range pieces {
		if p.expression || !strings.Contains(p.text, "{") {
			continue
		}
		for _, m := range braces.FindAllStringSubmatchIndex(p.text, -1) {
			group := 1
			for m[2*group] < 0 {
				group++
			}
			hint := s.braced(group, p.text[m[2*group]:m[2*group+1]])
			if hint != "" && len(list) < maxSuspects {
				warn(p.text[m[0]:m[1]], hint, p.column+utf8.RuneCountInString(p.text[:m[0]]))
			}
		}
	}
	return list
}

func meant(expression string) string {
	return fmt.Sprintf("did you mean \"${{ %s }}\"?", shorten(expression))
}

// bare reports whether a text is an expression that reads an input or a step.
func (s *Scope) bare(text string) bool {
	m := read.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	_, known := s.Inputs[m[2]]
	if m[1] == "steps" {
		_, known = s.step(m[2])
		known = known || stepFields[m[3]] != 0
	}
	if !known { // the name of a file, such as inputs.csv
		return false
	}
	_, wrong := parse(text)
	return wrong == nil
}

// braced is the hint about a text in braces of a group of [braces]; "": it means what it says.
func (s *Scope) braced(group int, inside string) string {
	name := firstName.FindString(inside)
	rest := strings.TrimLeft(inside[len(name):], " ")
	_, isInput := s.Inputs[name]
	switch prose := s.Prose && rest == "" && isInput; {
	case group < 3 && s.begins(name, rest):
		return meant(inside)
	case group > 1 && !prose:
		return ""
	}
	if _, wrong := parse(inside); wrong != nil {
		return ""
	}
	if _, isStep := s.step(name); isInput {
		return meant("inputs." + inside)
	} else if isStep {
		return meant("steps." + name + ".output" + inside[len(name):])
	}
	return "write an expression as ${{ … }}"
}

// begins reports whether an expression that begins with a name, followed by rest, reads something of the scope.
func (s *Scope) begins(name, rest string) bool {
	if slices.Contains([]string{"inputs", "consts", "steps", "run", "secrets"}, name) {
		return strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "?.") || strings.HasPrefix(rest, "[")
	}
	_, _, ok := s.variable(name)
	return ok
}
