package temporal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	flow "github.com/braise-run/braise/workflow"
)

// Each run has its own turns. They are given back, and nothing is kept of a run without any.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		var give [maxAtOnce]func()
		for i := range give {
			give[i], _ = all.take(t.Context(), "a")
		}
		other, _ := all.take(t.Context(), "b")
		other()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := all.take(short, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one turn more: %v", err)
		}
		got := make(chan func())
		go func() { next, _ := all.take(t.Context(), "a"); got <- next }()
		synctest.Wait()
		select {
		case <-got:
			t.Error("there are too many turns")
		default:
		}
		give[0]()
		(<-got)()
		for _, back := range give[1:] {
			back()
		}
		if len(all.of) != 0 {
			t.Errorf("%d runs are kept", len(all.of))
		}
	})
}

// crowd is a client that counts its updates under way.
type crowd struct {
	client.Client
	now, most atomic.Int64
}

func (c *crowd) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if n := c.now.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	defer c.now.Add(-1)
	return c.Client.UpdateWorkflow(ctx, o)
}

// Ever so many values come at once. Few are under way at a time, and each arrives once.
func TestServerManyAtOnce(t *testing.T) {
	own := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	c := &crowd{Client: own}
	e := &Engine{Client: c}
	working(t, own, demoRuntime(t, &effects{}), nil)
	const n = 40
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id, err := e.Start(ctx, compiled(t, collects(n)), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if _, err := e.Send(ctx, id, "c", fmt.Sprintf("<%04d>", i), ""); err != nil {
				t.Errorf("%d: %.200v", i, err)
			}
		})
	}
	all.Wait()
	if n := c.most.Load(); n > maxAtOnce {
		t.Errorf("%d updates are under way at once", n)
	}
	out, err := e.Wait(ctx, id)
	if err != nil || out.Status != flow.StatusOK {
		t.Fatalf("%.200v", err)
	}
	text := fmt.Sprint(out.Output)
	for i := range n {
		if mark := fmt.Sprintf("<%04d>", i); strings.Count(text, mark) != 1 {
			t.Errorf("%s arrives %d times", mark, strings.Count(text, mark))
		}
	}
}

// What a run was told is told again if the run, or the server, has dropped it: while a task fails for good, not without end.
func TestGoesAgain(t *testing.T) {
	dropped := fmt.Errorf("update: %w", serviceerror.NewWorkflowNotReady("unexpected workflow task failure"))
	for _, tt := range []struct {
		err  error
		try  int
		want bool
	}{
		{again(), 0, true},
		{again(), 1000, true},
		{dropped, 0, true},
		{dropped, 9, true},
		{dropped, 10, false},
		{serviceerror.NewNotFound("no run"), 0, false},
		{temporal.NewApplicationError("it does not fit", "answer.unfit"), 0, false},
		{nil, 0, false},
	} {
		if got := goesAgain(tt.err, tt.try); got != tt.want {
			t.Errorf("%v at try %d: %t", tt.err, tt.try, got)
		}
	}
}
