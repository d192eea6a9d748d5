package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
)

// hold keeps the writer busy until release is called, so that writes queue up.
func hold(t testing.TB, s *Store) (release func()) {
	t.Helper()
	held, free, ended := make(chan bool), make(chan bool), make(chan error)
	go func() {
		ended <- s.write(context.Background(), func(*writer) error { close(held); <-free; return nil })
	}()
	<-held
	return func() {
		close(free)
		want(t, "write", <-ended, nil)
	}
}

// queued returns when n writes are in the queue.
func queued(s *Store, n int) {
	for {
		s.mu.Lock()
		ready := len(s.queue) == n
		s.mu.Unlock()
		if ready {
			return
		}
		runtime.Gosched()
	}
}

// commits counts the transactions in the log: the last frame of each says how many pages the file has then,
// see https://www.sqlite.org/fileformat2.html#walformat.
func commits(t testing.TB, s *Store) (n int) {
	t.Helper()
	log := readFile(t, s.path+"-wal")
	for at := 32; at < len(log); at += 24 + 4096 {
		if binary.BigEndian.Uint32(log[at+4:]) > 0 {
			n++
		}
	}
	return n
}

// Writes that wait together are one transaction, and still each is made or refused for itself.
func TestGroupCommit(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := open(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	defer s.Close()
	var leases []checkpoint.Lease
	for i := range 20 {
		leases = append(leases, create(t, s, fmt.Sprint("run-", i), 0))
	}
	before := commits(t, s)
	release := hold(t, s)
	errs := make(chan error)
	for i, l := range leases {
		after, want := int64(1), error(nil)
		if i%2 == 1 {
			after, want = 7, checkpoint.ErrConflict
		}
		go func() {
			err := s.Append(t.Context(), l, after, note(t, "a"), note(t, "b"))
			if !errors.Is(err, want) {
				err = fmt.Errorf("Append behind %d: %w, want %w", after, err, want)
			} else {
				err = nil
			}
			errs <- err
		}()
	}
	queued(s, len(leases))
	release()
	for range leases {
		want(t, "Append", <-errs, nil)
	}
	if got := commits(t, s) - before; got != 1 {
		t.Errorf("%d transactions, want 1", got)
	}
	for i := range leases {
		sum, _, err := s.Load(t.Context(), fmt.Sprint("run-", i), 0)
		if want := int64(3 - 2*(i%2)); err != nil || sum.Seq != want {
			t.Errorf("run %d ends at %d, want %d (%v)", i, sum.Seq, want, err)
		}
	}
}

// crowded appends a record to each run, and to some more of its own whose names begin with prefix, in one
// transaction.
func crowded(t testing.TB, s *Store, prefix string, leases ...checkpoint.Lease) {
	t.Helper()
	for i := range crowd {
		leases = append(leases, create(t, s, fmt.Sprint(prefix, "-", i), 0))
	}
	release := hold(t, s)
	errs := make(chan error)
	for _, l := range leases {
		sum, _, err := s.Load(t.Context(), l.RunID, 0)
		want(t, "Load", err, nil)
		go func() { errs <- s.Append(t.Context(), l, sum.Seq, note(t, "in the crowd")) }()
	}
	queued(s, len(leases))
	release()
	for range leases {
		want(t, "Append", <-errs, nil)
	}
}

// A journal whose parts were written in different company reads as one, and goes as one.
func TestCrowded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := create(t, s, "run", 0)
	want(t, "Append", s.Append(t.Context(), l, 1, note(t, "alone")), nil)
	crowded(t, s, "a", l)
	want(t, "Append", s.Append(t.Context(), l, 3, note(t, "alone"), note(t, "alone")), nil)
	crowded(t, s, "b", l)
	var rows []string
	change(t, s.path, func(c *sqlite.Conn) error {
		return query(c, func(stmt *sqlite.Stmt) error { rows = append(rows, stmt.ColumnText(0)); return nil },
			"SELECT 'records ' || (key & 255) FROM records WHERE key >> 32 = 1 UNION ALL "+
				"SELECT 'crowded ' || (key & 255) FROM crowded WHERE key >> 32 = 1")
	})
	if got, want := strings.Join(rows, ", "), "records 1, records 2, records 5, crowded 3, crowded 6"; got != want {
		t.Errorf("the rows are %s, want %s", got, want)
	}
	for after := range int64(7) {
		sum, recs, err := s.Load(t.Context(), "run", after)
		if want(t, "Load", err, nil); sum.Seq != 6 || int64(len(recs)) != 6-after {
			t.Errorf("behind %d: %d records up to %d", after, len(recs), sum.Seq)
		}
		for i, rec := range recs {
			if rec.Seq != after+1+int64(i) {
				t.Errorf("behind %d: record %d is at place %d", after, rec.Seq, i)
			}
		}
	}
	want(t, "Delete", s.Delete(t.Context(), "run"), nil)
	change(t, s.path, func(c *sqlite.Conn) error {
		return query(c, func(stmt *sqlite.Stmt) error { t.Errorf("%d rows are left", stmt.ColumnInt64(0)); return nil },
			"SELECT count(*) FROM journal WHERE key >> 32 = 1 HAVING count(*) > 0")
	})
}

