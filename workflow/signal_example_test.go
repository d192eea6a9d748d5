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

// A run asks for an approval while a long step works, so its process holds it. Signal leaves the answer, and the
// process that holds the run takes it at once.
func ExampleSignal() {
	ctx, store := context.Background(), &checkpoint.Memory{}
	asked, packed := make(chan resume.Pause, 1), make(chan struct{})
	act := func(name string, act func()) runtime.Tool {
		return runtime.NewTool(runtime.ToolSpec{Name: name}, func(context.Context, struct{}) (string, error) {
			act()
			return name, nil
		})
	}
	rt := &runtime.Runtime{Store: store, NewRunID: func() string { return "order-7" },
		OnPause: func(p resume.Pause) { asked <- p },
		Tools: []runtime.Tool{
			act("print.catalogue", func() { <-packed }), // takes long
			act("store.pack", func() { close(packed) })}}
	wf := must(workflow.Compile(must(recipe.Parse("order.yaml", []byte(`
apiVersion: braise/v1
name: order
steps:
  print: {uses: print.catalogue}
  ask: {uses: human, with: {prompt: "Ship it?"}}
  pack: {uses: store.pack, needs: [ask]}
`))), nil))
	ended := make(chan workflow.Status)
	go func() {
		out, _ := wf.Run(ctx, nil, rt)
		ended <- out.Status
	}()

	pause := <-asked
	answer := checkpoint.Signal{Kind: checkpoint.SignalAnswer, By: "ada",
		Data: []byte(`{"pause":"` + pause.ID + `","value":{"decision":"approve"}}`)}
	fmt.Println(workflow.Signal(ctx, "order-7", answer, store, nil))
	fmt.Println(<-ended)
	// Output:
	// <nil>
	// ok
}
