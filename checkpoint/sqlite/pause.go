package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
)

// never is the time in the column expires of a pause that does not expire; it sorts behind all others.
const never = "~"

// unanswered is the condition on a row of pauses that no open signal of its run answers it.
const unanswered = "NOT EXISTS " +
	"(SELECT 1 FROM signals s WHERE s.run = pauses.run AND s.id = 'answer:' || pauses.id AND s.done = 0)"

// Pauses implements checkpoint.Querier.
func (s *Store) Pauses(ctx context.Context, f checkpoint.PauseFilter) (all []checkpoint.PauseInfo, err error) {
	var failed []error
	known := map[int64]*entry{}
	text, args := selectPauses(f)
	err = s.read(ctx, func(c *sqlite.Conn) error {
		return query(c, func(stmt *sqlite.Stmt) error {
			num := stmt.ColumnInt64(0)
			info, err := s.pause(c, known, num, stmt.ColumnText(1))
			if _, ok := errors.AsType[*refusal](err); ok {
				failed = append(failed, err)
				return nil
			}
			if all = append(all, info); err == nil && len(all) == f.Limit {
				return errEnough
			}
			return err
		}, text, args...)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return all, errors.Join(failed...)
}

// selectPauses returns the query for the runs and ids of pauses.
func selectPauses(f checkpoint.PauseFilter) (text string, args []any) {
	column, direction, behind, at := "opened", " DESC", " < ", sortable(f.After.At)
	if f.Expiring {
		column, direction, behind = "expires", "", " > "
		if f.After.At.IsZero() {
			at = never
		}
	}
	conditions := []condition{where(unanswered)}
	if f.Kind != "" {
		conditions = append(conditions, where("kind = ?", f.Kind))
	}
	if f.Recipe != "" {
		conditions = append(conditions, where("recipe = ?", f.Recipe))
	}
	if f.After != (checkpoint.Cursor{}) {
		place := "(" + column + ", owner, id)" + behind + "(?, ?, ?)"
		conditions = append(conditions, where(place, at, f.After.RunID, f.After.Pause))
	}
	text, args = join("SELECT run, id FROM pauses INDEXED BY pauses_"+column+" WHERE true", nil, conditions...)
	return text + " ORDER BY " + column + direction + ", owner" + direction + ", id" + direction, args
}

// pause reads an open pause of a run. The runs that it reads become known.
func (s *Store) pause(
	c *sqlite.Conn, known map[int64]*entry, num int64, id string,
) (info checkpoint.PauseInfo, err error) {
	e := known[num]
	if e == nil {
		if e, err = entryOf(c, num); err != nil {
			return info, err
		}
		known[num] = e
	}
	i := slices.IndexFunc(e.sum.Pauses, func(p checkpoint.Pause) bool { return p.ID == id })
	if i < 0 {
		return info, e.corrupt("its summary has no pause %q", id)
	}
	info.Summary, info.Pause = e.summary(s.clock.Held), e.sum.Pauses[i]
	info.Opened, err = e.record(c, info.Pause.Seq)
	return info, err
}

// setPauses keeps the open pauses of a run, which recs have changed.
func (w *writer) setPauses(
	num int64, before []checkpoint.Pause, sum checkpoint.Summary, recs []checkpoint.Record,
) error {
	for _, p := range missing(before, sum.Pauses) {
		if err := w.exec("DELETE FROM pauses WHERE run = ? AND id = ?", num, p.ID); err != nil {
			return err
		}
	}
	for _, p := range missing(sum.Pauses, before) {
		if err := addPause(w.conn, num, sum, p, recs[p.Seq-recs[0].Seq]); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the pauses that are not among others. Both are in the order of their opening.
func missing(pauses, others []checkpoint.Pause) (some []checkpoint.Pause) {
	for _, p := range pauses {
		for len(others) > 0 && others[0].Seq < p.Seq {
			others = others[1:]
		}
		if len(others) == 0 || others[0].Seq != p.Seq {
			some = append(some, p)
		}
	}
	return some
}

// addPause keeps an open pause; opened is the record that opened it.
func addPause(c *sqlite.Conn, num int64, sum checkpoint.Summary, p checkpoint.Pause, opened checkpoint.Record) error {
	expires, due := times(p)
	return query(c, nil, "INSERT INTO pauses (run, id, owner, recipe, kind, opened, expires, due)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?)", num, p.ID, sum.ID, sum.Recipe, p.Kind, sortable(opened.At), expires, due)
}

// times returns the values of the columns expires and due.
func times(p checkpoint.Pause) (expires string, due any) {
	if expires = never; !p.ExpiresAt.IsZero() {
		expires = sortable(p.ExpiresAt)
	}
	if at := (checkpoint.Summary{Pauses: []checkpoint.Pause{p}}).Due(); !at.IsZero() {
		due = sortable(at)
	}
	return expires, due
}

// checkPauses returns a refusal when the rows of pauses are not those of the run.
func (e *entry) checkPauses(c *sqlite.Conn) error {
	rows := map[string]string{}
	err := query(c, func(stmt *sqlite.Stmt) error {
		rows[stmt.ColumnText(0)] = stmt.ColumnText(1) + stmt.ColumnText(2)
		return nil
	}, "SELECT id, expires, due FROM pauses WHERE run = ?", e.num)
	fits := len(rows) == len(e.sum.Pauses)
	for _, p := range e.sum.Pauses {
		expires, due := times(p)
		at, _ := due.(string)
		fits = fits && rows[p.ID] == expires+at
	}
	if err == nil && !fits {
		err = e.corrupt("its pauses are not those of its summary")
	}
	return err
}

// FindPause implements checkpoint.Store.
func (s *Store) FindPause(ctx context.Context, runID string, tokenHash []byte) (info checkpoint.PauseInfo, err error) {
	err = s.read(ctx, func(c *sqlite.Conn) error {
		e, err := find(c, runID)
		if err == nil {
			err = e.damage
		}
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return err
		}
		var ok bool
		if err == nil {
			var open []checkpoint.Signal
			err := query(c, func(stmt *sqlite.Stmt) error {
				open = append(open, checkpoint.Signal{ID: stmt.ColumnText(0)})
				return nil
			}, "SELECT id FROM signals WHERE run = ? AND done = 0", e.num)
			if err != nil {
				return err
			}
			info.Summary = e.summary(s.clock.Held)
			info.Pause, ok = info.Summary.Unanswered(open).Find(tokenHash, time.Now())
		}
		if !ok {
			return refuse("run %q: %w", runID, checkpoint.ErrToken)
		}
		info.Opened, err = e.record(c, info.Pause.Seq)
		return err
	})
	if err != nil {
		return checkpoint.PauseInfo{}, err
	}
	return info, nil
}
