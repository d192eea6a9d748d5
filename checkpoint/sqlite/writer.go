package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
)

// write is a change of the file that waits for its turn.
type write struct {
	do    func(*writer) error // may be called again, after all that it did was undone
	taken atomic.Bool         // by the writer, or by its caller, who no longer wants it
	begun bool                // it was the writer
	err   error
	done  chan error // has room for one
}

// write has the writer call do within a transaction, and returns when that is committed. do either
// changes nothing and returns a refusal, or any other error when the file failed. When ctx ends in between, write
// returns, and do may be called later: it must not change what its caller reads after an error.
func (s *Store) write(ctx context.Context, do func(*writer) error) error {
	one := &write{do: do, done: make(chan error, 1)}
	s.mu.Lock()
	if err := s.usable(ctx); err != nil {
		s.mu.Unlock()
		return err
	}
	s.queue = append(s.queue, one)
	if !s.writing {
		s.writing = true
		s.wake <- struct{}{}
	}
	s.mu.Unlock()
	select {
	case err := <-one.done:
		return err
	case <-ctx.Done():
	}
	if one.taken.CompareAndSwap(false, true) {
		return fmt.Errorf("sqlite store: %w", ctx.Err())
	}
	return guard.Begun(ctx, one.done)
}

// pass gives the writer to serve if there are writes in the queue, or ends the work.
func (s *Store) pass() {
	if s.queue == nil {
		s.rest()
	} else {
		s.wake <- struct{}{}
	}
}

// rest ends the work of who has the writer.
func (s *Store) rest() {
	s.writing = false
	if s.closed {
		close(s.wake)
	}
}

// A process that waits for the lock of a file looks every poll. A process that has much to write leaves a
// gap after each turn that is long enough for the others to see. Turns are short while others write, too.
const (
	poll, gap    = 500 * time.Microsecond, 3 * poll
	turn, shared = 100 * time.Millisecond, 20 * time.Millisecond
)

// serve makes the writes in the queue until Close, all that are queued in one transaction.
func (s *Store) serve() {
	defer close(s.finished)
	for range s.wake {
		since, others := time.Now(), s.writer.others.Load()
		for batch := s.take(); batch != nil; batch = s.take() {
			s.writer.serve(batch)
			if len(batch) > 1 {
				runtime.Gosched() // to those who waited, for a large batch next
			}
			if had := time.Since(since); had > turn || had > shared && s.writer.others.Load() > others {
				time.Sleep(gap)
				since, others = time.Now(), s.writer.others.Load()
			}
		}
	}
	s.closeErr = errors.Join(s.readers.Close(), s.writer.conn.Close())
}

// take empties the queue; nil ends the work.
func (s *Store) take() []*write {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch := s.queue
	s.queue = nil
	if batch == nil {
		s.rest()
	}
	return batch
}

// writer is the connection that changes the file.
type writer struct {
	conn    *sqlite.Conn
	file    *file
	clock   *checkpoint.Clock
	wait    time.Duration
	version int64             // of the file, as this connection saw it last: others change it
	known   map[string]*entry // by run id; what the file of that version says
	crowd   bool              // the transaction has at least crowd writes

	watchers *checkpoint.Watchers
	touched  []string     // the ids of the runs that the transaction changes
	changed  []byte       // of those that go into the table changes, the numbers
	others   atomic.Int64 // how often others were seen to have changed the file
}

// crowd is from how many writes in one transaction on their records share pages, see migrations.
const crowd = 8

// maxKnown is how many runs a writer remembers.
const maxKnown = 10_000

// serve makes writes in one transaction.
func (w *writer) serve(batch []*write) {
	if err := w.lock(w.wait); err != nil {
		err = w.failed(err)
		for _, one := range batch {
			one.done <- err
		}
		return
	}
	w.commit(batch)
}

// lock begins a transaction.
func (w *writer) lock(wait time.Duration) error {
	return unlocked(wait, func() error { return w.exec("BEGIN IMMEDIATE") })
}

