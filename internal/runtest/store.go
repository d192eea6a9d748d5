package runtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// Claimed claims runs for no time.
type Claimed struct{ *Dead }

// Claim claims a run for no time.
func (c Claimed) Claim(ctx context.Context, runID, owner string, _ time.Duration) (checkpoint.Lease, error) {
	return c.Dead.Claim(ctx, runID, owner, 0)
}

// Dead plays a process that dies after some writes: nothing is recorded any more, and its lease has
// run out.
type Dead struct {
	checkpoint.Store
	Mutex sync.Mutex
	After int // appends that still work
}

// Append fails once the process is dead.
func (d *Dead) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	d.Mutex.Lock()
	defer d.Mutex.Unlock()
	if d.After--; d.After < 0 {
		return errors.New("the process is dead")
	}
	return d.Store.Append(ctx, l, after, recs...)
}

// Create creates a run whose lease has run out.
func (d *Dead) Create(
	ctx context.Context, run checkpoint.Run, owner string, _ time.Duration, recs ...checkpoint.Record,
) (checkpoint.Lease, error) {
	return d.Store.Create(ctx, run, owner, 0, recs...)
}

// Release fails: the dead give nothing back.
func (d *Dead) Release(context.Context, checkpoint.Lease) error {
	return errors.New("the process is dead")
}

// RecordsIn returns the journal of a run, nil where there is none.
func RecordsIn(ctx context.Context, store checkpoint.Store, run string) []checkpoint.Record {
	_, recs, err := store.Load(ctx, run, 0)
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		panic(err)
	}
	return recs
}

// JournalOf is a run's journal as text.
func JournalOf(t *testing.T, store checkpoint.Store, runID string) string {
	t.Helper()
	_, recs, err := store.Load(t.Context(), runID, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, rec := range recs {
		b.Write(append(rec.AppendLine(nil), '\n'))
	}
	return b.String()
}
