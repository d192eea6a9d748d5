package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// takeTime is how long a command waits for another process to take a signal.
const takeTime = 10 * time.Second

// leaving are the flags of commands that leave signals.
type leaving struct{ noWait bool }

func (f *leaving) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false,
		"if another process executes the run, do not wait until it has taken the signal")
}

// wait is how long the command waits.
func (f *leaving) wait() time.Duration {
	if f.noWait {
		return 0
	}
	return takeTime
}

// left is the error of an execution that did not begin: a signal was left for the process that holds the run.
type left struct {
	kind  string
	taken bool // that process has carried it out
}

func (l *left) Error() string {
	if l.taken {
		return fmt.Sprintf("the process that executes the run has taken the signal %q", l.kind)
	}
	return fmt.Sprintf("another process executes the run: the signal %q is left for it", l.kind)
}

// orSignal makes an execution by first. If another process holds the run, it leaves a signal for that process; data
// makes what the signal says.
func (f *leaving) orSignal(
	kind string, first first, data func(context.Context, execution) (map[string]any, error),
) first {
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
		l, err := leave(ctx, e.runID, checkpoint.Signal{Kind: kind, By: e.rt.By}, said, e.rt.Store,
			&workflow.SignalOptions{Groups: e.opts.Groups, Wait: f.wait()})
		if err != nil {
			return host.Failed(e.runID, err), err
		}
		return &workflow.Outcome{RunID: e.runID, Err: l}, l
	}
}

// leave leaves a signal.
func leave(
	ctx context.Context, runID string, s checkpoint.Signal, data map[string]any, store checkpoint.Store,
	opts *workflow.SignalOptions,
) (*left, error) {
	text, err := value.JSON(data)
	if err != nil {
		return nil, err
	}
	s.Data = text
	err = workflow.Signal(ctx, runID, s, store, opts)
	open, ok := errors.AsType[*runtime.Error](err)
	if stays := ok && open.Code == "signal.open"; err == nil || stays {
		return &left{s.Kind, opts.Wait > 0 && !stays}, nil
	}
	return nil, err
}

// sayLeft ends a command that left a signal.
func (a *app) sayLeft(ctx context.Context, store checkpoint.Store, runID string, l *left) error {
	if a.output == "human" {
		fmt.Fprintf(a.stderr, "run %s: %v\n", runID, l)
		return nil
	}
	sum, _, err := store.Load(context.WithoutCancel(ctx), runID, math.MaxInt64)
	if err != nil {
		return a.fail(runID, err)
	}
	return a.printJSON(map[string]any{"runId": runID, "signal": l.kind, "status": history.StatusOf(sum),
		"taken": l.taken})
}
