package expr

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
)

// Program is a compiled condition.
type Program struct{ expr *expression }

// Condition compiles a bare expression that must be a boolean. With errors the program is nil.
func (s *Scope) Condition(src Source) (*Program, diagnostics.List) {
	src = src.indexed()
	e, list := s.compile(src, src.Text, 0, 0)
	switch {
	case e == nil && strings.HasPrefix(strings.TrimSpace(src.Text), "${{"):
		p := &problem{diagnostics.CodeExprSyntax, "a condition is a bare expression", "leave out ${{ and }}"}
		return nil, diagnostics.List{p.at(src.at(0))}
	case e == nil:
		return nil, list
	case e.static.kinds&boolean == 0:
		p := &problem{diagnostics.CodeExprType,
			fmt.Sprintf("a condition must be a boolean, not %s", e.static.kinds), ""}
		return nil, diagnostics.List{p.at(src.at(0))}
	}
	return &Program{e}, list
}

// Bool evaluates the condition. Errors are *Error.
func (p *Program) Bool(env Env) (bool, error) {
	v, err := p.expr.eval(env, &budget{maxWork, maxMemory})
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, &Error{p.expr.pos, p.expr.source, fmt.Errorf("a condition must be a boolean, not %s", kindOf(v))}
	}
	return b, nil
}

// Refs lists what the condition refers to, in order of appearance.
func (p *Program) Refs() []Ref { return slices.Clone(p.expr.refs) }

// Wants lists what must hold of steps for the condition to be true, as far as that is known.
func (p *Program) Wants() []Want { return p.expr.wants }

// Template is a value with expressions in it. A nil Template is the literal null.
type Template struct {
	form    form
	literal any
	expr    *expression
	secret  string
	parts   []*Template // of a string, or the items of a list or map
	keys    []string    // of a map
	sealed  bool        // secrets are inside
	escape  Escape      // of a part of a URL
	refs    []Ref

	pos    diagnostics.Position // of a string, for messages
	source string
}

type form uint8

const (
	formLiteral form = iota
	formExpr
	formSecret
	formText
	formList
	formMap
)

// Sealed is a string that holds secrets, as references: only who makes the call opens it.
type Sealed struct{ Parts []SealedPart }

// SealedPart is a piece of the string: a text, or a secret.
type SealedPart struct {
	Text   string
	Secret string // a name
	Escape Escape // of the secret
}

// Literal is the template of v itself, which is decoded JSON.
func Literal(v any) *Template { return &Template{literal: v} }

// List is the template of a list. It is a literal when all its items are.
func List(items []*Template) *Template { return compose(formList, nil, items) }

// Map is the template of a map from keys[i] to items[i]. It is a literal when all its items are.
func Map(keys []string, items []*Template) *Template { return compose(formMap, keys, items) }

func compose(f form, keys []string, items []*Template) *Template {
	t := &Template{form: f, keys: keys, parts: items}
	t.gather()
	if !slices.ContainsFunc(items, func(item *Template) bool { return !item.IsLiteral() }) {
		v, _ := t.Eval(nil) // only expressions fail
		return Literal(v)
	}
	return t
}

func (t *Template) gather() {
	for _, part := range t.parts {
		if part != nil {
			t.refs = append(t.refs, part.refs...)
			t.sealed = t.sealed || part.sealed
		}
	}
}

