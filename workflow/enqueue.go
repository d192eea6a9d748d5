package workflow

import (
	"context"

	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/runtime"
)

// EnqueueOptions say what is recorded of a run beside its recipe and its inputs. A nil *EnqueueOptions is the zero
// value.
type EnqueueOptions struct {
	RunID  string            // "": Runtime.NewRunID, or a UUIDv7
	Queue  string            // says which workers take the run. "": none takes it by itself; Recover executes it
	Labels map[string]string // for people and lists, see checkpoint.Run; nil: none
	By     string            // who starts the run, recorded as given. "": Runtime.By
	// Complete refuses a run, with the code of the diagnostic, if a step needs a model, a tool or a secret that is not
	// configured, or a tool that the host does not allow: [ResumeOptions] with Complete would refuse to execute it. By
	// default the runtime of who executes it counts. It says nothing about forks.
	Complete bool
	// DryRun makes the checks only: nothing is recorded, and the id is "". Of the outputs of a fork, nil stands for
	// any.
	DryRun bool
}

// lowered returns the options in the form that package execution takes.
func (o *EnqueueOptions) lowered() execution.Queued {
	if o == nil {
		o = &EnqueueOptions{}
	}
	return execution.Queued{Is: true, RunID: o.RunID, Queue: o.Queue, Labels: o.Labels, By: o.By,
		Complete: o.Complete, Dry: o.DryRun}
}

// Enqueue makes all the checks of Run, records the run in rt.Store, and returns its id. It executes nothing: Recover
// does, or a worker. The run is durable when Enqueue returns without an error.
//
// The error is a *runtime.Error: one that Run would have before its first step, enqueue.noStore if rt.Store is nil,
// or run.exists if the store has a run with that id. Nothing was recorded then. If the store fails (store.failed) or
// ctx ends, the run may be recorded all the same; EnqueueOptions.RunID makes it safe to try again.
func (wf *Workflow) Enqueue(
	ctx context.Context, input any, rt *runtime.Runtime, o *EnqueueOptions,
) (runID string, err error) {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	return execution.Enqueue(ctx, wf.program, input, rt, o.lowered())
}

// EnqueueFork records the run that Fork would start, and returns its id. It executes nothing, as Enqueue. The recipe
// is the one that the store has of the run runID. The errors are those of Fork and Enqueue.
func EnqueueFork(
	ctx context.Context, runID, atStep string, edits Edits, rt *runtime.Runtime, o *EnqueueOptions,
) (newRunID string, err error) {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	return execution.EnqueueFork(ctx, runID, atStep, edits.Inputs, edits.Outputs, rt, o.lowered())
}
