package sqlite

import (
	"context"
	"encoding/json"

	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
)

// PutSignal implements checkpoint.Signals.
func (s *Store) PutSignal(ctx context.Context, runID string, one checkpoint.Signal) error {
	line, invalid := one.Line()
	return s.write(ctx, func(w *writer) error {
		e, err := w.find(runID)
		if err != nil {
			return err
		}
		put := false
		err = query(w.conn, func(*sqlite.Stmt) error { put = true; return nil },
			"SELECT 1 FROM signals WHERE run = ? AND id = ?", e.num, one.ID)
		switch {
		case err != nil:
			return err
		case put:
			return refuse("run %q: signal %q: %w", runID, one.ID, checkpoint.ErrExists)
		case e.damage != nil:
			return e.damage
		case e.sum.Status.Ended():
			return refuse("run %q: %w: it is over (%s)", runID, checkpoint.ErrConflict, e.sum.Status)
		case invalid != nil:
			return &refusal{invalid}
		}
		w.change(e)
		return w.exec("INSERT INTO signals (run, id, line) VALUES (?, ?, ?)", e.num, one.ID, line)
	})
}

// Signals implements checkpoint.Signals.
func (s *Store) Signals(ctx context.Context, runID string, open bool) (all []checkpoint.Signal, err error) {
	text := "SELECT signals.id, done, line FROM runs LEFT JOIN signals ON run = runs.num WHERE runs.id = ?" +
		" ORDER BY signals.num"
	if open {
		text = "SELECT signals.id, done, line FROM runs LEFT JOIN signals INDEXED BY signals_open" +
			" ON run = runs.num AND done = 0 WHERE runs.id = ? ORDER BY signals.num"
	}
	there := false
	err = s.readOne(ctx, func(c *sqlite.Conn) error {
		return query(c, func(stmt *sqlite.Stmt) error {
			if there = true; stmt.ColumnType(0) == sqlite.TypeNull {
				return nil
			}
			one, err := checkpoint.ParseSignalLine(column(stmt, 2))
			if err != nil || one.ID != stmt.ColumnText(0) {
				return refuse("run %q: signal %q: %w: %v", runID, stmt.ColumnText(0), checkpoint.ErrCorrupt, err)
			}
			one.Done = stmt.ColumnInt(1) != 0
			all = append(all, one)
			return nil
		}, text, runID)
	})
	if err == nil && !there {
		err = refuse("run %q: %w", runID, checkpoint.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// EndSignals implements checkpoint.Signals.
func (s *Store) EndSignals(ctx context.Context, l checkpoint.Lease, ids ...string) error {
	return s.write(ctx, func(w *writer) error {
		e, err := w.leased(l)
		if err != nil || len(ids) == 0 {
			return err
		}
		return w.exec("UPDATE signals SET done = 1 WHERE run = ? AND id IN (SELECT value FROM json_each(?))",
			e.num, jsonText(ids))
	})
}

func jsonText(texts []string) string {
	text, _ := json.Marshal(texts) // cannot fail
	return string(text)
}