// One write for which there is no room does not take the others with it.
func TestDiskFull(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	small, large := create(t, s, "small", 0), create(t, s, "large", 0)
	pages := func(sql string) {
		t.Helper()
		want(t, sql, s.write(t.Context(), func(w *writer) error { return w.exec(sql) }), nil)
	}
	pages("PRAGMA max_page_count = 30")
	release := hold(t, s)
	errs := make(chan error, 1)
	go func() { errs <- s.Append(t.Context(), small, 1, note(t, "small")) }()
	queued(s, 1)
	full := make(chan error, 1)
	go func() { full <- s.Append(t.Context(), large, 1, note(t, strings.Repeat("x", 200_000))) }()
	queued(s, 2)
	release()
	want(t, "Append", <-errs, nil)
	err := <-full
	if sqlite.ErrCode(err) != sqlite.ResultFull || !strings.Contains(err.Error(), s.path) || !strings.Contains(err.Error(), "full") {
		t.Errorf("Append: %v", err)
	}
	if sum, _, err := s.Load(t.Context(), "large", 0); err != nil || sum.Seq != 1 {
		t.Errorf("the journal ends at %d (%v)", sum.Seq, err)
	}
	pages("PRAGMA max_page_count = 1000000")
	want(t, "Append", s.Append(t.Context(), large, 1, note(t, strings.Repeat("x", 200_000))), nil)
	want(t, "Append", s.Append(t.Context(), small, 2, note(t, "small")), nil)
}

func TestContextInTheQueue(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := create(t, s, "run", 0)
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() { errs <- s.Append(ctx, l, 1, note(t, "a")) }()
	queued(s, 1)
	cancel()
	want(t, "Append", <-errs, context.Canceled)
	release()
	want(t, "Append", s.Append(t.Context(), l, 1, note(t, "b")), nil)
}