// unlocked calls f until no other connection has the file locked. SQLite's own timeout is not enough: where two
// connections could wait for each other, as when both make a new file, it gives up at once.
func unlocked(wait time.Duration, f func() error) error {
	deadline := time.Now().Add(wait)
	for {
		err := f()
		if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy {
			return err
		}
		if !time.Now().Before(deadline) {
			return fmt.Errorf("another process has had it locked for %s: %w", wait, err)
		}
		time.Sleep(poll)
	}
}

// commit makes writes in the transaction that has begun. When the file fails, each gets its own, so
// that one for which there is no room does not take others with it.
func (w *writer) commit(batch []*write) {
	err := w.transact(batch)
	if err != nil && len(batch) > 1 {
		for i := range batch {
			w.serve(batch[i : i+1])
		}
		return
	}
	if err != nil {
		err = w.failed(err)
	}
	for _, one := range batch {
		if err != nil {
			one.err = err
		}
		one.done <- one.err
	}
}

// failed says why the file failed: because it is not what it was, or as SQLite says.
func (w *writer) failed(err error) error {
	if changed := w.file.check(w.conn); changed != nil {
		err = changed
	}
	return fileError(w.file.path, err)
}

// transact ends the transaction: either all writes are committed, or none and the file failed.
func (w *writer) transact(batch []*write) (err error) {
	w.touched, w.changed = w.touched[:0], w.changed[:0]
	defer func() {
		if err != nil {
			clear(w.known)
			rollBack(w.conn)
		}
	}()
	defer guard.Recovered(&err)
	if err := w.look(); err != nil {
		return err
	}
	if len(w.known) > maxKnown {
		clear(w.known)
	}
	w.crowd = len(batch) >= crowd
	for _, one := range batch {
		if !one.begun && !one.taken.CompareAndSwap(false, true) {
			continue
		}
		one.begun = true
		one.err = one.do(w)
		if _, ok := errors.AsType[*refusal](one.err); one.err != nil && !ok {
			return one.err
		}
	}
	if err := w.note(); err != nil {
		return err
	}
	if err := w.file.check(w.conn); err != nil {
		return err
	}
	if err := w.exec("COMMIT"); err != nil {
		return err
	}
	for _, id := range w.touched {
		w.watchers.Tell(id)
	}
	return nil
}

// look finds out whether others have changed the file.
func (w *writer) look() error {
	before := w.version
	err := query(w.conn, func(stmt *sqlite.Stmt) error { w.version = stmt.ColumnInt64(0); return nil },
		"PRAGMA data_version")
	if w.version != before {
		clear(w.known)
		w.others.Add(1)
	}
	return err
}

func (w *writer) exec(text string, args ...any) error { return query(w.conn, nil, text, args...) }

// find returns what the file says of a run.
func (w *writer) find(runID string) (*entry, error) {
	if e := w.known[runID]; e != nil {
		return e, nil
	}
	e, err := find(w.conn, runID)
	if err == nil {
		w.known[runID] = e
	}
	return e, err
}

// leased returns the run that l holds.
func (w *writer) leased(l checkpoint.Lease) (*entry, error) {
	e, err := w.find(l.RunID)
	if err == nil && !l.Newest(e.lease) {
		err = refuse("%w", l.Lost(e.lease))
	}
	return e, err
}

// free returns a run that nobody holds.
func (w *writer) free(runID string) (*entry, error) {
	e, err := w.find(runID)
	if err == nil {
		if busy := w.clock.Free(e.lease); busy != nil {
			err = &refusal{busy}
		}
	}
	return e, err
}

// created is what Create writes besides the lease.
type created struct {
	run            checkpoint.Run
	recs           []checkpoint.Record
	summary, lines []byte
}

