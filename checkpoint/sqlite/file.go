package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/braise-run/braise/checkpoint"
)

// refusal is an error of a call, as opposed to one of the file.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

func refuse(format string, args ...any) error { return &refusal{fmt.Errorf(format, args...)} }

// fileError says which file failed.
func fileError(path string, err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		err = fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	case sqlite.ResultReadOnly:
		err = fmt.Errorf("%w\n  hint: the file or its folder is protected, or the disk is full", err)
	}
	return fmt.Errorf("sqlite store: %s: %w", path, err)
}

// query runs a statement, which the connection keeps for the next time, and calls row for each row.
func query(c *sqlite.Conn, row func(*sqlite.Stmt) error, text string, args ...any) error {
	return sqlitex.Execute(c, text, &sqlitex.ExecOptions{Args: args, ResultFunc: row})
}

func inTransaction(c *sqlite.Conn, begin string, f func() error) error {
	err := query(c, nil, begin)
	if err == nil {
		err = f()
	}
	if err == nil {
		err = query(c, nil, "COMMIT")
	}
	if err != nil {
		rollBack(c)
	}
	return err
}

// rollBack undoes an open transaction, also of a connection whose context is done.
func rollBack(c *sqlite.Conn) {
	if !c.AutocommitEnabled() {
		done := c.SetInterrupt(nil)
		query(c, nil, "ROLLBACK") // fails only when SQLite has done it
		c.SetInterrupt(done)
	}
}

// entry is what the file says of a run besides its journal.
type entry struct {
	num    int64
	lease  checkpoint.Lease
	sum    checkpoint.Summary
	line   []byte // of sum, as it was read; nil: it was not
	damage error  // a refusal: why there is nothing but an ID in sum
}

func (e *entry) summary(held func(checkpoint.Lease) bool) checkpoint.Summary {
	sum := e.sum
	sum.Held = held(e.lease)
	return sum
}

func (e *entry) corrupt(format string, args ...any) error {
	return refuse("run %q: %w: %w", e.sum.ID, checkpoint.ErrCorrupt, fmt.Errorf(format, args...))
}

// key returns where the row of a run ends that ends with the record seq.
func key(num, seq int64) int64 { return num<<32 | seq }

