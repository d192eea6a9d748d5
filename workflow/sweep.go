package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/call"
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
		s := &sweeper{rt: rt, working: map[string]bool{}, refused: map[string]int64{}, ended: make(chan swept)}
		if opts != nil {
			s.opts = *opts
		}
		var stop context.CancelFunc
		s.ctx, stop = context.WithCancel(ctx)
		if err := s.sweep(yield); err != nil {
			yield(nil, fmt.Errorf("sweep: %w", err))
		}
		stop()
		for len(s.working) > 0 { // nobody wants to hear of them
			delete(s.working, (<-s.ended).ID)
		}
	}
}

// sweeper works on the runs of a store.
type sweeper struct {
	ctx     context.Context
	rt      *runtime.Runtime
	opts    SweepOptions
	queue   []checkpoint.Summary // to be worked on, the oldest first
	working map[string]bool
	refused map[string]int64 // the last record of runs that were refused
	ended   chan swept
}

// swept is a run that was worked on. out is nil if somebody else was quicker.
type swept struct {
	checkpoint.Summary
	out *Outcome
}

// sweep looks for runs, and works on them, until there are none, or the context has ended. It returns early when yield
// wants no more.
func (s *sweeper) sweep(yield func(*Outcome, error) bool) error {
	err := s.look()
	var again <-chan time.Time
	if s.opts.Every > 0 && err == nil {
		ticker := time.NewTicker(s.opts.Every)
		defer ticker.Stop()
		again = ticker.C
	}
	for done := s.ctx.Done(); ; {
		for len(s.queue) > 0 && len(s.working) < cmp.Or(s.opts.MaxRuns, 4) && s.ctx.Err() == nil {
			s.begin(s.queue[0])
			s.queue = s.queue[1:]
		}
		if len(s.working) == 0 && (again == nil || s.ctx.Err() != nil) {
			if s.ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case run := <-s.ended:
			delete(s.working, run.ID)
			if run.out == nil {
				continue
			}
			if run.out.EndedAt.IsZero() {
				s.refused[run.ID] = run.Seq
			}
			if !yield(run.out, nil) {
				return nil
			}
		case <-again:
			if err = s.look(); err != nil {
				again = nil
			}
		case <-done:
			done, again, s.queue = nil, nil, nil
		}
	}
}

// look looks for runs that nobody works on, and in which something is due.
func (s *sweeper) look() error {
	list := func(f checkpoint.Filter) ([]checkpoint.Summary, error) {
		return call.Guard(s.ctx, runtime.CategoryInfra, "store.failed", "the store",
			func() ([]checkpoint.Summary, error) { return s.rt.Store.List(s.ctx, f) })
	}
	found, err := list(checkpoint.Filter{DueBefore: time.Now()})
	if s.opts.Recover {
		interrupted, more := list(checkpoint.Filter{Status: checkpoint.Running})
		found, err = append(found, interrupted...), errors.Join(err, more)
	}
	slices.SortFunc(found, func(a, b checkpoint.Summary) int { return checkpoint.Newest(b, a) })
	found = slices.CompactFunc(found, func(a, b checkpoint.Summary) bool { return a.ID == b.ID })
	s.queue = slices.DeleteFunc(found, func(run checkpoint.Summary) bool {
		seq, refused := s.refused[run.ID]
		return run.Held || s.working[run.ID] || refused && seq == run.Seq
	})
	return err
}

// begin goes on with a run.
func (s *sweeper) begin(run checkpoint.Summary) {
	s.working[run.ID] = true
	go func() {
		opts := s.opts.ResumeOptions
		l := &leg{ctx: s.ctx, rt: s.rt, opts: &opts, runID: run.ID, recover: true, still: s.due}
		out, _ := l.apart(func() (*Outcome, error) { return l.run(nil) }) // the error is the outcome's
		if errors.Is(out.Err, errQuicker) || errors.Is(out.Err, checkpoint.ErrBusy) ||
			errors.Is(out.Err, checkpoint.ErrNotFound) {
			out = nil
		}
		s.ended <- swept{run, out}
	}()
}

// due reports whether there is still something to do in a run that the sweep has claimed.
func (s *sweeper) due(sum *checkpoint.Summary) bool {
	due := sum.Due()
	return !due.IsZero() && !due.After(time.Now()) || s.opts.Recover && sum.Status == checkpoint.Running
}

// errQuicker is why a sweep leaves a run alone.
var errQuicker = errors.New("somebody else was quicker")
