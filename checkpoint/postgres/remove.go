package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
)

// Delete implements checkpoint.Store.
func (s *Store) Delete(ctx context.Context, runID string) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	for {
		h, err := s.free(ctx, runID)
		if err != nil {
			return err
		}
		if n, err := s.remove(ctx, []head{h}); err != nil || n == 1 {
			return err
		}
	}
}

// remove removes those of the given runs that are as they were, and returns how many that is.
func (s *Store) remove(ctx context.Context, runs []head) (int, error) {
	if len(runs) == 0 {
		return 0, nil
	}
	var keys, epochs, seqs []int64
	var owners []string
	var untils []time.Time
	for _, h := range runs {
		s.forget(h.lease.RunID)
		keys, epochs, seqs = append(keys, h.key), append(epochs, h.lease.Epoch), append(seqs, h.seq)
		owners, untils = append(owners, h.lease.Owner), append(untils, h.lease.Until)
	}
	var n int
	err := s.write(ctx, runs[0].lease.RunID, deleteSQL, []any{&n}, keys, epochs, owners, untils, seqs)
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Prune implements checkpoint.Store. The runs that it removes go in groups: after an error some of
// them are gone. A run that began more than a week after its last record, by clocks that were wrong, may stay for as
// much longer.
func (s *Store) Prune(ctx context.Context, before time.Time, statuses ...checkpoint.Status) (int, error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.calls.Done()
	if len(statuses) == 0 {
		statuses = ended
	}
	n := 0
	for _, status := range statuses {
		removed, err := s.prune(ctx, before, status)
		n += removed
		if err != nil {
			return n, err
		}
	}
	return n, s.sweep(ctx)
}

// maxSkew is by how much the start of a run may be behind its last record, as clocks of several hosts had it. An index
// has the runs by their start: one by the last record would make each append dearer.
const maxSkew = 7 * 24 * time.Hour

// prune removes runs of one status.
func (s *Store) prune(ctx context.Context, before time.Time, status checkpoint.Status) (int, error) {
	const group = 200
	n := 0
	var last head
	for {
		runs, err := s.heads(ctx, pruneSQL, status, stamp(before.Add(maxSkew)), stamp(before),
			last.started, last.lease.RunID, group)
		if err != nil {
			return n, err
		}
		var free []head
		for _, h := range runs {
			if last = h; !h.held() {
				free = append(free, h)
			}
		}
		removed, err := s.remove(ctx, free)
		n += removed
		if err != nil || len(runs) < group {
			return n, err
		}
	}
}

// sweep removes the definitions that no run refers to. The lock waits for the runs that are just
// being created, and keeps new ones waiting.
func (s *Store) sweep(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		err := s.session.begin(ctx, tx)
		if err == nil {
			_, err = tx.Exec(ctx, s.sql("LOCK TABLE SCHEMA.definitions IN SHARE ROW EXCLUSIVE MODE"))
		}
		if err == nil {
			_, err = tx.Exec(ctx, s.sql("DELETE FROM SCHEMA.definitions d "+
				"WHERE NOT EXISTS (SELECT FROM SCHEMA.runs r WHERE r.digest = d.digest)"))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("postgres store: %w", err)
	}
	return nil
}
