package syntax

import (
	"strconv"
	"strings"
)

// operand reads a value with the accesses behind it, and the operators before it.
func (p *parser) operand() Node {
	t := p.token
	if strength, ok := unary[t.value]; ok && t.kind == operator {
		p.next()
		return p.accesses(t, &Unary{p.place(t), t.value, p.expression(strength)})
	}
	switch {
	case p.skip(bracket, "("):
		n := p.sequence()
		p.want(bracket, ")")
		return p.accesses(t, n)
	case p.depth > 0 && p.at(operator, "."): // .name is #.name
		return p.accesses(t, &Pointer{p.place(t), ""})
	case p.depth > 0 && p.skip(operator, "#"):
		n := &Pointer{p.place(t), ""}
		if p.token.kind == name {
			n.Name = p.name().value
		}
		return p.accesses(t, n)
	case p.skip(operator, "::"):
		return p.accesses(t, p.call(p.name(), nil))
	}
	return p.value()
}

// value reads a literal, a name, a call, a list or a map. Numbers, true, false and nil have no members.
func (p *parser) value() Node {
	t := p.token
	var n Node
	switch {
	case t.kind == name:
		p.next()
		switch {
		case t.value == "true" || t.value == "false":
			return &Bool{p.place(t), t.value == "true"}
		case t.value == "nil":
			return &Nil{p.place(t)}
		case p.at(bracket, "("):
			n = p.call(t, nil)
		default:
			n = &Name{p.place(t), t.value}
		}
	case t.kind == number:
		p.next()
		return p.number(t)
	case t.kind == quoted:
		p.next()
		n = &String{p.place(t), t.value}
	case t.kind == bytes:
		p.next()
		n = &Bytes{p.place(t)}
	case p.skip(bracket, "["):
		n = &Array{p.place(t), p.list("]", nil)}
	case p.skip(bracket, "{"):
		n = p.dict(t)
	default:
		p.unexpected()
	}
	return p.accesses(t, n)
}

func (p *parser) number(t token) Node {
	text := strings.ToLower(strings.ReplaceAll(t.value, "_", ""))
	base, digits := 10, text
	if len(text) > 1 && text[0] == '0' {
		switch text[1] {
		case 'x':
			base, digits = 16, text[2:]
		case 'o':
			base, digits = 8, text[2:]
		case 'b':
			base, digits = 2, text[2:]
		}
	}
	what := "integer"
	n, err := strconv.ParseInt(digits, base, 64)
	if base == 10 && strings.ContainsAny(text, ".e") {
		var f float64
		what = "number"
		if f, err = strconv.ParseFloat(text, 64); err == nil {
			return &Float{p.place(t), f}
		}
	}
	if err != nil {
		if strings.HasSuffix(err.Error(), strconv.ErrRange.Error()) {
			fail(t.at, "write it as a string", "the %s is too large", what)
		}
		fail(t.at, "", "%q is not a number", t.value)
	}
	return &Integer{p.place(t), n}
}

// list reads expressions with commas between them up to a closing bracket, behind those that are there already.
func (p *parser) list(closing string, nodes []Node) []Node {
	for more := true; more && !p.at(bracket, closing); more = p.skip(operator, ",") {
		nodes = append(nodes, p.expression(0))
	}
	p.want(bracket, closing)
	return nodes
}

func (p *parser) dict(t token) Node {
	m := &Map{place: p.place(t)}
	for more := true; more && !p.at(bracket, "}"); more = p.skip(operator, ",") {
		var key Node
		switch k := p.token; {
		case k.kind == number || k.kind == quoted || k.kind == name:
			p.next()
			key = &String{p.place(k), k.value}
		case p.at(bracket, "("):
			key = p.expression(0)
		default:
			p.unexpected()
		}
		p.want(operator, ":")
		p.place(t) // a pair counts, too
		m.Pairs = append(m.Pairs, Pair{key, p.expression(0)})
	}
	p.want(bracket, "}")
	return m
}

