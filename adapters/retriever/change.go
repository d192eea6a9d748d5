package retriever

import (
	"slices"
	"strings"

	"github.com/braise-run/braise/runtime"
)

// change makes a change whose texts have their vectors.
func change(s session, c *runtime.Change) (u runtime.Updated, err error) {
	return u, s.alone(func() error {
		done, ok, err := s.earlier(c.Key) // of another process, meanwhile
		if err != nil || ok {
			u = done
			return err
		}
		was, err := s.digests()
		if err != nil {
			return err
		}
		todo := planOf(c, was)
		if err := s.remove(slices.Concat(todo.gone, todo.changed)); err != nil {
			return err
		}
		for _, source := range todo.put {
			if err := s.put(source); err != nil {
				return err
			}
		}
		u = todo.counts
		return s.settle(c.Key, u)
	})
}

// maxChanges is how many changes are remembered, at least: as long as one of them may be made again.
const maxChanges = 10_000

// todo is what a change does to an index.
type todo struct {
	gone, changed []string // sources that are removed, sources that are replaced
	put           []*runtime.Source
	counts        runtime.Updated
}

// planOf says what a change does to an index with these sources.
func planOf(c *runtime.Change, was map[string]string) (t todo) {
	there := map[string]bool{}
	for i := range c.Sources {
		s := &c.Sources[i]
		there[s.Name] = true
		switch digest, ok := was[s.Name]; {
		case !ok:
			t.counts.Added++
			t.put = append(t.put, s)
		case digest == s.Digest:
			t.counts.Skipped++
		default:
			t.counts.Changed++
			t.changed, t.put = append(t.changed, s.Name), append(t.put, s)
		}
	}
	if c.Stale {
		for name := range was {
			if !there[name] && strings.HasPrefix(name, c.Under) {
				t.gone = append(t.gone, name)
			}
		}
		slices.Sort(t.gone)
		t.counts.Deleted = len(t.gone)
	}
	return t
}
