package workflow

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dominikbraun/graph"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/program"
)

// MaxWays is the most ways that Why returns.
const MaxWays = 100

// Ways are the ways on which one step of a plan waits for another.
type Ways struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Ways  [][]Hop `json:"ways"`  // the shortest first, then in plan order; at most MaxWays
	Total int     `json:"total"` // how many there are; math.MaxInt32 stands for that and more

	reverse bool // From waits for To
}

// Hop is one edge of a way.
type Hop struct {
	Step string `json:"step"` // that the edge leads to
	Kind string `json:"kind"` // as in Edge; body: into the body of the step before, or out of it
}

// Why returns the ways from one step to another that waits for it, directly or through others. Steps are
// named by their paths. A way between bodies leads out of the one and into the other: the steps around
// wait for each other then. There may be millions of ways: MaxWays of them are returned, and all are
// counted. The error says that a step is not in the plan, or that both are the same.
func (p *Plan) Why(from, to string) (*Ways, error) {
	start, err := p.find(from)
	if err != nil {
		return nil, err
	}
	end, err := p.find(to)
	if err != nil {
		return nil, err
	}
	if from == to {
		return nil, fmt.Errorf("%q is one step: name two", from)
	}
	w := &Ways{From: from, To: to, Ways: [][]Hop{}}
	level := 0 // of the innermost body that both are in
	for level < min(len(start), len(end))-1 && start[level].index == end[level].index {
		level++
	}
	a, b := start[level].index, end[level].index
	if a == b { // one is in the other
		w.Total, w.Ways = 1, [][]Hop{{{to, "body"}}}
		return w, nil
	}
	steps := start[level].steps
	l := between(steps, a, b)
	if w.Total = l.total(); w.Total == 0 {
		w.reverse = between(steps, b, a).total() > 0
		return w, nil
	}
	for _, way := range l.list() {
		var hops []Hop
		if level < len(start)-1 {
			hops = append(hops, Hop{steps[a].ID, "body"})
		}
		for i, step := range way[1:] {
			hops = append(hops, Hop{steps[step].ID, kindOf(&steps[step], steps[way[i]].ID)})
		}
		if level < len(end)-1 {
			hops = append(hops, Hop{to, "body"})
		}
		w.Ways = append(w.Ways, hops)
	}
	return w, nil
}

// Text returns the ways for people, a line each: fetch → parse (data) → report (order).
func (w *Ways) Text() string {
	var b strings.Builder
	if w.Total == 0 {
		fmt.Fprintf(&b, "%s does not wait for %s", w.To, w.From)
		if w.reverse {
			fmt.Fprintf(&b, "; %s waits for %s", w.From, w.To)
		}
		b.WriteByte('\n')
	}
	for _, way := range w.Ways {
		b.WriteString(w.From)
		for _, hop := range way {
			fmt.Fprintf(&b, " → %s (%s)", hop.Step, hop.Kind)
		}
		b.WriteByte('\n')
	}
	if more := w.Total - len(w.Ways); w.Total == math.MaxInt32 {
		fmt.Fprintf(&b, "and more than %d other ways\n", more)
	} else if more > 0 {
		fmt.Fprintf(&b, "and %d other ways\n", more)
	}
	return b.String()
}

// place is where a step stands: in a body, in plan order.
type place struct {
	steps []program.PlanStep
	index int
}

// find returns the places of the steps around a path and of the step itself, from the outermost.
func (p *Plan) find(path string) (chain []place, err error) {
	for steps := p.Steps; ; {
		i := slices.IndexFunc(steps,
			func(s program.PlanStep) bool { return s.ID == path || strings.HasPrefix(path, s.ID+"/") })
		if i < 0 {
			hint := program.HintLine(diagnostics.DidYouMean(path, stepPaths(p.Steps)))
			return nil, fmt.Errorf("the plan has no step %q%s", path, hint)
		}
		chain = append(chain, place{steps, i})
		if steps[i].ID == path {
			return chain, nil
		}
		steps = steps[i].Body
	}
}

func stepPaths(steps []program.PlanStep) (paths []string) {
	for _, s := range steps {
		paths = append(append(paths, s.ID), stepPaths(s.Body)...)
	}
	return paths
}

func kindOf(s *program.PlanStep, need string) string {
	i := slices.IndexFunc(s.Needs, func(e program.Edge) bool { return e.Step == need })
	return s.Needs[i].Kind
}

// lattice is what lies on the ways between two steps of a body. Steps are their places in plan order, so
// every edge leads upwards. A step that is on no way has no entry.
type lattice struct {
	start, end int
	succ       map[int][]int
	ways       map[int]int // to the end; at most math.MaxInt32
	dist       map[int]int // the edges of the shortest of them
}

// between lays out the ways from one step of a body to another.
func between(steps []program.PlanStep, start, end int) *lattice {
	l := &lattice{start: start, end: end, succ: map[int][]int{}, ways: map[int]int{end: 1}, dist: map[int]int{end: 0}}
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

// total is the number of ways.
func (l *lattice) total() int { return l.ways[l.start] }

// list returns up to MaxWays ways, the shortest among them, as places:
//
//  1. keep so many edges of each step, of the shortest ways first, that no step has more than MaxWays left
//  2. let the library list the ways along these: it lists all that there are
//  3. sort them
func (l *lattice) list() [][]int {
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
			if left[step]+left[next] <= MaxWays {
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
