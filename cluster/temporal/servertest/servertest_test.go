package servertest_test

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/braise-run/braise/cluster/temporal/servertest"
)

// A workflow that waits for a signal outlives the server: the next one on the same file goes on with it, and so do the
// client and the worker that were there before.
func TestRestart(t *testing.T) {
	s := servertest.Start(t)
	c := s.Client(client.Options{})
	w := worker.New(c, "q", worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) (string, error) {
		var text string
		workflow.GetSignalChannel(ctx, "go").Receive(ctx, &text)
		return text, nil
	}, workflow.RegisterOptions{Name: "waits"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "w", TaskQueue: "q"}, "waits")
	if err != nil {
		t.Fatal(err)
	}

	s.Kill()
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if err := c.SignalWorkflow(short, "w", "", "go", "too early"); err == nil {
		t.Error("a server that was killed takes a signal")
	}

	s.Restart()
	if err := c.SignalWorkflow(ctx, "w", "", "go", "on"); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := run.Get(ctx, &got); err != nil || got != "on" {
		t.Errorf("the workflow ends with %q, %v, want on", got, err)
	}
}

// A second server knows nothing of the first one.
func TestServersApart(t *testing.T) {
	a, b := servertest.Start(t), servertest.Start(t, "--search-attribute=BraiseRecipe=Keyword")
	if a.Addr == b.Addr {
		t.Skip("there is one server, which somebody else runs")
	}
	ctx := t.Context()
	if _, err := a.Client(client.Options{}).ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "w", TaskQueue: "q"}, "waits"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client(client.Options{}).DescribeWorkflowExecution(ctx, "w", ""); err == nil {
		t.Error("the second server has the first one's workflow")
	}
	attributes, err := b.Client(client.Options{}).OperatorService().ListSearchAttributes(ctx,
		&operatorservice.ListSearchAttributesRequest{Namespace: client.DefaultNamespace})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := attributes.GetCustomAttributes()["BraiseRecipe"]; !ok {
		t.Error("the flag has no effect")
	}
}
