package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/adapters/anthropic"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reply answers with a body.
func reply(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// ask asks a model that a handler answers, and returns what it handed on while the answer came.
func ask(t *testing.T, h http.HandlerFunc, opts anthropic.Options, req *runtime.Request, stream bool) (*runtime.Response, string, error) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	m := connect(t, srv, opts)
	if req.Messages == nil {
		req.Messages = []runtime.Message{user("a")}
	}
	if !stream {
		resp, err := m.Generate(t.Context(), req)
		return resp, "", err
	}
	var shown strings.Builder
	resp, err := m.Stream(t.Context(), req, func(d runtime.Delta) {
		if d.Kind == runtime.DeltaText {
			shown.WriteString(d.Text)
		}
	})
	return resp, shown.String(), err
}

// An answer is the same whether it comes in pieces or not.
func TestAnswers(t *testing.T) {
	part := func(data string) []runtime.Part {
		return []runtime.Part{{Of: "anthropic/claude-sonnet-5-5", Name: "order", Data: json.RawMessage(data)}}
	}
	hm := `{"signature":"` + signature("Hm. é") + `","thinking":"Hm. é","type":"thinking"}`
	for _, tt := range []struct {
		name  string
		says  answer
		tools []runtime.ToolSpec
		want  runtime.Response
	}{
		{"a text", answer{blocks: []map[string]any{text("Hello, wörld 👋"), text(" and more")}}, nil, runtime.Response{Text: "Hello, wörld 👋 and more", Finish: "stop"}},
		{"nothing", answer{}, nil, runtime.Response{Finish: "stop"}},
		{"calls", answer{blocks: []map[string]any{text("I look."), use("toolu_1", "file__read", map[string]any{"path": "a.txt", "n": 1}), use("toolu_2", "made_up", map[string]any{})}},
			[]runtime.ToolSpec{{Name: "file.read"}}, runtime.Response{Text: "I look.", Finish: "tool_calls", ToolCalls: []runtime.ToolCall{
				call("toolu_1", "file.read", `{"n":1,"path":"a.txt"}`), call("toolu_2", "made_up", `{}`)}}},
		{"a call without an id", answer{blocks: []map[string]any{use("", "look", map[string]any{"a": "b"})}, stop: "end_turn"}, []runtime.ToolSpec{{Name: "look"}},
			runtime.Response{Finish: "tool_calls", ToolCalls: []runtime.ToolCall{call("call_7_1", "look", `{"a":"b"}`)}}},
		{"calls that are none", answer{blocks: []map[string]any{text("x")}, stop: "tool_use"}, nil, runtime.Response{Text: "x"}},
		{"calls that are none, of tools", answer{blocks: []map[string]any{text("x")}, stop: "tool_use"}, []runtime.ToolSpec{{Name: "look"}}, runtime.Response{Text: "x", Finish: "tool_calls"}},
		{"a limit", answer{blocks: []map[string]any{text("x")}, stop: "max_tokens"}, nil, runtime.Response{Text: "x", Finish: "length"}},
		{"a full context", answer{blocks: []map[string]any{text("x")}, stop: "model_context_window_exceeded"}, nil, runtime.Response{Text: "x", Finish: "length"}},
		{"a pause", answer{blocks: []map[string]any{text("x")}, stop: "pause_turn"}, nil, runtime.Response{Text: "x", Finish: "length"}},
		{"a stop sequence", answer{blocks: []map[string]any{text("x")}, stop: "stop_sequence"}, nil, runtime.Response{Text: "x", Finish: "stop"}},
		{"a refusal", answer{blocks: []map[string]any{text("I will")}, stop: "refusal"}, nil, runtime.Response{Text: "I will", Finish: "content_filter"}},
		{"an unknown reason", answer{blocks: []map[string]any{text("x")}, stop: "bored"}, nil, runtime.Response{Text: "x"}},
		{"thoughts", answer{blocks: []map[string]any{thought("Hm. é"), text("é"), {"type": "redacted_thinking", "data": "xyz"}, use("toolu_1", "look", map[string]any{}), text("done")}, stop: "tool_use"},
			[]runtime.ToolSpec{{Name: "look"}}, runtime.Response{Text: "édone", Finish: "tool_calls", ToolCalls: []runtime.ToolCall{call("toolu_1", "look", `{}`)},
				Parts: part(`[` + hm + `,2,{"data":"xyz","type":"redacted_thinking"},"call",4]`)}},
		{"half of a thought", answer{blocks: []map[string]any{{"type": "thinking", "thinking": "Hm", "signature": ""}}, stop: "max_tokens"}, nil, runtime.Response{Finish: "length"}},
	} {
		for _, stream := range []bool{false, true} {
			_, m := serve(t, anthropic.Options{}, func(*sent) answer { return tt.says })
			req := &runtime.Request{Messages: []runtime.Message{user("a")}, Tools: tt.tools, StepCall: 7}
			ask, shown := m.Generate, map[string]string{}
			if stream {
				ask = func(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
					return m.Stream(ctx, req, func(d runtime.Delta) { shown[d.Kind] += d.Text })
				}
			}
			thoughts, called := "", ""
			for _, b := range tt.says.blocks {
				thought, _ := b["thinking"].(string)
				thoughts += thought
			}
			for _, call := range tt.want.ToolCalls {
				called += call.Name
			}
			got, err := ask(t.Context(), req)
			if err != nil {
				t.Errorf("%s, stream %t: %v", tt.name, stream, err)
				continue
			}
			want := tt.want
			want.Model, want.Usage = "claude-sonnet-5-5-20261020", got.Usage
			if diff := cmp.Diff(&want, got); diff != "" || stream && (shown[runtime.DeltaText] != want.Text ||
				shown[runtime.DeltaThinking] != thoughts || shown[runtime.DeltaToolCall] != called) {
				t.Errorf("%s, stream %t: shown %q (-want +got):\n%s", tt.name, stream, shown, diff)
			}
			if got.Usage.InputTokens == 0 || got.Usage.OutputTokens != 10 {
				t.Errorf("%s, stream %t: the usage is %+v", tt.name, stream, got.Usage)
			}
		}
	}
}