// sortable returns a time as text that sorts as the times do.
func sortable(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

// ended and parent return the values of the columns of these names.
func ended(sum checkpoint.Summary) any {
	if sum.EndedAt.IsZero() {
		return nil
	}
	return sortable(sum.EndedAt)
}

func parent(sum checkpoint.Summary) any {
	if sum.Parent == "" {
		return nil
	}
	return sum.Parent
}

// summaryKind is the kind of a run's summary; it is in no journal.
const summaryKind checkpoint.Kind = "summary"

func summaryLine(sum checkpoint.Summary) ([]byte, error) {
	data, err := json.Marshal(sum)
	if err != nil { // a time past the year 9999
		return nil, refuse("run %q: %w: %w", sum.ID, checkpoint.ErrInvalid, err)
	}
	rec := checkpoint.Record{Seq: sum.Seq, At: sum.UpdatedAt, Kind: summaryKind, Path: sum.ID, Data: data}
	return rec.AppendLine(nil), nil
}

// parsed is a summary with its line.
type parsed struct {
	line []byte
	sum  checkpoint.Summary
}

// lastParsed is the long line that was parsed or written last. An answer reads the summary of its run several times,
// and that of a run with thousands of pauses takes milliseconds.
var lastParsed atomic.Pointer[parsed]

// longLine is from how many bytes on a line is kept in lastParsed.
const longLine = 16 << 10

// parseSummary reads what summaryLine wrote.
func parseSummary(line []byte) (sum checkpoint.Summary, err error) {
	if last := lastParsed.Load(); last != nil && bytes.Equal(last.line, line) {
		return last.sum, nil
	}
	rec, err := checkpoint.ParseLine(line)
	if err == nil && rec.Kind != summaryKind {
		err = fmt.Errorf("it is a %s", rec.Kind)
	}
	if err == nil {
		err = json.Unmarshal(rec.Data, &sum)
	}
	if err == nil {
		keepParsed(line, sum)
	}
	return sum, err
}

// keepParsed keeps a summary with its line, if that is long.
func keepParsed(line []byte, sum checkpoint.Summary) {
	if len(line) >= longLine {
		sum.Definition, sum.Held = nil, false // lines do not have them
		lastParsed.Store(&parsed{line, sum})
	}
}

// journalEnd is the key at which the journal of a row of runs ends.
const journalEnd = "(SELECT key FROM journal WHERE key > num << 32 AND key < (num + 1) << 32 ORDER BY key DESC LIMIT 1)"

const selectEntry = "SELECT num, id, recipe, digest, started, status, queue, parent, ended, lease, summary, " +
	journalEnd + " FROM runs"

// find reads what the file says of a run.
func find(c *sqlite.Conn, runID string) (e *entry, err error) {
	err = query(c, func(stmt *sqlite.Stmt) (err error) { e, err = readEntry(c, stmt); return err },
		selectEntry+" WHERE id = ?", runID)
	if err == nil && e == nil {
		err = refuse("run %q: %w", runID, checkpoint.ErrNotFound)
	}
	return e, err
}

// entryOf reads what the file says of the run with a number; a refusal when it cannot be read.
func entryOf(c *sqlite.Conn, num int64) (e *entry, err error) {
	err = query(c, func(stmt *sqlite.Stmt) (err error) { e, err = readEntry(c, stmt); return err },
		selectEntry+" WHERE num = ?", num)
	if err == nil && e == nil {
		err = refuse("run number %d: %w: it is searched for, and not there", num, checkpoint.ErrCorrupt)
	}
	if err == nil {
		err = e.damage
	}
	return e, err
}

// readEntry reads a row of selectEntry.
func readEntry(c *sqlite.Conn, stmt *sqlite.Stmt) (*entry, error) {
	e := &entry{num: stmt.ColumnInt64(0)}
	e.sum.ID = stmt.ColumnText(1)
	var err error
	if e.lease, err = checkpoint.ParseLeaseLine(e.sum.ID, column(stmt, 9)); err != nil {
		return nil, &refusal{err}
	}

	e.line = column(stmt, 10)
	sum, err := parseSummary(e.line)
	end, _ := ended(sum).(string)
	fits := true
	for i, want := range []string{
		sum.ID, sum.Recipe, sum.Digest, sortable(sum.StartedAt), string(sum.Status), sum.Queue, sum.Parent, end,
	} {
		fits = fits && stmt.ColumnText(1+i) == want
	}
	last := stmt.ColumnInt64(11) - key(e.num, 0)
	switch {
	case err != nil:
		e.damage = e.corrupt("its summary: %w", err)
	case !fits:
		e.damage = e.corrupt("its summary is not that of the row")
	case last < sum.Seq || last > sum.Seq && sum.Status.Ended():
		e.damage = e.corrupt("it ends at record %d, not %d", last, sum.Seq)
	}
	if e.damage != nil {
		return e, nil
	}
	if last > sum.Seq {
		rec, err := e.record(c, last)
		if _, ok := errors.AsType[*refusal](err); ok {
			e.damage = err
			return e, nil
		}
		if err != nil {
			return nil, err
		}
		sum.Seq, sum.UpdatedAt = rec.Seq, rec.At
	}
	e.sum = sum
	return e, nil
}

// column returns a column of bytes.
func column(stmt *sqlite.Stmt, i int) []byte {
	b := make([]byte, stmt.ColumnLen(i))
	stmt.ColumnBytes(i, b)
	return b
}

// records reads the journal behind the record with the number after, up to the end that e has.
func (e *entry) records(c *sqlite.Conn, after int64) (recs []checkpoint.Record, err error) {
	if after >= e.sum.Seq {
		return nil, nil
	}
	next := after + 1
	err = query(c, func(stmt *sqlite.Stmt) error {
		for line := range bytes.SplitSeq(column(stmt, 1), []byte("\n")) {
			rec, err := checkpoint.ParseLine(line)
			switch {
			case err != nil:
				return e.corrupt("behind record %d: %w", next-1, err)
			case rec.Seq <= after && next == after+1: // it was appended together with later ones
				continue
			case rec.Seq != next:
				return e.corrupt("record %d where %d should be", rec.Seq, next)
			}
			recs = append(recs, rec)
			next++
		}
		if end := stmt.ColumnInt64(0); end != key(e.num, next-1) {
			return e.corrupt("record %d at the end of row %d", next-1, end)
		}
		return nil
	}, "SELECT key, lines FROM journal WHERE key > ? AND key < ? ORDER BY key", key(e.num, after), key(e.num+1, 0))
	if err == nil && next-1 != e.sum.Seq {
		err = e.corrupt("it ends at record %d, not %d", next-1, e.sum.Seq)
	}
	return recs, err
}

// record reads one record.
func (e *entry) record(c *sqlite.Conn, seq int64) (found checkpoint.Record, err error) {
	err = query(c, func(stmt *sqlite.Stmt) error {
		for line := range bytes.SplitSeq(column(stmt, 1), []byte("\n")) {
			rec, err := checkpoint.ParseLine(line)
			if err != nil {
				return e.corrupt("around record %d: %w", seq, err)
			}
			if rec.Seq == seq {
				found = rec
			}
		}
		return nil
	}, "SELECT key, lines FROM journal WHERE key >= ? AND key < ? ORDER BY key LIMIT 1", key(e.num,
		seq), key(e.num+1, 0))
	if err == nil && found.Seq != seq {
		err = e.corrupt("there is no record %d", seq)
	}
	return found, err
}
