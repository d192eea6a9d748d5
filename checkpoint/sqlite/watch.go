package sqlite

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"
)

// How the processes that share a file learn of each other's changes: the table changes has the runs that were changed
// last, but for appends to a run that stays running, which are most of all writes and are to touch nothing more.
// For these, a watcher looks where the journals of the runs that are running end.

const (
	watchEvery  = 100 * time.Millisecond // how often a watcher looks for changes of other processes
	keptChanges = 8192
	maxRunning  = 1000 // beyond, a watcher does not ask which runs have changed
)

// touch notes that the transaction changes a run.
func (w *writer) touch(e *entry) { w.touched = append(w.touched, e.sum.ID) }

// change is touch for what other processes find in changes.
func (w *writer) change(e *entry) {
	w.touch(e)
	if len(w.changed) > 0 {
		w.changed = append(w.changed, ',')
	}
	w.changed = strconv.AppendInt(w.changed, e.num, 10)
}

// note keeps the changes of the transaction.
func (w *writer) note() error {
	if len(w.changed) == 0 {
		return nil
	}
	err := w.exec("INSERT INTO changes (runs) VALUES (?)", string(w.changed))
	if num := w.conn.LastInsertRowID(); err == nil && num%1024 == 0 {
		err = w.exec("DELETE FROM changes WHERE num <= ?", num-keptChanges)
	}
	return err
}

// Watch implements checkpoint.Watcher. What this process writes is told at once, what others write after up to 100 ms.
// It names the runs, unless more than a thousand are running, or changes come too fast. When others write for the
// first time, it names all that are running.
func (s *Store) Watch(ctx context.Context, changed func(runID string)) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	var seen sight
	err := s.watchers.Watch(ctx, changed, watchEvery, func() []string {
		runs, _ := s.look(ctx, &seen) // after an error the next look finds the same
		return runs
	})
	return fmt.Errorf("sqlite store: %w", err)
}

// sight is what a watcher has seen of other processes. The zero value is nothing yet.
type sight struct {
	others int64 // see writer.others
	last   int64 // num in changes
	// ends are, by run, the keys at which the journals of those that are running end: of none that was not looked at
	// yet. nil: there was no look.
	ends map[int64]int64
}

// look returns the runs that other processes may have changed since the last look; "": any run. The first look finds
// none: most runs are over before others write.
func (s *Store) look(ctx context.Context, seen *sight) (runs []string, err error) {
	now := sight{others: s.others(), last: seen.last, ends: map[int64]int64{}}
	if now.others == seen.others && seen.ends != nil {
		return nil, nil
	}
	err = s.read(ctx, func(c *sqlite.Conn) error {
		if seen.ends == nil {
			return query(c, func(stmt *sqlite.Stmt) error { now.last = stmt.ColumnInt64(0); return nil },
				"SELECT max(num) FROM changes")
		}
		err := query(c, func(stmt *sqlite.Stmt) error {
			num := stmt.ColumnInt64(0)
			if num != now.last+1 { // the ones between are not kept any more
				runs = append(runs, "")
			}
			now.last = num
			return query(c, func(stmt *sqlite.Stmt) error { runs = append(runs, stmt.ColumnText(0)); return nil },
				"SELECT runs.id FROM json_each(?) CROSS JOIN runs ON num = value", "["+stmt.ColumnText(1)+"]")
		}, "SELECT num, runs FROM changes WHERE num > ? ORDER BY num", seen.last)
		if err != nil {
			return err
		}
		return query(c, func(stmt *sqlite.Stmt) error {
			num, end := stmt.ColumnInt64(0), stmt.ColumnInt64(2)
			if seen.ends[num] != end {
				runs = append(runs, stmt.ColumnText(1))
			}
			if now.ends[num] = end; len(now.ends) > maxRunning {
				runs = append(runs, "")
			}
			return nil
		}, "SELECT num, id, "+journalEnd+" FROM runs INDEXED BY runs_status WHERE status = 'running' LIMIT ?",
			maxRunning+1)
	})
	if err != nil {
		return nil, err
	}
	*seen = now
	return runs, nil
}

// others returns how often other processes were seen to have changed the file.
func (s *Store) others() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.writing && !s.closed { // else who has the writer looks
		s.writing = true
		s.mu.Unlock()
		_ = s.writer.look() // the next write has the same error
		s.mu.Lock()
		s.pass()
	}
	return s.writer.others.Load()
}
