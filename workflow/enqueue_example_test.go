package workflow_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// A web handler records a run and answers at once. A worker, in this process or in another one, executes the runs of
// its queue.
func ExampleWorkflow_Enqueue() {
	ctx, store := context.Background(), &checkpoint.Memory{}
	wf := must(workflow.Compile(must(recipe.Parse("greet.yaml", []byte(`
apiVersion: braise/v1
name: greet
inputs: {who: string}
steps:
  greet: {uses: set, with: {text: "Hello, ${{ inputs.who }}"}}
output: ${{ steps.greet.output.text }}
`))), nil))
	rt := &runtime.Runtime{Store: store}
	id, err := wf.Enqueue(ctx, map[string]any{"who": "Ada"}, rt,
		&workflow.EnqueueOptions{RunID: "greet-1", Queue: "default", Labels: map[string]string{"customer": "4711"}})
	fmt.Println(id, err)

	queued, _ := store.List(ctx, checkpoint.Filter{Phases: []checkpoint.Phase{checkpoint.PhaseQueued}, Queues: []string{"default"}})
	for _, run := range queued {
		out, err := workflow.Recover(ctx, run.ID, rt, nil)
		fmt.Println(out.Status, out.Output, err)
	}
	// Output:
	// greet-1 <nil>
	// ok Hello, Ada <nil>
}
