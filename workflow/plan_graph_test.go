package workflow_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/braise-run/braise/internal/seedtest/rapidseed"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

const diamond = `apiVersion: braise/v1
name: diamond
steps:
  fetch: {uses: set, with: 1}
  parse: {uses: set, with: "${{ steps.fetch.output }}"}
  check: {uses: set, with: "${{ steps.fetch.output }}"}
  both:
    uses: fork
    needs: [check]
    with:
      branches:
        left: {steps: {ask: {uses: set, with: 1}, think: {uses: set, needs: [ask], with: "${{ steps.ask.output }}"}, tell: {uses: set, needs: [ask, think], with: 1}}}
        right: {steps: {ask: {uses: set, with: 1}}}
  report: {uses: set, needs: [both, fetch], with: ["${{ steps.parse.output }}", "${{ steps.check.output }}"]}
  alone: {uses: set, with: 1}
`

func planOf(t *testing.T, text string) *workflow.Plan {
	t.Helper()
	r, err := recipe.Parse("recipe.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wf.Plan()
}

// Why says on which ways one step waits for another, and Reduced leaves out of a picture what follows
// from the rest.
func ExamplePlan_Why() {
	r := must(recipe.Parse("recipe.yaml", []byte(`
apiVersion: braise/v1
name: digest
steps:
  fetch: {uses: set, with: 1}
  parse: {uses: set, with: "${{ steps.fetch.output }}"}
  report: {uses: set, needs: [fetch], with: "${{ steps.parse.output }}"}
`)))
	plan := must(workflow.Compile(r, nil)).Plan()

	fmt.Print(must(plan.Why("fetch", "report")).Text())
	fmt.Print(must(plan.Reduced()).Mermaid())
	// Output:
	// fetch → report (order)
	// fetch → parse (data) → report (data)
	// flowchart TD
	//   s_fetch["fetch<br/>set"]
	//   s_parse["parse<br/>set"]
	//   s_report["report<br/>set"]
	//   s_fetch --> s_parse
	//   s_parse --> s_report
}

func TestWhy(t *testing.T) {
	plan := planOf(t, diamond)
	for _, tt := range []struct{ from, to, want string }{
		{"fetch", "parse", "fetch → parse (data)\n"},
		{"fetch", "report", `fetch → report (order)
fetch → parse (data) → report (data)
fetch → check (data) → report (data)
fetch → check (data) → both (order) → report (order)
`},
		{"report", "fetch", "fetch does not wait for report; report waits for fetch\n"},
		{"parse", "check", "check does not wait for parse\n"},
		{"alone", "report", "report does not wait for alone\n"},
		{"fetch", "both/left/think", "fetch → check (data) → both (order) → both/left/think (body)\n"},
		{"both/left/ask", "report", "both/left/ask → both (body) → report (order)\n"},
		{"both", "both/left/ask", "both → both/left/ask (body)\n"},
		{"both/left/ask", "both", "both/left/ask → both (body)\n"},
		{"both/left/ask", "both/left/tell", `both/left/ask → both/left/tell (order)
both/left/ask → both/left/think (data) → both/left/tell (order)
`},
		{"both/left/ask", "both/right/ask", "both/right/ask does not wait for both/left/ask\n"},
		{"both/left/think", "both/left/ask", "both/left/ask does not wait for both/left/think; both/left/think waits for both/left/ask\n"},
	} {
		ways, err := plan.Why(tt.from, tt.to)
		if err != nil {
			t.Errorf("Why(%q, %q): %v", tt.from, tt.to, err)
		} else if diff := cmp.Diff(tt.want, ways.Text()); diff != "" {
			t.Errorf("Why(%q, %q) (-want +got):\n%s", tt.from, tt.to, diff)
		}
	}
	for _, tt := range []struct{ from, to, want string }{
		{"fetch", "repor", "the plan has no step \"repor\"\n  hint: did you mean \"report\"?"},
		{"both/left/nobody", "report", `the plan has no step "both/left/nobody"`},
		{"fetch/x", "report", `the plan has no step "fetch/x"`},
		{"fetch", "fetch", `"fetch" is one step: name two`},
	} {
		if _, err := plan.Why(tt.from, tt.to); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("Why(%q, %q): error %v, want %q", tt.from, tt.to, err, tt.want)
		}
	}
}

// layers returns a plan of layers of two steps, each of which waits for both of the layer before it, between
// one step and another.
func layers(n int) *workflow.Plan {
	plan := &workflow.Plan{Steps: []workflow.PlanStep{{ID: "from"}}}
	before := []workflow.Edge{{Step: "from", Kind: "data"}}
	for i := range n {
		var layer []workflow.Edge
		for _, side := range []string{"a", "b"} {
			id := fmt.Sprint(side, i)
			plan.Steps = append(plan.Steps, workflow.PlanStep{ID: id, Needs: before})
			layer = append(layer, workflow.Edge{Step: id, Kind: "data"})
		}
		before = layer
	}
	plan.Steps = append(plan.Steps, workflow.PlanStep{ID: "to", Needs: before})
	return plan
}

