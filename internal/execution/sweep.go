package execution

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
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/runtime"
)

// Sweep are the settings of workflow.SweepOptions.
type Sweep struct {
	Runtime *runtime.Runtime // it has a store
	Options Options
	Recover bool
	MaxRuns int
	Every   time.Duration
}

// Run resumes the runs of a store in which something is due, as workflow.Sweeps says.
func (o Sweep) Run(ctx context.Context) iter.Seq2[*local.End, error] {
	return func(yield func(*local.End, error) bool) {
		s := &sweeper{Sweep: o, working: map[string]bool{}, refused: map[string]int64{}, ended: make(chan swept)}
		var stop context.CancelFunc
		s.ctx, stop = context.WithCancel(ctx)
		if err := s.sweep(yield); err != nil {
			yield(nil, fmt.Errorf("sweep: %w", err))
		}
		stop()
		for len(s.working) > 0 { // their ends are not wanted
			delete(s.working, (<-s.ended).ID)
		}
	}
}

// sweeper resumes the runs of a store.
type sweeper struct {
	Sweep
	ctx     context.Context
	queue   []checkpoint.Summary // to be resumed, oldest first
	working map[string]bool
	refused map[string]int64 // the last record of runs that were refused
	ended   chan swept
}

// swept is a run that was resumed. end is nil if another process took it first.
type swept struct {
	checkpoint.Summary
	end *local.End
}

// sweep looks for runs and resumes them, until there are none or the context has ended. It returns early if yield
// returns false.
func (s *sweeper) sweep(yield func(*local.End, error) bool) error {
	err := s.look()
	var again <-chan time.Time
	if s.Every > 0 && err == nil {
		ticker := time.NewTicker(s.Every)
		defer ticker.Stop()
		again = ticker.C
	}
	for done := s.ctx.Done(); ; {
		for len(s.queue) > 0 && len(s.working) < cmp.Or(s.MaxRuns, 4) && s.ctx.Err() == nil {
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
			if run.end == nil {
				continue
			}
			if run.end.EndedAt.IsZero() {
				s.refused[run.ID] = run.Seq
			}
			if !yield(run.end, nil) {
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

// look looks for runs that no process holds and in which something is due.
func (s *sweeper) look() error {
	list := func(f checkpoint.Filter) ([]checkpoint.Summary, error) {
		return call.Guard(s.ctx, runtime.CategoryInfra, "store.failed", "the store",
			func() ([]checkpoint.Summary, error) { return s.Runtime.Store.List(s.ctx, f) })
	}
	found, err := list(checkpoint.Filter{DueBefore: time.Now()})
	if s.Recover {
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

// begin resumes a run.
func (s *sweeper) begin(run checkpoint.Summary) {
	s.working[run.ID] = true
	go func() {
		end := newResumption(s.ctx, run.ID, "recover", s.Runtime, s.Options).resume(dueRecovery{interrupted: s.Recover})
		if errors.Is(end.Err, errQuicker) || errors.Is(end.Err, checkpoint.ErrBusy) ||
			errors.Is(end.Err, checkpoint.ErrNotFound) {
			end = nil
		}
		s.ended <- swept{run, end}
	}()
}

// dueRecovery is a recovery of a run in which something is due, or which was interrupted.
type dueRecovery struct {
	recovery
	interrupted bool // being interrupted is enough
}

func (d dueRecovery) due(x *resumption) error {
	at := x.summary.Due()
	due := !at.IsZero() && !at.After(time.Now()) || d.interrupted && x.summary.Status == checkpoint.Running
	if x.ended || !due {
		return errQuicker
	}
	return nil
}

// errQuicker is why a sweep leaves a run alone.
var errQuicker = errors.New("another process took the run first")
