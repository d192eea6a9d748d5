package workflow_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func ExampleWorkflow_Run_rollback() {
	wf := must(workflow.Compile(must(recipe.Parse("trip.yaml", []byte(`
apiVersion: braise/v1
name: trip
steps:
  book: {uses: hotel.book, rollback: {uses: hotel.cancel, with: {id: "${{ steps.book.output }}"}}}
  fly: {uses: fail, needs: [book], with: {message: no flight}}
`))), nil))
	rt := &runtime.Runtime{Tools: []runtime.Tool{
		runtime.NewTool(runtime.ToolSpec{Name: "hotel.book"}, func(context.Context, struct{}) (string, error) { return "B-1", nil }),
		runtime.NewTool(runtime.ToolSpec{Name: "hotel.cancel"}, func(_ context.Context, in struct {
			ID string `json:"id"`
		}) (string, error) {
			fmt.Println("cancelled", in.ID)
			return "", nil
		}),
	}}
	_, err := wf.Run(context.Background(), nil, rt)
	fmt.Println(err)
	// Output:
	// cancelled B-1
	// step "fly": no flight
}
