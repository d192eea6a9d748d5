package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// trust 1.5: a yes for the run covers later calls of every step, round, item and child, also after a recovery and a
// restart, and answers the open pauses that it covers; a fork and a changed definition ask again. trust 7.5: nothing but
// calls of the tool is covered.
func TestApprovalForTheRun(t *testing.T) {
	const agents = "agents:\n  clerk: {model: m, tools: [t.send, human.ask], approval: {t.send: pause, human.ask: never}}\n" +
		"  boss: {model: m, tools: [], delegates: [clerk]}\n"
	step := func(id, needs, prompt string) string {
		return fmt.Sprintf("  %s: {uses: agent, %swith: {agent: clerk, prompt: '%s'}}\n", id, needs, prompt)
	}
	call, other := `t.send {"n":1}`, `t.send {"n":2}`
	for _, tt := range []struct {
		name, steps string
		interrupt   resume.Interrupt
		open        int // pauses, before the yes
		left        int // after it
		sent        int
	}{
		{name: "steps", steps: step("a", "", call) + step("b", "needs: [a], ", other), open: 1, sent: 2},
		{name: "steps side by side", steps: step("a", "", call) + step("b", "", other) + step("c", "needs: [a, b], ", other), open: 2, sent: 3},
		{name: "calls of one answer", steps: step("a", "", call+"; "+other+"; "+other), open: 3, sent: 3},
		{name: "rounds", steps: "  a:\n    uses: loop\n    with: {max_iterations: 3, steps: {x: {uses: agent, with: {agent: clerk, prompt: '" + call + "'}}}}\n", open: 1, sent: 3},
		{name: "items", steps: "  a: {foreach: {in: [1, 2], as: n}, uses: agent, with: {agent: clerk, prompt: '" + call + "'}}\n", open: 2, sent: 2},
		{name: "a child", steps: "  a: {uses: agent, with: {agent: boss, prompt: 'delegate_clerk {\"task\":\"t.send {\\\"n\\\":1}\"}'}}\n" + step("b", "needs: [a], ", other), open: 1, sent: 2},
		{name: "a restart", steps: step("a", "", call) + step("b", "needs: [a], ", other), interrupt: resume.Restart, open: 1, sent: 2},
		{name: "a restart, two open", steps: step("a", "", call) + step("b", "", other), interrupt: resume.Restart, open: 2, sent: 2},
		{name: "a question stays", steps: step("a", "", call) + step("b", "", `human.ask {"question":"why"}`), open: 2, left: 1, sent: 1},
	} {
		for _, scope := range []string{"run", "session"} {
			t.Run(tt.name+" "+scope, func(t *testing.T) {
				text := runtest.Head + agents + "steps:\n" + tt.steps
				log := &runtest.Effects{}
				rt := runtest.Approving(log)
				rt.Interrupt = tt.interrupt
				out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
				if err != nil || len(out.Pauses) != tt.open || len(log.Lines) > 0 {
					t.Fatalf("%v, pauses %v, sent %v", err, out.Pauses, log.Lines)
				}
				out, err = workflow.Resume(t.Context(), out.Token, runtest.Approval(map[string]any{"scope": scope}), rt, nil)
				if err != nil || len(out.Pauses) != tt.left || len(log.Lines) != tt.sent {
					t.Fatalf("%v, pauses %v, sent %v", err, out.Pauses, log.Lines)
				}
			})
		}
	}
}

// trust 1.5, 7.5: an approval for the run is in the journal: it survives recovery, and ends with a fork and with
// --accept-changed.
func TestApprovalForTheRunEnds(t *testing.T) {
	const text = runtest.Head + `agents: {clerk: {model: m, tools: [t.send], approval: pause}}
steps:
  a: {uses: agent, with: {agent: clerk, prompt: 't.send {"n":1}'}}
  wait: {uses: human, needs: [a], with: {prompt: Sure}}
  b: {uses: agent, needs: [wait], with: {agent: clerk, prompt: 't.send {"n":2}'}}
`
	for _, tt := range []struct {
		name string
		asks bool // step b
		next func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) (*workflow.Outcome, error)
	}{
		{"a recovery", false, func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) (*workflow.Outcome, error) {
			if out, err := workflow.Recover(ctx, out.RunID, rt, nil); err != nil {
				return out, err
			}
			return workflow.Answer(ctx, out.RunID, "wait", runtest.Yes, rt, nil)
		}},
		{"a fork", true, func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) (*workflow.Outcome, error) {
			out, err := workflow.Fork(ctx, out.RunID, "wait", workflow.Edits{}, rt, nil)
			if err != nil {
				return out, err
			}
			return workflow.Resume(ctx, out.Token, runtest.Yes, rt, nil)
		}},
		{"a changed definition", true, func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) (*workflow.Outcome, error) {
			changed := runtest.Load(t, []byte(strings.Replace(text, `"n":2`, `"n":3`, 1)))
			return workflow.Resume(ctx, out.Token, runtest.Yes, rt, &workflow.ResumeOptions{Workflow: changed, AcceptChanged: true})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := &runtest.Effects{}
			rt := runtest.Approving(log)
			out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
			if err == nil {
				out, err = workflow.Resume(t.Context(), out.Token, runtest.Approval(map[string]any{"scope": "run"}), rt, nil)
			}
			if err != nil || len(out.Pauses) != 1 || len(log.Lines) != 1 {
				t.Fatal(out.Pauses, log.Lines, err)
			}
			out, err = tt.next(t.Context(), out, rt)
			if err != nil || (len(out.Pauses) == 1) != tt.asks || len(log.Lines) == 1 != tt.asks {
				t.Errorf("%v, pauses %v, sent %v", err, out.Pauses, log.Lines)
			}
		})
	}
}

