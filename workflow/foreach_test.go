package workflow_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

func TestForeach(t *testing.T) {
	type list = []any
	item := func(status string, key string, v any) map[string]any { return map[string]any{"status": status, key: v} }
	bad := map[string]any{"category": "tool", "code": "tool.failed", "message": "no 2"}
	pick := runtest.Tool("test.pick", func(_ context.Context, args map[string]any) (any, error) {
		if args["n"] == int64(2) {
			return nil, fmt.Errorf("no %d", args["n"])
		}
		return args["n"], nil
	})
	for _, tt := range []struct {
		name, step string
		want       any
		code       string
	}{
		{"no items", `{uses: test.pick, foreach: {in: []}, with: {n: "${{ item }}"}}`, list{}, ""},
		{"no items, collected", `{uses: test.pick, foreach: {in: [], on_error: collect}, with: {n: "${{ item }}"}}`, list{}, ""},
		{"one", `{uses: test.pick, foreach: {in: [1]}, with: {n: "${{ item }}"}}`, list{int64(1)}, ""},
		{"nulls", `{uses: test.pick, foreach: {in: [null, 1, null]}, with: {n: "${{ item }}"}}`, list{nil, int64(1), nil}, ""},
		{"null", `{uses: set, foreach: {in: "${{ null }}"}, with: 1}`, nil, "foreach.notList"},
		{"collected", `{uses: test.pick, foreach: {in: [1, 2, 3], max_parallel: 1, on_error: collect}, with: {n: "${{ item }}"}}`,
			list{item("succeeded", "output", int64(1)), item("failed", "error", bad), item("succeeded", "output", int64(3))}, ""},
		{"failed", `{uses: test.pick, foreach: {in: [1, 2, 3], max_parallel: 1}, with: {n: "${{ item }}"}}`, nil, "tool.failed"},
		{"collected outputs that do not match", `{uses: set, foreach: {in: [1, x], on_error: collect}, with: "${{ item }}", output: {schema: {type: integer}}}`,
			list{item("succeeded", "output", int64(1)), item("failed", "error", map[string]any{"category": "config", "code": "output.invalid",
				"message": "recipe.yaml:4:89: the output does not match output.schema: must be an integer, not a string"})}, ""},
		{"index", `{uses: set, foreach: {in: [a, b]}, with: "${{ [index, item] }}"}`, list{list{int64(0), "a"}, list{int64(1), "b"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: "+tt.step+"\noutput: ${{ steps.a.output }}\n")).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{pick}})
			code := ""
			if e := out.Failure(); e != nil {
				code = e.Code
			}
			if diff := cmp.Diff(tt.want, out.Output); code != tt.code || diff != "" {
				t.Errorf("got %s, %v; output (-want +got):\n%s", code, err, diff)
			}
		})
	}
}

// Levels of foreach share the slots of the run, and one slot is enough for all of them.
func TestNestedForeachShareTheSlots(t *testing.T) {
	for _, parallel := range []int{1, 2, 5} {
		synctest.Test(t, func(t *testing.T) {
			var mutex sync.Mutex
			now, most, calls := 0, 0, 0
			count := func(n int) {
				mutex.Lock()
				defer mutex.Unlock()
				now += n
				most = max(most, now)
				calls += max(0, n)
			}
			it := runtest.Tool("test.it", func(_ context.Context, args map[string]any) (any, error) {
				count(1)
				defer count(-1)
				<-time.After(time.Second)
				return args["n"], nil
			})
			begin := time.Now()
			out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  a:
    uses: recipe
    foreach: {in: [1, 2, 3], as: i}
    with:
      steps:
        first: {uses: test.it, with: {n: 0}}
        b:
          uses: recipe
          needs: [first]
          foreach: {in: [10, 20], as: j}
          with:
            steps: {c: {uses: test.it, foreach: {in: [100, 200], as: k}, with: {n: "${{ i + j + k }}"}}}
            output: ${{ steps.c.output }}
      output: ${{ steps.b.output }}
output: ${{ flatten(steps.a.output) }}
`)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{it}, Limits: runtime.Limits{MaxParallel: parallel}})
			var want []any
			for i := range int64(3) {
				want = append(want, i+111, i+211, i+121, i+221)
			}
			if diff := cmp.Diff(want, out.Output); err != nil || diff != "" {
				t.Errorf("%v; output (-want +got):\n%s", err, diff)
			}
			if calls != 15 || most != parallel {
				t.Errorf("%d calls, %d at once; want 15, and %d at once", calls, most, parallel)
			}
			if took, least := time.Since(begin), time.Duration((15+parallel-1)/parallel)*time.Second; took < least || took > least+2*time.Second {
				t.Errorf("max_parallel %d took %v, the least is %v", parallel, took, least)
			}
		})
	}
}

func TestForeachOverTheMostItems(t *testing.T) {
	out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: test.echo, foreach: {in: "${{ 1..10000 }}", max_parallel: 100}, with: {n: "${{ item * 2 }}"}}
output: ${{ [len(steps.a.output), steps.a.output[9999].n] }}
`)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo}, Limits: runtime.Limits{MaxParallel: 100}})
	if diff := cmp.Diff([]any{int64(10_000), int64(20_000)}, out.Output); err != nil || diff != "" {
		t.Errorf("%v; output (-want +got):\n%s", err, diff)
	}
}

// With a script by position, models see the calls of a fan-out in the same order however many
// there are at once.
func TestModelCallsAreCountedInPlanOrder(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`defaults: {model: fast}
steps:
  one: {uses: model, with: {prompt: one}}
  each: {uses: model, foreach: {in: [a, b, c, d, e, f, g, h, i, j]}, with: {prompt: "each ${{ item }}"}}
  two: {uses: model, priority: 1, with: {prompt: two}}
  last: {uses: model, needs: [one, each, two], with: {prompt: last}}
`))
	want := "two one each a each b each c each d each e each f each g each h each i each j last"
	for _, parallel := range []int{1, 3, 8} {
		for range 20 {
			var mutex sync.Mutex
			prompts := make([]string, 13)
			model := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
				mutex.Lock()
				defer mutex.Unlock()
				prompts[req.Call-1] = req.Messages[0].Text
				return &runtime.Response{Text: fmt.Sprint(req.Call)}, nil
			}}
			out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}, Limits: runtime.Limits{MaxParallel: parallel}})
			if got := strings.Join(prompts, " "); err != nil || got != want {
				t.Fatalf("max_parallel %d: %v, calls %q, want %q", parallel, out.Err, got, want)
			}
		}
	}
}
