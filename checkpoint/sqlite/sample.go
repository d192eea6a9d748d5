package sqlite

import (
	"context"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
)

// Sample implements checkpoint.Sampler. One index has all that it tells, but for leases, and for runs that an earlier
// version wrote.
func (s *Store) Sample(ctx context.Context, from, to time.Time, use func(*checkpoint.Summary)) error {
	var failed []error
	look := s.clock.Look()
	var w way
	spans := w.span(checkpoint.Filter{From: from, To: to})
	var sum checkpoint.Summary
	names := words{known: map[string]string{}}
	err := s.read(ctx, func(c *sqlite.Conn) error {
		for _, status := range everyStatus {
			text, args := join("SELECT num, recipe, queue, started, figures, id,"+
				" CASE status WHEN 'running' THEN lease END FROM runs INDEXED BY runs_status WHERE status = ?",
				[]any{string(status)}, spans...)
			err := query(c, func(stmt *sqlite.Stmt) error {
				var err error
				sum.Recipe, sum.Queue, sum.Held = names.of(stmt, 1), names.of(stmt, 2), false
				sum.StartedAt, err = time.Parse(time.RFC3339, stmt.ColumnText(3))
				if err == nil && status == checkpoint.Running {
					var lease checkpoint.Lease
					lease, err = checkpoint.ParseLeaseLine(stmt.ColumnText(5), column(stmt, 6))
					sum.Held = err == nil && look(lease)
				}
				if err == nil && sum.SetFigures(status, stmt.ColumnText(4)) {
					use(&sum)
					return nil
				}
				e, err := entryOf(c, stmt.ColumnInt64(0))
				if _, ok := errors.AsType[*refusal](err); ok {
					failed = append(failed, err)
					return nil
				}
				if err == nil {
					whole := e.summary(look)
					use(&whole)
				}
				return err
			}, text, args...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(failed...)
}

// words are texts that many rows have.
type words struct {
	known map[string]string
	text  [64]byte // of a row
}

// of returns a text of a row, without a new copy if an earlier row has had it.
func (w *words) of(stmt *sqlite.Stmt, column int) string {
	n := stmt.ColumnLen(column)
	if n > len(w.text) {
		return stmt.ColumnText(column)
	}
	stmt.ColumnBytes(column, w.text[:])
	known, ok := w.known[string(w.text[:n])]
	if !ok {
		known = string(w.text[:n])
		w.known[known] = known
	}
	return known
}
