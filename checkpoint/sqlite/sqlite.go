// Package sqlite keeps the journals of runs in one SQLite file.
//
// Several processes on one machine may share a file. All writes of a process go through one
// goroutine, which combines waiting writes in one transaction, so that many runs share the cost of
// a commit and the pages that it writes. Reads have separate connections and do not wait for writes.
//
// A commit is on the disk when a call returns (a write-ahead log, synchronous=FULL). While the file is open,
// there are also PATH-wal and PATH-shm. To copy an open file, copy all three, or use sqlite3's .backup.
package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/braise-run/braise/checkpoint"
)

// Options are for Open. Nil means all defaults.
type Options struct {
	// Synchronous is "full", the default, or "normal": commits cost less then, and after a loss of power
	// the last ones may be missing; the death of a process loses nothing either way.
	Synchronous string
	// Wait is how long to wait while another process has the file locked; 0: 10 seconds.
	Wait time.Duration
}

// Store is a checkpoint.Store in a SQLite file.
type Store struct {
	path    string
	clock   *checkpoint.Clock
	readers *sqlitex.Pool

	writer   *writer
	watchers checkpoint.Watchers

	mu       sync.Mutex
	closed   bool
	writing  bool // somebody has the writer: serve, or who looks for changes of others
	queue    []*write
	wake     chan struct{} // has room for one: gives serve the writer
	finished chan struct{} // closed when serve has ended
	closeErr error         // for who has seen finished
}

// readers is how many reads of a process can happen at the same time.
const readers = 4

// Open returns the store in a file, which it makes if need be, in a folder that exists. It changes no file
// that is not such a store; checkpoint.ErrVersion when a later version made it.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Wait <= 0 {
		o.Wait = 10 * time.Second
	}
	fail := func(err error) (*Store, error) { return nil, fileError(path, err) }
	if o.Synchronous == "" {
		o.Synchronous = "full"
	}
	if o.Synchronous != "full" && o.Synchronous != "normal" {
		return fail(fmt.Errorf("synchronous is %q, not \"full\" or \"normal\"", o.Synchronous))
	}
	if path == "" {
		return fail(errors.New("no path"))
	}
	// For SQLite, some names are no files; none of them is absolute.
	path, err := filepath.Abs(path)
	if err != nil {
		return fail(err)
	}
	f, err := openFile(ctx, path, o)
	if err != nil {
		return fail(err)
	}
	s := &Store{path: path, clock: new(checkpoint.Clock), wake: make(chan struct{}, 1), finished: make(chan struct{})}
	s.writer = &writer{conn: f.conn, file: f, clock: s.clock, wait: o.Wait, known: map[string]*entry{},
		watchers: &s.watchers}
	s.readers, err = sqlitex.NewPool(f.name, sqlitex.PoolOptions{Flags: f.flags, PoolSize: readers,
		PrepareConn: func(c *sqlite.Conn) error {
			c.SetBusyTimeout(o.Wait)
			return query(c, nil, "PRAGMA cache_size = -8192")
		}})
	if err != nil {
		f.conn.Close()
		return fail(err)
	}
	go s.serve()
	return s, nil
}

// begin says whether a call may begin.
func (s *Store) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usable(ctx)
}

// usable is begin for who has the lock.
func (s *Store) usable(ctx context.Context) error {
	err := ctx.Err()
	if s.closed {
		err = checkpoint.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("sqlite store: %w", err)
	}
	return nil
}

// read calls f with a connection that shows the file as it is now, whatever is written meanwhile.
func (s *Store) read(ctx context.Context, f func(c *sqlite.Conn) error) error {
	return s.readOne(ctx, func(c *sqlite.Conn) error {
		return inTransaction(c, "BEGIN", func() error { return f(c) })
	})
}

// readOne is read for a single query.
func (s *Store) readOne(ctx context.Context, f func(c *sqlite.Conn) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	c, err := s.readers.Take(ctx)
	if err == nil {
		err = f(c)
		s.readers.Put(c)
	}
	if _, ok := errors.AsType[*refusal](err); err == nil || ok {
		return err
	}
	if err := s.begin(ctx); err != nil { // that is why
		return err
	}
	return fileError(s.path, err)
}

// Create implements checkpoint.Store.
func (s *Store) Create(
	ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record,
) (checkpoint.Lease, error) {
	if err := s.begin(ctx); err != nil {
		return checkpoint.Lease{}, err
	}
	sum, recs, err := checkpoint.Begin(run, recs)
	if err != nil {
		return checkpoint.Lease{}, err
	}
	lines := encode(0, recs)
	summary, err := summaryLine(sum)
	if err != nil {
		return checkpoint.Lease{}, err
	}
	var lease checkpoint.Lease
	err = s.write(ctx, func(w *writer) error {
		lease = s.clock.Give(run.ID, owner, 1, ttl)
		return w.create(&entry{lease: lease, sum: sum}, created{run, recs, summary, lines})
	})
	if err != nil {
		return checkpoint.Lease{}, err
	}
	return lease, nil
}

