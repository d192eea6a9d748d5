package workflow_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func ExampleSend() {
	wf := must(workflow.Compile(must(recipe.Parse("orders.yaml", []byte(`
apiVersion: braise/v1
name: orders
channels: {orders: queue}
steps:
  order: {uses: receive, with: {channel: orders}}
output: "packed ${{ steps.order.output.item }}"
`))), nil))
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}}
	ctx := context.Background()
	out, _ := wf.Run(ctx, nil, rt)
	fmt.Println(out.Status)
	out, _ = workflow.Send(ctx, out.RunID, "orders", map[string]any{"item": "lamp"}, rt, nil)
	fmt.Println(out.Status, out.Output)
	// Output:
	// paused
	// ok packed lamp
}
