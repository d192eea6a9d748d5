package execution_test

import (
	"context"
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

// settling are places where a payment may stand, in a step pay.
var settling = []struct{ name, top, pay, path string }{
	{"a step", "", "{uses: test.pay, needs: [zero], with: {id: 7}}", "pay"},
	{"an item", "", "{uses: test.pay, needs: [zero], foreach: {in: [1]}, with: {id: 7}}", "pay[0]"},
	{"a round", "", "{uses: loop, needs: [zero], with: {max_iterations: 1, steps: {p: {uses: test.pay, with: {id: 7}}}, output: 1}}", "pay#1/p"},
	{"a body", "", "{uses: recipe, needs: [zero], with: {steps: {p: {uses: test.pay, with: {id: 7}}}, output: 1}}", "pay/p"},
	{"a branch", "", "{uses: fork, needs: [zero], with: {branches: {a: {steps: {p: {uses: test.pay, with: {id: 7}}}}}}}", "pay/a/p"},
	{"a case", "", "{uses: switch, needs: [zero], with: {cases: [{name: a, when: 'true', steps: {p: {uses: test.pay, with: {id: 7}}}}]}}", "pay/a/p"},
	{"a step that is rolled back", "", "{uses: test.pay, needs: [zero], with: {id: 7}, rollback: {uses: test.refund}}", "pay"},
	{"an agent's call", settlingAgents, "{uses: agent, needs: [zero], with: {agent: clerk, prompt: go}}", "pay"},
	{"a delegate's call", settlingAgents, "{uses: agent, needs: [zero], with: {agent: chief, prompt: go}}", "pay/clerk#1"},
	{"a tool of the recipe", settlingAgents, "{uses: own.pay, needs: [zero]}", "pay/p"},
	{"an agent's tool of the recipe", settlingAgents, "{uses: agent, needs: [zero], with: {agent: buyer, prompt: go}}", "pay/own.pay#1/p"},
}

const settlingAgents = `tools: {own.pay: {description: Pay., steps: {p: {uses: test.pay, with: {id: 7}}}, output: paid}}
defaults: {model: m}
agents:
  clerk: {tools: [test.pay]}
  chief: {tools: [], delegates: [clerk]}
  buyer: {tools: [own.pay]}
`

// settlingArgs are the arguments of the tools that the model calls.
var settlingArgs = map[string]string{"test.pay": `{"id":7}`, "own.pay": "{}", "delegate_clerk": `{"task":"go"}`}

// till counts payments, whose first outcome is lost.
type till struct{ keys []string }

func (c *till) runtime() *runtime.Runtime {
	pay := runtest.Tool("test.pay", func(ctx context.Context, _ map[string]any) (any, error) {
		if c.keys = append(c.keys, resume.IdempotencyKey(ctx)); len(c.keys) == 1 {
			return nil, runtest.Lost
		}
		return "again", nil
	})
	refund := runtest.Tool("test.refund", func(context.Context, map[string]any) (any, error) { return nil, nil })
	model := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole || len(req.Tools) == 0 {
			return &runtime.Response{Text: "done"}, nil
		}
		for _, t := range req.Tools {
			args, ok := settlingArgs[t.Name]
			if ok {
				return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: "c", Name: t.Name, Arguments: []byte(args)}}}, nil
			}
		}
		return &runtime.Response{Text: "no tool"}, nil
	}}
	return &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Tools: []runtime.Tool{pay, refund},
		Models: map[string]runtime.Model{"m": model}}
}

var byHand = map[string]any{"decision": "result", "form": "settled by hand"}

// settledRun is a run in which a person has given the result of the payment, and that waits for a yes behind it.
func (c *till) settledRun(t *testing.T, text string, rt *runtime.Runtime) (out *workflow.Outcome, first *resume.Call) {
	t.Helper()
	out, err := runtest.Load(t, []byte(text)).Run(t.Context(), map[string]any{"n": 1}, rt)
	if len(out.Pauses) != 1 || out.Pauses[0].Reason != "indeterminate" {
		t.Fatal(out.Status, err, out.Pauses)
	}
	first = out.Pauses[0].Call
	if out, _ = workflow.Resume(t.Context(), out.Token, byHand, rt, nil); len(c.keys) != 1 {
		t.Fatal(out.Err, c.keys)
	}
	return out, first
}

// asksAgain checks that a run asks about the first payment, with the result that was given, and has not paid again.
func (c *till) asksAgain(t *testing.T, how, path string, out *workflow.Outcome, first *resume.Call) {
	t.Helper()
	if len(c.keys) != 1 {
		t.Fatalf("%s: paid %d times", how, len(c.keys))
	}
	if len(out.Pauses) != 1 || out.Pauses[0].Call == nil {
		t.Fatalf("%s: %s, %v, %+v", how, out.Status, out.Err, out.Pauses)
	}
	p := out.Pauses[0]
	want := *first
	want.Given = any(byHand)
	if diff := cmp.Diff(&want, p.Call); diff != "" || p.Step != path || !strings.Contains(p.Prompt, "a person gave its result") ||
		!cmp.Equal(p.Decisions, []string{"retry", "result", "fail"}) {
		t.Errorf("%s: step %q, %q, %v, call (-want +got)\n%s", how, p.Step, p.Prompt, p.Decisions, diff)
	}
}

