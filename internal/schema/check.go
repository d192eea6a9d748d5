package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/braise-run/braise/internal/value"
)

// A check may take baseSteps, and stepsPerNode for each node of the value; fewer if the value is
// nested more than usualDepth deep, for then the errors, which hold their path, are larger. A step
// takes about a third of a microsecond.
const (
	baseSteps    = 500_000
	stepsPerNode = 100
	usualDepth   = 32
)

// checker is a compiled schema whose parts count the steps of the one check that is under way.
// Otherwise a few lines of schema, allOf over allOf say, could keep a check busy for years.
type checker struct {
	doc   any
	root  *jsonschema.Schema
	plain map[*jsonschema.Schema]bool // every part; true where quick knows all its keywords
	left  int                         // steps that the check may still take
}

// tooLong is the panic that ends a check through the library. It has no state that this could harm:
// a compiled schema is read only.
type tooLong struct{}

func (c *checker) check(v any) (ps []Problem) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case tooLong:
			ps = []Problem{{Message: "takes too long to check against the schema"}}
		default:
			ps = []Problem{{Message: fmt.Sprintf("cannot be checked: %v", r)}}
		}
	}()
	nodes, depth := measure(v, 0)
	if depth > value.MaxDepth {
		return []Problem{{Message: fmt.Sprintf("is nested more than %d deep", value.MaxDepth)}}
	}
	c.left = (baseSteps + stepsPerNode*nodes) / max(1, depth/usualDepth)
	if c.quick(c.root, v) {
		return nil
	}
	err := c.root.Validate(v)
	if err == nil {
		return nil
	}
	return problems(err.(*jsonschema.ValidationError), v, c.doc)
}

// measure counts the nodes, a long string as several, and the levels of a value that is itself at
// some depth. It goes no deeper than one level too deep.
func measure(v any, above int) (nodes, depth int) {
	nodes, depth = 1, above
	if above > value.MaxDepth {
		return nodes, depth
	}
	switch v := v.(type) {
	case string:
		nodes += len(v) / 64
	case json.Number:
		nodes += len(v) / 64
	case []any:
		for _, e := range v {
			n, d := measure(e, above+1)
			nodes, depth = nodes+n, max(depth, d)
		}
	case map[string]any:
		for _, e := range v {
			n, d := measure(e, above+1)
			nodes, depth = nodes+n, max(depth, d)
		}
	}
	return nodes, depth
}

func (c *checker) spend(steps int) {
	if c.left -= steps; c.left < 0 {
		panic(tooLong{})
	}
}

// arm makes s and everything below it count steps. It is an error if a part refers to itself
// without going into the value, for checking it would never end.
func (c *checker) arm(s *jsonschema.Schema) error {
	// Visit depth first; busy holds the parts above the current one on the same value.
	busy := map[*jsonschema.Schema]bool{}
	var visit func(s *jsonschema.Schema) error
	var deeper []*jsonschema.Schema
	visit = func(s *jsonschema.Schema) error {
		if busy[s] {
			return &Error{pathOf(s.Location), "refers to itself without end"}
		}
		if _, known := c.plain[s]; known {
			return nil
		}
		c.plain[s] = isPlain(s)
		busy[s] = true
		same, inside := sameValue(s), insideValue(s)
		c.count(s)
		for _, part := range same {
			if err := visit(part); err != nil {
				return err
			}
		}
		delete(busy, s)
		deeper = append(deeper, inside...)
		return nil
	}
	deeper = append(deeper, s)
	for len(deeper) > 0 {
		s := deeper[len(deeper)-1]
		deeper = deeper[:len(deeper)-1]
		if err := visit(s); err != nil {
			return err
		}
	}
	return nil
}

// count makes s spend steps. The library asks for the format before it looks at anything that takes
// long, so that is where a part pays, for itself and for what it will ask of its parts at once.
func (c *checker) count(s *jsonschema.Schema) {
	format, price := s.Format, priceOf(s)
	s.Format = &jsonschema.Format{Validate: func(v any) error {
		c.spend(price.of(v))
		if format == nil {
			return nil
		}
		return format.Validate(v)
	}}
	if format != nil {
		s.Format.Name = format.Name
	}
	if p, ok := s.Pattern.(*pattern); ok {
		s.Pattern = countedPattern{p, c}
	}
	if s.PatternProperties != nil {
		counted := map[jsonschema.Regexp]*jsonschema.Schema{}
		for re, part := range s.PatternProperties {
			counted[countedPattern{re.(*pattern), c}] = part
		}
		s.PatternProperties = counted
	}
	if s.PropertyNames != nil {
		// The library reports these at the wrong place: it keeps a slice that it goes on to change.
		s.Extensions = append(s.Extensions, propertyNames{s.PropertyNames})
		s.PropertyNames = nil
	}
}