// Claim implements checkpoint.Store.
func (s *Store) Claim(
	ctx context.Context, runID, owner string, ttl time.Duration,
) (l checkpoint.Lease, err error) {
	err = s.clock.Watch(ctx, func() error {
		l, err = s.lease(ctx, func(w *writer) (*entry, checkpoint.Lease, error) {
			e, err := w.free(runID)
			if err != nil {
				return nil, checkpoint.Lease{}, err
			}
			return e, s.clock.Give(runID, owner, e.lease.Epoch+1, ttl), nil
		})
		return err
	})
	return l, err
}

// Renew implements checkpoint.Store.
func (s *Store) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	return s.lease(ctx, func(w *writer) (*entry, checkpoint.Lease, error) {
		e, err := w.leased(l)
		return e, s.clock.Give(l.RunID, l.Owner, l.Epoch, ttl), err
	})
}

// Release implements checkpoint.Store.
func (s *Store) Release(ctx context.Context, l checkpoint.Lease) error {
	_, err := s.lease(ctx, func(w *writer) (*entry, checkpoint.Lease, error) {
		e, err := w.leased(l)
		return e, s.clock.Give(l.RunID, "", l.Epoch+1, 0), err
	})
	return err
}

// lease replaces a run's lease by what next says.
func (s *Store) lease(
	ctx context.Context, next func(*writer) (*entry, checkpoint.Lease, error),
) (checkpoint.Lease, error) {
	var l checkpoint.Lease
	err := s.write(ctx, func(w *writer) error {
		e, now, err := next(w)
		if err == nil {
			err = w.setLease(e, now)
		}
		l = now
		return err
	})
	if err != nil {
		return checkpoint.Lease{}, err
	}
	return l, nil
}

// Append implements checkpoint.Store.
func (s *Store) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	return s.append(ctx, l, after, recs, func(sum checkpoint.Summary) (checkpoint.Summary, []checkpoint.Record, error) {
		return sum.Next(after, recs)
	})
}

// AnswerPause implements checkpoint.Store.
func (s *Store) AnswerPause(
	ctx context.Context, l checkpoint.Lease, after int64, tokenHash []byte, recs ...checkpoint.Record,
) error {
	return s.append(ctx, l, after, recs, func(sum checkpoint.Summary) (checkpoint.Summary, []checkpoint.Record, error) {
		return sum.Answer(after, tokenHash, recs)
	})
}

func (s *Store) append(
	ctx context.Context, l checkpoint.Lease, after int64, recs []checkpoint.Record,
	next func(checkpoint.Summary) (checkpoint.Summary, []checkpoint.Record, error),
) error {
	lines := encode(after, recs) // before the turn of this write, as others wait for that
	return s.write(ctx, func(w *writer) error {
		e, err := w.leased(l)
		if err != nil {
			return err
		}
		if e.damage != nil {
			return e.damage
		}
		sum, kept, err := next(e.sum)
		if err != nil {
			return &refusal{err}
		}
		if len(recs) == 0 {
			return nil
		}
		return w.append(e, sum, kept, lines)
	})
}

// Load implements checkpoint.Store. Only when all records are asked for, they are compared with what
// the file says of the run.
func (s *Store) Load(
	ctx context.Context, runID string, after int64,
) (sum checkpoint.Summary, recs []checkpoint.Record, err error) {
	err = s.read(ctx, func(c *sqlite.Conn) error {
		e, err := find(c, runID)
		if err == nil {
			err = e.damage
		}
		if err == nil {
			sum = e.summary(s.clock.Held)
			recs, err = e.records(c, max(after, 0))
		}
		if err != nil || after > 0 {
			return err
		}
		folded, err := checkpoint.Fold(runID, recs)
		if err != nil {
			return &refusal{err}
		}
		if err := e.checkPauses(c); err != nil {
			return err
		}
		want, err := summaryLine(folded)
		if err == nil && bytes.Equal(want, e.line) {
			return nil
		}
		got, sumErr := summaryLine(sum) // records behind the line do not change what it says of the rest
		if sumErr != nil {
			return sumErr
		}
		if err != nil || !bytes.Equal(got, want) {
			return refuse("run %q: %w: it is not what its summary says", runID, checkpoint.ErrCorrupt)
		}
		return nil
	})
	if err != nil {
		return checkpoint.Summary{}, nil, err
	}
	return sum, recs, nil
}

// Definition implements checkpoint.Store.
func (s *Store) Definition(ctx context.Context, digest string) (def json.RawMessage, err error) {
	err = s.read(ctx, func(c *sqlite.Conn) error {
		var line []byte
		err := query(c, func(stmt *sqlite.Stmt) error { line = column(stmt, 0); return nil },
			"SELECT line FROM definitions WHERE digest = ?", digest)
		if err != nil {
			return err
		}
		if line == nil {
			return refuse("definition %q: %w", digest, checkpoint.ErrNotFound)
		}
		if def, err = checkpoint.ParseDefinitionLine(digest, line); err != nil {
			return &refusal{err}
		}
		return nil
	})
	return def, err
}

// Cancellable implements checkpoint.Cancellable.
func (s *Store) Cancellable() checkpoint.Store { return s }

// Close implements checkpoint.Store. It waits for the writes that have been asked for, and stops reads.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	if first {
		s.closed = true
		s.watchers.Close()
		if !s.writing {
			s.rest()
		}
	}
	s.mu.Unlock()
	<-s.finished
	if !first || s.closeErr == nil {
		return nil
	}
	return fileError(s.path, s.closeErr)
}
