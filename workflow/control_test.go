package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// slow takes the milliseconds in its argument ms, then fails with the text in fail, or gives n. It notes
// when it was told to stop.
func slow(log *runtest.Effects) runtime.Tool {
	return runtest.Tool("test.slow", func(ctx context.Context, args map[string]any) (any, error) {
		ms, _ := args["ms"].(int64)
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-ctx.Done():
			log.Add(fmt.Sprint("stopped ", args["n"], ": ", context.Cause(ctx)))
			return nil, ctx.Err()
		}
		if text, ok := args["fail"].(string); ok {
			return nil, errors.New(text)
		}
		return args["n"], nil
	})
}

// The modes of a fork with calls that are under way: what ends first decides, at that time.
func TestForkModes(t *testing.T) {
	const decided = ": cancelled: another branch has decided the fork"
	branch := func(name, with string) string {
		return fmt.Sprintf("        %s: {steps: {s: {uses: test.slow, with: {n: %[1]s, %s}}}, output: \"${{ steps.s.output }}\"}\n", name, with)
	}
	for _, tt := range []struct {
		name, mode, branches string
		output               any
		fails, step          string
		stopped              []string
		took                 time.Duration
	}{
		{"all", "all", branch("a", "ms: 3") + branch("b", "ms: 1"), map[string]any{"a": "a", "b": "b"}, "", "", nil, 3},
		{"all, one fails", "all", branch("a", "ms: 9") + branch("b", "ms: 2, fail: no") + branch("c", "ms: 1"), nil,
			"branches failed: b: no; cancelled: a; succeeded: c", "fork/b/s", []string{"stopped a" + decided}, 2},
		{"all, one fails while another is queued", "all, max_parallel: 2", branch("a", "ms: 9") + branch("b", "ms: 2, fail: no") + branch("c", "ms: 1"), nil,
			"branches failed: b: no; cancelled: a, c", "fork/b/s", []string{"stopped a" + decided}, 2},
		{"all, both fail", "all", branch("a", "ms: 2, fail: late") + branch("b", "ms: 1, fail: early"), nil,
			"branches failed: b: early; cancelled: a", "fork/b/s", []string{"stopped a" + decided}, 1},
		{"race", "race", branch("a", "ms: 9") + branch("b", "ms: 1, fail: no") + branch("c", "ms: 2"), map[string]any{"winner": "c", "output": "c"},
			"", "", []string{"stopped a" + decided}, 2},
		{"race, all fail", "race", branch("a", "ms: 2, fail: late") + branch("b", "ms: 1, fail: early"), nil, "branches failed: a: late; b: early", "fork/a/s", nil, 2},
		{"race, one after the other", "race, max_parallel: 1", branch("a", "ms: 5, fail: no") + branch("b", "ms: 2") + branch("c", "ms: 1"),
			map[string]any{"winner": "b", "output": "b"}, "", "", nil, 7},
		{"settle", "settle", branch("a", "ms: 2, fail: no") + branch("b", "ms: 4"), map[string]any{
			"a": map[string]any{"status": "failed", "error": map[string]any{"category": "tool", "code": "tool.failed", "message": "no"}},
			"b": map[string]any{"status": "succeeded", "output": "b"}}, "", "", nil, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, began := &runtest.Effects{}, time.Now()
				wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  fork:\n    uses: fork\n    with:\n      mode: "+strings.ReplaceAll(tt.mode, ", ", "\n      ")+"\n      branches:\n"+tt.branches+"output: ${{ steps.fork.output }}\n"))
				out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{slow(log)}})
				if took := time.Since(began); took != tt.took*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				if diff := cmp.Diff(tt.output, out.Output); diff != "" {
					t.Errorf("output (-want +got)\n%s", diff)
				}
				if tt.fails != "" && (err == nil || out.Failure().Err.Error() != tt.fails || out.Failure().Step != tt.step || out.Failure().Category != runtime.CategoryTool) {
					t.Errorf("error %+v", out.Failure())
				}
				if tt.fails == "" && err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(tt.stopped, log.Lines); diff != "" {
					t.Errorf("stopped (-want +got)\n%s", diff)
				}
			})
		})
	}
}

