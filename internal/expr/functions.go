package expr

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/value"
)

// function is one that takes values, or walks over a list with a predicate.
type function struct {
	params   []kinds // the last one repeats when variadic
	least    int     // how many arguments there must be
	variadic bool
	result   kinds
	run      func(s *state, a []any) any

	loop      func(s *state, l *loop) any // instead of run: see predicates.go
	predicate kinds                       // what the predicate gives
}

func (f *function) param(i int) kinds { return f.params[min(i, len(f.params)-1)] }

func argument(name string, i int) string {
	return fmt.Sprintf("argument %d of %s", i+1, name)
}

// arity says how many arguments the function takes.
func (f *function) arity() string {
	switch {
	case f.variadic:
		return fmt.Sprintf("at least %d arguments", f.least)
	case f.least < len(f.params):
		return fmt.Sprintf("%d or %d arguments", f.least, len(f.params))
	case f.least == 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", f.least)
}

// takes lists the kinds of arguments.
func takes(params ...kinds) *function { return &function{params: params, least: len(params)} }

func (f *function) optional(k kinds) *function {
	f.params = append(f.params, k)
	return f
}

func (f *function) repeated() *function {
	f.variadic = true
	return f
}

func (f *function) gives(k kinds, run func(s *state, a []any) any) *function {
	f.result, f.run = k, run
	return f
}

// iterates is a function over a list, with a predicate that gives k.
func iterates(k, result kinds, run func(s *state, l *loop) any) *function {
	return &function{predicate: k, result: result, loop: run}
}

// clock are functions of the library that this package does not have.
var clock = []string{"now", "date", "duration", "timezone"}

// functions are those of the library that take values, over decoded JSON: strings count in
// characters, whole numbers are integers, JSON is canonical, maps go by sorted keys.
var functions = map[string]*function{
	"len":    takes(text|list|dict).gives(number, func(_ *state, a []any) any { return int64(length(a[0])) }),
	"type":   takes(anyKind).gives(text, func(_ *state, a []any) any { return typeName(a[0]) }),
	"string": takes(anyKind).gives(text, func(s *state, a []any) any { return s.text(a[0]) }),
	"int":    takes(text|number).gives(number, func(_ *state, a []any) any { return toInteger(a[0]) }),
	"float":  takes(text|number).gives(number, func(_ *state, a []any) any { return number64(toFloat(a[0])) }),
	"abs": takes(number).gives(number, func(_ *state, a []any) any {
		if float(a[0]) < 0 {
			return arithmetic(nil, "-", int64(0), a[0])
		}
		return a[0]
	}),
	"ceil":  rounding(math.Ceil),
	"floor": rounding(math.Floor),
	"round": rounding(math.Round),

	"trim":       trimming(strings.Trim, " \t\r\n\v\f\u0085\u00a0"),
	"trimPrefix": trimming(strings.TrimPrefix, " "),
	"trimSuffix": trimming(strings.TrimSuffix, " "),
	"upper":      takes(text).gives(text, func(s *state, a []any) any { return s.made(strings.ToUpper(a[0].(string))) }),
	"lower":      takes(text).gives(text, func(s *state, a []any) any { return s.made(strings.ToLower(a[0].(string))) }),
	"split":      takes(text, text).optional(number).gives(list, splitting(strings.SplitN)),
	"splitAfter": takes(text, text).optional(number).gives(list, splitting(strings.SplitAfterN)),
	"replace":    takes(text, text, text).optional(number).gives(text, replace),
	"repeat":     takes(text, number).gives(text, repeat),
	"join":       takes(list).optional(text).gives(text, join),
	"indexOf":    takes(text, text).gives(number, finding(strings.Index)),
	"lastIndexOf": takes(text, text).gives(number,
		finding(strings.LastIndex)),
	"hasPrefix": takes(text, text).gives(boolean, func(_ *state, a []any) any { return strings.HasPrefix(a[0].(string), a[1].(string)) }),
	"hasSuffix": takes(text, text).gives(boolean, func(_ *state, a []any) any { return strings.HasSuffix(a[0].(string), a[1].(string)) }),

	"max":    takes(number|list).repeated().gives(number|null, extreme("max", 1)),
	"min":    takes(number|list).repeated().gives(number|null, extreme("min", -1)),
	"mean":   takes(number|list).repeated().gives(number, mean),
	"median": takes(number|list).repeated().gives(number, median),

	"toJSON": takes(anyKind).gives(text, func(s *state, a []any) any {
		if str, ok := a[0].(string); ok {
			s.newString(len(str))
			return s.made(string(value.AppendString(nil, str)))
		}
		if a[0] == nil {
			return "null"
		}
		return s.text(a[0])
	}),
	"fromJSON":   takes(text).gives(anyKind, fromJSON),
	"toBase64":   takes(text).gives(text, func(s *state, a []any) any { return s.made(base64.StdEncoding.EncodeToString([]byte(a[0].(string)))) }),
	"fromBase64": takes(text).gives(text, fromBase64),

	"first": takes(list).gives(anyKind, func(_ *state, a []any) any { v, _ := member(a[0], int64(0)); return v }),
	"last":  takes(list).gives(anyKind, func(_ *state, a []any) any { v, _ := member(a[0], int64(-1)); return v }),
	"get":   takes(list|dict|text|null, text|number).gives(anyKind, func(s *state, a []any) any { v, _ := s.member(a[0], a[1]); return v }),
	"take": takes(list, number).gives(list, func(s *state, a []any) any {
		return s.slice(a[0], nil, int64(max(0, integer("the number of items", a[1]))))
	}),
	"reverse":   takes(list).gives(list, func(s *state, a []any) any { l := s.copied(a[0]); slices.Reverse(l); return l }),
	"concat":    takes(list).repeated().gives(list, concat),
	"converged": takes(list, number).gives(boolean, converged),
	"flatten":   takes(list).gives(list, func(s *state, a []any) any { return s.flatten(s.newList(0), a[0].([]any), 0) }),
	"uniq":      takes(list).gives(list, uniq),
	"sort": takes(list).optional(text).gives(list, func(s *state, a []any) any {
		l := s.copied(a[0])
		s.sort("sort", l, l, a[1:])
		return l
	}),

	"keys":      takes(dict).gives(list, entries(func(_ *state, k string, _ any) any { return k })),
	"values":    takes(dict).gives(list, entries(func(_ *state, _ string, v any) any { return v })),
	"toPairs":   takes(dict).gives(list, entries(func(s *state, k string, v any) any { return append(s.newList(2), k, v) })),
	"fromPairs": takes(list).gives(dict, fromPairs),

	"all":           iterates(boolean, boolean, func(s *state, l *loop) any { return l.find(s, l.items(s), false, false) < 0 }),
	"any":           iterates(boolean, boolean, func(s *state, l *loop) any { return l.find(s, l.items(s), false, true) >= 0 }),
	"none":          iterates(boolean, boolean, func(s *state, l *loop) any { return l.find(s, l.items(s), false, true) < 0 }),
	"one":           iterates(boolean, boolean, func(s *state, l *loop) any { return l.count(s, l.items(s)) == 1 }),
	"count":         iterates(boolean, number, func(s *state, l *loop) any { return l.count(s, l.items(s)) }),
	"find":          iterates(boolean, anyKind, item(false)),
	"findLast":      iterates(boolean, anyKind, item(true)),
	"findIndex":     iterates(boolean, number|null, index(false)),
	"findLastIndex": iterates(boolean, number|null, index(true)),
	"filter":        iterates(boolean, list, filter),
	"map":           iterates(anyKind, list, mapItems),
	"sum":           iterates(anyKind, number, sum),
	"groupBy":       iterates(anyKind, dict, groupBy),
	"sortBy":        iterates(anyKind, list, sortBy),
	"reduce":        iterates(anyKind, anyKind, reduce),
}

// weight is the work of reading a value once, without what is below it.
func weight(v any) int {
	switch v := v.(type) {
	case string:
		return 1 + len(v)/16
	case []any:
		return 1 + len(v)/8
	case map[string]any:
		return 1 + len(v)
	}
	return 1
}

// made pays for a string that was made of one of limited size.
func (s *state) made(str string) string {
	s.newString(len(str))
	return str
}

func (s *state) copied(v any) []any {
	l := v.([]any)
	return append(s.newList(len(l)), l...)
}

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		if _, ok := number64(v).(int64); ok {
			return "int"
		}
		return "float"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "map"
}

