package execution_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

const changing = runtest.Head + `steps:
  first: {uses: test.act, with: {n: 1}}
  second: {uses: test.act, with: {n: 2}}
  ask: {uses: human, needs: [first], with: {prompt: Go on}}
  last: {uses: test.act, needs: [ask, second], with: {n: "${{ steps.ask.output.decision }}"}}
output: ["${{ steps.first.output }}", "${{ steps.second.output }}", "${{ steps.last.output }}"]
`

func TestAcceptChanged(t *testing.T) {
	approve := map[string]any{"decision": "approve"}
	for _, tt := range []struct {
		name     string
		old, new string // what is replaced
		effects  []string
		output   any
	}{
		{"what follows", "{n: \"${{ steps.ask.output.decision }}\"}", "{n: \"${{ steps.ask.output.decision }}!\"}", []string{"test.act approve!"}, []any{int64(1), int64(2), "approve!"}},
		{"what is beside", "{n: 2}", "{n: 3}", []string{"test.act 3", "test.act approve"}, []any{int64(1), int64(3), "approve"}},
		{"what came before", "{n: 1}", "{n: 4}", []string{"test.act 4", "test.act approve"}, []any{int64(4), int64(2), "approve"}},
		{"a new step", "output: [", "  new: {uses: test.act, with: {n: 9}}\noutput: [", []string{"test.act 9", "test.act approve"}, []any{int64(1), int64(2), "approve"}},
	} {
		for _, store := range []string{"memory", "sqlite"} {
			t.Run(tt.name+", "+store, func(t *testing.T) {
				log := &runtest.Effects{}
				rt := &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act")}, Resume: resume.PassThrough{}, Store: namedStore(t, store), Limits: runtime.Limits{MaxParallel: 1}}
				out, err := runtest.Load(t, []byte(changing)).Run(t.Context(), nil, rt)
				if err != nil || out.Status != workflow.StatusPaused {
					t.Fatal(out.Status, err)
				}
				log.Lines = nil
				changed := runtest.Load(t, []byte(strings.Replace(changing, tt.old, tt.new, 1)))
				if refused, err := workflow.Resume(t.Context(), out.Token, approve, rt, &workflow.ResumeOptions{Workflow: changed}); err == nil || refused.Failure().Code != "resume.definitionChanged" {
					t.Fatalf("not accepted: %v", err)
				}
				opts := &workflow.ResumeOptions{Workflow: changed, AcceptChanged: true}
				got, err := workflow.Resume(t.Context(), out.Token, approve, rt, opts)
				if err != nil || !cmp.Equal(got.Output, tt.output) {
					t.Fatalf("%s, output %v, %v", got.Status, got.Output, err)
				}
				slices.Sort(log.Lines)
				if diff := cmp.Diff(tt.effects, log.Lines); diff != "" {
					t.Errorf("effects (-want +got)\n%s", diff)
				}
				if again, err := workflow.Resume(t.Context(), out.Token, approve, rt, opts); err == nil || again.Failure().Code != "resume.invalidToken" {
					t.Errorf("the used token: %v", err)
				}
				// The journal holds the new definition, and what is left of the old one.
				whole, err := workflow.Recover(t.Context(), out.RunID, rt, nil)
				if err != nil || !cmp.Equal(whole.Output, tt.output) || len(log.Lines) != len(tt.effects) {
					t.Errorf("recovered: output %v, %v, effects %v", whole.Output, err, log.Lines)
				}
			})
		}
	}
}

