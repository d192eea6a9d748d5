package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// clock is what the clock of the server showed, and when this process read it by its monotonic clock.
type clock struct{ shown, read time.Time }

// The clock of the server is read again after clockTime; between, that of this process goes on. A lost connection waits
// no longer than clockWait for that.
const (
	clockTime = time.Minute
	clockWait = time.Second
)

// Now implements checkpoint.Clocked. It asks the server once a minute. While the server does not answer, the time
// since its last answer counts.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.begin(ctx); err != nil {
		return time.Time{}, err
	}
	defer s.calls.Done()
	s.mu.Lock()
	c := s.clock
	s.mu.Unlock()
	if c.read.IsZero() || time.Since(c.read) >= clockTime {
		now := c
		wait, cancel := context.WithTimeout(ctx, clockWait)
		err := s.reading(wait, func(conn *pgx.Conn) error {
			return conn.QueryRow(wait, "SELECT clock_timestamp()").Scan(&now.shown)
		})
		cancel()
		if err != nil && c.read.IsZero() {
			return time.Time{}, fmt.Errorf("postgres store: the clock: %w", err)
		}
		if now.read = time.Now(); err != nil {
			now.shown = c.shown.Add(now.read.Sub(c.read))
		}
		s.mu.Lock()
		s.clock, c = now, now
		s.mu.Unlock()
	}
	return c.shown.Add(time.Since(c.read)).UTC(), nil
}
