package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// wide is a recipe in which much runs side by side, at three depths, and something is skipped.
const wide = `
apiVersion: braise/v1
name: wide
steps:
  a: {uses: test.nap, with: {n: 1}}
  b: {uses: test.nap, with: {n: 2}}
  c: {uses: test.nap, with: {n: "${{ steps.a.output.n + steps.b.output.n }}"}, priority: 5}
  d: {uses: test.nap, with: {n: 4}, when: steps.a.output.n > 1}
  e: {uses: test.nap, needs: [d], trigger: none_failed, with: {n: "${{ steps.d.output?.n ?? 0 }}"}}
  f:
    uses: recipe
    foreach: {in: "${{ [3, 1, 2] }}", as: k}
    with:
      steps:
        g: {uses: test.nap, with: {n: "${{ k }}"}}
        h: {uses: test.nap, with: {n: "${{ k * 10 + index }}"}}
        i:
          uses: test.nap
          foreach: {in: ["x", "y", "z"], as: letter}
          with: {n: "${{ steps.g.output.n }}", letter: "${{ letter }}"}
      output: ${{ [steps.g.output.n, steps.h.output.n, len(steps.i.output)] }}
  j: {uses: test.break, on_error: continue}
  k: {uses: set, needs: [j], trigger: all_done, with: "${{ steps.j.error.message }}"}
output: {c: "${{ steps.c.output.n }}", e: "${{ steps.e.output.n }}", f: "${{ steps.f.output }}", k: "${{ steps.k.output }}"}
`

// nap ends calls in random order.
var nap = runtest.Tool("test.nap", func(ctx context.Context, args map[string]any) (any, error) {
	select {
	case <-time.After(time.Duration(rand.IntN(500)) * time.Microsecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return args, nil
})

func TestOutcomeIsDeterministic(t *testing.T) {
	wf := runtest.Load(t, []byte(wide))
	rt := &runtime.Runtime{Tools: []runtime.Tool{nap, runtest.Broken}}
	want, times := "", 100
	if testing.Short() {
		times = 20
	}
	for _, procs := range []int{1, 2} {
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(procs))
		for _, parallel := range []int{1, 3, 8} {
			rt.Limits.MaxParallel = parallel
			for range times {
				out, err := wf.Run(t.Context(), nil, rt)
				if err != nil {
					t.Fatal(err)
				}
				got := runtest.BytesOf(t, out)
				if want == "" {
					want = got
				}
				if got != want {
					t.Fatalf("GOMAXPROCS %d, max_parallel %d: another outcome (-first +this):\n%s", procs, parallel, cmp.Diff(want, got))
				}
			}
		}
	}
	// The first of the runs, worked out from the rules.
	var first struct{ Output any }
	out, _ := wf.Run(t.Context(), nil, rt)
	first.Output = out.Output
	wantOutput := map[string]any{"c": int64(3), "e": int64(0), "k": "broken",
		"f": []any{[]any{int64(3), int64(30), int64(3)}, []any{int64(1), int64(11), int64(3)}, []any{int64(2), int64(22), int64(3)}}}
	if diff := cmp.Diff(wantOutput, first.Output); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestTraceIsInPlanOrder(t *testing.T) {
	wf := runtest.Load(t, []byte(`
apiVersion: braise/v1
name: order
version: 1.2.3
steps:
  late: {uses: test.echo, needs: [early], with: {n: 2}}
  early: {uses: test.echo, with: {n: 1}}
  urgent: {uses: test.echo, priority: 1, with: {n: 3}}
  never: {uses: test.echo, when: "false"}
  after: {uses: set, needs: [never], with: 1}
  each: {uses: test.echo, foreach: {in: [7, 8]}, with: {n: "${{ item }}"}}
`))
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"run.start digest=" + wf.Plan().Digest + " recipe=order version=1.2.3",
		"step.start urgent", "adapter.call urgent kind=tool name=test.echo", "step.end urgent status=succeeded",
		"step.start early", "adapter.call early kind=tool name=test.echo", "step.end early status=succeeded",
		"step.start late", "adapter.call late kind=tool name=test.echo", "step.end late status=succeeded",
		"step.skip never reason=when_false",
		"step.skip after reason=upstream",
		"step.start each",
		"step.start each[0]", "adapter.call each[0] kind=tool name=test.echo", "step.end each[0] status=succeeded",
		"step.start each[1]", "adapter.call each[1] kind=tool name=test.echo", "step.end each[1] status=succeeded",
		"step.end each status=succeeded",
		"run.success",
		"run.end status=ok",
	}
	if diff := cmp.Diff(want, runtest.Lines(out)); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
	for i, e := range out.Trace {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has seq %d", i, e.Seq)
		}
	}
}

