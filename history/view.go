package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// view is a run as it stood at a record.
type view struct {
	run *Run
	seq int64 // of the last record
	log *journalLog

	mu     sync.Mutex   // for look
	look   *engine.View // at the end of the journal; nil: the journal cannot be replayed
	states []engine.Step
	index  map[string]int // of states, by path
	plan   map[string]*program.PlanStep
}

// replay fills in what a replay of the journal tells. Where there can be none, it says why in the run's diagnostics,
// and the steps are those that have records.
func (v *view) replay(find finder) {
	run := v.run
	was, err := past.Read(run.RunID, v.log.past)
	if err == nil {
		run.Inputs = was.Begun.Inputs
	}
	var p *program.Program
	if err = cmp.Or(v.log.faulty, err); err == nil {
		p, err = v.replayed(was, find)
	}
	if err != nil {
		v.look, run.Steps = nil, v.log.steps
		run.Diagnostics = diagnostics.List{{Level: diagnostics.Warn, Kind: diagnostics.KindResume,
			Code:    diagnostics.CodePartialHistory,
			Message: "only the steps that have records are shown: " + firstLine(err)}}
		if found, ok := errors.AsType[*diagnostics.Error](err); ok {
			run.Diagnostics = append(run.Diagnostics, found.List...)
		}
		return
	}
	v.index, v.plan = map[string]int{}, map[string]*program.PlanStep{}
	for i := range v.states {
		v.index[v.states[i].Path] = i
	}
	indexPlan(v.plan, p.Steps)
	for i := range v.states { // what agents called
		if id := resume.DefinitionPath(v.states[i].Path); v.plan[id] == nil {
			if s, ok := p.InAgent(id); ok {
				v.plan[id] = &s
			}
		}
	}
	run.Steps = v.list(p.Steps)
	run.Diagnostics = v.look.Diagnostics(run.Events)
	v.result()
}

// needsReplay reports whether the content of an event comes from a replay: what goes into a call, and the output of the
// run. What comes out of calls is in their records.
func needsReplay(e trace.Event) bool { return e.Kind == trace.AdapterCall || e.Kind == trace.RunEnd }

// addContent adds to events what goes into calls, and the output of the run to its end.
func (v *view) addContent(events []trace.Event) {
	if v.look == nil {
		return
	}
	paths := map[string]bool{}
	for _, e := range events {
		if e.Kind == trace.AdapterCall {
			paths[e.Step] = true
		}
	}
	v.mu.Lock()
	inputs := v.look.Inputs(paths)
	v.mu.Unlock()
	for i := range events {
		e := &events[i]
		var content any
		switch {
		case e.Kind == trace.AdapterCall:
			content = inputs[e.Step]
		case e.Kind == trace.RunEnd && e.Data.Get("status") == string(OK):
			content = v.run.Output
		}
		if content != nil {
			e.Data = append(trace.Data{{Key: "content", Value: content}}, e.Data...) // it is sorted
		}
	}
}

// result fills in how the run has ended.
func (v *view) result() {
	run := v.run
	used, calls := v.look.Used()
	run.Usage = usageOf(used, calls)
	switch {
	case !v.look.Standing().EndsCancelled && (run.Status == Cancelled || v.look.Result() == nil):
		return
	case run.Status == OK:
		run.Output = v.look.Result().Output
	case run.Status == Failed || run.Status == Cancelled:
		e, ok := errors.AsType[*runtime.Error](v.look.Err())
		if ok && run.Error.Code == "" { // of an early version, or cancelled
			run.Error = checkpoint.Failure{Code: e.Code, Message: e.Err.Error(), Step: e.Step}
		}
		if ok && run.Error.Code == e.Code {
			run.Error.Category = string(e.Category)
		}
	}
}

