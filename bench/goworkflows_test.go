package bench

import (
	"context"
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/monoprocess"
	"github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/worker"
	flows "github.com/cschleiden/go-workflows/workflow"
)

// addActivity is a step of go-workflows.
func addActivity(_ context.Context, v typed) (typed, error) { return typed1(v), nil }

// addChain is a workflow: a chain of activities. With pause it waits for a signal after half of them.
func addChain(ctx flows.Context, steps int, pause bool) (v typed, err error) {
	v = typed{}
	for i := 0; i < steps && err == nil; i++ {
		if pause && i == steps/2 {
			select {
			case paused <- struct{}{}:
			default: // it is read again
			}
			flows.NewSignalChannel[bool](ctx, "go on").Receive(ctx)
		}
		v, err = flows.ExecuteActivity[typed](ctx, flows.DefaultActivityOptions, addActivity, v).Get(ctx)
	}
	return v, err
}

// paused says that a workflow is about to wait.
var paused = make(chan struct{}, 1)

func flowInstance(id, execution string) *flows.Instance {
	return &flows.Instance{InstanceID: id, ExecutionID: execution}
}

// goWorkflowsClient is go-workflows on a file, with the wrapper that tells its worker of new work
// at once. A name lets a worker go on with what one of that name left behind.
func goWorkflowsClient(ctx context.Context, path string) (*client.Client, func() error, error) {
	b := monoprocess.NewMonoprocessBackend(sqlite.NewSqliteBackend(path,
		sqlite.WithBackendOptions(backend.WithLogger(slog.New(slog.DiscardHandler)), backend.WithWorkerName("bench"))))
	ctx, stop := context.WithCancel(ctx)
	w := worker.New(b, nil)
	for _, err := range []error{w.RegisterWorkflow(addChain), w.RegisterActivity(addActivity), w.Start(ctx)} {
		if err != nil {
			stop()
			return nil, nil, err
		}
	}
	return client.New(b), func() error {
		stop()
		if err := w.WaitForCompletion(); err != nil {
			return err
		}
		return b.Close()
	}, nil
}

// goWorkflows has no Postgres, and its SQLite syncs at each commit.
func goWorkflows(tb testing.TB, m medium, steps int) job {
	if m.name != "sqlite-full" {
		return nil
	}
	c, closeIt, err := goWorkflowsClient(context.Background(), filepath.Join(tb.TempDir(), "flows.db"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := closeIt(); err != nil {
			tb.Error(err)
		}
	})
	return func(ctx context.Context) (value, error) {
		instance, err := c.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: rand.Text()}, addChain, steps, false)
		if err != nil {
			return nil, err
		}
		v, err := client.GetWorkflowResult[typed](ctx, c, instance, time.Minute)
		return untyped(v), err
	}
}
