package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/braise-run/braise/checkpoint"
)

// application marks a file as a store of journals, see PRAGMA application_id.
const application = 0x42524153

// migrations take a file from each version of its tables to the next; a new file has version 0.
//
// What matters is in lines with a checksum, see checkpoint.Record.AppendLine; the other columns are there to
// search by and are compared with them. A row of journal is one append; its key holds the run and the last
// seq. An append that has a transaction for itself goes into records, where journals lie in one piece: it
// changes one page of the file. Appends that many runs make in one transaction go into crowded, one behind the
// other: they change few pages more than they fill.
var migrations = []string{`
CREATE TABLE runs (
	num     INTEGER PRIMARY KEY,
	id      TEXT NOT NULL UNIQUE,
	recipe  TEXT NOT NULL,
	digest  TEXT NOT NULL,
	started TEXT NOT NULL,
	status  TEXT NOT NULL,
	due     TEXT,
	lease   BLOB NOT NULL,
	summary BLOB NOT NULL -- when it was last more than the number and the time of the last record that changed
);
CREATE INDEX runs_started ON runs (started, id);
CREATE INDEX runs_due ON runs (due) WHERE due IS NOT NULL;
CREATE TABLE records (
	key   INTEGER PRIMARY KEY, -- num << 32 | seq of the last
	lines BLOB NOT NULL
);
CREATE TABLE definitions (
	digest TEXT PRIMARY KEY,
	line   BLOB NOT NULL
);
`, `
CREATE TABLE documents (
	num        INTEGER PRIMARY KEY, -- in the order of a collection
	collection TEXT NOT NULL,
	name       TEXT NOT NULL,
	line       BLOB NOT NULL, -- see checkpoint.DocumentLine
	UNIQUE (collection, name)
);
`, `
CREATE TABLE crowded (
	num   INTEGER PRIMARY KEY, -- in the order of writing
	key   INTEGER NOT NULL UNIQUE, -- as in records, where it is not then
	lines BLOB NOT NULL
);
CREATE VIEW journal AS SELECT key, lines FROM records UNION ALL SELECT key, lines FROM crowded;
`}

// refusal is an error of a call, as opposed to one of the file.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

func refuse(format string, args ...any) error { return &refusal{fmt.Errorf(format, args...)} }

