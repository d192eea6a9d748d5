package workflow_test

import (
	"fmt"
	"testing"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

func TestPlanID(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"", ""},
		{"send", "send"},
		{"both/left/ask", "both/left/ask"},
		{"verify[2]", "verify"},
		{"verify[2]/check", "verify/check"},
		{"verify[2]/check#3", "verify/check"},
		{"verify[12]/draft#10/score", "verify/draft/score"},
		{"rounds#1/each[0]/rounds#2/ask", "rounds/each/rounds/ask"},
		{"ask/research#1", "ask/research"},
		{"ask/agent.a1#2", "ask/agent.a1"},
		{"each[3]/ask/research#1/clerk#2", "each/ask/research/clerk"},
	} {
		if got := workflow.PlanID(tt.path); got != tt.want {
			t.Errorf("PlanID(%q) = %q, want %q", tt.path, got, tt.want)
		}
	}
}

// What runs in a fork is known before it runs.
func ExampleWorkflow_Affected() {
	wf := must(workflow.Compile(must(recipe.Parse("recipe.yaml", []byte(`
apiVersion: braise/v1
name: report
steps:
  fetch: {uses: set, with: 1}
  draft: {uses: model, with: {model: fast, prompt: "${{ steps.fetch.output }}"}}
  count: {uses: set, with: "${{ steps.fetch.output }}"}
  report: {uses: set, with: ["${{ steps.draft.output }}", "${{ steps.count.output }}"]}
`))), nil))
	fmt.Println(wf.Affected("draft", workflow.Edits{}))
	fmt.Println(wf.Affected("draft", workflow.Edits{Outputs: map[string]any{"draft": map[string]any{"text": "Dear Ada"}}}))
	fmt.Println(wf.Affected("draft", workflow.Edits{Inputs: map[string]any{}}))
	// Output:
	// [draft report]
	// [report]
	// [fetch draft count report]
}

// Steps of a run are found in the plan of its recipe.
func ExamplePlanID() {
	fmt.Println(workflow.PlanID("verify[2]/draft#3/score"))
	// Output: verify/draft/score
}
