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

// oddRow is an answer in one piece and in many, and what comes of both.
type oddRow struct {
	name, whole string
	pieces      []string
	want        runtime.Response
}

// oddRows are answers of endpoints that take the protocol in a way of their own. Those of TestStreamEqualsWhole come
// first.
func oddRows() []oddRow {
	// said is an answer with a text, and more members of the answer itself.
	said := func(finish, more string) (string, []string) {
		return `{"choices": [{"message": {"content": "x"}, "finish_reason": ` + finish + `}]` + more + `}`,
			[]string{chunk(`{"role": "assistant"}`), chunk(`{"content": "x"}`), `{"choices": [{"delta": {}, "finish_reason": ` + finish + `}]` + more + `}`}
	}
	var list []oddRow
	for _, r := range []struct {
		name, finish, more, stopped string
		in, out                     int
	}{
		{"counts with fractions", `"stop"`, `, "usage": {"prompt_tokens": 12.0, "completion_tokens": 3e0}`, "stop", 12, 3},
		{"counts in texts", `"stop"`, `, "usage": {"prompt_tokens": "12", "completion_tokens": "3.0"}`, "stop", 12, 3},
		{"counts in words", `"stop"`, `, "usage": {"prompt_tokens": "many", "completion_tokens": {}}`, "stop", 0, 0},
		{"counts as null", `"stop"`, `, "usage": {"prompt_tokens": null, "completion_tokens": 3}`, "stop", 0, 3},
		{"more tokens than there are", `"stop"`, `, "usage": {"prompt_tokens": 1e300, "completion_tokens": 3}`, "stop", 0, 3},
		{"usage as a list", `"stop"`, `, "usage": []`, "stop", 0, 0},
		{"usage as a text", `"stop"`, `, "usage": "free"`, "stop", 0, 0},
		{"other counts beside", `"stop"`, `, "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": "3", "prompt_tokens_details": []}`, "stop", 1, 2},
		{"the reason in each piece, as a text", `"null"`, "", "", 0, 0},
		{"an error that is empty", `"stop"`, `, "error": {}`, "stop", 0, 0},
		{"an error without words", `"stop"`, `, "error": ""`, "stop", 0, 0},
		{"no error", `"stop"`, `, "error": false`, "stop", 0, 0},
		{"a time with a fraction", `"stop"`, `, "created": 1700000000.25, "system_fingerprint": {"a": 1}, "object": null`, "stop", 0, 0},
		{"the model as a number", `"stop"`, `, "model": 7`, "stop", 0, 0},
		{"STOP", `"STOP"`, "", "stop", 0, 0},
		{"end_turn", `"end_turn"`, "", "stop", 0, 0},
		{"eos", `"eos"`, "", "stop", 0, 0},
		{"max_tokens", `"max_tokens"`, "", "length", 0, 0},
		{"MAX_TOKENS", `"MAX_TOKENS"`, "", "length", 0, 0},
		{"model_length", `"model_length"`, "", "length", 0, 0},
		{"content-filter", `"content-filter"`, "", "content_filter", 0, 0},
		{"contentFilter", `"contentFilter"`, "", "content_filter", 0, 0},
		{"SAFETY", `"SAFETY"`, "", "content_filter", 0, 0},
		{"RECITATION", `"RECITATION"`, "", "content_filter", 0, 0},
		{"PROHIBITED_CONTENT", `"PROHIBITED_CONTENT"`, "", "content_filter", 0, 0},
		{"refusal", `"refusal"`, "", "content_filter", 0, 0},
		{"sensitive", `"sensitive"`, "", "content_filter", 0, 0},
		{"a reason that is a number", `7`, "", "", 0, 0},
		{"a reason that is a list", `["stop"]`, "", "", 0, 0},
		{"calls without a call", `"tool_calls"`, "", "tool_calls", 0, 0},
		{"tool_use without a call", `"tool_use"`, "", "tool_calls", 0, 0},
	} {
		whole, pieces := said(r.finish, r.more)
		list = append(list, oddRow{r.name, whole, pieces, runtime.Response{Text: "x", Finish: r.stopped,
			Usage: runtime.Usage{InputTokens: r.in, OutputTokens: r.out}}})
	}
	for _, r := range []struct {
		name, usage string
		want        runtime.Usage
	}{
		{"cached and thought", `{"prompt_tokens": 20, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 16, "audio_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 5}}`,
			runtime.Usage{InputTokens: 20, CachedTokens: 16, OutputTokens: 9, ReasoningTokens: 5}},
		{"written to a cache", `{"prompt_tokens": 20, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 4}}`,
			runtime.Usage{InputTokens: 20, CachedTokens: 10, CacheWriteTokens: 4, OutputTokens: 9}},
		{"cached as LiteLLM counts it", `{"prompt_tokens": 20, "completion_tokens": 9, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 4}`,
			runtime.Usage{InputTokens: 20, CachedTokens: 10, CacheWriteTokens: 4, OutputTokens: 9}},
		{"cached as Moonshot counts it", `{"prompt_tokens": 20, "completion_tokens": 9, "cached_tokens": 12}`,
			runtime.Usage{InputTokens: 20, CachedTokens: 12, OutputTokens: 9}},
		{"more written than asked", `{"prompt_tokens": 20, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 40}}`,
			runtime.Usage{InputTokens: 20, CachedTokens: 10, CacheWriteTokens: 10, OutputTokens: 9}},
		{"cached as DeepSeek counts it", `{"prompt_tokens": 20, "completion_tokens": 9, "prompt_cache_hit_tokens": 12, "prompt_cache_miss_tokens": 8}`,
			runtime.Usage{InputTokens: 20, CachedTokens: 12, OutputTokens: 9}},
		{"cached in a text, thoughts as null", `{"prompt_tokens": 20, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": "16.0"}, "completion_tokens_details": {"reasoning_tokens": null}}`,
			runtime.Usage{InputTokens: 20, CachedTokens: 16, OutputTokens: 9}},
		{"more cached than asked", `{"prompt_tokens": 20, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens_details": {"reasoning_tokens": 1e9}}`,
			runtime.Usage{InputTokens: 20, CachedTokens: 20, OutputTokens: 9, ReasoningTokens: 9}},
		{"fewer cached than none", `{"prompt_tokens": 20, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": -4}}`,
			runtime.Usage{InputTokens: 20, OutputTokens: 9}},
		{"details of other kinds", `{"prompt_tokens": 20, "completion_tokens": 9, "prompt_tokens_details": "none", "completion_tokens_details": 3}`,
			runtime.Usage{InputTokens: 20, OutputTokens: 9}},
	} {
		whole, pieces := said(`"stop"`, `, "usage": `+r.usage)
		list = append(list, oddRow{r.name, whole, pieces, runtime.Response{Text: "x", Finish: "stop", Usage: r.want}})
	}
	call := func(id, name, args string) runtime.ToolCall {
		return runtime.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(args)}
	}
	const stop = `{"choices": [{"delta": {}, "finish_reason": "stop"}]}`
	calls := func(list ...runtime.ToolCall) runtime.Response {
		return runtime.Response{Finish: "tool_calls", ToolCalls: list}
	}
	one := func(call string) string {
		return `{"choices": [{"message": {"content": null, "tool_calls": [` + call + `]}}]}`
	}
	return append(list, []oddRow{
		{"a name in each piece", one(`{"function": {"name": "crm__lookup", "arguments": "{\"id\": 7}"}}`), []string{
			chunk(`{"tool_calls": [{"index": 0, "function": {"name": "crm__lookup", "arguments": "{\"id\": "}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "function": {"name": "crm__lookup", "arguments": "7"}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "function": {"name": "crm__lookup", "arguments": "}"}}]}`), stop,
		}, calls(call("call_2_1", "crm.lookup", `{"id": 7}`))},
		{"a name in each piece, without an index", one(`{"function": {"name": "crm__lookup", "arguments": "{\"id\": 7}"}}`), []string{
			chunk(`{"tool_calls": [{"function": {"name": "crm__lookup", "arguments": "{\"id\": "}}]}`),
			chunk(`{"tool_calls": [{"function": {"name": "crm__lookup", "arguments": "7}"}}]}`), stop,
		}, calls(call("call_2_1", "crm.lookup", `{"id": 7}`))},
		{"a name in each piece, twice the same call", one(`{"function": {"name": "now", "arguments": "{}"}}, {"function": {"name": "now", "arguments": "{}"}}`), []string{
			chunk(`{"tool_calls": [{"index": 0, "function": {"name": "now", "arguments": "{"}}]}`), chunk(`{"tool_calls": [{"index": 0, "function": {"name": "now", "arguments": "}"}}]}`),
			chunk(`{"tool_calls": [{"index": 1, "function": {"name": "now", "arguments": "{"}}]}`), chunk(`{"tool_calls": [{"index": 1, "function": {"name": "now", "arguments": "}"}}]}`), stop,
		}, calls(call("call_2_1", "now", `{}`), call("call_2_2", "now", `{}`))},
		{"an index for two calls", one(`{"id": "1", "function": {"name": "now"}}, {"id": "2", "function": {"name": "crm__lookup", "arguments": "{}"}}`), []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "now", "arguments": ""}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "id": "2", "function": {"name": "crm__lookup", "arguments": ""}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}`), stop,
		}, calls(call("1", "now", `{}`), call("2", "crm.lookup", `{}`))},
		{"the end of a call with another index", one(`{"id": "1", "function": {"name": "now", "arguments": "{}"}}, {"id": "2", "function": {"name": "crm__lookup", "arguments": "{\"id\": 7}"}}`), []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "now", "arguments": "{}"}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "id": "2", "function": {"name": "crm__lookup", "arguments": ""}}]}`),
			chunk(`{"tool_calls": [{"index": 1, "function": {"arguments": "{\"id\": "}}]}`),
			chunk(`{"tool_calls": [{"index": 1, "function": {"arguments": "7}"}}]}`), stop,
		}, calls(call("1", "now", `{}`), call("2", "crm.lookup", `{"id": 7}`))},
		{"an index that grows within a call", one(`{"id": "1", "function": {"name": "crm__lookup", "arguments": "{\"id\": 7}"}}`), []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "crm__lookup", "arguments": "{\"id\": "}}]}`),
			chunk(`{"tool_calls": [{"index": 1, "id": "1", "function": {"arguments": "7}"}}]}`), stop,
		}, calls(call("1", "crm.lookup", `{"id": 7}`))},
		{"one id for all calls", one(`{"id": "x", "function": {"name": "now", "arguments": "{}"}}, {"id": "x", "function": {"name": "crm__lookup", "arguments": "{}"}}`), []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "x", "function": {"name": "now", "arguments": "{}"}}]}`),
			chunk(`{"tool_calls": [{"index": 1, "id": "x", "function": {"name": "crm__lookup", "arguments": "{"}}]}`),
			chunk(`{"tool_calls": [{"index": 1, "id": "x", "function": {"arguments": "}"}}]}`), stop,
		}, calls(call("x", "now", `{}`), call("x", "crm.lookup", `{}`))},
		{"an index that is a text", one(`{"index": "0", "id": "1", "function": {"name": "now", "arguments": "{}"}}`), []string{
			chunk(`{"tool_calls": [{"index": "0", "id": "1", "function": {"name": "now", "arguments": "{"}}]}`),
			chunk(`{"tool_calls": [{"index": "0", "function": {"arguments": "}"}}]}`), stop}, calls(call("1", "now", `{}`))},
		{"an index with a fraction", one(`{"index": 0.0, "id": "1", "function": {"name": "now", "arguments": "{}"}}`), []string{
			chunk(`{"tool_calls": [{"index": 0.0, "id": "1", "function": {"name": "now", "arguments": "{"}}]}`),
			chunk(`{"tool_calls": [{"index": 0.0, "function": {"arguments": "}"}}]}`), stop}, calls(call("1", "now", `{}`))},
		{"a name that is null later", one(`{"id": "1", "type": null, "function": {"name": "now", "arguments": "{}"}}`), []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "now", "arguments": "{"}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "id": null, "type": null, "function": {"name": null, "arguments": "}"}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "function": null}]}`), stop}, calls(call("1", "now", `{}`))},
		{"content that is an object", `{"choices": [{"message": {"content": {"kind": "bug"}}, "finish_reason": "stop"}]}`,
			[]string{chunk(`{"content": {"kind": "bug"}}`), stop}, runtime.Response{Text: `{"kind": "bug"}`, Finish: "stop"}},
		{"usage within the choice", `{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}`,
			[]string{chunk(`{"content": "x"}`), `{"choices": [{"delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 3, "completion_tokens": 2}}]}`},
			runtime.Response{Text: "x", Finish: "stop", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 2}}},
		{"ids that are numbers", one(`{"id": 7, "function": {"name": "now"}}`), []string{chunk(`{"tool_calls": [{"index": 0, "id": 7, "function": {"name": "now"}}]}`), stop}, calls(call("7", "now", `{}`))},
		{"arguments that are null", one(`{"id": "1", "function": {"name": "now", "arguments": null}}`), []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "now", "arguments": null}}]}`), stop}, calls(call("1", "now", `{}`))},
		{"arguments encoded twice", one(`{"id": "1", "function": {"name": "now", "arguments": "\"{\\\"id\\\": 7}\""}}`), []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "now", "arguments": "\"{\\\"id"}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "function": {"arguments": "\\\": 7}\""}}]}`), stop,
		}, calls(call("1", "now", `{"id": 7}`))},
		{"arguments that are a text", one(`{"id": "1", "function": {"name": "now", "arguments": "\"today\""}}`),
			[]string{chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "now", "arguments": "\"today\""}}]}`), stop}, calls(call("1", "now", `"today"`))},
		{"tool_calls that are null", `{"choices": [{"message": {"content": "x", "tool_calls": null}, "finish_reason": "stop"}]}`,
			[]string{chunk(`{"content": "x", "tool_calls": null}`), stop}, runtime.Response{Text: "x", Finish: "stop"}},
		{"an empty list of calls", `{"choices": [{"message": {"content": "x", "tool_calls": []}, "finish_reason": "stop"}]}`,
			[]string{chunk(`{"content": "x", "tool_calls": []}`), stop}, runtime.Response{Text: "x", Finish: "stop"}},
		{"a part without a text", `{"choices": [{"message": {"content": [{"type": "text", "text": null}, {"type": "text", "text": "x"}]}, "finish_reason": "stop"}]}`,
			[]string{chunk(`{"content": [{"type": "text", "text": null}]}`), chunk(`{"content": [{"type": "text", "text": "x"}]}`), stop}, runtime.Response{Text: "x", Finish: "stop"}},
		{"a face in two escapes", `{"choices": [{"message": {"content": "\ud83d\ude00"}, "finish_reason": "stop"}]}`,
			[]string{chunk(`{"content": "\ud83d\ude00"}`), stop}, runtime.Response{Text: "😀", Finish: "stop"}},
		{"a face in two pieces", `{"choices": [{"message": {"content": "a\ud83d\ude00b"}, "finish_reason": "stop"}]}`,
			[]string{chunk(`{"content": "a\ud83d"}`), chunk(`{"content": ""}`), chunk(`{"content": "\uDE00b"}`), stop}, runtime.Response{Text: "a😀b", Finish: "stop"}},
		{"faces in halves", `{"choices": [{"message": {"content": "\ud83d\ude00\ud83d\ude01"}, "finish_reason": "stop"}]}`,
			[]string{chunk(`{"content": "\ud83d"}`), chunk(`{"content": "\ude00\uD83D"}`), chunk(`{"content": "\ude01"}`), stop}, runtime.Response{Text: "😀😁", Finish: "stop"}},
		{"halves that do not meet", `{"choices": [{"message": {"content": "\ude00a\ud83db\\ud83d"}, "finish_reason": "stop"}]}`,
			[]string{chunk(`{"content": "\ude00a\ud83d"}`), chunk(`{"content": "b\\ud83d"}`), stop}, runtime.Response{Text: "\ufffda\ufffdb\\ud83d", Finish: "stop"}},
		{"a face in two pieces of arguments", one(`{"id": "1", "function": {"name": "now", "arguments": "{\"at\": \"\ud83d\ude00\"}"}}`), []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "now", "arguments": "{\"at\": \"\ud83d"}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "function": {"arguments": "\ude00\"}"}}]}`), stop,
		}, calls(call("1", "now", `{"at": "😀"}`))},
		{"choices that are null first", `{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}`,
			[]string{`{"choices": null}`, chunk(`{"content": "x"}`), stop}, runtime.Response{Text: "x", Finish: "stop"}},
		{"an empty piece behind the end", `{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}`,
			[]string{chunk(`{"content": "x"}`), stop, chunk(`{"content": ""}`), chunk(`{}`)}, runtime.Response{Text: "x", Finish: "stop"}},
	}...)
}