// Each step has the time that it took itself.
func TestDurations(t *testing.T) {
	out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  compute: {uses: set, with: "${{ reduce(1..900000, #acc + #, 0) }}"}
  call: {uses: test.echo, needs: [compute], with: {n: 1}}
`)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo}})
	if err != nil {
		t.Fatal(err)
	}
	took := map[string]int64{}
	for i, e := range out.Trace {
		if e.Kind == trace.StepEnd {
			took[e.Step] = e.Data.Get("durationMs").(int64)
		}
		if i > 0 && e.At.Before(out.Trace[i-1].At) {
			t.Errorf("event %d is at %v, after %v", i, e.At, out.Trace[i-1].At)
		}
	}
	if took["compute"] < 1 || took["call"] >= took["compute"] {
		t.Errorf("took %v: computing takes long, the call does not", took)
	}
	if whole := out.Trace[len(out.Trace)-1].At.Sub(out.Trace[0].At); whole.Milliseconds() < took["compute"] {
		t.Errorf("the run took %v, less than a step of %d ms", whole, took["compute"])
	}
}

// one is a recipe with one call.
func one(extra string) []byte {
	return []byte("apiVersion: braise/v1\nname: one\nsteps:\n  a: {uses: test.it, " + extra + "}\n")
}

func TestCancel(t *testing.T) {
	for _, beside := range []bool{false, true} { // the driver's own call, and calls on goroutines
		t.Run(fmt.Sprintf("beside=%v", beside), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text := one("with: {}")
				if beside {
					text = append(text, "  b: {uses: test.it}\n  c: {uses: test.it, needs: [b]}\n"...)
				}
				cause := errors.New("the user left")
				ctx, cancel := context.WithCancelCause(t.Context())
				it := runtest.Tool("test.it", func(ctx context.Context, _ map[string]any) (any, error) {
					time.AfterFunc(time.Second, func() { cancel(cause) })
					<-ctx.Done()
					return nil, ctx.Err()
				})
				begin := time.Now()
				out, err := runtest.Load(t, text).Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{it}})
				if out.Status != workflow.StatusCancelled || !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
					t.Errorf("got %s, %v; want cancelled because of %v", out.Status, err, cause)
				}
				if took := time.Since(begin); took != time.Second {
					t.Errorf("took %v; a call that heeds its context ends at once", took)
				}
				if e := out.Failure(); e.Category != runtime.CategoryCancelled || e.Code != "run.cancelled" {
					t.Errorf("got error %s %s", e.Category, e.Code)
				}
				last := runtest.Lines(out)[len(out.Trace)-2:]
				want := []string{`run.cancelled reason="` + err.Error() + `"`, "run.end status=cancelled"}
				if diff := cmp.Diff(want, last); diff != "" {
					t.Errorf("end of the trace (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestCancelLeavesDeafCallsBehind(t *testing.T) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprintf("beside=%v", beside), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text := one("with: {}")
				if beside {
					text = append(text, "  b: {uses: test.it}\n"...)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				release := make(chan struct{})
				it := runtest.Tool("test.it", func(context.Context, map[string]any) (any, error) {
					<-release
					return map[string]any{"late": true}, nil
				})
				warnings := &runtest.Quiet{}
				begin := time.Now()
				out, err := runtest.Load(t, text).Run(ctx, nil, &runtime.Runtime{
					Tools: []runtime.Tool{it}, Limits: runtime.Limits{Grace: 3 * time.Second}, Reporter: warnings})
				if out.Status != workflow.StatusCancelled || !errors.Is(err, context.Canceled) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %s, %v", out.Status, err)
				}
				if took := time.Since(begin); took != 4*time.Second {
					t.Errorf("took %v; want the second until the deadline and 3 s of grace", took)
				}
				calls := 1
				if beside {
					calls = 2
				}
				if len(warnings.Texts) != calls {
					t.Errorf("got warnings %q, want one a call", warnings.Texts)
				}
				close(release)
				synctest.Wait() // the late results arrive, and change nothing
				if len(out.Artefact) != 0 {
					t.Errorf("artefact %v", out.Artefact)
				}
			})
		})
	}
}

func TestCancelBetweenPureSteps(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	text := append(one("with: {}"), "  b: {uses: set, needs: [a], with: 1}\n  c: {uses: test.never, needs: [b]}\n"...)
	never := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "test.never"}}
	it := runtest.Tool("test.it", func(context.Context, map[string]any) (any, error) { cancel(); return nil, nil })
	out, _ := runtest.Load(t, text).Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{it, never}})
	if out.Status != workflow.StatusCancelled || len(never.Calls()) != 0 {
		t.Errorf("got %s and %d calls after the cancel", out.Status, len(never.Calls()))
	}
}

func TestCancelledBeforeItBegan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, err := runtest.Load(t, one("with: {}")).Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo}})
	if out.Status != workflow.StatusCancelled || !errors.Is(err, context.Canceled) || len(out.Trace) != 3 {
		t.Errorf("got %s, %v, %q", out.Status, err, runtest.Lines(out))
	}
}

func TestStepTimeout(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf=%v", deaf), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				it := runtest.Tool("test.it", func(ctx context.Context, _ map[string]any) (any, error) {
					if deaf {
						<-release
						return nil, nil
					}
					<-ctx.Done()
					return nil, ctx.Err()
				})
				begin := time.Now()
				out, err := runtest.Load(t, one("timeout: 2s")).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{it}, Reporter: &runtest.Quiet{}})
				if want := `step "a" timed out: its timeout is 2s`; err == nil || err.Error() != want {
					t.Fatalf("got %v, want %s", err, want)
				}
				if e := out.Failure(); out.Status != workflow.StatusError || e.Code != "step.timeout" || e.Step != "a" {
					t.Errorf("got %s, %s at %q", out.Status, e.Code, e.Step)
				}
				if took := time.Since(begin); took > 3*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestBodyTimeoutStopsWhatIsInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := runtest.Load(t, []byte(`
apiVersion: braise/v1
name: body
steps:
  outer:
    uses: recipe
    timeout: 5s
    on_error: continue
    with:
      steps:
        slow: {uses: test.slow}
        next: {uses: test.never, needs: [slow]}
  after: {uses: set, needs: [outer], trigger: all_done, with: "${{ steps.outer.error.code }}"}
output: ${{ steps.after.output }}
`))
		never := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "test.never"}}
		slow := runtest.Tool("test.slow", func(ctx context.Context, _ map[string]any) (any, error) { <-ctx.Done(); return nil, ctx.Err() })
		out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{slow, never}})
		if err != nil || out.Output != "step.timeout" || len(never.Calls()) != 0 {
			t.Errorf("got %v, %v, %d calls of what comes after", out.Output, err, len(never.Calls()))
		}
	})
}

func TestWallTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "apiVersion: braise/v1\nname: wall\nlimits: {wall_time: 10s}\nsteps:\n  a: {uses: test.slow}\n  b: {uses: set, needs: [a], trigger: all_done, with: 1}\n"
		slow := runtest.Tool("test.slow", func(ctx context.Context, _ map[string]any) (any, error) { <-ctx.Done(); return nil, ctx.Err() })
		begin := time.Now()
		out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{slow}})
		if e := out.Failure(); e == nil || e.Category != runtime.CategoryLimit || e.Code != "limits.wall_time" || !strings.Contains(err.Error(), "10s") {
			t.Fatalf("got %v", err)
		}
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
		if len(out.Artefact) != 0 {
			t.Errorf("steps began after the end: %v", out.Artefact)
		}
	})
}

func TestFirstFailureInPlanOrderDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := runtest.Load(t, []byte(`
apiVersion: braise/v1
name: failures
steps:
  first: {uses: test.fail, with: {after: 2}}
  second: {uses: test.fail, with: {after: 1}}
  hung: {uses: test.hang}
  pending: {uses: test.never, needs: [first]}
  tidy: {uses: test.echo, needs: [hung], trigger: all_done, with: {was: "${{ steps.hung.status }}"}}
`))
		fail := runtest.Tool("test.fail", func(_ context.Context, args map[string]any) (any, error) {
			n := args["after"].(int64)
			<-time.After(time.Duration(n) * time.Second)
			return nil, fmt.Errorf("failed after %d s", n)
		})
		hang := runtest.Tool("test.hang", func(ctx context.Context, _ map[string]any) (any, error) { <-ctx.Done(); return nil, ctx.Err() })
		never := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "test.never"}}
		begin := time.Now()
		out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{fail, hang, never, runtest.Echo}})
		if err == nil || err.Error() != `step "first": failed after 2 s` || out.Failure().Step != "first" {
			t.Errorf("got %v at %q; the first in plan order decides, though it failed later", err, out.Failure().Step)
		}
		if took := time.Since(begin).Round(time.Millisecond); took != 6*time.Second { // the first failure was at 1 s, then 5 s of grace
			t.Errorf("took %v, want 6s", took)
		}
		if len(never.Calls()) != 0 {
			t.Error("a step began after the failure")
		}
		if want := map[string]any{"tidy": map[string]any{"was": "cancelled"}}; !cmp.Equal(out.Artefact, want) {
			t.Errorf("artefact %v, want %v: all_done runs in spite of a failure", out.Artefact, want)
		}
		var others []string
		for _, d := range out.Diagnostics {
			others = append(others, string(d.Code)+" "+d.Step)
		}
		if want := []string{"step.failed second", "call.unknown hung"}; !cmp.Equal(others, want) {
			t.Errorf("diagnostics %q, want %q", others, want)
		}
	})
}

func TestPanicIsAFailedStep(t *testing.T) {
	for _, beside := range []string{"", "  b: {uses: test.it}\n"} {
		it := runtest.Tool("test.it", func(context.Context, map[string]any) (any, error) { panic("boom") })
		out, err := runtest.Load(t, append(one("with: {}"), beside...)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{it}})
		if e := out.Failure(); e == nil || e.Code != "step.panic" || e.Category != runtime.CategoryTool || err.Error() != `step "a": panic in tool "test.it": boom` {
			t.Fatalf("got %v", err)
		}
		var stack string
		for _, e := range out.Trace {
			if e.Kind == trace.StepEnd && e.Step == "a" {
				stack, _ = e.Data.Get("stack").(string)
			}
		}
		if !strings.Contains(stack, "TestPanicIsAFailedStep") || strings.Contains(stack, "goroutine") {
			t.Errorf("stack in the trace: %q", stack)
		}
	}
}

// badSink panics at its second event.
type badSink struct{ n int }

func (s *badSink) Emit(trace.Event) {
	if s.n++; s.n == 2 {
		panic("the sink is broken")
	}
}

func TestSinksChangeNothing(t *testing.T) {
	wf := runtest.Load(t, []byte(wide))
	good := &trace.Recorder{}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here: ", err)
	}
	defer full.Close()
	warnings := &runtest.Quiet{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{nap, runtest.Broken}, Trace: []trace.Sink{&badSink{}, good, trace.NewJSONL(full)}, Reporter: warnings}
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: rt.Tools})
	if diff := cmp.Diff(runtest.Lines(plain), runtest.Lines(out)); diff != "" {
		t.Errorf("the sinks changed the trace (-without +with):\n%s", diff)
	}
	if len(good.Events()) != len(out.Trace) {
		t.Errorf("the good sink got %d of %d events", len(good.Events()), len(out.Trace))
	}
	var codes []diagnostics.Code
	for _, d := range out.Diagnostics {
		codes = append(codes, d.Code)
	}
	if want := []diagnostics.Code{diagnostics.CodeSinkFailed, diagnostics.CodeSinkFailed}; !cmp.Equal(codes, want) {
		t.Errorf("diagnostics %v, want %v", codes, want)
	}
	if len(warnings.Texts) != 2 {
		t.Errorf("the reporter got %q", warnings.Texts)
	}
}

func TestOutcomeIsNobodysToChange(t *testing.T) {
	wf := runtest.Load(t, []byte("apiVersion: braise/v1\nname: own\nconsts: {k: {x: [1]}}\nsteps:\n  a: {uses: set, with: {list: [1, 2]}}\n  b: {uses: set, with: \"${{ consts.k }}\"}\n"))
	first, err := wf.Run(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := runtest.BytesOf(t, first)
	first.Artefact["a"].(map[string]any)["list"].([]any)[0] = "changed"
	first.Artefact["b"].(map[string]any)["x"] = "changed"
	second, _ := wf.Run(t.Context(), nil, nil)
	if diff := cmp.Diff(want, runtest.BytesOf(t, second)); diff != "" {
		t.Errorf("changing one outcome changed the next (-want +got):\n%s", diff)
	}
}

func TestConcurrentRunsShareAWorkflow(t *testing.T) {
	wf := runtest.Load(t, []byte(wide))
	rt := &runtime.Runtime{Tools: []runtime.Tool{nap, runtest.Broken}}
	first, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	want := runtest.BytesOf(t, first)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			out, err := wf.Run(t.Context(), nil, rt)
			if err != nil || runtest.BytesOf(t, out) != want {
				t.Errorf("another outcome: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestMaxParallel(t *testing.T) {
	for _, tt := range []struct {
		recipe, host, want int // 0: not set
	}{{0, 0, 8}, {3, 0, 3}, {12, 0, 12}, {12, 10, 10}, {10, 12, 10}, {0, 2, 2}, {0, 12, 12}} {
		t.Run(fmt.Sprintf("recipe=%d,host=%d", tt.recipe, tt.host), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mutex sync.Mutex
				now, most := 0, 0
				it := runtest.Tool("test.it", func(context.Context, map[string]any) (any, error) {
					mutex.Lock()
					now++
					most = max(most, now)
					mutex.Unlock()
					<-time.After(time.Second)
					mutex.Lock()
					now--
					mutex.Unlock()
					return nil, nil
				})
				text := "apiVersion: braise/v1\nname: many\n"
				if tt.recipe > 0 {
					text += fmt.Sprintf("limits: {max_parallel: %d}\n", tt.recipe)
				}
				text += "steps:\n  each: {uses: test.it, foreach: {in: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}}\n"
				for i := range 10 {
					text += fmt.Sprintf("  s%d: {uses: test.it}\n", i)
				}
				begin := time.Now()
				out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{it}, Limits: runtime.Limits{MaxParallel: tt.host}})
				if err != nil {
					t.Fatal(err, out.Diagnostics)
				}
				if most != tt.want {
					t.Errorf("%d calls at once, want %d", most, tt.want)
				}
				if took, want := time.Since(begin).Round(time.Millisecond), time.Duration((20+tt.want-1)/tt.want)*time.Second; took != want {
					t.Errorf("took %v, want %v: no slot stays empty", took, want)
				}
			})
		})
	}
}

// Calls of tools that take values are executed by the driver while they are quick. One that is not
// holds nobody up, whoever's goroutine it is on.
func TestQuickCallsThatAreNot(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  first: {uses: test.echo, with: {n: 1}}
  slow: {uses: test.slow, needs: [first]}
  a: {uses: test.echo, needs: [first], with: {n: 2}}
  b: {uses: test.echo, needs: [a], with: {n: 3}}
  hang: {uses: test.hang, needs: [first], on_error: continue}
  last: {uses: test.echo, needs: [slow, b, hang], trigger: all_done, with: {n: 4}}
`))
	for _, how := range []string{"returns", "panics", "ends its goroutine", "is cancelled"} {
		for _, background := range []bool{true, false} {
			if background && (how == "is cancelled" || how == "ends its goroutine") {
				continue // the caller's own goroutine would end
			}
			t.Run(fmt.Sprintf("%s, background %v", how, background), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if background {
						ctx = context.Background()
					}
					reached := make(chan struct{}) // b has run beside the slow call
					slow := runtest.Tool("test.slow", func(context.Context, map[string]any) (any, error) {
						<-reached
						switch how {
						case "panics":
							panic("boom")
						case "ends its goroutine":
							goruntime.Goexit()
						case "is cancelled":
							cancel()
							time.Sleep(time.Hour)
						}
						return "slow", nil
					})
					watched := runtest.Tool("test.echo", func(_ context.Context, args map[string]any) (any, error) {
						if args["n"] == int64(3) {
							close(reached)
						}
						return args["n"], nil
					})
					hang := runtest.Tool("test.hang", func(context.Context, map[string]any) (any, error) { time.Sleep(time.Second); return nil, nil })
					out, _ := wf.Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{slow, hang, watched}})
					want := map[string]workflow.Status{"returns": workflow.StatusOK, "is cancelled": workflow.StatusCancelled,
						"panics": workflow.StatusError, "ends its goroutine": workflow.StatusError}[how]
					code := ""
					if out.Failure() != nil {
						code = out.Failure().Code
					}
					if out.Status != want || want == workflow.StatusError && code != "step.panic" {
						t.Fatalf("status %s, code %s: %v", out.Status, code, out.Err)
					}
					if out.Artefact["b"] != int64(3) || how != "is cancelled" && out.Artefact["last"] != int64(4) {
						t.Errorf("artefact %v", out.Artefact)
					}
					time.Sleep(2 * time.Hour) // what was left behind returns
				})
			})
		}
	}
}
