package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
)

// Delete implements checkpoint.Store.
func (s *Store) Delete(ctx context.Context, runID string) error {
	return s.clock.Watch(ctx, func() error {
		return s.write(ctx, func(w *writer) error {
			e, err := w.free(runID)
			if err != nil {
				return err
			}
			return w.remove(e)
		})
	})
}

// Prune implements checkpoint.Store. The file does not get smaller: new runs take the room.
func (s *Store) Prune(ctx context.Context, before time.Time, statuses ...checkpoint.Status) (int, error) {
	old, failed := s.prunable(ctx, before, statuses)
	if old == nil && failed != nil {
		return 0, failed
	}
	n := 0
	for some := range slices.Chunk(old, 100) { // other writes take their turns in between
		var gone int
		err := s.write(ctx, func(w *writer) error {
			gone = 0
			for _, id := range some {
				e, err := w.free(id)
				if _, ok := errors.AsType[*refusal](err); ok ||
					err == nil && (e.damage != nil || !e.sum.Prunable(before, statuses)) {
					continue
				}
				if err == nil {
					err = w.remove(e)
				}
				if err != nil {
					return err
				}
				gone++
			}
			return nil
		})
		if err != nil {
			return n, errors.Join(failed, err)
		}
		n += gone
	}
	// Only a run that has gone can leave a definition unused.
	err := s.write(ctx, func(w *writer) error {
		err := w.exec("DELETE FROM definitions WHERE loose = 1 AND digest NOT IN (SELECT digest FROM runs)")
		if err == nil {
			err = w.exec("UPDATE definitions SET loose = 0 WHERE loose = 1")
		}
		return err
	})
	return n, errors.Join(failed, err)
}

// prunable returns the ids of the runs that Prune removes if nobody holds them.
func (s *Store) prunable(ctx context.Context, before time.Time, some []checkpoint.Status) (ids []string, err error) {
	var live []checkpoint.Phase
	for _, status := range some {
		switch {
		case status == checkpoint.Running:
			live = append(live, checkpoint.PhaseRunning, checkpoint.PhaseInterrupted)
		case !status.Ended():
			live = append(live, checkpoint.Summary{Status: status}.Phase())
		}
	}
	err = s.read(ctx, func(c *sqlite.Conn) error {
		return query(c, func(stmt *sqlite.Stmt) error {
			if status := checkpoint.Status(stmt.ColumnText(1)); len(some) == 0 || slices.Contains(some, status) {
				ids = append(ids, stmt.ColumnText(0))
			}
			return nil
		}, "SELECT id, status FROM runs INDEXED BY runs_ended WHERE ended < ?", sortable(before))
	})
	if err != nil || live == nil {
		return ids, err
	}
	all, err := s.List(ctx, checkpoint.Filter{Phases: live})
	for _, sum := range all {
		if sum.Prunable(before, some) {
			ids = append(ids, sum.ID)
		}
	}
	return ids, err
}

func (w *writer) remove(e *entry) error {
	delete(w.known, e.sum.ID)
	if err := w.removeLabels(e); err != nil {
		return err
	}
	for _, text := range []string{"DELETE FROM records WHERE key > ? AND key < ?",
		"DELETE FROM crowded WHERE key > ? AND key < ?"} {
		if err := w.exec(text, key(e.num, 0), key(e.num+1, 0)); err != nil {
			return err
		}
	}
	for _, text := range []string{
		"UPDATE definitions SET loose = 1 WHERE digest = (SELECT digest FROM runs WHERE num = ?) AND loose = 0",
		"DELETE FROM pauses WHERE run = ?",
		"DELETE FROM signals WHERE run = ?",
		"DELETE FROM runs WHERE num = ?",
	} {
		if err := w.exec(text, e.num); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) removeLabels(e *entry) error {
	if e.damage != nil { // its labels are unknown
		return w.exec("DELETE FROM labels WHERE run = ?", e.num)
	}
	return eachLabel(w.conn, e.sum, "DELETE FROM labels")
}
