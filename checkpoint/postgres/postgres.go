// Package postgres keeps the journals of runs in a PostgreSQL database (13 or later, encoding UTF8).
//
// Any number of processes may share one. Each keeps its tables in a schema of its own, made and brought
// up to date by [Open]:
//
//	runs           one row for each run: its summary, and who holds it
//	records        the journals, one row for each write, in lines of checkpoint.Record.AppendLine
//	definitions    the recipes by digest
//	documents      what outlives runs, see checkpoint.Documents, in lines of checkpoint.DocumentLine
//
// Writes that come at the same time share one transaction, and one refused does not harm the others.
// They are durable as the server understands it: the store's sessions set synchronous_commit to on,
// whatever the server's default, unless the URL names another value (remote_apply for more). Times
// are those of the server's clock. Records and summaries carry checksums; for the columns beside
// them, turn on the server's data_checksums.
package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/braise-run/braise/checkpoint"
)

// Options are what the URL does not say. nil means the zero value.
type Options struct {
	// Schema is the name of the schema with the tables. "": that of the URL (?schema=name), or
	// else "braise".
	Schema string
}

// Store is a checkpoint.Store in a database.
//
// An error of a lost connection is any that wraps none of package checkpoint's and none of the
// context's. A write may or may not have happened then, and its text says so when it had been
// sent; the store's next call makes a new connection. A write that has begun does not mind its
// context any more; it takes at most a minute.
type Store struct {
	pool  *pgxpool.Pool
	turn  chan struct{} // full while somebody writes
	queue chan *write

	patience context.Context // of whoever writes
	giveUp   context.CancelFunc

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // that have begun
	ends   map[string]end // by run, of those that this process writes to
}

// end is what a writer knows of a journal. A write says what it relies on, so nothing bad happens
// when the journal has moved on.
type end struct {
	lease checkpoint.Lease
	key   int64
	sum   checkpoint.Summary
}

// Open returns the store in the database that a URL (postgres://…) names. A part of the URL that is
// missing comes from the PG… variables of the environment; beside the parameters of libpq, it may have
// pool_max_conns (4 or the number of CPUs, if that is more) and schema. Errors never show the URL, as
// it may hold a password. ErrVersion when a later version made the tables.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	cfg, schema, err := config(url, opts)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres store: %w", err)
	}
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return migrate(ctx, tx, schema) }); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres store: %w", err)
	}
	return &Store{pool: pool, turn: make(chan struct{}, 1), queue: make(chan *write), ends: map[string]end{},
		patience: context.Background(), giveUp: func() {}}, nil
}

func config(url string, opts *Options) (*pgxpool.Config, string, error) {
	cfg, err := pgxpool.ParseConfig(url)
	isURL := strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
	// The cause may quote any part of a URL, and so may the server when a password with a slash in
	// it was taken for the database.
	if err != nil || !isURL || strings.Contains(cfg.ConnConfig.Database, "@") {
		return nil, "", errors.New("postgres store: the URL is malformed\n" +
			"  hint: postgres://user:password@host:5432/database?sslmode=require, with %2F for a slash in the password")
	}
	params := cfg.ConnConfig.RuntimeParams
	schema := params["schema"]
	delete(params, "schema")
	if opts != nil && opts.Schema != "" {
		schema = opts.Schema
	}
	if schema == "" {
		schema = "braise"
	}
	schema = pgx.Identifier{schema}.Sanitize()
	params["search_path"] = schema
	params["default_transaction_isolation"] = "read committed"
	for name, val := range map[string]string{
		"synchronous_commit": "on",
		"lock_timeout":       "5s", // a process that was stopped in the middle of a write must not stop others for good
		"application_name":   "braise",
	} {
		if params[name] == "" {
			params[name] = val
		}
	}
	return cfg, schema, nil
}

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

// Close implements checkpoint.Store. It waits for the calls that have begun.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	s.giveUp()
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
	e := end{lease: checkpoint.Lease{RunID: run.ID, Owner: owner, Epoch: 1}, sum: sum}
	err = s.write(ctx, run.ID, createSQL, []any{&e.key, &e.lease.Until},
		run.ID, sum.Recipe, sum.Digest, stamp(sum.StartedAt), sum.Seq, mark(sum), summary, sum.Status,
		stamp(sum.Due()), owner, ttl.Microseconds(), definition, lines(recs))
	if errors.Is(err, errRefused) {
		err = fmt.Errorf("run %q: %w", run.ID, checkpoint.ErrExists)
	}
	if err != nil {
		return checkpoint.Lease{}, err
	}
	s.remember(e)
	return e.lease, nil
}

