package workflow_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

const refund = `
apiVersion: braise/v1
name: refund
inputs: {order: integer}
steps:
  letter:
    uses: model
    with: {model: fast, prompt: "Write to the customer of order ${{ inputs.order }}."}
  ask:
    uses: human
    with: {prompt: "Send it? ${{ steps.letter.output.text }}", decisions: [approve, reject]}
  send:
    uses: mail.send
    when: steps.ask.output.decision == "approve"
    with: {text: "${{ steps.letter.output.text }}"}
output: ${{ steps.send.output }}
`

// office is a runtime of a SQLite file, a scripted model and a tool, as a new process would make it.
func office(file string, send func(text string) (string, error)) (rt *runtime.Runtime, closeStore func() error) {
	store := must(sqlite.Open(context.Background(), file, nil))
	mail := runtime.NewTool(runtime.ToolSpec{Name: "mail.send", Effect: runtime.Idempotent},
		func(_ context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			return send(in.Text)
		})
	return &runtime.Runtime{
		Store:  store,
		Resume: resume.PassThrough{},
		Models: map[string]runtime.Model{"fast": must(script.Parse("answers.yaml", []byte("turns: [{text: You get it back.}]")))},
		Tools:  []runtime.Tool{mail},
	}, store.Close
}

// A step asks a person, so the run pauses and its process may end. Any other resumes it, by the token.
func ExampleResume() {
	dir := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	ctx, file := context.Background(), filepath.Join(dir, "runs.db")
	send := func(text string) (string, error) { return "sent: " + text, nil }

	rt, closeStore := office(file, send)
	wf := must(workflow.Compile(must(recipe.Parse("refund.yaml", []byte(refund))), nil))
	out := must(wf.Run(ctx, map[string]any{"order": 7}, rt))
	fmt.Println(out.Status, out.Pauses[0].Prompt)
	closeStore()

	rt, closeStore = office(file, send)
	defer closeStore()
	out = must(workflow.Resume(ctx, out.Token, map[string]any{"decision": "approve"}, rt, nil))
	fmt.Println(out.Status, out.Output)
	// Output:
	// paused Send it? You get it back.
	// ok sent: You get it back.
}

// A fork tries another answer of a model: a new run that shares what was recorded before a step.
func ExampleFork() {
	dir := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	ctx := context.Background()
	rt, closeStore := office(filepath.Join(dir, "runs.db"), func(text string) (string, error) { return "sent: " + text, nil })
	defer closeStore()

	wf := must(workflow.Compile(must(recipe.Parse("refund.yaml", []byte(refund))), nil))
	first := must(wf.Run(ctx, map[string]any{"order": 7}, rt))
	edits := workflow.Edits{Outputs: map[string]any{"letter": map[string]any{"text": "Sorry!"}}}
	second := must(workflow.Fork(ctx, first.RunID, "ask", edits, rt, nil))
	fmt.Println(second.Status, second.Pauses[0].Prompt)
	fmt.Println(second.RunID != first.RunID)
	// Output:
	// paused Send it? Sorry!
	// true
}

// An output is decoded into a Go value.
func ExampleOutcome_Decode() {
	r := must(recipe.Parse("sum.yaml", []byte(`
apiVersion: braise/v1
name: sum
inputs: {a: integer, b: integer}
steps:
  sum: {uses: set, with: {total: "${{ inputs.a + inputs.b }}"}}
output: ${{ steps.sum.output }}
`)))
	out, _ := must(workflow.Compile(r, nil)).Run(context.Background(), map[string]any{"a": 2, "b": 3}, nil)
	var sum struct{ Total int }
	if err := out.Decode(&sum); err != nil { // also that of a run that failed
		fmt.Println(err)
	}
	fmt.Println(sum.Total)
	// Output: 5
}
