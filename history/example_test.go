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

// A Reader tells of each step of the plan, and of one step in full, while the run waits.
func ExampleReader() {
	r, err := recipe.Parse("refund.yaml", []byte(`apiVersion: braise/v1
name: refund
inputs: {cents: {type: integer, default: 2000}}
steps:
  sum: {uses: set, with: {euros: "${{ inputs.cents / 100 }}"}}
  large: {uses: human, when: inputs.cents > 100000, with: {prompt: "That much?"}}
  approve: {uses: human, needs: [sum], with: {prompt: "Pay ${{ steps.sum.output.euros }} euros back?"}}
  each: {uses: set, foreach: {in: [1, 2, 3]}, with: "${{ item }}"}
  note: {uses: set, needs: [approve], with: paid}
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

	reader := &history.Reader{Store: store}
	run, err := reader.Load(ctx, out.RunID)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range run.Steps {
		fmt.Println(s.Step, s.Status, s.Reason, s.Items)
	}
	sum, err := reader.Step(ctx, out.RunID, "sum")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum.Output)
	// Output:
	// sum succeeded  map[]
	// large skipped when_false map[]
	// approve waiting  map[]
	// each succeeded  map[succeeded:3]
	// note pending  map[]
	// map[euros:20]
}