// trust 1.5, 7.5: what an answer to a question about a call may say, and what comes of it. An answer that does not fit
// leaves the pause open.
func TestAnswersAboutCalls(t *testing.T) {
	edited := func(args map[string]any) any { return runtest.Approval(map[string]any{"arguments": args}) }
	for _, tt := range []struct {
		name   string
		answer any
		unfit  string // a part of the error; "": it fits
		output string
		sent   []string
	}{
		{"yes", runtest.Yes, "", `sent {"n":1}`, []string{`{"n":1}`}},
		{"a rejection with a reason", map[string]any{"decision": "reject", "form": map[string]any{"reason": "not on Fridays"}}, "",
			`error: tool "t.send" needs an approval: not on Fridays`, nil},
		{"edited", edited(map[string]any{"n": 2, "text": "Hi"}), "", `sent {"n":2,"text":"Hi"}`, []string{`{"n":2,"text":"Hi"}`}},
		{"edited, not by the schema", edited(map[string]any{"n": "two"}), "must be an integer", "", nil},
		{"edited, not by what the schema refers to", edited(map[string]any{"n": 10}), "at most 9", "", nil},
		{"edited, for the run", runtest.Approval(map[string]any{"scope": "run", "arguments": map[string]any{"n": 2}}), "this call only", "", nil},
		{"edited, with a reference", edited(map[string]any{"n": 2, "text": "${{ secrets.KEY }}"}), "refer to a secret", "", nil},
		{"edited, with a secret", edited(map[string]any{"n": 2, "text": "it is correct-horse"}), "hold a secret", "", nil},
		{"edited, refused by a hook", edited(map[string]any{"n": 6}), "", `error: plugin "guard" denies the call of tool "t.send": no six`, nil},
		{"an edited rejection", map[string]any{"decision": "reject", "form": map[string]any{"arguments": map[string]any{"n": 2}}}, "takes a reason", "", nil},
		{"a reason to approve", runtest.Approval(map[string]any{"reason": "fine"}), "for a rejection", "", nil},
		{"another scope", runtest.Approval(map[string]any{"scope": "always"}), "scope", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := &runtest.Effects{}
			rt := runtest.Approving(log)
			rt.Secrets = runtime.SecretMap{"KEY": "correct-horse"}
			rt.Plugins = []runtime.Plugin{{Key: "guard", Hooks: runtime.Hooks{runtime.ToolBefore: func(_ context.Context, m runtime.Moment) error {
				if m.Args["n"] == int64(6) {
					return fmt.Errorf("no six")
				}
				return nil
			}}}}
			wf := runtest.Load(t, []byte(runtest.Head+`requires: {secrets: [KEY]}
agents: {clerk: {model: m, tools: [t.send], approval: pause}}
steps:
  a: {uses: agent, with: {agent: clerk, prompt: 't.send {"n":1}'}}
output: ${{ steps.a.output.text }}
`))
			out, err := wf.Run(t.Context(), nil, rt)
			if err != nil || out.Status != workflow.StatusPaused {
				t.Fatal(out.Status, err)
			}
			token := out.Token
			out, err = workflow.Resume(t.Context(), token, tt.answer, rt, nil)
			if tt.unfit != "" {
				if err == nil || out.Failure().Code != "answer.unfit" || !strings.Contains(err.Error(), tt.unfit) {
					t.Errorf("%v, want an answer that does not fit: %s", err, tt.unfit)
				}
				if out, err = workflow.Resume(t.Context(), token, runtest.Yes, rt, nil); err != nil || out.Status != workflow.StatusOK {
					t.Errorf("the token afterwards: %s, %v", out.Status, err)
				}
				return
			}
			if err != nil || out.Output != tt.output {
				t.Errorf("output %v, %v, want %s", out.Output, err, tt.output)
			}
			if diff := cmp.Diff(tt.sent, log.Lines); diff != "" {
				t.Errorf("sent (-want +got)\n%s", diff)
			}
			if again, err := workflow.Recover(t.Context(), out.RunID, rt, nil); err != nil || again.Output != tt.output || len(log.Lines) != len(tt.sent) {
				t.Errorf("by the journal %v, %v", again.Output, err)
			}
		})
	}
}

