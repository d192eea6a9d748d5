package execution

import (
	"cmp"
	"context"
	"errors"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/runtime"
)

// Queued are the settings of workflow.EnqueueOptions. The zero Queued is of a run that is executed at once.
type Queued struct {
	Is           bool // the run is recorded, and not executed
	RunID, Queue string
	Labels       map[string]string
	By           string
	Complete     bool
	Dry          bool // only check
}

// run returns what a store has of the run beside its recipe; parent is the run that it is forked from, "" for none.
func (q Queued) run(parent string) checkpoint.Run {
	return checkpoint.Run{Queued: q.Is, Queue: q.Queue, Labels: q.Labels, Parent: parent}
}

// Enqueue records a run of a program for whoever executes the runs of a queue, and returns its id.
func Enqueue(ctx context.Context, p *program.Program, input any, rt *runtime.Runtime, q Queued) (string, error) {
	n := &newRun{specOf(p, rt, cmp.Or(q.By, rt.By)), input, q}
	return record(ctx, n.spec, n.begin, q.Dry)
}

// EnqueueFork is Enqueue for the run that Fork would start.
func EnqueueFork(
	ctx context.Context, runID, atStep string, inputs, outputs map[string]any, rt *runtime.Runtime, q Queued,
) (id string, err error) {
	x := newResumption(ctx, runID, "", rt, Options{By: q.By})
	end := x.opened(func() (*local.End, error) {
		f, err := x.fork(atStep, inputs, outputs, q)
		if err != nil {
			return nil, err
		}
		if id, err = record(ctx, f.spec, f.begin, q.Dry); err != nil {
			return nil, err
		}
		return &local.End{}, nil
	})
	return id, end.Err
}

// record records a new run, for others to execute, and returns its id. If it is dry, it makes the checks only.
func record(ctx context.Context, s *local.Spec, begin func(*local.Run) error, dry bool) (id string, err error) {
	if s.Runtime.Store == nil {
		return "", &runtime.Error{Category: runtime.CategoryConfig, Code: "enqueue.noStore",
			Err: errors.New("a run in a queue requires a store\n  hint: set Runtime.Store")}
	}
	return local.Record(ctx, s, begin, dry)
}
