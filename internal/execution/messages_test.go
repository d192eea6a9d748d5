package execution_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// listener is a model that answers with the step that asks, and keeps what it was sent.
type listener struct{ heard []string }

func (l *listener) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	var texts []string
	for _, m := range req.Messages {
		texts = append(texts, string(m.Role)+" "+m.Text)
	}
	l.heard = append(l.heard, req.Step+": "+strings.Join(texts, ", "))
	return &runtime.Response{Text: "heard by " + req.Step, Finish: "stop"}, nil
}

// The messages of a step are what they were in runs that are resumed, recovered and forked.
func TestMessagesOfLaterExecutions(t *testing.T) {
	l, store := &listener{}, &checkpoint.Memory{}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": l}, Store: store, Resume: resume.PassThrough{}}
	wf := runtest.Load(t, []byte(runtest.Head+`agents: {a: {model: m, instructions: Be kind., tools: []}}
steps:
  one: {uses: model, with: {model: m, prompt: Hi}}
  ask: {uses: human, needs: [one], with: {prompt: Well?}}
  two: {uses: agent, needs: [ask], with: {agent: a, messages: "${{ steps.one.messages }}"}}
  three: {uses: model, with: {model: m, messages: "${{ steps.two.messages }}", prompt: Bye}}
output: ${{ map(steps.three.messages, .text) }}
`))
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := workflow.Recover(t.Context(), out.RunID, rt, nil)
	if out, err = workflow.Resume(t.Context(), again.Token, map[string]any{"decision": "approve"}, rt, nil); err != nil {
		t.Fatal(err)
	}
	said := []any{"Hi", "heard by one", "heard by two", "Bye", "heard by three"}
	if diff := cmp.Diff(said, out.Output); diff != "" {
		t.Errorf("resumed (-want +got):\n%s", diff)
	}
	forked, err := workflow.Fork(t.Context(), out.RunID, "three", workflow.Edits{}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(said, forked.Output); diff != "" {
		t.Errorf("forked (-want +got):\n%s", diff)
	}
	three := "three: user Hi, assistant heard by one, assistant heard by two, user Bye"
	want := []string{"one: user Hi", "two: system Be kind., user Hi, assistant heard by one", three, three}
	if diff := cmp.Diff(want, l.heard); diff != "" {
		t.Errorf("what the models saw (-want +got):\n%s", diff)
	}
	edits := workflow.Edits{Outputs: map[string]any{"one": map[string]any{"text": "Hello"}}}
	if forked, err = workflow.Fork(t.Context(), out.RunID, "three", edits, rt, nil); err != nil {
		t.Fatal(err)
	}
	said[1] = "Hello"
	if diff := cmp.Diff(said, forked.Output); diff != "" {
		t.Errorf("forked with another answer (-want +got):\n%s", diff)
	}
}

func TestMessagesTooLarge(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`inputs: {texts: array}
steps:
  each: {uses: model, foreach: {in: "${{ inputs.texts }}"}, with: {model: m, prompt: "${{ item }}"}}
output: ${{ len(steps.each.messages) }}
`))
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": &listener{}}}
	large := strings.Repeat("x", 3<<20)
	_, err := wf.Run(t.Context(), map[string]any{"texts": []any{large, large, large, large, large, large}}, rt)
	e, ok := errors.AsType[*runtime.Error](err)
	if !ok || e.Code != "output.tooLarge" || e.Step != "each" || e.Category != runtime.CategoryLimit {
		t.Errorf("%v, want output.tooLarge of each", err)
	}
}