// predicates are the functions whose second argument is a predicate. One may be left out where the least is 1, and
// the third, a value, where there may be one at all.
var predicates = map[string]struct{ least, most int }{
	"all": {2, 2}, "none": {2, 2}, "any": {2, 2}, "one": {2, 2}, "filter": {2, 2}, "map": {2, 2},
	"count": {1, 2}, "sum": {1, 2}, "find": {2, 2}, "findIndex": {2, 2}, "findLast": {2, 2},
	"findLastIndex": {2, 2}, "groupBy": {2, 2}, "sortBy": {2, 3}, "reduce": {2, 3},
}

// call reads the arguments of a function. One may have stood before a |.
func (p *parser) call(f token, piped Node) Node {
	n := &Call{place: p.place(f), Name: f.value}
	if piped != nil {
		n.Args = []Node{piped}
	}
	p.want(bracket, "(")
	arity, ok := predicates[f.value]
	if !ok {
		n.Args = p.list(")", n.Args)
		return n
	}
	for first := true; len(n.Args) < arity.most; first = false {
		if len(n.Args) >= arity.least && p.at(bracket, ")") {
			break
		}
		if p.at(bracket, ")") {
			fail(p.token.at, "", "%s takes at least %d arguments", f.value, arity.least)
		}
		if !first {
			p.want(operator, ",")
		}
		if len(n.Args) == 1 {
			n.Args = append(n.Args, p.predicate())
		} else {
			n.Args = append(n.Args, p.expression(0))
		}
	}
	p.skip(operator, ",")
	p.want(bracket, ")")
	return n
}

func (p *parser) predicate() Node {
	n := &Predicate{place: p.place(p.token)}
	p.depth++
	if p.at(bracket, "{") {
		n.Node = p.block()
	} else if n.Node = p.expression(0); p.at(operator, ";") {
		fail(p.token.at, "", "several expressions in a predicate need { } around them")
	}
	p.depth--
	return n
}

// accesses reads what follows a value that began with first: members, items and slices.
func (p *parser) accesses(first token, n Node) Node {
	for p.token.kind == operator || p.token.kind == bracket {
		t := p.token
		text := p.lexer.text[first.from:max(first.from, p.last)]
		switch t.value {
		case ".", "?.":
			p.next()
			if t.value == "?." && p.at(bracket, "[") {
				t = p.token
				p.next()
				n = p.item(t, n, text, true)
				continue
			}
			n = p.member(n, text, t.value == "?.")
		case "[":
			p.next()
			n = p.item(t, n, text, false)
		default:
			return n
		}
	}
	return n
}

// member reads a name behind a dot. Operators that look like names are names here.
func (p *parser) member(n Node, text string, optional bool) Node {
	t := p.token
	if t.kind != name && (t.kind != operator || !words[t.value]) {
		if t.kind != end {
			fail(t.at, "", "a name is missing before %q", t.value)
		}
		p.unexpected()
	}
	p.next()
	chain, chained := n.(*Chain)
	if chained {
		n = chain.Node
	}
	key := &String{p.place(t), t.value}
	m := &Member{p.place(t), n, text, key, optional}
	n = m
	if p.skip(bracket, "(") {
		n = &Method{p.place(t), m, p.list(")", nil)}
	}
	if chained || optional {
		n = &Chain{p.place(t), n}
	}
	return n
}

// item reads what stands in brackets: an index, a key, or the bounds of a slice.
func (p *parser) item(t token, n Node, text string, optional bool) Node {
	var from Node
	if !p.at(operator, ":") {
		from = p.expression(0)
	}
	if p.skip(operator, ":") {
		slice := &Slice{place: p.place(t), Node: n, From: from}
		if !p.at(bracket, "]") {
			slice.To = p.expression(0)
		}
		n = slice
	} else {
		n = &Member{p.place(t), n, text, from, optional}
		if optional {
			n = &Chain{p.place(t), n}
		}
	}
	p.want(bracket, "]")
	return n
}
