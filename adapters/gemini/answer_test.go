package gemini_test

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

	"github.com/braise-run/braise/adapters/gemini"
	"github.com/braise-run/braise/internal/seedtest"
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

// ask asks a model that a handler answers, and returns what it handed on while the answer came, by kind.
func ask(t *testing.T, h http.HandlerFunc, opts gemini.Options, req *runtime.Request, stream bool) (*runtime.Response, map[string]string, error) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	m := connect(t, srv, opts)
	if req.Messages == nil {
		req.Messages = []runtime.Message{user("a")}
	}
	shown := map[string]string{}
	if !stream {
		resp, err := m.Generate(t.Context(), req)
		return resp, shown, err
	}
	resp, err := m.Stream(t.Context(), req, func(d runtime.Delta) { shown[d.Kind] += d.Text })
	return resp, shown, err
}

// An answer is the same whether it comes in pieces or not, but for the place of the signature of a text: in a stream it
// comes behind it.
func TestAnswers(t *testing.T) {
	part := func(data string) []runtime.Part {
		return []runtime.Part{{Of: "gcp.gemini/gemini-3.8-flash", Name: "order", Data: json.RawMessage(data)}}
	}
	args := map[string]any{"path": "a.txt", "n": 1}
	read := func(id string) map[string]any { return use(id, "file__read", args) }
	readSig, textSig, none := signature("file__read", args), signature("é!", false), signature("", false)
	tools := []runtime.ToolSpec{{Name: "file.read"}}
	const readArgs = `{"n":1,"path":"a.txt"}`
	for _, tt := range []struct {
		name   string
		says   answer
		tools  []runtime.ToolSpec
		want   runtime.Response
		stream []runtime.Part // nil: as in want
	}{
		{"a text", answer{parts: []map[string]any{text("Hello, wörld 👋"), text(" and more")}}, nil, runtime.Response{Text: "Hello, wörld 👋 and more", Finish: "stop"}, nil},
		{"nothing", answer{}, nil, runtime.Response{Finish: "stop"}, nil},
		{"calls", answer{parts: []map[string]any{text("I look."), read("f1"), use("f2", "made_up", nil)}}, tools,
			runtime.Response{Text: "I look.", Finish: "tool_calls", ToolCalls: []runtime.ToolCall{call("f1", "file.read", readArgs), call("f2", "made_up", `{}`)}}, nil},
		{"calls without ids", answer{parts: []map[string]any{read(""), read("call_7_1"), read("call_7_1"), read("")}}, tools,
			runtime.Response{Finish: "tool_calls", ToolCalls: []runtime.ToolCall{call("call_7_1", "file.read", readArgs), call("call_7_2", "file.read", readArgs),
				call("call_7_3", "file.read", readArgs), call("call_7_4", "file.read", readArgs)}}, nil},
		{"a limit", answer{parts: []map[string]any{text("x")}, finish: "MAX_TOKENS"}, nil, runtime.Response{Text: "x", Finish: "length"}, nil},
		{"a limit behind a call", answer{parts: []map[string]any{read("f1")}, finish: "MAX_TOKENS"}, tools, runtime.Response{Finish: "length", ToolCalls: []runtime.ToolCall{call("f1", "file.read", readArgs)}}, nil},
		{"a limit within a thought", answer{parts: []map[string]any{thought("Hm")}, finish: "MAX_TOKENS"}, nil, runtime.Response{Finish: "length", Parts: part(`[{"part":{"text":"Hm","thought":true}}]`)}, nil},
		{"more to come", answer{parts: []map[string]any{text("x")}, finish: "CONTINUATION"}, nil, runtime.Response{Text: "x", Finish: "length"}, nil},
		{"safety", answer{parts: []map[string]any{text("I will")}, finish: "SAFETY"}, nil, runtime.Response{Text: "I will", Finish: "content_filter"}, nil},
		{"safety at once", answer{finish: "PROHIBITED_CONTENT"}, nil, runtime.Response{Finish: "content_filter"}, nil},
		{"recitation", answer{parts: []map[string]any{text("To be")}, finish: "RECITATION"}, nil, runtime.Response{Text: "To be", Finish: "content_filter"}, nil},
		{"another reason", answer{parts: []map[string]any{text("x")}, finish: "OTHER"}, nil, runtime.Response{Text: "x"}, nil},
		{"an unknown reason", answer{parts: []map[string]any{text("x")}, finish: "BORED"}, nil, runtime.Response{Text: "x"}, nil},
		{"thoughts", answer{parts: []map[string]any{thought("Hm. é"), text("I read."), signed(read("f1")), {"executableCode": map[string]any{"code": "1"}}, text("done"), read("f2")}}, tools,
			runtime.Response{Text: "I read.done", Finish: "tool_calls", ToolCalls: []runtime.ToolCall{call("f1", "file.read", readArgs), call("f2", "file.read", readArgs)},
				Parts: part(`[{"part":{"text":"Hm. é","thought":true}},{"text":7},{"call":true,"signature":"` + readSig + `"},{"part":{"executableCode":{"code":"1"}}},{"text":4},{"call":true}]`)}, nil},
		{"a signed text", answer{parts: []map[string]any{signed(text("é!")), text("more")}}, nil,
			runtime.Response{Text: "é!more", Finish: "stop", Parts: part(`[{"text":3,"signature":"` + textSig + `"},{"text":4}]`)}, part(`[{"text":3},{"signature":"` + none + `"},{"text":4}]`)},
	} {
		for _, stream := range []bool{false, true} {
			_, m := serve(t, gemini.Options{}, func(*sent) answer { return tt.says })
			req := &runtime.Request{Messages: []runtime.Message{user("a")}, Tools: tt.tools, StepCall: 7}
			ask, shown := m.Generate, map[string]string{}
			if stream {
				ask = func(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
					return m.Stream(ctx, req, func(d runtime.Delta) { shown[d.Kind] += d.Text })
				}
			}
			thoughts, called := "", ""
			for _, p := range tt.says.parts {
				if p["thought"] == true {
					thoughts += p["text"].(string)
				}
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
			want.Model, want.Usage = "gemini-3.8-flash-001", got.Usage
			if stream && tt.stream != nil {
				want.Parts = tt.stream
			}
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

// Counts mean the same as those of all providers, whatever form they have, and fail no answer. In a stream, later ones
// replace those before.
func TestUsage(t *testing.T) {
	const finish = `"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]`
	for _, tt := range []struct {
		usage, last string
		want        runtime.Usage
	}{
		{`{"promptTokenCount": 125, "cachedContentTokenCount": 100, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "toolUsePromptTokenCount": 5, "totalTokenCount": 137}`, ``,
			runtime.Usage{InputTokens: 130, CachedTokens: 100, OutputTokens: 7, ReasoningTokens: 3}},
		{`{"promptTokenCount": 125.0, "cachedContentTokenCount": "100", "candidatesTokenCount": null, "thoughtsTokenCount": "7"}`, ``,
			runtime.Usage{InputTokens: 125, CachedTokens: 100, OutputTokens: 7, ReasoningTokens: 7}},
		{`{"promptTokenCount": "many", "cachedContentTokenCount": -4, "candidatesTokenCount": 2}`, ``, runtime.Usage{OutputTokens: 2}},
		{`null`, ``, runtime.Usage{}},
		{`[1]`, ``, runtime.Usage{}},
		{`"none"`, ``, runtime.Usage{}},
		{`{"promptTokenCount": 5, "candidatesTokenCount": 1}`, `{"candidatesTokenCount": 7, "promptTokenCount": null, "thoughtsTokenCount": 4}`,
			runtime.Usage{InputTokens: 5, OutputTokens: 11, ReasoningTokens: 4}},
	} {
		body := `{` + finish + `, "usageMetadata": ` + tt.usage + `}`
		if tt.last != "" {
			body = "data: " + body + "\n\ndata: {\"usageMetadata\": " + tt.last + "}\n\n"
		}
		got, _, err := ask(t, reply(200, body), gemini.Options{}, &runtime.Request{}, false)
		if err != nil {
			t.Errorf("%s %s: %v", tt.usage, tt.last, err)
		} else if diff := cmp.Diff(tt.want, got.Usage); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.usage, tt.last, diff)
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
	_, short.Message, _ = strings.Cut(f.Err.Error(), "enerateContent: ")
	return short
}

func TestFailures(t *testing.T) {
	const key = "AIza-0123456789abcdef"
	says := func(status int, message string, details ...map[string]any) http.HandlerFunc {
		return reply(status, faultOf(status, message, details...))
	}
	retryInfo := func(delay string) map[string]any {
		return map[string]any{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
	}
	quota := map[string]any{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []any{map[string]any{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}}}
	invalid := map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
	schema := runtime.Request{Schema: json.RawMessage(`{"type": "object", "properties": {}}`)}
	finish := func(reason, message string) http.HandlerFunc {
		return reply(200, string(jsonOf((&answer{finish: reason, message: message}).body("m", nil))))
	}
	const keyHint = "\n  hint: the endpoint does not take the key that api_key gives"
	for _, tt := range []struct {
		handler http.HandlerFunc
		req     runtime.Request
		want    failed
	}{
		{says(400, "contents[0]: what?"), runtime.Request{}, failed{"", 400, 0, "", "status 400 Bad Request: contents[0]: what?"}},
		{says(400, "API key not valid. Please pass a valid API key.", invalid), runtime.Request{},
			failed{"", 400, 0, "", "status 400 Bad Request: API key not valid. Please pass a valid API key." + keyHint}},
		{says(400, "API key expired. Please renew the API key.", invalid), runtime.Request{},
			failed{"", 400, 0, "", "status 400 Bad Request: API key expired. Please renew the API key." + keyHint}},
		{says(400, "The input token count (1091639) exceeds the maximum number of tokens allowed (1048576)."), runtime.Request{},
			failed{"", 400, 0, "model.tooLong", "status 400 Bad Request: The input token count (1091639) exceeds the maximum number of tokens allowed (1048576)."}},
		{says(400, "Thinking level is not supported for this model."), runtime.Request{},
			failed{"", 400, 0, "", "status 400 Bad Request: Thinking level is not supported for this model.\n  hint: not every model knows each effort of reasoning; without one it thinks by its default"}},
		{says(400, "Invalid JSON schema"), schema,
			failed{"", 400, 0, "", "status 400 Bad Request: Invalid JSON schema\n  hint: json_schema: false of the model in braise.yaml puts the schema into words"}},
		{says(401, "Request had invalid authentication credentials: "+key), runtime.Request{},
			failed{"", 401, 0, "", "status 401 Unauthorized: Request had invalid authentication credentials: ***" + keyHint}},
		{says(403, "The caller does not have permission"), runtime.Request{}, failed{"", 403, 0, "", "status 403 Forbidden: The caller does not have permission"}},
		{says(404, "models/gemini-9 is not found for API version v1beta"), runtime.Request{},
			failed{"", 404, 0, "", "status 404 Not Found: models/gemini-9 is not found for API version v1beta\n  hint: does the model exist, and may the key use it? braise doctor looks it up"}},
		{says(413, "Request payload size exceeds the limit"), runtime.Request{},
			failed{"", 413, 0, "model.tooLong", "status 413 Request Entity Too Large: Request payload size exceeds the limit"}},
		{says(429, "Slow down.", quota, retryInfo("36.4s")), runtime.Request{}, failed{"rate_limit", 429, 36400 * time.Millisecond, "", "status 429 Too Many Requests: Slow down."}},
		{says(429, "Slow down.", retryInfo("soon"), retryInfo("-1s")), runtime.Request{}, failed{"rate_limit", 429, 0, "", "status 429 Too Many Requests: Slow down."}},
		{reply(429, faultOf(429, "Slow down.", retryInfo("2s")), "Retry-After", "7"), runtime.Request{}, failed{"rate_limit", 429, 7 * time.Second, "", "status 429 Too Many Requests: Slow down."}},
		{reply(429, "["+faultOf(429, "Slow down.", retryInfo("2s"))+"]"), runtime.Request{}, failed{"rate_limit", 429, 2 * time.Second, "", "status 429 Too Many Requests: Slow down."}},
		{says(500, "An internal error has occurred."), runtime.Request{}, failed{"5xx", 500, 0, "", "status 500 Internal Server Error: An internal error has occurred."}},
		{says(503, "The model is overloaded."), runtime.Request{}, failed{"5xx", 503, 0, "", "status 503 Service Unavailable: The model is overloaded."}},
		{says(504, "Deadline expired."), runtime.Request{}, failed{"timeout", 504, 0, "", "status 504 Gateway Timeout: Deadline expired."}},
		{finish("MALFORMED_FUNCTION_CALL", "Malformed function call: print(look( with "+key), runtime.Request{},
			failed{"5xx", 200, 0, "", "the model's answer broke off with MALFORMED_FUNCTION_CALL: Malformed function call: print(look( with ***"}},
		{finish("UNEXPECTED_TOOL_CALL", ""), runtime.Request{}, failed{"5xx", 200, 0, "", "the model's answer broke off with UNEXPECTED_TOOL_CALL"}},
		{finish("TOO_MANY_TOOL_CALLS", ""), runtime.Request{}, failed{"", 200, 0, "", "the model's answer broke off with TOO_MANY_TOOL_CALLS"}},
		{reply(200, `{"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": []}, "usageMetadata": {"promptTokenCount": 4}}`), runtime.Request{},
			failed{"", 200, 0, "model.filtered", "the provider blocked the prompt: SAFETY"}},
		{reply(200, `{}`), runtime.Request{}, failed{"unknown", 200, 0, "", "the answer has no content"}},
		{reply(200, `{"candidates": [{"index": 0, "content": {"role": "model"}}]}`), runtime.Request{}, failed{"unknown", 200, 0, "", "the answer has no content"}},
		{reply(200, `{"candidates": "hello"}`), runtime.Request{}, failed{"", 200, 0, "", "the answer does not keep to the protocol: candidates is of the wrong type, string"}},
		{reply(200, `{"candidates": [{"content": {"parts": [{"text": 1}]}}]}`), runtime.Request{},
			failed{"", 200, 0, "", "the answer does not keep to the protocol: candidates.content.parts.text is of the wrong type, number"}},
		{reply(200, `[1]`), runtime.Request{}, failed{"", 200, 0, "", "the answer does not keep to the protocol: it is of the wrong type, number"}},
		{reply(200, ``), runtime.Request{}, failed{"unknown", 200, 0, "", "the answer is empty"}},
		{reply(200, `<html>`), runtime.Request{}, failed{"", 200, 0, "", "the answer is a page, not JSON: <html>\n  hint: check the base URL"}},
		{reply(200, faultOf(503, "Overloaded")), runtime.Request{}, failed{"5xx", 503, 0, "", "the answer is an error: Overloaded"}},
	} {
		for _, stream := range []bool{false, true} {
			_, _, err := ask(t, tt.handler, gemini.Options{APIKey: key}, &tt.req, stream)
			if diff := cmp.Diff(tt.want, failure(t, err)); diff != "" {
				t.Errorf("stream %t (-want +got):\n%s", stream, diff)
			}
		}
	}
}

// A stream that ends before the answer does is a failure that is tried again, wherever it ends.
func TestStreamsThatAreCut(t *testing.T) {
	tools := []runtime.ToolSpec{{Name: "look"}}
	stream := func(wrap func(events []string) string) (*runtime.Response, error) {
		p, m := serve(t, gemini.Options{}, says(thought("I think so."), text("Hello"), signed(use("f1", "look", map[string]any{"at": 12345}))))
		p.wrap = wrap
		return m.Stream(t.Context(), &runtime.Request{Messages: []runtime.Message{user("a")}, Tools: tools}, func(runtime.Delta) {})
	}
	var all []string
	whole, err := stream(func(events []string) string { all = events; return strings.Join(events, "") })
	if err != nil || len(whole.ToolCalls) != 1 {
		t.Fatalf("%+v, %v", whole, err)
	}
	want := failed{retry.Network, 0, 0, "", "the connection was lost: reading the answer: the stream was cut: unexpected EOF"}
	for n := range all { // before each event, and in the middle of it
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
	got, err := stream(func(events []string) string { return strings.TrimSpace(strings.Join(events, "")) })
	if diff := cmp.Diff(whole, got); diff != "" || err != nil {
		t.Errorf("without its last lines: %v (-want +got):\n%s", err, diff)
	}
}

// What streams may have beside, and what may be wrong with them.
func TestStreams(t *testing.T) {
	piece := func(parts string) string {
		return `{"candidates": [{"content": {"parts": [` + parts + `]}, "index": 0}]}`
	}
	const stop = `{"candidates": [{"finishReason": "STOP"}]}`
	large := strings.Repeat("x", 100)
	for _, tt := range []struct {
		name   string
		events []string
		want   string // of the answer, as JSON of its text and calls; "": a failure
		failed failed
	}{
		{"members that are unknown", []string{`{"modelStatus": {"x": 1}, "candidates": []}`, piece(`{"text": "a", "partMetadata": {}}`), piece(`{"audio": 1}`), piece(`{"text": "b"}`), stop}, `"ab"`, failed{}},
		{"other candidates", []string{piece(`{"text": "a"}`), `{"candidates": [{"index": 1, "content": {"parts": [{"text": "z"}]}, "finishReason": "SAFETY"}]}`, stop}, `"a"`, failed{}},
		{"a piece behind the end", []string{piece(`{"text": "a"}`), stop, piece(`{"text": "b"}`), `{"usageMetadata": {}}`}, `"ab"`, failed{}},
		{"null", []string{piece(`{"text": null}, {"text": "a"}`), `null`, `{"candidates": null}`, `{"candidates": [{"content": null, "finishReason": null}]}`, stop}, `"a"`, failed{}},
		{"arguments that are none", []string{piece(`{"functionCall": {"id": "1", "name": "t", "args": "{\"a\": "}}, {"functionCall": {"id": "2", "name": "t"}}`), stop}, `"" t("{\"a\": ") t({})`, failed{}},
		{"invalid UTF-8", []string{piece("{\"text\": \"a\xff\"}"), stop}, `"a` + "\ufffd" + `"`, failed{}},
		{"a prompt that is blocked", []string{`{"promptFeedback": {"blockReason": "BLOCKLIST"}}`}, "", failed{"", 200, 0, "model.filtered", "the provider blocked the prompt: BLOCKLIST"}},
		{"a call that cannot be read", []string{piece(`{"text": "a"}`), `{"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}`}, "", failed{"5xx", 200, 0, "", "the model's answer broke off with MALFORMED_FUNCTION_CALL"}},
		{"an error half-way", []string{piece(`{"text": "a"}`), faultOf(429, "Slow down.", map[string]any{"retryDelay": "5s"})}, "", failed{"rate_limit", 429, 5 * time.Second, "", "the answer is an error: Slow down."}},
		{"a part of the wrong type", []string{piece(`1`)}, "", failed{"", 200, 0, "", "the answer does not keep to the protocol: candidates.content.parts is of the wrong type, number"}},
		{"broken JSON", []string{`{"candidates": }`}, "", failed{"unknown", 200, 0, "", "the answer is not JSON (invalid character '}' looking for beginning of value): {\"candidates\": }"}},
		{"too many parts", slices.Repeat([]string{piece(`{"functionCall": {"name": "t"}}`)}, 5), "", failed{"", 200, 0, "", "the answer is larger than 4096 bytes"}},
		{"a long text", slices.Repeat([]string{piece(`{"text": "` + large + `"}`)}, 50), "", failed{"", 200, 0, "", "the answer is larger than 4096 bytes"}},
	} {
		resp, shown, err := ask(t, reply(200, "data: "+strings.Join(tt.events, "\n\ndata: ")+"\n\n"), gemini.Options{MaxBytes: 4096}, &runtime.Request{}, true)
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
		if got != tt.want || shown[runtime.DeltaText] != resp.Text {
			t.Errorf("%s: got %s, want %s, shown %q", tt.name, got, tt.want, shown)
		}
		whole, _, err := ask(t, reply(200, "["+strings.Join(tt.events, ",\n")+"]"), gemini.Options{}, &runtime.Request{}, true)
		if diff := cmp.Diff(resp, whole); err != nil || diff != "" { // as gateways send it that drop alt=sse
			t.Errorf("%s, as a list: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
}

// Pieces come while the answer is not finished, and who gets one may cancel the rest.
func TestStreamIsCancelledByItsReader(t *testing.T) {
	gone := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `data: {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shown := ""
	_, err := connect(t, srv, gemini.Options{}).Stream(ctx, &runtime.Request{Messages: []runtime.Message{user("a")}}, func(d runtime.Delta) {
		shown += d.Text
		cancel()
	})
	if !errors.Is(err, context.Canceled) || retry.ReasonOf(err) != "" || shown != "Hel" {
		t.Errorf("after %q: got %v, want a cancellation", shown, err)
	}
	<-gone
}

// The key goes out in a header and not in the address, and nothing of it comes back.
func TestHeadersAndSecrets(t *testing.T) {
	const key = "AIza-0123456789abcdef"
	p, m := serve(t, gemini.Options{APIKey: key, Headers: map[string]string{"X-Goog-User-Project": "mine"}}, says(text("It is "+key+"!")))
	shown := ""
	got, err := m.Stream(t.Context(), &runtime.Request{Messages: []runtime.Message{user("Tell")}}, func(d runtime.Delta) { shown += d.Text })
	if err != nil || got.Text != "It is ***!" || shown != got.Text {
		t.Errorf("shown %q, got %+v, %v", shown, got, err)
	}
	if p.header.Get("X-Goog-Api-Key") != key || p.header.Get("X-Goog-User-Project") != "mine" || p.header.Get("Authorization") != "" {
		t.Errorf("the headers are %v", p.header)
	}
	m, err = gemini.New(gemini.Options{Model: "m", BaseURL: p.srv.URL + "/v1beta", HTTPClient: p.srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Generate(t.Context(), &runtime.Request{Messages: []runtime.Message{user("Tell")}})
	want := failed{"", 403, 0, "", "status 403 Forbidden: Method doesn't allow unregistered callers (callers without established identity)." +
		"\n  hint: the endpoint wants a key: add api_key: \"${NAME}\" and set that environment variable"}
	if diff := cmp.Diff(want, failure(t, err)); diff != "" {
		t.Errorf("without a key (-want +got):\n%s", diff)
	}
}

// Names of models may be in a collection, and have any characters.
func TestAddresses(t *testing.T) {
	for model, want := range map[string]string{"gemini-3.8-flash": "/v1beta/models/gemini-3.8-flash:generateContent", "models/gemini-3.8-flash": "/v1beta/models/gemini-3.8-flash:generateContent",
		"tunedModels/mine": "/v1beta/tunedModels/mine:generateContent", "a b?c": "/v1beta/models/a%20b%3Fc:generateContent"} {
		got := ""
		_, _, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
			got = r.RequestURI
			reply(200, `{"candidates": [{"finishReason": "STOP"}]}`)(w, r)
		}, gemini.Options{Model: model}, &runtime.Request{}, false)
		if err != nil || got != want {
			t.Errorf("%s: asked %s, %v, want %s", model, got, err, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	config := func(members map[string]any) gemini.Options {
		return gemini.Options{Model: "m", Defaults: map[string]any{"generationConfig": members}}
	}
	for _, tt := range []struct {
		opts gemini.Options
		want string
	}{
		{gemini.Options{}, "gemini: the name of the model is missing"},
		{gemini.Options{Model: "m", BaseURL: "generativelanguage.googleapis.com"}, `gemini: the base URL is not like "https://generativelanguage.googleapis.com/v1beta"`},
		{gemini.Options{Model: "m", APIKey: "a\nb"}, "gemini: the API key holds a line break or another control character"},
		{gemini.Options{Model: "m", Headers: map[string]string{"X A": ""}}, `gemini: "X A" is not the name of a header`},
		{gemini.Options{Model: "m", Defaults: map[string]any{"contents": 1}}, `gemini: "contents" is not a default: each request has its own`},
		{gemini.Options{Model: "m", Defaults: map[string]any{"labels": func() {}}}, `gemini: the default "labels" cannot be JSON: json: unsupported type: func()`},
		{gemini.Options{Model: "m", Defaults: map[string]any{"generationConfig": 1}}, `gemini: the default "generationConfig" must be an object`},
		{config(map[string]any{"maxOutputTokens": 1}), `gemini: "maxOutputTokens" is not a default: each request has its own`},
		{config(map[string]any{"topK": func() {}}), `gemini: the default "topK" cannot be JSON: json: unsupported type: func()`},
	} {
		if m, err := gemini.New(tt.opts); m != nil || err == nil || err.Error() != tt.want {
			t.Errorf("got %v, %v, want %s", m, err, tt.want)
		}
	}
}

func TestModels(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/v1beta/models?pageSize=1000" || r.Header.Get("X-Goog-Api-Key") == "" {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, `{"models": [{"name": "models/gemini-3.8-flash", "displayName": "Gemini"}, {"name": "models/gemini-2.5-flash"}, {"name": "tunedModels/mine"}]}`)
	}))
	t.Cleanup(srv.Close)
	got, err := connect(t, srv, gemini.Options{}).Models(t.Context())
	if want := []string{"gemini-2.5-flash", "gemini-3.8-flash", "tunedModels/mine"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// roundTrip answers requests without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func FuzzResponse(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add(200, `{"candidates": [{"content": {"parts": [{"text": "Hm", "thought": true}, {"text": "Hello", "thoughtSignature": "c2ln"}]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": "2"}}`)
	f.Add(200, "data: {\"candidates\": [{\"content\": {\"parts\": [{\"functionCall\": {\"name\": \"a__b\", \"args\": {\"x\": 1}}}, {\"text\": \"\"}]}}]}\n\ndata: {\"candidates\": [{\"finishReason\": \"STOP\"}]}\n\n")
	f.Add(200, `[{"candidates": [{"content": {"parts": [{"inlineData": {}}]}}]}, {"promptFeedback": {"blockReason": "SAFETY"}}]`)
	f.Add(200, `{"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "no"}]}`)
	f.Add(429, `[{"error": {"message": ["a"], "code": 4e99, "details": [{"retryDelay": "1e99s"}]}}]`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			status = 200
		}
		const key = "AIza-0123456789abcdef"
		m, err := gemini.New(gemini.Options{Model: "m", APIKey: key, HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if sent, err := io.ReadAll(r.Body); err != nil || !json.Valid(sent) {
				t.Errorf("%v: what is sent is not JSON: %s", err, sent)
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})}})
		if err != nil {
			t.Fatal(err)
		}
		shown := ""
		req := &runtime.Request{Messages: []runtime.Message{user("a")}, Tools: []runtime.ToolSpec{{Name: "a.b"}}}
		resp, err := m.Stream(t.Context(), req, func(d runtime.Delta) {
			if d.Kind == runtime.DeltaText {
				shown += d.Text
			}
		})
		if (resp == nil) == (err == nil) {
			t.Fatalf("got %v, %v, want a response or an error", resp, err)
		}
		if err != nil {
			fail, ok := errors.AsType[*retry.Failure](err)
			if !ok || fail.After < 0 || len(err.Error()) > 2000 || strings.Contains(err.Error(), key) {
				t.Errorf("got %#v", err)
			}
			return
		}
		if resp.Usage != resp.Usage.Clamped() || shown != resp.Text {
			t.Errorf("got %+v, shown %q", resp, shown)
		}
		ids := map[string]bool{"": true}
		for _, call := range resp.ToolCalls {
			if !json.Valid(call.Arguments) || ids[call.ID] || call.Name == "a__b" {
				t.Errorf("got %+v", call)
			}
			ids[call.ID] = true
		}
		req.Messages = append(req.Messages, runtime.Message{Role: runtime.Assistant, Text: resp.Text, ToolCalls: resp.ToolCalls, Parts: resp.Parts})
		again, err := m.Generate(t.Context(), req)
		if diff := cmp.Diff(resp, again); err != nil || diff != "" {
			t.Errorf("asked again: %v (-want +got):\n%s", err, diff)
		}
	})
}

func Example() {
	// A server that stands in for the provider.
	srv := httptest.NewServer(reply(200, `{"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello, Ada!"}]}, "finishReason": "STOP"}],
		"usageMetadata": {"promptTokenCount": 1208, "cachedContentTokenCount": 1200, "candidatesTokenCount": 4}}`))
	defer srv.Close()

	model, err := gemini.New(gemini.Options{BaseURL: srv.URL + "/v1beta", Model: "gemini-3.8-flash", APIKey: "from the environment"})
	if err != nil {
		panic(err)
	}
	resp, err := model.Generate(context.Background(), &runtime.Request{
		Messages: []runtime.Message{{Role: runtime.User, Text: "Greet Ada."}},
	})
	fmt.Println(resp.Text, resp.Usage.InputTokens, resp.Usage.CachedTokens, err)
	// Output: Hello, Ada! 1208 1200 <nil>
}
