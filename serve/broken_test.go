package serve_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/braise-run/braise/checkpoint"
)

// brokenStore panics when it lists runs, and ends the goroutine that asks it for one.
type brokenStore struct{ *checkpoint.Memory }

func (brokenStore) List(context.Context, checkpoint.Filter) ([]checkpoint.Summary, error) {
	panic("it is broken")
}

func (brokenStore) Load(context.Context, string, int64) (checkpoint.Summary, []checkpoint.Record, error) {
	runtime.Goexit()
	panic("not reached")
}

// trust 8.13: whatever a store does, a request for it has a response.
func TestStoresAreGuarded(t *testing.T) {
	l := labOf(t, brokenStore{&checkpoint.Memory{}}, nil)
	l.get(reader, "/api/v1/runs").fails(503, "store.failed", "")
	l.get(reader, "/api/v1/runs/r1").fails(503, "store.failed", "")
	l.post(operator, "/api/v1/runs/r1/cancel", "").fails(503, "store.failed", "")
}
