package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = `sk-test/0123456789+"key`

// serve starts an endpoint on loopback.
func serve(t testing.TB, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // all of it, so that the server notices when the client goes
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// answer is an endpoint that always answers the same.
func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// connect makes a model of the endpoint.
func connect(t testing.TB, srv *httptest.Server, opts openai.Options) *openai.Model {
	t.Helper()
	opts.BaseURL = srv.URL + "/v1"
	if opts.Model == "" {
		opts.Model = "m"
	}
	m, err := openai.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func user(text string) []runtime.Message {
	return []runtime.Message{{Role: runtime.User, Text: text}}
}

func TestRequest(t *testing.T) {
	zero, seed := 0.0, int64(0)
	const open = `{"type":"object","properties":{"a":{"type":"string"}}}`
	const closed = `{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":"array","items":{"$ref":"#/$defs/x"}}},` +
		`"required":["a","b"],"additionalProperties":false,"$defs":{"x":{"anyOf":[{"type":"integer"},{"type":"string","enum":["y"]}]}}}`
	format := func(schema string, strict bool) string {
		return fmt.Sprintf(`{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": false,
			"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": %v, "schema": %s}}}`, strict, schema)
	}
	tests := []struct {
		name string
		opts openai.Options
		req  runtime.Request
		want string
	}{
		{"text", openai.Options{}, runtime.Request{Messages: []runtime.Message{{Role: runtime.System, Text: "be brief"}, {Role: runtime.User}}},
			`{"model": "m", "messages": [{"role": "system", "content": "be brief"}], "stream": false}`},
		{"numbers", openai.Options{}, runtime.Request{Messages: user("hi"), Temperature: &zero, MaxTokens: 9},
			`{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": false, "temperature": 0, "max_tokens": 9}`},
		{"reasoning model", openai.Options{Model: "gpt-5-mini"}, runtime.Request{Messages: user("hi"), MaxTokens: 9},
			`{"model": "gpt-5-mini", "messages": [{"role": "user", "content": "hi"}], "stream": false, "max_completion_tokens": 9}`},
		{"open model", openai.Options{Model: "gpt-oss:20b"}, runtime.Request{Messages: user("hi"), MaxTokens: 9},
			`{"model": "gpt-oss:20b", "messages": [{"role": "user", "content": "hi"}], "stream": false, "max_tokens": 9}`},
		{"options", openai.Options{}, runtime.Request{Messages: user("hi"), Options: runtime.ModelOptions{
			TopP: &zero, Seed: &seed, Stop: []string{"END"}, ToolChoice: "required", Reasoning: "low"}},
			`{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": false, "top_p": 0, "seed": 0,
			"stop": ["END"], "tool_choice": "required", "reasoning_effort": "low"}`},
		{"defaults", openai.Options{Defaults: map[string]any{"temperature": 0.5, "top_p": 1, "seed": 3, "stop": []string{"X"}, "reasoning_effort": "high",
			"service_tier": "flex", "parallel_tool_calls": false, "chat_template_kwargs": map[string]any{"enable_thinking": false}}}, runtime.Request{Messages: user("hi")},
			`{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": false, "temperature": 0.5, "top_p": 1, "seed": 3, "stop": ["X"],
			"reasoning_effort": "high", "service_tier": "flex", "chat_template_kwargs": {"enable_thinking": false}}`},
		{"defaults that the request says otherwise", openai.Options{Defaults: map[string]any{"temperature": 0.5, "top_p": 1, "seed": 3, "stop": []string{"X"},
			"reasoning_effort": "high", "service_tier": "flex", "parallel_tool_calls": false}}, runtime.Request{Messages: user("hi"), Temperature: &zero,
			Tools:   []runtime.ToolSpec{{Name: "now", Parameters: json.RawMessage(open)}},
			Options: runtime.ModelOptions{TopP: &zero, Seed: &seed, Stop: []string{"END"}, Reasoning: "low"}},
			`{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": false, "temperature": 0, "top_p": 0, "seed": 0, "stop": ["END"],
			"reasoning_effort": "low", "service_tier": "flex", "parallel_tool_calls": false,
			"tools": [{"type": "function", "function": {"name": "now", "parameters": ` + open + `}}]}`},
		{"a tool that must be called", openai.Options{}, runtime.Request{Messages: user("hi"),
			Options: runtime.ModelOptions{ToolChoice: "crm.lookup"}},
			`{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": false,
			"tool_choice": {"type": "function", "function": {"name": "crm__lookup"}}}`},
		{"files", openai.Options{}, runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Text: "Read this.", Files: []runtime.File{
			{URL: "https://example.com/a.png", MediaType: "image/*"}, {URL: "data:image/png;base64,AAAA", MediaType: "image/png"},
			{URL: "data:application/pdf;base64,AAAA", MediaType: "application/pdf"},
			{URL: "data:text/plain;base64,aGk=", MediaType: "text/plain"}}}}},
			`{"model": "m", "stream": false, "messages": [{"role": "user", "content": [
				{"type": "text", "text": "Read this."},
				{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
				{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
				{"type": "file", "file": {"filename": "file3.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
				{"type": "text", "text": "hi"}]}]}`},
		{"tools", openai.Options{}, runtime.Request{
			Messages: []runtime.Message{
				{Role: runtime.Assistant, ToolCalls: []runtime.ToolCall{
					{ID: "1", Name: "crm.lookup", Arguments: json.RawMessage(`{"id":7}`)}, {ID: "2", Name: "now"}}},
				{Role: runtime.ToolRole, ToolCallID: "1"},
				{Role: runtime.ToolRole, Text: "noon", ToolCallID: "2"},
			},
			Tools: []runtime.ToolSpec{{Name: "crm.lookup", Description: "Find.", Parameters: json.RawMessage(open)}, {Name: "now"}},
		}, `{"model": "m", "stream": false, "messages": [
			{"role": "assistant", "tool_calls": [
				{"id": "1", "type": "function", "function": {"name": "crm__lookup", "arguments": "{\"id\":7}"}},
				{"id": "2", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
			{"role": "tool", "content": "", "tool_call_id": "1"},
			{"role": "tool", "content": "noon", "tool_call_id": "2"}],
		  "tools": [
			{"type": "function", "function": {"name": "crm__lookup", "description": "Find.", "parameters": ` + open + `}},
			{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]}`},
		{"schema", openai.Options{}, runtime.Request{Messages: user("hi"), Schema: json.RawMessage(open)}, format(open, false)},
		{"strict schema", openai.Options{}, runtime.Request{Messages: user("hi"), Schema: json.RawMessage(closed)}, format(closed, true)},
		{"schema with a limit", openai.Options{}, runtime.Request{Messages: user("hi"), Schema: json.RawMessage(
			`{"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"],"additionalProperties":false}`)}, format(
			`{"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"],"additionalProperties":false}`, false)},
		{"schema of a list", openai.Options{}, runtime.Request{Messages: user("hi"), Schema: json.RawMessage(`{"type":"array"}`)},
			`{"model": "m", "stream": false, "messages": [
				{"role": "system", "content": "Answer with nothing but JSON that matches this schema:\n{\"type\":\"array\"}"},
				{"role": "user", "content": "hi"}]}`},
		{"no schema mode", openai.Options{NoSchema: true}, runtime.Request{
			Messages: []runtime.Message{{Role: runtime.System, Text: "be brief"}, {Role: runtime.User, Text: "hi"}},
			Schema:   json.RawMessage(`{"type":"object"}`)},
			`{"model": "m", "stream": false, "messages": [
				{"role": "system", "content": "be brief\n\nAnswer with nothing but JSON that matches this schema:\n{\"type\":\"object\"}"},
				{"role": "user", "content": "hi"}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got any
			srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
					t.Error(err)
				}
				answer(200, `{"choices": [{"message": {"content": "ok"}}]}`)(w, r)
			})
			before := fmt.Sprintf("%+v", tt.req)
			if _, err := connect(t, srv, tt.opts).Generate(t.Context(), &tt.req); err != nil {
				t.Fatal(err)
			}
			if after := fmt.Sprintf("%+v", tt.req); after != before {
				t.Errorf("the request was changed:\n%s\n%s", before, after)
			}
			var want any
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// A file that cannot be sent is an error before anything is sent, and is not tried again.
func TestFilesThatCannotBeSent(t *testing.T) {
	for _, tt := range []struct {
		name string
		file runtime.File
		want string
	}{
		{"a PDF by URL", runtime.File{URL: "https://example.com/a.pdf", MediaType: "application/pdf"},
			"file 1 is of the type application/pdf, and only images may be https URLs\n  hint: give it as a data URL"},
		{"audio", runtime.File{URL: "data:audio/wav;base64,AAAA", MediaType: "audio/wav"},
			"file 1 is of the type audio/wav\n  hint: images, PDFs and texts can be sent"},
		{"no text", runtime.File{URL: "data:text/plain;base64,/////w==", MediaType: "text/plain"},
			"file 1 is not UTF-8 text"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("something was sent") })
			req := &runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Files: []runtime.File{tt.file}}}}
			_, err := connect(t, srv, openai.Options{}).Generate(t.Context(), req)
			if want := `model "m": ` + tt.want; err == nil || err.Error() != want || retry.ReasonOf(err) != "" {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// A local file of a recipe is sent as a data URL.
func TestALocalFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dot.gif"), []byte("GIF89a"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got, want any
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		answer(200, `{"choices": [{"message": {"content": "A dot."}, "finish_reason": "stop"}]}`)(w, r)
	})
	r, err := recipe.Parse("recipe.yaml", []byte("apiVersion: braise/v1\nname: look\n"+
		"steps: {look: {uses: model, with: {model: m, prompt: What is it?, images: [dot.gif]}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": connect(t, srv, openai.Options{})},
		Files: builtin.Files(builtin.FileOptions{Base: dir})}
	if _, err := wf.Run(t.Context(), nil, rt); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"model": "m", "stream": false, "messages": [{"role": "user", "content": [
		{"type": "text", "text": "What is it?"},
		{"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lGODlh"}}]}]}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestHeaders(t *testing.T) {
	var got *http.Request
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		answer(200, `{"choices": [{}]}`)(w, r)
	})
	m := connect(t, srv, openai.Options{APIKey: key, Headers: map[string]string{"X-Title": "braise tests", "host": "models.test"}})
	if _, err := m.Generate(t.Context(), &runtime.Request{}); err != nil {
		t.Fatal(err)
	}
	if got.Method != "POST" || got.URL.Path != "/v1/chat/completions" || got.Host != "models.test" {
		t.Errorf("got %s %s at %s", got.Method, got.URL.Path, got.Host)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + key, "X-Title": "braise tests", "Content-Type": "application/json", "User-Agent": "braise",
	} {
		if got := got.Header.Get(name); got != want {
			t.Errorf("header %s: got %q, want %q", name, got, want)
		}
	}
}

func TestResponse(t *testing.T) {
	call := func(id, name, args string) runtime.ToolCall {
		return runtime.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(args)}
	}
	tests := []struct {
		name, body string
		want       runtime.Response
	}{
		{"text", `{"id": 1, "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
			"usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "prompt_tokens_details": null}, "created": "now"}`,
			runtime.Response{Text: "Hello", Finish: "stop", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 2}}},
		{"little", `{"choices": [{}], "usage": null, "error": null, "model": 7}`, runtime.Response{}},
		{"the model", `{"choices": [{"message": {"content": "x"}}], "model": "m-2026-01-01"}`, runtime.Response{Text: "x", Model: "m-2026-01-01"}},
		{"parts", `{"choices": [{"message": {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
			"finish_reason": "length"}]}`, runtime.Response{Text: "ab", Finish: "length", Parts: []runtime.Part{{Of: "127.0.0.1/m", Name: "content",
			Data: json.RawMessage(`[{"thinking":[],"type":"thinking"},{"text":"a","type":"text"},{"text":"b","type":"text"}]`)}}}},
		{"filtered", `{"choices": [{"message": {"content": null}, "finish_reason": "content_filter"}]}`, runtime.Response{Finish: "content_filter"}},
		{"another reason to stop", `{"choices": [{"message": {"content": "x"}, "finish_reason": "tired"}]}`, runtime.Response{Text: "x"}},
		{"tool calls", `{"choices": [{"message": {"content": null, "tool_calls": [
			{"id": "1", "function": {"name": "crm__lookup", "arguments": "{\"id\": 7}"}},
			{"function": {"name": "made__up", "arguments": {"id": 7}}},
			{"id": "3", "function": {"name": "now", "arguments": ""}},
			{"id": "4", "function": {"name": "now"}},
			{"id": "5", "function": {"name": "now", "arguments": "{\"half"}}]}, "finish_reason": "stop"}]}`,
			runtime.Response{Finish: "tool_calls", ToolCalls: []runtime.ToolCall{
				call("1", "crm.lookup", `{"id": 7}`), call("call_2_2", "made__up", `{"id": 7}`),
				call("3", "now", `{}`), call("4", "now", `{}`), call("5", "now", `"{\"half"`),
			}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := connect(t, serve(t, answer(200, tt.body)), openai.Options{})
			got, err := m.Generate(t.Context(), &runtime.Request{
				StepCall: 2, Messages: user("hi"), Tools: []runtime.ToolSpec{{Name: "crm.lookup"}, {Name: "now"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

// failure is what callers see of an error.
type failure struct {
	Reason  retry.Reason
	Status  int
	After   time.Duration
	Sent    bool
	Message string // after the model and the address
}

// fails asks the model and returns how that failed.
func fails(t testing.TB, ctx context.Context, m *openai.Model, req *runtime.Request) failure {
	t.Helper()
	resp, err := m.Generate(ctx, req)
	return failureOf(t, resp, err)
}

// failureOf is what an error holds. No message holds the key or is long.
func failureOf(t testing.TB, resp *runtime.Response, err error) failure {
	t.Helper()
	f, ok := errors.AsType[*retry.Failure](err)
	if resp != nil || !ok {
		t.Fatalf("got %+v, %v, want a *retry.Failure", resp, err)
	}
	message := err.Error()
	if strings.Contains(message, "0123456789") || len(message) > 1000 || strings.ContainsAny(message, "\x00\x1b") {
		t.Errorf("the message holds what it should not: %q", message)
	}
	if _, rest, ok := strings.Cut(message, "/v1/chat/completions: "); ok {
		message = rest
	}
	return failure{f.Reason, f.Status, f.After, f.Sent, message}
}

func TestFailures(t *testing.T) {
	ok := func(reason retry.Reason, message string) failure {
		return failure{Reason: reason, Status: 200, Sent: true, Message: message}
	}
	protocol := func(message string) failure { return ok("", "the answer does not keep to the protocol: "+message) }
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    failure
	}{
		{"rate limit", answer(429, `{"error": {"message": "slow down", "type": "rate_limit_error", "code": null}}`, "Retry-After", "1.5"),
			failure{retry.RateLimit, 429, 1500 * time.Millisecond, true, "status 429 Too Many Requests: slow down"}},
		{"milliseconds", answer(429, "", "Retry-After", "2", "retry-after-ms", "1234"), failure{retry.RateLimit, 429, 1234 * time.Millisecond, true, "status 429 Too Many Requests"}},
		{"milliseconds of Azure", answer(503, "", "x-ms-retry-after-ms", "7"), failure{retry.ServerError, 503, 7 * time.Millisecond, true, "status 503 Service Unavailable"}},
		{"odd milliseconds", answer(429, "", "Retry-After", "2", "retry-after-ms", "soon"), failure{retry.RateLimit, 429, 2 * time.Second, true, "status 429 Too Many Requests"}},
		{"a call that Groq cannot read", answer(400, `{"error": {"message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": "<function=pay>{"}}`),
			failure{retry.ServerError, 400, 0, true, "status 400 Bad Request: Failed to call a function.: <function=pay>{"}},
		{"the same with status 200", answer(200, `{"error": {"message": "Failed to call a function.", "code": "tool_use_failed"}}`), ok(retry.ServerError, "the answer is an error: Failed to call a function.")},
		{"no money", answer(429, `{"error": {"message": "pay", "type": "insufficient_quota"}}`),
			failure{"", 429, 0, true, "status 429 Too Many Requests: pay"}},
		{"odd Retry-After", answer(503, "", "Retry-After", "-1e400"), failure{retry.ServerError, 503, 0, true, "status 503 Service Unavailable"}},
		{"a past Retry-After", answer(503, "", "Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), failure{retry.ServerError, 503, 0, true, "status 503 Service Unavailable"}},
		{"gateway timeout", answer(504, "<html>\n<b>late</b>\n"), failure{retry.Timeout, 504, 0, true, "status 504 Gateway Timeout: <html> <b>late</b>"}},
		{"overloaded", answer(529, `{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}`),
			failure{retry.ServerError, 529, 0, true, "status 529: Overloaded"}},
		{"the key comes back", answer(401, `{"error": {"message": "wrong key `+strings.ReplaceAll(key, `"`, `\"`)+`"}}`),
			failure{"", 401, 0, true, "status 401 Unauthorized: wrong key ***\n  hint: the endpoint does not take the key that api_key gives"}},
		{"the key comes back raw", answer(401, "got sk-test%2F0123456789%2B%22key and c2stdGVzdC8wMTIzNDU2Nzg5KyJrZXk="),
			failure{"", 401, 0, true, "status 401 Unauthorized: got *** and ***\n  hint: the endpoint does not take the key that api_key gives"}},
		{"a header comes back", answer(403, "who is tenant-0123456789?"), failure{"", 403, 0, true, "status 403 Forbidden: who is ***?"}},
		{"vLLM", answer(400, `{"object": "error", "message": "no such model", "type": "NotFoundError", "code": 404}`),
			failure{"", 400, 0, true, "status 400 Bad Request: no such model"}},
		{"Gemini", answer(400, `[{"error": {"code": 400, "message": "bad key", "status": "INVALID_ARGUMENT"}}]`),
			failure{"", 400, 0, true, "status 400 Bad Request: bad key"}},
		{"an error that is text", answer(500, `{"error": "no\u001b[31m luck"}`), failure{retry.ServerError, 500, 0, true, "status 500 Internal Server Error: no[31m luck"}},
		{"an error in an error", answer(422, `{"object": "error", "message": {"detail": [7]}}`),
			failure{"", 422, 0, true, `status 422 Unprocessable Entity: {"object": "error", "message": {"detail": [7]}}`}},
		{"an error of another form", answer(500, `{"error": {"reason": 1}}`), failure{retry.ServerError, 500, 0, true, `status 500 Internal Server Error: {"reason": 1}`}},
		{"a long error", answer(500, strings.Repeat("é", 100_000)), failure{retry.ServerError, 500, 0, true, "status 500 Internal Server Error: " + strings.Repeat("é", 256) + "…"}},
		{"redirect", answer(307, "", "Location", "https://u:p@elsewhere.test/v1?token=1"), failure{"", 307, 0, true,
			"status 307 Temporary Redirect\n  hint: it redirects to https://elsewhere.test/v1; redirects are not followed, change the base URL"}},

		{"an error with status 200", answer(200, `{"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": "busy"}}}`),
			failure{retry.RateLimit, 429, 0, true, "the answer is an error: Provider returned error: busy"}},
		{"an error of a kind", answer(200, `{"error": {"message": "slow down", "type": "rate_limit_exceeded"}}`), ok(retry.RateLimit, "the answer is an error: slow down")},
		{"an overload with status 200", answer(200, `{"error": {"message": "later", "type": "overloaded_error"}}`), ok(retry.ServerError, "the answer is an error: later")},
		{"an error in a list", answer(200, `[{"error": {"message": "no", "code": 403}}]`), failure{"", 403, 0, true, "the answer is an error: no"}},
		{"an error half-way", answer(200, `{"choices": [{"message": {"content": "Hel"}, "finish_reason": "error", "error": {"code": 502, "message": "gone"}}]}`),
			failure{retry.ServerError, 502, 0, true, "the answer is an error: gone"}},
		{"a refusal", answer(200, `{"choices": [{"message": {"content": null, "refusal": "I will not."}}]}`), ok("", "the model refused: I will not.")},
		{"nothing", answer(200, " \n"), ok(retry.Unknown, "the answer is empty")},
		{"a page", answer(200, "\n<!doctype html>\n<title>Sign in</title>", "Content-Type", "text/html"),
			ok("", "the answer is a page, not JSON: <!doctype html> <title>Sign in</title>\n  hint: check the base URL")},
		{"half of it", answer(200, `{"choices": [{"message": {"content": "Hel`),
			ok(retry.Unknown, `the answer is not JSON (unexpected end of JSON input): {"choices": [{"message": {"content": "Hel`)},
		{"no choices", answer(200, `{"choices": []}`), ok(retry.Unknown, `the answer has no choices: {"choices": []}`)},
		{"null", answer(200, `{"choices": null}`), ok(retry.Unknown, `the answer has no choices: {"choices": null}`)},
		{"a list", answer(200, `[]`), protocol("it is of the wrong type, array")},
		{"fewer than no tokens", answer(200, `{"choices": [{}], "usage": {"prompt_tokens": -1}}`), ok("", "the answer counts fewer than 0 tokens")},
		{"odd content", answer(200, `{"choices": [{"message": {"content": 7}}]}`), protocol("the content of the message is neither text nor a list of parts")},
		{"huge", answer(200, `{"a": "`+strings.Repeat("a", 3000)), ok("", "the answer is larger than 2048 bytes")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := connect(t, serve(t, tt.handler), openai.Options{
				APIKey: key, MaxBytes: 2048, Headers: map[string]string{"X-Tenant": "tenant-0123456789"}})
			if diff := cmp.Diff(tt.want, fails(t, t.Context(), m, &runtime.Request{Messages: user("hi")})); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
			resp, text, err := stream(t.Context(), m, &runtime.Request{Messages: user("hi")})
			if diff := cmp.Diff(tt.want, failureOf(t, resp, err)); diff != "" || text != "" {
				t.Errorf("failure of the stream after %q (-want +got):\n%s", text, diff)
			}
		})
	}
}

// trust 1.9: a request that is refused as too long, or by a filter, is known by the code of its error.
func TestCodesOfRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		code    string
	}{
		"OpenAI":         {answer(400, `{"error": {"message": "Your input exceeds the limit.", "type": "invalid_request_error", "code": "context_length_exceeded"}}`), "model.tooLong"},
		"llama.cpp":      {answer(400, `{"error": {"code": 400, "message": "the request exceeds it", "type": "exceed_context_size_error"}}`), "model.tooLong"},
		"vLLM":           {answer(400, `{"object": "error", "message": "This model's maximum context length is 4096 tokens.", "type": "BadRequestError", "code": 400}`), "model.tooLong"},
		"Anthropic":      {answer(400, `{"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum", "type": "invalid_request_error"}}`), "model.tooLong"},
		"a proxy":        {answer(413, "<html>"), "model.tooLong"},
		"with an answer": {answer(200, `{"error": {"message": "no", "code": "context_length_exceeded"}}`), "model.tooLong"},
		"another":        {answer(400, `{"error": {"message": "unknown model", "type": "invalid_request_error"}}`), ""},
		"Azure's filter": {answer(400, `{"error": {"message": "The prompt was filtered.", "type": null, "param": "prompt", "code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}}`), "model.filtered"},
		"OpenAI's":       {answer(400, `{"error": {"message": "Rejected by the safety system.", "code": "content_policy_violation"}}`), "model.filtered"},
		"of a gateway":   {answer(200, `{"error": {"message": "filtered", "code": "content_filter"}}`), "model.filtered"},
		"a limit":        {answer(429, `{"error": {"message": "too many requests for this context window", "type": "rate_limit_error"}}`), ""},
	} {
		_, err := connect(t, serve(t, tt.handler), openai.Options{}).Generate(t.Context(), &runtime.Request{Messages: user("hi")})
		code := ""
		if e, ok := errors.AsType[*runtime.Error](err); ok {
			code = e.Code
		}
		if f := retry.FailureOf(err); code != tt.code || f.Status == 0 || (f.Reason == "") != (name != "a limit") {
			t.Errorf("%s: code %q of %v, reason %q, status %d", name, code, err, f.Reason, f.Status)
		}
	}
}

func TestRetryAfterDate(t *testing.T) {
	at := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	m := connect(t, serve(t, answer(429, "", "Retry-After", at)), openai.Options{})
	if got := fails(t, t.Context(), m, &runtime.Request{}).After; got <= 58*time.Minute || got > time.Hour {
		t.Errorf("got %s, want about an hour", got)
	}
}

// cut is an endpoint that sends this, as it is, and is gone.
func cut(sent string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		buf.WriteString(sent)
		buf.Flush()
		conn.Close()
	}
}

func TestConnectionLost(t *testing.T) {
	for name, sent := range map[string]string{
		"before the answer": "",
		"within":            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"choices\":",
	} {
		m := connect(t, serve(t, cut(sent)), openai.Options{})
		got := fails(t, t.Context(), m, &runtime.Request{})
		if got.Reason != retry.Network || !got.Sent {
			t.Errorf("%s: got %+v, want a network failure after sending", name, got)
		}
	}

	srv := serve(t, answer(200, ""))
	m := connect(t, srv, openai.Options{})
	srv.Close()
	if got := fails(t, t.Context(), m, &runtime.Request{}); got.Reason != retry.Network || got.Sent {
		t.Errorf("nobody there: got %+v, want a network failure before sending", got)
	}
}

// An endpoint may keep silent before its answer or within.
func TestSlow(t *testing.T) {
	for _, half := range []string{"", `{"choices":`} {
		asked := make(chan struct{}, 3)
		srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if half != "" {
				io.WriteString(w, half)
				http.NewResponseController(w).Flush()
			}
			asked <- struct{}{}
			<-r.Context().Done()
		})

		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		_, err := connect(t, srv, openai.Options{}).Generate(ctx, &runtime.Request{})
		if !errors.Is(err, context.Canceled) || retry.ReasonOf(err) != "" {
			t.Errorf("cancelled after %q: got %v", half, err)
		}

		m := connect(t, srv, openai.Options{Timeout: 50 * time.Millisecond})
		got := fails(t, t.Context(), m, &runtime.Request{})
		if got.Reason != retry.Timeout || !strings.HasSuffix(got.Message, "timed out after 50ms") {
			t.Errorf("own timeout after %q: got %+v", half, got)
		}

		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = connect(t, srv, openai.Options{}).Generate(ctx, &runtime.Request{})
		if !errors.Is(err, context.DeadlineExceeded) || retry.ReasonOf(err) != retry.Timeout {
			t.Errorf("deadline after %q: got %v", half, err)
		}
		cancel()
	}
}

func TestRedirectTakesNoHeadersAlong(t *testing.T) {
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	srv := serve(t, answer(308, "", "Location", elsewhere.URL))
	for _, client := range []*http.Client{nil, srv.Client()} {
		m := connect(t, srv, openai.Options{APIKey: key, HTTPClient: client})
		if got := fails(t, t.Context(), m, &runtime.Request{}); got.Status != 308 {
			t.Errorf("got %+v, want status 308", got)
		}
	}
}

func TestToolsThatCollide(t *testing.T) {
	srv := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	m := connect(t, srv, openai.Options{})
	tests := []struct{ first, second, want string }{
		{"crm.lookup", "crm__lookup", "model \"m\": the tools \"crm.lookup\" and \"crm__lookup\" are both \"crm__lookup\" to the endpoint\n  hint: rename one of them"},
		{"now", "now", `model "m": the tool "now" is offered twice`},
	}
	for _, tt := range tests {
		got := fails(t, t.Context(), m, &runtime.Request{Tools: []runtime.ToolSpec{{Name: tt.first}, {Name: tt.second}}})
		if diff := cmp.Diff(failure{Message: tt.want}, got); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
	}
}

func TestModels(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" || r.URL.Path != "/v1/models" {
			t.Errorf("got %s %s", r.Method, r.URL.Path)
		}
		answer(200, `{"object": "list", "data": [{"id": "small"}, {"id": "big", "owned_by": 3}]}`)(w, r)
	})
	got, err := connect(t, srv, openai.Options{}).Models(t.Context())
	if diff := cmp.Diff([]string{"big", "small"}, got); diff != "" || err != nil {
		t.Errorf("models (-want +got):\n%s, %v", diff, err)
	}

	_, err = connect(t, serve(t, answer(401, "no")), openai.Options{}).Models(t.Context())
	if err == nil || !strings.Contains(err.Error(), "/v1/models: status 401 Unauthorized: no\n  hint: the endpoint wants a key") {
		t.Errorf("got %v, want status 401", err)
	}
	if _, err = connect(t, serve(t, answer(200, "<html>")), openai.Options{}).Models(t.Context()); err == nil {
		t.Error("a page was taken for a list of models")
	}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		opts openai.Options
		want string
	}{
		{openai.Options{}, "openai: the name of the model is missing"},
		{openai.Options{Model: "m", BaseURL: "https://u:hunter2@[x"}, `openai: the base URL is not like "https://api.openai.com/v1"`},
		{openai.Options{Model: "m", BaseURL: "ftp://u:hunter2@h/v1?k=hunter2"}, `openai: the base URL is not like "https://api.openai.com/v1"`},
		{openai.Options{Model: "m", BaseURL: "localhost:11434"}, `openai: the base URL is not like "https://api.openai.com/v1"`},
		{openai.Options{Model: "m", APIKey: "hunter2hunter2\n"}, "openai: the API key holds a line break or another control character"},
		{openai.Options{Model: "m", Headers: map[string]string{"X A": ""}}, `openai: "X A" is not the name of a header`},
		{openai.Options{Model: "m", Headers: map[string]string{"X-A": "hunter2\r\n"}}, `openai: the header "X-A" holds a line break or another control character`},
	}
	for _, name := range []string{"", "a b", "model", "messages", "stream", "n", "max_tokens", "response_format"} {
		tests = append(tests, struct {
			opts openai.Options
			want string
		}{openai.Options{Model: "m", Defaults: map[string]any{name: 1}}, fmt.Sprintf("openai: %q is not a default: each request has its own", name)})
	}
	for _, tt := range tests {
		if m, err := openai.New(tt.opts); m != nil || err == nil || err.Error() != tt.want {
			t.Errorf("got %v, %v, want %s", m, err, tt.want)
		}
	}
	if _, err := openai.New(openai.Options{Model: "m"}); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

