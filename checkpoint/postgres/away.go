package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// away is an error that another attempt may not have: there is no connection, or it was lost, or the server is not the
// one that writes.
type away struct {
	err  error
	sent bool // something was, and may have happened
}

func (a *away) Error() string { return a.err.Error() }
func (a *away) Unwrap() error { return a.err }

// with calls f with a connection. When that is lost, and not for ctx, the others will be too: new
// ones take their place.
func (s *Store) with(ctx context.Context, f func(*pgx.Conn) error) error {
	return s.withOne(ctx, s.pool, f)
}

// withOne is with for a connection of one of the pools.
func (s *Store) withOne(ctx context.Context, pool *pgxpool.Pool, f func(*pgx.Conn) error) error {
	first, err := s.outage.wait(ctx, pool != s.writer)
	var conn *pgxpool.Conn
	if err == nil {
		conn, err = pool.Acquire(ctx)
	}
	if err != nil {
		pg, refused := errors.AsType[*pgconn.PgError](err)
		if ctx.Err() != nil || refused && !slices.Contains([]string{"08", "53", "57"}, pg.Code[:min(2, len(pg.Code))]) {
			return err
		}
		s.outage.failed(err, first)
		return &away{err: err}
	}
	s.outage.over()
	defer conn.Release()
	if err = f(conn.Conn()); err == nil {
		return nil
	}
	if conn.Conn().IsClosed() {
		if ctx.Err() == nil {
			s.reset()
		}
		return &away{err, true}
	}
	pg, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case pg == nil:
	case pg.Code == "25006": // only reading: it was the primary once
		s.reset()
		return &away{err: err}
	case pg.Code == "55P03", pg.Code == "40001", pg.Code == "40P01": // somebody had a lock for too long
		return &away{err: err}
	}
	return err
}

// reset has new connections made in place of all.
func (s *Store) reset() {
	s.pool.Reset()
	s.writer.Reset()
}

// outage keeps callers from making one connection after the other while none can be made. One at a time
// tries, with pauses from 20 ms to a second between. Reads wait for what comes of it; writes, which have
// their own pauses and must end with the lease, get the error of the last try.
type outage struct {
	mu    sync.Mutex
	err   error // of the last try; nil: there is no outage
	next  time.Time
	tried chan struct{} // closed when there was another try
	pause *backoff.ExponentialBackOff
}

// wait returns when a connection may be tried. first says that the caller is the first to try again. The
// error is that of another's try, or of ctx.
func (o *outage) wait(ctx context.Context, patient bool) (first bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err != nil {
		left := time.Until(o.next)
		if left <= 0 {
			o.next = time.Now().Add(maxPause) // for another one, if this takes longer
			return true, nil
		}
		if !patient {
			return false, o.err
		}
		tried := o.tried
		o.mu.Unlock()
		select {
		case <-tried:
			o.mu.Lock()
			return false, o.err
		case <-ctx.Done():
			o.mu.Lock()
			return false, ctx.Err()
		case <-time.After(left):
			o.mu.Lock()
		}
	}
	return false, nil
}

// failed notes that a connection could not be made. Those that were tried before this was known do not count.
func (o *outage) failed(err error, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err == nil:
		o.pause = newPause()
	case !first:
		return
	default:
		close(o.tried)
	}
	o.err, o.tried = err, make(chan struct{})
	o.next = time.Now().Add(o.pause.NextBackOff())
}

// over notes that there is a connection.
func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		o.err = nil
		close(o.tried)
	}
}

// attempts are those of one write while the server is away. They end with the lease: then somebody else may have the
// run.
type attempts struct {
	ctx    context.Context
	closed <-chan struct{}
	until  time.Time
	pause  *backoff.ExponentialBackOff
	sent   bool // by one that failed: it may have happened
}

// How long attempts are made: as long as a lease lasts, or waitAway where none counts.
const (
	waitAway    = 15 * time.Second
	maxWaitAway = time.Minute
	maxPause    = time.Second // between attempts
)

func (s *Store) attempts(ctx context.Context, lease time.Duration) *attempts {
	if lease <= 0 {
		lease = waitAway
	}
	return &attempts{ctx: ctx, closed: s.life.Done(), until: time.Now().Add(min(lease, maxWaitAway))}
}

// newPause returns how long to wait between attempts.
func newPause() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(20*time.Millisecond),
		backoff.WithMaxInterval(maxPause), backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
}

// after reports whether to make another attempt after an error, once it is time for that.
func (a *attempts) after(err error) bool {
	lost, ok := errors.AsType[*away](err)
	if !ok {
		return false
	}
	a.sent = a.sent || lost.sent
	if a.pause == nil {
		a.pause = newPause()
	}
	wait := a.pause.NextBackOff()
	if time.Now().Add(wait).After(a.until) {
		return false
	}
	select {
	case <-a.ctx.Done():
		return false
	case <-a.closed:
		return false
	case <-time.After(wait):
		return true
	}
}

// failed is the error of a write that no further attempt is made of.
func (a *attempts) failed(err error) error {
	if lost, ok := errors.AsType[*away](err); ok && a.sent && !lost.sent {
		return fmt.Errorf("an earlier attempt may have happened: %w", err)
	}
	return err
}