func (w *writer) create(e *entry, c created) error {
	lease, err := e.lease.Line()
	if err != nil {
		return &refusal{err}
	}
	err = w.exec("INSERT INTO runs"+
		" (id, recipe, digest, started, status, queue, parent, ended, lease, summary, figures)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
		c.run.ID, c.run.Recipe, c.run.Digest, sortable(c.run.StartedAt), e.sum.Status, c.run.Queue,
		parent(e.sum), ended(e.sum), lease, c.summary, e.sum.Figures())
	if err != nil {
		return err
	}
	if w.conn.Changes() == 0 {
		return refuse("run %q: %w", c.run.ID, checkpoint.ErrExists)
	}
	e.num = w.conn.LastInsertRowID()
	if err := w.insert(e.num, e.sum.Seq, c.lines); err != nil {
		return err
	}
	w.known[c.run.ID] = e
	if err := addLabels(w.conn, e.num, e.sum); err != nil {
		return err
	}
	if err := w.setPauses(e.num, nil, e.sum, c.recs); err != nil {
		return err
	}
	w.change(e)
	if c.run.Definition == nil {
		return nil
	}
	kept := false
	err = query(w.conn, func(*sqlite.Stmt) error { kept = true; return nil },
		"SELECT 1 FROM definitions WHERE digest = ?", c.run.Digest)
	if err != nil || kept {
		return err
	}
	return w.exec("INSERT INTO definitions (digest, line) VALUES (?, ?)",
		c.run.Digest, checkpoint.DefinitionLine(c.run))
}

// append adds recs, whose lines are given, after which the run is what sum says.
func (w *writer) append(e *entry, sum checkpoint.Summary, recs []checkpoint.Record, lines []byte) error {
	// The summary is written only when more of it has changed than where the journal ends, which
	// the last record says. Most appends touch one page of the file.
	before := e.sum
	changed := sum.Status != before.Status || sum.Usage != before.Usage || !same(sum.Pauses, before.Pauses)
	if changed {
		line, err := summaryLine(sum)
		keepParsed(line, sum)
		switch {
		case err != nil:
		case sum.Status == before.Status && sum.Usage == before.Usage: // the indexes stay as they are
			err = w.exec("UPDATE runs SET summary = ? WHERE num = ?", line, e.num)
		default:
			err = w.exec("UPDATE runs SET status = ?, ended = ?, figures = ?, summary = ? WHERE num = ?",
				sum.Status, ended(sum), sum.Figures(), line, e.num)
			if err == nil && sum.Status != before.Status {
				err = eachLabel(w.conn, before, "UPDATE labels SET status = ?", string(sum.Status))
			}
		}
		if err == nil {
			err = w.setPauses(e.num, before.Pauses, sum, recs)
		}
		if err != nil {
			return err
		}
	}
	e.sum = sum
	if changed || sum.Status != checkpoint.Running {
		w.change(e)
	} else {
		w.touch(e)
	}
	return w.insert(e.num, sum.Seq, lines)
}

// same reports whether two lists are one and the same. Those of a summary are never changed, only replaced.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// encode returns the row of an append behind the record with the number after.
func encode(after int64, recs []checkpoint.Record) (lines []byte) {
	for i, rec := range recs {
		if i > 0 {
			lines = append(lines, '\n')
		}
		rec.Seq = after + 1 + int64(i)
		lines = rec.AppendLine(lines)
	}
	return lines
}

// insert adds the row of one append, whose last record is last.
func (w *writer) insert(num, last int64, lines []byte) error {
	text := "INSERT INTO records (key, lines) VALUES (?, ?)"
	if w.crowd {
		text = "INSERT INTO crowded (key, lines) VALUES (?, ?)"
	}
	return w.exec(text, key(num, last), lines)
}

// setLease replaces the lease of a run. Watchers are told when the owner is another one.
func (w *writer) setLease(e *entry, l checkpoint.Lease) error {
	line, err := l.Line()
	if err != nil {
		return &refusal{err}
	}
	if err := w.exec("UPDATE runs SET lease = ? WHERE num = ?", line, e.num); err != nil {
		return err
	}
	renewed := l.Epoch == e.lease.Epoch
	if e.lease = l; !renewed {
		w.change(e)
	}
	return nil
}
