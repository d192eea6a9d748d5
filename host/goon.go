package host

import (
	"context"
	"iter"

	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Run runs a workflow as [workflow.Workflow.Run] does, with the Runtime that the host has for it.
func (h *Host) Run(ctx context.Context, wf *workflow.Workflow, input any) *workflow.Outcome {
	rt, err := h.Runtime(ctx, wf)
	if err != nil {
		return Failed("", err)
	}
	out, _ := wf.Run(ctx, input, rt) // the error is the outcome's
	return out
}

// Resume is [workflow.Resume] with the Runtime that the host has for the run.
func (h *Host) Resume(ctx context.Context, token string, input any, opts *workflow.ResumeOptions) *workflow.Outcome {
	runID, _, _ := resume.Parse(token) // a bad one is refused by Resume
	return h.goOn(ctx, runID, opts, func(rt *runtime.Runtime) (*workflow.Outcome, error) {
		return workflow.Resume(ctx, token, input, rt, opts)
	})
}

// Answer is [workflow.Answer] with the Runtime that the host has for the run.
func (h *Host) Answer(
	ctx context.Context, runID, pause string, input any, opts *workflow.ResumeOptions,
) *workflow.Outcome {
	return h.goOn(ctx, runID, opts, func(rt *runtime.Runtime) (*workflow.Outcome, error) {
		return workflow.Answer(ctx, runID, pause, input, rt, opts)
	})
}

// Recover is [workflow.Recover] with the Runtime that the host has for the run.
func (h *Host) Recover(ctx context.Context, runID string, opts *workflow.ResumeOptions) *workflow.Outcome {
	return h.goOn(ctx, runID, opts, func(rt *runtime.Runtime) (*workflow.Outcome, error) {
		return workflow.Recover(ctx, runID, rt, opts)
	})
}

// Cancel is [workflow.Cancel] with the Runtime that the host has for the run.
func (h *Host) Cancel(ctx context.Context, runID, reason string, opts *workflow.ResumeOptions) *workflow.Outcome {
	return h.goOn(ctx, runID, opts, func(rt *runtime.Runtime) (*workflow.Outcome, error) {
		return workflow.Cancel(ctx, runID, reason, rt, opts)
	})
}

// Send is [workflow.Send] with the Runtime that the host has for the run.
func (h *Host) Send(
	ctx context.Context, runID, channel string, value any, opts *workflow.ResumeOptions,
) *workflow.Outcome {
	return h.goOn(ctx, runID, opts, func(rt *runtime.Runtime) (*workflow.Outcome, error) {
		return workflow.Send(ctx, runID, channel, value, rt, opts)
	})
}

// Fork is [workflow.Fork] with the Runtime that the host has for the run.
func (h *Host) Fork(
	ctx context.Context, runID, atStep string, edits workflow.Edits, opts *workflow.ResumeOptions,
) *workflow.Outcome {
	return h.goOn(ctx, runID, opts, func(rt *runtime.Runtime) (*workflow.Outcome, error) {
		return workflow.Fork(ctx, runID, atStep, edits, rt, opts)
	})
}

// goOn makes one execution of a run.
func (h *Host) goOn(
	ctx context.Context, runID string, opts *workflow.ResumeOptions,
	execution func(*runtime.Runtime) (*workflow.Outcome, error),
) *workflow.Outcome {
	rt, err := h.RuntimeOf(ctx, runID, opts)
	if err != nil {
		return Failed(runID, err)
	}
	out, _ := execution(rt) // the error is the outcome's
	return h.Explain(out)
}

// Sweep resumes every run of the store in which something is due, as [workflow.Sweep] does. All MCP servers are
// opened, as it is not known which runs there will be.
func (h *Host) Sweep(ctx context.Context, opts *workflow.SweepOptions) ([]*workflow.Outcome, error) {
	rt, err := h.Runtime(ctx, nil)
	if err != nil {
		return nil, err
	}
	return workflow.Sweep(ctx, rt, opts)
}

// Sweeps is Sweep again and again, as [workflow.Sweeps] does it.
func (h *Host) Sweeps(ctx context.Context, opts *workflow.SweepOptions) iter.Seq2[*workflow.Outcome, error] {
	rt, err := h.Runtime(ctx, nil)
	if err != nil {
		return func(yield func(*workflow.Outcome, error) bool) { yield(nil, err) }
	}
	return workflow.Sweeps(ctx, rt, opts)
}
