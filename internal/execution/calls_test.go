package execution_test

import (
	"context"
	"encoding/json"
	"errors"
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

const callsRecipe = runtest.Head + `agents: {clerk: {model: m, tools: [test.look, test.bad]}}
steps:
  act: {uses: agent, with: {agent: clerk, prompt: go}}
  ask: {uses: human, needs: [act], with: {prompt: Well}}
  after: {uses: set, needs: [ask], with: "${{ steps.act.calls }}"}
output: ${{ steps.after.output }}
`

// clerks is a host whose agent calls two tools, one of which fails.
func clerks() *runtime.Runtime {
	tool := func(name string, answer any, err error) runtime.Tool {
		tool := runtimetest.NewTool(name, func(context.Context, json.RawMessage) (any, error) { return answer, err })
		tool.ToolSpec.Effect = runtime.ReadOnly
		return tool
	}
	return &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{},
		Models: map[string]runtime.Model{"m": runtest.Rounds([]runtime.ToolCall{runtest.Wants("test.look", `{"n":1}`), runtest.Wants("test.bad", `{}`)})},
		Tools:  []runtime.Tool{tool("test.look", map[string]any{"found": 2}, nil), tool("test.bad", nil, errors.New("no"))}}
}

// madeCalls checks that the run of callsRecipe is ok and gives the calls of its agent.
func madeCalls(t *testing.T, when string, out *workflow.Outcome, err error) {
	t.Helper()
	want := any([]any{
		map[string]any{"tool": "test.look", "arguments": map[string]any{"n": int64(1)}, "result": `{"found":2}`, "error": nil},
		map[string]any{"tool": "test.bad", "arguments": map[string]any{}, "result": "error: no", "error": "tool.failed"},
	})
	if diff := cmp.Diff(want, out.Output); diff != "" || err != nil {
		t.Errorf("%s (-want +got): %v\n%s", when, err, diff)
	}
}

// serve 14.11: what an agent called is known after a pause, under another definition, in a fork, and in a fork of that.
func TestCallsAreKept(t *testing.T) {
	rt := clerks()
	out, err := runtest.Load(t, []byte(callsRecipe)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	changed := runtest.Load(t, []byte(strings.Replace(callsRecipe, "output:", "  more: {uses: set, with: 1}\noutput:", 1)))
	fork, err := workflow.Fork(t.Context(), out.RunID, "ask", workflow.Edits{}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	fork, err = workflow.Resume(t.Context(), fork.Token, runtest.Yes, rt, &workflow.ResumeOptions{Workflow: changed, AcceptChanged: true})
	madeCalls(t, "in a fork, under another definition", fork, err)
	out, err = workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, &workflow.ResumeOptions{Workflow: changed, AcceptChanged: true})
	madeCalls(t, "under another definition", out, err)
	for _, when := range []string{"in a fork", "in a fork of the fork"} {
		out, err = workflow.Fork(t.Context(), out.RunID, "after", workflow.Edits{}, rt, nil)
		madeCalls(t, when, out, err)
	}
}

// serve 14.11: whichever record is the last of an execution, the next one knows the same calls.
func TestCallsAfterARecovery(t *testing.T) {
	rt := clerks()
	out, err := runtest.Load(t, []byte(callsRecipe)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	sum, recs, err := rt.Store.Load(t.Context(), out.RunID, 0)
	if err != nil || len(recs) < 8 {
		t.Fatal(len(recs), err)
	}
	run := sum.Run
	if run.Definition, err = rt.Store.Definition(t.Context(), run.Digest); err != nil {
		t.Fatal(err)
	}
	for i := range recs {
		recs[i].Seq = 0
	}
	for n := 2; n <= len(recs); n++ {
		next := clerks()
		if _, err := next.Store.Create(t.Context(), run, "gone", 0, recs[1:n]...); err != nil {
			t.Fatal(err)
		}
		out, err := workflow.Recover(t.Context(), run.ID, next, nil)
		if err == nil {
			out, err = workflow.Resume(t.Context(), out.Token, runtest.Yes, next, nil)
		}
		madeCalls(t, "after "+string(recs[n-1].Kind), out, err)
	}
}
