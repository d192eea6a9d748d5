package runtime_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// A plugin brings a tool, and a hook that sees every call of a tool before it is made and may deny it.
func ExamplePlugin() {
	lookup := runtime.NewTool(runtime.ToolSpec{Name: "crm.lookup", Effect: runtime.ReadOnly},
		func(_ context.Context, in struct {
			ID int `json:"id"`
		}) (string, error) {
			return fmt.Sprintf("customer %d", in.ID), nil
		})
	crm := runtime.Plugin{
		Key:   "crm",
		Tools: []runtime.Tool{lookup},
		Hooks: runtime.Hooks{runtime.ToolBefore: func(_ context.Context, m runtime.Moment) error {
			if m.Args["id"] == int64(13) {
				return errors.New("customer 13 is private")
			}
			return nil
		}},
	}
	rt := &runtime.Runtime{Plugins: []runtime.Plugin{crm}}

	r, err := recipe.Parse("find.yaml", []byte(`
apiVersion: braise/v1
name: find
inputs: {id: integer}
steps:
  find: {uses: crm.lookup, with: {id: "${{ inputs.id }}"}}
output: ${{ steps.find.output }}
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
	for _, id := range []int{7, 13} {
		out, err := wf.Run(context.Background(), map[string]any{"id": id}, rt)
		fmt.Println(out.Output, err)
	}
	// Output:
	// customer 7 <nil>
	// <nil> step "find": plugin "crm" denies the call of tool "crm.lookup": customer 13 is private
}

// A tool says how far it is: whoever watches the run sees it at once.
func ExampleSay() {
	load := runtime.NewTool(runtime.ToolSpec{Name: "crm.load", Effect: runtime.Idempotent},
		func(ctx context.Context, in struct {
			Customers []string `json:"customers"`
		}) (int, error) {
			for i, name := range in.Customers {
				err := runtime.Say(ctx, name+" is loaded", map[string]any{"done": i + 1, "of": len(in.Customers)})
				if err != nil {
					return i, err
				}
			}
			return len(in.Customers), nil
		})
	r, err := recipe.Parse("load.yaml", []byte(`
apiVersion: braise/v1
name: load
steps:
  load: {uses: crm.load, with: {customers: [Ada, Bo]}}
output: ${{ steps.load.output }}
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
	out, err := wf.Run(context.Background(), nil, &runtime.Runtime{Tools: []runtime.Tool{load}})
	for _, e := range out.Trace {
		if e.Kind == trace.StepSaid {
			fmt.Println(e.Line())
		}
	}
	fmt.Println(out.Output, err)
	// Output:
	// step.said load text="Ada is loaded" value={"done":1,"of":2}
	// step.said load text="Bo is loaded" value={"done":2,"of":2}
	// 2 <nil>
}
