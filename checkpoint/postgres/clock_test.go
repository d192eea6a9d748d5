package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// The clock of the store is that of its server: never ahead, and not a second behind. It goes on while the server is
// not asked.
func TestNow(t *testing.T) {
	m := newMedium(t)
	store := m.open()
	var c checkpoint.Clocked = store
	for range 50 {
		now, err := c.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var server time.Time
		if err := m.conn.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&server); err != nil {
			t.Fatal(err)
		}
		if behind := server.Sub(now); behind < 0 || behind > time.Second {
			t.Errorf("it is %v behind the server", behind)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Now(ctx); err == nil {
		t.Error("a context that has ended is no error")
	}
}
