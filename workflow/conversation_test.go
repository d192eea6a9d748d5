package workflow_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// listener is a model that answers with how many messages it was sent, and keeps them.
type listener struct{ heard []string }

func (l *listener) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	var texts []string
	for _, m := range req.Messages {
		texts = append(texts, string(m.Role)+" "+m.Text)
	}
	l.heard = append(l.heard, req.Step+": "+strings.Join(texts, ", "))
	return &runtime.Response{Text: "heard by " + req.Step, Finish: "stop"}, nil
}

// A conversation is in the journal: resumed, recovered and forked runs go on with it.
func TestConversationOfLaterExecutions(t *testing.T) {
	l, store := &listener{}, &checkpoint.Memory{}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": l}, Store: store, Resume: resume.PassThrough{}}
	wf := load(t, []byte(head+`conversations: [talk]
agents: {a: {model: m, instructions: Be kind., tools: []}}
steps:
  one: {uses: model, with: {model: m, conversation: talk, prompt: Hi}}
  ask: {uses: human, needs: [one], with: {prompt: Well?}}
  two: {uses: agent, needs: [ask], with: {agent: a, conversation: talk}}
  three: {uses: model, needs: [two], with: {model: m, conversation: talk, prompt: Bye}}
output: ${{ map(conversations.talk, .text) }}
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
}

func TestConversationTooLarge(t *testing.T) {
	wf := load(t, []byte(head+`conversations: [talk]
inputs: {text: string}
steps:
  each: {uses: say, foreach: {in: [1, 2, 3, 4, 5, 6], max_parallel: 1}, with: {text: "${{ inputs.text }}", conversation: talk}}
output: ${{ len(conversations.talk) }}
`))
	text := strings.Repeat("x", 3<<20)
	_, err := wf.Run(t.Context(), map[string]any{"text": text}, &runtime.Runtime{})
	e, ok := errors.AsType[*runtime.Error](err)
	if !ok || e.Code != "conversation.tooLarge" || e.Step != "each[5]" || e.Category != runtime.CategoryLimit {
		t.Errorf("%v, want conversation.tooLarge of each[5]", err)
	}
}

// parrot is a model that always says the same.
type parrot string

func (p parrot) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	return &runtime.Response{Text: string(p), Finish: "stop"}, nil
}

// A record counts what was said before an agent began: the journal of a long conversation grows by what is new.
func TestJournalOfALongConversation(t *testing.T) {
	text := strings.Repeat("x", 2<<10)
	bytes := func(rounds int) (sum int) {
		store := &checkpoint.Memory{}
		out, err := load(t, []byte(head+`conversations: [talk]
inputs: {text: string, rounds: integer}
agents: {a: {model: m, tools: []}}
steps:
  round:
    uses: loop
    with:
      max_iterations: 1000
      until: iteration == inputs.rounds
      steps: {say: {uses: agent, with: {agent: a, conversation: talk, prompt: "${{ inputs.text }}"}}}
output: ${{ len(conversations.talk) }}
`)).Run(t.Context(), map[string]any{"text": text, "rounds": rounds},
			&runtime.Runtime{Models: map[string]runtime.Model{"m": parrot(text)}, Store: store})
		if err != nil || out.Output != int64(2*rounds) {
			t.Fatalf("%v, %v messages", err, out.Output)
		}
		_, recs, err := store.Load(t.Context(), out.RunID, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range recs {
			sum += len(recs[i].Data)
		}
		return sum
	}
	few, many := bytes(30), bytes(300)
	if many > 11*few || many > 300*10<<10 {
		t.Errorf("30 rounds: %d bytes, 300: %d; want ten times as many", few, many)
	}
}
