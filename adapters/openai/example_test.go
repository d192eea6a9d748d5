package openai_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/batchtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// The calls of a run are sent as one batch. The run waits for it, and goes on when it is over.
func ExampleNewBatches() {
	provider := &batchtest.Server{} // stands for OpenAI
	server := httptest.NewServer(provider)
	defer server.Close()

	nightly, err := openai.NewBatches(openai.Options{Model: "gpt-5-mini", BaseURL: server.URL + "/v1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"nightly": nightly}, Store: &checkpoint.Memory{},
		Resume: resume.PassThrough{}}
	r, err := recipe.Parse("sort.yaml", []byte(`apiVersion: braise/v1
name: sort
steps:
  sort:
    uses: model
    foreach: {in: [refund, crash]}
    with: {model: nightly, prompt: "Sort ${{ item }}"}
output: "${{ map(steps.sort.output, #.text) }}"
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	out, _ := wf.Run(ctx, nil, rt)
	fmt.Println(out.Status, len(out.Pauses), out.Pauses[0].InBatch(), len(provider.Batches()))

	// A worker, or workflow.Sweep, looks at the batch when out.Pauses[0].RetryAt has come. An answer does so now.
	out, _ = workflow.Answer(ctx, out.RunID, out.Pauses[0].ID, nil, rt, nil)
	fmt.Println(out.Status, out.Output)
	// Output:
	// paused 2 true 1
	// ok [re: Sort refund re: Sort crash]
}