func settlingText(top, pay, rest string) string {
	return runtest.Head + "inputs: {n: integer}\n" + top + "steps:\n  zero: {uses: set, with: 1}\n  pay: " + pay + "\n" + rest
}

// trust 8.1, 7.8: a fork at the step of a settled call or at one before it, with inputs of its own, and a fork of a fork, ask
// before they make the call again, and show the call, its key and the result that was given.
func TestForksAskBeforeASettledCall(t *testing.T) {
	const ok = "  ok: {uses: human, needs: [pay], with: {prompt: p}}\n"
	for _, tt := range settling {
		t.Run(tt.name, func(t *testing.T) {
			c := &till{}
			rt := c.runtime()
			out, first := c.settledRun(t, settlingText(tt.top, tt.pay, ok), rt)
			if runtest.OnlyPause(t, out, "ok", ""); t.Failed() {
				return
			}
			inputs := workflow.Edits{Inputs: map[string]any{"n": 2}}
			fork := func(id, at string, edits workflow.Edits) *workflow.Outcome {
				f, _ := workflow.Fork(t.Context(), id, at, edits, rt, nil)
				return f
			}
			behind := fork(out.RunID, "ok", workflow.Edits{})
			if runtest.OnlyPause(t, behind, "ok", ""); len(c.keys) != 1 {
				t.Fatal("paid again behind the payment")
			}
			at := fork(out.RunID, "pay", workflow.Edits{})
			for _, f := range []struct {
				how, of, at string
				edits       workflow.Edits
			}{
				{"at", out.RunID, "pay", workflow.Edits{}}, {"before", out.RunID, "zero", workflow.Edits{}}, {"own inputs", out.RunID, "ok", inputs},
				{"a fork of one behind", behind.RunID, "pay", workflow.Edits{}}, {"the same, own inputs", behind.RunID, "pay", inputs},
				{"a fork of one that asks", at.RunID, "pay", workflow.Edits{}},
			} {
				forked := fork(f.of, f.at, f.edits)
				c.asksAgain(t, f.how, tt.path, forked, first)
				recovered, _ := workflow.Recover(t.Context(), forked.RunID, rt, nil)
				c.asksAgain(t, f.how+", recovered", tt.path, recovered, first)
			}
			ended, err := workflow.Resume(t.Context(), at.Token, map[string]any{"decision": "retry"}, rt, nil)
			if runtest.OnlyPause(t, ended, "ok", ""); err != nil || len(c.keys) != 2 || c.keys[1] == c.keys[0] {
				t.Errorf("retry: %v, keys %v", err, c.keys)
			}
			again := fork(ended.RunID, "pay", workflow.Edits{}) // nobody has settled that call
			if runtest.OnlyPause(t, again, "ok", ""); len(c.keys) != 3 {
				t.Errorf("a call that was made again is still settled: %v", c.keys)
			}
		})
	}
}

// trust 8.1: so does a fork of a run that has failed, whether the payment was rolled back or not.
func TestForksOfFailedRunsAskBeforeASettledCall(t *testing.T) {
	const bad = "  bad: {uses: fail, needs: [pay], with: {message: no}}\n"
	for _, tt := range settling {
		t.Run(tt.name, func(t *testing.T) {
			c := &till{}
			rt := c.runtime()
			out, first := c.settledRun(t, settlingText(tt.top, tt.pay, bad), rt)
			if out.Status != workflow.StatusError {
				t.Fatal(out.Status)
			}
			for _, at := range []string{"zero", "pay"} {
				f, _ := workflow.Fork(t.Context(), out.RunID, at, workflow.Edits{}, rt, nil)
				c.asksAgain(t, at, tt.path, f, first)
			}
		})
	}
}

// trust 8.1, 7.8: a run that begins again asks before it makes a settled call again: in each generation, when the answer to
// another step begins it, and when a resume adapter does.
func TestRestartsAskBeforeASettledCall(t *testing.T) {
	for _, tt := range settling {
		for _, how := range []string{"interrupt: restart", "RestartWith"} {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				c := &till{}
				rt := c.runtime()
				if how == "RestartWith" {
					rt.Resume = again{"ok"}
				} else {
					rt.Interrupt = resume.Restart
				}
				text := settlingText(tt.top, tt.pay, "  ok: {uses: human, needs: [pay], with: {prompt: p}}\n  last: {uses: human, needs: [ok], with: {prompt: q}}\n")
				out, _ := c.settledRun(t, text, rt)
				for range 12 {
					if out.Status != workflow.StatusPaused {
						break
					}
					p, answer := out.Pauses[0], runtest.Yes
					if p.Reason == "indeterminate" {
						if answer = byHand; p.Call == nil || !cmp.Equal(p.Call.Given, any(byHand)) || p.Call.Key != c.keys[0] {
							t.Errorf("asked about %+v", p.Call)
						}
					}
					out, _ = workflow.Resume(t.Context(), p.Token, answer, rt, nil)
				}
				if out.Status != workflow.StatusOK || len(c.keys) != 1 {
					t.Errorf("%s, %v, paid %d times", out.Status, out.Err, len(c.keys))
				}
			})
		}
	}
}
