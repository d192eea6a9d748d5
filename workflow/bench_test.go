package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// The benchmarks here show the engine's own cost, and that nothing grows faster than the recipe:
// ns/step stays the same from 1,000 to 10,000 steps.

// increment is the cheapest tool there is: it adds 1 to a field of a small map.
type increment struct{}

func (increment) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "test.inc"} }

func (increment) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	panic("a ValueTool is called by value")
}

func (increment) CallValue(_ context.Context, args map[string]any) (any, error) {
	n, _ := args["n"].(int64)
	return map[string]any{"n": n + 1}, nil
}

// chain is a recipe of n steps, each with an expression that reads the one before.
func chain(n int, uses string) []byte {
	var b strings.Builder
	b.WriteString("apiVersion: braise/v1\nname: chain\nsteps:\n")
	fmt.Fprintf(&b, "  s0: {uses: %s, with: {n: 0}}\n", uses)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "  s%d: {uses: %s, with: {n: \"${{ steps.s%d.output.n }}\"}}\n", i, uses, i-1)
	}
	fmt.Fprintf(&b, "output: ${{ steps.s%d.output.n }}\n", n-1)
	return []byte(b.String())
}

// computed is a chain whose expressions compute, so that the plain-path shortcut does not serve.
func computed(n int) []byte {
	return []byte(strings.ReplaceAll(string(chain(n, "set")), ".output.n }}\"", ".output.n + 1 }}\""))
}

// fan is one step, n beside each other, and one that joins them.
func fan(n int) []byte {
	var b strings.Builder
	b.WriteString("apiVersion: braise/v1\nname: fan\nsteps:\n  first: {uses: test.inc, with: {n: 0}}\n")
	var needs []string
	for i := range n {
		fmt.Fprintf(&b, "  s%d: {uses: test.inc, with: {n: \"${{ steps.first.output.n }}\"}}\n", i)
		needs = append(needs, fmt.Sprintf("s%d", i))
	}
	fmt.Fprintf(&b, "  last: {uses: test.inc, with: {n: 1}, needs: [%s]}\n", strings.Join(needs, ", "))
	return []byte(b.String())
}

func perStep(b *testing.B, steps int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(steps), "ns/step")
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			text := computed(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := recipe.Parse("recipe.yaml", text); err != nil {
					b.Fatal(err)
				}
			}
			perStep(b, n)
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, err := recipe.Parse("recipe.yaml", computed(n))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := workflow.Compile(r, nil); err != nil {
					b.Fatal(err)
				}
			}
			perStep(b, n)
		})
	}
}

func BenchmarkRun(b *testing.B) {
	rt := &runtime.Runtime{Tools: []runtime.Tool{increment{}}}
	for _, tt := range []struct {
		name  string
		steps int
		text  []byte
	}{
		{"chain of 100 tools", 100, chain(100, "test.inc")},
		{"chain of 10000 tools", 10_000, chain(10_000, "test.inc")},
		{"chain of 1000 sets that compute", 1000, computed(1000)},
		{"chain of 10000 sets that compute", 10_000, computed(10_000)},
		{"fan of 100 tools", 102, fan(100)},
		{"fan of 10000 tools", 10_002, fan(10_000)},
	} {
		b.Run(tt.name, func(b *testing.B) {
			wf := runtest.Load(b, tt.text)
			b.ReportAllocs()
			for b.Loop() {
				if out, err := wf.Run(context.Background(), nil, rt); err != nil {
					b.Fatal(err, out.Diagnostics)
				}
			}
			perStep(b, tt.steps)
		})
	}
}

// turns is a model that calls a tool in each of its first 20 turns.
type turns struct{}

func (turns) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	if req.StepCall > 20 {
		return &runtime.Response{Text: "done"}, nil
	}
	call := runtime.ToolCall{ID: "1", Name: "test.inc", Arguments: fmt.Appendf(nil, `{"n":%d}`, req.StepCall)}
	return &runtime.Response{ToolCalls: []runtime.ToolCall{call}}, nil
}

// An agent of 20 turns, without a store and with one that only encodes.
func BenchmarkAgent(b *testing.B) {
	wf := runtest.Load(b, []byte("apiVersion: braise/v1\nname: agent\ndefaults: {model: fast}\nagents: {one: {max_steps: 30}}\n"+
		"steps: {a: {uses: agent, with: {prompt: go}}}\noutput: ${{ steps.a.output.text }}\n"))
	for name, store := range map[string]checkpoint.Store{"no store": nil, "memory": &checkpoint.Memory{}} {
		b.Run(name, func(b *testing.B) {
			rt := &runtime.Runtime{Models: map[string]runtime.Model{"fast": turns{}}, Tools: []runtime.Tool{increment{}}, Store: store}
			b.ReportAllocs()
			for b.Loop() {
				if out, err := wf.Run(b.Context(), nil, rt); err != nil || out.Output != "done" {
					b.Fatal(err, out.Output)
				}
			}
			perStep(b, 20)
		})
	}
}