func toFloat(v any) float64 {
	str, ok := v.(string)
	if !ok {
		return float(v)
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(str), 64)
	if err != nil {
		fail("%q is not a number", shorten(str))
	}
	return f
}

func toInteger(v any) any {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		i, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil {
			fail("%q is not an integer", shorten(v))
		}
		return i
	}
	f := math.Trunc(float(v))
	if f < math.MinInt64 || f >= -math.MinInt64 {
		fail("%v does not fit in 64 bits", v)
	}
	return int64(f)
}

func rounding(f func(float64) float64) *function {
	return takes(number).gives(number, func(_ *state, a []any) any {
		if i, ok := a[0].(int64); ok {
			return i
		}
		return number64(f(float(a[0])))
	})
}

func trimming(f func(s, cut string) string, absent string) *function {
	return takes(text).optional(text).gives(text, func(_ *state, a []any) any {
		cut := absent
		if len(a) > 1 {
			cut = a[1].(string)
		}
		return f(a[0].(string), cut)
	})
}

func splitting(f func(s, sep string, n int) []string) func(*state, []any) any {
	return func(s *state, a []any) any {
		str, n := a[0].(string), -1
		if len(a) > 2 {
			n = integer("the number of parts", a[2])
		}
		s.spend(len(str) / 4)
		parts := f(str, a[1].(string), n)
		out := s.newList(2 * len(parts))
		for _, part := range parts {
			out = append(out, part)
		}
		return out
	}
}