// An answer that broke off, or that the model could not finish, is none: asking again may help.
func TestAnswersThatBrokeOff(t *testing.T) {
	for _, reason := range []string{"error", "network_error", "insufficient_system_resource", "abort", "MALFORMED_FUNCTION_CALL",
		"function_call_filter: MALFORMED_FUNCTION_CALL"} {
		t.Run(reason, func(t *testing.T) {
			whole := `{"choices": [{"message": {"content": "It is"}, "finish_reason": "` + reason + `"}]}`
			pieces := events(chunk(`{"content": "It is"}`), `{"choices": [{"delta": {}, "finish_reason": "`+reason+`"}]}`)
			want := failure{Reason: retry.ServerError, Status: 200, Sent: true, Message: "the answer broke off: finish_reason " + reason}
			for name, body := range map[string]string{"whole": whole, "stream": pieces} {
				got := fails(t, t.Context(), connect(t, serve(t, answer(200, body)), openai.Options{}), &runtime.Request{Messages: user("hi")})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// An endpoint may stream although nobody asked for it, or end an answer in one piece as a stream ends.
func TestFormsThatNobodyAskedFor(t *testing.T) {
	const whole = `{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}`
	for name, body := range map[string]string{
		"a stream":             events(chunk(`{"content": "Hel"}`), `{"choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}]}`),
		"a stream, late":       "\n\n" + events(whole),
		"[DONE] behind":        whole + "data: [DONE]",
		"[DONE] on a new line": whole + "\n\ndata: [DONE]\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			m := connect(t, serve(t, answer(200, body)), openai.Options{})
			got, err := m.Generate(t.Context(), &runtime.Request{Messages: user("hi")})
			if err != nil || got.Text != "Hello" || got.Finish != "stop" {
				t.Errorf("whole: %+v, %v", got, err)
			}
			got, text, err := stream(t.Context(), m, &runtime.Request{Messages: user("hi")})
			if err != nil || got.Text != "Hello" || text != "Hello" {
				t.Errorf("stream: %+v in pieces %q, %v", got, text, err)
			}
		})
	}
}

// What is sent is in the form that all endpoints take.
func TestRequestsThatAllTake(t *testing.T) {
	long := "mcp.s." + strings.Repeat("weather_", 8)
	calls := []runtime.Message{
		{Role: runtime.User, Text: "Look."},
		{Role: runtime.Assistant, Text: "I look.", ToolCalls: []runtime.ToolCall{{ID: "1", Name: "crm.lookup", Arguments: json.RawMessage(`{"id":7}`)}}},
		{Role: runtime.ToolRole, ToolCallID: "1", Text: "Ada"},
		{Role: runtime.User, Text: "Sum up."},
	}
	remembered := []runtime.Message{
		{Role: runtime.System, Text: "Be brief."}, {Role: runtime.User, Text: "hi"}, {Role: runtime.Assistant, Text: "Hello."}, {Role: runtime.System, Text: "She likes tea."},
	}
	named := func(name, schema string) runtime.Request {
		return runtime.Request{Messages: user("hi"), Tools: []runtime.ToolSpec{{Name: name, Description: "Find.", Parameters: json.RawMessage(schema)}}}
	}
	tool := func(name, description, schema string) string {
		return `[{"type": "function", "function": {"name": "` + name + `", "description": "` + description + `", "parameters": ` + schema + `}}]`
	}
	const empty = `{"type": "object", "properties": {}}`
	// wrote is a conversation in which the model wrote a call's arguments so.
	wrote := func(arguments string) runtime.Request {
		return runtime.Request{Messages: []runtime.Message{calls[0],
			{Role: runtime.Assistant, ToolCalls: []runtime.ToolCall{{ID: "1", Name: "now", Arguments: json.RawMessage(arguments)}}}, calls[2]}}
	}
	const none = `[{"role": "user", "content": "Look."}, {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "now", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "Ada"}]`
	for _, tt := range []struct {
		name   string
		req    runtime.Request
		member string
		want   string
	}{
		{"arguments that are no JSON", wrote(`"{\"id\": "`), "messages", none},
		{"arguments in a list", wrote(`[7]`), "messages", none},
		{"arguments that are null", wrote(`null`), "messages", none},
		{"system messages are one", runtime.Request{Messages: []runtime.Message{{Role: runtime.System, Text: "Be brief."}, {Role: runtime.System, Text: "A skill."}, {Role: runtime.User, Text: "hi"}}},
			"messages", `[{"role": "system", "content": "Be brief.\n\nA skill."}, {"role": "user", "content": "hi"}]`},
		{"messages of the user are one", runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Text: "A summary."}, {Role: runtime.User, Text: "hi"}, {Role: runtime.Assistant, Text: "a"}, {Role: runtime.User, Text: "b"}}},
			"messages", `[{"role": "user", "content": "A summary.\n\nhi"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]`},
		{"an empty one goes", runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Text: ""}, {Role: runtime.User, Text: "hi"}}},
			"messages", `[{"role": "user", "content": "hi"}]`},
		{"layers become the user's, and join the task", runtime.Request{Messages: append(slices.Clone(remembered), runtime.Message{Role: runtime.User, Text: "And now?"})},
			"messages", `[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."},
				{"role": "user", "content": "[From the system, not from the user]\nShe likes tea.\n\nAnd now?"}]`},
		{"layers in the middle become the user's", runtime.Request{Messages: append(slices.Clone(remembered), runtime.Message{Role: runtime.Assistant, Text: "Tea?"})},
			"messages", `[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."},
				{"role": "user", "content": "[From the system, not from the user]\nShe likes tea."}, {"role": "assistant", "content": "Tea?"}]`},
		{"a blank answer goes, and what is around is one", runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Text: "hi"}, {Role: runtime.Assistant, Text: " \n"}, {Role: runtime.User, Text: "hello?"}}},
			"messages", `[{"role": "user", "content": "hi\n\nhello?"}]`},
		{"an empty layer goes", runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Text: "hi"}, {Role: runtime.System, Text: ""}}}, "messages", `[{"role": "user", "content": "hi"}]`},
		{"an empty result stays", runtime.Request{Messages: append(slices.Clone(calls[:2]), runtime.Message{Role: runtime.ToolRole, ToolCallID: "1"})}, "messages",
			`[{"role": "user", "content": "Look."}, {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "crm__lookup", "arguments": "{\"id\":7}"}}]}, {"role": "tool", "tool_call_id": "1", "content": ""}]`},
		{"tools that were called are declared", runtime.Request{Messages: calls}, "tools",
			`[{"type": "function", "function": {"name": "crm__lookup", "parameters": {"type": "object", "properties": {}}}}]`},
		{"and none may be called", runtime.Request{Messages: calls}, "tool_choice", `"none"`},
		{"messages behind results stay", runtime.Request{Messages: calls[2:]}, "messages", `[{"role": "tool", "tool_call_id": "1", "content": "Ada"}, {"role": "user", "content": "Sum up."}]`},
		{"a long name", named(long, empty), "tools", tool("mcp__s__weather_weather_weather_weather_weather_weather_1ba4928c", "Find.", empty)},
		{"other characters", named("mcp.s.get/weather now", empty), "tools", tool("mcp__s__get_weather_now_1d2ab6f8", "Find.", empty)},
		{"no properties", named("now", `{"type": "object"}`), "tools", tool("now", "Find.", empty)},
		{"no type", named("now", `{"properties": {"a": {}}}`), "tools", tool("now", "Find.", `{"type": "object", "properties": {"a": {}}}`)},
		{"any schema", named("now", `true`), "tools", tool("now", "Find.", empty)},
		{"anyOf on top", named("now", `{"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}`), "tools",
			tool("now", `Find. The arguments must also match anyOf: [{\"required\": [\"a\"]}, {\"required\": [\"b\"]}].`, `{"type": "object", "properties": {"a": {}, "b": {}}}`)},
		{"not on top", named("now", `{"type": "object", "not": {"required": ["a"]}}`), "tools",
			tool("now", `Find. The arguments must also match not: {\"required\": [\"a\"]}.`, empty)},
		{"a schema beside tools", runtime.Request{Messages: user("hi"), Tools: []runtime.ToolSpec{{Name: "now"}}, Schema: json.RawMessage(empty)}, "response_format", "null"},
		{"a schema beside tools is told", runtime.Request{Messages: user("hi"), Tools: []runtime.ToolSpec{{Name: "now"}}, Schema: json.RawMessage(empty)}, "messages",
			`[{"role": "system", "content": "Answer with nothing but JSON that matches this schema:\n{\"type\": \"object\", \"properties\": {}}"}, {"role": "user", "content": "hi"}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got map[string]any
			srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
					t.Error(err)
				}
				answer(200, `{"choices": [{"message": {"content": "ok"}}]}`)(w, r)
			})
			if _, err := connect(t, srv, openai.Options{}).Generate(t.Context(), &tt.req); err != nil {
				t.Fatal(err)
			}
			var want any
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got[tt.member]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.member, diff)
			}
		})
	}
}

// A tool whose name is changed for the endpoint is called by its own name, in a conversation too.
func TestNamesOnTheWireComeBack(t *testing.T) {
	for _, name := range []string{"mcp.s." + strings.Repeat("weather_", 8), "mcp.s." + strings.Repeat("weather_", 8) + "now", "mcp.s.get weather", "mcp.s.get/weather", "a.b"} {
		var names []string
		srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
			var in struct {
				Messages []struct {
					ToolCalls []struct{ Function struct{ Name string } } `json:"tool_calls"`
				}
				Tools      []struct{ Function struct{ Name string } }
				ToolChoice struct{ Function struct{ Name string } } `json:"tool_choice"`
			}
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
			names = []string{in.Tools[0].Function.Name, in.Messages[1].ToolCalls[0].Function.Name, in.ToolChoice.Function.Name}
			answer(200, `{"choices": [{"message": {"tool_calls": [{"id": "2", "function": {"name": "`+in.Tools[0].Function.Name+`"}}]}}]}`)(w, r)
		})
		got, err := connect(t, srv, openai.Options{}).Generate(t.Context(), &runtime.Request{
			Messages: append(user("hi"), runtime.Message{Role: runtime.Assistant, ToolCalls: []runtime.ToolCall{{ID: "1", Name: name}}}, runtime.Message{Role: runtime.ToolRole, ToolCallID: "1"}),
			Tools:    []runtime.ToolSpec{{Name: name}}, Options: runtime.ModelOptions{ToolChoice: name}})
		if err != nil || len(got.ToolCalls) != 1 || got.ToolCalls[0].Name != name {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if len(names[0]) > 64 || names[1] != names[0] || names[2] != names[0] {
			t.Errorf("%s travels as %q", name, names)
		}
	}
}