// A fork that is itself told to stop, by a timeout, a failure beside it or its caller, stops all its branches.
func TestForkIsStopped(t *testing.T) {
	branches := "branches: {a: {steps: {x: {uses: test.slow, with: {n: a, ms: 9000}}}}, b: {steps: {y: {uses: human, with: {prompt: why}}}}, c: {steps: {}}}"
	for _, mode := range []string{"all", "race, max_parallel: 2", "settle"} {
		if strings.HasPrefix(mode, "race") {
			branches = strings.ReplaceAll(branches, ", c: {steps: {}}", "")
		}
		for name, tt := range map[string]struct{ step, code string }{
			"timeout": {"fork: {uses: fork, timeout: 5ms, with: {mode: " + mode + ", " + branches + "}}", "step.timeout"},
			"beside":  {"fork: {uses: fork, with: {mode: " + mode + ", " + branches + "}}\n  boom: {uses: test.slow, with: {ms: 1, fail: no}}", "tool.failed"},
			"caller":  {"fork: {uses: fork, with: {mode: " + mode + ", " + branches + "}}", "run.cancelled"},
		} {
			t.Run(mode+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := t.Context()
					if name == "caller" {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
						defer cancel()
					}
					log := &runtest.Effects{}
					rt := &runtime.Runtime{Tools: []runtime.Tool{slow(log)}}
					rt.Limits.Grace = 2 * time.Millisecond
					out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  "+tt.step+"\n")).Run(ctx, nil, rt)
					if err == nil || out.Failure().Code != tt.code || len(out.Pauses) > 0 || len(log.Lines) != 1 {
						t.Errorf("%v, %s, pauses %v, %q", err, out.Status, out.Pauses, log.Lines)
					}
				})
			})
		}
	}
}