type countedPattern struct {
	*pattern
	c *checker
}

func (p countedPattern) MatchString(s string) bool {
	p.c.spend(1 + len(s)*p.size/100)
	return p.pattern.MatchString(s)
}

// propertyNames checks the names of an object's members.
type propertyNames struct{ names *jsonschema.Schema }

func (p propertyNames) Validate(ctx *jsonschema.ValidatorContext, v any) {
	object, _ := v.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if err := ctx.Validate(p.names, name, []string{name}); err != nil {
			ctx.AddErrors([]*jsonschema.ValidationError{err.(*jsonschema.ValidationError)},
				&kind.PropertyNames{Property: name})
		}
	}
}

// price says how many steps a part takes on a value, not counting those that its parts count.
type price struct {
	same   int            // once
	item   int            // for each item of a list
	member int            // for each member of an object
	named  map[string]int // for the members of these names
	unique bool           // the items of a list are compared
}

func priceOf(s *jsonschema.Schema) price {
	p := price{
		same:   1 + weigh(sameValue(s)...),
		item:   1 + weigh(ofItems(s)...),
		member: 1 + weigh(ofMembers(s)...),
		unique: s.UniqueItems,
	}
	for name, part := range s.Properties {
		if w := weigh(part); w > 1 {
			if p.named == nil {
				p.named = map[string]int{}
			}
			p.named[name] = w
		}
	}
	return p
}

func (p price) of(v any) int {
	steps := p.same
	switch v := v.(type) {
	case string:
		steps += len(v) / 256
	case []any:
		steps += len(v) * p.item
		if p.unique {
			n, _ := measure(v, 0)
			steps += n
		}
	case map[string]any:
		steps += len(v) * p.member
		if p.named != nil {
			for name := range v {
				steps += p.named[name]
			}
		}
	}
	return steps
}

// weigh is what parts may take before they count for themselves: to find that the type is wrong,
// or that no value of an enum is equal (numbers are compared as fractions, slowly).
func weigh(parts ...*jsonschema.Schema) int {
	steps := len(parts)
	for _, s := range parts {
		if s.Enum == nil {
			continue
		}
		numbers, _ := measure(s.Enum.Values, 0)
		for _, v := range s.Enum.Values {
			if _, text := v.(string); text {
				numbers--
			}
		}
		steps += numbers/2 + len(s.Enum.Values)/64
	}
	return steps
}

// sameValue lists the parts of s that look at the same value as s.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := slices.Concat(s.AllOf, s.AnyOf, s.OneOf)
	for _, part := range []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else} {
		if part != nil {
			parts = append(parts, part)
		}
	}
	if s.DynamicRef != nil {
		parts = append(parts, s.DynamicRef.Ref)
	}
	for _, part := range s.DependentSchemas {
		parts = append(parts, part)
	}
	for _, part := range s.Dependencies {
		parts = appendSchemas(parts, part)
	}
	return parts
}

// insideValue lists the parts of s that look at what is inside the value.
func insideValue(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := slices.Concat(ofItems(s), ofMembers(s))
	for _, part := range s.Properties {
		parts = append(parts, part)
	}
	return parts
}

// ofItems lists the parts of s for the items of a list.
func ofItems(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := slices.Clone(s.PrefixItems)
	for _, part := range []any{s.Items, s.AdditionalItems, s.Items2020, s.Contains, s.UnevaluatedItems} {
		parts = appendSchemas(parts, part)
	}
	return parts
}

// ofMembers lists the parts of s for the members of an object, whatever their names.
func ofMembers(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := slices.Collect(maps.Values(s.PatternProperties))
	for _, part := range []any{s.AdditionalProperties, s.PropertyNames, s.UnevaluatedProperties} {
		parts = appendSchemas(parts, part)
	}
	return parts
}

// appendSchemas appends what a field that may hold several types holds of schemas.
func appendSchemas(parts []*jsonschema.Schema, field any) []*jsonschema.Schema {
	switch field := field.(type) {
	case *jsonschema.Schema:
		if field != nil {
			return append(parts, field)
		}
	case []*jsonschema.Schema:
		return append(parts, field...)
	}
	return parts
}
