package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

const pausing = runtest.Head + `steps:
  first: {uses: test.act, with: {n: 1}}
  ask: {uses: test.gate, needs: [first], with: {n: 2}}
  beside: {uses: test.act, needs: [first], with: {n: 3}}
  last: {uses: test.act, needs: [ask, beside], with: {n: "${{ steps.ask.output }}"}}
output: "${{ steps.last.output }}"
`

func TestPauseAndResume(t *testing.T) {
	for _, how := range []string{"in the process", "with a cache", "with a store, by the workflow", "with a store, without the recipe"} {
		t.Run(how, func(t *testing.T) {
			log := &runtest.Effects{}
			rt := &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act"), runtest.Gate}, Resume: resume.PassThrough{}}
			switch how {
			case "in the process":
			case "with a cache":
				rt.Cache = &checkpoint.MemoryCache{}
			default:
				rt.Store = &checkpoint.Memory{}
			}
			wf := runtest.Load(t, []byte(pausing))
			out, err := wf.Run(t.Context(), nil, rt)
			if err != nil || out.Status != workflow.StatusPaused || len(out.Pauses) != 1 || out.Token != out.Pauses[0].Token {
				t.Fatalf("%s, %v, %+v", out.Status, err, out.Pauses)
			}
			p := out.Pauses[0]
			if p.Step != "ask" || p.ID != "ask" || p.Prompt != "Continue with 2?" || p.Kind != resume.Human || !strings.HasPrefix(p.Token, out.RunID+".") {
				t.Errorf("pause %+v", p)
			}
			if diff := cmp.Diff(map[string]any{"first": int64(1), "beside": int64(3)}, out.Artefact); diff != "" {
				t.Errorf("artefact (-want +got)\n%s", diff)
			}
			want := []string{"run.start", "step.start first", "adapter.call first kind=tool name=test.act", "step.end first status=succeeded",
				"step.start ask", "adapter.call ask kind=tool name=test.gate", "step.waiting ask pauseKind=human",
				"step.start beside", "adapter.call beside kind=tool name=test.act", "step.end beside status=succeeded",
				"run.paused pauseKind=human step=ask", "run.output type=artefact", "run.end status=paused"}
			if diff := cmp.Diff(want, runtest.LinesOf(out)); diff != "" {
				t.Errorf("trace (-want +got)\n%s", diff)
			}

			answer := map[string]any{"decision": "approve"}
			var again *workflow.Outcome
			if how == "with a store, by the workflow" {
				again, err = wf.Resume(t.Context(), out.Token, answer, rt)
			} else {
				again, err = workflow.Resume(t.Context(), out.Token, answer, rt, nil)
			}
			if err != nil || again.Status != workflow.StatusOK || again.Output != "approve" || again.RunID != out.RunID {
				t.Fatalf("%s, %v, output %v", again.Status, err, again.Output)
			}
			want = []string{"run.start resume=true", "step.replayed first", "step.start ask", "adapter.call ask kind=tool name=test.gate", "step.end ask status=succeeded",
				"step.replayed beside", "step.start last", "adapter.call last kind=tool name=test.act", "step.end last status=succeeded", "run.success", "run.end status=ok"}
			if diff := cmp.Diff(want, runtest.LinesOf(again)); diff != "" {
				t.Errorf("trace of the second execution (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff([]string{"test.act 1", "test.act 3", "test.act approve"}, log.Lines); diff != "" {
				t.Errorf("effects (-want +got)\n%s", diff)
			}
			if out, err := workflow.Resume(t.Context(), out.Token, answer, rt, nil); err == nil || out.Failure().Code != "resume.invalidToken" {
				t.Errorf("a used token: %v", err)
			}
		})
	}
}

const chained = runtest.Head + `steps:
  a: {uses: test.act, with: {n: 1}}
  b: {uses: model, needs: [a], with: {model: m, prompt: hi}}
  c: {uses: test.act, needs: [b], with: {n: "${{ steps.b.output.text }}"}}
  d: {uses: test.look, needs: [c], with: {n: 4}}
output: ["${{ steps.a.output }}", "${{ steps.c.output }}", "${{ steps.d.output }}"]
`

func TestRecoverAfterEachWrite(t *testing.T) {
	undisturbed := &runtest.Effects{}
	runtimeWith := func(log *runtest.Effects, store checkpoint.Store) *runtime.Runtime {
		look := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "test.look", Effect: runtime.ReadOnly}, Func: func(context.Context, json.RawMessage) (any, error) { return "seen", nil }}
		return &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act"), look}, Models: map[string]runtime.Model{"m": runtimetest.Texts("x", "x")},
			Store: store, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}, NewRunID: func() string { return "r1" }}
	}
	wf := runtest.Load(t, []byte(chained))
	whole, err := wf.Run(t.Context(), nil, runtimeWith(undisturbed, &checkpoint.Memory{}))
	if err != nil {
		t.Fatal(err)
	}
	for dies := 0; ; dies++ {
		memory, log := &checkpoint.Memory{}, &runtest.Effects{}
		store := &runtest.Dead{Store: memory, After: dies}
		out, err := wf.Run(t.Context(), nil, runtimeWith(log, store))
		if err == nil {
			if dies < 4 {
				t.Fatalf("only %d writes", dies)
			}
			return
		}
		if out.Failure().Code != "store.failed" {
			t.Fatalf("after %d writes: %v", dies, err)
		}
		out, err = workflow.Recover(t.Context(), "r1", runtimeWith(log, memory), nil)
		for out.Status == workflow.StatusPaused { // what really happened
			p := out.Pauses[0]
			n := map[string]any{"a": int64(1), "c": "x"}[p.Step]
			answer := map[string]any{"decision": "retry"}
			for _, line := range log.Lines {
				if line == fmt.Sprint("test.act ", n) {
					answer = map[string]any{"decision": "result", "form": n}
				}
			}
			out, err = workflow.Resume(t.Context(), out.Token, answer, runtimeWith(log, memory), nil)
		}
		if err != nil || !cmp.Equal(out.Output, whole.Output) || !cmp.Equal(out.Artefact, whole.Artefact) {
			t.Errorf("after %d writes: %v, output %v, artefact %v", dies, err, out.Output, out.Artefact)
		}
		if diff := cmp.Diff(undisturbed.Lines, log.Lines); diff != "" {
			t.Errorf("after %d writes: effects (-want +got)\n%s", dies, diff)
		}
		// Of a run that has ended it returns the outcome.
		ended, err := workflow.Recover(t.Context(), "r1", runtimeWith(log, memory), nil)
		if err != nil || !cmp.Equal(ended.Output, whole.Output) || !cmp.Equal(ended.Artefact, whole.Artefact) {
			t.Errorf("after %d writes: once more: %v, output %v", dies, err, ended.Output)
		}
	}
}

