package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// single writes one record after the other, and dies after some.
type single struct{ runtest.Claimed }

func (s single) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	for i, rec := range recs {
		if err := s.Claimed.Append(ctx, l, after+int64(i), rec); err != nil {
			return err
		}
	}
	return nil
}

// An agent is stopped in the middle: by its step's time, by a race that it loses, by what fails beside it. The process
// dies after each record of that. Whoever goes on finds a journal to go on from, and comes to an end that is right; a
// call with unknown outcome is not made again by itself.
func TestAgentsStoppedInTheMiddle(t *testing.T) {
	const agents = runtest.Head + "agents: {clerk: {model: m, tools: [t.send, t.look, human.ask], tool_concurrency: 2, subagents: false}}\nsteps:\n"
	for _, tt := range []struct {
		name, steps string
		status      workflow.Status
		outputs     []any // one of them, where it depends on when the process died
	}{
		{"a timeout", `  ask: {uses: agent, timeout: 3s, on_error: {set: {text: late}}, with: {agent: clerk, prompt: slow}}
  after: {uses: t.look, needs: [ask]}
output: ${{ steps.ask.output.text }}
`, workflow.StatusOK, []any{"late", "done"}},
		{"a race", `  ask:
    uses: fork
    with:
      mode: race
      branches:
        quick: {steps: {q: {uses: t.sleep}}, output: quick}
        slow: {steps: {s: {uses: agent, with: {agent: clerk, prompt: slow}}}, output: "${{ steps.s.output.text }}"}
        person: {steps: {p: {uses: agent, with: {agent: clerk, prompt: person}}}, output: "${{ steps.p.output.text }}"}
  after: {uses: t.look, needs: [ask]}
output: ${{ steps.ask.output.output }}
`, workflow.StatusOK, []any{"quick", "done"}},
		{"a failure beside it", `  ask:
    uses: fork
    with:
      branches:
        bad: {steps: {q: {uses: t.sleep}, b: {uses: fail, needs: [q], with: {message: no}}}}
        slow: {steps: {s: {uses: agent, with: {agent: clerk, prompt: slow}}}}
        person: {steps: {p: {uses: agent, with: {agent: clerk, prompt: person}}}}
`, workflow.StatusError, []any{nil}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for dies := 0; ; dies++ {
				died := false
				synctest.Test(t, func(t *testing.T) {
					defer time.Sleep(time.Hour) // by then what was left behind has ended
					var mutex sync.Mutex
					sent := map[string]int{}
					send := runtimetest.NewTool("t.send", func(ctx context.Context, _ json.RawMessage) (any, error) {
						mutex.Lock()
						sent[resume.IdempotencyKey(ctx)]++
						mutex.Unlock()
						select {
						case <-time.After(time.Minute):
						case <-ctx.Done():
						}
						return nil, ctx.Err()
					})
					reading := func(name string, takes time.Duration) runtime.Tool {
						return &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: name, Effect: runtime.ReadOnly}, Func: func(context.Context, json.RawMessage) (any, error) {
							time.Sleep(takes)
							return name, nil
						}}
					}
					m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
						switch last := req.Messages[len(req.Messages)-1]; {
						case last.Role == runtime.ToolRole:
							return &runtime.Response{Text: "done"}, nil
						case last.Text == "person":
							return &runtime.Response{ToolCalls: []runtime.ToolCall{runtest.Wants("human.ask", `{"question":"?"}`)}}, nil
						}
						return &runtime.Response{ToolCalls: []runtime.ToolCall{runtest.Wants("t.look", `{}`), runtest.Wants("t.send", `{}`)}}, nil
					}}
					store := &checkpoint.Memory{}
					runtimeWith := func(store checkpoint.Store) *runtime.Runtime {
						return &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{send, reading("t.look", 0), reading("t.sleep", 2*time.Second)},
							Store: store, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}, NewRunID: func() string { return "r1" }}
					}
					out, _ := runtest.Load(t, []byte(agents+tt.steps)).Run(t.Context(), nil, runtimeWith(single{runtest.Claimed{Dead: &runtest.Dead{Store: store, After: dies}}}))
					if died = runtest.ErrorCode(out) == "store.failed"; died {
						out, _ = workflow.Recover(t.Context(), "r1", runtimeWith(store), nil)
					}
					for out.Status == workflow.StatusPaused {
						p := out.Pauses[len(out.Pauses)-1]
						var answer any = map[string]any{"answer": "yes"}
						if p.Decisions != nil {
							answer = map[string]any{"decision": p.Decisions[0]}
							if slices.Contains(p.Decisions, "result") {
								answer = map[string]any{"decision": "result", "form": "sent"}
							}
						}
						out, _ = workflow.Resume(t.Context(), p.Token, answer, runtimeWith(store), nil)
					}
					right := false
					for _, want := range tt.outputs {
						right = right || cmp.Equal(out.Output, want)
					}
					if out.Status != tt.status || !right || runtest.ErrorCode(out) == "journal.corrupt" {
						t.Errorf("died after %d records: %s, output %v, %v", dies, out.Status, out.Output, out.Err)
					}
					for key, n := range sent {
						if n != 1 {
							t.Errorf("died after %d records: %d calls with the key %s", dies, n, key)
						}
					}
					if again, _ := workflow.Recover(t.Context(), "r1", runtimeWith(store), nil); again.Status != out.Status || fmt.Sprint(again.Output) != fmt.Sprint(out.Output) {
						t.Errorf("died after %d records: recovered once more, %s %v, %v", dies, again.Status, again.Output, again.Err)
					}
				})
				if t.Failed() {
					return
				}
				if !died {
					if dies < 10 {
						t.Fatalf("only %d records", dies)
					}
					return
				}
			}
		})
	}
}
