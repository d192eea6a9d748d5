package workflow_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func TestSmoke(t *testing.T) {
	r, err := recipe.Parse("r.yaml", []byte(`
apiVersion: braise/v1
name: smoke
inputs: {n: integer}
steps:
  a: {uses: set, with: {x: "${{ inputs.n + 1 }}"}}
  b: {uses: test.add, with: {n: "${{ steps.a.output.x }}"}}
  c:
    uses: set
    when: steps.b.output.n > 100
    with: 1
  d:
    uses: recipe
    foreach: {in: [1, 2, 3], as: k}
    with:
      steps:
        e: {uses: test.add, with: {n: "${{ k + steps.a.output.x }}"}}
        f: {uses: set, with: "${{ steps.e.output.n * 2 }}"}
      output: ${{ steps.f.output }}
output: {b: "${{ steps.b.output.n }}", d: "${{ steps.d.output }}"}
`))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	add := runtime.NewTool(runtime.ToolSpec{Name: "test.add"}, func(_ context.Context, in struct {
		N int `json:"n"`
	}) (map[string]int, error) {
		return map[string]int{"n": in.N + 1}, nil
	})
	out, err := wf.Run(t.Context(), map[string]any{"n": 4}, &runtime.Runtime{Tools: []runtime.Tool{add}})
	text, _ := json.MarshalIndent(out, "", " ")
	t.Logf("%s %v\n%s\n%s", text, err, wf.Plan().Text(), wf.Plan().Mermaid())
	for _, e := range out.Trace {
		t.Log(e.Line())
	}
}
