package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr/syntax"
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
	sure     []string    // steps whose outputs are not null here
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
	e.wants = c.wants(node)
	return e, c.list
}

// secretName recognises secrets.NAME.
func secretName(n syntax.Node) (string, bool) {
	m, ok := n.(*syntax.Member)
	if !ok || m.Optional {
		return "", false
	}
	if id, ok := m.Node.(*syntax.Name); !ok || id.Value != "secrets" {
		return "", false
	}
	return fieldName(m)
}

// stop ends the compilation of an expression.
type stop struct{}

// whole lowers a tree.
func (c *compiler) whole(node syntax.Node) operand {
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
func start(n syntax.Node) int {
	base, _ := chain(n)
	return base.At()
}

func (c *compiler) at(n syntax.Node) diagnostics.Position { return c.src.at(c.begin + start(n)) }

func (c *compiler) report(n syntax.Node, p *problem) { c.reportAt(start(n), p) }

func (c *compiler) reportAt(from int, p *problem) {
	c.list = append(c.list, p.at(c.src.at(c.begin+from)))
	c.list.Sort() // drops what a shared node repeats
	if len(c.list) == maxProblems {
		panic(stop{})
	}
}

// warn reports what need not fail. There is room left for an error.
func (c *compiler) warn(n syntax.Node, p *problem) {
	if len(c.list) < maxProblems-1 {
		d := p.at(c.at(n))
		d.Level = diagnostics.Warn
		c.list = append(c.list, d)
		c.list.Sort()
	}
}

func (c *compiler) typeError(n syntax.Node, hint, format string, args ...any) operand {
	c.report(n, &problem{diagnostics.CodeExprType, fmt.Sprintf(format, args...), hint})
	return nothing
}

// want reports a value that can never be of the kinds allowed.
func (c *compiler) want(n syntax.Node, what string, t static, allowed kinds) bool {
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

// parse reads one expression.
func parse(text string) (syntax.Node, *syntaxError) {
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
	node, wrong := syntax.Parse(text)
	switch {
	case wrong == nil:
		return node, nil
	case wrong.TooLarge:
		return nil, &syntaxError{problem: *tooLarge}
	}
	return nil, &syntaxError{problem{diagnostics.CodeExprSyntax, wrong.Message, wrong.Hint}, wrong.At}
}
