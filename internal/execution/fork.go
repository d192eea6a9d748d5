package execution

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

// Fork starts a run from the record of another run before a step. inputs, and outputs by path, replace those of the
// other run; nil: they are the same.
func Fork(
	ctx context.Context, runID, atStep string, inputs, outputs map[string]any, rt *runtime.Runtime, o Options,
) *local.End {
	x := newResumption(ctx, runID, "", rt, o)
	return x.opened(func() (*local.End, error) { return x.fork(atStep, inputs, outputs) })
}

// fork is Fork of the run, which need not be held.
func (x *resumption) fork(atStep string, given, outputs map[string]any) (*local.End, error) {
	if err := x.load(); err != nil {
		return nil, err
	}
	p, err := x.program()
	if err != nil {
		return nil, err
	}
	digests, err := p.Recipe.StepDigests()
	if err != nil {
		return nil, err
	}
	was := digests
	if x.old != nil {
		if was, err = x.old.StepDigests(); err != nil {
			return nil, err
		}
	}
	for _, path := range slices.Concat([]string{atStep}, slices.Sorted(maps.Keys(outputs))) {
		if _, ok := digests[resume.DefinitionPath(path)]; !ok {
			return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "fork.unknownStep",
				Err: fmt.Errorf("recipe %q has no step %q%s", p.Recipe.Name, path,
					program.HintLine(diagnostics.DidYouMean(path, slices.Collect(maps.Keys(digests)))))}
		}
	}
	s := specOf(p, x.rt, x.by())
	s.Open = func(r *local.Run) (map[string]any, error) {
		if given != nil {
			return open(r, s, given)
		}
		begun, err := engine.BegunOf(x.past)
		if err != nil {
			return nil, err
		}
		return open(r, s, begun.Inputs)
	}
	s.Ready = func(r *local.Run, inputs map[string]any) error {
		if given != nil { // it shares nothing
			if err := begin(r, s, inputs, x.runID, nil); err != nil || x.rt.NewRunID == nil {
				return err
			}
			return r.Flush()
		}
		events, undone := engine.LastGeneration(x.past[x.from:])
		// Steps that the fork neither names nor runs again because of those.
		elsewhere := resume.Decide(stepsOf(p, digests), engine.RecordedSteps(events, digests), atStep)
		for _, path := range undone {
			delete(elsewhere, path)
		}
		doubts, err := engine.DoubtsOf(x.runID, x.past[x.from:], elsewhere, true, x.isOpen)
		if err == nil {
			err = begin(r, s, inputs, x.runID, doubts)
		}
		if err != nil {
			return err
		}
		stands := resume.Decide(stepsOf(p, digests), engine.RecordedSteps(events, was), append(undone, atStep)...)
		for path := range outputs {
			stands[path] = true
		}
		r.Engine.Share(events, stands, outputs, 0)
		return r.Flush()
	}
	return local.Drive(x.ctx, s), nil
}
