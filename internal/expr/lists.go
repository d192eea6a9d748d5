package expr

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/braise-run/braise/internal/value"
)

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
			if key = number64(w); math.Abs(w) >= 1<<63 {
				key = json.Number(strconv.FormatFloat(w, 'f', 0, 64))
			}
		case json.Number:
			s.spend(len(w) / 64)
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
