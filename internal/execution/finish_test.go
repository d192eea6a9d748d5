package execution_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// trust 7.10: why an answer ended is known after a pause and in a fork, too. What it used is known after the pause; a
// fork counts its own calls.
func TestFinishIsKept(t *testing.T) {
	model, err := script.Parse("script.yaml", []byte("turns: [{text: half, finish: length, usage: {input_tokens: 3, output_tokens: 4}}]"))
	if err != nil {
		t.Fatal(err)
	}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{},
		Prices: map[string]runtime.Price{"m": {Input: 1e6, Output: 1e6}}}
	out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  say: {uses: model, with: {model: m, prompt: hi}}
  ask: {uses: human, needs: [say], with: {prompt: Well}}
  after: {uses: set, needs: [ask], with: ["${{ steps.say.finish }}", "${{ steps.say.usage }}"]}
output: ${{ steps.after.output }}
`)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	usage := func(calls, in, out int64, cost float64) map[string]any {
		return map[string]any{"calls": calls, "inputTokens": in, "outputTokens": out, "costUsd": cost}
	}
	if out, err = workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any([]any{"length", usage(1, 3, 4, 7)}), out.Output); diff != "" {
		t.Errorf("after the pause (-want +got)\n%s", diff)
	}
	fork, err := workflow.Fork(t.Context(), out.RunID, "after", workflow.Edits{}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any([]any{"length", usage(0, 0, 0, 0)}), fork.Output); diff != "" {
		t.Errorf("in a fork (-want +got)\n%s", diff)
	}
}

// trust 3.1: a cut answer is told of in the outcome of every execution, also one that did not make the call.
func TestCutAnswerIsToldOfAfterARecovery(t *testing.T) {
	model, err := script.Parse("script.yaml", []byte("turns: [{text: half, finish: length}]"))
	if err != nil {
		t.Fatal(err)
	}
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Models: map[string]runtime.Model{"m": model}}
	out, _ := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: model, with: {model: m, prompt: Hi}}\n  ask: {uses: human, needs: [a], with: {prompt: Go on}}\n")).Run(t.Context(), nil, rt)
	again, _ := workflow.Recover(t.Context(), out.RunID, rt, nil)
	for name, out := range map[string]*workflow.Outcome{"the first": out, "the next": again} {
		var got []diagnostics.Diagnostic
		for _, d := range out.Diagnostics {
			if d.Code == diagnostics.CodeAnswerCut {
				got = append(got, d)
			}
		}
		if len(got) != 1 || got[0].Step != "a" || got[0].Message != `the answer of model "m" was cut: it hit its token limit` {
			t.Errorf("%s execution: %+v", name, got)
		}
	}
}
