package expr

import (
	"encoding/json"
	"math"
	"math/bits"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// operator is a binary operator whose operands are both evaluated.
type operator struct {
	left, right kinds
	same        bool // both operands are of one kind
	result      kinds
	run         func(s *state, op string, a, b any) any
}

var operators = map[string]operator{
	"==":         {anyKind, anyKind, false, boolean, func(s *state, _ string, a, b any) any { return s.equal(a, b) }},
	"!=":         {anyKind, anyKind, false, boolean, func(s *state, _ string, a, b any) any { return !s.equal(a, b) }},
	"<":          ordered(func(order int) bool { return order < 0 }),
	"<=":         ordered(func(order int) bool { return order <= 0 }),
	">":          ordered(func(order int) bool { return order > 0 }),
	">=":         ordered(func(order int) bool { return order >= 0 }),
	"+":          {number | text, number | text, true, number | text, add},
	"-":          {number, number, false, number, arithmetic},
	"*":          {number, number, false, number, arithmetic},
	"/":          {number, number, false, number, arithmetic},
	"%":          {number, number, false, number, arithmetic},
	"**":         {number, number, false, number, arithmetic},
	"^":          {number, number, false, number, arithmetic},
	"..":         {number, number, false, list, span},
	"in":         {anyKind, list | dict | null, false, boolean, in},
	"matches":    {text | null, text | null, false, boolean, matches},
	"contains":   {text | null, text | null, false, boolean, search(strings.Contains)},
	"startsWith": {text | null, text | null, false, boolean, search(strings.HasPrefix)},
	"endsWith":   {text | null, text | null, false, boolean, search(strings.HasSuffix)},
}

// ordered is an operator that compares two numbers, or two strings; holds gets how they compare.
func ordered(holds func(order int) bool) operator {
	return operator{number | text, number | text, true, boolean, func(s *state, op string, a, b any) any {
		return holds(s.compare(op, a, b))
	}}
}

func truth(what string, v any) bool {
	b, ok := v.(bool)
	if !ok {
		fail("%s must be a boolean, not %s", what, kindOf(v))
	}
	return b
}

// integer is v as an integer; numbers without a fraction are integers.
func integer(what string, v any) int {
	if f, ok := v.(float64); ok {
		v = number64(f)
	}
	if n, ok := v.(json.Number); ok {
		fail("%s: %w", what, value.NoReckoning(n))
	}
	i, ok := v.(int64)
	if !ok {
		fail("%s must be an integer", what)
	}
	return int(i)
}

// number64 is f as a value: an int64 when it is a whole number that int64 and float64 both hold
// exactly, so that a result does not change when it is written as JSON and read again.
func number64(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		fail("the result is not a finite number")
	}
	if f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
		return int64(f)
	}
	return f
}

// float is v, a number, to calculate with.
func float(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case json.Number:
		check(value.NoReckoning(v))
	}
	f, _ := v.(float64)
	return f
}

// arithmetic calculates with integers where both are, and fails when the result does not fit.
func arithmetic(_ *state, op string, a, b any) any {
	if k, l := kindOf(a), kindOf(b); k != number || l != number {
		fail("%s calculates with two numbers, not %s and %s", op, k, l)
	}
	x, isInt := a.(int64)
	y, isInt2 := b.(int64)
	if isInt && isInt2 {
		if v, ok := integers(op, x, y); ok {
			return v
		}
	}
	f, g := float(a), float(b)
	switch op {
	case "+":
		return number64(f + g)
	case "-":
		return number64(f - g)
	case "*":
		return number64(f * g)
	case "/":
		if g == 0 {
			fail("division by zero")
		}
		return number64(f / g)
	case "%":
		return arithmetic(nil, op, int64(integer("the left side of %", a)), int64(integer("the right side of %", b)))
	}
	return number64(math.Pow(f, g))
}

// integers calculates what has an integer result; ok is false for other operators.
func integers(op string, x, y int64) (v int64, ok bool) {
	fits := true
	switch op {
	case "+":
		v = x + y
		fits = (v > x) == (y > 0)
	case "-":
		v = x - y
		fits = (v < x) == (y > 0)
	case "*":
		hi, lo := bits.Mul64(magnitude(x), magnitude(y))
		v = x * y
		fits = hi == 0 && (lo <= math.MaxInt64 || lo == 1<<63 && (x < 0) != (y < 0))
	case "%":
		if y == 0 {
			fail("division by zero")
		}
		v = x % y
	default:
		return 0, false
	}
	if !fits {
		fail("the result of %d %s %d does not fit in 64 bits", x, op, y)
	}
	return v, true
}

