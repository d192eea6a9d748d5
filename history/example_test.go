package history_test

import (
	"context"
	"fmt"
	"log"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// What a run that waits has done so far, and what it waits for.
func ExampleLoad() {
	r, err := recipe.Parse("refund.yaml", []byte(`apiVersion: braise/v1
name: refund
steps:
  approve: {uses: human, with: {prompt: "Pay 20 euros back?", decisions: ["yes", "no"]}}
`))
	if err != nil {
		log.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx, store := context.Background(), &checkpoint.Memory{}
	out, _ := wf.Run(ctx, nil, &runtime.Runtime{Store: store})

	run, err := history.Load(ctx, store, out.RunID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Recipe, run.Status)
	for _, s := range run.Steps {
		fmt.Println(s.Step, s.Status)
	}
	for _, p := range run.Pauses {
		fmt.Println(p.Prompt)
	}
	// Output:
	// refund paused
	// approve waiting
	// Pay 20 euros back?
}