// counting counts the writes to a store.
type counting struct {
	checkpoint.Store
	writes int
}

func (c *counting) Create(ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record) (checkpoint.Lease, error) {
	c.writes++
	return c.Store.Create(ctx, run, owner, ttl, recs...)
}

func (c *counting) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	c.writes++
	return c.Store.Append(ctx, l, after, recs...)
}

func (c *counting) Release(ctx context.Context, l checkpoint.Lease) error {
	c.writes++
	return c.Store.Release(ctx, l)
}

// What only computes is one write; what has an effect is one for each step: its intention and the
// result before it, then the end, and the lease.
func TestWrites(t *testing.T) {
	for _, tt := range []struct {
		steps string
		want  int
	}{
		{"  a: {uses: set, with: 1}\n  b: {uses: set, needs: [a], with: 2}\n", 1},
		{"  a: {uses: human, with: {prompt: Go on}}\n", 1},
		{"  a: {uses: test.act, with: {n: 1}}\n", 3},
		{"  a: {uses: test.act, with: {n: 1}}\n  b: {uses: test.act, needs: [a], with: {n: 2}}\n  c: {uses: test.act, needs: [b], with: {n: 3}}\n", 5},
	} {
		store := &counting{Store: &checkpoint.Memory{}}
		rt := &runtime.Runtime{Tools: []runtime.Tool{(&runtest.Effects{}).External("test.act")}, Store: store}
		out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n"+tt.steps)).Run(t.Context(), nil, rt)
		if err != nil || store.writes != tt.want {
			t.Errorf("%s%d writes, want %d; %v", tt.steps, store.writes, tt.want, err)
		}
		if _, err := store.Claim(t.Context(), out.RunID, "somebody", time.Minute); err != nil && out.Status == workflow.StatusPaused {
			t.Errorf("a paused run is held: %v", err)
		}
	}
}
