package local_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
)

// endless is a store in which an append never ends by itself.
type endless struct{ checkpoint.Memory }

func (*endless) Append(ctx context.Context, _ checkpoint.Lease, _ int64, _ ...checkpoint.Record) error {
	<-ctx.Done()
	return ctx.Err()
}

// A run whose store hangs is stopped after a minute, and makes no further call.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		pay := runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) { calls++; return "paid", nil })
		began := time.Now()
		out, _ := runtest.Load(t, []byte(runtest.Head+`steps:
  one: {uses: test.pay}
  two: {uses: test.pay, needs: [one]}
`)).Run(t.Context(), nil, &runtime.Runtime{Store: &endless{}, Tools: []runtime.Tool{pay}})
		if out.Err == nil || out.Failure().Code != "store.failed" || calls != 1 {
			t.Errorf("the run ended with %s, %v after %d calls, want store.failed after 1", out.Status, out.Err, calls)
		}
		if took := time.Since(began); took < time.Minute || took > 2*time.Minute {
			t.Errorf("it took %v, want a minute", took)
		}
	})
}

// trust 6.5: a run whose file is removed, replaced or cut under it ends with store.failed, and makes no further call.
func TestStoreFileIsLost(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return os.Rename(path+".other", path) },
		"cut":      func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "runs.db")
			for _, name := range []string{path, path + ".other"} {
				s, err := sqlite.Open(t.Context(), name, nil)
				if err != nil {
					t.Fatal(err)
				}
				s.Close()
			}
			store, err := sqlite.Open(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			calls := 0
			pay := runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) {
				if calls++; calls == 1 {
					return "paid", damage(path)
				}
				return "paid again", nil
			})
			out, _ := runtest.Load(t, []byte(runtest.Head+`steps:
  one: {uses: test.pay}
  two: {uses: test.pay, needs: [one]}
`)).Run(t.Context(), nil, &runtime.Runtime{Store: store, Tools: []runtime.Tool{pay}})
			if out.Err == nil || out.Failure().Code != "store.failed" || calls != 1 {
				t.Errorf("the run ended with %s, %v after %d calls, want store.failed after 1", out.Status, out.Err, calls)
			}
		})
	}
}
