package openai_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Mistral's models want the assistant to speak between a result and the user, and ids of nine letters and digits.
// Others get what they got before, and each request of a thread is a prefix of the next.
func TestMistral(t *testing.T) {
	thread := []runtime.Message{
		{Role: runtime.User, Text: "Look."},
		{Role: runtime.Assistant, ToolCalls: []runtime.ToolCall{{ID: "call_2_1", Name: "look", Arguments: json.RawMessage("{}")}, {ID: "aB3dE6gH9", Name: "look", Arguments: json.RawMessage("{}")}}},
		{Role: runtime.ToolRole, ToolCallID: "call_2_1", Text: "Ada"},
		{Role: runtime.ToolRole, ToolCallID: "aB3dE6gH9", Text: "Bob"},
		{Role: runtime.User, Text: "Hurry."},
		{Role: runtime.Assistant, Text: "Both."},
		{Role: runtime.User, Text: "Thanks."},
	}
	type sent struct {
		Role       string
		Content    string
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []struct{ ID string }
	}
	for model, mistral := range map[string]bool{
		"mistral-large-latest": true, "mistralai/Devstral-Small-2-24B": true, "magistral:24b": true, "open-mixtral-8x22b": true, "hf.co/x/Ministral-8B": true,
		"gpt-5": false, "qwen3": false, "amistral": false, "gemma": false,
	} {
		var got struct{ Messages []json.RawMessage }
		srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
			got.Messages = nil
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
				t.Error(err)
			}
			answer(200, `{"choices": [{"message": {"content": "ok"}}]}`)(w, r)
		})
		m := connect(t, srv, openai.Options{Model: model})
		var before []string
		for n := 1; n <= len(thread); n++ {
			if thread[n-1].Role == runtime.Assistant || n == 3 { // the model speaks next only behind the user, or all results
				continue
			}
			if _, err := m.Generate(t.Context(), &runtime.Request{Messages: thread[:n]}); err != nil {
				t.Fatal(err)
			}
			var now []string
			for _, text := range got.Messages {
				now = append(now, string(text))
			}
			if len(now) < len(before) || !slices.Equal(now[:len(before)], before) {
				t.Errorf("%s: %d messages: %q does not begin with %q", model, n, now, before)
			}
			before = now
		}
		var roles []string
		var ids []string
		for _, text := range got.Messages {
			var msg sent
			if err := json.Unmarshal(text, &msg); err != nil {
				t.Fatal(err)
			}
			roles = append(roles, msg.Role+": "+msg.Content)
			if msg.ToolCallID != "" {
				ids = append(ids, msg.ToolCallID)
			}
		}
		want := []string{"user: Look.", "assistant: ", "tool: Ada", "tool: Bob", "user: Hurry.", "assistant: Both.", "user: Thanks."}
		wantIDs := []string{"call_2_1", "aB3dE6gH9"}
		if mistral {
			want = slices.Insert(want, 4, "assistant: OK.")
			wantIDs[0] = "cfcc9acfa" // of sha256
		}
		if diff := cmp.Diff(want, roles); diff != "" {
			t.Errorf("%s (-want +got):\n%s", model, diff)
		}
		if diff := cmp.Diff(wantIDs, ids); diff != "" {
			t.Errorf("%s: ids (-want +got):\n%s", model, diff)
		}
		if call := string(got.Messages[1]); !strings.Contains(call, `"id":"`+wantIDs[0]+`"`) || !strings.Contains(call, `"id":"`+wantIDs[1]+`"`) {
			t.Errorf("%s: calls %s", model, call)
		}
	}
}

// A refusal of what the request has says what can be done; others do not.
func TestHintsOfRefusals(t *testing.T) {
	const format, tools = "hint: json_schema: false of the model in braise.yaml puts the schema into words", "hint: for a model that calls no tools, give the agent tools: []"
	object := json.RawMessage(`{"type": "object", "properties": {}}`)
	withSchema, withTools, plain := runtime.Request{Messages: user("hi"), Schema: object}, runtime.Request{Messages: user("hi"), Tools: []runtime.ToolSpec{{Name: "now"}}}, runtime.Request{Messages: user("hi")}
	for _, tt := range []struct {
		status  int
		message string
		req     runtime.Request
		want    string // "": none
	}{
		{400, "This response_format type is unavailable now", withSchema, format},
		{400, "'response_format.type' must be 'text'", withSchema, format},
		{422, "json_schema is not supported by this model", withSchema, format},
		{400, "Structured Outputs are not available for this deployment", withSchema, format},
		{500, "Failed to initialize samplers: failed to parse grammar", withSchema, format},
		{400, "This response_format type is unavailable now", plain, ""},
		{400, "no such model", withSchema, ""},
		{401, "no key", withSchema, "hint: the endpoint wants a key: add api_key: \"${NAME}\" and set that environment variable"},
		{400, "registry.ollama.ai/library/gemma2:2b does not support tools", withTools, tools},
		{400, "`tool calling` is not supported with this model", withTools, tools},
		{404, "No endpoints found that support tool use. Try disabling \"now\".", withTools, tools},
		{400, "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set", withTools, tools},
		{400, "model doesn't support function tools", withTools, tools},
		{400, "tools are not supported in streaming", withTools, tools},
		{400, "does not support tools", plain, ""},
		{400, "the tool result is missing", withTools, ""},
		{429, "does not support tools", withTools, ""},
	} {
		text, _ := json.Marshal(map[string]any{"error": map[string]any{"message": tt.message}})
		_, err := connect(t, serve(t, answer(tt.status, string(text))), openai.Options{}).Generate(t.Context(), &tt.req)
		_, hint, _ := strings.Cut(err.Error(), "\n  ")
		if hint != tt.want || retry.FailureOf(err).Status != tt.status {
			t.Errorf("%d %s: %v, want the hint %q", tt.status, tt.message, err, tt.want)
		}
	}
}

// Where there is nothing to say, no request is made.
func TestNothingIsAsked(t *testing.T) {
	srv := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request") })
	for _, text := range []string{"", " \n\t"} {
		_, err := connect(t, srv, openai.Options{}).Generate(t.Context(), &runtime.Request{Messages: user(text)})
		if f := retry.FailureOf(err); err == nil || f.Reason != "" || f.Sent || !strings.Contains(err.Error(), "nothing is asked: all messages are empty\n  hint: give a prompt") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// An answer without choices is quoted, without the key.
func TestAnswerWithoutChoicesIsQuoted(t *testing.T) {
	const said = `{"detail": "come back, hunter22hunter", "choices": []}`
	const want = `the answer has no choices: {"detail": "come back, ***", "choices": []}`
	for name, body := range map[string]string{"whole": said, "stream": events(said)} {
		m := connect(t, serve(t, answer(200, body)), openai.Options{APIKey: "hunter22hunter"})
		if _, err := m.Generate(t.Context(), &runtime.Request{Messages: user("hi")}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
