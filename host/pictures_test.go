package host_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/workflow"
)

// A run shows a picture of 10 MB to the model of each provider, waits, and goes on when the picture is gone, with another
// host on the same store. The store has it once, the journal not at all.
func TestLargePictureOfAPausedRun(t *testing.T) {
	const asks = `{\"question\":\"Whose?\"}`
	for _, tt := range []struct {
		provider, path, call, text string
	}{
		{"openai", "/v1/chat/completions",
			`{"choices": [{"message": {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "human__ask", "arguments": "` + asks + `"}}]}, "finish_reason": "tool_calls"}]}`,
			`{"choices": [{"message": {"content": "A dot."}, "finish_reason": "stop"}]}`},
		{"openai, api: responses", "/v1/responses",
			`{"id": "r1", "status": "completed", "output": [{"id": "f1", "type": "function_call", "call_id": "c1", "status": "completed", "name": "human__ask", "arguments": "` + asks + `"}]}`,
			`{"id": "r2", "status": "completed", "output": [{"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "A dot."}]}]}`},
		{"anthropic", "/v1/messages",
			`{"type": "message", "role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "human__ask", "input": {"question": "Whose?"}}], "stop_reason": "tool_use", "usage": {}}`,
			`{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "A dot."}], "stop_reason": "end_turn", "usage": {}}`},
		{"gemini", "/v1/models/m:generateContent",
			`{"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "human__ask", "args": {"question": "Whose?"}}, "thoughtSignature": "c2ln"}]}, "finishReason": "STOP"}]}`,
			`{"candidates": [{"content": {"role": "model", "parts": [{"text": "A dot."}]}, "finishReason": "STOP"}]}`},
	} {
		t.Run(tt.provider, func(t *testing.T) {
			t.Setenv("EYES_KEY", "k")
			content := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 10_000_000)...)
			encoded := base64.StdEncoding.EncodeToString(content)
			answers := []string{tt.call, tt.text}
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if n := strings.Count(string(body), encoded); err != nil || n != 1 || r.URL.Path != tt.path {
					t.Errorf("%s has the picture %d times, %v", r.URL.Path, n, err)
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, answers[0])
				answers = answers[1:]
			}))
			defer endpoint.Close()
			h, dir := install(t, host.Options{}, map[string]string{
				"recipe.yaml": `apiVersion: braise/v1
name: look
agents: {looker: {model: eyes, instructions: You look., tools: [human.ask]}}
steps:
  look: {uses: agent, with: {agent: looker, prompt: What is it?, images: [dot.png]}}
output: ${{ steps.look.output.text }}
`,
				"braise.yaml": fmt.Sprintf(`models: {eyes: {provider: %s, model: m, api_key: "${EYES_KEY}", base_url: "%s/v1"}}
store: sqlite:runs.db
tools: {file: {base: data}}
`, tt.provider, endpoint.URL),
				"data/dot.png": string(content),
			})
			out := h.Run(t.Context(), loaded(t, h, dir), nil)
			if out.Status != workflow.StatusPaused {
				t.Fatalf("%s: %v", out.Status, out.Err)
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(dir, "data/dot.png")); err != nil {
				t.Fatal(err)
			}

			other, err := host.Open(t.Context(), &host.Options{Recipe: filepath.Join(dir, "recipe.yaml"), Trust: trust})
			if err != nil {
				t.Fatal(err)
			}
			out = other.Resume(t.Context(), out.Token, map[string]any{"answer": "Mine"}, nil)
			if err := other.Close(); err != nil || out.Output != "A dot." {
				t.Fatalf("%v, %v, %v", out.Output, out.Err, err)
			}

			store, err := sqlite.Open(t.Context(), filepath.Join(dir, "runs.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if kept, err := store.Collections(t.Context(), "content/"); err != nil || len(kept) != 1 {
				t.Errorf("the picture is kept %d times, %v", len(kept), err)
			}
			_, recs, err := store.Load(t.Context(), out.RunID, 0)
			size := 0
			for _, rec := range recs {
				size += len(rec.Data)
			}
			if err != nil || size > 10_000 {
				t.Errorf("the journal has %d bytes, %v", size, err)
			}
		})
	}
}
