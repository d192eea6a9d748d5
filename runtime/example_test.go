package runtime_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
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
