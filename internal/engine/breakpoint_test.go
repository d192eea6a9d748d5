package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// stops runs a recipe, continues at each breakpoint, the first in plan order first, and returns the steps before which the
// run paused.
func stops(t *testing.T, text string, breakpoints ...string) (steps []string) {
	t.Helper()
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Breakpoints: breakpoints, Tools: []runtime.Tool{
		runtest.Tool("test.act", func(context.Context, map[string]any) (any, error) { return 1, nil }),
		runtest.Tool("test.bad", func(context.Context, map[string]any) (any, error) { return nil, errors.New("bad") }),
	}, Models: map[string]runtime.Model{"m": &runtimetest.Model{Func: onceModel}}}
	out, _ := runtest.Load(t, []byte(runtest.Head+text)).Run(t.Context(), nil, rt)
	for out.Status == workflow.StatusPaused {
		p := out.Pauses[0]
		steps = append(steps, p.Step)
		out, _ = workflow.Resume(t.Context(), p.Token, map[string]any{"decision": "continue"}, rt, nil)
	}
	if out.Status != workflow.StatusOK {
		t.Errorf("%s, %v", out.Status, out.Err)
	}
	return steps
}

// A breakpoint is the path of a step: for all items and rounds, or for those with the numbers that it has.
func TestBreakpointPaths(t *testing.T) {
	const text = `tools:
  own.book: {description: Book., steps: {c: {uses: test.act}}, output: booked}
steps:
  each: {uses: recipe, foreach: {in: [a, b], max_parallel: 1}, with: {steps: {rounds: {uses: loop, with: {max_iterations: 2, steps: {do: {uses: test.act}}}}}}}
  book: {uses: own.book, needs: [each]}
  late: {uses: set, needs: [book], when: "false", with: 1}
  last: {uses: set, needs: [late], with: 1}
finally: {bye: {uses: say, with: {text: bye}}}
`
	for _, tt := range []struct{ breakpoint, want string }{
		{"each", "each"},
		{"each[1]", "each[1]"},
		{"each[2]", ""}, // there is no such item
		{"each/rounds", "each[0]/rounds each[1]/rounds"},
		{"each[1]/rounds", "each[1]/rounds"},
		{"each/rounds/do", "each[0]/rounds#1/do each[0]/rounds#2/do each[1]/rounds#1/do each[1]/rounds#2/do"},
		{"each[0]/rounds/do", "each[0]/rounds#1/do each[0]/rounds#2/do"},
		{"each/rounds#2/do", "each[0]/rounds#2/do each[1]/rounds#2/do"},
		{"each[1]/rounds#1/do", "each[1]/rounds#1/do"},
		{"book", "book"},
		{"book/c", "book/c"},
		{"late", ""}, // it is skipped
		{"last", ""}, // and so is this
		{"bye", "bye"},
	} {
		if got := strings.Join(stops(t, text, tt.breakpoint), " "); got != tt.want {
			t.Errorf("%s: the run paused before %q, want %q", tt.breakpoint, got, tt.want)
		}
	}
	for _, unknown := range []string{"", "eich", "each/do", "book[0]", "each#1/rounds", "each/rounds[0]/do", "each/rounds#1", "each/", "[0]"} {
		rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Breakpoints: []string{"each", unknown}, Tools: []runtime.Tool{runtest.Tool("test.act", nil)}}
		out, _ := runtest.Load(t, []byte(runtest.Head+text)).Run(t.Context(), nil, rt)
		if e := out.Failure(); e == nil || e.Code != "breakpoint.unknownStep" || len(out.Artefact) > 0 {
			t.Errorf("%q: %s, %v, %v", unknown, out.Status, out.Err, out.Artefact)
		}
		if runs, _ := rt.Store.List(t.Context(), checkpoint.Filter{}); len(runs) > 0 {
			t.Errorf("%q: a run is in the store", unknown)
		}
	}
}

// A step in the body of a tool of the recipe that an agent calls has a path that no plan has. The step of the agent has one.
func TestBreakpointBeforeAnAgent(t *testing.T) {
	text := agentsOnce + "steps: {ask: {uses: agent, with: {agent: caller, prompt: hi}}}\n"
	if got := stops(t, text, "ask"); !slices.Equal(got, []string{"ask"}) {
		t.Errorf("the run paused before %q", got)
	}
}

