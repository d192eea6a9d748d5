package workflow

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Edits are what a fork has otherwise than the run that it comes from. The zero Edits changes
// nothing.
type Edits struct {
	Inputs  map[string]any // in place of those of the run; nil: the same
	Outputs map[string]any // of finished steps, by path, in place of what they gave; nil: the same
}

// Fork begins a new run that shares with another one what was recorded before a step: the step and
// all that follows from it run again, everything else that had succeeded stands. With other inputs
// nothing stands. The old run is not touched; it may be paused, over, or interrupted. The new run's
// id is the outcome's.
//
// The Outcome is never nil, and the error is its Err: nil when the new run is ok or paused. No run was begun
// when it is run.notFound, fork.unknownStep (of atStep or Edits.Outputs), resume.definitionChanged or input.invalid.
func Fork(
	ctx context.Context, runID, atStep string, edits Edits, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID, fork: true}
	return l.apart(func() (*Outcome, error) { return l.forkAt(atStep, edits) })
}

// forkAt is Fork of the run of the leg.
func (l *leg) forkAt(atStep string, edits Edits) (*Outcome, error) {
	if err := l.open(); err != nil {
		return l.refuse(err)
	}
	var err error
	if err = l.load(); err != nil {
		return l.refuse(err)
	}
	wf, err := l.workflow()
	if err != nil {
		return l.refuse(err)
	}
	digests, err := wf.program.Recipe.StepDigests()
	if err != nil {
		return l.refuse(err)
	}
	for _, path := range slices.Concat([]string{atStep}, slices.Sorted(maps.Keys(edits.Outputs))) {
		if _, ok := digests[resume.DefinitionPath(path)]; !ok {
			return l.refuse(&runtime.Error{Category: runtime.CategoryConfig, Code: "fork.unknownStep",
				Err: fmt.Errorf("recipe %q has no step %q%s", wf.Name(), path,
					program.HintLine(diagnostics.DidYouMean(path, slices.Collect(maps.Keys(digests)))))})
		}
	}
	leg := wf.leg(l.rt)
	leg.By = l.by()
	leg.Open = func(r *local.Run) (map[string]any, error) {
		given := edits.Inputs
		if given == nil {
			begun, err := engine.BegunOf(l.past)
			if err != nil {
				return nil, err
			}
			given = begun.Inputs
		}
		return wf.open(r, l.rt, given)
	}
	leg.Ready = func(r *local.Run, inputs map[string]any) error {
		err := wf.begin(r, l.rt, inputs, l.runID)
		switch {
		case err != nil:
			return err
		case edits.Inputs != nil && l.rt.NewRunID != nil: // what it shares with the old run is nothing
			return r.Flush()
		case edits.Inputs != nil:
			return nil
		}
		events, undone := engine.LastGeneration(l.past[l.from:])
		stands := resume.Decide(wf.decideSteps(digests), engine.RecordedSteps(events, digests),
			append(undone, atStep)...)
		for path := range edits.Outputs {
			stands[path] = true
		}
		r.Engine.Share(events, stands, edits.Outputs, 0)
		return r.Flush()
	}
	return wf.drive(l.ctx, leg)
}

// decideSteps lays the steps out for resume.Decide.
func (wf *Workflow) decideSteps(digests map[string]string) []resume.Step {
	var list []resume.Step
	received := program.AfterSends(wf.program.Recipe)
	var add func(steps []program.PlanStep)
	add = func(steps []program.PlanStep) {
		for _, s := range steps {
			after := make([]string, len(s.Needs))
			for i, need := range s.Needs {
				after[i] = need.Step
			}
			list = append(list, resume.Step{Path: s.ID, Digest: digests[s.ID], After: append(after, received[s.ID]...)})
			add(s.Body)
		}
	}
	add(wf.Plan().Steps)
	return list
}