// Text compiles a scalar that may hold ${{ }}. With errors the template is nil; a list without any has warnings.
//
//  1. split the text into literal pieces and expressions
//  2. compile each expression; one that is the whole text keeps its type
//  3. otherwise join the pieces; where all are constant, now
func (s *Scope) Text(src Source) (*Template, diagnostics.List) {
	src = src.indexed()
	pieces, unclosed := split(src.Text)
	if unclosed >= 0 {
		p := &problem{diagnostics.CodeExprSyntax, `"${{" is not closed`,
			"end it with }}, and quote the text if it holds a #; $${{ stands for the characters ${{"}
		return nil, diagnostics.List{p.at(src.at(unclosed))}
	}
	t := &Template{form: formText}
	suspects := s.suspects(src, pieces)
	var problems diagnostics.List // of the expressions
	for i, p := range pieces {
		part := Literal(p.text)
		if p.expression {
			e, list := s.compile(src, p.text, p.column, p.column+len("${{"))
			if list.HasErrors() || len(problems) < maxProblems {
				problems = append(problems, list...)
			}
			part = e.template()
			if part != nil && s.URL {
				part.escape = escapeAfter(pieces[:i])
			}
		}
		t.parts = append(t.parts, part)
		if problems.HasErrors() && len(problems) >= maxProblems {
			break
		}
	}
	switch {
	case problems.HasErrors():
		return nil, append(problems, suspects...)
	case len(pieces) == 0:
		return Literal(""), nil
	}
	warnings := append(problems, suspects...)
	if len(pieces) == 1 {
		return t.parts[0], warnings
	}
	t.gather()
	if !slices.ContainsFunc(t.parts, func(part *Template) bool { return !part.IsLiteral() }) {
		if v, err := t.Eval(nil); err == nil {
			return Literal(v), warnings
		}
	}
	t.pos, t.source = src.Pos, src.Text
	return t, warnings
}

// template is an expression by itself. One whose value is known already is a literal.
func (e *expression) template() *Template {
	switch {
	case e == nil:
		return nil
	case e.secret != "":
		return &Template{form: formSecret, secret: e.secret, sealed: true, refs: e.refs}
	case e.static.known && len(e.refs) == 0:
		return Literal(e.static.value)
	}
	return &Template{form: formExpr, expr: e, refs: e.refs}
}

// piece is a part of a scalar: text as it stands, or an expression without its ${{ and }}.
type piece struct {
	text       string
	expression bool
	column     int // of its first character, or of the ${{, from 0
}

// split finds the expressions in a text. When one is not closed it returns its column, else -1.
func split(rest string) (pieces []piece, unclosed int) {
	column := 0
	take := func(text, source string, expression bool) {
		if text != "" || expression {
			pieces = append(pieces, piece{text, expression, column})
		}
		column += utf8.RuneCountInString(source)
		rest = rest[len(source):]
	}
	for {
		i, escaped := value.NextExpression(rest)
		switch {
		case i < 0:
			take(rest, rest, false)
			return pieces, -1
		case escaped:
			take(rest[:i], rest[:i], false)
			take("${{", "$${{", false)
			continue
		}
		take(rest[:i], rest[:i], false)
		end := closing(rest)
		if end < 0 {
			return nil, column
		}
		take(rest[3:end-2], rest[:end], true)
	}
}

// closing is the end of the expression that s begins with, after its }}, or -1. Braces of maps and
// whatever stands in quotes do not close it.
func closing(s string) int {
	depth := 0
	for i := len("${{"); i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\'', '`':
			for i++; i < len(s) && s[i] != c; i++ {
				if s[i] == '\\' && c != '`' {
					i++
				}
			}
		case '{':
			depth++
		case '}':
			if depth == 0 && i+1 < len(s) && s[i+1] == '}' {
				return i + 2
			}
			depth = max(0, depth-1)
		}
	}
	return -1
}

// IsLiteral reports whether the template holds no expression.
func (t *Template) IsLiteral() bool { return t == nil || t.form == formLiteral }

// Literal is the value of a literal, which must not be changed; nil for other templates.
func (t *Template) Literal() any {
	if t == nil {
		return nil
	}
	return t.literal
}

// Refs lists what the template refers to, in order of appearance.
func (t *Template) Refs() []Ref {
	if t == nil {
		return nil
	}
	return slices.Clone(t.refs)
}

// HasSecrets reports whether the value will hold a Sealed.
func (t *Template) HasSecrets() bool { return t != nil && t.sealed }

