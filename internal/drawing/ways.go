package drawing

import (
	"cmp"
	"math"
	"slices"

	"github.com/dominikbraun/graph"

	"github.com/braise-run/braise/internal/program"
)

// Lattice is what lies on the ways between two steps of a body. Steps are their places in plan order, so
// every edge leads upwards. A step that is on no way has no entry.
type Lattice struct {
	start, end int
	succ       map[int][]int
	ways       map[int]int // to the end; at most math.MaxInt32
	dist       map[int]int // the edges of the shortest of them
}

// Between lays out the ways from one step of a body to another.
func Between(steps []program.PlanStep, start, end int) *Lattice {
	l := &Lattice{start: start, end: end, succ: map[int][]int{}, ways: map[int]int{end: 1}, dist: map[int]int{end: 0}}
	index := make(map[string]int, len(steps))
	for i := range steps {
		index[steps[i].ID] = i
	}
	for i := end; i > start; i-- { // when it is i's turn, all that follows it is known
		if l.ways[i] == 0 {
			continue
		}
		for _, e := range steps[i].Needs {
			need, ok := index[e.Step]
			if !ok || need < start || need >= i {
				continue
			}
			l.succ[need] = append(l.succ[need], i)
			l.ways[need] = min(l.ways[need]+l.ways[i], math.MaxInt32)
			if d, known := l.dist[need]; !known || l.dist[i]+1 < d {
				l.dist[need] = l.dist[i] + 1
			}
		}
	}
	return l
}

// Total is the number of ways.
func (l *Lattice) Total() int { return l.ways[l.start] }

// List returns up to so many ways, the shortest among them, as places:
//
//  1. keep so many edges of each step, of the shortest ways first, that no step has more than most left
//  2. let the library list the ways along these: it lists all that there are
//  3. sort them
func (l *Lattice) List(most int) [][]int {
	g := graph.New(graph.IntHash, graph.Directed())
	for step := range l.ways {
		_ = g.AddVertex(step) // each once
	}
	left := map[int]int{l.end: 1}
	for step := l.end - 1; step >= l.start; step-- {
		succ := slices.Clone(l.succ[step])
		slices.SortFunc(succ, func(a, b int) int {
			return cmp.Or(cmp.Compare(l.dist[a], l.dist[b]), cmp.Compare(a, b))
		})
		for _, next := range succ {
			if left[step]+left[next] <= most {
				left[step] += left[next]
				_ = g.AddEdge(step, next) // both ends exist, each edge once
			}
		}
	}
	list, err := graph.AllPathsBetween(g, l.start, l.end)
	if err != nil {
		return nil
	}
	slices.SortFunc(list, func(a, b []int) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), slices.Compare(a, b))
	})
	return list
}
