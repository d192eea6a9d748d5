package local_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// after ends after some seconds, and fails when it is told to.
var after = runtest.Tool("test.after", func(ctx context.Context, args map[string]any) (any, error) {
	s, _ := args["s"].(int64)
	select {
	case <-time.After(time.Duration(s) * time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if text, ok := args["fail"].(string); ok {
		return nil, errors.New(text)
	}
	return args, nil
})

// A body that goes on when another step fails gets the grace period, also when no call is under
// way at the moment of the failure.
func TestGraceBoundsBodiesThatWaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := runtest.Load(t, []byte(runtest.Head+`limits: {max_parallel: 1}
steps:
  stop: {uses: fail, needs: [first], with: {message: stop}}
  first: {uses: test.after, with: {s: 1}}
  body:
    uses: recipe
    with:
      steps:
        slow: {uses: test.hang}
`))
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := wf.Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{runtest.Hang, after}})
		if err == nil || err.Error() != `step "stop": stop` {
			t.Errorf("got %v, want stop", err)
		}
		if took := time.Since(begin); took != 6*time.Second {
			t.Errorf("took %v, want 1s and 5s of grace", took)
		}
	})
}

// A failure that a timeout of the body, the run's time or a cancel covers is still reported.
func TestCoveredFailuresAreInTheDiagnostics(t *testing.T) {
	for _, tt := range []struct {
		name, text, code string
		want             []string
	}{
		{"timeout of the body", `
steps:
  body:
    uses: recipe
    timeout: 3s
    with: {steps: {hung: {uses: test.hang}, bad: {uses: test.after, with: {s: 1, fail: bad}}}}
`, "step.timeout", []string{"body/bad"}},
		{"the run's time", `
limits: {wall_time: 3s}
steps:
  hung: {uses: test.hang}
  bad: {uses: test.after, with: {s: 1, fail: bad}}
  worse: {uses: test.after, with: {s: 2, fail: worse}}
`, "limits.wall_time", []string{"bad", "worse"}},
		{"a cancel", `
steps:
  hung: {uses: test.hang}
  bad: {uses: test.after, with: {s: 1, fail: bad}}
`, "run.cancelled", []string{"bad"}},
		{"in plan order, not as bodies end", `
steps:
  bad: {uses: test.after, with: {s: 4, fail: bad}}
  early: {uses: test.after, with: {s: 4, fail: early}}
  body:
    uses: recipe
    with: {steps: {x: {uses: test.after, with: {s: 1, fail: x}}, y: {uses: test.after, with: {s: 1, fail: y}}}}
`, "tool.failed", []string{"early", "body/x", "body/y"}},
		{"items that fail together", `
steps:
  each: {uses: test.after, foreach: {in: [a, b, c]}, with: {s: 1, fail: "${{ item }}"}}
`, "tool.failed", []string{"each[1]", "each[2]"}},
		{"what is handled is not among them", `
steps:
  let: {uses: test.after, on_error: continue, with: {s: 1, fail: let}}
  set: {uses: test.after, on_error: {set: 1}, with: {s: 1, fail: set}}
  each: {uses: test.after, foreach: {in: [a, b, c], on_error: collect}, with: {s: 1, fail: "${{ item }}"}}
  fails: {uses: test.after, foreach: {in: [a, b, c]}, on_error: continue, with: {s: 1, fail: "${{ item }}"}}
  body:
    uses: recipe
    on_error: {set: 1}
    with: {steps: {x: {uses: test.after, with: {s: 1, fail: x}}, y: {uses: test.after, with: {s: 1, fail: y}}}}
`, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				out, err := runtest.Load(t, []byte(runtest.Head+tt.text)).Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{runtest.Hang, after}})
				code := ""
				if e := out.Failure(); e != nil {
					code = e.Code
				}
				if code != tt.code {
					t.Errorf("got %s, %v; want %s", code, err, tt.code)
				}
				var got []string
				for _, d := range out.Diagnostics {
					if d.Code == diagnostics.CodeStepFailed {
						got = append(got, d.Step)
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("failures in the diagnostics (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A tool's own error is the tool's failure, whatever it looks like.
func TestOddErrorsOfTools(t *testing.T) {
	type nothing struct{ error }
	for _, tt := range []struct {
		name     string
		err      error
		code     string
		category runtime.Category
		message  string
	}{
		{"cancelled by itself", &runtime.Error{Category: runtime.CategoryCancelled, Code: "run.cancelled", Err: context.Canceled}, "tool.failed", "tool", "context canceled"},
		{"no category", &runtime.Error{Err: errors.New("odd")}, "tool.failed", "tool", "odd"},
		{"no cause", &runtime.Error{Category: "tool"}, "step.panic", "tool", ""},
		{"a nil pointer", (*nothing)(nil), "step.panic", "tool", ""},
		{"its own words", &runtime.Error{Category: runtime.CategoryLimit, Code: "mine", Err: errors.New("full")}, "mine", "limit", "full"},
	} {
		for _, beside := range []string{"", "  b: {uses: set, needs: [a], trigger: all_done, with: 1}\n  c: {uses: test.echo}\n"} {
			t.Run(fmt.Sprintf("%s, beside=%t", tt.name, beside != ""), func(t *testing.T) {
				it := runtest.Tool("test.it", func(context.Context, map[string]any) (any, error) { return nil, tt.err })
				out, err := runtest.Load(t, append(one("with: {}"), beside...)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{it, runtest.Echo}})
				e := out.Failure()
				if e == nil || out.Status != workflow.StatusError || e.Code != tt.code || e.Category != tt.category || e.Step != "a" {
					t.Fatalf("got %s, %+v", out.Status, e)
				}
				if tt.message != "" && err.Error() != `step "a": `+tt.message {
					t.Errorf("got %v", err)
				}
				out, err = runtest.Load(t, append(one("on_error: continue"), beside...)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{it, runtest.Echo}})
				if err != nil {
					t.Errorf("handled: %s, %v", out.Status, err)
				}
			})
		}
	}
}

// A tool that ends its goroutine, as t.FailNow does, has failed.
func TestToolThatEndsItsGoroutine(t *testing.T) {
	for _, beside := range []string{"", "  b: {uses: test.it}\n"} {
		it := runtest.Tool("test.it", func(context.Context, map[string]any) (any, error) { goruntime.Goexit(); return nil, nil })
		out, err := runtest.Load(t, append(one("with: {}"), beside...)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{it}})
		if e := out.Failure(); e == nil || e.Code != "step.panic" || e.Step != "a" || !strings.Contains(err.Error(), "ended its goroutine") {
			t.Errorf("got %v", err)
		}
	}
}

// A call may return in the moment in which its time is over, while the driver is busy with others.
func TestResultAndTimeoutInTheSameMoment(t *testing.T) {
	text := runtest.Head + "steps:\n"
	for i := range 4 {
		text += fmt.Sprintf("  t%d: {uses: test.after, timeout: 1s, on_error: continue, with: {s: 1}}\n", i)
		text += fmt.Sprintf("  b%d: {uses: test.after, with: {s: 1}}\n", i)
		for j := range 70 { // the driver looks up from its work now and then
			text += fmt.Sprintf("  s%d_%d: {uses: set, needs: [b%[1]d], with: 1}\n", i, j)
		}
	}
	wf := runtest.Load(t, []byte(text))
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{after}})
			if err != nil {
				t.Fatal(out.Status, err)
			}
		})
	}
}

