package host

import (
	"context"
	"errors"

	"github.com/braise-run/braise/workflow"
)

// Start begins a run of a workflow, with the Runtime that the host has for it, and returns while it is executed. The
// run is in the store by then, with the options' labels: it can be watched, signalled and read by its id, and another
// process can continue it if this one dies. nil options are zero ones; a Queue and DryRun are refused.
//
// done gets the outcome once this execution is over: the run has ended, pauses or is interrupted. Then it is closed.
//
// The end of ctx cancels the run, as in [workflow.Workflow.Run]: for a run that outlives a request, give it
// context.WithoutCancel. Wait for done before Close. The error says why the run was refused; nothing is recorded then.
func (h *Host) Start(
	ctx context.Context, wf *workflow.Workflow, input any, opts *workflow.EnqueueOptions,
) (runID string, done <-chan *workflow.Outcome, err error) {
	var o workflow.EnqueueOptions
	if opts != nil {
		o = *opts
	}
	if o.Queue != "" || o.DryRun {
		return "", nil, errors.New("host: Start executes the run itself: leave out Queue and DryRun, or call Enqueue")
	}
	rt, err := h.Runtime(ctx, wf)
	if err != nil {
		return "", nil, err
	}
	if runID, err = wf.Enqueue(ctx, input, rt, &o); err != nil {
		return "", nil, err
	}
	end := make(chan *workflow.Outcome, 1)
	go func() {
		defer close(end)
		out, _ := workflow.Recover(ctx, runID, rt, &workflow.ResumeOptions{Workflow: wf, By: o.By})
		end <- out
	}()
	return runID, end, nil
}
