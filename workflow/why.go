package workflow

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/drawing"
	"github.com/braise-run/braise/internal/program"
)

// MaxWays is the maximum number of ways that Why returns.
const MaxWays = 100

// Ways are the paths of edges by which one step of a plan waits for another.
type Ways struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Ways  [][]Hop `json:"ways"`  // the shortest first, then in plan order; at most MaxWays
	Total int     `json:"total"` // number of ways; math.MaxInt32 means that many or more

	reverse bool // From waits for To
}

// Hop is one edge of a way.
type Hop struct {
	Step string `json:"step"` // that the edge leads to
	Kind string `json:"kind"` // as in Edge; body: into the body of the previous step, or out of it
}

// Why returns the ways from one step to another that waits for it, directly or through other steps. Steps are named
// by their paths. A way between bodies leads out of one body and into the other: the steps that contain them wait
// for each other. There may be millions of ways: Why returns at most MaxWays of them, and counts all. The error says
// that a step is not in the plan, or that both names are the same step.
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
	level := 0 // of the innermost body that contains both
	for level < min(len(start), len(end))-1 && start[level].index == end[level].index {
		level++
	}
	a, b := start[level].index, end[level].index
	if a == b { // one is in the other
		w.Total, w.Ways = 1, [][]Hop{{{to, "body"}}}
		return w, nil
	}
	steps := start[level].steps
	l := drawing.Between(steps, a, b)
	if w.Total = l.Total(); w.Total == 0 {
		w.reverse = drawing.Between(steps, b, a).Total() > 0
		return w, nil
	}
	for _, way := range l.List(MaxWays) {
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

// Text returns the ways as text for people, one per line: fetch → parse (data) → report (order).
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

// place is the position of a step: its body, and its index in plan order.
type place struct {
	steps []program.PlanStep
	index int
}

// find returns the places of the steps that contain a path and of the step itself, outermost first.
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
