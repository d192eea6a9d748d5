package expr

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"github.com/braise-run/braise/diagnostics"
)

// compiler turns one expression into code.
type compiler struct {
	scope *Scope
	src   Source
	begin int // of the expression in src.Text, in characters

	list     diagnostics.List
	refs     []Ref
	lets     []let       // in scope
	vars     int         // all that were ever in scope
	pointers []predicate // the predicates around, innermost last
	nodes    int
	builds   bool
	consts   bool
}

type let struct {
	name   string
	slot   int
	static static
}

// predicate is the function whose predicate is being lowered, and the type of its list's items.
type predicate struct {
	name string
	item static
}

// compile compiles text, which begins at the character begin of src.Text. The position of the
// expression is that of the character at. It returns nil when there are errors.
func (s *Scope) compile(src Source, source string, at, begin int) (*expression, diagnostics.List) {
	c := &compiler{scope: s, src: src, begin: begin}
	e := &expression{source: strings.TrimSpace(source), pos: src.at(at)}
	defer func() { e.refs = c.refs }()
	node, err := parse(source)
	if err != nil {
		c.reportAt(err.from, &err.problem)
		return nil, c.list
	}
	if name, ok := secretName(node); ok && s.Secrets {
		c.refs = []Ref{{Kind: RefSecret, Name: name, Optional: true, Pos: c.at(node)}}
		e.secret, e.static = name, of(text)
		return e, nil
	}
	o := c.whole(node)
	if c.list.HasErrors() {
		return nil, c.list
	}
	e.run, e.path, e.static, e.vars, e.builds, e.consts = o.run, o.path, o.static, c.vars, c.builds, c.consts
	return e, c.list
}

// secretName recognises secrets.NAME.
func secretName(n ast.Node) (string, bool) {
	m, ok := n.(*ast.MemberNode)
	if !ok || m.Optional {
		return "", false
	}
	if id, ok := m.Node.(*ast.IdentifierNode); !ok || id.Value != "secrets" {
		return "", false
	}
	return fieldName(m)
}

// stop ends the compilation of an expression.
type stop struct{}

// whole lowers a tree.
func (c *compiler) whole(node ast.Node) operand {
	defer func() {
		switch r := recover().(type) {
		case nil, stop:
		case failure: // a value of the scope that is not decoded JSON, for one
			c.reportAt(0, &problem{diagnostics.CodeExprType, r.err.Error(), ""})
		default:
			panic(r)
		}
	}()
	return c.lower(node)
}

// count pays for a node. The parser shares nodes (a < b < c is a < b && b < c), so a small tree may
// unfold to an exponentially large one.
func (c *compiler) count() {
	if c.nodes++; c.nodes > maxNodes {
		c.reportAt(0, tooLarge)
		panic(stop{})
	}
}

var tooLarge = &problem{diagnostics.CodeExprBound,
	fmt.Sprintf("the expression is too large: over %d parts", maxNodes), ""}

// start is where a node begins, in characters. For an operator it is the operator itself.
func start(n ast.Node) int {
	base, _ := chain(n)
	return base.Location().From
}

func (c *compiler) at(n ast.Node) diagnostics.Position { return c.src.at(c.begin + start(n)) }

func (c *compiler) report(n ast.Node, p *problem) { c.reportAt(start(n), p) }

func (c *compiler) reportAt(from int, p *problem) {
	c.list = append(c.list, p.at(c.src.at(c.begin+from)))
	c.list.Sort() // drops what a shared node repeats
	if len(c.list) == maxProblems {
		panic(stop{})
	}
}

// warn reports what need not fail. There is room left for an error.
func (c *compiler) warn(n ast.Node, p *problem) {
	if len(c.list) < maxProblems-1 {
		d := p.at(c.at(n))
		d.Level = diagnostics.Warn
		c.list = append(c.list, d)
		c.list.Sort()
	}
}

