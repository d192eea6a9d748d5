package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// maxKnown is of how many runs a store remembers the summaries.
const maxKnown = 10_000

// known is what was read of a run, with the stamps of the files that it was read from.
type known struct {
	journal, lease, signals stamp
	sum                     checkpoint.Summary // but for Held
	holder                  checkpoint.Lease
	open                    []checkpoint.Signal // that are not done
}

// stamp tells whether a file was changed. The zero stamp is like no other.
type stamp struct {
	taken bool
	info  fs.FileInfo // nil: there is no file
}

// settling is for how long after a change of a file its stamp is not to be trusted: in that time the file may change
// again and show the same time.
const settling = 100 * time.Millisecond

// stampOf returns the stamp of a file; the zero one when it says nothing.
func stampOf(name string) stamp {
	began := time.Now()
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return stamp{taken: true}
	case err != nil || began.Sub(info.ModTime()) < settling:
		return stamp{}
	}
	return stamp{true, info}
}

// same reports whether a file is surely as it was.
func (a stamp) same(b stamp) bool {
	if !a.taken || !b.taken || a.info == nil || b.info == nil {
		return a.taken && b.taken && a.info == nil && b.info == nil
	}
	return os.SameFile(a.info, b.info) && a.info.Size() == b.info.Size() && a.info.ModTime().Equal(b.info.ModTime())
}

// look returns a run and its signals that are not done. It reads what has changed since it last did: first the signals,
// as their answers go when the journal has them, then the lease, and the journal last. So who holds the run is what it
// was when the journal ended there.
func (s *Store) look(ctx context.Context, runID string) (sum checkpoint.Summary, open []checkpoint.Signal, err error) {
	s.mu.Lock()
	was := s.known[runID]
	s.mu.Unlock()
	now := was
	if now.signals = stampOf(s.signalsFile(runID)); !now.signals.same(was.signals) {
		if now.open, err = s.Signals(ctx, runID, true); err != nil {
			return sum, nil, err
		}
	}
	if now.lease = stampOf(s.leaseFile(runID)); !now.lease.same(was.lease) {
		if now.holder, err = s.readLease(runID); err != nil {
			return sum, nil, err
		}
	}
	if now.journal = stampOf(s.journal(runID)); !now.journal.same(was.journal) {
		if now.sum, _, now.holder, err = s.load(ctx, runID); err != nil {
			return sum, nil, err
		}
	}
	s.mu.Lock()
	if _, ok := s.known[runID]; (ok || len(s.known) < maxKnown) && now.journal.taken && !s.closed {
		s.known[runID] = now
	}
	s.mu.Unlock()
	now.sum.Held = s.clock.Held(now.holder)
	return now.sum, now.open, nil
}

// each calls use for every run that can be read, with its signals that are not done, until it returns false. The error
// joins what is wrong with the others.
func (s *Store) each(ctx context.Context, use func(checkpoint.Summary, []checkpoint.Signal) bool) error {
	ids, err := s.runs(ctx)
	if err != nil {
		return err
	}
	s.forgetOthers(ids)
	var failed []error
	for _, id := range ids {
		switch sum, open, err := s.look(ctx, id); {
		case ctx.Err() != nil:
			return fmt.Errorf("jsonl store: %w", ctx.Err())
		case errors.Is(err, checkpoint.ErrNotFound): // it went meanwhile
		case err != nil:
			failed = append(failed, err)
		case !use(sum, open):
			return nil
		}
	}
	return errors.Join(failed...)
}

// forgetOthers forgets what is known of runs that are gone. ids is sorted.
func (s *Store) forgetOthers(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.known {
		if _, ok := slices.BinarySearch(ids, id); !ok {
			delete(s.known, id)
		}
	}
}

// List implements checkpoint.Store. It reads every journal that it does not know.
func (s *Store) List(ctx context.Context, f checkpoint.Filter) ([]checkpoint.Summary, error) {
	var all []checkpoint.Summary
	err := s.each(ctx, func(sum checkpoint.Summary, open []checkpoint.Signal) bool {
		if f.Match(sum, open...) {
			all = append(all, sum)
		}
		return true
	})
	if ctx.Err() != nil {
		return nil, err
	}
	return first(all, f.Compare, f.Limit), err
}

// first returns the first n of all, in their order; 0: all of them.
func first[T any](all []T, compare func(a, b T) int, n int) []T {
	slices.SortFunc(all, compare)
	if n > 0 {
		all = all[:min(n, len(all))]
	}
	return all
}

// Count implements checkpoint.Querier. It reads what List does.
func (s *Store) Count(ctx context.Context, f checkpoint.Filter, most int) (map[checkpoint.Phase]int, error) {
	f.After = checkpoint.Cursor{}
	counts := map[checkpoint.Phase]int{}
	err := s.each(ctx, func(sum checkpoint.Summary, open []checkpoint.Signal) bool {
		if phase := sum.Phase(); (most <= 0 || counts[phase] < most) && f.Match(sum, open...) {
			counts[phase]++
		}
		return true
	})
	return counts, err
}

// Pauses implements checkpoint.Querier. It reads what List does, and the journals of runs with such pauses.
func (s *Store) Pauses(ctx context.Context, f checkpoint.PauseFilter) ([]checkpoint.PauseInfo, error) {
	var all []checkpoint.PauseInfo
	var failed []error
	err := s.each(ctx, func(sum checkpoint.Summary, open []checkpoint.Signal) bool {
		if !slices.ContainsFunc(sum.Unanswered(open).Pauses, func(p checkpoint.Pause) bool {
			return (f.Kind == "" || f.Kind == p.Kind) && (f.Recipe == "" || f.Recipe == sum.Recipe)
		}) {
			return true
		}
		sum, recs, err := s.Load(ctx, sum.ID, 0)
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			failed = append(failed, err)
		}
		for _, p := range sum.Unanswered(open).Pauses {
			info := checkpoint.PauseInfo{Summary: sum, Pause: p, Opened: recs[p.Seq-1]}
			if f.Match(info) {
				all = append(all, info)
			}
		}
		return true
	})
	if ctx.Err() != nil {
		return nil, err
	}
	return first(all, f.Compare, f.Limit), errors.Join(append(failed, err)...)
}