func magnitude(i int64) uint64 {
	if i < 0 {
		return -uint64(i)
	}
	return uint64(i)
}

func add(s *state, op string, a, b any) any {
	x, ok := a.(string)
	y, ok2 := b.(string)
	if ok && ok2 {
		s.newString(len(x) + len(y))
		s.spend((len(x) + len(y)) / 64)
		return x + y
	}
	if k, l := kindOf(a), kindOf(b); k != number || l != number {
		fail("+ adds two numbers or joins two strings, not %s and %s (string(x) makes a string of anything)", k, l)
	}
	return arithmetic(s, op, a, b)
}

// compare orders two numbers or two strings.
func (s *state) compare(op string, a, b any) int {
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			s.spend(min(len(a), len(b)) / 64)
			return strings.Compare(a, b)
		}
	case int64:
		if b, ok := b.(int64); ok {
			switch {
			case a < b:
				return -1
			case a > b:
				return 1
			}
			return 0
		}
	}
	if k, l := kindOf(a), kindOf(b); k != number || l != number {
		fail("%s compares two numbers or two strings, not %s and %s", op, k, l)
	}
	return value.Compare(a, b)
}

// equal is value.Equal, but it pays for what it reads.
func (s *state) equal(a, b any) bool {
	s.spend(1)
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		if ok && len(a) == len(b) {
			s.spend(len(a) / 64)
			return a == b
		}
		return false
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !s.equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		same := true
		for k, v := range a { // to the end, so that the work does not depend on the order
			w, ok := b[k]
			same = s.equal(v, w) && ok && same
		}
		return same
	}
	return value.Equal(a, b)
}

func in(s *state, _ string, a, b any) any {
	switch b := b.(type) {
	case nil:
		return false
	case []any:
		for _, e := range b {
			if s.equal(e, a) {
				return true
			}
		}
		return false
	case map[string]any:
		name, ok := a.(string)
		if !ok {
			fail("the keys of a map are strings, not %s", kindOf(a))
		}
		s.spend(len(name) / 64)
		_, ok = b[name]
		return ok
	}
	fail("in looks into a list or the keys of a map, not %s (contains looks into strings)", kindOf(b))
	return nil
}

// search makes an operator of a function of two strings. As in the library, null contains nothing.
func search(f func(string, string) bool) func(*state, string, any, any) any {
	return func(s *state, op string, a, b any) any {
		x, y, ok := strings2(op, a, b)
		if !ok {
			return false
		}
		s.spend((len(x) + len(y)) / 16)
		return f(x, y)
	}
}

// strings2 is two strings; ok is false when one of them is null.
func strings2(op string, a, b any) (x, y string, ok bool) {
	for i, v := range [...]any{a, b} {
		if k := kindOf(v); k&(text|null) == 0 {
			fail("the %s side of %s must be a string, not %s", [...]string{"left", "right"}[i], op, k)
		}
	}
	x, ok = a.(string)
	y, ok2 := b.(string)
	return x, y, ok && ok2
}

// span is the list of the integers from a to b.
func span(s *state, op string, a, b any) any {
	from, to := integer("the left side of ..", a), integer("the right side of ..", b)
	n := 0
	if from <= to {
		n = to - from
		if n < 0 || n > maxWork {
			fail("the range %d..%d is too long", from, to)
		}
		n++
	}
	out := s.newList(n)
	for i := range n {
		out = append(out, int64(from+i))
	}
	s.alloc(8 * n)
	return out
}

// slice cuts a list or a string; bounds may be null, negative (from the end) or too large.
func (s *state) slice(v, from, to any) any {
	s.spend(weight(v))
	k := kindOf(v)
	if k&(list|text) == 0 {
		fail("what is sliced must be a list or a string, not %s", k)
	}
	n := length(v)
	clamp := func(bound any, absent int) int {
		if bound == nil {
			return absent
		}
		i := integer("the bound of a slice", bound)
		if i < 0 {
			i += n
		}
		return min(max(i, 0), n)
	}
	b := clamp(to, n)
	a := min(clamp(from, 0), b)
	if str, ok := v.(string); ok {
		return chars(str, a, b)
	}
	return v.([]any)[a:b:b]
}