// Counts mean the same as those of all providers, whatever form they have, and fail no answer.
func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		usage, delta string
		want         runtime.Usage
	}{
		{`{"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 7, "output_tokens_details": {"thinking_tokens": 3}}`, ``,
			runtime.Usage{InputTokens: 125, CachedTokens: 100, CacheWriteTokens: 20, OutputTokens: 7, ReasoningTokens: 3}},
		{`{"input_tokens": 5.0, "cache_read_input_tokens": "100", "cache_creation_input_tokens": null, "output_tokens": "7"}`, ``,
			runtime.Usage{InputTokens: 105, CachedTokens: 100, OutputTokens: 7}},
		{`{"input_tokens": "many", "cache_read_input_tokens": -4, "output_tokens": 2, "output_tokens_details": {"thinking_tokens": 9}}`, ``,
			runtime.Usage{OutputTokens: 2, ReasoningTokens: 2}},
		{`null`, ``, runtime.Usage{}},
		{`[]`, ``, runtime.Usage{}},
		{`{"input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 1}`, `{"output_tokens": 7, "cache_read_input_tokens": null, "output_tokens_details": {"thinking_tokens": 4}}`,
			runtime.Usage{InputTokens: 105, CachedTokens: 100, OutputTokens: 7, ReasoningTokens: 4}},
		{`{"input_tokens": 5, "output_tokens": 1}`, `{"input_tokens": 6, "cache_read_input_tokens": 10, "output_tokens": 7}`,
			runtime.Usage{InputTokens: 16, CachedTokens: 10, OutputTokens: 7}},
	} {
		body := `{"type": "message", "content": [], "stop_reason": "end_turn", "usage": ` + tt.usage + `}`
		if tt.delta != "" {
			body = "data: {\"type\": \"message_start\", \"message\": {\"content\": [], \"stop_reason\": null, \"usage\": " + tt.usage + "}}\n\n" +
				"data: {\"type\": \"message_delta\", \"delta\": {\"stop_reason\": \"end_turn\"}, \"usage\": " + tt.delta + "}\n\n"
		}
		got, _, err := ask(t, reply(200, body), anthropic.Options{}, &runtime.Request{}, false)
		if err != nil {
			t.Errorf("%s %s: %v", tt.usage, tt.delta, err)
		} else if diff := cmp.Diff(tt.want, got.Usage); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.usage, tt.delta, diff)
		}
	}
}