func replace(s *state, a []any) any {
	str, from, to, n := a[0].(string), a[1].(string), a[2].(string), -1
	if len(a) > 3 {
		n = integer("the number of replacements", a[3])
	}
	count := strings.Count(str, from)
	if n >= 0 {
		count = min(count, n)
	}
	s.spend(count)
	s.newString(max(0, len(str)+count*(len(to)-len(from))))
	return strings.Replace(str, from, to, n)
}

func repeat(s *state, a []any) any {
	str, n := a[0].(string), integer("the number of repetitions", a[1])
	if n < 0 {
		fail("the number of repetitions must not be negative")
	}
	if str == "" {
		return ""
	}
	s.newString(len(str) * min(n, maxString+1))
	return strings.Repeat(str, n)
}

func join(s *state, a []any) any {
	glue := ""
	if len(a) > 1 {
		glue = a[1].(string)
	}
	items := a[0].([]any)
	s.alloc(16 * len(items))
	parts := make([]string, len(items))
	size := 0
	for i, item := range items {
		parts[i] = s.text(item)
		if size += len(parts[i]) + len(glue); size > maxString+len(glue) {
			break
		}
	}
	s.newString(max(0, size-len(glue)))
	return strings.Join(parts, glue)
}

// finding counts in characters.
func finding(f func(s, sub string) int) func(*state, []any) any {
	return func(_ *state, a []any) any {
		str := a[0].(string)
		i := f(str, a[1].(string))
		if i > 0 {
			i = utf8.RuneCountInString(str[:i])
		}
		return int64(i)
	}
}

// flatten appends the items of l, and of lists in it, to out.
func (s *state) flatten(out, l []any, depth int) []any {
	if depth > value.MaxDepth {
		fail("a value is nested more than %d deep", value.MaxDepth)
	}
	for _, e := range l {
		s.spend(1)
		if inner, ok := e.([]any); ok {
			out = s.flatten(out, inner, depth+1)
			continue
		}
		s.alloc(32)
		out = append(out, e)
	}
	return out
}

// numbers are the arguments of a function, lists among them flattened.
func (s *state) numbers(name string, a []any) []any {
	out := s.flatten(s.newList(len(a)), a, 0)
	for _, v := range out {
		if k := kindOf(v); k != number {
			fail("%s looks at numbers, not %s", name, k)
		}
	}
	return out
}

func extreme(name string, sign int) func(*state, []any) any {
	return func(s *state, a []any) any {
		var best any
		for _, v := range s.numbers(name, a) {
			if best == nil || s.compare(name, v, best) == sign {
				best = v
			}
		}
		return best
	}
}