func (c *compiler) typeError(n ast.Node, hint, format string, args ...any) operand {
	c.report(n, &problem{diagnostics.CodeExprType, fmt.Sprintf(format, args...), hint})
	return nothing
}

// want reports a value that can never be of the kinds allowed.
func (c *compiler) want(n ast.Node, what string, t static, allowed kinds) bool {
	if t.kinds&allowed == 0 {
		c.typeError(n, "", "%s must be %s, not %s", what, allowed, t.kinds)
		return false
	}
	return true
}

// syntaxError is why a text is not an expression.
type syntaxError struct {
	problem
	from int // in characters
}

// parse reads one expression with the library's parser.
func parse(text string) (node ast.Node, wrong *syntaxError) {
	invalid := func(message string) *syntaxError {
		return &syntaxError{problem: problem{code: diagnostics.CodeExprSyntax, message: message}}
	}
	switch {
	case len(text) > maxSource:
		return nil, &syntaxError{problem: problem{diagnostics.CodeExprBound,
			fmt.Sprintf("an expression of %d bytes is over the limit of %d KiB", len(text), maxSource>>10), ""}}
	case !utf8.ValidString(text):
		return nil, invalid("the expression is not valid UTF-8")
	case strings.TrimSpace(text) == "":
		return nil, invalid("the expression is empty")
	}
	defer func() {
		if r := recover(); r != nil {
			node, wrong = nil, invalid("this is not an expression")
		}
	}()
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, rewordSyntax(text, err)
	}
	return tree.Node, nil
}

var unexpectedToken = regexp.MustCompile(`^unexpected token \w+\((".*")\)$`)

// bareMap matches what stands before the colon, or the closing brace, of a map that is written as a
// predicate: there the braces are those of the predicate.
var bareMap = regexp.MustCompile(`[,(]\s*\{(\s*("[^"]*"|'[^']*'|\w+|\([^()]*\)))?\s*$`)

// rewordSyntax says in this package's words what the parser found in text.
func rewordSyntax(text string, err error) *syntaxError {
	s := &syntaxError{problem: problem{code: diagnostics.CodeExprSyntax, message: err.Error()}}
	var e *file.Error
	if !errors.As(err, &e) {
		return s
	}
	s.from, s.message = e.From, e.Message
	token := ""
	if m := unexpectedToken.FindStringSubmatch(e.Message); m != nil {
		token = m[1]
		s.message = "unexpected " + token
	}
	switch {
	case strings.Contains(e.Message, "cannot be mixed"):
		s.message = `"??" is mixed with another operator`
		s.hint = "put parentheses around one of them: (a ?? b) == c"
	case token == `"="`:
		s.hint = "compare with =="
	case token == `"#"`:
		s.hint = "# stands in the predicate of a function such as filter or map: is the function's name right?"
	case (token == `":"` || token == `"}"`) && bareMap.MatchString(firstRunes(text, e.From)):
		s.hint = "a map in a predicate needs parentheses around it: map(list, ({id: #.id}))"
	case token == `"?"` || token == `":"`:
		s.hint = "a choice is written: condition ? this : that"
	case strings.HasPrefix(e.Message, "unexpected token EOF"), e.Message == "unexpected end of expression":
		s.message = "the expression ends too early"
	case e.Message == "literal not terminated":
		s.message = "a string has no closing quote"
		if strings.Contains(text, "\n") {
			s.hint = `no string holds a line break; in YAML's double quotes \n makes one: write \\n`
		}
	case strings.HasPrefix(e.Message, "unrecognized character"):
		s.message = "unexpected character" + strings.TrimPrefix(e.Message, "unrecognized character:")
	case strings.HasPrefix(e.Message, "compilation failed"):
		s.problem = *tooLarge
	case strings.Contains(e.Message, "invalid integer literal"):
		s.message = "the integer is too large"
	case strings.Contains(e.Message, "invalid float literal"):
		s.message = "the number is too large"
	}
	return s
}

// firstRunes returns the first n characters of s.
func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
