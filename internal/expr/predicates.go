package expr

// loop is one lowered call of a function that walks over a list with a predicate.
type loop struct {
	name  string
	what  string // the predicate, for messages
	over  code
	body  code // nil where it may be left out: the item itself
	extra code // the order of sortBy, the beginning of reduce; else nil
	cost  int  // of one evaluation of body
}

// items evaluates the list.
func (l *loop) items(s *state) []any {
	v := l.over(s)
	items, ok := v.([]any)
	switch k := kindOf(v); {
	case k == dict:
		fail("%s needs a list, not a map (%s)", l.name, overMap)
	case !ok:
		fail("%s needs a list, not %s", l.name, k)
	}
	return items
}

// each evaluates the predicate for the items, until yield wants no more.
func (l *loop) each(s *state, items []any, backwards bool, yield func(i int, v any) bool) {
	outer := s.frame
	for n := range items {
		i := n
		if backwards {
			i = len(items) - 1 - n
		}
		s.spend(l.cost)
		v := items[i]
		if l.body != nil {
			s.frame = frame{item: v, index: i}
			v = l.body(s)
		}
		if !yield(i, v) {
			break
		}
	}
	s.frame = outer
}

// find is the index of the first item for which the predicate gives want, or -1.
func (l *loop) find(s *state, items []any, backwards, want bool) int {
	found := -1
	l.each(s, items, backwards, func(i int, v any) bool {
		if truth(l.what, v) == want {
			found = i
		}
		return found < 0
	})
	return found
}

// count is how many items the predicate is true for.
func (l *loop) count(s *state, items []any) int64 {
	n := int64(0)
	l.each(s, items, false, func(_ int, v any) bool {
		if truth(l.what, v) {
			n++
		}
		return true
	})
	return n
}

// some reports whether the predicate is true for an item.
func some(s *state, l *loop) any { return l.find(s, l.items(s), false, true) >= 0 }

// none reports whether the predicate gives want for no item.
func none(want bool) func(*state, *loop) any {
	return func(s *state, l *loop) any { return l.find(s, l.items(s), false, want) < 0 }
}

func item(backwards bool) func(*state, *loop) any {
	return func(s *state, l *loop) any {
		items := l.items(s)
		if i := l.find(s, items, backwards, true); i >= 0 {
			return items[i]
		}
		return nil
	}
}

func index(backwards bool) func(*state, *loop) any {
	return func(s *state, l *loop) any {
		if i := l.find(s, l.items(s), backwards, true); i >= 0 {
			return int64(i)
		}
		return nil
	}
}

func filter(s *state, l *loop) any {
	items := l.items(s)
	out := []any{}
	l.each(s, items, false, func(i int, v any) bool {
		if truth(l.what, v) {
			s.alloc(32)
			out = append(out, items[i])
		}
		return true
	})
	return out
}

func mapItems(s *state, l *loop) any {
	items := l.items(s)
	out := s.newList(len(items))
	l.each(s, items, false, func(_ int, v any) bool {
		out = append(out, v)
		return true
	})
	return out
}

func sum(s *state, l *loop) any {
	var sum any = int64(0)
	l.each(s, l.items(s), false, func(_ int, v any) bool {
		sum = arithmetic(s, "+", sum, v)
		return true
	})
	return sum
}

func groupBy(s *state, l *loop) any {
	items := l.items(s)
	groups := map[string]any{}
	l.each(s, items, false, func(i int, v any) bool {
		if k := kindOf(v); k&(text|number|boolean) == 0 {
			fail("groupBy groups by a string, number or boolean, not %s", k)
		}
		key := s.text(v)
		s.spend(len(key) / 64)
		s.alloc(96)
		group, _ := groups[key].([]any)
		groups[key] = append(group, items[i])
		return true
	})
	return groups
}

func sortBy(s *state, l *loop) any {
	items := l.items(s)
	keys := s.newList(len(items))
	l.each(s, items, false, func(_ int, v any) bool {
		keys = append(keys, v)
		return true
	})
	out := append(s.newList(len(items)), items...)
	var order []any
	if l.extra != nil {
		order = []any{l.extra(s)}
	}
	s.sort("sortBy", out, keys, order)
	return out
}

func reduce(s *state, l *loop) any {
	items, first := l.items(s), 0
	var acc any
	switch {
	case l.extra != nil:
		acc = l.extra(s)
	case len(items) == 0:
		fail("reduce of an empty list needs a value to begin with")
	default:
		acc, first = items[0], 1
	}
	outer := s.frame
	for i := first; i < len(items); i++ {
		s.spend(l.cost)
		s.frame = frame{items[i], i, acc}
		acc = l.body(s)
	}
	s.frame = outer
	return acc
}
