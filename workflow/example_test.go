package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing/fstest"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

const greeting = `
apiVersion: braise/v1
name: greeting
inputs: {who: string}
steps:
  name: {uses: text.upper, with: {text: "${{ inputs.who }}"}}
  greet:
    uses: model
    with: {model: fast, prompt: "Greet ${{ steps.name.output }} in one word."}
output: ${{ steps.greet.output.text }}, ${{ steps.name.output }}!
`

// A recipe is read, compiled once and run as often as needed, with whatever Runtime a run is to
// have.
func Example() {
	r := must(recipe.Parse("greeting.yaml", []byte(greeting)))
	wf := must(workflow.Compile(r, nil))

	upper := runtime.NewTool(runtime.ToolSpec{Name: "text.upper", Effect: runtime.ReadOnly},
		func(_ context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			return fmt.Sprintf("%s%s", string(in.Text[0]-'a'+'A'), in.Text[1:]), nil
		})
	rt := &runtime.Runtime{
		Tools:  []runtime.Tool{upper},
		Models: map[string]runtime.Model{"fast": runtimetest.Texts("Hello")},
	}
	out, err := wf.Run(context.Background(), map[string]any{"who": "ada"}, rt)
	fmt.Println(out.Status, err)
	fmt.Println(out.Output)
	for _, e := range out.Trace[1:] {
		fmt.Println(e.Line())
	}
	// Output:
	// ok <nil>
	// Hello, Ada!
	// step.start name
	// adapter.call name kind=tool name=text.upper
	// step.end name status=succeeded
	// step.start greet
	// adapter.call greet kind=model name=fast
	// model.end greet usage={"input_tokens":0,"output_tokens":0}
	// step.end greet status=succeeded
	// run.success
	// run.end status=ok
}

// A failed run has an outcome too: what had finished, and an error that says which step failed.
func ExampleOutcome_Failure() {
	r := must(recipe.Parse("recipe.yaml", []byte(`
apiVersion: braise/v1
name: ratio
inputs: {parts: integer, whole: integer}
steps:
  sum: {uses: set, with: "${{ inputs.parts + inputs.whole }}"}
  share: {uses: set, needs: [sum], with: "${{ inputs.parts % inputs.whole }}"}
`)))
	out, _ := must(workflow.Compile(r, nil)).Run(context.Background(), map[string]any{"parts": 1, "whole": 0}, nil)
	e := out.Failure()
	fmt.Println(out.Status, e.Category, e.Code, e.Step)
	fmt.Println(out.Artefact)
	// Output:
	// error config expr.failed share
	// map[sum:1]
}

// Cancelling the context ends the run; the outcome says so.
func ExampleWorkflow_Run_cancel() {
	r := must(recipe.Parse("recipe.yaml", []byte("apiVersion: braise/v1\nname: slow\nsteps:\n  a: {uses: test.sleep}\n")))
	sleep := runtime.NewTool(runtime.ToolSpec{Name: "test.sleep"}, func(ctx context.Context, _ struct{}) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	out, err := must(workflow.Compile(r, nil)).Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{sleep}})
	fmt.Println(out.Status, errors.Is(err, context.Canceled))
	// Output: cancelled true
}

// In strict mode whatever is found wrong stops a run before its first step.
func ExampleWorkflow_Check() {
	wf := must(workflow.Compile(must(recipe.Parse("greeting.yaml", []byte(greeting))), nil))
	list, _ := wf.Check(context.Background(), &runtime.Runtime{Diagnostics: diagnostics.Strict})
	for _, d := range list {
		fmt.Println(d.Level, d.Code, d.Message)
	}
	// Output:
	// error model.missing no model named "fast" is configured; step "greet" needs it
	// error tool.missing no tool named "text.upper" is configured; step "name" needs it
}

// A plan says what a run would do, without a runtime and without a call.
func ExampleWorkflow_Plan() {
	wf := must(workflow.Compile(must(recipe.Parse("greeting.yaml", []byte(greeting))), nil))
	plan := wf.Plan()
	fmt.Print(plan.Mermaid())
	fmt.Println(plan.Requires.Models, plan.Requires.Tools)
	// Output:
	// flowchart TD
	//   s_name["name<br/>text.upper"]
	//   s_greet["greet<br/>model"]
	//   s_name --> s_greet
	// [fast] [text.upper]
}

