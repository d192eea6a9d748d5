// Package postgres keeps the journals of runs in a PostgreSQL database (13 or later, encoding UTF8).
//
// Any number of processes may share a database. Each store has its tables in a schema, which [Open] creates
// and migrates:
//
//	runs           one row for each run: its summary, and who holds it
//	records        the journals, one row for each write, in lines of checkpoint.Record.AppendLine
//	labels         the labels of runs, to find runs by
//	pauses         the open pauses of runs, to list them
//	signals        the signals to the holders of runs, in lines of checkpoint.Signal.Line
//	definitions    the recipes by digest
//	documents      data that is kept after runs, see checkpoint.Documents, in lines of checkpoint.DocumentLine
//
// Concurrent writes share one transaction, and a refused one does not affect the others.
// Their durability is that of the server: the store's sessions set synchronous_commit to on,
// whatever the server's default, unless the URL names another value (remote_apply for more). Times
// are those of the server's clock. Records and summaries have checksums; for the other columns,
// turn on the server's data_checksums.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
)

// Options are what the URL does not say. nil means the zero value.
type Options struct {
	// Schema is the name of the schema with the tables. "": that of the URL (?schema=name), or
	// else "braise".
	Schema string
}

// Store is a checkpoint.Store in a database.
//
// A write to a run whose connection is lost, or that finds no server, is made again until it is known to be done, as
// long as the run's lease lasts (15 seconds where it has none, a minute at most): the store reads whether it is there
// already.
//
// An error of a lost connection is any that wraps none of package checkpoint's and none of the context's. A write may
// or may not have happened then, and its text says so when it had been sent; the store's next call makes a new
// connection. A statement that was sent does not mind its context any more: a call whose context ends leaves it behind,
// and it takes at most a minute.
type Store struct {
	pool    *pgxpool.Pool // for all but
	writer  *pgxpool.Pool // one connection: writes do not stand in line behind reads
	session *session
	outage  outage
	queue   chan *write
	singles chan *write     // that are in no group
	turn    chan struct{}   // full while somebody uses writer
	served  chan struct{}   // closed when serve has ended
	life    context.Context // ended by Close
	end     context.CancelFunc

	patience guard.Patience // of serve, with a server that does not answer

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // that have begun
	ends   map[string]end // by run, of those that this process writes to
	clock  clock
	inbox  inbox

	watchers checkpoint.Watchers // of this store
	news     news                // for those of others
}

// Open returns the store in the database that a URL (postgres://…) names. A part of the URL that is missing comes from
// the PG… variables of the environment; beside the parameters of libpq, it may have pool_max_conns (4 or the number of
// CPUs, if that is more; most writes have one connection more, and Watch another), schema, and pooler=transaction for a
// server behind PgBouncer in transaction mode. Sessions that do not have the settings that the store asks for are an
// error. Errors never show the URL, as it may hold a password. ErrVersion when a later version made the tables.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	cfg, session, err := config(url, opts)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres store: %w", err)
	}
	for more := true; more && err == nil; {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			err := session.begin(ctx, tx)
			if err == nil {
				more, err = migrate(ctx, tx, session.schema)
			}
			return err
		})
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres store: %w", hinted(err))
	}
	one := pool.Config()
	one.MaxConns, one.MinConns, one.MinIdleConns = 1, 0, 0
	writer, err := pgxpool.NewWithConfig(ctx, one) // it connects when it is used
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres store: %w", err)
	}
	s := &Store{pool: pool, writer: writer, session: session, queue: make(chan *write), singles: make(chan *write),
		turn: make(chan struct{}, 1), served: make(chan struct{}), ends: map[string]end{}}
	s.life, s.end = context.WithCancel(context.Background())
	s.news.urgent = make(chan struct{}, 1)
	go s.serve()
	return s, nil
}

// sql returns a statement with the store's schema.
func (s *Store) sql(text string) string { return inSchema(s.session.schema, text) }

// begin says whether a call may begin; if so, s.calls.Done ends it.
func (s *Store) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("postgres store: %w", checkpoint.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("postgres store: %w", err)
	}
	s.calls.Add(1)
	return nil
}

// Cancellable implements checkpoint.Cancellable.
func (s *Store) Cancellable() checkpoint.Store { return s }

// Close implements checkpoint.Store. It waits for the calls that have begun.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.watchers.Close()
	s.end()
	s.calls.Wait()
	s.inbox.work.Wait()
	if first {
		close(s.queue)
	}
	<-s.served
	s.news.senders.Wait()
	s.patience.End()
	s.inbox.patience.End()
	s.writer.Close()
	s.pool.Close()
	return nil
}

