package program_test

import (
	"context"
	"testing"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// What only expressions bring about: arguments of the wrong type where the kind expects another.
func TestComputedArgumentsOfTheWrongType(t *testing.T) {
	sub := runtest.Head + "inputs: {n: integer}\nsteps:\n  a: {uses: set, with: 1}\n"
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": runtimetest.Texts("hi")}}
	for _, tt := range []struct{ step, code string }{
		{`{uses: model, with: {model: m, prompt: hi, temperature: "${{ inputs.x }}"}}`, "model.arguments"},
		{`{uses: model, with: {model: m, prompt: hi, max_tokens: "${{ inputs.x }}"}}`, "model.arguments"},
		{`{uses: model, with: {model: m, messages: "${{ inputs.x }}"}}`, "model.arguments"},
		{`{uses: model, with: {model: m, messages: "${{ [inputs.x] }}"}}`, "model.arguments"},
		{`{uses: recipe, with: {ref: sub.yaml, inputs: {n: "${{ inputs.x }}"}}}`, "recipe.inputs"},
		{`{uses: recipe, with: {ref: sub.yaml, inputs: "${{ {m: inputs.x} }}"}}`, "recipe.inputs"},
		{`{uses: set, with: 1, foreach: {in: "${{ inputs.x }}"}}`, "foreach.notList"},
	} {
		wf, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": runtest.Head + "inputs: {x: {}}\nsteps:\n  a: " + tt.step + "\n", "sub.yaml": sub}, nil)
		if wf == nil {
			t.Fatalf("%s: %s", tt.step, runtest.Printed(list))
		}
		out, err := wf.Run(t.Context(), map[string]any{"x": "text"}, rt)
		if e := out.Failure(); e == nil || e.Code != tt.code || e.Category != runtime.CategoryConfig || e.Step != "a" {
			t.Errorf("%s: got %v, want %s", tt.step, err, tt.code)
		}
	}
}

// A call that a failure beside it stops is cancelled, and says so to what comes after.
func TestStoppedStepIsCancelled(t *testing.T) {
	started := make(chan struct{})
	wait := runtest.Tool("test.wait", func(ctx context.Context, _ map[string]any) (any, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	echo := runtest.Tool("test.echo", func(_ context.Context, in map[string]any) (any, error) {
		<-started
		return in, nil
	})
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  wait: {uses: test.wait}
  ready: {uses: test.echo}
  boom: {uses: fail, needs: [ready], with: {message: boom}}
  tidy: {uses: set, trigger: all_done, with: "${{ steps.wait.error.code }}"}
`))
	out, _ := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{wait, echo}, Limits: runtime.Limits{Grace: 1}})
	if got := out.Artefact["tidy"]; got != "step.cancelled" {
		t.Errorf("code of the stopped step: %v, want step.cancelled", got)
	}
}

// Of two tools with one name the last is called, and a diagnostic says so.
func TestShadowedTool(t *testing.T) {
	named := func(result string) runtime.Tool {
		return runtest.Tool("test.it", func(context.Context, map[string]any) (any, error) { return result, nil })
	}
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.it}\noutput: ${{ steps.a.output }}\n"))
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{named("first"), named("last")}})
	if err != nil || out.Output != "last" || len(out.Diagnostics) != 1 || out.Diagnostics[0].Code != diagnostics.CodeShadowedTool {
		t.Errorf("got %v, %v, %v", out.Output, err, out.Diagnostics)
	}
}

// An expression over the limits of expressions is a diagnostic of its own kind.
func TestExpressionOverItsBound(t *testing.T) {
	text := runtest.Head + "steps:\n  a: {uses: set, with: \"${{ 1"
	for range 2000 {
		text += " + 1"
	}
	_, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": text + " }}\"}\n"}, nil)
	if len(list) != 1 || list[0].Code != diagnostics.CodeExprBound {
		t.Errorf("got %s", runtest.Printed(list))
	}
}