// trust 7.5: edited arguments come by a deny of a program and a refusal again.
func TestEditedArgumentsPassTheGatesAgain(t *testing.T) {
	for _, key := range []string{"deny: ['exec.run:rm']", "approval: {exec.run: pause, 'exec.run:rm': refuse}"} {
		calls := 0
		rt := runtest.Approving(&runtest.Effects{})
		rt.Tools = []runtime.Tool{runtest.Tool("exec.run", func(context.Context, map[string]any) (any, error) { calls++; return nil, nil })}
		if !strings.Contains(key, "approval") {
			key += ", approval: pause"
		}
		wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: agent, with: {agent: {model: m, tools: [exec.run], "+key+"}, prompt: 'exec.run {\"argv\":[\"git\"]}'}}\n"))
		out, err := wf.Run(t.Context(), nil, rt)
		if err != nil {
			t.Fatal(err)
		}
		out, err = workflow.Resume(t.Context(), out.Token, runtest.Approval(map[string]any{"arguments": map[string]any{"argv": []any{"rm", "x"}}}), rt, nil)
		text, _ := out.Artefact["a"].(map[string]any)["text"].(string)
		if err != nil || calls > 0 || !strings.HasPrefix(text, "error: tool") {
			t.Errorf("%s: %v, %d calls, %q", key, err, calls, text)
		}
	}
}

type approver func(runtime.ApprovalRequest) (runtime.ApprovalDecision, error)

func (f approver) Approve(_ context.Context, r runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
	return f(r)
}

// trust 1.5: the word of an Approver counts as that of a person: for the run, with a reason, with edited arguments. One
// without a decision leaves the call to others.
func TestApproversDecisions(t *testing.T) {
	for _, tt := range []struct {
		name, approval string
		decision       runtime.ApprovalDecision
		err            error
		asked          int
		output         string // "": paused
	}{
		{"once", "always", runtime.ApprovalDecision{Allow: true}, nil, 2, `sent {"n":2}`},
		{"for the run", "always", runtime.ApprovalDecision{Allow: true, Scope: runtime.ApproveRun}, nil, 1, `sent {"n":2}`},
		{"for the run, by its old name", "pause", runtime.ApprovalDecision{Allow: true, Scope: runtime.ApproveSession}, nil, 1, `sent {"n":2}`},
		{"edited", "always", runtime.ApprovalDecision{Allow: true, Scope: runtime.ApproveRun, Arguments: []byte(` {"n": 7}`)}, nil, 2, `sent {"n":7}`},
		{"edited badly", "always", runtime.ApprovalDecision{Allow: true, Arguments: []byte(`{"n": 70}`)}, nil, 2,
			`error: tool "t.send" needs an approval: the arguments that were approved: /n: must be at most 9`},
		{"edited, with a secret", "always", runtime.ApprovalDecision{Allow: true, Arguments: []byte(`{"n": 7, "text": "correct-horse"}`)}, nil, 2,
			`error: tool "t.send" needs an approval: the arguments that were approved hold a secret`},
		{"no", "always", runtime.ApprovalDecision{Reason: "no"}, nil, 2, `error: tool "t.send" needs an approval: no`},
		{"no decision, always", "always", runtime.ApprovalDecision{}, runtime.ErrNoDecision, 2, `error: tool "t.send" needs an approval: nobody can give it`},
		{"no decision, pause", "pause", runtime.ApprovalDecision{}, runtime.ErrNoDecision, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked, log := 0, &runtest.Effects{}
			rt := runtest.Approving(log)
			rt.Secrets = runtime.SecretMap{"KEY": "correct-horse"}
			rt.Approver = approver(func(r runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
				if asked++; r.Pauses != (tt.approval == "pause") || !slices.Equal(r.Keys, []string{"t.send"}) {
					t.Errorf("request %+v", r)
				}
				return tt.decision, tt.err
			})
			out, err := runtest.Load(t, []byte(runtest.Head+`requires: {secrets: [KEY]}
agents: {clerk: {model: m, tools: [t.send], approval: `+tt.approval+`}}
steps:
  a: {uses: agent, with: {agent: clerk, prompt: 't.send {"n":1}'}}
  b: {uses: agent, needs: [a], with: {agent: clerk, prompt: 't.send {"n":2}'}}
output: ${{ steps.b.output.text }}
`)).Run(t.Context(), nil, rt)
			if paused := tt.output == ""; err != nil || paused != (out.Status == workflow.StatusPaused) || !paused && out.Output != tt.output || asked != tt.asked {
				t.Errorf("%s: output %v, asked %d times, %v", out.Status, out.Output, asked, err)
			}
		})
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
		rt := runtest.Busy(&checkpoint.Memory{}, &runtest.Effects{})
		rt.Models = map[string]runtime.Model{"m": m}
		rt.Agents.ApprovalExpires = time.Hour
		const agent = "agents: {a: {model: m, tools: [test.quick, human.ask], approval: {test.quick: pause}}}\nsteps:\n  it: {uses: agent, with: {prompt: go}}\noutput: ${{ steps.it.output.text }}\n"
		out, err := runtest.Load(t, []byte(runtest.Head+agent)).Run(t.Context(), nil, rt)
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
