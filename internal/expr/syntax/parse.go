package syntax

import (
	"fmt"
	"regexp"
)

// maxNodes limits the tree. Nodes that are shared count once.
const maxNodes = 10_000

// Parse reads one expression, which is valid UTF-8. Only the first mistake is reported.
func Parse(text string) (node Node, wrong *Error) {
	p := &parser{lexer: lexer{text: text}}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			node, wrong = nil, r
		default:
			panic(r)
		}
	}()
	p.next()
	node = p.sequence()
	if p.token.kind != end {
		p.unexpected()
	}
	return node, nil
}

// parser reads an expression by descent: each method reads what it is named after, from the current token on.
type parser struct {
	lexer lexer
	token token  // the current one
	last  int    // where the one before it ends, in bytes
	saved *token // the one after it, if that has been read
	depth int    // predicates around
	nodes int
}

func (p *parser) next() {
	p.last = p.token.to
	if p.saved != nil {
		p.token, p.saved = *p.saved, nil
		return
	}
	p.token = p.lexer.token()
}

// peek is the token after the current one.
func (p *parser) peek() token {
	if p.saved == nil {
		t := p.lexer.token()
		p.saved = &t
	}
	return *p.saved
}

// place is where a new node begins.
func (p *parser) place(t token) place {
	if p.nodes++; p.nodes > maxNodes {
		panic(&Error{Message: "the expression is too large", TooLarge: true})
	}
	return place(t.at)
}

func (p *parser) at(k kind, value string) bool { return p.token.is(k, value) }

// skip passes over the current token if it is this one.
func (p *parser) skip(k kind, value string) bool {
	ok := p.at(k, value)
	if ok {
		p.next()
	}
	return ok
}

func (p *parser) want(k kind, value string) {
	if !p.skip(k, value) {
		p.unexpected()
	}
}

func (p *parser) name() token {
	t := p.token
	if t.kind != name {
		p.unexpected()
	}
	p.next()
	return t
}

// bareMap matches what stands before the colon, or the closing brace, of a map that is written as a
// predicate: there the braces are those of the predicate.
var bareMap = regexp.MustCompile(`[,(]\s*\{(\s*("[^"]*"|'[^']*'|\w+|\([^()]*\)))?\s*$`)

// unexpected reports the current token.
func (p *parser) unexpected() {
	t, hint := p.token, ""
	if t.kind == end {
		fail(t.at, "", "the expression ends too early")
	}
	switch {
	case t.kind == quoted:
	case t.value == "=":
		hint = "compare with =="
	case t.kind == operator && negated[t.value]:
		hint = fmt.Sprintf("write it between two values: x %s y", t.value)
	case t.value == "#":
		hint = "# stands in the predicate of a function such as filter or map: is the function's name right?"
	case (t.value == ":" || t.value == "}") && bareMap.MatchString(p.lexer.text[:t.from]):
		hint = "a map in a predicate needs parentheses around it: map(list, ({id: #.id}))"
	case t.value == "?" || t.value == ":":
		hint = "a choice is written: condition ? this : that"
	}
	fail(t.at, hint, "unexpected %q", t.value)
}

// sequence reads expressions with semicolons between them, and perhaps one behind the last.
func (p *parser) sequence() Node {
	first := p.expression(0)
	nodes := []Node{first}
	for p.skip(operator, ";") && p.token.kind != end {
		nodes = append(nodes, p.expression(0))
	}
	if len(nodes) == 1 {
		return first
	}
	p.place(p.token)
	return &Sequence{place(first.At()), nodes}
}

// binding says how strongly the operators between two operands bind. Those with the same number are read from the
// left, powers from the right.
var binding = map[string]int{
	"|":  0,
	"or": 10, "||": 10,
	"and": 15, "&&": 15,
	"==": 20, "!=": 20, "<": 20, ">": 20, "<=": 20, ">=": 20,
	"in": 20, "matches": 20, "contains": 20, "startsWith": 20, "endsWith": 20,
	"..": 25,
	"+":  30, "-": 30,
	"*": 60, "/": 60, "%": 60,
	"**": 100, "^": 100,
	"??": 500,
}

// unary says it of those before one.
var unary = map[string]int{"not": 50, "!": 50, "-": 90, "+": 90}

// negated are the operators that have a form with not.
var negated = map[string]bool{"in": true, "matches": true, "contains": true, "startsWith": true, "endsWith": true}

func isOrder(op string) bool { return op == "<" || op == ">" || op == "<=" || op == ">=" }

// expression reads operands, and the operators between them that bind at least as strongly as least.
func (p *parser) expression(least int) Node {
	if least == 0 && p.at(operator, "let") {
		return p.let()
	}
	if least == 0 && p.at(operator, "if") {
		return p.choice()
	}
	left := p.operand()
	for before := ""; p.token.kind == operator; {
		not := p.at(operator, "not")
		op := p.token
		if not {
			if op = p.peek(); op.kind != operator || !negated[op.value] {
				p.next()
				p.unexpected()
			}
		}
		strength, ok := binding[op.value]
		if !ok || strength < least {
			break
		}
		if not {
			p.next()
		}
		p.next()
		switch {
		case op.value == "|":
			f := p.name()
			if !p.at(bracket, "(") {
				fail(f.at, fmt.Sprintf("write x | %s(), or %[1]s(x)", f.value), "%q is not called", f.value)
			}
			left = p.call(f, left)
		case before == "??" && op.value != "??":
			fail(op.at, "put parentheses around one of them: (a ?? b) == c", `"??" is mixed with another operator`)
		case isOrder(op.value):
			left = p.order(left, op)
		case op.value == "**" || op.value == "^":
			left = &Binary{p.place(op), op.value, left, p.expression(strength)}
		default:
			left = &Binary{p.place(op), op.value, left, p.expression(strength + 1)}
		}
		if not {
			left = &Unary{p.place(op), "not", left}
		}
		before = op.value
	}
	if least == 0 {
		left = p.conditional(left)
	}
	return left
}

// order reads a comparison, which may go on: a < b < c.
func (p *parser) order(left Node, op token) Node {
	var all Node
	for {
		right := p.expression(binding[op.value] + 1)
		next := &Binary{p.place(op), op.value, left, right}
		if all == nil {
			all = next
		} else {
			all = &Binary{p.place(op), "&&", all, next}
		}
		if p.token.kind != operator || !isOrder(p.token.value) {
			return all
		}
		left, op = right, p.token
		p.next()
	}
}

func (p *parser) let() Node {
	p.next()
	n := p.name()
	p.want(operator, "=")
	value := p.expression(0)
	p.want(operator, ";")
	return &Let{p.place(n), n.value, value, p.sequence()}
}

// choice reads if c { a } else { b }.
func (p *parser) choice() Node {
	at := p.place(p.token)
	p.next()
	cond := p.expression(0)
	yes := p.block()
	p.want(operator, "else")
	if p.at(operator, "if") {
		return &Conditional{at, cond, yes, p.choice()}
	}
	return &Conditional{at, cond, yes, p.block()}
}

func (p *parser) block() Node {
	p.want(bracket, "{")
	n := p.sequence()
	p.want(bracket, "}")
	return n
}

// conditional reads what may follow a condition: ? yes : no, or ?: no.
func (p *parser) conditional(cond Node) Node {
	for p.at(operator, "?") {
		n := &Conditional{place: p.place(p.token), Cond: cond, Yes: cond}
		p.next()
		if !p.at(operator, ":") {
			n.Yes = p.expression(0)
		}
		p.want(operator, ":")
		n.No = p.expression(0)
		cond = n
	}
	return cond
}