// failed is a failure in short.
type failed struct {
	Reason  retry.Reason
	Status  int
	After   time.Duration
	Code    string
	Message string // after the model and the address
}

func failure(t *testing.T, err error) failed {
	t.Helper()
	f, ok := errors.AsType[*retry.Failure](err)
	if !ok {
		t.Fatalf("got %v, want a failure", err)
	}
	short := failed{Reason: f.Reason, Status: f.Status, After: f.After}
	if coded, ok := errors.AsType[*runtime.Error](err); ok {
		short.Code = coded.Code
	}
	_, short.Message, _ = strings.Cut(f.Err.Error(), "/v1/messages: ")
	return short
}

func TestFailures(t *testing.T) {
	const key = "sk-ant-0123456789abcdef"
	says := func(status int, kind, message string, headers ...string) http.HandlerFunc {
		return reply(status, `{"type": "error", "error": {"type": "`+kind+`", "message": "`+message+`"}, "request_id": "req_1"}`, headers...)
	}
	for _, tt := range []struct {
		handler http.HandlerFunc
		req     runtime.Request
		want    failed
	}{
		{says(400, "invalid_request_error", "messages.0: what?"), runtime.Request{}, failed{"", 400, 0, "", "status 400 Bad Request: messages.0: what?"}},
		{says(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), runtime.Request{},
			failed{"", 400, 0, "model.tooLong", "status 400 Bad Request: prompt is too long: 210000 tokens > 200000 maximum"}},
		{says(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000"), runtime.Request{},
			failed{"", 400, 0, "model.tooLong", "status 400 Bad Request: input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000"}},
		{says(400, "invalid_request_error", "`temperature` is deprecated for this model."), runtime.Request{},
			failed{"", 400, 0, "", "status 400 Bad Request: `temperature` is deprecated for this model.\n  hint: newer models take no temperature, top_p or top_k: leave them out"}},
		{says(400, "invalid_request_error", "output_config.format: not supported by this model"), runtime.Request{Schema: json.RawMessage(`{"type": "object", "properties": {}}`)},
			failed{"", 400, 0, "", "status 400 Bad Request: output_config.format: not supported by this model\n  hint: json_schema: false of the model in braise.yaml puts the schema into words"}},
		{says(401, "authentication_error", "invalid x-api-key "+key), runtime.Request{},
			failed{"", 401, 0, "", "status 401 Unauthorized: invalid x-api-key ***\n  hint: the endpoint does not take the key that api_key gives"}},
		{says(402, "billing_error", "pay"), runtime.Request{}, failed{"", 402, 0, "", "status 402 Payment Required: pay"}},
		{says(403, "permission_error", "not yours"), runtime.Request{}, failed{"", 403, 0, "", "status 403 Forbidden: not yours"}},
		{says(404, "not_found_error", "model: claude-x"), runtime.Request{},
			failed{"", 404, 0, "", "status 404 Not Found: model: claude-x\n  hint: does the model exist, and may the key use it? braise doctor looks it up"}},
		{says(413, "request_too_large", "Request exceeds the maximum size"), runtime.Request{},
			failed{"", 413, 0, "model.tooLong", "status 413 Request Entity Too Large: Request exceeds the maximum size"}},
		{says(429, "rate_limit_error", "slow down", "Retry-After", "7"), runtime.Request{}, failed{"rate_limit", 429, 7 * time.Second, "", "status 429 Too Many Requests: slow down"}},
		{says(429, "rate_limit_error", "slow down"), runtime.Request{}, failed{"rate_limit", 429, 0, "", "status 429 Too Many Requests: slow down"}},
		{says(500, "api_error", "Internal server error"), runtime.Request{}, failed{"5xx", 500, 0, "", "status 500 Internal Server Error: Internal server error"}},
		{says(504, "timeout_error", "late"), runtime.Request{}, failed{"timeout", 504, 0, "", "status 504 Gateway Timeout: late"}},
		{says(529, "overloaded_error", "Overloaded"), runtime.Request{}, failed{"5xx", 529, 0, "", "status 529: Overloaded"}},
		{reply(200, `{}`), runtime.Request{}, failed{"unknown", 200, 0, "", "the answer has no content"}},
		{reply(200, `{"content": "hello"}`), runtime.Request{}, failed{"", 200, 0, "", "the answer does not keep to the protocol: content is of the wrong type, string"}},
		{reply(200, ``), runtime.Request{}, failed{"unknown", 200, 0, "", "the answer is empty"}},
		{reply(200, `<html>`), runtime.Request{}, failed{"", 200, 0, "", "the answer is a page, not JSON: <html>\n  hint: check the base URL"}},
		{says(200, "overloaded_error", "Overloaded"), runtime.Request{}, failed{"5xx", 200, 0, "", "the answer is an error: Overloaded"}},
		{says(200, "api_error", "Internal server error"), runtime.Request{}, failed{"5xx", 200, 0, "", "the answer is an error: Internal server error"}},
	} {
		_, _, err := ask(t, tt.handler, anthropic.Options{APIKey: key}, &tt.req, false)
		if diff := cmp.Diff(tt.want, failure(t, err)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// A stream that ends before the answer does is a failure that is tried again, wherever it ends.
func TestStreamsThatAreCut(t *testing.T) {
	say := func(*sent) answer {
		return answer{blocks: []map[string]any{thought("I think so."), text("Hello"), use("toolu_1", "look", map[string]any{"at": 12345})}}
	}
	tools := []runtime.ToolSpec{{Name: "look"}}
	stream := func(wrap func(events []string) string) (*runtime.Response, error) {
		p, m := serve(t, anthropic.Options{}, say)
		p.wrap = wrap
		return m.Stream(t.Context(), &runtime.Request{Messages: []runtime.Message{user("a")}, Tools: tools}, func(runtime.Delta) {})
	}
	var all []string
	whole, err := stream(func(events []string) string { all = events; return strings.Join(events, "") })
	if err != nil || len(whole.ToolCalls) != 1 {
		t.Fatalf("%+v, %v", whole, err)
	}
	want := failed{retry.Network, 0, 0, "", "the connection was lost: reading the answer: the stream was cut: unexpected EOF"}
	for n := range len(all) - 2 { // before each event up to the reason, and in the middle of it
		for _, part := range []int{0, 2} {
			_, err := stream(func(events []string) string {
				return strings.Join(events[:n], "") + events[n][:len(events[n])*part/3]
			})
			if n == 0 && part == 0 {
				continue // nothing at all
			}
			if diff := cmp.Diff(want, failure(t, err)); diff != "" {
				t.Fatalf("cut at %d, %d/3 (-want +got):\n%s", n, part, diff)
			}
		}
	}
	got, err := stream(func(events []string) string { return strings.Join(events[:len(events)-1], "") })
	if diff := cmp.Diff(whole, got); diff != "" || err != nil {
		t.Errorf("without its last event: %v (-want +got):\n%s", err, diff)
	}
}

// What streams may have beside, and what may be wrong with them.
func TestStreams(t *testing.T) {
	const start, stop = `{"type": "message_start", "message": {"content": []}}`, `{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}`
	block := func(kind, rest string) string {
		return `{"type": "content_block_start", "index": 0, "content_block": {"type": "` + kind + `"` + rest + `}}`
	}
	delta := func(rest string) string {
		return `{"type": "content_block_delta", "index": 0, "delta": {` + rest + `}}`
	}
	for _, tt := range []struct {
		name   string
		events []string
		want   string // of the answer, as JSON of its text and calls; "": a failure
		failed failed
	}{
		{"an unknown event and an unknown piece", []string{start, `{"type": "news", "x": 1}`, block("text", `, "text": "a"`), delta(`"type": "citations_delta", "citation": {}`), delta(`"type": "text_delta", "text": "b"`), stop}, `"ab"`, failed{}},
		{"arguments at once", []string{start, block("tool_use", `, "id": "1", "name": "t", "input": {"a": 1}`), stop}, `"" t({"a": 1})`, failed{}},
		{"arguments that are none", []string{start, block("tool_use", `, "id": "1", "name": "t", "input": {}`), delta(`"type": "input_json_delta", "partial_json": "{\"a\": "`), stop}, `"" t("{\"a\": ")`, failed{}},
		{"no arguments", []string{start, block("tool_use", `, "id": "1", "name": "t", "input": null`), delta(`"type": "input_json_delta", "partial_json": ""`), stop}, `"" t({})`, failed{}},
		{"invalid UTF-8", []string{start, block("text", `, "text": ""`), delta("\"type\": \"text_delta\", \"text\": \"a\xff\""), stop}, `"a` + "\ufffd" + `"`, failed{}},
		{"an error half-way", []string{start, `{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}`}, "", failed{"5xx", 200, 0, "", "the answer is an error: Overloaded"}},
		{"a piece of nothing", []string{start, delta(`"type": "text_delta", "text": "b"`)}, "", failed{"unknown", 200, 0, "", "the answer has a piece of block 0, which did not begin"}},
		{"a block of the wrong type", []string{start, `{"type": "content_block_start", "content_block": 1}`}, "",
			failed{"", 200, 0, "", "the answer does not keep to the protocol: content_block is of the wrong type, number"}},
		{"broken JSON", []string{start, `{"type": }`}, "", failed{"unknown", 200, 0, "", "the answer is not JSON (invalid character '}' looking for beginning of value): {\"type\": }"}},
		{"too many blocks", append([]string{start}, slices.Repeat([]string{block("tool_use", "")}, 5)...), "", failed{"", 200, 0, "", "the answer is larger than 4096 bytes"}},
		{"a long text", append([]string{start, block("text", "")}, slices.Repeat([]string{delta(`"text": "` + strings.Repeat("x", 100) + `"`)}, 50)...), "", failed{"", 200, 0, "", "the answer is larger than 4096 bytes"}},
	} {
		resp, _, err := ask(t, reply(200, "data: "+strings.Join(tt.events, "\n\ndata: ")+"\n\n"), anthropic.Options{MaxBytes: 4096}, &runtime.Request{}, true)
		if tt.want == "" {
			if diff := cmp.Diff(tt.failed, failure(t, err)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.name, diff)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := fmt.Sprintf("%q", resp.Text)
		for _, c := range resp.ToolCalls {
			got += fmt.Sprintf(" %s(%s)", c.Name, c.Arguments)
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// Pieces come while the answer is not finished, and who gets one may cancel the rest.
func TestStreamIsCancelledByItsReader(t *testing.T) {
	gone := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hel"}}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shown := ""
	_, err := connect(t, srv, anthropic.Options{}).Stream(ctx, &runtime.Request{Messages: []runtime.Message{user("a")}}, func(d runtime.Delta) {
		shown += d.Text
		cancel()
	})
	if !errors.Is(err, context.Canceled) || retry.ReasonOf(err) != "" || shown != "Hel" {
		t.Errorf("after %q: got %v, want a cancellation", shown, err)
	}
	<-gone
}

// The key and the version of the API go out, and nothing of a key comes back.
func TestHeadersAndSecrets(t *testing.T) {
	const key = "sk-ant-0123456789abcdef"
	p, m := serve(t, anthropic.Options{APIKey: key, Headers: map[string]string{"anthropic-beta": "context-1m"}},
		func(*sent) answer { return answer{blocks: []map[string]any{text("It is " + key + "!")}} })
	shown := ""
	got, err := m.Stream(t.Context(), &runtime.Request{Messages: []runtime.Message{user("Tell")}}, func(d runtime.Delta) { shown += d.Text })
	if err != nil || got.Text != "It is ***!" || shown != got.Text {
		t.Errorf("shown %q, got %+v, %v", shown, got, err)
	}
	if p.header.Get("X-Api-Key") != key || p.header.Get("Anthropic-Beta") != "context-1m" || p.header.Get("Authorization") != "" {
		t.Errorf("the headers are %v", p.header)
	}
	m, err = anthropic.New(anthropic.Options{Model: "m", BaseURL: p.srv.URL + "/v1", HTTPClient: p.srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Generate(t.Context(), &runtime.Request{Messages: []runtime.Message{user("Tell")}})
	want := failed{"", 401, 0, "", "status 401 Unauthorized: x-api-key header is required\n  hint: the endpoint wants a key: add api_key: \"${NAME}\" and set that environment variable"}
	if diff := cmp.Diff(want, failure(t, err)); diff != "" {
		t.Errorf("without a key (-want +got):\n%s", diff)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		opts anthropic.Options
		want string
	}{
		{anthropic.Options{}, "anthropic: the name of the model is missing"},
		{anthropic.Options{Model: "m", BaseURL: "api.anthropic.com"}, `anthropic: the base URL is not like "https://api.anthropic.com/v1"`},
		{anthropic.Options{Model: "m", APIKey: "a\nb"}, "anthropic: the API key holds a line break or another control character"},
		{anthropic.Options{Model: "m", Headers: map[string]string{"X A": ""}}, `anthropic: "X A" is not the name of a header`},
		{anthropic.Options{Model: "m", Defaults: map[string]any{"max_tokens": 1}}, `anthropic: "max_tokens" is not a default: each request has its own`},
		{anthropic.Options{Model: "m", Defaults: map[string]any{"thinking": func() {}}}, `anthropic: the default "thinking" cannot be JSON: json: unsupported type: func()`},
	} {
		if m, err := anthropic.New(tt.opts); m != nil || err == nil || err.Error() != tt.want {
			t.Errorf("got %v, %v, want %s", m, err, tt.want)
		}
	}
}

func TestModels(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/v1/models?limit=1000" || r.Header.Get("X-Api-Key") == "" || r.Header.Get("Anthropic-Version") == "" {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, `{"data": [{"type": "model", "id": "claude-sonnet-5-5"}, {"type": "model", "id": "claude-haiku-5-5"}], "has_more": false}`)
	}))
	t.Cleanup(srv.Close)
	got, err := connect(t, srv, anthropic.Options{}).Models(t.Context())
	if want := []string{"claude-haiku-5-5", "claude-sonnet-5-5"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func Example() {
	// A server that stands in for the provider.
	srv := httptest.NewServer(reply(200, `{"type": "message", "content": [{"type": "text", "text": "Hello, Ada!"}], "stop_reason": "end_turn",
		"usage": {"input_tokens": 8, "cache_read_input_tokens": 1200, "output_tokens": 4}}`))
	defer srv.Close()

	model, err := anthropic.New(anthropic.Options{BaseURL: srv.URL + "/v1", Model: "claude-sonnet-5-5", APIKey: "from the environment"})
	if err != nil {
		panic(err)
	}
	resp, err := model.Generate(context.Background(), &runtime.Request{
		Messages: []runtime.Message{{Role: runtime.User, Text: "Greet Ada."}},
	})
	fmt.Println(resp.Text, resp.Usage.InputTokens, resp.Usage.CachedTokens, err)
	// Output: Hello, Ada! 1208 1200 <nil>
}
