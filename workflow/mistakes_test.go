package workflow_test

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// The mistakes that programs which embed Braise make most: each is an error that names what is wrong, none a panic.
func TestMistakesInGo(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	send := func(text string) (string, error) { return text, nil }
	rt, closeStore := office(filepath.Join(dir, "runs.db"), send)
	defer closeStore()
	ids := 0
	rt.NewRunID = func() string { ids++; return "run-" + strings.Repeat("I", ids) }
	wf := must(workflow.Compile(must(recipe.Parse("refund.yaml", []byte(refund))), nil))
	other := must(workflow.Compile(must(recipe.Parse("refund.yaml", []byte(strings.ReplaceAll(refund, "Send it", "Now")))), nil))
	yes := map[string]any{"decision": "approve"}
	order := map[string]any{"order": 7}
	paused := must(wf.Run(ctx, order, rt))
	if paused.Status != workflow.StatusPaused || paused.RunID != "run-I" {
		t.Fatal(paused.Status, paused.RunID)
	}
	unknown := "run-V." + strings.Split(paused.Token, ".")[1]

	run := func(input any, rt *runtime.Runtime) error { _, err := wf.Run(ctx, input, rt); return err }
	with := func(change func(*runtime.Runtime)) *runtime.Runtime { mine := *rt; change(&mine); return &mine }
	resumeWith := func(token string, input any, rt *runtime.Runtime, opts *workflow.ResumeOptions) error {
		_, err := workflow.Resume(ctx, token, input, rt, opts)
		return err
	}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"no runtime", run(order, nil), `refund.yaml:7:11: step "letter": no model named "fast" is configured`},
		{"a model that is nil", run(order, with(func(rt *runtime.Runtime) { rt.Models = map[string]runtime.Model{"fast": nil} })), `runtime: model "fast" is nil`},
		{"a tool without a name", run(order, with(func(rt *runtime.Runtime) {
			rt.Tools = []runtime.Tool{runtime.NewTool(runtime.ToolSpec{}, func(context.Context, struct{}) (string, error) { return "", nil })}
		})), `runtime: tool "": a tool's name contains a dot, like "crm.lookup"`},
		{"a tool is missing", run(order, with(func(rt *runtime.Runtime) { rt.Tools, rt.Diagnostics = nil, diagnostics.Strict })),
			`strict diagnostics failure: refund.yaml:13:11: no tool named "mail.send" is configured; step "send" needs it [tool.missing]`},
		{"an input of another type", run(map[string]any{"order": "seven"}, rt), `input "order" does not match its schema: must be an integer, not a string`},
		{"an input is missing", run(nil, rt), `input "order" is missing`},
		{"an input too many", run(map[string]any{"order": 7, "odrer": 8}, rt), `unknown input "odrer"`},
		{"the input is no object", run(7, rt), "the input must be a map from input names to values, not a number"},
		{"the input is no JSON", run(map[string]any{"order": func() {}}, rt), "the input is not JSON: /order: func() is not JSON: json: unsupported type: func()"},
		{"no recipe", func() error { _, err := workflow.Compile(nil, nil); return err }(), "there is no recipe to compile\n  hint: look at the error of recipe.Load or recipe.Parse"},
		{"no store", resumeWith(paused.Token, yes, &runtime.Runtime{}, nil),
			`run "run-I": the token is unknown, used or expired` + "\n  hint: no store is configured, so only the runs of this process are known"},
		{"no resume adapter", resumeWith(paused.Token, yes, with(func(rt *runtime.Runtime) { rt.Resume = nil }), nil), "resume requires a resume adapter\n  hint: set Runtime.Resume; resume.PassThrough{} takes the input as the answer"},
		{"not a token", resumeWith("approve", yes, rt, nil), "the token is unknown, used or expired"},
		{"a token of another store", resumeWith(unknown, yes, rt, nil), `run "run-V": the token is unknown, used or expired`},
		{"a token that was cut", resumeWith(paused.Token[:len(paused.Token)-1], yes, rt, nil), "the token is unknown, used or expired"},
		{"another recipe", resumeWith(paused.Token, yes, rt, &workflow.ResumeOptions{Workflow: other}), `run "run-I" has another definition of recipe "refund" (DIGEST, not DIGEST)`},
		{"an answer that does not fit", resumeWith(paused.Token, map[string]any{"decision": "yes"}, rt, nil), `the answer to human pause "ask" of step "ask": unknown decision "yes"` + "\n" + `  hint: it is "approve" or "reject"`},
		{"an answer to an unknown pause", func() error { _, err := workflow.Answer(ctx, "run-I", "aks", yes, rt, nil); return err }(), `run "run-I" has no pending pause "aks"` + "\n" + `  hint: pending pauses: ["ask"]`},
		{"recover an unknown run", func() error { _, err := workflow.Recover(ctx, "run-V", rt, nil); return err }(), `run "run-V": not in the store`},
		{"fork at an unknown step", func() error { _, err := workflow.Fork(ctx, "run-I", "aks", workflow.Edits{}, rt, nil); return err }(), `recipe "refund" has no step "aks"` + "\n" + `  hint: did you mean "ask"?`},
		{"decode what is not there", paused.Decode(new(string)), `run "run-I" is paused: it has no output yet`},
		{"a run in two places", func() (err error) {
			mine, closeStore := office(filepath.Join(dir, "other.db"), func(text string) (string, error) {
				other, closeStore := office(filepath.Join(dir, "other.db"), send)
				defer closeStore()
				_, err = workflow.Recover(ctx, "run-1", other, nil)
				return text, nil
			})
			defer closeStore()
			mine.NewRunID = func() string { return "run-1" }
			out := must(wf.Run(ctx, order, mine))
			must(workflow.Resume(ctx, out.Token, yes, mine, nil))
			return err
		}(), `run "run-1": another owner holds the run: process N on HOST`},
		{"a token a second time", func() error {
			must(workflow.Resume(ctx, paused.Token, yes, rt, nil))
			return resumeWith(paused.Token, yes, rt, nil)
		}(), `run "run-I": the token is unknown, used or expired`},
	} {
		if tt.err == nil {
			t.Errorf("%s: no error", tt.name)
			continue
		}
		got := regexp.MustCompile(`sha256:[0-9a-f]+`).ReplaceAllString(tt.err.Error(), "DIGEST")
		got = regexp.MustCompile(`process \d+ on .*`).ReplaceAllString(got, "process N on HOST")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
