package workflow

import (
	"context"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/runtime"
)

// Run executes the workflow. input is a map (or a struct) of the recipe's inputs, nil for none;
// rt may be nil, which is the zero Runtime. Run does not panic, whatever tools and sinks do.
//
// The Outcome is never nil, and the error is its Err: nil when the run is ok or paused, else a
// *runtime.Error, whose Code docs/errors.md lists. Before the first step that is runtime.invalid, input.invalid,
// or what the run lacks, such as model.missing.
func (wf *Workflow) Run(ctx context.Context, input any, rt *runtime.Runtime) (*Outcome, error) {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	return outcomeOf(execution.Run(ctx, wf.program, input, rt))
}

// Unapproved reports the agents with calls that need an approval which, with rt, nobody can give: approval says
// "always", and there is no Approver. A run reports them before its first step.
func (wf *Workflow) Unapproved(rt *runtime.Runtime) diagnostics.List {
	return call.Unapproved(wf.program, rt.Resolve())
}

// Check reports what a run with rt would find before its first step, in the mode of rt: the
// warnings of the compile, requirements that are not met, tools that are missing, shadowed or
// called with arguments that do not fit. It calls nothing but rt.Secrets and the tools' Spec.
// What is missing is in the list, never an error; the error is that of rt.Validate, or of a secret that cannot be read.
func (wf *Workflow) Check(ctx context.Context, rt *runtime.Runtime) (diagnostics.List, error) {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	if err := rt.Validate(); err != nil {
		return nil, err
	}
	c, err := call.Bind(ctx, wf.program, rt)
	if err != nil {
		return nil, err
	}
	return rt.Diagnostics.Apply(c.Diagnostics), nil
}
