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
	"github.com/braise-run/braise/internal/clock"
	"github.com/braise-run/braise/internal/guard"
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
		s := &sweeper{Sweep: o, working: map[string]bool{}, refused: map[string]refusal{}, ended: make(chan swept)}
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
	refused map[string]refusal
	ended   chan swept
}

// refusal is a run that was refused. It is tried again when its record has changed, or after a while.
type refusal struct {
	seq   int64 // of its last record
	wait  time.Duration
	until time.Time
}

// maxRefused is how many refusals a sweep remembers; it then forgets some.
const maxRefused = 10_000

// Now returns the time by the clock that counts for the runs of a store; where that cannot be read, by that of this
// machine.
func Now(ctx context.Context, store checkpoint.Store) time.Time {
	now, _ := clock.Of(ctx, store)
	return now
}

// RefusedFor is how long a run is left alone that was refused. was is how long it was left alone before; 0: not at all.
func RefusedFor(was time.Duration) time.Duration {
	return min(max(2*was, 5*time.Second), 10*time.Minute)
}

// swept is a run that was resumed. end is nil if another process took it first.
type swept struct {
	checkpoint.Summary
	end *local.End
}

// sweep looks for runs and resumes them, until there are none, the context has ended or the runs drain. It returns
// early if yield returns false.
func (s *sweeper) sweep(yield func(*local.End, error) bool) error {
	err := s.look()
	var again <-chan time.Time
	if s.Every > 0 && err == nil {
		ticker := time.NewTicker(s.Every)
		defer ticker.Stop()
		again = ticker.C
	}
	for done, drain := s.ctx.Done(), s.Runtime.Drain; ; {
		for len(s.queue) > 0 && len(s.working) < cmp.Or(s.MaxRuns, 4) && !s.stops() {
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
			s.remember(run)
			if !yield(run.end, nil) {
				return nil
			}
		case <-again:
			if err = s.look(); err != nil {
				again = nil
			}
		case <-done:
			done, again, s.queue = nil, nil, nil
		case <-drain:
			drain, again, s.queue = nil, nil, nil
		}
	}
}

// stops reports whether the sweep begins no more runs.
func (s *sweeper) stops() bool {
	select {
	case <-s.Runtime.Drain:
		return true
	default:
		return s.ctx.Err() != nil
	}
}

// remember notes whether a run was refused.
func (s *sweeper) remember(run swept) {
	wait := RefusedFor(s.refused[run.ID].wait)
	delete(s.refused, run.ID)
	if !run.end.Refused {
		return
	}
	for id := range s.refused {
		if len(s.refused) < maxRefused {
			break
		}
		delete(s.refused, id)
	}
	s.refused[run.ID] = refusal{run.Seq, wait, time.Now().Add(wait)}
}

// look looks for runs that no process holds and in which something is due.
func (s *sweeper) look() error {
	list := func(f checkpoint.Filter) ([]checkpoint.Summary, error) {
		return guard.Store(s.ctx, func(ctx context.Context) ([]checkpoint.Summary, error) {
			return s.Runtime.Store.List(ctx, f)
		})
	}
	found, err := list(checkpoint.Filter{DueBefore: Now(s.ctx, s.Runtime.Store)})
	if _, ok := s.Runtime.Store.(checkpoint.Signals); ok {
		signalled, more := list(checkpoint.Filter{Signalled: true})
		signalled = slices.DeleteFunc(signalled, func(run checkpoint.Summary) bool { return !s.called(run) })
		found, err = append(found, signalled...), errors.Join(err, more)
	}
	if s.Recover {
		interrupted, more := list(checkpoint.Filter{
			Phases: []checkpoint.Phase{checkpoint.PhaseInterrupted, checkpoint.PhaseQueued}})
		found, err = append(found, interrupted...), errors.Join(err, more)
	}
	slices.SortFunc(found, checkpoint.Filter{Oldest: true}.Compare)
	found = slices.CompactFunc(found, func(a, b checkpoint.Summary) bool { return a.ID == b.ID })
	s.queue = slices.DeleteFunc(found, func(run checkpoint.Summary) bool {
		was, refused := s.refused[run.ID]
		return run.Held || s.working[run.ID] || refused && was.seq == run.Seq && time.Now().Before(was.until)
	})
	return err
}

// called reports whether a run has a signal to carry out.
func (s *sweeper) called(run checkpoint.Summary) bool {
	if run.Held || run.Status.Ended() {
		return false
	}
	open, err := local.Signals(s.ctx, s.Runtime.Store, run.ID)
	return err == nil && Called(open, run.Pauses)
}

// Called reports whether one of the open signals of a run with these pauses asks for something to be done. An answer to
// no pending pause was carried out.
func Called(open []checkpoint.Signal, pauses []checkpoint.Pause) bool {
	return slices.ContainsFunc(open, func(one checkpoint.Signal) bool {
		return local.Wakes(one) && (one.Kind != checkpoint.SignalAnswer ||
			slices.ContainsFunc(pauses, func(p checkpoint.Pause) bool { return local.Answers(one, p.ID) }))
	})
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
	status := x.summary.Status
	due := !at.IsZero() && !at.After(Now(x.ctx, x.ledger.Store)) ||
		d.interrupted && (status == checkpoint.Running || status == checkpoint.Queued)
	if x.ended || !due && !x.called() {
		return errQuicker
	}
	return nil
}

// errQuicker is why a sweep leaves a run alone.
var errQuicker = errors.New("another process took the run first")
