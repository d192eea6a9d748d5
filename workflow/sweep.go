package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/runtime"
)

// Sweep goes on with every run of rt.Store in which something is due: a wait that is over, a call to
// be tried again, a pause that nobody answered in time. It returns their outcomes, the oldest run
// first, without those that somebody else was quicker with. The error is of the store, or the
// context's; what was done until then is in the outcomes.
func Sweep(ctx context.Context, rt *runtime.Runtime, opts *ResumeOptions) ([]*Outcome, error) {
	if rt == nil || rt.Store == nil {
		return nil, errors.New("sweep: there is no store")
	}
	due, err := rt.Store.List(ctx, checkpoint.Filter{DueBefore: time.Now()})
	var outcomes []*Outcome
	for i := len(due) - 1; i >= 0 && ctx.Err() == nil; i-- {
		if due[i].Held {
			continue
		}
		out, _ := Recover(ctx, due[i].ID, rt, opts) // the error is the outcome's
		if e := out.Error(); e == nil || e.Code != "run.busy" {
			outcomes = append(outcomes, out)
		}
	}
	if err != nil {
		err = fmt.Errorf("sweep: %w", err)
	}
	return outcomes, errors.Join(err, ctx.Err())
}