func mean(s *state, a []any) any {
	all := s.numbers("mean", a)
	if len(all) == 0 {
		return int64(0)
	}
	var sum float64
	for _, v := range all {
		sum += float(v)
	}
	return number64(sum / float64(len(all)))
}

func median(s *state, a []any) any {
	all := s.numbers("median", a)
	if len(all) == 0 {
		return int64(0)
	}
	s.sort("median", all, all, nil)
	if mid := len(all) / 2; len(all)%2 == 1 {
		return all[mid]
	} else {
		return number64((float(all[mid-1]) + float(all[mid])) / 2)
	}
}

func fromJSON(s *state, a []any) any {
	str := a[0].(string)
	s.spend(len(str))
	s.alloc(16 * len(str))
	v, err := value.Decode([]byte(str))
	if err != nil {
		_, cause := value.Place(err)
		fail("the text is not JSON: %w", cause)
	}
	return v
}

func fromBase64(s *state, a []any) any {
	data, err := base64.StdEncoding.DecodeString(a[0].(string))
	if err != nil {
		fail("the text is not base64")
	}
	if !utf8.Valid(data) {
		fail("the base64 text does not hold a string: it is not UTF-8")
	}
	return s.made(string(data))
}

func concat(s *state, a []any) any {
	n := 0
	for _, l := range a {
		n += len(l.([]any))
	}
	out := s.newList(n)
	for _, l := range a {
		out = append(out, l.([]any)...)
	}
	return out
}

// converged reports whether there are n items and the last n are equal.
func converged(s *state, a []any) any {
	l, n := a[0].([]any), integer("the number of items", a[1])
	if n < 1 {
		fail("the number of items must be at least 1")
	}
	if len(l) < n {
		return false
	}
	last := l[len(l)-1]
	for _, v := range l[len(l)-n : len(l)-1] {
		if !s.equal(v, last) {
			return false
		}
	}
	return true
}

func uniq(s *state, a []any) any {
	out := s.newList(len(a[0].([]any)))
	type composite struct{ json string } // unlike any string
	seen := map[any]bool{}
	for _, v := range a[0].([]any) {
		key := v
		switch w := v.(type) {
		case []any, map[string]any:
			key = composite{s.text(v)}
		case float64:
			key = number64(w)
		case string:
			s.spend(len(w) / 64)
		}
		if !seen[key] {
			seen[key] = true
			out = append(out, v)
		}
	}
	return out
}

// sort orders items by their keys, both in place, stably; order is nothing, "asc" or "desc".
func (s *state) sort(name string, items, keys []any, order []any) {
	sign := 1
	if len(order) > 0 {
		switch order[0] {
		case "asc":
		case "desc":
			sign = -1
		default:
			fail("the order of %s must be \"asc\" or \"desc\"", name)
		}
	}
	type keyed struct{ item, key any }
	s.alloc(32 * len(items))
	all := make([]keyed, len(items))
	for i := range items {
		all[i] = keyed{items[i], keys[i]}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		s.spend(1)
		return sign * s.compare(name, a.key, b.key)
	})
	for i := range all {
		items[i] = all[i].item
	}
}

// entries makes a list of a map, in the order of its keys.
func entries(f func(s *state, k string, v any) any) func(*state, []any) any {
	return func(s *state, a []any) any {
		m := a[0].(map[string]any)
		out := s.newList(2 * len(m))
		for _, k := range slices.SortedFunc(maps.Keys(m), cmp.Compare[string]) {
			out = append(out, f(s, k, m[k]))
		}
		return out
	}
}

func fromPairs(s *state, a []any) any {
	pairs := a[0].([]any)
	s.alloc(48 + 48*len(pairs))
	out := make(map[string]any, len(pairs))
	for _, p := range pairs {
		pair, _ := p.([]any)
		if len(pair) != 2 {
			fail("a pair must be a list of a key and a value")
		}
		k, ok := pair[0].(string)
		if !ok {
			fail("the key of a pair must be a string, not %s", kindOf(pair[0]))
		}
		out[k] = pair[1]
	}
	return out
}
