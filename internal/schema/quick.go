package schema

import (
	"encoding/json"
	"math"
	"math/big"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/braise-run/braise/internal/value"
)

// quick reports that v is surely valid; false means that the library has to look. It knows the
// keywords that most schemas are made of, asks each part of a value once, and allocates nothing:
// a tool's arguments are checked at every call.
func (c *checker) quick(s *jsonschema.Schema, v any) bool {
	if s.Bool != nil {
		return *s.Bool
	}
	if !c.plain[s] || s.Types != nil && *s.Types&typeBits(v) == 0 {
		return false
	}
	if s.Const != nil && !value.Equal(v, *s.Const) || s.Enum != nil && !among(v, s.Enum.Values) {
		return false
	}
	if s.Ref != nil && !c.quick(s.Ref, v) {
		return false
	}
	switch v := v.(type) {
	case nil, bool:
		return true
	case int64:
		return above(v, s.Minimum, 0) && above(v, s.ExclusiveMinimum, 1) &&
			below(v, s.Maximum, 0) && below(v, s.ExclusiveMaximum, 1)
	case float64, json.Number:
		return s.Minimum == nil && s.ExclusiveMinimum == nil && s.Maximum == nil && s.ExclusiveMaximum == nil
	case string:
		if (s.MinLength != nil || s.MaxLength != nil) && !within(utf8.RuneCountInString(v), s.MinLength, s.MaxLength) {
			return false
		}
		return s.Pattern == nil || s.Pattern.MatchString(v)
	case []any:
		return within(len(v), s.MinItems, s.MaxItems) && c.quickItems(s, v)
	case map[string]any:
		return within(len(v), s.MinProperties, s.MaxProperties) && c.quickMembers(s, v)
	}
	return false
}

func (c *checker) quickItems(s *jsonschema.Schema, v []any) bool {
	for i, e := range v {
		part := s.Items2020
		if i < len(s.PrefixItems) {
			part = s.PrefixItems[i]
		}
		if part != nil && !c.quick(part, e) {
			return false
		}
	}
	return true
}

func (c *checker) quickMembers(s *jsonschema.Schema, v map[string]any) bool {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return false
		}
	}
	for name, e := range v {
		if part := s.Properties[name]; part != nil {
			if !c.quick(part, e) {
				return false
			}
			continue
		}
		switch rest := s.AdditionalProperties.(type) {
		case bool:
			if !rest {
				return false
			}
		case *jsonschema.Schema:
			if !c.quick(rest, e) {
				return false
			}
		}
	}
	return true
}

// isPlain reports whether quick knows all keywords of s.
func isPlain(s *jsonschema.Schema) bool {
	return s.Format == nil && s.RecursiveRef == nil && s.DynamicRef == nil && // $ref alone
		s.Not == nil && s.AllOf == nil && s.AnyOf == nil && s.OneOf == nil && s.If == nil &&
		s.PropertyNames == nil && s.PatternProperties == nil && s.UnevaluatedProperties == nil &&
		s.Dependencies == nil && s.DependentRequired == nil && s.DependentSchemas == nil &&
		s.Items == nil && s.AdditionalItems == nil && s.UnevaluatedItems == nil && s.Contains == nil &&
		!s.UniqueItems &&
		s.MultipleOf == nil && (s.Enum == nil || len(s.Enum.Values) <= 64) &&
		(s.Ref == nil || s.DraftVersion >= 2019) // before, $ref made its siblings void
}

// The bits of types in the library's sets.
var nullBit, booleanBit, numberBit, integerBit, stringBit, arrayBit, objectBit = bit("null"), bit("boolean"),
	bit("number"), bit("integer"), bit("string"), bit("array"), bit("object")

func bit(name string) (t jsonschema.Types) {
	t.Add(name)
	return t
}

// typeBits returns the set of the types that v has.
func typeBits(v any) jsonschema.Types {
	switch v := v.(type) {
	case nil:
		return nullBit
	case bool:
		return booleanBit
	case int64, json.Number:
		return integerBit | numberBit
	case float64:
		if math.Trunc(v) == v {
			return integerBit | numberBit
		}
		return numberBit
	case string:
		return stringBit
	case []any:
		return arrayBit
	case map[string]any:
		return objectBit
	}
	return 0
}

func among(v any, values []any) bool {
	for _, e := range values {
		if value.Equal(v, e) {
			return true
		}
	}
	return false
}

func within(n int, least, most *int) bool {
	return (least == nil || n >= *least) && (most == nil || n <= *most)
}

// above reports whether v is at least bound+more; false where that takes fractions or big numbers.
func above(v int64, bound *big.Rat, more int64) bool {
	return bound == nil || bound.IsInt() && bound.Num().IsInt64() &&
		v > math.MinInt64+more && v-more >= bound.Num().Int64()
}

// below reports whether v is at most bound-less; false where that takes fractions or big numbers.
func below(v int64, bound *big.Rat, less int64) bool {
	return bound == nil || bound.IsInt() && bound.Num().IsInt64() &&
		v < math.MaxInt64-less && v+less <= bound.Num().Int64()
}
