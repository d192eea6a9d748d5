package expr

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr/syntax"
)

// path is a chain of accesses: root.a?.b[0]. Its base is a name of the environment, or any code.
type path struct {
	root root
	ref  StepRef // of a step or a variable
	base code    // for rootCode
	name string  // of the base, for messages
	told string  // for rootTold: what of the step
	segs []segment
}

type root uint8

const (
	rootCode root = iota
	rootInputs
	rootConsts
	rootRun
	rootVar
	rootOutput // from here on of a step
	rootError
	rootStatus
	rootTold
)

// segment is one access: .name, [3] or [expression].
type segment struct {
	key      any  // string or int64, unless it is computed
	computed code // nil: key
	optional bool // ?.
}

// get follows a path of static keys from a name of the environment. It does not allocate.
func (p *path) get(env Env) (any, error) {
	v := p.start(env)
	for i := range p.segs {
		seg := &p.segs[i]
		if seg.optional && v == nil {
			return nil, nil // and so is all that follows
		}
		m, ok := member(v, seg.key)
		if !ok {
			if seg.optional && absent(v, seg.key) {
				v = nil
				continue
			}
			return nil, p.missing(i, v, seg.key)
		}
		v = m
	}
	return v, nil
}

func (p *path) start(env Env) any {
	switch p.root {
	case rootInputs:
		return env.Inputs()
	case rootConsts:
		return env.Consts()
	case rootRun:
		return env.Run()
	case rootVar:
		return env.Var(p.ref.Up, p.ref.Index)
	case rootTold:
		return env.Told(p.ref, p.told)
	}
	status, output, err := env.Step(p.ref)
	switch p.root {
	case rootOutput:
		return output
	case rootError:
		return err
	}
	return status
}

// run is get for any path.
func (p *path) run(s *state) any {
	var v any
	if p.base != nil {
		v = p.base(s)
	} else {
		v = p.start(s.env)
	}
	for i := range p.segs {
		seg := &p.segs[i]
		if seg.optional && v == nil {
			return nil
		}
		key := seg.key
		if seg.computed != nil {
			key = seg.computed(s)
		}
		m, ok := s.member(v, key)
		switch {
		case ok:
			v = m
		case seg.optional && absent(v, key):
			v = nil
		default:
			check(p.missing(i, v, key))
		}
	}
	return v
}

// member is the member or item key of v.
func member(v, key any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		if name, ok := key.(string); ok {
			m, ok := v[name]
			return m, ok
		}
	case []any:
		if i, ok := position(key, len(v)); ok {
			return v[i], true
		}
	case string:
		if n, ok := key.(int64); ok && n >= -maxString && n < maxString {
			if n < 0 {
				n += int64(length(v))
			}
			c := chars(v, int(n), int(n)+1)
			return c, n >= 0 && c != ""
		}
	}
	return nil, false
}

// member pays for the lookup.
func (s *state) member(v, key any) (any, bool) {
	if name, ok := key.(string); ok {
		s.spend(len(name) / 64)
	} else if f, ok := key.(float64); ok {
		key = number64(f)
	}
	if str, ok := v.(string); ok {
		s.spend(len(str) / 16)
	}
	return member(v, key)
}

// position is the index that key means in a list; negative ones count from the end.
func position(key any, length int) (int, bool) {
	n, ok := key.(int64)
	if n < 0 {
		n += int64(length)
	}
	return int(n), ok && n >= 0 && n < int64(length)
}

// absent reports whether v could have the key but has not, which ?. forgives.
func absent(v, key any) bool {
	switch v.(type) {
	case map[string]any:
		_, ok := key.(string)
		return ok
	case []any, string:
		_, isFloat := key.(float64)
		return kindOf(key) == number && !isFloat
	}
	return false
}

// missing says why v, which the first n segments led to, has no member or item key.
func (p *path) missing(n int, v, key any) error {
	where := p.describe(n)
	if !absent(v, key) {
		return noMember(where+" is ", kindOf(v), key)
	}
	if m, ok := v.(map[string]any); ok {
		problem := unknown("field", key.(string), m)
		problem.message = fmt.Sprintf("%s has no %s", where, describeKey(key))
		if problem.hint == "" {
			problem.hint = "read what may be missing with ?."
		}
		return problem
	}
	return fmt.Errorf("%s has no %s, its length is %d", where, describeKey(key), length(v))
}

