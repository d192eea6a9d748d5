package workflow

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/runtime"
)

// SweepOptions are what a sweep may need beside the store. A nil *SweepOptions is the zero value.
type SweepOptions struct {
	ResumeOptions
	Recover bool          // also recover runs that were interrupted: nobody holds them, and they wait for nothing
	MaxRuns int           // how many runs to work on at once. Defaults to 4.
	Every   time.Duration // of Sweeps: how often to look again, until the context ends. 0: once
}

// Sweep goes on with every run of rt.Store in which something is due: a wait that is over, a call to
// be tried again, a pause that nobody answered in time; with Recover also with interrupted ones. It returns the
// outcomes of what it did itself, the oldest run first. The error is of the store, or the context's; what was done
// until then is in the outcomes.
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

// Sweeps is Sweep again and again, as opts.Every says. It returns each outcome as soon as the run has ended or pauses
// again. When ctx ends, which is no error here, it waits for the runs under way; an error, of the store, is the last
// thing. A run that is refused is left alone until something happens to it.
func Sweeps(ctx context.Context, rt *runtime.Runtime, opts *SweepOptions) iter.Seq2[*Outcome, error] {
	return func(yield func(*Outcome, error) bool) {
		if rt == nil || rt.Store == nil {
			yield(nil, errors.New("sweep: there is no store"))
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
