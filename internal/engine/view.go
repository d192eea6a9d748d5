package engine

import (
	"slices"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
)

// Step is how far a step, an item of a foreach or a step in a body has come.
type Step struct {
	Path    string
	Status  string // pending, running, waiting, succeeded, failed, skipped or cancelled
	Reason  string // of a skipped one: when_false or upstream
	Begun   time.Time
	Ended   time.Time // zero: it has not ended, like Begun
	Output  any
	Failure *machine.Failure // nil: it did not fail
	Used    journal.Amount   // by calls of models, in this generation
	Finish  string           // why the last answer of its model ended; "": not known
}

// span is when a step began and ended.
type span struct{ begun, ended time.Time }

// note notes the times of the steps of a run that is viewed.
func (p *leftOver) note(c machine.Command, now time.Time) {
	if p.spans == nil {
		return
	}
	s := p.spans[c.Task]
	switch c.Op {
	case machine.Began:
		s.begun = now
	case machine.Ended:
		s.ended = now
	default:
		return
	}
	p.spans[c.Task] = s
}

// View reads a run, and changes nothing. It is of use until the run goes on.
type View struct {
	m      *machine.Machine
	ending *ending
	calls  *calls
	waits  *waits
	agents agentsOf
	budget *budget
	undo   *undoing
	by     string
	redact *value.Redactor
	found  diagnostics.List
	spans  map[*machine.Task]span
}

// View returns a look at the run.
func (r *Run) View() View {
	return View{m: r.m, ending: &r.ending, calls: &r.calls, waits: &r.waits, agents: r.agents, budget: &r.budget,
		undo: &r.undo, by: r.by, redact: r.o.Redact, found: r.found, spans: r.past.spans}
}

// By returns who started the run, or gave the last answer whose giver is known; "": nobody is known.
func (v View) By() string { return v.by }

// Result is how the steps have ended; nil: they have not.
func (v View) Result() *machine.Result { return v.m.Result() }

// Used returns what the run's calls of models used, in all executions, and their number.
func (v View) Used() (used journal.Amount, calls int64) { return v.budget.total, v.budget.calls }

// Flying returns the calls that the driver makes.
func (v View) Flying() []*Call {
	list := make([]*Call, len(v.calls.flying))
	for i, p := range v.calls.flying {
		list[i] = p.Call
	}
	return list
}

// Stopped reports whether the agent that makes a call was told to stop.
func (v View) Stopped(call int64) bool {
	return slices.ContainsFunc(v.agents.working(), func(a *agent) bool {
		return a.call.stopped && slices.ContainsFunc(a.jobs, func(p *pending) bool { return p.ID == call })
	})
}

// Artefact returns the outputs of the run's succeeded steps by id. While the run waits, it also has, by path, the
// outputs of steps that have succeeded in the bodies of steps that have not.
func (v View) Artefact() map[string]any {
	artefact := v.m.Artefact()
	if result := v.Result(); result == nil || result.Status != machine.Waiting {
		return artefact
	}
	covered := 0 // how many of the enclosing tasks have succeeded
	v.m.Walk(func(t *machine.Task) {
		if t.Status() == machine.Succeeded {
			if covered++; covered == 1 {
				artefact[t.Path()] = t.Output()
			}
		}
	}, func(t *machine.Task) {
		if t.Status() == machine.Succeeded {
			covered--
		}
	})
	return artefact
}

// Steps returns the steps of the present generation in plan order, what is inside of a step behind it. Bodies that have
// not begun are not there. They have times if [Options] says so.
func (v View) Steps() (list []Step) {
	v.m.Walk(func(t *machine.Task) {
		s := Step{Path: t.Path(), Status: t.Status().String(), Begun: v.spans[t].begun,
			Ended: v.spans[t].ended, Output: t.Output(), Failure: t.Failure()}
		switch t.Status() {
		case machine.SkippedWhen:
			s.Reason = "when_false"
		case machine.SkippedUpstream:
			s.Reason = "upstream"
		}
		s.Used, s.Finish = v.budget.usedBy(s.Path)
		list = append(list, s)
	}, func(*machine.Task) {})
	return list
}

// Inputs returns the inputs of those steps of the paths that have begun, with ${{ secrets.NAME }} where one has a
// secret. A step that has none, or whose input cannot be made any more, is not there.
func (v View) Inputs(paths map[string]bool) map[string]any {
	inputs := map[string]any{}
	v.m.Walk(func(t *machine.Task) {
		switch t.Status() {
		case machine.Pending, machine.SkippedWhen, machine.SkippedUpstream:
			return
		}
		if !paths[t.Path()] || t.Node().Foreach != nil && t.Whole() == t {
			return
		}
		n := t.Node()
		with := n.With
		if with == nil && n.Body != nil {
			with = n.Body.Given
		}
		if with == nil {
			return
		}
		v, err := with.Eval(t)
		if err == nil {
			v, err = shownSealed(v)
		}
		if err == nil && v != nil {
			inputs[t.Path()] = v
		}
	}, func(*machine.Task) {})
	return inputs
}

// Said returns what steps that ask a model were told, given their inputs by path, and what they answered: role and text
// each. Other steps said nothing.
func (v View) Said(inputs map[string]any) map[string][]any {
	said := map[string][]any{}
	v.m.Walk(func(t *machine.Task) {
		if m := t.Node().Messages; m != nil && inputs[t.Path()] != nil {
			said[t.Path()] = m.Of(inputs[t.Path()], t.Output())
		}
	}, func(*machine.Task) {})
	return said
}
