package workflow

import (
	"context"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/runtime"
)

// Run executes the workflow. input is a map or a struct of the recipe's inputs, nil for none. A nil rt is the zero
// Runtime. Run does not panic, even if tools or sinks do.
//
// The Outcome is never nil, and the error is its Err: nil if the run is ok or paused, else a *runtime.Error.
// docs/errors.md lists its codes. Errors before the first step are runtime.invalid, input.invalid, and those for
// missing requirements, such as var.missing.
func (wf *Workflow) Run(ctx context.Context, input any, rt *runtime.Runtime) (*Outcome, error) {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	return outcomeOf(execution.Run(ctx, wf.program, input, rt))
}

// Unapproved reports the agents whose calls need an approval that rt cannot give: their approval is "always", and
// rt has no Approver. A run reports them before its first step.
func (wf *Workflow) Unapproved(rt *runtime.Runtime) diagnostics.List {
	return call.Unapproved(wf.program, rt.Resolve())
}

// Check reports what a run with rt would report before its first step, in the mode of rt: the warnings of the
// compile, missing requirements, and tools that are missing, shadowed or called with invalid arguments. It calls only
// rt.Secrets and the tools' Spec. Missing requirements are in the list and not an error. The error is that of
// rt.Validate, or of a secret that cannot be read.
func (wf *Workflow) Check(ctx context.Context, rt *runtime.Runtime) (diagnostics.List, error) {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	if err := call.Validate(ctx, rt); err != nil {
		return nil, err
	}
	c, err := call.Bind(ctx, wf.program, rt)
	if err != nil {
		return nil, err
	}
	return rt.Diagnostics.Apply(c.Diagnostics), nil
}
