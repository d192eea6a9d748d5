package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// increment is add1 as a tool that takes values.
type increment struct{}

func (increment) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "bench.add"} }

func (increment) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	panic("a ValueTool is called by value")
}

func (increment) CallValue(_ context.Context, args map[string]any) (any, error) {
	return add1(args), nil
}

// yamlRecipe is the graph as the text of a recipe.
func yamlRecipe(g graph) []byte {
	var b strings.Builder
	b.WriteString("apiVersion: braise/v1\nname: bench\nsteps:\n")
	for i, needs := range g {
		fmt.Fprintf(&b, "  %s: {uses: bench.add, with: %s", id(i), argument(needs))
		if len(needs) > 1 {
			var ids []string
			for _, n := range needs {
				ids = append(ids, id(n))
			}
			fmt.Fprintf(&b, ", needs: [%s]", strings.Join(ids, ", "))
		}
		b.WriteString("}\n")
	}
	fmt.Fprintf(&b, "output: ${{ steps.%s.output }}\n", id(len(g)-1))
	return []byte(b.String())
}

// argument is the first need's output.
func argument(needs []int) string {
	if len(needs) == 0 {
		return "{n: 0}"
	}
	return fmt.Sprintf(`"${{ steps.%s.output }}"`, id(needs[0]))
}

// goRecipe is the same recipe, built in Go.
func goRecipe(g graph) *recipe.Recipe {
	r := &recipe.Recipe{Name: "bench", Steps: make([]recipe.Step, len(g))}
	for i, needs := range g {
		with := &recipe.Value{IsMap: true, Map: []recipe.Field{{Key: "n", Value: &recipe.Value{Scalar: int64(0)}}}}
		if len(needs) > 0 {
			with = &recipe.Value{Scalar: fmt.Sprintf("${{ steps.%s.output }}", id(needs[0]))}
		}
		step := recipe.Step{ID: id(i), Uses: recipe.Name{Text: "bench.add"}, With: with}
		if len(needs) > 1 {
			step.Needs = make([]recipe.Name, len(needs))
			for k, need := range needs {
				step.Needs[k].Text = id(need)
			}
		}
		r.Steps[i] = step
	}
	r.Output = &recipe.Value{Scalar: fmt.Sprintf("${{ steps.%s.output }}", id(len(g)-1))}
	return r
}

func compile(tb testing.TB, r *recipe.Recipe) *workflow.Workflow {
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return wf
}

// buildBraise is the graph as a compiled recipe, with trace and diagnostics as every user gets
// them.
func buildBraise(tb testing.TB, g graph) job {
	wf := compile(tb, goRecipe(g))
	rt := &runtime.Runtime{Tools: []runtime.Tool{increment{}}}
	return func(ctx context.Context) (value, error) {
		out, err := wf.Run(ctx, nil, rt)
		if err != nil {
			return nil, err
		}
		if len(out.Trace) < 3*len(g) { // start, call and end of each step
			return nil, fmt.Errorf("the trace has only %d events", len(out.Trace))
		}
		return out.Output.(value), nil
	}
}

func compileBraise(b *testing.B, g graph) {
	r := goRecipe(g)
	for b.Loop() {
		compile(b, r)
	}
}

// BenchmarkW4YAML is the chain of 10,000 steps from the text of the recipe to what can be run.
func BenchmarkW4YAML(b *testing.B) {
	text := yamlRecipe(chain(10_000))
	b.Run("braise", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := recipe.Parse("bench.yaml", text)
			if err != nil {
				b.Fatal(err)
			}
			compile(b, r)
		}
	})
}

// Both ways to make the recipe make the same one.
func TestRecipes(t *testing.T) {
	for _, g := range []graph{chain(5), layers(1, 3, 1), square(3, 3)} {
		r, err := recipe.Parse("bench.yaml", yamlRecipe(g))
		if err != nil {
			t.Fatal(err)
		}
		written, built := compile(t, r).Plan(), compile(t, goRecipe(g)).Plan()
		if got, want := built.Mermaid(), written.Mermaid(); got != want {
			t.Errorf("built in Go:\n%s\nwritten:\n%s", got, want)
		}
	}
}
