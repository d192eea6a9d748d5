package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		pg, refused := errors.AsType[*pgconn.PgError](err)
		if ctx.Err() != nil || refused && !slices.Contains([]string{"08", "53", "57"}, pg.Code[:min(2, len(pg.Code))]) {
			return err
		}
		return &away{err: err}
	}
	defer conn.Release()
	if err = f(conn.Conn()); err == nil {
		return nil
	}
	if conn.Conn().IsClosed() {
		if ctx.Err() == nil {
			s.pool.Reset()
		}
		return &away{err, true}
	}
	pg, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case pg == nil:
	case pg.Code == "25006": // only reading: it was the primary once
		s.pool.Reset()
		return &away{err: err}
	case pg.Code == "55P03", pg.Code == "40001", pg.Code == "40P01": // somebody had a lock for too long
		return &away{err: err}
	}
	return err
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
)

func (s *Store) attempts(ctx context.Context, lease time.Duration) *attempts {
	if lease <= 0 {
		lease = waitAway
	}
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(20*time.Millisecond),
		backoff.WithMaxInterval(time.Second), backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
	return &attempts{ctx: ctx, closed: s.closing, until: time.Now().Add(min(lease, maxWaitAway)), pause: pause}
}

// after reports whether to make another attempt after an error, once it is time for that.
func (a *attempts) after(err error) bool {
	lost, ok := errors.AsType[*away](err)
	if !ok {
		return false
	}
	a.sent = a.sent || lost.sent
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