func TestWhyOfManyWays(t *testing.T) {
	for _, tt := range []struct {
		layers, total, listed int
		last                  string
	}{
		{6, 64, 64, ""},
		{7, 128, 64, "and 64 other ways\n"}, // a step that leads to 64 twice would be past the most
		{2000, math.MaxInt32, 64, fmt.Sprintf("and more than %d other ways\n", math.MaxInt32-64)},
	} {
		ways, err := layers(tt.layers).Why("from", "to")
		if err != nil {
			t.Fatal(err)
		}
		if ways.Total != tt.total || len(ways.Ways) != tt.listed {
			t.Errorf("%d layers: %d of %d ways, want %d of %d", tt.layers, len(ways.Ways), ways.Total, tt.listed, tt.total)
		}
		if text := ways.Text(); !strings.HasSuffix(text, ")\n"+tt.last) {
			t.Errorf("%d layers: the text ends with %q, want %q", tt.layers, text[len(text)-60:], tt.last)
		}
	}
}

// randomPlan draws a plan in which steps wait for any of those before them.
func randomPlan(t *rapid.T, most int) *workflow.Plan {
	plan := &workflow.Plan{}
	for i := range rapid.IntRange(2, most).Draw(t, "steps") {
		s := workflow.PlanStep{ID: fmt.Sprint("s", i)}
		for j := range i {
			if rapid.Bool().Draw(t, "edge") {
				s.Needs = append(s.Needs, workflow.Edge{Step: fmt.Sprint("s", j), Kind: "data"})
			}
		}
		plan.Steps = append(plan.Steps, s)
	}
	return plan
}

// waits lists, for each pair of steps, whether the second waits for the first, by following needs.
func waits(plan *workflow.Plan) map[[2]string]bool {
	all := map[[2]string]bool{}
	for _, s := range plan.Steps {
		for _, e := range s.Needs {
			all[[2]string{e.Step, s.ID}] = true
			for _, before := range plan.Steps {
				if all[[2]string{before.ID, e.Step}] {
					all[[2]string{before.ID, s.ID}] = true
				}
			}
		}
	}
	return all
}

// The ways are counted by hand: those to a step are those to all that it needs.
func TestWhyCountsAllWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := randomPlan(t, 12)
		last := plan.Steps[len(plan.Steps)-1].ID
		count := map[string]int{"s0": 1}
		for _, s := range plan.Steps {
			for _, e := range s.Needs {
				count[s.ID] += count[e.Step]
			}
		}
		ways, err := plan.Why("s0", last)
		if err != nil {
			t.Fatal(err)
		}
		if ways.Total != count[last] {
			t.Fatalf("%d ways, want %d", ways.Total, count[last])
		}
		if n := len(ways.Ways); n > workflow.MaxWays || n < min(1, ways.Total) || ways.Total <= workflow.MaxWays && n != ways.Total {
			t.Fatalf("%d of %d ways are listed", n, ways.Total)
		}
		needs := map[string][]workflow.Edge{}
		for _, s := range plan.Steps {
			needs[s.ID] = s.Needs
		}
		seen := map[string]bool{}
		for i, way := range ways.Ways {
			if i > 0 && len(way) < len(ways.Ways[i-1]) {
				t.Fatalf("way %d is shorter than the one before it", i)
			}
			if seen[fmt.Sprint(way)] {
				t.Fatalf("way %v is listed twice", way)
			}
			seen[fmt.Sprint(way)] = true
			at := "s0"
			for _, hop := range way {
				if !strings.Contains(fmt.Sprint(needs[hop.Step]), fmt.Sprintf("{%s data}", at)) {
					t.Fatalf("way %v has no edge from %s to %s", way, at, hop.Step)
				}
				at = hop.Step
			}
			if at != last {
				t.Fatalf("way %v ends at %s", way, at)
			}
		}
	})
}

// What is reduced says the same, and nothing can be left out of it.
func TestReducedOnRandomPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := randomPlan(t, 12)
		reduced, err := plan.Reduced()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(waits(plan), waits(reduced)); diff != "" {
			t.Fatalf("who waits for whom (-plan +reduced):\n%s", diff)
		}
		all := waits(reduced)
		for _, s := range reduced.Steps {
			for _, e := range s.Needs {
				for _, other := range s.Needs {
					if all[[2]string{e.Step, other.Step}] {
						t.Fatalf("%s waits for %s, which waits for %s: the edge from there is left", s.ID, other.Step, e.Step)
					}
				}
			}
		}
	})
}

func TestReduced(t *testing.T) {
	plan := planOf(t, diamond)
	before := plan.Text()
	reduced, err := plan.Reduced()
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(reduced.Text(), "\n")
	want := `  1. fetch  set
  2. parse  set  after fetch (data)
  3. check  set  after fetch (data)
  4. both  fork  after check (order)
    1. both/left/ask  set
    2. both/left/think  set  after both/left/ask (data)
    3. both/left/tell  set  after both/left/think (order)
    4. both/right/ask  set
  5. report  set  after parse (data), both (order)
  6. alone  set
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reduced (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, plan.Text()); diff != "" {
		t.Errorf("the plan itself has changed (-before +after):\n%s", diff)
	}
	if _, err := layers(99).Reduced(); err != nil { // 200 steps
		t.Error(err)
	}
	if _, err := layers(100).Reduced(); err == nil || !strings.Contains(err.Error(), "202 steps") {
		t.Errorf("of 202 steps: error %v", err)
	}
}

func TestDOTOfNoPlan(t *testing.T) {
	plan := &workflow.Plan{Steps: []workflow.PlanStep{{ID: "a", Needs: []workflow.Edge{{Step: "gone", Kind: "data"}}}}}
	if got := plan.DOT(); got != "" {
		t.Errorf("an edge from nowhere: %q, want nothing", got)
	}
}