// elapsed goes by the times in the journal, those of waits included.
func TestLoopElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &runtime.Runtime{Tools: []runtime.Tool{slow(nil)}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
		out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  before: {uses: test.slow, with: {ms: 5000}}
  poll:
    uses: loop
    needs: [before]
    with: {steps: {look: {uses: test.slow, with: {ms: 1000}}, ask: {uses: human, needs: [look], when: iteration == 2, with: {prompt: hm}}}, until: elapsed >= 13.5, max_iterations: 99}
output: ${{ steps.poll.output.iterations }}
`)).Run(t.Context(), nil, rt)
		if out.Status != workflow.StatusPaused {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
		if err != nil || out.Output != int64(4) {
			t.Errorf("%v, %v rounds", err, out.Output)
		}
	})
}

// What a round gives may repeat what the round before gave, and so double each time.
func TestLoopThatGrows(t *testing.T) {
	for name, tt := range map[string]struct{ loop, code string }{
		"output":       {`{steps: {a: {uses: set, with: 1}}, output: ["${{ last }}", "${{ last }}"], max_iterations: 1000}`, "outputs.tooLarge"},
		"with a call":  {`{steps: {a: {uses: test.echo, with: {x: "${{ last }}"}}}, output: ["${{ last }}", "${{ last }}"], max_iterations: 1000}`, "output.tooLarge"},
		"with history": {`{steps: {a: {uses: test.echo, with: {x: "${{ history }}"}}}, output: "${{ repeat('x', 1000000) }}", max_iterations: 1000}`, "output.tooLarge"},
	} {
		t.Run(name, func(t *testing.T) {
			rt := &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo}}
			out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  grow: {uses: loop, with: "+tt.loop+"}\n")).Run(t.Context(), nil, rt)
			if err == nil || out.Failure().Code != tt.code {
				t.Error(err)
			}
		})
	}
}

const intertwined = runtest.Head + `steps:
  each:
    uses: recipe
    foreach: {in: [1, 2, 3], as: n, max_parallel: 3}
    with:
      steps:
        both:
          uses: fork
          with:
            branches:
              left: {steps: {l: {uses: test.slow, with: {n: "${{ n }}", ms: "${{ n * 7 % 4 }}"}}, l2: {uses: test.slow, needs: [l], with: {n: 1, ms: 1}}}, output: "${{ steps.l.output }}"}
              right:
                steps:
                  again:
                    uses: loop
                    with:
                      steps: {r: {uses: test.slow, foreach: {in: [1, 2], as: k}, with: {n: "${{ iteration * n * k }}", ms: "${{ (n + k) % 3 }}"}}}
                      output: ${{ sum(steps.r.output) }}
                      until: last >= 9
                      max_iterations: 4
                output: ${{ steps.again.output.last }}
        route:
          uses: switch
          with:
            cases: [{name: odd, when: n % 2 == 1, steps: {o: {uses: test.slow, with: {n: "${{ n }}", ms: 2}}}, output: "${{ steps.o.output }}"}]
            default: {steps: {e: {uses: test.slow, with: {n: 0, ms: 3}}}, output: even}
        settle:
          uses: fork
          with: {mode: settle, branches: {bad: {steps: {b: {uses: test.slow, with: {ms: 1, fail: no}}}}, good: {steps: {g: {uses: test.slow, with: {ms: 1, n: 4}}}, output: "${{ steps.g.output }}"}}}
      output: ["${{ steps.both.output }}", "${{ steps.route.output }}", "${{ steps.settle.output.bad.status }}", "${{ steps.settle.output.good.output }}"]
output: ${{ steps.each.output }}
`

// The outcome and its trace are those of a run that does one thing after the other.
func TestBodiesSideBySide(t *testing.T) {
	wf := runtest.Load(t, []byte(intertwined))
	want := ""
	for _, parallel := range []int{1, 2, 3, 8, 100} {
		synctest.Test(t, func(t *testing.T) {
			rt := &runtime.Runtime{Tools: []runtime.Tool{slow(nil)}}
			rt.Limits.MaxParallel = parallel
			out, err := wf.Run(t.Context(), nil, rt)
			if err != nil {
				t.Fatal(err)
			}
			if parallel == 1 { // 3n + 6n, and so on until 9
				item := func(n, last int64, route map[string]any) any {
					return []any{map[string]any{"left": n, "right": last}, route, "failed", int64(4)}
				}
				if diff := cmp.Diff([]any{item(1, 9, map[string]any{"case": "odd", "output": int64(1)}), item(2, 12, map[string]any{"case": "default", "output": "even"}),
					item(3, 9, map[string]any{"case": "odd", "output": int64(3)})}, out.Output); diff != "" {
					t.Errorf("output (-want +got)\n%s", diff)
				}
				want = runtest.BytesOf(t, out)
			}
			if diff := cmp.Diff(want, runtest.BytesOf(t, out)); diff != "" {
				t.Errorf("max_parallel %d: another outcome (-first +this)\n%s", parallel, diff)
			}
		})
	}
}

const askingInside = runtest.Head + `steps:
  each:
    uses: fork
    foreach: {in: [1, 2], as: n, max_parallel: 2}
    with:
      branches:
        left:
          steps:
            l: {uses: test.act, with: {n: "l${{ n }}"}, rollback: {uses: test.undo, with: {n: "l${{ n }}"}}}
            left_ask: {uses: human, needs: [l], with: {prompt: "left ${{ n }}?"}}
            l2: {uses: test.act, with: {n: "l${{ n }} ${{ steps.left_ask.output.decision }}"}}
          output: ${{ steps.left_ask.output.decision }}
        right:
          steps: {right_ask: {uses: test.gate, with: {n: "${{ n }}"}}, r2: {uses: test.act, with: {n: "r${{ n }} ${{ steps.right_ask.output }}"}}}
          output: ${{ steps.r2.output }}
  rounds:
    uses: loop
    with:
      steps:
        a: {uses: test.act, with: {n: "round ${{ iteration }}"}, rollback: {uses: test.undo, with: {n: "round ${{ iteration }}"}}}
        b: {uses: human, needs: [a], when: iteration < 3, with: {prompt: "round ${{ iteration }} after ${{ last ?? 'none' }}?"}}
      output: ${{ steps.b.output?.decision ?? "done" }}
      until: last == "done"
      max_iterations: 5
  route:
    uses: switch
    with: {cases: [{name: only, when: "true", steps: {c: {uses: human, with: {prompt: "route?"}}}, output: "${{ steps.c.output.decision }}"}]}
output: ["${{ steps.each.output }}", "${{ steps.rounds.output }}", "${{ steps.route.output }}"]
`

// insideAnswers are what people decide, by path.
var insideAnswers = map[string]string{
	"each[0]/left/left_ask": "approve", "each[1]/left/left_ask": "reject", "each[0]/right/right_ask": "reject", "each[1]/right/right_ask": "approve",
	"rounds#1/b": "reject", "rounds#2/b": "approve", "route/only/c": "reject",
}

var (
	insideOutput = []any{
		[]any{map[string]any{"left": "approve", "right": "r1 reject"}, map[string]any{"left": "reject", "right": "r2 approve"}},
		map[string]any{"last": "done", "iterations": int64(3), "reason": "until"}, map[string]any{"case": "only", "output": "reject"},
	}
	insideEffects = []string{"test.act l1", "test.act l1 approve", "test.act l2", "test.act l2 reject", "test.act r1 reject", "test.act r2 approve",
		"test.act round 1", "test.act round 2", "test.act round 3"}
)

func insideRuntime(log *runtest.Effects, store checkpoint.Store) *runtime.Runtime {
	return &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act"), log.External("test.undo"), runtest.Gate}, Store: store, Resume: resume.PassThrough{},
		Reporter: &runtest.Quiet{}, NewRunID: func() string { return "r1" }}
}

// Pauses in bodies are answered in any order, each by a process of its own, and only what is pending for an
// answer goes on.
func TestPausesInside(t *testing.T) {
	wf := runtest.Load(t, []byte(askingInside))
	for seed := range 20 {
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		log, store := &runtest.Effects{}, &checkpoint.Memory{}
		out, err := wf.Run(t.Context(), nil, insideRuntime(log, store))
		for answered := 0; out.Status == workflow.StatusPaused; answered++ {
			var open []string
			for _, p := range out.Pauses {
				open = append(open, p.Step)
			}
			if answered == 0 {
				if diff := cmp.Diff([]string{"each[0]/left/left_ask", "each[0]/right/right_ask", "each[1]/left/left_ask", "each[1]/right/right_ask", "rounds#1/b", "route/only/c"}, open); diff != "" {
					t.Fatalf("pauses (-want +got)\n%s", diff)
				}
			}
			p, did := out.Pauses[random.IntN(len(out.Pauses))], len(log.Lines)
			out, err = workflow.Resume(t.Context(), p.Token, map[string]any{"decision": insideAnswers[p.Step]}, insideRuntime(log, store), nil)
			if most := len(open); err == nil && out.Status == workflow.StatusPaused && len(out.Pauses) < most-1 {
				t.Errorf("seed %d: %d pauses after %s of %d was answered", seed, len(out.Pauses), p.Step, most)
			}
			if got := len(log.Lines) - did; got > 1 {
				t.Errorf("seed %d: %d effects of the answer of %s", seed, got, p.Step)
			}
		}
		if diff := cmp.Diff(insideOutput, out.Output); err != nil || diff != "" {
			t.Errorf("seed %d: %v, output (-want +got)\n%s", seed, err, diff)
		}
		if diff := cmp.Diff(insideEffects, slices.Sorted(slices.Values(log.Lines))); diff != "" {
			t.Errorf("seed %d: effects (-want +got)\n%s", seed, diff)
		}
	}
}

// A run with such pauses dies after each of its writes, in whatever execution that is, and goes on.
func TestPausesInsideAfterEachWrite(t *testing.T) {
	wf := runtest.Load(t, []byte(askingInside))
	goOn := func(out *workflow.Outcome, err error, log *runtest.Effects, store checkpoint.Store) (*workflow.Outcome, error) {
		for out.Status == workflow.StatusPaused {
			p := out.Pauses[len(out.Pauses)/2]
			answer := map[string]any{"decision": insideAnswers[p.Step]}
			if p.Reason == "indeterminate" {
				answer = map[string]any{"decision": "retry"}
				if n := wantOf(p.Step); slices.Contains(log.Lines, "test.act "+n) {
					answer = map[string]any{"decision": "result", "form": n}
				}
			}
			out, err = workflow.Resume(t.Context(), p.Token, answer, insideRuntime(log, store), nil)
		}
		return out, err
	}
	for dies := 0; ; dies++ {
		memory, log := &checkpoint.Memory{}, &runtest.Effects{}
		dying := runtest.Claimed{Dead: &runtest.Dead{Store: memory, After: dies}}
		out, err := wf.Run(t.Context(), nil, insideRuntime(log, dying))
		out, err = goOn(out, err, log, dying)
		if err == nil {
			if dies < 15 {
				t.Fatalf("only %d writes", dies)
			}
			return
		}
		if out.Failure().Code != "store.failed" {
			t.Fatalf("after %d writes: %v", dies, err)
		}
		out, err = workflow.Recover(t.Context(), "r1", insideRuntime(log, memory), nil)
		out, err = goOn(out, err, log, memory)
		if diff := cmp.Diff(insideOutput, out.Output); err != nil || diff != "" {
			t.Errorf("after %d writes: %v, output (-want +got)\n%s", dies, err, diff)
		}
		if diff := cmp.Diff(insideEffects, slices.Sorted(slices.Values(log.Lines))); diff != "" {
			t.Errorf("after %d writes: effects (-want +got)\n%s", dies, diff)
		}
	}
}

// With restart each answer begins the run again; it is kept by the path of its pause.
func TestPausesInsideWithRestart(t *testing.T) {
	log := &runtest.Effects{}
	rt := insideRuntime(log, &checkpoint.Memory{})
	rt.Interrupt = resume.Restart
	out, err := runtest.Load(t, []byte(askingInside)).Run(t.Context(), nil, rt)
	for out.Status == workflow.StatusPaused {
		p := out.Pauses[len(out.Pauses)-1]
		out, err = workflow.Resume(t.Context(), p.Token, map[string]any{"decision": insideAnswers[p.Step]}, rt, nil)
	}
	if diff := cmp.Diff(insideOutput, out.Output); err != nil || diff != "" {
		t.Errorf("%v, output (-want +got)\n%s", err, diff)
	}
	did := map[string]int{}
	for _, line := range log.Lines {
		did[line]++
	}
	for _, n := range []string{"round 1", "round 2", "l1", "l2"} {
		if did["test.act "+n] != did["test.undo "+n]+1 {
			t.Errorf("%s was done %d times and undone %d times", n, did["test.act "+n], did["test.undo "+n])
		}
	}
}

// wantOf is the argument of a call of test.act, by path.
func wantOf(path string) string {
	return map[string]string{
		"each[0]/left/l": "l1", "each[1]/left/l": "l2", "each[0]/left/l2": "l1 approve", "each[1]/left/l2": "l2 reject",
		"each[0]/right/r2": "r1 reject", "each[1]/right/r2": "r2 approve", "rounds#1/a": "round 1", "rounds#2/a": "round 2", "rounds#3/a": "round 3",
	}[path]
}

// What bodies did in an earlier execution is undone in a later one, in reverse plan order.
func TestRollbacksInsideAfterPauses(t *testing.T) {
	log, store := &runtest.Effects{}, &checkpoint.Memory{}
	text := strings.Replace(askingInside, "output: \"${{ steps.c.output.decision }}\"", "output: \"${{ steps.c.output.form.none }}\"", 1)
	out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, insideRuntime(log, store))
	for out.Status == workflow.StatusPaused {
		p := out.Pauses[0]
		for _, other := range out.Pauses {
			if other.Step == "rounds#2/b" || other.Step == "rounds#1/b" && p.Step == "each[0]/right/right_ask" || p.Step == "route/only/c" {
				p = other
			}
		}
		out, err = workflow.Resume(t.Context(), p.Token, map[string]any{"decision": insideAnswers[p.Step]}, insideRuntime(log, store), nil)
	}
	if err == nil || out.Failure().Code != "expr.failed" || out.Failure().Step != "route" {
		t.Fatal(err)
	}
	var undone []string
	for _, line := range log.Lines {
		if strings.HasPrefix(line, "test.undo") {
			undone = append(undone, line)
		}
	}
	if diff := cmp.Diff([]string{"test.undo round 3", "test.undo round 2", "test.undo round 1", "test.undo l2", "test.undo l1"}, undone); diff != "" {
		t.Errorf("undone (-want +got)\n%s", diff)
	}
}

const racing = runtest.Head + `steps:
  race:
    uses: fork
    with:
      mode: race
      branches:
        slow: {steps: {ask: {uses: human, with: {prompt: a}}}, output: 1}
        deep: {steps: {l: {uses: loop, with: {steps: {ask: {uses: test.gate, with: {n: 1}}}, max_iterations: 2}}}, output: 2}
        fast: {steps: {ask: {uses: human, with: {prompt: c}}, act: {uses: test.act, needs: [ask], with: {n: 3}}}, output: 3}
  after: {uses: human, needs: [race], with: {prompt: sure}}
output: ${{ steps.race.output }}
`

// A race dies after each of its writes, and has the winner that its journal says.
func TestRaceAfterEachWrite(t *testing.T) {
	for _, text := range []string{racing, strings.Replace(racing, "ask: {uses: human, with: {prompt: c}}", "ask: {uses: set, with: 1}", 1)} {
		wf := runtest.Load(t, []byte(text))
		goOn := func(out *workflow.Outcome, err error, log *runtest.Effects, store checkpoint.Store) (*workflow.Outcome, error) {
			for out.Status == workflow.StatusPaused {
				i := max(0, slices.IndexFunc(out.Pauses, func(p resume.Pause) bool { return strings.HasPrefix(p.Step, "race/fast") }))
				answer := map[string]any{"decision": "approve"}
				if p := out.Pauses[i]; p.Reason == "indeterminate" {
					answer = map[string]any{"decision": "retry"}
					if p.Step == "race/fast/act" && len(log.Lines) > 0 {
						answer = map[string]any{"decision": "result", "form": 3}
					}
				}
				out, err = workflow.Resume(t.Context(), out.Pauses[i].Token, answer, insideRuntime(log, store), nil)
			}
			return out, err
		}
		for dies := 0; ; dies++ {
			memory, log := &checkpoint.Memory{}, &runtest.Effects{}
			dying := runtest.Claimed{Dead: &runtest.Dead{Store: memory, After: dies}}
			out, err := wf.Run(t.Context(), nil, insideRuntime(log, dying))
			if _, err = goOn(out, err, log, dying); err == nil {
				break
			}
			out, err = workflow.Recover(t.Context(), "r1", insideRuntime(log, memory), nil)
			out, err = goOn(out, err, log, memory)
			if diff := cmp.Diff(map[string]any{"winner": "fast", "output": int64(3)}, out.Output); err != nil || diff != "" || len(log.Lines) != 1 {
				t.Errorf("after %d writes: %v, %v, output (-want +got)\n%s", dies, err, log.Lines, diff)
			}
		}
	}
}

// The branch that wins a race closes the pauses of the others.
func TestRaceClosesPauses(t *testing.T) {
	for _, mode := range []string{"an answer wins", "a call wins"} {
		t.Run(mode, func(t *testing.T) {
			log, store := &runtest.Effects{}, &checkpoint.Memory{}
			text := racing
			if mode == "a call wins" {
				text = strings.Replace(text, "ask: {uses: human, with: {prompt: c}}", "ask: {uses: set, with: 1}", 1)
			}
			rt := insideRuntime(log, store)
			out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
			first := map[string]string{}
			for _, p := range out.Pauses {
				first[p.Step] = p.Token
			}
			if token := first["race/fast/ask"]; token != "" {
				if diff := cmp.Diff([]string{"race/deep/l#1/ask", "race/fast/ask", "race/slow/ask"}, slices.Sorted(maps.Keys(first))); diff != "" {
					t.Errorf("pauses (-want +got)\n%s", diff)
				}
				out, err = workflow.Resume(t.Context(), token, map[string]any{"decision": "approve"}, rt, nil)
			}
			if len(out.Pauses) != 1 || out.Pauses[0].Step != "after" {
				t.Fatalf("%v, pauses %v", err, out.Pauses)
			}
			for step, token := range first {
				if step == "after" {
					continue
				}
				if out, err := workflow.Resume(t.Context(), token, map[string]any{"decision": "approve"}, rt, nil); err == nil || out.Failure().Code != "resume.invalidToken" {
					t.Errorf("%s: %v", step, err)
				}
			}
			out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
			if diff := cmp.Diff(map[string]any{"winner": "fast", "output": int64(3)}, out.Output); err != nil || diff != "" || len(log.Lines) != 1 {
				t.Errorf("%v, %v, output (-want +got)\n%s", err, log.Lines, diff)
			}
		})
	}
}

// What stands of a run inside bodies is shared with a run that is forked from it, and is not done again
// when the recipe has changed elsewhere.
func TestBodiesThatStand(t *testing.T) {
	text := runtest.Head + `steps:
  rounds: {uses: loop, with: {steps: {a: {uses: test.act, with: {n: "a${{ iteration }}"}}}, max_iterations: 2}}
  both: {uses: fork, foreach: {in: [1, 2], as: k}, with: {branches: {left: {steps: {b: {uses: test.act, with: {n: "b${{ k }}"}}}}}}}
  route: {uses: switch, with: {cases: [{name: only, when: "true", steps: {c: {uses: test.act, with: {n: c}}}}]}}
  ask: {uses: human, needs: [rounds, both, route], with: {prompt: sure}}
  last: {uses: test.act, needs: [ask], with: {n: last}}
`
	for _, tt := range []struct {
		name, at string
		want     []string
	}{
		{"after all of them", "ask", nil},
		{"in a loop", "rounds#2/a", []string{"test.act a1", "test.act a2"}},
		{"in a branch", "both[1]/left/b", []string{"test.act b1", "test.act b2"}},
		{"in a case", "route/only/c", []string{"test.act c"}},
		{"with another recipe", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, store := &runtest.Effects{}, &checkpoint.Memory{}
			rt := insideRuntime(log, store)
			out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
			if err != nil || len(log.Lines) != 5 {
				t.Fatal(err, log.Lines)
			}
			log.Lines, rt.NewRunID = nil, nil
			want := append(tt.want, "test.act last")
			if tt.at != "" {
				if out, err = workflow.Fork(t.Context(), "r1", tt.at, workflow.Edits{}, rt, nil); err != nil {
					t.Fatal(err)
				}
				out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
			} else {
				changed := runtest.Load(t, []byte(strings.Replace(text, "{n: last}", "{n: other}", 1)))
				want = []string{"test.act other"}
				out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, &workflow.ResumeOptions{Workflow: changed, AcceptChanged: true})
			}
			if err != nil || out.Status != workflow.StatusOK {
				t.Fatal(out.Status, err)
			}
			slices.Sort(log.Lines)
			if diff := cmp.Diff(want, log.Lines); diff != "" {
				t.Errorf("effects (-want +got)\n%s", diff)
			}
		})
	}
}

func TestPlanShowsBodies(t *testing.T) {
	plan := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: set, with: 1}
  l: {uses: loop, with: {steps: {x: {uses: set, with: "${{ steps.a.output }}"}, y: {uses: set, needs: [x], with: 1}}, until: steps.a.output == last, max_iterations: 2}}
  f: {uses: fork, foreach: {in: [1]}, with: {branches: {p: {steps: {s: {uses: switch, with: {cases: [{name: c, when: steps.l.output.last == 1, steps: {q: {uses: set, with: 1}}}], default: {steps: {r: {uses: set, when: "true", with: 1}}}}}}}, none: {steps: {}}}}}
`)).Plan()
	_, text, _ := strings.Cut(plan.Text(), "\n")
	json, err := plan.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a", "l", "l/x", "l/y", "f", "f/p/s", "f/p/s/c/q", "f/p/s/default/r"} {
		if !strings.Contains(string(json), fmt.Sprintf("%q: %q", "id", path)) {
			t.Errorf("the JSON has no %s", path)
		}
	}
	for _, tt := range []struct{ what, got, want string }{
		{"text", text, `  1. a  set
  2. l  loop  after a (data)
    1. l/x  set
    2. l/y  set  after l/x (order)
  3. f  fork  for each item  after l (data)
    1. f/p/s  switch
      1. f/p/s/c/q  set
      2. f/p/s/default/r  set  when true
`},
		{"mermaid", plan.Mermaid(), `flowchart TD
  s_a["a<br/>set"]
  subgraph s_l["l<br/>loop"]
    s_l_S_x["l/x<br/>set"]
    s_l_S_y["l/y<br/>set"]
    s_l_S_x -.-> s_l_S_y
  end
  subgraph s_f["f<br/>fork"]
    subgraph s_f_S_p_S_s["f/p/s<br/>switch"]
      s_f_S_p_S_s_S_c_S_q["f/p/s/c/q<br/>set"]
      s_f_S_p_S_s_S_default_S_r{{"f/p/s/default/r<br/>set"}}
    end
  end
  s_a --> s_l
  s_l --> s_f
`},
		{"dot", plan.DOT(), `strict digraph {
  label="test";
  "a" [ label="a\nset", shape="box",  weight=0 ];
  "l" [ shape="point",  weight=0 ];
  "l/x" [ label="l/x\nset", shape="box",  weight=0 ];
  "l/y" [ label="l/y\nset", shape="box",  weight=0 ];
  "l/x" -> "l/y" [ style="dashed",  weight=1 ];
  "f" [ shape="point",  weight=0 ];
  "f/p/s" [ shape="point",  weight=0 ];
  "f/p/s/c/q" [ label="f/p/s/c/q\nset", shape="box",  weight=0 ];
  "f/p/s/default/r" [ label="f/p/s/default/r\nset", shape="box",  weight=0 ];
  "a" -> "l" [  weight=1 ];
  "l" -> "f" [  weight=1 ];
  subgraph "cluster_l" {
    label="l\nloop";
    "l";
    "l/x";
    "l/y";
  }
  subgraph "cluster_f" {
    label="f\nfork";
    "f";
    "f/p/s";
    subgraph "cluster_f/p/s" {
      label="f/p/s\nswitch";
      "f/p/s";
      "f/p/s/c/q";
      "f/p/s/default/r";
    }
  }
}
`},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.what, diff)
		}
	}
}

