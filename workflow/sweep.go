package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/runtime"
)

// SweepOptions are the options of a sweep. A nil *SweepOptions is the zero value.
type SweepOptions struct {
	ResumeOptions
	// Recover also recovers queued runs, and interrupted runs: no process holds them, and they wait for nothing.
	Recover bool
	MaxRuns int           // how many runs to work on at once. Defaults to 4; below 0 is an error
	Every   time.Duration // interval of Sweeps, until the context ends. 0: once
}

// Sweep resumes every run of rt.Store in which something is due: a wait that is over, a retry of a call, or a pause
// that has expired. With Recover it also resumes interrupted and queued runs, whatever their queue. It returns the
// outcomes of the runs that it resumed, oldest run first. The error is that of the store or the context. The outcomes
// until then are returned with it.
func Sweep(ctx context.Context, rt *runtime.Runtime, opts *SweepOptions) ([]*Outcome, error) {
	var once SweepOptions
	if opts != nil {
		once = *opts
	}
	once.Every = 0
	var outcomes []*Outcome
	var failed error
	for out, err := range Sweeps(ctx, rt, &once) {
		if err != nil {
			failed = err
			continue
		}
		outcomes = append(outcomes, out)
	}
	slices.SortStableFunc(outcomes, func(a, b *Outcome) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.RunID, b.RunID))
	})
	return outcomes, errors.Join(failed, ctx.Err())
}

// Sweeps repeats Sweep at the interval opts.Every. It yields each outcome as soon as the run has ended or pauses
// again. When ctx ends or rt.Drain is closed, which is not an error here, it takes no more runs, and waits for those in
// progress. An error of the store is the last value. A run that was refused is tried again when its record has changed,
// or else after a while that doubles each time, from 5 seconds to 10 minutes.
func Sweeps(ctx context.Context, rt *runtime.Runtime, opts *SweepOptions) iter.Seq2[*Outcome, error] {
	return func(yield func(*Outcome, error) bool) {
		if rt == nil || rt.Store == nil {
			yield(nil, errors.New("sweep: there is no store"))
			return
		}
		if opts != nil && opts.MaxRuns < 0 {
			yield(nil, fmt.Errorf("sweep: MaxRuns is %d, not a number of runs\n  hint: leave it 0 for the default, 4",
				opts.MaxRuns))
			return
		}
		sweep := execution.Sweep{Runtime: rt}
		if opts != nil {
			sweep.Options = opts.lowered()
			sweep.Recover, sweep.MaxRuns, sweep.Every = opts.Recover, opts.MaxRuns, opts.Every
		}
		for end, err := range sweep.Run(ctx) {
			var out *Outcome
			if err == nil {
				out, _ = outcomeOf(end) // the error is the outcome's
			}
			if !yield(out, err) {
				return
			}
		}
	}
}