// Inputs can come as texts, from a command line say; their schemas say how they are read.
func ExampleWorkflow_ParseInputs() {
	r := must(recipe.Parse("recipe.yaml", []byte(`
apiVersion: braise/v1
name: typed
inputs: {count: integer, tags: {type: array, items: {type: string}}}
steps: {all: {uses: set, with: "${{ inputs }}"}}
output: ${{ len(steps.all.output.tags) + steps.all.output.count }}
`)))
	wf := must(workflow.Compile(r, nil))
	inputs := must(wf.ParseInputs([]string{"count=40", `tags=["a", "b"]`}))
	out, _ := wf.Run(context.Background(), inputs, nil)
	fmt.Println(out.Output)
	// Output: 42
}

// A step runs an agent, which is a Markdown file beside the recipe.
func ExampleWorkflow_Run_agent() {
	files := fstest.MapFS{
		"recipe.yaml": {Data: []byte(`
apiVersion: braise/v1
name: who
inputs: {id: integer}
steps:
  find: {uses: agent, with: {agent: finder, prompt: "Who is customer ${{ inputs.id }}?"}}
output: ${{ steps.find.output }}
`)},
		"agents/finder.md": {Data: []byte("---\nmodel: fast\ntools: [crm.lookup]\n---\nAnswer in one sentence.\n")},
	}
	wf := must(workflow.Compile(must(recipe.Load(files, "recipe.yaml")), nil))
	lookup := runtime.NewTool(runtime.ToolSpec{Name: "crm.lookup", Effect: runtime.ReadOnly},
		func(_ context.Context, in struct {
			ID int `json:"id"`
		}) (map[string]any, error) {
			return map[string]any{"name": "Ann"}, nil
		})
	fast := &runtimetest.Model{Answers: []runtimetest.Answer{
		{ToolCalls: []runtime.ToolCall{{Name: "crm.lookup", Arguments: json.RawMessage(`{"id": 7}`)}}},
		{Text: "Customer 7 is Ann."},
	}}
	out, err := wf.Run(context.Background(), map[string]any{"id": 7}, &runtime.Runtime{
		Models: map[string]runtime.Model{"fast": fast},
		Tools:  []runtime.Tool{lookup},
	})
	fmt.Println(out.Output, err)
	for _, e := range out.Trace[5:8] {
		fmt.Println(e.Line())
	}
	// Output:
	// map[steps:2 stop_reason:answer text:Customer 7 is Ann.] <nil>
	// tool.calls.begin find tools=["crm.lookup"]
	// tool.start find call=1 tool=crm.lookup
	// tool.end find call=1 tool=crm.lookup
}

// A recipe as a tool of another recipe's agent.
func ExampleWorkflow_Tool() {
	price := must(workflow.Compile(must(recipe.Parse("price.yaml", []byte(`
apiVersion: braise/v1
name: price
description: The price of some pears, in cents.
inputs: {count: integer}
steps:
  sum: {uses: set, with: "${{ inputs.count * 30 }}"}
output: ${{ steps.sum.output }}
`))), nil))
	shop := must(workflow.Compile(must(recipe.Parse("shop.yaml", []byte(`
apiVersion: braise/v1
name: shop
steps:
  sell:
    uses: agent
    with: {agent: {model: fast, tools: [recipe.price]}, prompt: "What do three pears cost?"}
output: ${{ steps.sell.output.text }}
`))), nil))
	fast := &runtimetest.Model{Answers: []runtimetest.Answer{
		{ToolCalls: []runtime.ToolCall{{Name: "recipe.price", Arguments: json.RawMessage(`{"count": 3}`)}}},
		{Text: "Three pears are 90 cents."},
	}}
	out, err := shop.Run(context.Background(), nil, &runtime.Runtime{
		Models: map[string]runtime.Model{"fast": fast},
		Tools:  []runtime.Tool{price.Tool(nil)},
	})
	fmt.Println(out.Output, err)
	last := fast.Requests()[1].Messages
	fmt.Println("the model was told:", last[len(last)-1].Text)
	// Output:
	// Three pears are 90 cents. <nil>
	// the model was told: 90
}

// must is for examples only.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
