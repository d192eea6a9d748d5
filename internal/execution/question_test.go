package execution_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// suggested lists the old answers that diagnostics about other questions offer, by step.
func suggested(out *workflow.Outcome) map[string]any {
	list := map[string]any{}
	for _, d := range out.Diagnostics {
		if d.Code == "resume.questionChanged" {
			list[d.Step] = d.Data["answer"]
		}
	}
	return list
}

var (
	asRecorded = map[string]any{"decision": "approve", "form": nil} // yes, as it is recorded
)

// trust 2.1: with an interrupt that begins the run again, an answer is used for the question that was shown, and for no
// other: another prompt, another thing to look at, another form, other decisions are asked about again.
func TestRestartAsksAnotherQuestionAgain(t *testing.T) {
	for _, tt := range []struct {
		name, ask string
		again     bool
	}{
		{"the same", "{uses: human, needs: [draft], with: {prompt: Send it, show: {to: Ann}}}", false},
		{"the prompt", `{uses: human, with: {prompt: "Send ${{ steps.draft.output }}"}}`, true},
		{"what is shown", `{uses: human, with: {prompt: Send, show: {text: "${{ steps.draft.output }}"}}}`, true},
		{"a tool's pause", `{uses: test.gate, with: {n: "${{ steps.draft.output }}"}}`, true},
		{"a tool's pause, the same", "{uses: test.gate, needs: [draft], with: {n: 1}}", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			drafts := 0
			draft := runtest.Tool("test.draft", func(context.Context, map[string]any) (any, error) {
				drafts++
				return fmt.Sprint("draft ", min(drafts, 2)), nil
			})
			log := &runtest.Effects{}
			rt := &runtime.Runtime{Tools: []runtime.Tool{draft, runtest.Gate, log.External("test.act")}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Interrupt: resume.Restart}
			out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  draft: {uses: test.draft}\n  ask: "+tt.ask+
				"\n  send: {uses: test.act, needs: [ask], with: {n: '${{ steps.draft.output }}'}}\n")).Run(t.Context(), nil, rt)
			if err != nil || out.Status != workflow.StatusPaused {
				t.Fatal(out.Status, err)
			}
			if out, err = workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, nil); err != nil {
				t.Fatal(err)
			}
			if !tt.again {
				if out.Status != workflow.StatusOK || len(suggested(out)) > 0 {
					t.Fatalf("%s, %v", out.Status, out.Diagnostics)
				}
				return
			}
			want := map[string]any{"ask": any(asRecorded)}
			if out.Status != workflow.StatusPaused || len(log.Lines) > 0 || !cmp.Equal(suggested(out), want) {
				t.Fatalf("%s, effects %v, suggested %v", out.Status, log.Lines, suggested(out))
			}
			// The third generation shows what the second did.
			if out, err = workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, nil); err != nil || out.Status != workflow.StatusOK {
				t.Fatal(out.Status, err)
			}
			if diff := cmp.Diff([]string{"test.act draft 2"}, log.Lines); diff != "" {
				t.Errorf("effects (-want +got)\n%s", diff)
			}
		})
	}
}

// Under a changed definition the answer that comes with it is for the question of the old one: the token is used, and
// the new question asked, with a token of its own. The same question needs no second answer.
func TestAcceptChangedAsksAnotherQuestionAgain(t *testing.T) {
	const text = runtest.Head + `steps:
  draft: {uses: set, with: Dear Ada}
  ask: {uses: human, with: {prompt: Send it, show: "${{ steps.draft.output }}", decisions: [approve, reject]}}
  send: {uses: test.act, needs: [ask], with: {n: "${{ steps.draft.output }}"}}
output: ${{ steps.send.output }}
`
	for _, tt := range []struct {
		old, new string
		again    bool
		output   any
	}{
		{"Dear Ada", "Transfer it all", true, "Transfer it all"},
		{"Send it,", "Really,", true, "Dear Ada"},
		{"[approve, reject]", "[approve, reject, later]", true, "Dear Ada"},
		{"decisions:", "form: {type: object}, decisions:", true, "Dear Ada"},
		{"{n: \"", "{n: \"P.S. ", false, "P.S. Dear Ada"},
		{"prompt: Send it,", "prompt: Send it, expires: 2h,", false, "Dear Ada"},
	} {
		t.Run(tt.new, func(t *testing.T) {
			log := &runtest.Effects{}
			rt := &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act")}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
			out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
			if err != nil {
				t.Fatal(err)
			}
			token := out.Token
			opts := &workflow.ResumeOptions{Workflow: runtest.Load(t, []byte(strings.Replace(text, tt.old, tt.new, 1))), AcceptChanged: true}
			out, err = workflow.Resume(t.Context(), token, runtest.Yes, rt, opts)
			if err != nil {
				t.Fatal(err)
			}
			if tt.again {
				if out.Status != workflow.StatusPaused || len(log.Lines) > 0 || !cmp.Equal(suggested(out), map[string]any{"ask": any(asRecorded)}) {
					t.Fatalf("%s, effects %v, suggested %v", out.Status, log.Lines, suggested(out))
				}
				if used, err := workflow.Resume(t.Context(), token, runtest.Yes, rt, opts); err == nil || used.Failure().Code != "resume.invalidToken" {
					t.Errorf("the old token: %v", err)
				}
				form := map[string]any{"decision": "approve", "form": map[string]any{}}
				if out, err = workflow.Resume(t.Context(), out.Token, form, rt, nil); err != nil {
					t.Fatal(err)
				}
			}
			if out.Output != tt.output || len(log.Lines) != 1 {
				t.Errorf("output %v, effects %v", out.Output, log.Lines)
			}
		})
	}
}

// A fork with another output of a step before the question asks again; without, the answer stands.
func TestForkAsksAnotherQuestionAgain(t *testing.T) {
	log := &runtest.Effects{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo, log.External("test.act")}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  draft: {uses: test.echo, with: {text: Dear Ada}}
  ask: {uses: human, with: {prompt: Send it, show: "${{ steps.draft.output }}"}}
  send: {uses: test.act, needs: [ask], with: {n: "${{ steps.draft.output.text }}"}}
`)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	if out, err = workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, nil); err != nil {
		t.Fatal(err)
	}
	edits := workflow.Edits{Outputs: map[string]any{"draft": map[string]any{"text": "Transfer it all"}}}
	fork, err := workflow.Fork(t.Context(), out.RunID, "send", edits, rt, nil)
	if err != nil || fork.Status != workflow.StatusPaused || !cmp.Equal(suggested(fork), map[string]any{"ask": any(asRecorded)}) {
		t.Errorf("%s, %v, suggested %v", fork.Status, err, suggested(fork))
	}
	same, err := workflow.Fork(t.Context(), out.RunID, "send", workflow.Edits{}, rt, nil)
	if err != nil || same.Status != workflow.StatusOK || len(suggested(same)) > 0 {
		t.Errorf("without edits: %s, %v", same.Status, err)
	}
	if diff := cmp.Diff([]string{"test.act Dear Ada", "test.act Dear Ada"}, log.Lines); diff != "" {
		t.Errorf("effects (-want +got)\n%s", diff)
	}
}
