package scenario_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/scenario"
)

const asking = `A person is asked twice.
-- recipe.yaml --
apiVersion: braise/v1
name: asking
steps:
  a: {uses: human, with: {prompt: "A?", form: {type: object, properties: {n: {type: integer}}}}}
  b: {uses: human, needs: [a], with: {prompt: "B?"}}
output: ${{ steps.a.output.form?.n }}
-- answers.yaml --
`

// Answers that cannot be given are failures that say which, and why.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, answers, outcome string
		want                   []string
	}{
		{"all", "- {step: a, decision: approve, form: {n: 3}}\n- {decision: reject}\n", `{"status": "ok", "output": 3}`, nil},
		{"whole", "- input: {decision: approve, form: {n: 3}}\n- input: {decision: reject}\n", `{"output": 3}`, nil},
		{"one is left", "- {decision: reject}\n", `{"status": "paused", "pauses": [{"step": "b", "token": null, "createdAt": null}]}`, nil},
		{"none", "[]\n", `{"status": "paused", "runId": "00000000-0000-7000-8000-000000000000"}`, nil},
		{"unfit", "- {decision: approve, form: {n: x}}\n", `{"status": "paused"}`,
			[]string{`answers.yaml: answer 1: the form for human pause "a" of step "a": /n: must be an integer, not a string`}},
		{"no such decision", "- {decision: maybe}\n", `{"status": "paused"}`,
			[]string{"answers.yaml: answer 1: the answer to human pause \"a\" of step \"a\": unknown decision \"maybe\"\n  hint: it is \"approve\" or \"reject\""}},
		{"another step", "- {step: b, decision: approve}\n", `{"status": "paused"}`,
			[]string{`answers.yaml: answer 1: step "b" does not wait; those that do: a`}},
		{"by id", "- {pause: a, decision: approve, form: {n: 3}}\n- {pause: b, decision: reject}\n", `{"output": 3}`, nil},
		{"another id", "- {pause: c, decision: approve}\n", `{"status": "paused"}`,
			[]string{`answers.yaml: answer 1: no pause "c" is open; those that are: a`}},
		{"id and step", "- {pause: a, step: a, decision: approve}\n", `{"status": "ok"}`,
			[]string{`answers.yaml:1:3: "pause" names one pause; it excludes "step" [recipe.invalid]`}},
		{"too many", "- {decision: reject}\n- {decision: reject}\n- {decision: reject}\n", `{"status": "ok"}`,
			[]string{"answers.yaml: the run was over before answer 3"}},
		{"malformed", "- {decision: 1, forms: {}}\n- {input: 1, decision: approve}\n", `{"status": "ok"}`,
			[]string{"answers.yaml:1:14: \"decision\" must be a string, not an integer [recipe.wrongType]\n" +
				"  hint: quote it\nanswers.yaml:1:17: unknown key \"forms\" [recipe.unknownKey]\n  hint: did you mean \"form\"?\n" +
				"answers.yaml:2:3: \"input\" is the whole answer; it excludes \"decision\" and \"form\" [recipe.invalid]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "one.txtar")
			if err := os.WriteFile(file, []byte(asking+tt.answers+"-- outcome.json --\n"+tt.outcome+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := scenario.Check(t.Context(), file, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, r.Failures); diff != "" {
				t.Errorf("failures (-want +got)\n%s", diff)
			}
		})
	}
}

// Without an expectation a paused run has not ended well; --update writes down what it waits for.
func TestPausedOutcome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one.txtar")
	if err := os.WriteFile(file, []byte(asking+"- {decision: reject}\n-- trace.txt --\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := scenario.Check(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) != 2 || !strings.Contains(r.Failures[1], "did not end well") || !strings.Contains(r.Failures[1], `"step": "b"`) {
		t.Errorf("failures: %q", r.Failures)
	}
	if err := os.WriteFile(file, []byte(asking+"- {decision: reject}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err = scenario.Check(t.Context(), file, &scenario.Options{Update: true}); err != nil || !r.Updated {
		t.Fatal(r, err)
	}
	if r, err = scenario.Check(t.Context(), file, nil); err != nil || r.Failures != nil {
		t.Errorf("after an update: %q, %v", r.Failures, err)
	}
	text, _ := os.ReadFile(file)
	if !strings.Contains(string(text), `"prompt": "B?"`) || strings.Contains(string(text), "createdAt") {
		t.Errorf("updated:\n%s", text)
	}
}