// Claim implements checkpoint.Store.
func (s *Store) Claim(ctx context.Context, runID, owner string, ttl time.Duration) (checkpoint.Lease, error) {
	if err := s.begin(ctx); err != nil {
		return checkpoint.Lease{}, err
	}
	defer s.calls.Done()
	for {
		h, err := s.free(ctx, runID)
		if err != nil {
			return checkpoint.Lease{}, err
		}
		next := checkpoint.Lease{RunID: runID, Owner: owner, Epoch: h.lease.Epoch + 1}
		l, err := s.lease(ctx, h.lease, next, ttl, &h.lease.Until)
		if errors.Is(err, errRefused) {
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
	return s.release(ctx, l, checkpoint.Lease{RunID: l.RunID, Owner: l.Owner, Epoch: l.Epoch}, ttl)
}

// Release implements checkpoint.Store.
func (s *Store) Release(ctx context.Context, l checkpoint.Lease) error {
	_, err := s.release(ctx, l, checkpoint.Lease{RunID: l.RunID, Epoch: l.Epoch + 1}, 0)
	if err == nil {
		s.forget(l.RunID)
	}
	return err
}

// release replaces a lease by one that its holder wants.
func (s *Store) release(ctx context.Context, old, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	if err := s.begin(ctx); err != nil {
		return checkpoint.Lease{}, err
	}
	defer s.calls.Done()
	for {
		l, err := s.lease(ctx, old, l, ttl, nil)
		if !errors.Is(err, errRefused) {
			return l, err
		}
		if _, err := s.leased(ctx, old); err != nil {
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
	e, remembered := s.end(l)
	for {
		if !remembered {
			h, err := s.leased(ctx, l)
			if err != nil {
				return err
			}
			sum, err := h.summary()
			if err != nil {
				return err
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
		sql, args := appendSQL, []any{e.key, l.Epoch, l.Owner, e.sum.Seq, sum.Seq, mark(sum), lines(recs)}
		if !alike(e.sum, sum) {
			summary, err := encode(sum)
			if err != nil {
				return err
			}
			sql, args = changeSQL, append(args, summary, sum.Status, stamp(sum.Due()))
		}
		err = s.write(ctx, l.RunID, sql, nil, args...)
		if err == nil {
			s.remember(end{e.lease, e.key, sum})
			return nil
		}
		s.forget(l.RunID)
		if !errors.Is(err, errRefused) {
			return err
		}
		remembered = false
	}
}

// end returns what is remembered of the journal that l holds.
func (s *Store) end(l checkpoint.Lease) (end, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.ends[l.RunID]
	return e, ok && l.Newest(e.lease)
}

func (s *Store) remember(e end) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.sum.Status.Ended() {
		delete(s.ends, e.lease.RunID)
	} else {
		s.ends[e.lease.RunID] = e
	}
}

func (s *Store) forget(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, runID)
}

// encode returns the form in which a summary is kept, with a checksum. It stays as it is while only
// the number and the time of the last record change.
func encode(sum checkpoint.Summary) ([]byte, error) {
	data, err := json.Marshal(sum)
	if err != nil {
		return nil, fmt.Errorf("run %q: summary: %w: %w", sum.ID, checkpoint.ErrInvalid, err)
	}
	rec := checkpoint.Record{Seq: sum.Seq, At: sum.UpdatedAt, Kind: summaryKind, Path: sum.ID, Data: data}
	return rec.AppendLine(nil), nil
}

// summaryKind is the kind of the record in which a summary is kept; it is in no journal.
const summaryKind checkpoint.Kind = "summary"

// alike reports whether next, which records made of sum, differs in nothing but what mark tells. The list of a
// summary is never changed, only replaced.
func alike(sum, next checkpoint.Summary) bool {
	a, b := sum.Pauses, next.Pauses
	return sum.Status == next.Status && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// lines are the records of one write.
func lines(recs []checkpoint.Record) []byte {
	var text []byte
	for _, rec := range recs {
		text = append(rec.AppendLine(text), '\n')
	}
	return text
}

// stamp writes a time so that the order of texts is that of times; "" for the zero time. The
// database's own type knows no nanoseconds.
func stamp(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Year() > 9999:
		return "~" // behind all that a journal may hold
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z")
}

const stampLen = len("2026-01-31T12:00:00.000000000Z")

// mark is the stamp of the last record with a checksum, also of its number.
func mark(sum checkpoint.Summary) string {
	at := stamp(sum.UpdatedAt)
	return fmt.Sprintf("%s %08x", at, crc32.Checksum(fmt.Append(nil, at, sum.Seq), castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
