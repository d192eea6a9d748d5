package expr

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr/syntax"
)

// operand is a lowered node.
type operand struct {
	run    code
	path   *path // the same as run, for a path of static keys from a name of the environment
	static static
	items  kinds // of a list that stands in the expression: the types of its items
}

// nothing stands for what could not be lowered. It never runs: there was an error.
var nothing = operand{static: of(anyKind)}

func literal(v any) operand {
	return operand{run: func(*state) any { return v }, static: constant(v)}
}

// lower compiles a node and checks its types, as far as they can be known.
func (c *compiler) lower(n syntax.Node) operand {
	switch n := n.(type) {
	case *syntax.Name:
		if n.Value != "null" {
			return c.access(n) // counts for itself
		}
	case *syntax.Member, *syntax.Chain:
		return c.access(n)
	}
	c.count()
	switch n := n.(type) {
	case *syntax.Nil, *syntax.Name:
		return literal(nil)
	case *syntax.Bool:
		return literal(n.Value)
	case *syntax.Integer:
		return literal(n.Value)
	case *syntax.Float:
		return literal(n.Value)
	case *syntax.String:
		return literal(n.Value)
	case *syntax.Unary:
		return c.unary(n)
	case *syntax.Binary:
		return c.binary(n)
	case *syntax.Conditional:
		return c.conditional(n)
	case *syntax.Slice:
		return c.slice(n)
	case *syntax.Array:
		return c.array(n)
	case *syntax.Map:
		return c.dict(n)
	case *syntax.Let:
		return c.let(n)
	case *syntax.Pointer:
		return c.pointer(n)
	case *syntax.Call:
		return c.call(n, n.Name, n.Args)
	case *syntax.Method:
		return c.typeError(n, "values have fields only; functions are called as f(x) or x | f()",
			"values have no methods")
	case *syntax.Sequence:
		return c.typeError(n, "", "several expressions where one is expected")
	case *syntax.Bytes:
		return c.typeError(n, "", "there are no byte strings here")
	}
	return c.typeError(n, "", "unknown syntax")
}

func (c *compiler) unary(n *syntax.Unary) operand {
	o := c.lower(n.Node)
	what := "the operand of " + n.Operator
	if n.Operator == "!" || n.Operator == "not" {
		if !c.want(n, what, o.static, boolean) {
			return nothing
		}
		return operand{run: func(s *state) any { return !truth(what, o.run(s)) }, static: of(boolean)}
	}
	if !c.want(n, what, o.static, number) {
		return nothing
	}
	if _, big := o.static.value.(json.Number); o.static.known && !big {
		return literal(arithmetic(nil, n.Operator, int64(0), o.static.value))
	}
	return operand{run: func(s *state) any { return arithmetic(s, n.Operator, int64(0), o.run(s)) }, static: of(number)}
}

// binary lowers the operators with two operands.
//
//  1. those that may leave out the right one: && || ??
//  2. a constant regular expression
//  3. all others, by the table of operators
func (c *compiler) binary(n *syntax.Binary) operand {
	l, r := c.lower(n.Left), operand{}
	switch n.Operator {
	case "&&", "and", "||", "or":
		r = c.lowerWhere(n.Left, n.Operator == "&&" || n.Operator == "and", n.Right)
	default:
		r = c.lower(n.Right)
	}
	if l.run == nil || r.run == nil {
		return nothing
	}
	both := l.static.kinds & r.static.kinds
	switch n.Operator {
	case "&&", "and", "||", "or":
		what := "an operand of " + n.Operator
		if !c.want(n.Left, what, l.static, boolean) || !c.want(n.Right, what, r.static, boolean) {
			return nothing
		}
		decisive := n.Operator == "||" || n.Operator == "or"
		return operand{run: func(s *state) any {
			if truth(what, l.run(s)) == decisive {
				return decisive
			}
			return truth(what, r.run(s))
		}, static: of(boolean)}
	case "??":
		t := of(l.static.kinds&^null | r.static.kinds)
		return operand{run: func(s *state) any {
			if v := l.run(s); v != nil {
				return v
			}
			return r.run(s)
		}, static: t}
	case "in":
		c.amongWords(n, l.static)
		if !c.among(n, l, r) {
			return nothing
		}
	case "==", "!=":
		c.never(n, l.static, r.static)
		if both == 0 && !c.apart(n, l, r) {
			return nothing
		}
	case "matches":
		if r.static.known && r.static.kinds == text {
			return c.matches(n, l, r.static.value.(string))
		}
	}
	op := operators[n.Operator]
	if op.run == nil {
		return c.typeError(n, "", "unknown operator %q", n.Operator)
	}
	if op.same && both&op.left == 0 {
		return c.typeError(n, meantOf(l, r), "%s needs two operands of one type, %s, not %s and %s",
			n.Operator, op.left, l.static.described(), r.static.described())
	}
	if !c.want(n.Left, "the left side of "+n.Operator, l.static, op.left) ||
		!c.want(n.Right, "the right side of "+n.Operator, r.static, op.right) {
		return nothing
	}
	result := op.result
	if op.same && result&both != 0 { // + of two numbers is a number
		result &= both
	}
	c.builds = c.builds || result&(list|dict) != 0
	return operand{run: func(s *state) any { return op.run(s, n.Operator, l.run(s), r.run(s)) }, static: of(result)}
}

