package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func ExampleOutcomeSchema() {
	var s struct {
		Title    string
		Required []string
	}
	if err := json.Unmarshal(workflow.OutcomeSchema(), &s); err != nil {
		fmt.Println(err)
	}
	fmt.Println(s.Title, s.Required)
	// Output:
	// Braise outcome [status diagnostics trace]
}

// Outcomes of every kind of end fit the schema.
func TestOutcomeSchemaTakesOutcomes(t *testing.T) {
	s, err := schema.Compile(workflow.OutcomeSchema())
	if err != nil {
		t.Fatal(err)
	}
	panics := runtest.Tool("test.panic", func(context.Context, map[string]any) (any, error) { panic("out of order") })
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name, steps string
		ctx         context.Context
		want        workflow.Status
	}{
		{"ok", "\n  a: {uses: test.echo, with: {n: [1, null]}}\noutput: {a: '${{ steps.a.output }}'}", t.Context(), workflow.StatusOK},
		{"ok without output", "\n  a: {uses: set, with: 1, when: false}\n  b: {uses: set, needs: [a], with: 1}", t.Context(), workflow.StatusOK},
		{"bodies", "\n  a: {uses: recipe, foreach: {in: [1, 2]}, with: {steps: {b: {uses: set, with: 1}}}}", t.Context(), workflow.StatusOK},
		{"failed", "\n  a: {uses: fail, with: {message: no}}", t.Context(), workflow.StatusError},
		{"two failed", "\n  a: {uses: fail, with: {message: no}}\n  b: {uses: fail, trigger: all_done, with: {message: no}}", t.Context(), workflow.StatusError},
		{"panicked", "\n  a: {uses: test.panic}", t.Context(), workflow.StatusError},
		{"missing", "\n  a: {uses: model, with: {model: nowhere, prompt: hi}}", t.Context(), workflow.StatusError},
		{"cancelled", "\n  a: {uses: set, with: 1}", cancelled, workflow.StatusCancelled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := recipe.Parse("r.yaml", []byte("apiVersion: braise/v1\nname: r\nversion: '2'\nsteps:"+tt.steps))
			if err != nil {
				t.Fatal(err)
			}
			wf, err := workflow.Compile(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			out, _ := wf.Run(tt.ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo, panics}, Reporter: &runtest.Quiet{}})
			if out.Status != tt.want {
				t.Fatalf("the run ended %s: %v", out.Status, out.Err)
			}
			fits(t, s, out)
		})
	}
}

// fits checks the JSON of an outcome against the schema.
func fits(t *testing.T, s *schema.Schema, out *workflow.Outcome) {
	t.Helper()
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if problems := s.Check(v); problems != nil {
		t.Errorf("%s: %s", text, schema.Describe(problems))
	}
}

func TestOutcomeSchemaRefuses(t *testing.T) {
	s, err := schema.Compile(workflow.OutcomeSchema())
	if err != nil {
		t.Fatal(err)
	}
	const failed = `"status": "error", "error": {"category": "tool", "code": "c", "message": "m"}`
	for _, text := range []string{
		`{}`,
		`{"status": "ok", "runId": "1", "recipe": "r", "output": null, "diagnostics": []}`,
		`{"status": "ok", "runId": "1", "recipe": "r", "diagnostics": [], "trace": []}`,
		`{"status": "fine", "runId": "1", "recipe": "r", "output": null, "diagnostics": [], "trace": []}`,
		`{"status": "ok", "runId": "1", "recipe": "r", "output": null, "diagnostics": [], "trace": [], "token": "t"}`,
		`{"status": "error", "diagnostics": [], "trace": []}`,
		`{` + failed + `, "output": 1, "diagnostics": [], "trace": []}`,
		`{` + failed + `, "diagnostics": [{"level": "info", "kind": "recipe", "code": "c", "message": "m"}], "trace": []}`,
		`{` + failed + `, "diagnostics": [{"level": "warn", "kind": "recipe", "code": "c", "message": "m", "position": 1}], "trace": []}`,
		`{` + failed + `, "diagnostics": [], "trace": [{"at": "2026-01-02T03:04:05Z", "kind": "run.success"}]}`,
		`{` + failed + `, "diagnostics": [], "trace": [{"seq": 1, "at": "2026-01-02T03:04:05Z", "kind": "run.finished"}]}`,
	} {
		v, err := value.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if s.Check(v) == nil {
			t.Errorf("%s fits the schema", text)
		}
	}
}