// describe writes the path up to its n-th segment.
func (p *path) describe(n int) string {
	var b strings.Builder
	b.WriteString(p.name)
	for _, seg := range p.segs[:n] {
		if seg.optional {
			b.WriteByte('?')
		}
		switch key := seg.key.(type) {
		case string:
			b.WriteString("." + key)
		case int64:
			fmt.Fprintf(&b, "[%d]", key)
		default:
			b.WriteString("[…]")
		}
	}
	return b.String()
}

// access lowers a name or a chain of accesses.
//
//  1. split the chain into its base and its members
//  2. resolve the base; names take the members that belong to them
//  3. lower the other members, following the type
func (c *compiler) access(n syntax.Node) operand {
	base, members := chain(n)
	p := &path{}
	o := operand{run: p.run, path: p}
	refs := len(c.refs) // where that of the base will be
	if id, ok := base.(*syntax.Name); ok && id.Value != "null" {
		if o.static, members, ok = c.name(id, members, p); !ok {
			return nothing
		}
	} else {
		b := c.lower(base)
		p.base, o.static = b.run, b.static
		if len(members) > 0 {
			p.name = cmp.Or(shorten(members[0].Text), "#") // .name is #.name
		}
	}
	for i, m := range members {
		seg, t, ok := c.segment(m, o.static, p)
		if !ok {
			return nothing
		}
		o.static = t
		p.segs = append(p.segs, seg)
		if i == 0 && p.root >= rootOutput {
			ref := &c.refs[refs]
			ref.Optional = seg.optional || ref.Field == "output" && slices.Contains(c.sure, ref.Name)
		}
		if seg.computed != nil {
			o.path = nil
		}
	}
	if p.base != nil {
		o.path = nil
		if len(members) == 0 {
			o.run = p.base
		}
	}
	return o
}

// segment lowers one access below a value of the type t, to which the path leads.
func (c *compiler) segment(m *syntax.Member, t static, to *path) (segment, static, bool) {
	c.count()
	seg := segment{optional: m.Optional}
	key := c.lower(m.Key)
	if !c.want(m.Key, "a key", key.static, number|text) {
		return seg, t, false
	}
	if !key.static.known {
		seg.computed = key.run
		return seg, of(anyKind), true
	}
	seg.key = key.static.value
	if odd := t.unknownField(seg.key, m.Optional); odd != nil {
		c.warn(m.Key, odd)
	}
	below, wrong := t.member(seg.key, m.Optional)
	if wrong == nil {
		return seg, below, true
	}
	if wrong.code == diagnostics.CodeExprType {
		wrong = t.noMember(to.describe(len(to.segs)), seg.key)
	}
	c.report(m.Key, wrong)
	return seg, below, false
}

// name resolves the name that a chain begins with: it fills in the root of p, and returns the type
// and those of the members that do not belong to the name.
func (c *compiler) name(
	id *syntax.Name, members []*syntax.Member, p *path,
) (t static, rest []*syntax.Member, ok bool) {
	c.count()
	p.name = id.Value
	for _, let := range slices.Backward(c.lets) {
		if let.name == id.Value {
			p.base = func(s *state) any { return s.vars[let.slot] }
			return let.static, members, true
		}
	}
	if v, ref, ok := c.scope.variable(id.Value); ok {
		p.root, p.ref = rootVar, ref
		if v.Noted {
			c.refs = append(c.refs, Ref{Kind: RefVar, Name: v.Name, Optional: true, Pos: c.at(id)})
		}
		return v.Type.static(), members, true
	}
	switch id.Value {
	case "inputs":
		p.root = rootInputs
		t, ok = c.inputs(id, members)
		return t, members, ok
	case "consts":
		p.root = rootConsts
		c.consts = true
		return static{kinds: dict, known: true, value: c.scope.Consts}, members, true
	case "run":
		p.root = rootRun
		return static{kinds: dict, schema: c.scope.run()}, members, true
	case "steps":
		return c.step(id, members, p)
	case "secrets":
		c.report(id, &problem{diagnostics.CodeExprSecret, "secrets are not available here",
			"secrets.NAME stands alone in a ${{ }} in the with of a tool; the string around it may be longer"})
		return t, nil, false
	}
	c.report(id, c.unknownName(id.Value))
	return t, nil, false
}

