package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// An agent in a run that begins again with each answer: an answer of an earlier generation is used again for exactly the
// same question, and what somebody has said became of a call, or still has to say, comes before that call.
func TestAgentsThatBeginAgain(t *testing.T) {
	const call = `{"n":1}`
	approve := func(scope string) any {
		return map[string]any{"decision": "approve", "form": map[string]any{"scope": scope}}
	}
	said := map[string]any{"decision": "result", "form": "it was sent"}
	for _, tt := range []struct {
		name     string
		approval string
		calls    []string // of t.send, by generation; the last holds for the rest
		unknown  int      // so many calls of t.send end in a way that nobody knows
		answers  []any
		asked    []string // what somebody is asked, in order
		sent     []string // arguments of t.send
		output   string
		changed  bool // trust 2.1: it is said that the answer was for another question
	}{
		{name: "the same call", approval: "pause", calls: []string{call}, answers: []any{approve("once")},
			asked: []string{"clerk wants " + call}, sent: []string{call}, output: "sent"},
		{name: "another call", approval: "pause", calls: []string{call, `{"n":2}`}, answers: []any{approve("once"), approve("once")}, changed: true,
			asked: []string{"clerk wants " + call, `clerk wants {"n":2}`}, sent: []string{`{"n":2}`}, output: "sent"},
		{name: "another call of a tool that was approved for the run", approval: "pause", calls: []string{call, `{"n":2}`}, answers: []any{approve("run")},
			asked: []string{"clerk wants " + call}, sent: []string{`{"n":2}`}, output: "sent"},
		{name: "refused once", approval: "pause", calls: []string{call}, answers: []any{map[string]any{"decision": "reject"}},
			asked: []string{"clerk wants " + call}, output: `error: tool "t.send" needs an approval: the call was refused`},
		{name: "somebody says what became of it", approval: "never", calls: []string{call}, unknown: 1, answers: []any{said},
			asked: []string{"unknown " + call}, sent: []string{call}, output: "it was sent"},
		{name: "it is called again", approval: "never", calls: []string{call}, unknown: 1, answers: []any{map[string]any{"decision": "retry"}},
			asked: []string{"unknown " + call}, sent: []string{call, call}, output: "sent"},
		{name: "it is called again, and again nobody knows", approval: "never", calls: []string{call}, unknown: 2, answers: []any{map[string]any{"decision": "retry"}, said},
			asked: []string{"unknown " + call, "unknown " + call}, sent: []string{call, call}, output: "it was sent"},
		{name: "it fails", approval: "never", calls: []string{call}, unknown: 1, answers: []any{map[string]any{"decision": "fail"}},
			asked: []string{"unknown " + call}, sent: []string{call}, output: "tool.indeterminate"},
		{name: "two, of which one is open", approval: "never", calls: []string{call + call}, unknown: 2, answers: []any{said, said},
			asked: []string{"unknown " + call, "unknown " + call}, sent: []string{call, call}, output: "it was sent"},
		{name: "another call in its place", approval: "never", calls: []string{call, `{"n":2}`}, unknown: 1, answers: []any{said},
			asked: []string{"unknown " + call}, sent: []string{call, `{"n":2}`}, output: "sent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wf := runtest.Load(t, []byte(runtest.Head+`agents: {clerk: {model: m, tools: [t.send], approval: `+tt.approval+`, subagents: false}}
steps:
  ask: {uses: agent, with: {agent: clerk, prompt: go}}
output: ${{ steps.ask.output.text }}
`))
			generation := 0
			m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
				if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole {
					return &runtime.Response{Text: last.Text}, nil
				}
				args := tt.calls[min(generation, len(tt.calls)-1)]
				generation++
				calls := []runtime.ToolCall{runtest.Wants("t.send", args[:len(call)])}
				if len(args) > len(call) {
					calls = append(calls, runtest.Wants("t.send", args[len(call):]))
				}
				return &runtime.Response{ToolCalls: calls}, nil
			}}
			var sent []string
			send := runtimetest.NewTool("t.send", func(_ context.Context, args json.RawMessage) (any, error) {
				if sent = append(sent, string(args)); len(sent) <= tt.unknown {
					return nil, context.DeadlineExceeded
				}
				return "sent", nil
			})
			rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{send}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Interrupt: resume.Restart}
			out, _ := wf.Run(t.Context(), nil, rt)
			var asked []string
			changed := false
			for n := 0; out.Status == workflow.StatusPaused; n++ {
				p := out.Pauses[0]
				show, _ := p.Show.(map[string]any)
				args, _ := json.Marshal(show["arguments"])
				asked = append(asked, fmt.Sprint(map[bool]string{true: "unknown ", false: "clerk wants "}[p.Reason == "indeterminate"], string(args)))
				if n >= len(tt.answers) {
					t.Fatalf("asked for more: %s", asked)
				}
				out, _ = workflow.Resume(t.Context(), out.Token, tt.answers[n], rt, nil)
				changed = changed || len(suggested(out)) > 0
			}
			output, _ := out.Output.(string)
			if out.Err != nil {
				output = out.Failure().Code
			}
			if diff := cmp.Diff([]any{tt.asked, tt.sent, tt.output, tt.changed}, []any{asked, sent, output, changed}); diff != "" {
				t.Errorf("asked, sent, output, another question (-want +got)\n%s", diff)
			}
		})
	}
}

// The process dies after each write of a run with an agent that begins again with each answer. Whoever goes on comes to
// the same end, and no call is made twice under one key.
func TestAgentsBeginAgainAfterEachWrite(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`agents: {clerk: {model: m, tools: [t.send, human.ask], approval: {t.send: pause}, subagents: false}}
steps:
  ask: {uses: agent, with: {agent: clerk, prompt: go}}
output: ${{ steps.ask.output.text }}
`))
	for dies := 0; ; dies++ {
		store, sent, unknown := &checkpoint.Memory{}, map[string]int{}, true
		runtimeWith := func(store checkpoint.Store) *runtime.Runtime {
			send := runtimetest.NewTool("t.send", func(ctx context.Context, _ json.RawMessage) (any, error) {
				if sent[resume.IdempotencyKey(ctx)]++; unknown { // the first of all
					unknown = false
					return nil, context.DeadlineExceeded
				}
				return "sent", nil
			})
			m := runtest.Rounds([]runtime.ToolCall{runtest.Wants("t.send", `{}`)}, []runtime.ToolCall{runtest.Wants("human.ask", `{"question":"Well?"}`)})
			return &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{send}, Store: store, Resume: resume.PassThrough{},
				Interrupt: resume.Restart, Reporter: &runtest.Quiet{}, NewRunID: func() string { return "r1" }}
		}
		// drive answers what is asked; of a call with unknown outcome, that it was sent if it was.
		drive := func(out *workflow.Outcome, rt *runtime.Runtime) *workflow.Outcome {
			for out.Status == workflow.StatusPaused {
				p := out.Pauses[0]
				var answer any = map[string]any{"answer": "yes"}
				switch {
				case p.Reason == "indeterminate" && len(sent) > 0:
					answer = map[string]any{"decision": "result", "form": "sent"}
				case p.Reason == "indeterminate":
					answer = map[string]any{"decision": "retry"}
				case p.Decisions != nil:
					answer = map[string]any{"decision": "approve"}
				}
				out, _ = workflow.Resume(t.Context(), p.Token, answer, rt, nil)
			}
			return out
		}
		mortal := runtest.Claimed{Dead: &runtest.Dead{Store: store, After: dies}}
		rt := runtimeWith(mortal)
		out, _ := wf.Run(t.Context(), nil, rt)
		out = drive(out, rt)
		died := out.Err != nil
		if died {
			rt = runtimeWith(store)
			out, _ = workflow.Recover(t.Context(), "r1", rt, nil)
			out = drive(out, rt)
		}
		if out.Output != "done" {
			t.Errorf("after %d writes: %s, output %v, %v", dies, out.Status, out.Output, out.Err)
		}
		for key, n := range sent {
			if n != 1 {
				t.Errorf("after %d writes: %d calls with the key %s", dies, n, key)
			}
		}
		if len(sent) != 1 { // somebody said that it was sent, and nothing has undone that
			t.Errorf("after %d writes: sent %d times", dies, len(sent))
		}
		if !died {
			if dies < 8 {
				t.Fatalf("only %d writes", dies)
			}
			return
		}
		if t.Failed() {
			return
		}
	}
}

// An agent under another definition restarts: what was answered is used for exactly the same call, and what somebody
// says became of a call is not done again. In a fork nothing else is known of answers.
func TestAnswersUnderAChangedAgent(t *testing.T) {
	const text = runtest.Head + `agents: {clerk: {model: m, instructions: %s, tools: [t.send], approval: %s, subagents: false}}
steps:
  ask: {uses: agent, with: {agent: clerk, prompt: go}}
  after: {uses: set, needs: [ask], with: 1}
output: ${{ steps.ask.output.text }}
`
	approve, said := map[string]any{"decision": "approve"}, map[string]any{"decision": "result", "form": "it was sent"}
	for _, tt := range []struct {
		name, approval string
		then           string // arguments after the change
		unknown        int
		answer         any
		paused         bool // it asks once more
		sent           []string
		output         any
	}{
		{"the same call", "pause", `{"n":1}`, 0, approve, false, []string{`{"n":1}`}, "sent"},
		{"another call", "pause", `{"n":2}`, 0, approve, true, nil, nil},
		{"a call that had its effect", "never", `{"n":1}`, 1, said, false, []string{`{"n":1}`}, "it was sent"},
		{"another call in place of one that had its effect", "never", `{"n":2}`, 1, said, false, []string{`{"n":1}`, `{"n":2}`}, "sent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := `{"n":1}`
			m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
				if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole {
					return &runtime.Response{Text: last.Text}, nil
				}
				return &runtime.Response{ToolCalls: []runtime.ToolCall{runtest.Wants("t.send", args)}}, nil
			}}
			var sent []string
			send := runtimetest.NewTool("t.send", func(_ context.Context, args json.RawMessage) (any, error) {
				if sent = append(sent, string(args)); len(sent) <= tt.unknown {
					return nil, context.DeadlineExceeded
				}
				return "sent", nil
			})
			rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{send}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
			out, err := runtest.Load(t, fmt.Appendf(nil, text, "Be kind.", tt.approval)).Run(t.Context(), nil, rt)
			if out.Status != workflow.StatusPaused {
				t.Fatalf("%s, %v", out.Status, err)
			}
			args = tt.then
			changed := &workflow.ResumeOptions{Workflow: runtest.Load(t, fmt.Appendf(nil, text, "Be brief.", tt.approval)), AcceptChanged: true}
			out, err = workflow.Resume(t.Context(), out.Token, tt.answer, rt, changed)
			if diff := cmp.Diff([]any{tt.paused, tt.sent, tt.output}, []any{out.Status == workflow.StatusPaused, sent, out.Output}); diff != "" || err != nil {
				t.Errorf("%v, paused, sent, output (-want +got)\n%s", err, diff)
			}
			if tt.paused {
				return
			}
			// A fork after it takes the agent's answer over; one at it is asked itself, and about the call that somebody settled (trust 8.1).
			before := len(sent)
			after, err := workflow.Fork(t.Context(), out.RunID, "after", workflow.Edits{}, rt, nil)
			if err != nil || after.Output != tt.output || len(sent) != before {
				t.Errorf("fork after the agent: %v, %v, %d calls", after.Output, err, len(sent)-before)
			}
			at, err := workflow.Fork(t.Context(), out.RunID, "ask", workflow.Edits{}, rt, nil)
			if asks := tt.approval == "pause" || tt.output == "it was sent"; err != nil || (at.Status == workflow.StatusPaused) != asks || (len(sent) == before) != asks {
				t.Errorf("fork at the agent: %s, %v, %d calls", at.Status, err, len(sent)-before)
			}
		})
	}
}