func (c *compiler) matches(n *syntax.Binary, l operand, source string) operand {
	re, err := compilePattern(source)
	if err != nil {
		c.report(n.Right, &problem{diagnostics.CodeExprSyntax, err.Error(), ""})
		return nothing
	}
	if !c.want(n.Left, "the left side of matches", l.static, text|null) {
		return nothing
	}
	return operand{run: func(s *state) any { return s.match(re, l.run(s)) }, static: of(boolean)}
}

func (c *compiler) conditional(n *syntax.Conditional) operand {
	cond := c.lower(n.Cond)
	yes, no := c.lowerWhere(n.Cond, true, n.Yes), c.lowerWhere(n.Cond, false, n.No)
	if !c.want(n.Cond, "a condition", cond.static, boolean) {
		return nothing
	}
	return operand{run: func(s *state) any {
		if truth("a condition", cond.run(s)) {
			return yes.run(s)
		}
		return no.run(s)
	}, static: of(yes.static.kinds | no.static.kinds)}
}

func (c *compiler) slice(n *syntax.Slice) operand {
	o := c.lower(n.Node)
	if !c.want(n, "what is sliced", o.static, list|text) {
		return nothing
	}
	bound := func(n syntax.Node) (operand, bool) {
		if n == nil {
			return literal(nil), true
		}
		b := c.lower(n)
		return b, c.want(n, "the bound of a slice", b.static, number)
	}
	from, ok := bound(n.From)
	to, ok2 := bound(n.To)
	if !ok || !ok2 {
		return nothing
	}
	t := of(o.static.kinds & (list | text))
	t.schema = o.static.schema
	return operand{run: func(s *state) any { return s.slice(o.run(s), from.run(s), to.run(s)) }, static: t}
}

func (c *compiler) array(n *syntax.Array) operand {
	c.builds = true
	items := make([]code, len(n.Nodes))
	var holds kinds
	for i, node := range n.Nodes {
		item := c.lower(node)
		items[i], holds = item.run, holds|item.static.kinds
	}
	return operand{items: holds, run: func(s *state) any {
		out := s.newList(len(items))
		for _, item := range items {
			out = append(out, item(s))
		}
		return out
	}, static: of(list)}
}

func (c *compiler) dict(n *syntax.Map) operand {
	c.builds = true
	type entry struct{ key, value code }
	var entries []entry
	var literals []string
	for _, p := range n.Pairs {
		key, v := c.lower(p.Key), c.lower(p.Value)
		if !c.want(p.Key, "the key of a map", key.static, text) {
			return nothing
		}
		if name, ok := key.static.value.(string); ok {
			if slices.Contains(literals, name) {
				return c.typeError(p.Key, "", "the key %q appears twice in this map", shorten(name))
			}
			literals = append(literals, name)
		}
		entries = append(entries, entry{key.run, v.run})
	}
	return operand{run: func(s *state) any {
		s.alloc(48 + 48*len(entries))
		out := make(map[string]any, len(entries))
		for _, e := range entries {
			key := e.key(s)
			name, ok := key.(string)
			if !ok {
				fail("the key of a map must be a string, not %s", kindOf(key))
			}
			out[name] = e.value(s)
		}
		return out
	}, static: of(dict)}
}

