package workflow_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// An input says which model an agent asks, and what it may call. The plan lists what is known of that, and says of what
// expressions may name more.
func ExampleRequires() {
	r := must(recipe.Parse("ask.yaml", []byte(`apiVersion: braise/v1
name: ask
inputs: {hard: {type: boolean, default: false}, tools: array}
agents:
  clerk: {model: '${{ inputs.hard ? "large" : "fast" }}', tools: ["${{ inputs.tools[0] }}"]}
steps: {ask: {uses: agent, with: {prompt: Who is customer 7?}}}
output: ${{ steps.ask.output.text }}
`)))
	wf := must(workflow.Compile(r, nil))
	needs := wf.Plan().Requires
	fmt.Println(needs.Models, needs.Open)

	host := &runtime.Runtime{Tools: []runtime.Tool{runtest.Lookup},
		Models: map[string]runtime.Model{"fast": runtimetest.Texts("I do not know."), "large": runtimetest.Texts("Ada.")}}
	out, err := wf.Run(context.Background(), map[string]any{"hard": true, "tools": []any{"crm.lookup"}}, host)
	fmt.Println(out.Output, err)
	_, err = wf.Run(context.Background(), map[string]any{"tools": []any{"crm.lokup"}}, host)
	fmt.Println(err)
	// Output:
	// [fast large] [tools]
	// Ada. <nil>
	// step "ask": agent "clerk" is to have tool "crm.lokup", but no tool of that name is configured
	//   hint: did you mean "crm.lookup"?
}
