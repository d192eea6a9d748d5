package workflow_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func ExampleCancel() {
	wf := must(workflow.Compile(must(recipe.Parse("trip.yaml", []byte(`
apiVersion: braise/v1
name: trip
steps:
  book: {uses: hotel.book, rollback: {uses: hotel.cancel, with: {id: "${{ steps.book.output }}"}}}
  ask: {uses: human, needs: [book], with: {prompt: "Is this the right hotel?"}}
`))), nil))
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Tools: []runtime.Tool{
		runtime.NewTool(runtime.ToolSpec{Name: "hotel.book"}, func(context.Context, struct{}) (string, error) { return "B-1", nil }),
		runtime.NewTool(runtime.ToolSpec{Name: "hotel.cancel"}, func(_ context.Context, in struct {
			ID string `json:"id"`
		}) (string, error) {
			fmt.Println("cancelled", in.ID)
			return "", nil
		}),
	}}
	ctx := context.Background()
	out, _ := wf.Run(ctx, nil, rt)
	fmt.Println(out.Status)
	out, err := workflow.Cancel(ctx, out.RunID, "the trip is off", rt, nil)
	fmt.Println(out.Status, err)
	// Output:
	// paused
	// cancelled B-1
	// cancelled the run was cancelled for good: the trip is off
}
