package workflow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

const talking = head + `conversations: [chat]
agents: {a: {model: m, instructions: Be kind., tools: []}}
steps:
  one: {uses: model, with: {model: m, conversation: chat, prompt: Hi}}
  talk: {uses: agent, needs: [one], with: {agent: a, conversation: chat, replies: {until: 'reply == "bye"', max: 9}}}
  last: {uses: model, needs: [talk], with: {model: m, conversation: chat, prompt: Sum up}}
output: ${{ map(conversations.chat, .text) }}
`

// Each reply may be given to another process, which knows the run by its journal only.
func TestRepliesOfLaterExecutions(t *testing.T) {
	l, store := &listener{}, &checkpoint.Memory{}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": l}, Store: store, Resume: resume.PassThrough{}}
	out, err := load(t, []byte(talking)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"Why?", "And?", "bye"} {
		want := resume.Pause{Kind: resume.Human, Step: "talk", Prompt: "heard by talk", Schema: map[string]any{"type": "string"}}
		if p := out.Pauses[0]; p.Kind != want.Kind || p.Step != want.Step || p.Prompt != want.Prompt || !cmp.Equal(p.Schema, want.Schema) {
			t.Fatalf("it waits for %+v", p)
		}
		again, err := workflow.Recover(t.Context(), out.RunID, rt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := workflow.Resume(t.Context(), again.Token, 7, rt, nil); err == nil || got.Error().Code != "answer.unfit" {
			t.Errorf("a number: %v", err)
		}
		if out, err = workflow.Resume(t.Context(), again.Token, words, rt, nil); err != nil {
			t.Fatal(err)
		}
	}
	said := []any{"Hi", "heard by one", "heard by talk", "Why?", "heard by talk", "And?", "heard by talk", "Sum up", "heard by last"}
	if diff := cmp.Diff(said, out.Output); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	before := "talk: system Be kind., user Hi, assistant heard by one"
	want := []string{"one: user Hi", before, before + ", assistant heard by talk, user Why?",
		before + ", assistant heard by talk, user Why?, assistant heard by talk, user And?"}
	if diff := cmp.Diff(want, l.heard[:4]); diff != "" {
		t.Errorf("what the model saw (-want +got):\n%s", diff)
	}
	forked, err := workflow.Fork(t.Context(), out.RunID, "last", workflow.Edits{}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(said, forked.Output); diff != "" {
		t.Errorf("forked (-want +got):\n%s", diff)
	}
	asked := len(l.heard)
	if forked, err = workflow.Fork(t.Context(), out.RunID, "talk", workflow.Edits{}, rt, nil); err != nil || forked.Status != workflow.StatusPaused ||
		forked.Pauses[0].ID != "talk:reply 1" || len(l.heard) != asked+1 {
		t.Errorf("forked at the talk: %s, %v, %d calls", forked.Status, err, len(l.heard)-asked)
	}
}

// A run that is forked while somebody is to reply goes on with the talk, beside the first run.
func TestForkInATalk(t *testing.T) {
	l, store := &listener{}, &checkpoint.Memory{}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": l}, Store: store, Resume: resume.PassThrough{}}
	out, err := load(t, []byte(head+`conversations: [chat]
agents: {a: {model: m, tools: []}}
steps:
  one: {uses: say, with: {text: Hello, conversation: chat}}
  talk: {uses: agent, needs: [one], with: {agent: a, conversation: chat, prompt: Hi, replies: {max: 1}}}
  other: {uses: human, with: {prompt: Well?}}
output: ${{ map(conversations.chat, .text) }}
`)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	forked, err := workflow.Fork(t.Context(), out.RunID, "other", workflow.Edits{}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []*workflow.Outcome{out, forked} {
		for id, answer := range map[string]any{"talk:reply 1": "Yes", "other": map[string]any{"decision": "approve"}} {
			if out, err = workflow.Answer(t.Context(), out.RunID, id, answer, rt, nil); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]any{"Hello", "Hi", "heard by talk", "Yes", "heard by talk"}, out.Output); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	want := "talk: assistant Hello, user Hi, assistant heard by talk, user Yes"
	if diff := cmp.Diff([]string{"talk: assistant Hello, user Hi", want, want}, l.heard); diff != "" {
		t.Errorf("what the model saw (-want +got):\n%s", diff)
	}
}

const approvingSteps = head + `inputs: {to: string}
steps:
  draft: {uses: set, with: "Dear ${{ inputs.to }}"}
  send: {uses: test.act, needs: [draft], approve: {prompt: "Send it?"}, with: {n: "${{ steps.draft.output }}"}}
  note: {uses: set, approve: {}, with: noted}
  end: {uses: human, needs: [send, note], trigger: all_done, with: {prompt: Done?}}
output: ["${{ steps.send.output }}", "${{ steps.note.output }}"]
`

// A yes is for what was shown, in whichever process, also in a fork; a no skips the step there too.
func TestApproveOfLaterExecutions(t *testing.T) {
	log, store := &effects{}, &checkpoint.Memory{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{log.external("test.act")}, Store: store, Resume: resume.PassThrough{}}
	answer := func(out *workflow.Outcome, pause, decision string) *workflow.Outcome {
		t.Helper()
		out, err := workflow.Answer(t.Context(), out.RunID, pause, map[string]any{"decision": decision}, rt, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	wf := load(t, []byte(approvingSteps))
	if plan := wf.Plan().Text(); !strings.Contains(plan, "send  test.act  after draft (data)  asks first\n") || strings.Count(plan, "asks first") != 2 {
		t.Errorf("the plan does not say that two steps ask:\n%s", plan)
	}
	out, err := wf.Run(t.Context(), map[string]any{"to": "Ada"}, rt)
	if err != nil {
		t.Fatal(err)
	}
	if p := out.Pauses[0]; p.ID != "send:approve" || !cmp.Equal(p.Show, any(map[string]any{"n": "Dear Ada"})) {
		t.Errorf("it waits for %+v", p)
	}
	if out = answer(answer(out, "send:approve", "approve"), "note:approve", "reject"); out.Status != workflow.StatusPaused || len(log.lines) != 1 {
		t.Fatalf("%s after %d calls", out.Status, len(log.lines))
	}
	done := answer(out, "end", "approve")
	if diff := cmp.Diff([]any{"Dear Ada", nil}, done.Output); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	forked, err := workflow.Fork(t.Context(), out.RunID, "end", workflow.Edits{}, rt, nil)
	if err != nil || len(forked.Pauses) != 1 || forked.Pauses[0].ID != "end" {
		t.Fatalf("a fork behind the approvals waits for %v, %v", forked.Pauses, err)
	}
	again, err := workflow.Fork(t.Context(), forked.RunID, "end", workflow.Edits{}, rt, nil)
	if err != nil || len(again.Pauses) != 1 {
		t.Fatalf("a fork of the fork waits for %v, %v", again.Pauses, err)
	}
	if diff := cmp.Diff(done.Output, answer(again, "end", "approve").Output); diff != "" {
		t.Errorf("a fork of a fork (-want +got):\n%s", diff)
	}
	edited, err := workflow.Fork(t.Context(), out.RunID, "send", workflow.Edits{}, rt, nil)
	if err != nil || len(edited.Pauses) != 1 || edited.Pauses[0].ID != "send:approve" {
		t.Errorf("a fork at the step waits for %v, %v", edited.Pauses, err)
	}
	if len(log.lines) != 1 {
		t.Errorf("the tool was called %d times", len(log.lines))
	}
}
