package workflow_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// What a broken endpoint sends fails the step that asked, whether the answer came in pieces or not;
// the pieces that were shown before do not become its output.
func TestBrokenEndpoints(t *testing.T) {
	const (
		hel    = `data: {"choices": [{"delta": {"content": "Hel"}}]}` + "\n\n"
		schema = ", output: {schema: {type: object}}"
	)
	for _, tt := range []struct {
		name, answer string
		step         string // more of the step
		shown        string // if the answer is asked for in pieces
		code         string
		reason       retry.Reason
		says         string
		calls        int
	}{
		{"half an event", hel + `data: {"choices": [{`, "", "Hel", "model.failed", retry.Network, "the stream was cut", 1},
		{"half an answer", `{"choices": [{"message": {"content": "Hel`, "", "", "model.failed", retry.Unknown, "the answer is not JSON", 1},
		{"a page", "<!doctype html>\n<title>Sign in</title>", "", "", "model.failed", "", "the answer is a page, not JSON", 1},
		{"a page after a piece", hel + "data: <html>\n\n", "", "Hel", "model.failed", "", "the answer is a page, not JSON", 1},
		{"an error with status 200", `{"error": {"message": "slow down", "code": 429}}`, "", "", "model.failed", retry.RateLimit, "slow down", 1},
		{"an error after a piece", hel + `data: {"error": {"message": "slow down", "code": 429}}` + "\n\n", "", "Hel", "model.failed", retry.RateLimit, "slow down", 1},
		{"fewer than no tokens", `{"choices": [{"message": {"content": "Hello"}}], "usage": {"prompt_tokens": -1}}`, "", "",
			"model.failed", "", "the answer counts fewer than 0 tokens", 1},
		{"a tool call in place of an answer, its arguments broken",
			`{"choices": [{"message": {"content": null, "tool_calls": [{"id": "1", "function": {"name": "now", "arguments": "{\"half"}}]}}]}`,
			schema, "", "model.empty", "", "the answer has no text, but calls of tools", 1},
	} {
		for _, deltas := range []bool{false, true} {
			if !deltas && tt.shown != "" {
				continue // nobody asked for events
			}
			t.Run(tt.name+map[bool]string{true: ", in pieces"}[deltas], func(t *testing.T) {
				calls := 0
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					calls++
					io.WriteString(w, tt.answer)
				}))
				defer srv.Close()
				model, err := openai.New(openai.Options{BaseURL: srv.URL, Model: "m", HTTPClient: srv.Client()})
				if err != nil {
					t.Fatal(err)
				}
				w := &runtest.Watcher{Level: trace.Detail{Deltas: deltas}}
				out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: model, with: {model: fast, prompt: Hi}"+tt.step+"}\noutput: ${{ steps.ask.output }}\n")).
					Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}, Trace: []trace.Sink{w},
						Retry: retry.Policies{retry.Model: {MaxAttempts: 1}}})
				e := out.Failure()
				if out.Status != workflow.StatusError || e == nil || e.Category != runtime.CategoryModel || e.Code != tt.code || e.Step != "ask" || !strings.Contains(e.Error(), tt.says) {
					t.Fatalf("%s: %+v", out.Status, e)
				}
				if f, ok := errors.AsType[*retry.Failure](err); ok != (tt.code == "model.failed") || ok && f.Reason != tt.reason {
					t.Errorf("failure %+v, want reason %q", f, tt.reason)
				}
				if out.Output != nil || len(out.Artefact) > 0 || calls != tt.calls {
					t.Errorf("output %v, artefact %v after %d calls, want none after %d", out.Output, out.Artefact, calls, tt.calls)
				}
				shown := ""
				for _, ev := range w.Events() {
					if ev.Kind == trace.ModelDelta {
						shown += ev.Data.Get("text").(string)
					}
				}
				if shown != tt.shown {
					t.Errorf("shown %q, want %q", shown, tt.shown)
				}
			})
		}
	}
}
