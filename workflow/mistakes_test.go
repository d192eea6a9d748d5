package workflow_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		{"no runtime", run(order, nil), "?"},
		{"a model that is nil", run(order, with(func(rt *runtime.Runtime) { rt.Models = map[string]runtime.Model{"fast": nil} })), "?"},
		{"a tool without a name", run(order, with(func(rt *runtime.Runtime) {
			rt.Tools = []runtime.Tool{runtime.NewTool(runtime.ToolSpec{}, func(context.Context, struct{}) (string, error) { return "", nil })}
		})), "?"},
		{"a tool is missing", run(order, with(func(rt *runtime.Runtime) { rt.Tools = nil })), "?"},
		{"an input of another type", run(map[string]any{"order": "seven"}, rt), "?"},
		{"an input is missing", run(nil, rt), "?"},
		{"an input too many", run(map[string]any{"order": 7, "odrer": 8}, rt), "?"},
		{"the input is no object", run(7, rt), "?"},
		{"the input is no JSON", run(map[string]any{"order": func() {}}, rt), "?"},
		{"no recipe", func() error { _, err := workflow.Compile(nil, nil); return err }(), "?"},
		{"no store", resumeWith(paused.Token, yes, &runtime.Runtime{}, nil), "?"},
		{"no resume adapter", resumeWith(paused.Token, yes, with(func(rt *runtime.Runtime) { rt.Resume = nil }), nil), "?"},
		{"not a token", resumeWith("approve", yes, rt, nil), "?"},
		{"a token of another store", resumeWith(unknown, yes, rt, nil), "?"},
		{"a token that was cut", resumeWith(paused.Token[:len(paused.Token)-1], yes, rt, nil), "?"},
		{"another recipe", resumeWith(paused.Token, yes, rt, &workflow.ResumeOptions{Workflow: other}), "?"},
		{"an answer that does not fit", resumeWith(paused.Token, map[string]any{"decision": "yes"}, rt, nil), "?"},
		{"an answer to an unknown pause", func() error { _, err := workflow.Answer(ctx, "run-I", "aks", yes, rt, nil); return err }(), "?"},
		{"recover an unknown run", func() error { _, err := workflow.Recover(ctx, "run-V", rt, nil); return err }(), "?"},
		{"fork at an unknown step", func() error { _, err := workflow.Fork(ctx, "run-I", "aks", workflow.Edits{}, rt, nil); return err }(), "?"},
		{"decode what is not there", paused.Decode(new(string)), "?"},
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
		}(), "?"},
		{"a token a second time", func() error {
			must(workflow.Resume(ctx, paused.Token, yes, rt, nil))
			return resumeWith(paused.Token, yes, rt, nil)
		}(), "?"},
	} {
		if tt.err == nil {
			t.Errorf("%s: no error", tt.name)
			continue
		}
		got := tt.err.Error()
		if _, owner, ok := strings.Cut(got, `holds the run: "`); ok {
			got = strings.ReplaceAll(got, strings.TrimSuffix(owner, `"`), "OWNER")
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, got)
		}
		if e, ok := errors.AsType[*runtime.Error](tt.err); ok { t.Log(e.Code) }
	}
}
