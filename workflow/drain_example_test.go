package workflow_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// A process that is to stop drains its runs: the payment under way ends and is recorded, and the receipt is left to
// the process that recovers the run.
func ExampleRecover_drained() {
	drain := make(chan struct{})
	act := func(name string, act func()) runtime.Tool {
		return runtime.NewTool(runtime.ToolSpec{Name: name}, func(context.Context, struct{}) (string, error) {
			act()
			return name, nil
		})
	}
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Drain: drain, Tools: []runtime.Tool{
		act("bank.pay", func() { close(drain) }), // SIGTERM comes meanwhile
		act("mail.send", func() { fmt.Println("a receipt") })}}
	wf := must(workflow.Compile(must(recipe.Parse("pay.yaml", []byte(`
apiVersion: braise/v1
name: pay
steps:
  pay: {uses: bank.pay}
  receipt: {uses: mail.send, needs: [pay]}
`))), nil))
	ctx := context.Background()
	out, _ := wf.Run(ctx, nil, rt)
	fmt.Println(out.Status, out.Failure().Code)

	rt.Drain = nil // in the next process
	out, _ = workflow.Recover(ctx, out.RunID, rt, nil)
	fmt.Println(out.Status)
	// Output:
	// cancelled run.drained
	// a receipt
	// ok
}