// Bound says how large the value can become at most, as canonical JSON: fixed bytes, and for each of
// paths twice the largest value of the environment, which may have to be escaped inside a string.
// ok is false when expressions compute, so that nothing is known.
func (t *Template) Bound() (fixed, paths int, ok bool) {
	if t == nil {
		return len("null"), 0, true
	}
	switch t.form {
	case formLiteral:
		fixed, err := value.Size(t.literal, math.MaxInt32)
		return fixed, 0, err == nil
	case formExpr:
		if p := t.expr.path; p != nil {
			switch p.root {
			case rootInputs, rootVar, rootOutput, rootStatus:
				return len("succeeded"), 1, true
			}
		}
		return 0, 0, false
	case formSecret:
		return 0, 0, false
	}
	fixed = len("[]")
	for i, part := range t.parts {
		if part != nil && part.escape != "" {
			return 0, 0, false
		}
		f, p, ok := part.Bound()
		if !ok {
			return 0, 0, false
		}
		fixed, paths = fixed+f+len(","), paths+p
		if t.form == formMap {
			n, _ := value.Size(t.keys[i], math.MaxInt32)
			fixed += n + len(":")
		}
	}
	return fixed, paths, true
}

// Eval makes the value: decoded JSON, and Sealed where secrets are used. Containers that are
// written in the recipe, consts among them, are new each time; inputs and what steps and variables
// hold is not copied. Errors are *Error.
func (t *Template) Eval(env Env) (any, error) {
	return t.eval(env, &budget{templateFactor * maxWork, templateFactor * maxMemory})
}

func (t *Template) eval(env Env, b *budget) (any, error) {
	if t == nil {
		return nil, nil
	}
	switch t.form {
	case formExpr:
		return t.expr.eval(env, b)
	case formSecret:
		return Sealed{[]SealedPart{{Secret: t.secret}}}, nil
	case formText:
		return t.join(env, b)
	case formList:
		out := make([]any, len(t.parts))
		for i, part := range t.parts {
			v, err := part.eval(env, b)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case formMap:
		out := make(map[string]any, len(t.parts))
		for i, part := range t.parts {
			v, err := part.eval(env, b)
			if err != nil {
				return nil, err
			}
			out[t.keys[i]] = v
		}
		return out, nil
	}
	return value.Clone(t.literal), nil
}

// join renders the parts of a string into one, around secrets.
func (t *Template) join(env Env, b *budget) (any, error) {
	var sealed []SealedPart
	var out strings.Builder
	size := 0
	for _, part := range t.parts {
		if part.form == formSecret {
			if out.Len() > 0 {
				sealed = append(sealed, SealedPart{Text: out.String()})
				out.Reset()
			}
			sealed = append(sealed, SealedPart{Secret: part.secret, Escape: part.escape})
			continue
		}
		v, err := part.eval(env, b)
		if err != nil {
			return nil, err
		}
		text, err := render(v)
		text = part.escape.Apply(text)
		size += len(text)
		b.memory -= len(text)
		switch {
		case err == nil && size > maxString:
			err = errTooLong
		case err == nil && b.memory < 0:
			err = errTooMuch
		}
		if err != nil {
			return nil, &Error{t.pos, t.source, err}
		}
		out.WriteString(text)
	}
	if sealed == nil {
		return out.String(), nil
	}
	if out.Len() > 0 {
		sealed = append(sealed, SealedPart{Text: out.String()})
	}
	return Sealed{sealed}, nil
}

// Open returns a copy of v in which every Sealed is the string that it stands for: secret gives the pieces that are
// secrets, escaped. It fails where secret does.
func Open(v any, secret func(part SealedPart) (string, error)) (any, error) {
	switch v := v.(type) {
	case Sealed:
		var b strings.Builder
		for _, part := range v.Parts {
			text := part.Text
			if part.Secret != "" {
				var err error
				if text, err = secret(part); err != nil {
					return nil, err
				}
			}
			b.WriteString(text)
		}
		return b.String(), nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			w, err := Open(e, secret)
			if err != nil {
				return nil, err
			}
			out[i] = w
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) { // so that the first error is always the same
			w, err := Open(v[k], secret)
			if err != nil {
				return nil, err
			}
			out[k] = w
		}
		return out, nil
	}
	return v, nil
}