// While a run is paused before a step, another step fails, or the run is cancelled: the step never begins.
func TestBreakpointIsOver(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		end        func(context.Context, *workflow.Outcome, *runtime.Runtime) *workflow.Outcome
		want       workflow.Status
	}{
		{"another step fails", "steps:\n  pay: {uses: test.pay}\n  ask: {uses: human, with: {prompt: Go?}}\n  bad: {uses: fail, needs: [ask], with: {message: no}}\n",
			func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) *workflow.Outcome {
				i := slices.IndexFunc(out.Pauses, func(p resume.Pause) bool { return p.Step == "ask" })
				out, _ = workflow.Resume(ctx, out.Pauses[i].Token, runtest.Yes, rt, nil)
				return out
			}, workflow.StatusError},
		{"an item fails", "steps:\n  each: {uses: recipe, foreach: {in: [0, 1]}, with: {steps: {pay: {uses: test.pay, when: item == 0}, ask: {uses: human, when: item == 1, with: {prompt: Go?}}, bad: {uses: fail, needs: [ask], with: {message: no}}}}}\n",
			func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) *workflow.Outcome {
				i := slices.IndexFunc(out.Pauses, func(p resume.Pause) bool { return p.Step == "each[1]/ask" })
				out, _ = workflow.Resume(ctx, out.Pauses[i].Token, runtest.Yes, rt, nil)
				return out
			}, workflow.StatusError},
		{"it is cancelled", "steps:\n  pay: {uses: test.pay}\n",
			func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) *workflow.Outcome {
				out, _ = workflow.Cancel(ctx, out.RunID, "enough", rt, nil)
				return out
			}, workflow.StatusCancelled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &checkpoint.Memory{}
			rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Breakpoints: []string{"pay"}, Tools: []runtime.Tool{
				runtimetest.NewTool("test.pay", func(context.Context, json.RawMessage) (any, error) { t.Error("it is paid"); return nil, nil }),
			}}
			if strings.Contains(tt.text, "each") {
				rt.Breakpoints = []string{"each/pay"}
			}
			out, _ := runtest.Load(t, []byte(runtest.Head+tt.text)).Run(t.Context(), nil, rt)
			token := out.Pauses[0].Token
			out = tt.end(t.Context(), out, rt)
			if out.Status != tt.want {
				t.Errorf("%s, %v", out.Status, out.Err)
			}
			for _, e := range out.Trace {
				if e.Kind == "step.start" && strings.HasSuffix(e.Step, "pay") {
					t.Errorf("%s of %s", e.Kind, e.Step)
				}
			}
			if late, _ := workflow.Resume(t.Context(), token, map[string]any{"decision": "continue"}, rt, nil); late.Failure() == nil || late.Failure().Code != "resume.invalidToken" {
				t.Errorf("the token is taken: %s, %v", late.Status, late.Err)
			}
		})
	}
}

// What a pause before a step shows has the names of secrets, not their values; and nothing that is large, or unknown yet.
func TestBreakpointShows(t *testing.T) {
	text := runtest.Head + `steps:
  key: {uses: test.act, with: {key: "Bearer ${{ secrets.KEY }}", n: 1}}
  large: {uses: test.act, with: {text: "${{ join(map(range(0, 9000), 'x' * 8), '') }}"}}
  broken: {uses: test.act, on_error: continue, with: {n: "${{ [1][int('7')] }}"}}
  each: {uses: test.act, foreach: {in: [1]}, with: {n: "${{ item }}"}}
`
	text = strings.Replace(text, "${{ join(map(range(0, 9000), 'x' * 8), '') }}", strings.Repeat("x", 70_000), 1)
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Breakpoints: []string{"key", "large", "broken", "each"},
		Secrets: runtime.SecretMap{"KEY": "hunter2-hunter2"}, Tools: []runtime.Tool{
			runtest.Tool("test.act", func(context.Context, map[string]any) (any, error) { return 1, nil })}}
	out, _ := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
	got := map[string]string{}
	for _, p := range out.Pauses {
		got[p.Step] = fmt.Sprint(p.Show)
	}
	want := map[string]string{"key": "map[key:Bearer ${{ secrets.KEY }} n:1]", "large": "<nil>", "broken": "<nil>", "each": "<nil>"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}