func (c *compiler) let(n *syntax.Let) operand {
	v := c.lower(n.Value)
	_, _, taken := c.scope.variable(n.Name)
	if taken || slices.Contains([]string{"inputs", "consts", "steps", "run", "secrets", "null"}, n.Name) ||
		slices.ContainsFunc(c.lets, func(l let) bool { return l.name == n.Name }) {
		c.report(n, &problem{diagnostics.CodeExprName, fmt.Sprintf("the name %q is taken", n.Name), ""})
		return nothing
	}
	slot := c.vars
	c.vars++
	c.lets = append(c.lets, let{n.Name, slot, v.static})
	body := c.lower(n.Body)
	c.lets = c.lets[:len(c.lets)-1]
	return operand{run: func(s *state) any {
		s.vars[slot] = v.run(s)
		return body.run(s)
	}, static: body.static}
}

// pointer lowers #, #index and #acc.
func (c *compiler) pointer(n *syntax.Pointer) operand {
	if len(c.pointers) == 0 {
		return c.typeError(n, "", "# stands outside of a predicate")
	}
	p := c.pointers[len(c.pointers)-1]
	switch {
	case n.Name == "":
		return operand{run: func(s *state) any { return s.frame.item }, static: p.item}
	case n.Name == "index":
		return operand{run: func(s *state) any { return int64(s.frame.index) }, static: of(number)}
	case n.Name == "acc" && p.name == "reduce":
		return operand{run: func(s *state) any { return s.frame.acc }, static: of(anyKind)}
	}
	c.report(n, &problem{diagnostics.CodeExprName, fmt.Sprintf("unknown name %q", "#"+n.Name),
		"there are #, #index and, in reduce, #acc"})
	return nothing
}

// call lowers the call of a function.
func (c *compiler) call(n syntax.Node, name string, args []syntax.Node) operand {
	f, ok := functions[name]
	switch {
	case !ok:
		p := unknown("function", name, functions)
		p.hint = cmp.Or(functionsElsewhere[name], p.hint)
		c.report(n, p)
		return nothing
	}
	c.builds = c.builds || f.result&(list|dict) != 0
	if f.loop != nil {
		return c.iterate(name, f, args)
	}
	if len(args) < f.least || len(args) > len(f.params) && !f.variadic {
		return c.typeError(n, "", "%s takes %s, not %d", name, f.arity(), len(args))
	}
	codes := make([]code, len(args))
	for i, arg := range args {
		o := c.lower(arg)
		codes[i] = o.run
		if !c.want(arg, argument(name, i), o.static, f.param(i)) {
			return nothing
		}
		if source, ok := o.static.value.(string); ok && f.pattern == i && i > 0 {
			if _, err := compilePattern(source); err != nil {
				c.report(arg, &problem{diagnostics.CodeExprSyntax, err.Error(), ""})
				return nothing
			}
		}
	}
	return operand{run: func(s *state) any {
		base := len(s.args)
		for i, arg := range codes {
			v := arg(s)
			if k := kindOf(v); k&f.param(i) == 0 {
				fail("%s must be %s, not %s", argument(name, i), f.param(i), k)
			}
			s.spend(weight(v))
			s.args = append(s.args, v)
		}
		out := f.run(s, s.args[base:])
		s.args = s.args[:base]
		return out
	}, static: of(f.result)}
}

// iterate lowers a function that walks over a list. The parser has counted the arguments.
func (c *compiler) iterate(name string, f *function, args []syntax.Node) operand {
	over := c.lower(args[0])
	if over.static.kinds&(list|dict) == dict {
		return c.typeError(args[0], overMap, "%s needs a list, not a map", name)
	}
	if !c.want(args[0], "the first argument of "+name, over.static, list) {
		return nothing
	}
	l := &loop{name: name, what: "the predicate of " + name, over: over.run, cost: predicateWork}
	if len(args) > 1 {
		item, _ := over.static.member(int64(0), false)
		c.pointers = append(c.pointers, predicate{name, item})
		before := c.nodes
		body := c.lower(args[1].(*syntax.Predicate).Node)
		c.pointers = c.pointers[:len(c.pointers)-1]
		l.body, l.cost = body.run, predicateWork+c.nodes-before
		if !c.want(args[1], l.what, body.static, f.predicate) {
			return nothing
		}
	}
	if len(args) > 2 {
		l.extra = c.lower(args[2]).run
	}
	return operand{run: func(s *state) any { return f.loop(s, l) }, static: of(f.result)}
}

const overMap = "use keys(m), values(m) or toPairs(m)"