// endpoint speaks the protocol for a model of ours.
func endpoint(model runtime.Model) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			answer(400, err.Error())(w, r)
			return
		}
		req := &runtime.Request{}
		for _, m := range in.Messages {
			req.Messages = append(req.Messages, runtime.Message{Role: runtime.Role(m.Role), Text: m.Content})
		}
		resp, err := model.Generate(r.Context(), req)
		if f, ok := errors.AsType[*retry.Failure](err); ok {
			answer(f.Status, f.Error())(w, r)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{
			"choices": []any{map[string]any{"message": map[string]any{"content": resp.Text}, "finish_reason": resp.Finish}},
			"usage":   map[string]any{"prompt_tokens": resp.Usage.InputTokens, "completion_tokens": resp.Usage.OutputTokens},
		})
	}
}

// A run comes to the same outcome whether a script answers in the process or over the network.
func TestEqualOutcomes(t *testing.T) {
	const source = `
apiVersion: braise/v1
name: triage
inputs: {tickets: {type: array, items: {type: string}}}
steps:
  classify:
    foreach: {in: "${{ inputs.tickets }}"}
    uses: model
    with: {model: fast, system: Sort it., prompt: "Ticket: ${{ item }}"}
    output: {schema: {type: object, required: [kind], properties: {kind: {enum: [bug, billing]}}}}
  reply:
    uses: model
    with: {model: fast, prompt: "Reply to ${{ len(steps.classify.output) }} tickets.", temperature: 0, max_tokens: 50}
  broken:
    uses: model
    needs: [reply]
    on_error: continue
    with: {model: fast, prompt: Break.}
output: {kinds: "${{ steps.classify.output }}", reply: "${{ steps.reply.output.text }}"}
`
	const turns = `
matches:
  - contains: That answer cannot be used
    json: {kind: billing}
  - contains: 'Ticket: twice'
    text: "It is billing."
  - contains: 'Ticket: crash'
    text: "` + "```json\\n{\\\"kind\\\": \\\"bug\\\"}\\n```" + `"
  - contains: Reply
    text: Thank you <both> & goodbye.
  - contains: Break
    error: {status: 503, message: out of order}
`
	r, err := recipe.Parse("triage.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	scripted, err := script.Parse("turns.yaml", []byte(turns))
	if err != nil {
		t.Fatal(err)
	}
	srv := serve(t, endpoint(scripted))

	outcome := func(model runtime.Model) map[string]any {
		rt := &runtime.Runtime{Models: map[string]runtime.Model{"fast": model},
			Retry: retry.Policies{retry.Model: {MaxAttempts: 1}}} // both have this one, not their own
		out, err := wf.Run(t.Context(), map[string]any{"tickets": []any{"crash", "twice"}}, rt)
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[trace.Kind]int{} // the order of steps side by side is free
		for _, e := range out.Trace {
			kinds[e.Kind]++
		}
		return map[string]any{"status": out.Status, "output": out.Output, "artefact": out.Artefact, "kinds": kinds, "findings": len(out.Diagnostics)}
	}
	want := outcome(scripted)
	if diff := cmp.Diff(map[string]any{
		"kinds": []any{map[string]any{"kind": "bug"}, map[string]any{"kind": "billing"}}, "reply": "Thank you <both> & goodbye.",
	}, want["output"]); diff != "" {
		t.Errorf("output of the script (-want +got):\n%s", diff)
	}
	for name, opts := range map[string]openai.Options{"json_schema": {}, "schema in the prompt": {NoSchema: true}} {
		if diff := cmp.Diff(want, outcome(connect(t, srv, opts))); diff != "" {
			t.Errorf("%s: outcome (-script +network):\n%s", name, diff)
		}
	}
}

// roundTrip answers requests without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func FuzzResponse(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add(200, `{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}`)
	f.Add(200, `{"choices": [{"message": {"content": [{"type": "text", "text": "a"}], "tool_calls": [{"id": "1", "function": {"name": "a__b", "arguments": "{\"x\": 1"}}]}}]}`)
	f.Add(200, `{"choices": [{"message": {"tool_calls": [{"function": {"name": "a__b", "arguments": {"x": [1]}}}]}, "error": {"code": 502}}]}`)
	f.Add(200, `[{"error": {"message": ["a"], "code": 4e99, "metadata": {"raw": 1}}}]`)
	f.Add(429, `{"object": "error", "message": "no", "code": "insufficient_quota"}`)
	f.Add(502, "<html>")
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			status = 200
		}
		m, err := openai.New(openai.Options{Model: "m", APIKey: key, HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})}})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := m.Generate(t.Context(), &runtime.Request{Tools: []runtime.ToolSpec{{Name: "a.b"}}})
		if (resp == nil) == (err == nil) {
			t.Fatalf("got %v, %v, want a response or an error", resp, err)
		}
		if err != nil {
			fail, ok := errors.AsType[*retry.Failure](err)
			cut := ok && fail.Status == 0 && fail.Reason == retry.Network // what looks like half a stream
			if !ok || fail.Status < 200 && !cut || len(err.Error()) > 2000 || strings.Contains(err.Error(), key) {
				t.Errorf("got %#v", err)
			}
			return
		}
		if resp.Usage.InputTokens < 0 || resp.Usage.OutputTokens < 0 {
			t.Errorf("got %+v", resp.Usage)
		}
		for _, call := range resp.ToolCalls {
			if !json.Valid(call.Arguments) || call.ID == "" || call.Name == "a__b" {
				t.Errorf("got %+v", call)
			}
		}
	})
}

func Example() {
	// Any endpoint will do; here one that stands in for it.
	srv := httptest.NewServer(answer(200, `{"choices": [{"message": {"content": "Hello, Ada!"}, "finish_reason": "stop"}],
		"usage": {"prompt_tokens": 8, "completion_tokens": 4}}`))
	defer srv.Close()

	model, err := openai.New(openai.Options{BaseURL: srv.URL + "/v1", Model: "gpt-5-mini", APIKey: "from the environment"})
	if err != nil {
		panic(err)
	}
	resp, err := model.Generate(context.Background(), &runtime.Request{
		Messages: []runtime.Message{{Role: runtime.User, Text: "Greet Ada."}},
	})
	fmt.Println(resp.Text, resp.Usage.OutputTokens, err)
	// Output: Hello, Ada! 4 <nil>
}