// Create implements checkpoint.Store.
func (s *Store) Create(
	ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record,
) (checkpoint.Lease, error) {
	if err := s.begin(ctx); err != nil {
		return checkpoint.Lease{}, err
	}
	defer s.calls.Done()
	sum, recs, err := checkpoint.Begin(run, recs)
	if err != nil {
		return checkpoint.Lease{}, err
	}
	var definition []byte
	if run.Definition != nil {
		definition = checkpoint.DefinitionLine(run)
	}
	summary, err := encode(sum)
	if err != nil {
		return checkpoint.Lease{}, err
	}
	e := end{lease: checkpoint.Lease{RunID: run.ID, Owner: owner, Epoch: 1, Length: ttl}, sum: sum}
	text := lines(recs)
	sql, args := createSQL, []any{run.ID, sum.Recipe, sum.Digest, stamp(sum.StartedAt), sum.Seq, mark(sum), summary,
		sum.Status, stamp(sum.Due()), owner, ttl.Microseconds(), definition, text, sum.Queue, sum.Parent, sum.Figures()}
	if _, opened, other := pausesOf(checkpoint.Summary{}, sum, recs); other || len(sum.Labels) > 0 {
		keys, values := labels(sum.Labels)
		sql, args = createMoreSQL, append(append(args, keys, values), opened.args()...)
	}
	again := s.attempts(ctx, ttl)
	for {
		err = s.write(ctx, run.ID, sql, []any{&e.key, &e.lease.Until}, args...)
		if errors.Is(err, errRefused) {
			err = s.created(ctx, &e, text, again.sent)
		}
		if !again.after(err) {
			break
		}
	}
	if err != nil {
		return checkpoint.Lease{}, again.failed(err)
	}
	s.remember(e)
	return e.lease, nil
}

// created returns an ErrExists, unless it was this call that made the run, on a connection that was lost.
func (s *Store) created(ctx context.Context, e *end, text []byte, sent bool) error {
	if sent {
		h, err := s.head(ctx, e.lease.RunID)
		mine := false
		if err == nil && e.lease.Newest(h.lease) {
			mine, err = s.has(ctx, h, 0, e.sum, text)
		}
		if mine && err == nil {
			e.key, e.lease.Until = h.key, h.lease.Until
			return nil
		}
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return err
		}
	}
	return fmt.Errorf("run %q: %w", e.lease.RunID, checkpoint.ErrExists)
}

// has reports whether a journal ends with the lines of a write behind the record after, which makes it what sum says.
func (s *Store) has(ctx context.Context, h head, after int64, sum checkpoint.Summary, text []byte) (bool, error) {
	if h.seq != sum.Seq || h.updated != mark(sum) {
		return false, nil
	}
	got, err := s.lines(ctx, h, after)
	return bytes.Equal(got, text), err
}

// Claim implements checkpoint.Store.
func (s *Store) Claim(ctx context.Context, runID, owner string, ttl time.Duration) (checkpoint.Lease, error) {
	if err := s.begin(ctx); err != nil {
		return checkpoint.Lease{}, err
	}
	defer s.calls.Done()
	var lost error
	for again := s.attempts(ctx, ttl); ; {
		h, err := s.free(ctx, runID)
		if again.after(err) {
			continue
		}
		if errors.Is(err, checkpoint.ErrBusy) && again.sent && h.lease.Owner == owner {
			err = lost // the run may be this call's, or that of another call of this process: none may believe it
		}
		if err != nil {
			return checkpoint.Lease{}, err
		}
		next := checkpoint.Lease{RunID: runID, Owner: owner, Epoch: h.lease.Epoch + 1, Length: ttl}
		l, err := s.lease(ctx, h.lease, next, ttl, &h.lease.Until)
		if errors.Is(err, errRefused) {
			continue
		}
		if again.after(err) {
			lost = err
			continue
		}
		if sum, sumErr := h.summary(); err == nil && sumErr == nil {
			s.remember(end{l, h.key, sum})
		}
		return l, err
	}
}

// Renew implements checkpoint.Store.
func (s *Store) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	if err := s.begin(ctx); err != nil {
		return checkpoint.Lease{}, err
	}
	defer s.calls.Done()
	return s.replace(ctx, l, checkpoint.Lease{RunID: l.RunID, Owner: l.Owner, Epoch: l.Epoch, Length: ttl}, ttl)
}

