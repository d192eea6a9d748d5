package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// choosy is a model that takes some options, and tells what it is asked for.
type choosy struct {
	takes []string
	err   error
	asked *[]*runtime.Request
}

func (m choosy) Metadata() runtime.Metadata { return runtime.Metadata{Options: m.takes} }

func (m choosy) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	*m.asked = append(*m.asked, req)
	return &runtime.Response{Text: "x", Finish: runtime.FinishStop}, m.err
}

// A model is never asked for what it does not take: the step fails, and a fallback is passed over.
func TestModelOptionsThatAreNotTaken(t *testing.T) {
	takes := []string{"files", "tool_choice"}
	step := func(model string) string {
		return "steps: {a: {uses: model, with: {model: " + model + ", prompt: hi, images: ['https://example.com/a.png']}}}\n"
	}
	agent := func(model string) string {
		return "agents: {one: {model: " + model + ", tools: [test.echo], tool_choice: none}}\nsteps: {a: {uses: agent, with: {prompt: go}}}\n"
	}
	for _, tt := range []struct {
		name, recipe, code string
		asked              int
	}{
		{"taken", step("good"), "", 1},
		{"by an agent", agent("good"), "", 1},
		{"not taken", step("plain"), "model.option", 0},
		{"not taken, by an agent", agent("plain"), "model.option", 0},
		{"files of messages that are not taken", "steps: {a: {uses: model, with: {model: plain, messages: [{role: user, text: hi, " +
			"files: ['https://example.com/a.png']}]}}}\n", "model.option", 0},
		{"by an expression", step(`"${{ 'plain' }}"`), "model.option", 0},
		{"a fallback that does not take it", step("down"), "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked []*runtime.Request
			rt := &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo}, Fallbacks: map[string][]string{"down": {"plain", "good"}}, Models: map[string]runtime.Model{
				"good": choosy{takes, nil, &asked}, "plain": runtimetest.Texts("y"),
				"down": choosy{takes, &retry.Failure{Reason: retry.ServerError, Err: errors.New("down")}, &asked}}}
			out, err := runtest.Load(t, []byte(runtest.Head+tt.recipe)).Run(t.Context(), nil, rt)
			code := ""
			if e, ok := errors.AsType[*runtime.Error](err); ok {
				code = e.Code
			}
			if code != tt.code {
				t.Fatalf("got %v, want the code %q", err, tt.code)
			}
			if len(asked) != tt.asked {
				t.Errorf("asked %d times", len(asked))
			}
			for _, req := range asked {
				if req.Options.ToolChoice != runtime.ToolsNone && req.Messages[0].Files == nil {
					t.Errorf("asked %+v", req)
				}
			}
			if tt.code == "" && len(out.Diagnostics) > 0 {
				t.Errorf("found %v", out.Diagnostics)
			}
		})
	}
}