// fileError says which file failed.
func fileError(path string, err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		err = fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
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

// openFile opens a file for writing and brings its tables up to date.
func openFile(ctx context.Context, path string, o Options) (*sqlite.Conn, error) {
	if err := makeFile(path); err != nil {
		return nil, err
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	c.SetBusyTimeout(o.Wait)
	c.SetInterrupt(ctx.Done())
	if err := prepare(c, o.Synchronous); err != nil {
		c.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	c.SetInterrupt(nil)
	c.SetBusyTimeout(0) // the writer waits by itself
	return c, nil
}

// making keeps a file that is being made from other calls of Open: to close it would take away the locks that
// they have on it.
var making sync.Mutex

// makeFile makes an empty file that only its owner can read. SQLite gives its other files the same rights.
func makeFile(path string) error {
	making.Lock()
	defer making.Unlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func prepare(c *sqlite.Conn, synchronous string) error {
	version, err := checkVersion(c)
	if err != nil {
		return err
	}
	mode := ""
	err = query(c, func(stmt *sqlite.Stmt) error { mode = stmt.ColumnText(0); return nil }, "PRAGMA journal_mode = wal")
	if err == nil && mode != "wal" {
		err = fmt.Errorf("no write-ahead log is possible here (%s)", mode)
	}
	if err != nil {
		return err
	}
	for _, text := range pragmas(synchronous) {
		if err := query(c, nil, text); err != nil {
			return err
		}
	}
	if version == len(migrations) {
		return nil
	}
	return inTransaction(c, "BEGIN IMMEDIATE", func() error {
		version, err := checkVersion(c) // another process may have been faster
		for ; err == nil && version < len(migrations); version++ {
			for text := range strings.SplitSeq(strings.TrimSpace(migrations[version]), ";\n") {
				if err := query(c, nil, text); err != nil {
					return err
				}
			}
		}
		if err == nil {
			err = query(c, nil, fmt.Sprintf("PRAGMA application_id = %d", application))
		}
		if err == nil {
			err = query(c, nil, fmt.Sprintf("PRAGMA user_version = %d", len(migrations)))
		}
		return err
	})
}

// pragmas are the settings of the connection that writes.
func pragmas(synchronous string) []string {
	return []string{
		"PRAGMA synchronous = " + synchronous,
		// These two matter on macOS only, where fsync alone leaves data in the disk's cache.
		"PRAGMA fullfsync = on",
		"PRAGMA checkpoint_fullfsync = on",
		// Many runs at the same time write to as many pages: these are to stay in memory (16 MB), and to be
		// changed several times in the log (16 MB) before they are copied to the file.
		"PRAGMA cache_size = -16384",
		"PRAGMA wal_autocheckpoint = 4096",
	}
}

// checkVersion returns the version of a file's tables. What it reads is of one moment: another process
// may be making them.
func checkVersion(c *sqlite.Conn) (_ int, err error) {
	if err := query(c, nil, "SAVEPOINT version"); err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, query(c, nil, "RELEASE version")) }()
	var app, version, tables int64
	for text, n := range map[string]*int64{
		"PRAGMA application_id":              &app,
		"PRAGMA user_version":                &version,
		"SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := query(c, func(stmt *sqlite.Stmt) error { *n = stmt.ColumnInt64(0); return nil }, text); err != nil {
			return 0, err
		}
	}
	switch {
	case app != application && (app != 0 || version != 0 || tables != 0):
		return 0, errors.New("it is a database of another program")
	case version < 0 || version > int64(len(migrations)):
		return 0, fmt.Errorf("%w: its tables have version %d, not %d", checkpoint.ErrVersion, version, len(migrations))
	}
	return int(version), nil
}

// entry is what the file says of a run besides its journal.
type entry struct {
	num    int64
	lease  checkpoint.Lease
	sum    checkpoint.Summary
	damage error // a refusal: why there is nothing but an ID in sum
}

func (e *entry) summary() checkpoint.Summary {
	sum := e.sum
	sum.Held = e.lease.Held(time.Now())
	return sum
}

func (e *entry) corrupt(format string, args ...any) error {
	return refuse("run %q: %w: %w", e.sum.ID, checkpoint.ErrCorrupt, fmt.Errorf(format, args...))
}

// key returns where the row of a run ends that ends with the record seq.
func key(num, seq int64) int64 { return num<<32 | seq }

// sortable returns a time as text that sorts as the times do.
func sortable(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

// due returns the value of the column of that name.
func due(sum checkpoint.Summary) any {
	if at := sum.Due(); !at.IsZero() {
		return sortable(at)
	}
	return nil
}

// The kinds of the lines in a row of runs. They are in no journal.
const (
	leaseKind   checkpoint.Kind = "lease" // seq is the epoch, at the time at which it runs out, path the owner
	summaryKind checkpoint.Kind = "summary"
)

func leaseLine(l checkpoint.Lease) ([]byte, error) {
	rec := checkpoint.Record{Seq: l.Epoch, At: l.Until.Round(0), Kind: leaseKind, Path: l.Owner}
	if err := rec.Check(); err != nil {
		return nil, refuse("run %q: lease: %w", l.RunID, err)
	}
	return rec.AppendLine(nil), nil
}

func summaryLine(sum checkpoint.Summary) ([]byte, error) {
	data, err := json.Marshal(sum)
	if err != nil { // a time past the year 9999
		return nil, refuse("run %q: %w: %w", sum.ID, checkpoint.ErrInvalid, err)
	}
	rec := checkpoint.Record{Seq: sum.Seq, At: sum.UpdatedAt, Kind: summaryKind, Path: sum.ID, Data: data}
	return rec.AppendLine(nil), nil
}

const selectEntry = `SELECT num, id, recipe, digest, started, status, due, lease, summary,
	(SELECT key FROM journal WHERE key > num << 32 AND key < (num + 1) << 32 ORDER BY key DESC LIMIT 1) FROM runs`

// find reads what the file says of a run.
func find(c *sqlite.Conn, runID string) (e *entry, err error) {
	err = query(c, func(stmt *sqlite.Stmt) (err error) { e, err = readEntry(c, stmt); return err },
		selectEntry+" WHERE id = ?", runID)
	if err == nil && e == nil {
		err = refuse("run %q: %w", runID, checkpoint.ErrNotFound)
	}
	return e, err
}

// readEntry reads a row of selectEntry.
func readEntry(c *sqlite.Conn, stmt *sqlite.Stmt) (*entry, error) {
	e := &entry{num: stmt.ColumnInt64(0)}
	e.sum.ID = stmt.ColumnText(1)
	rec, err := checkpoint.ParseLine(column(stmt, 7))
	if err == nil && rec.Kind != leaseKind {
		err = fmt.Errorf("it is a %s", rec.Kind)
	}
	if err != nil {
		return nil, e.corrupt("its lease: %w", err)
	}
	e.lease = checkpoint.Lease{RunID: e.sum.ID, Owner: rec.Path, Epoch: rec.Seq, Until: rec.At}

	var sum checkpoint.Summary
	rec, err = checkpoint.ParseLine(column(stmt, 8))
	if err == nil {
		err = json.Unmarshal(rec.Data, &sum)
	}
	dueText, _ := due(sum).(string)
	fits := rec.Kind == summaryKind
	for i, want := range []string{
		sum.ID, sum.Recipe, sum.Digest, sortable(sum.StartedAt), string(sum.Status), dueText,
	} {
		fits = fits && stmt.ColumnText(1+i) == want
	}
	last := stmt.ColumnInt64(9) - key(e.num, 0)
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
	}, "SELECT key, lines FROM journal WHERE key >= ? AND key < ? ORDER BY key LIMIT 1", key(e.num, seq), key(e.num+1, 0))
	if err == nil && found.Seq != seq {
		err = e.corrupt("there is no record %d", seq)
	}
	return found, err
}
