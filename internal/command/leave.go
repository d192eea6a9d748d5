package command

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// left is the error of an execution that did not begin: a signal was left for the process that holds the run.
type left struct{ kind string }

func (l *left) Error() string {
	return fmt.Sprintf("another process executes the run: the signal %q is left for it", l.kind)
}

// orSignal makes an execution by first. If another process holds the run, it leaves a signal for that process; data
// makes what the signal says.
func orSignal(kind string, first first, data func(context.Context, execution) (map[string]any, error)) first {
	return func(ctx context.Context, e execution) (*workflow.Outcome, error) {
		if sum, _, err := e.rt.Store.Load(ctx, e.runID, math.MaxInt64); err != nil || !sum.Held {
			out, err := first(ctx, e)
			if busy, ok := errors.AsType[*runtime.Error](err); !ok || busy.Code != "run.busy" {
				return out, err
			}
		}
		said, err := data(ctx, e)
		if err != nil {
			return host.Failed(e.runID, err), err
		}
		text, err := value.JSON(said)
		if err == nil {
			err = workflow.Signal(ctx, e.runID, checkpoint.Signal{Kind: kind, Data: text, By: e.rt.By}, e.rt.Store,
				&workflow.SignalOptions{Groups: e.opts.Groups})
		}
		if err != nil {
			return host.Failed(e.runID, err), err
		}
		err = &left{kind}
		return &workflow.Outcome{RunID: e.runID, Err: err}, err
	}
}

// sayLeft ends a command that left a signal.
func (a *app) sayLeft(runID string, l *left) error {
	if a.output != "human" {
		return a.printJSON(map[string]string{"runId": runID, "signal": l.kind,
			"status": string(checkpoint.PhaseRunning)})
	}
	fmt.Fprintf(a.stderr, "another process executes run %s: the signal %q is left for it, and takes effect within "+
		"seconds\n", runID, l.kind)
	return nil
}
