package workflow_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// A run that may use so many tokens, and then asks for more.
func ExampleWorkflow_Run_budget() {
	wf := must(workflow.Compile(must(recipe.Parse("essay.yaml", []byte(`
apiVersion: braise/v1
name: essay
limits: {tokens: 100, on_exceeded: pause}
steps:
  draft: {uses: model, with: {model: m, prompt: Write., max_tokens: 90}}
  mend: {uses: model, needs: [draft], with: {model: m, prompt: Mend it., max_tokens: 90}}
output: ${{ steps.mend.output.text }}
`))), nil))
	ctx, rt := context.Background(), runtest.Budgeted(runtest.Using(80))
	out, _ := wf.Run(ctx, nil, rt)
	fmt.Println(out.Status, out.Pauses[0].Reason)
	out, _ = wf.Resume(ctx, out.Token, map[string]any{"decision": "raise", "form": map[string]any{"tokens": 200}}, rt)
	fmt.Println(out.Status, out.Output)
	// Output:
	// paused limits.tokens
	// ok x
}