// A call with unknown outcome is not made again without a person's word, however the
// definition changes.
func TestAcceptChangedAsksAboutCalls(t *testing.T) {
	const plain = `steps:
  send: {uses: test.send, with: {to: Ann}}
  note: {uses: set, with: OLD}
output: ${{ steps.send.output }}
`
	const agent = `steps:
  send: {uses: agent, with: {agent: {model: m, tools: [test.send], instructions: OLD}, prompt: go}}
output: ${{ steps.send.output.text }}
`
	for name, text := range map[string]string{"a step": plain, "an agent that changes": agent} {
		for _, decision := range []string{"result", "retry"} {
			t.Run(name+", "+decision, func(t *testing.T) {
				sent := 0
				send := runtimetest.NewTool("test.send", func(context.Context, json.RawMessage) (any, error) {
					if sent++; sent == 1 {
						return nil, runtest.Lost
					}
					return "sent", nil
				})
				m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
					if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole {
						return &runtime.Response{Text: last.Text}, nil
					}
					return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "test.send", Arguments: json.RawMessage(`{"to":"Ann"}`)}}}, nil
				}}
				rt := &runtime.Runtime{Store: new(checkpoint.Memory), Resume: resume.PassThrough{}, Tools: []runtime.Tool{send}, Models: map[string]runtime.Model{"m": m}}
				out, err := runtest.Load(t, []byte(runtest.Head+text)).Run(t.Context(), nil, rt)
				if err != nil || out.Status != workflow.StatusPaused || sent != 1 {
					t.Fatal(out.Status, err, sent)
				}
				opts := &workflow.ResumeOptions{Workflow: runtest.Load(t, []byte(runtest.Head+strings.Replace(text, "OLD", "NEW", 1))), AcceptChanged: true}

				out, err = workflow.Recover(t.Context(), out.RunID, rt, opts) // nobody has said anything
				if err != nil || out.Status != workflow.StatusPaused || sent != 1 {
					t.Fatalf("recovered: %s, %v, sent %d times", out.Status, err, sent)
				}
				answer, want := map[string]any{"decision": decision}, []any{"sent", 2}
				if decision == "result" {
					answer["form"], want = "it was sent", []any{"it was sent", 1}
				}
				opts.Workflow = runtest.Load(t, []byte(runtest.Head+strings.Replace(text, "OLD", "NEWER", 1)))
				out, err = workflow.Resume(t.Context(), out.Token, answer, rt, opts)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, []any{out.Output, sent}); diff != "" {
					t.Errorf("output, sent (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A run is cancelled under the definition that it has: a change would run steps again instead.
func TestCancelTakesNoChange(t *testing.T) {
	log := &runtest.Effects{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act")}, Resume: resume.PassThrough{}, Store: new(checkpoint.Memory)}
	out, err := runtest.Load(t, []byte(changing)).Run(t.Context(), nil, rt)
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	log.Lines = nil
	opts := &workflow.ResumeOptions{Workflow: runtest.Load(t, []byte(strings.Replace(changing, "{n: 1}", "{n: 4}", 1))), AcceptChanged: true}
	refused, err := workflow.Cancel(t.Context(), out.RunID, "", rt, opts)
	if err == nil || refused.Failure().Code != "resume.definitionChanged" || !strings.HasSuffix(err.Error(), "\n  hint: cancel it without the new one") {
		t.Errorf("with another definition: %s, %v", refused.Status, err)
	}
	if done, err := workflow.Cancel(t.Context(), out.RunID, "", rt, nil); err == nil || done.Status != workflow.StatusCancelled || len(log.Lines) != 0 {
		t.Errorf("%s, %v, effects %v", done.Status, err, log.Lines)
	}
}

// The end of a run is that of the definition that it has.
func TestEndTakesNoChange(t *testing.T) {
	const text = "steps:\n  send: {uses: test.send, with: {to: Ann}}\nfinally:\n  seen: {uses: human, with: {prompt: Seen?}}\n"
	approve := map[string]any{"decision": "approve"}
	for _, tt := range []struct {
		name   string
		fails  error
		status workflow.Status
		hint   string
	}{
		{"finally", nil, workflow.StatusOK, "has ended but for its finally"},
		{"cancelled", runtest.Lost, workflow.StatusCancelled, "was cancelled, and only its rollbacks and its finally are left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			send := runtimetest.NewTool("test.send", func(context.Context, json.RawMessage) (any, error) { return "sent", tt.fails })
			rt := &runtime.Runtime{Store: new(checkpoint.Memory), Resume: resume.PassThrough{}, Tools: []runtime.Tool{send}}
			out, err := runtest.Load(t, []byte(runtest.Head+text)).Run(t.Context(), nil, rt)
			if tt.fails != nil {
				out, err = workflow.Cancel(t.Context(), out.RunID, "", rt, nil)
			}
			if out.Status != workflow.StatusPaused {
				t.Fatal(out.Status, err)
			}
			opts := &workflow.ResumeOptions{Workflow: runtest.Load(t, []byte(runtest.Head+strings.Replace(text, "Ann", "Bob", 1))), AcceptChanged: true}
			refused, err := workflow.Recover(t.Context(), out.RunID, rt, opts)
			if err == nil || refused.Failure().Code != "resume.definitionChanged" || !strings.Contains(err.Error(), tt.hint) {
				t.Errorf("with another definition: %s, %v", refused.Status, err)
			}
			if tt.fails != nil {
				out, _ = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "fail"}, rt, nil)
			}
			if out, err = workflow.Resume(t.Context(), out.Token, approve, rt, nil); out.Status != tt.status {
				t.Errorf("%s, %v", out.Status, err)
			}
		})
	}
}

// A fork shares nothing of a step that says something else now.
func TestForkOfChanged(t *testing.T) {
	log := &runtest.Effects{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act")}, Resume: resume.PassThrough{}, Store: new(checkpoint.Memory), Limits: runtime.Limits{MaxParallel: 1}}
	out, err := runtest.Load(t, []byte(changing)).Run(t.Context(), nil, rt)
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	log.Lines = nil
	opts := &workflow.ResumeOptions{Workflow: runtest.Load(t, []byte(strings.Replace(changing, "{n: 2}", "{n: 3}", 1))), AcceptChanged: true}
	fork, err := workflow.Fork(t.Context(), out.RunID, "last", workflow.Edits{}, rt, opts)
	if err != nil || fork.Status != workflow.StatusPaused {
		t.Fatal(fork.Status, err)
	}
	if diff := cmp.Diff([]string{"test.act 3"}, log.Lines); diff != "" {
		t.Errorf("effects (-want +got)\n%s", diff)
	}
}