func fieldName(m *syntax.Member) (string, bool) {
	if name, ok := m.Key.(*syntax.String); ok {
		return name.Value, true
	}
	return "", false
}

// inputs resolves inputs.NAME, and inputs as a whole.
func (c *compiler) inputs(id *syntax.Name, members []*syntax.Member) (t static, ok bool) {
	ref := Ref{Kind: RefInput, Optional: true, Pos: c.at(id)}
	if len(members) > 0 {
		if ref.Name, ok = fieldName(members[0]); !ok {
			c.report(members[0].Key, &problem{diagnostics.CodeExprName, "an input is named as inputs.NAME",
				"its name cannot be computed"})
			return t, false
		}
		if _, ok = c.scope.Inputs[ref.Name]; !ok {
			c.report(members[0].Key, unknown("input", ref.Name, c.scope.Inputs))
			return t, false
		}
	}
	c.refs = append(c.refs, ref)
	return static{kinds: dict, schema: map[string]any{"properties": c.scope.Inputs}}, true
}

var stepFields = map[string]root{"output": rootOutput, "status": rootStatus, "error": rootError,
	"finish": rootTold, "usage": rootTold, "calls": rootTold, "messages": rootTold}

// step resolves steps.ID.FIELD.
func (c *compiler) step(
	id *syntax.Name, members []*syntax.Member, p *path,
) (t static, rest []*syntax.Member, ok bool) {
	var names []string
	for _, m := range members[:min(2, len(members))] {
		if name, ok := fieldName(m); ok {
			names = append(names, name)
		}
	}
	if len(names) < 2 {
		c.report(id, &problem{diagnostics.CodeExprName,
			"a step is read as steps.ID.output, .status, .error, .finish, .usage, .calls or .messages", ""})
		return t, nil, false
	}
	if p.ref, ok = c.scope.step(names[0]); !ok {
		c.report(members[0].Key, c.unknownStep(names[0]))
		return t, nil, false
	}
	if p.root, ok = stepFields[names[1]]; !ok {
		c.report(members[1].Key, unknown("field of a step", names[1], stepFields))
		return t, nil, false
	}
	p.name, p.told = "steps."+names[0]+"."+names[1], names[1]
	c.refs = append(c.refs,
		Ref{Kind: RefStep, Name: names[0], Step: p.ref, Field: names[1], Optional: true, Pos: c.at(id)})
	switch p.root {
	case rootOutput:
		return c.scope.output(names[0]).static(), members[2:], true
	case rootStatus:
		return of(text), members[2:], true
	case rootTold:
		return told[names[1]], members[2:], true
	}
	return of(anyKind), members[2:], true
}

func (c *compiler) unknownStep(id string) *problem {
	known := map[string]StepRef{}
	for scope := c.scope; scope != nil; scope = scope.Outer {
		if len(known)+len(scope.Steps) <= maxSuggested {
			maps.Copy(known, scope.Steps)
		}
	}
	problem := unknown("step", id, known)
	problem.hint = cmp.Or(c.scope.hint("steps."+id), problem.hint)
	return problem
}

// unknownName says that a plain name means nothing, and what was probably meant.
func (c *compiler) unknownName(name string) *problem {
	known := map[string]bool{"inputs": true, "consts": true, "steps": true, "run": true}
	for scope := c.scope; scope != nil; scope = scope.Outer {
		for _, v := range scope.Vars {
			known[v.Name] = true
		}
	}
	for _, let := range c.lets {
		known[let.name] = true
	}
	problem := unknown("name", name, known)
	meant := ""
	if _, ok := c.scope.Inputs[name]; ok {
		meant = "inputs." + name
	} else if _, ok := c.scope.step(name); ok {
		meant = "steps." + name + ".output"
	} else if _, ok := c.scope.Consts[name]; ok {
		meant = "consts." + name
	}
	if meant != "" {
		problem.hint = fmt.Sprintf("did you mean %q?", meant)
	}
	problem.hint = cmp.Or(c.scope.hint(name), namesElsewhere[name], problem.hint)
	return problem
}