// A tool may end the goroutine that it is called on. Run returns all the same, and nothing stays behind: also
// not for a tool that takes values, nor where the run's context cannot end.
func TestToolThatEndsTheCallersGoroutine(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: test.echo, foreach: {in: [1, 2, 3]}}
  b: {uses: test.it, needs: [a]}
  c: {uses: test.echo, needs: [b]}
`))
	end := func(context.Context, map[string]any) (any, error) { goruntime.Goexit(); return nil, nil }
	for name, it := range map[string]runtime.Tool{"by JSON": runtest.Tool("test.it", end), "by value": runtest.ValueTool("test.it", end)} {
		t.Run(name, func(t *testing.T) {
			done := make(chan *workflow.Outcome, 1)
			go func() {
				out, _ := wf.Run(context.Background(), nil, &runtime.Runtime{Tools: []runtime.Tool{it, runtest.Echo}})
				done <- out
			}()
			out := <-done
			if e := out.Failure(); e == nil || e.Code != "step.panic" || e.Step != "b" || !strings.Contains(e.Error(), "ended its goroutine") {
				t.Errorf("got %v, want that b failed because it ended its goroutine", e)
			}
			for _, e := range out.Trace {
				if e.Kind == trace.AdapterCall && e.Step == "c" {
					t.Error("c was called although b had failed")
				}
			}
			goleak.VerifyNone(t, goleak.IgnoreCurrent())
		})
	}
}
