package workflow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// What does not match where is refused whichever way it comes, and leaves the pause open; a value that does not match
// stays in its channel.
func TestWhere(t *testing.T) {
	const steps = `channels: {mail: {kind: queue, from: outside}}
steps:
  paid: {uses: wait, with: {event: paid, where: event.order == 7}}
  ada: {uses: receive, with: {channel: mail, where: value?.to == "ada"}}
  bob: {uses: receive, with: {channel: mail, where: value?.to == "bob"}}
  rest: {uses: receive, needs: [ada, bob, paid], with: {channel: mail, on_empty: fail}}
output: ["${{ steps.paid.output.order }}", "${{ steps.ada.output.n }}", "${{ steps.bob.output.n }}", "${{ steps.rest.output.n }}"]
`
	store := &checkpoint.Memory{}
	rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, NewRunID: func() string { return "r1" }}
	out, err := load(t, []byte(head+steps)).Run(t.Context(), nil, rt)
	if out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	other, mine, odd := map[string]any{"order": 8}, map[string]any{"order": 7}, map[string]any{"id": 7}
	for _, event := range []map[string]any{other, odd} {
		if _, err := workflow.Resume(t.Context(), out.Token, event, rt, nil); errCode(err) != "answer.unfit" {
			t.Errorf("by token, %v: %v", event, err)
		}
		if _, err := workflow.Answer(t.Context(), "r1", "paid", event, rt, nil); errCode(err) != "answer.unfit" {
			t.Errorf("by name, %v: %v", event, err)
		}
		if err := workflow.Signal(t.Context(), "r1", answerOf("paid", "ada", event), store, nil); errCode(err) != "answer.unfit" {
			t.Errorf("by signal, %v: %v", event, err)
		}
	}
	if _, err := workflow.Answer(t.Context(), "r1", "ada", map[string]any{"to": "bob"}, rt, nil); errCode(err) != "answer.unfit" {
		t.Errorf("the answer to a receive: %v", err)
	}
	// Left for the run without a check, as by a process that cannot tell.
	if err := store.PutSignal(t.Context(), "r1", checkpoint.Signal{ID: "answer:paid", Kind: checkpoint.SignalAnswer,
		Data: []byte(`{"pause":"paid","value":{"order":8}}`), At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	for _, value := range []any{map[string]any{"to": "eve", "n": 1}, map[string]any{"to": "bob", "n": 2}, map[string]any{"to": "ada", "n": 3}} {
		if out, err = workflow.Send(t.Context(), "r1", "mail", value, rt, nil); out.Status != workflow.StatusPaused {
			t.Fatal(value, out.Status, err)
		}
	}
	want := []string{`signal.dropped answer:paid: step "paid": the answer to external pause "paid" of step "paid": it is not what the step waits for: where is false`}
	if diff := cmp.Diff(want, carriedOut(t, store, "r1")); diff != "" {
		t.Errorf("records (-want +got)\n%s", diff)
	}
	if err := workflow.Signal(t.Context(), "r1", answerOf("paid", "ada", mine), store, nil); err != nil {
		t.Fatal(err)
	}
	out, err = workflow.Recover(t.Context(), "r1", rt, nil)
	if diff := cmp.Diff([]any{int64(7), int64(3), int64(2), int64(1)}, out.Output); diff != "" {
		t.Errorf("%s, %v (-want +got)\n%s", out.Status, err, diff)
	}
}

// A queue that is full takes a value that a step waits for.
func TestWhereOfAFullQueue(t *testing.T) {
	const steps = `channels: {mail: {kind: queue, from: outside}}
steps:
  fill: {uses: send, foreach: {in: "${{ 1..1000 }}"}, with: {channel: mail, value: "${{ item }}"}}
  take: {uses: receive, with: {channel: mail, where: value == 0}}
output: ${{ steps.take.output }}
`
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, NewRunID: func() string { return "r1" }}
	if out, err := load(t, []byte(head+steps)).Run(t.Context(), nil, rt); out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	if _, err := workflow.Send(t.Context(), "r1", "mail", 1, rt, nil); errCode(err) != "channel.full" {
		t.Errorf("a value for nobody: %v", err)
	}
	if out, err := workflow.Send(t.Context(), "r1", "mail", 0, rt, nil); out.Status != workflow.StatusOK || out.Output != int64(0) {
		t.Errorf("a value for the step: %v, %v", out.Output, err)
	}
}

// When nobody approves a call, or answers a question, in the time of the host, the model is told.
func TestApprovalExpires(t *testing.T) {
	t.Run("approval", func(t *testing.T) { expires(t, "{name: test.quick, args: {n: 1}}", "nobody decided in time") })
	t.Run("human.ask", func(t *testing.T) {
		expires(t, "{name: human.ask, args: {question: Which?}}", "error: nobody answered in time")
	})
}

// expires runs an agent whose call waits for a person, who does not come.
func expires(t *testing.T, call, told string) {
	synctest.Test(t, func(t *testing.T) {
		m, err := script.Parse("s.yaml", []byte("turns:\n  - tool_calls: ["+call+"]\n  - {text: done, expect: {contains: \""+told+"\"}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		rt := busy(&checkpoint.Memory{}, &effects{})
		rt.Models = map[string]runtime.Model{"m": m}
		rt.Agents.ApprovalExpires = time.Hour
		const agent = "agents: {a: {model: m, tools: [test.quick, human.ask], approval: {test.quick: pause}}}\nsteps:\n  it: {uses: agent, with: {prompt: go}}\noutput: ${{ steps.it.output.text }}\n"
		out, err := load(t, []byte(head+agent)).Run(t.Context(), nil, rt)
		if out.Status != workflow.StatusPaused || !out.Pauses[0].ExpiresAt.Equal(time.Now().Add(time.Hour)) {
			t.Fatal(out.Status, out.Pauses, err)
		}
		time.Sleep(time.Hour)
		outs, err := workflow.Sweep(t.Context(), rt, nil)
		if err != nil || len(outs) != 1 || outs[0].Output != "done" {
			t.Fatal(outs, err)
		}
	})
}