// Every recipe of the pages about kinds, and of that about agents, is that of a scenario, which runs it, and so are the files
// beside it. Each page has one.
func TestKindPages(t *testing.T) {
	pages, err := filepath.Glob("../docs/kinds/*.md")
	if err != nil || len(pages) < 14 {
		t.Fatal(pages, err)
	}
	files, err := filepath.Glob("../testdata/scenarios/*_example*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range txtar.Parse(text).Files {
			body := string(f.Data)
			if f.Name == "recipe.yaml" {
				_, body, _ = strings.Cut(body, "\nname: ")
				_, body, _ = strings.Cut(body, "\n")
			}
			known[body] = true
		}
	}
	for _, page := range append(pages, "../docs/agents.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```(?:yaml|markdown)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no example", page)
		}
		for _, b := range blocks {
			if !known[b[1]] {
				t.Errorf("%s: no scenario has\n%s", page, b[1])
			}
		}
	}
}

// A loop may stop by what its calls have cost, also after its process died.
func TestLoopKnowsItsCost(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  grow:
    uses: loop
    with:
      steps:
        ask: {uses: model, with: {model: m, prompt: hi}}
        nap: {uses: human, when: iteration == 2, needs: [ask], with: {prompt: Go on}}
      until: cost >= 0.005
      max_iterations: 9
output: ${{ steps.grow.output.iterations }}
`))
	model := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
		return &runtime.Response{Text: "x", Usage: runtime.Usage{InputTokens: 500, OutputTokens: 250}}, nil // $0.001
	}}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Prices: map[string]runtime.Price{"m": {Input: 1, Output: 2}},
		Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	if out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); err != nil || out.Output != int64(5) {
		t.Errorf("output %v, %v: five rounds cost $0.005", out.Output, err)
	}
}

// What a loop decided by the time it decides again when the run is resumed.
func TestElapsedIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := runtest.Load(t, []byte(runtest.Head+`steps:
  grow:
    uses: loop
    with:
      steps:
        ask: {uses: model, with: {model: m, prompt: hi}}
        more: {uses: set, needs: [ask], with: 1}
      until: elapsed >= 15
      max_iterations: 9
  nap: {uses: human, needs: [grow], with: {prompt: Go on}}
output: ${{ steps.grow.output.iterations }}
`))
		model := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
			time.Sleep(10 * time.Second)
			return &runtime.Response{Text: "x"}, nil
		}}
		rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
		out, err := wf.Run(t.Context(), nil, rt)
		if err != nil || out.Status != workflow.StatusPaused {
			t.Fatal(out.Status, err)
		}
		if out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); err != nil || out.Output != int64(2) {
			t.Errorf("output %v, %v", out.Output, err)
		}
	})
}