// replayed replays the journal under the present definition of the run.
func (v *view) replayed(was *past.Past, find finder) (p *program.Program, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			p, err = nil, fmt.Errorf("the journal cannot be replayed: %v", fault)
		}
	}()
	now, begun := &was.Definition, &was.Begun
	text, err := now.Recipe()
	if err != nil {
		return nil, err
	}
	if p, err = find(now.Digest, text, program.Rules(now.Rules)); err != nil {
		return nil, err
	}
	inputs := begun.Inputs
	if now.From > 0 {
		if inputs, err = p.Inputs.Check(inputs); err != nil {
			return nil, err
		}
	}
	usual := engine.Options{ID: v.run.RunID, Now: was.Events[len(was.Events)-1].At, Interrupt: begun.Interrupt,
		Looks: engine.Looks{Times: true}, Limits: runtime.Limits{}.WithDefaults(), Durable: true, Kept: true}
	usual.Parallel = cmp.Or(begun.Parallel, p.Recipe.Limits.MaxParallel, usual.Limits.MaxParallel)
	high := usual // of a host with other limits, of which journals of earlier versions do not tell
	high.Limits.MaxItems, high.Limits.MaxSteps = math.MaxInt32, math.MaxInt32
	high.Limits.MaxOutputBytes, high.Limits.MaxRunBytes = math.MaxInt, math.MaxInt
	tries := []engine.Options{usual, high}
	for n := 1; begun.Parallel == 0 && n <= 8; n++ { // nor is this, in those of early versions
		usual.Parallel = n
		tries = append(tries, usual)
	}
	on := v.run.Status != Queued && v.run.Status != Interrupted
	for _, o := range tries {
		r := engine.New(p, o)
		if bad := r.Resume(inputs, was, on, false); bad != nil {
			err = cmp.Or(err, bad)
			continue
		}
		look := r.View()
		states := look.Steps()
		agrees := v.agrees(look, states)
		if v.look == nil || agrees {
			v.look, v.states = &look, states
		}
		if agrees {
			break
		}
	}
	if v.look != nil {
		return p, nil
	}
	return nil, err
}

// agrees reports whether a replay ends as the run did, or did not, and no limit stops what has a record of its success.
func (v *view) agrees(look engine.View, states []engine.Step) bool {
	for _, s := range states {
		i, recorded := v.log.index[s.Path]
		if s.Failure != nil && s.Failure.Category == string(runtime.CategoryLimit) && recorded &&
			v.log.steps[i].Status == "succeeded" {
			return false
		}
	}
	result := look.Result()
	if result == nil || v.run.Status == Cancelled {
		return true
	}
	f := result.Failure
	if v.run.Status == Failed {
		return v.run.Error.Code == "" || f != nil && f.Code == v.run.Error.Code
	}
	return f == nil || f.Category != string(runtime.CategoryLimit)
}

func firstLine(err error) string {
	if found, ok := errors.AsType[*diagnostics.Error](err); ok && len(found.List) > 0 {
		return found.List[0].Message
	}
	return err.Error()
}

func usageOf(used journal.Amount, calls int64) checkpoint.Usage {
	used.Calls = max(calls, used.Calls)
	return used.Total()
}

func indexPlan(index map[string]*program.PlanStep, steps []program.PlanStep) {
	for i := range steps {
		index[steps[i].ID] = &steps[i]
		indexPlan(index, steps[i].Body)
	}
}

// stepOf makes the Step of a state.
func (v *view) stepOf(s *engine.Step) Step {
	step := Step{Step: s.Path, Status: s.Status, Reason: s.Reason, StartedAt: s.Begun, EndedAt: s.Ended}
	if p := v.plan[resume.DefinitionPath(s.Path)]; p != nil {
		step.Uses = p.Uses
	}
	if !resumable(v.run.Status) && !settled(step.Status) {
		step.Status = "cancelled"
	}
	if f := s.Failure; f != nil {
		step.Error = checkpoint.Failure{Code: f.Code, Message: f.Err.Error()}
	}
	if s.Used != (journal.Amount{}) {
		u := usageOf(s.Used, 0)
		step.Usage = &u
	}
	if i, ok := v.log.index[s.Path]; ok && s.Status != "pending" && s.Status != "skipped" { // now, not before a restart
		told := &v.log.steps[i] // records know the times of calls better
		step.Agent, step.Attempts = told.Agent, told.Attempts
		step.RolledBack, step.RollbackError = told.RolledBack, told.RollbackError
		step.StartedAt = cmp.Or(told.StartedAt, step.StartedAt)
		if settled(step.Status) {
			step.EndedAt = cmp.Or(told.EndedAt, step.EndedAt)
		}
	}
	return step
}

// resumable reports whether a run with this status has not ended.
func resumable(s Status) bool { return s != OK && s != Failed && s != Cancelled }

// settled reports whether a step with this status is over.
func settled(status string) bool {
	return status != "pending" && status != "running" && status != "waiting"
}

// counted is how often steps have each status, by their path in the plan.
type counted map[string]map[string]int

func (c counted) add(plan, status string) {
	if c[plan] == nil {
		c[plan] = map[string]int{}
	}
	c[plan][status]++
}

// status sums up how often a step has each status.
func (c counted) status(plan string) string {
	n := maps.Clone(c[plan])
	delete(n, "skipped")
	all := 0
	for _, times := range n {
		all += times
	}
	switch {
	case all == 0:
		return "skipped"
	case n["pending"] == all:
		return "pending"
	case n["running"] > 0:
		return "running"
	case n["waiting"] > 0:
		return "waiting"
	case n["pending"] > 0:
		return "running"
	case n["failed"] > 0:
		return "failed"
	case n["cancelled"] > 0:
		return "cancelled"
	}
	return "succeeded"
}