// A write that the medium holds up is left behind when its context ends, and one behind it too. The first may still
// happen.
func TestContextOfWhatHasBegun(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := create(t, s, "run", 0)
	ctx, cancel := context.WithCancel(t.Context())
	begun, free, errs := make(chan bool), make(chan bool), make(chan error)
	go func() {
		errs <- s.write(ctx, func(w *writer) error {
			close(begun)
			<-free
			return w.exec("UPDATE runs SET recipe = 'late'")
		})
	}()
	<-begun
	cancel()
	err := <-errs
	if want(t, "write", err, context.Canceled); !strings.Contains(err.Error(), "may still happen") {
		t.Errorf("write: %v", err)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	want(t, "Append", s.Append(soon, l, 1, note(t, "a")), context.DeadlineExceeded)
	close(free)
	want(t, "Append", s.Append(t.Context(), l, 1, note(t, "b")), nil)
	text := ""
	if err := s.read(t.Context(), func(c *sqlite.Conn) error {
		return query(c, func(stmt *sqlite.Stmt) error { text = stmt.ColumnText(0); return nil }, "SELECT recipe FROM runs")
	}); err != nil || text != "late" {
		t.Errorf("the write that was left behind: %q (%v)", text, err)
	}
}

// A panic in a write is its error, and undoes nothing of the others.
func TestPanic(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := create(t, s, "run", 0)
	release := hold(t, s)
	panicked, appended := make(chan error, 1), make(chan error, 1)
	go func() { appended <- s.Append(t.Context(), l, 1, note(t, "a")) }()
	queued(s, 1)
	go func() { panicked <- s.write(t.Context(), func(*writer) error { panic("it is broken") }) }()
	queued(s, 2)
	release()
	if err := <-panicked; err == nil || !strings.Contains(err.Error(), "panic in a write: it is broken") {
		t.Errorf("write: %v", err)
	}
	want(t, "Append", <-appended, nil)
	want(t, "Append", s.Append(t.Context(), l, 2, note(t, "b")), nil)
}

// Close lets the writes be made that have been asked for.
func TestCloseWaits(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := open(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := create(t, s, "run", 0)
	release := hold(t, s)
	errs := make(chan error)
	go func() { errs <- s.Append(t.Context(), l, 1, note(t, "a")) }()
	queued(s, 1)
	closed := make(chan error)
	for range 2 {
		go func() { closed <- s.Close() }()
	}
	for s.begin(t.Context()) == nil {
		runtime.Gosched()
	}
	want(t, "Append after Close", s.Append(t.Context(), l, 1, note(t, "b")), checkpoint.ErrClosed)
	release()
	want(t, "Append before Close", <-errs, nil)
	want(t, "Close", <-closed, nil)
	want(t, "Close", <-closed, nil)
	again := open(t, s.path, nil)
	defer again.Close()
	sum, _, err := again.Load(t.Context(), "run", 0)
	if err != nil || sum.Seq != 2 {
		t.Errorf("the journal ends at %d (%v)", sum.Seq, err)
	}
}

// A lock of another program stops writes, for as long as the options say, and no reads.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := open(t, path, &Options{Wait: time.Millisecond})
	patient := open(t, path, nil)
	l := create(t, s, "run", 0)
	errs := make(chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	change(t, path, func(*sqlite.Conn) error {
		err := s.Append(t.Context(), l, 1, note(t, "a"))
		if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy || !strings.Contains(err.Error(), path) {
			t.Errorf("Append: %v", err)
		}
		if sum, _, err := s.Load(t.Context(), "run", 0); err != nil || sum.Seq != 1 {
			t.Errorf("Load: %+v, %v", sum, err)
		}
		open(t, path, &Options{Wait: time.Millisecond})

		go func() { errs <- patient.Append(ctx, l, 1, note(t, "b")) }()
		cancel()
		want(t, "Append", <-errs, context.Canceled)
		go func() { errs <- patient.Append(t.Context(), l, 1, note(t, "c")) }()
		return nil
	})
	want(t, "Append", <-errs, nil)
}

func TestOpenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	errs := make(chan error)
	for i := range 8 {
		go func() {
			s, err := Open(context.Background(), path, nil)
			if err == nil {
				_, err = s.Create(context.Background(), checkpoint.Run{ID: fmt.Sprint("run-", i), Digest: "d", StartedAt: started}, "me", 0)
				err = errors.Join(err, s.Close())
			}
			errs <- err
		}()
	}
	for range 8 {
		want(t, "Open", <-errs, nil)
	}
	all, err := open(t, path, nil).List(t.Context(), checkpoint.Filter{})
	if err != nil || len(all) != 8 {
		t.Errorf("%d runs, want 8 (%v)", len(all), err)
	}
}
