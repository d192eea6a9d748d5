package workflow_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// A run pauses before a step, and continues in whatever process has the store.
func ExampleRuntime_breakpoints() {
	ctx := context.Background()
	wf := must(workflow.Compile(must(recipe.Parse("shop.yaml", []byte(`
apiVersion: braise/v1
name: shop
steps:
  total: {uses: set, with: "${{ 6 * 7 }}"}
  pay: {uses: set, with: {amount: "${{ steps.total.output }}"}}
output: paid ${{ steps.pay.output.amount }}
`))), nil))
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Breakpoints: []string{"pay"}}
	out, _ := wf.Run(ctx, nil, rt)
	p := out.Pauses[0]
	fmt.Println(out.Status, p.Step, p.Prompt, p.Show)

	out, _ = workflow.Resume(ctx, p.Token, map[string]any{"decision": "continue"}, rt, nil)
	fmt.Println(out.Status, out.Output)
	// Output:
	// paused pay Start this step? map[amount:42]
	// ok paid 42
}