// Release implements checkpoint.Store. It writes nothing for a run that this process has ended: nobody holds that.
func (s *Store) Release(ctx context.Context, l checkpoint.Lease) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	if e, ok := s.known(l); ok && e.sum.Status.Ended() {
		s.forget(l.RunID)
		return nil
	}
	_, err := s.replace(ctx, l, checkpoint.Lease{RunID: l.RunID, Epoch: l.Epoch + 1}, 0)
	if err == nil {
		s.forget(l.RunID)
	}
	return err
}

// replace replaces a lease by one that its holder wants, in a call that has begun.
func (s *Store) replace(ctx context.Context, old, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	for again := s.attempts(ctx, old.Length); ; {
		next, err := s.lease(ctx, old, l, ttl, nil)
		if again.after(err) {
			continue
		}
		if !errors.Is(err, errRefused) {
			return next, err
		}
		h, err := s.leased(ctx, old)
		if again.sent && l.Newest(h.lease) && errors.Is(err, checkpoint.ErrFenced) {
			return l, nil // it was given back on a connection that was lost
		}
		if err != nil && !again.after(err) {
			return checkpoint.Lease{}, err
		}
	}
}

// lease replaces the lease of a run. until, if not nil, is when the old one runs out.
func (s *Store) lease(
	ctx context.Context, old, l checkpoint.Lease, ttl time.Duration, until *time.Time,
) (checkpoint.Lease, error) {
	err := s.write(ctx, old.RunID, leaseSQL, []any{&l.Until},
		old.RunID, old.Epoch, old.Owner, until, l.Owner, l.Epoch, ttl.Microseconds())
	if l.Owner == "" && !errors.Is(err, errRefused) { // it was given back, or may have been
		s.tell(l.RunID, true)
	}
	if err != nil {
		return checkpoint.Lease{}, err
	}
	return l, nil
}

// Append implements checkpoint.Store.
func (s *Store) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	return s.append(ctx, l, func(sum checkpoint.Summary) (checkpoint.Summary, []checkpoint.Record, error) {
		return sum.Next(after, recs)
	})
}

// AnswerPause implements checkpoint.Store.
func (s *Store) AnswerPause(
	ctx context.Context, l checkpoint.Lease, after int64, tokenHash []byte, recs ...checkpoint.Record,
) error {
	return s.append(ctx, l, func(sum checkpoint.Summary) (checkpoint.Summary, []checkpoint.Record, error) {
		return sum.Answer(after, tokenHash, recs)
	})
}

func (s *Store) append(
	ctx context.Context, l checkpoint.Lease,
	next func(checkpoint.Summary) (checkpoint.Summary, []checkpoint.Record, error),
) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	e, remembered := s.known(l)
	var to checkpoint.Summary // and text: of what was sent last
	var text []byte
	for again := s.attempts(ctx, l.Length); ; {
		if !remembered {
			h, err := s.leased(ctx, l)
			there := false
			if err == nil && again.sent { // was it done before the connection was lost?
				there, err = s.has(ctx, h, e.sum.Seq, to, text)
			}
			if err == nil && there {
				s.remember(end{h.lease, h.key, to})
				return nil
			}
			if again.after(err) {
				continue
			}
			sum := checkpoint.Summary{}
			if err == nil {
				sum, err = h.summary()
			}
			if err != nil {
				return again.failed(err)
			}
			e = end{h.lease, h.key, sum}
		}
		sum, recs, err := next(e.sum)
		if remembered && (err != nil || len(recs) == 0) {
			remembered = false // only what the server says is a reason to refuse
			continue
		}
		if err != nil || len(recs) == 0 {
			return err
		}
		to, text = sum, lines(recs)
		sql, args := appendSQL, []any{e.key, l.Epoch, l.Owner, e.sum.Seq, sum.Seq, mark(sum), text}
		if !alike(e.sum, sum) {
			summary, err := encode(sum)
			if err != nil {
				return err
			}
			sql, args = changeSQL, append(args, summary, sum.Status, stamp(sum.Due()), sum.Figures(),
				sum.Status.Ended())
			if open, opened, other := pausesOf(e.sum, sum, recs); other {
				sql, args = askSQL, append(append(args, open), opened.args()...)
			}
		}
		err = s.write(ctx, l.RunID, sql, nil, args...)
		if err == nil {
			s.remember(end{e.lease, e.key, sum})
			return nil
		}
		s.forget(l.RunID)
		if !errors.Is(err, errRefused) && !again.after(err) {
			return again.failed(err)
		}
		remembered = false
	}
}
