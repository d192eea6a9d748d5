package history

import (
	"slices"
	"strconv"
	"strings"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
)

// lister makes the list of a run's steps.
type lister struct {
	*view
	counts counted
	direct map[string]bool // the steps of the plan that are there outside of items
	busy   map[string]bool // what has something inside that runs, by path
	waits  map[string]bool // what has something inside that waits
	told   map[string]bool // the steps of the plan that the list has without a state of their own
	steps  []Step
}

// list lists the steps of a run in plan order: those that have a state and are in no item, and behind each what is in
// its body and has no state of its own.
func (v *view) list(plan []program.PlanStep) []Step {
	l := &lister{view: v, counts: counted{}, direct: map[string]bool{}, busy: map[string]bool{},
		waits: map[string]bool{}, told: map[string]bool{}, steps: []Step{}}
	for i := range v.states {
		l.look(&v.states[i])
	}
	for i := range v.states {
		if s := &v.states[i]; !strings.Contains(s.Path, "[") {
			l.add(s)
		}
	}
	run := Step{Status: "running"} // steps of its finally have no state before that begins
	if !resumable(v.run.Status) {
		run.Status = "cancelled"
	}
	l.inside(&program.PlanStep{Body: plan}, &run)
	return l.steps
}

// look counts a state.
func (l *lister) look(s *engine.Step) {
	id := resume.DefinitionPath(s.Path)
	p := l.plan[id]
	item := strings.HasSuffix(s.Path, "]")
	if !strings.Contains(s.Path, "[") {
		l.direct[id] = true
	} else if p == nil || item || !p.Foreach {
		l.counts.add(id, l.stepOf(s).Status)
	}
	if p == nil || p.Body != nil || p.Foreach && !item {
		return
	}
	for path := range around(s.Path) {
		l.busy[path] = l.busy[path] || s.Status == "running"
		l.waits[path] = l.waits[path] || s.Status == "waiting"
	}
}

// around yields the paths of the steps and items around a step: of a[1]/b#2/c they are a[1]/b, a[1] and a.
func around(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			if strings.HasSuffix(path, "]") {
				path = path[:strings.LastIndexByte(path, '[')]
			} else if end := strings.LastIndexByte(path, '/'); end >= 0 {
				path = path[:end]
				if at := strings.LastIndexByte(path, '#'); at > strings.LastIndexByte(path, '/') {
					path = path[:at]
				}
			} else {
				return
			}
			if !yield(path) {
				return
			}
		}
	}
}

// add adds a step that has a state.
func (l *lister) add(s *engine.Step) {
	step := l.stepOf(s)
	id := resume.DefinitionPath(s.Path)
	p := l.plan[id]
	if step.Status == "running" && !l.busy[s.Path] && l.waits[s.Path] {
		step.Status = "waiting"
	}
	if p != nil && p.Foreach {
		step.Items = l.counts[id]
	}
	l.steps = append(l.steps, step)
	if p != nil {
		l.inside(p, &step)
	}
}

// inside adds what is in the bodies of a step and has no state outside of items.
func (l *lister) inside(p *program.PlanStep, owner *Step) {
	for i := range p.Body {
		in := &p.Body[i]
		if l.direct[in.ID] || l.told[in.ID] {
			continue
		}
		l.told[in.ID] = true
		step := Step{Step: in.ID, Uses: in.Uses, Status: "pending"}
		if counts := l.counts[in.ID]; counts != nil {
			step.Items, step.Status = counts, l.counts.status(in.ID)
		} else if settled(owner.Status) {
			step.Status, step.Reason = "skipped", "not_taken"
			if owner.Status == "skipped" || owner.Status == "cancelled" {
				step.Status, step.Reason = owner.Status, owner.Reason
			}
		}
		l.steps = append(l.steps, step)
		l.inside(in, &step)
	}
}

// items returns items of a foreach.
func (v *view) items(path, status string, from, limit int) ([]Step, error) {
	if _, ok := v.index[path]; !ok {
		return nil, notThere(v.run.RunID, path)
	}
	list := []Step{}
	for n := max(0, from); len(list) < limit; n++ {
		i, ok := v.index[path+"["+strconv.Itoa(n)+"]"]
		if !ok {
			break
		}
		if step := v.stepOf(&v.states[i]); status == "" || step.Status == status {
			list = append(list, step)
		}
	}
	return list, nil
}

// paths returns the paths of the steps that use one of the kinds.
func (v *view) paths(kinds []string) (list []string) {
	if v.look == nil {
		for _, s := range v.run.Steps {
			if slices.Contains(kinds, s.Uses) {
				list = append(list, s.Step)
			}
		}
		return list
	}
	for i := range v.states {
		path := v.states[i].Path
		p := v.plan[resume.DefinitionPath(path)]
		if p != nil && slices.Contains(kinds, p.Uses) && (!p.Foreach || strings.HasSuffix(path, "]")) {
			list = append(list, path)
		}
	}
	return list
}

// within returns the states that are directly in the bodies of a step or an item, in plan order.
func (v *view) within(path string) (list []Step) {
	for i := range v.states {
		s := &v.states[i]
		if !strings.HasPrefix(s.Path, path) || strings.HasSuffix(s.Path, "]") {
			continue
		}
		if rest := s.Path[len(path):]; rest != "" && (rest[0] == '/' || rest[0] == '#') &&
			slices.Contains(slices.Collect(around(s.Path)), path) && v.owner(s.Path) == path {
			list = append(list, v.stepOf(s))
		}
	}
	return list
}

// owner is the step or item in whose body a step is; "": it is in none.
func (v *view) owner(path string) string {
	for outer := range around(path) {
		if _, ok := v.index[outer]; ok {
			return outer
		}
	}
	return ""
}
