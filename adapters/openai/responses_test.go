package openai_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// responses asks a model of the Responses API whose endpoint gives one answer, and returns what it handed on, by kind.
func responses(t *testing.T, handler http.HandlerFunc, opts openai.Options, req *runtime.Request) (*runtime.Response, map[string]string, error) {
	t.Helper()
	opts.API = openai.ResponsesAPI
	shown := map[string]string{}
	resp, err := connect(t, serve(t, handler), opts).Stream(t.Context(), req, func(d runtime.Delta) { shown[d.Kind] += d.Text })
	return resp, shown, err
}

func TestResponsesRequest(t *testing.T) {
	const of = `"model": "m", "store": false, "stream": true, "input": [{"type": "message", "role": "user", "content": "hi"}]`
	const effort = `"include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"}`
	nested := map[string]any{"reasoning": map[string]any{"effort": "low", "summary": "auto"}, "text": map[string]any{"verbosity": "low"}, "service_tier": "flex"}
	tool := []runtime.ToolSpec{{Name: "crm.lookup", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{}}}`)}}
	const closed = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	for _, tt := range []struct {
		name string
		opts openai.Options
		req  runtime.Request
		want string
	}{
		{"a prompt", openai.Options{}, runtime.Request{Messages: user("hi")}, `{` + of + `}`},
		{"defaults", openai.Options{Defaults: nested}, runtime.Request{Messages: user("hi")},
			`{` + of + `, ` + effort + `, "text": {"verbosity": "low"}, "service_tier": "flex"}`},
		{"an effort of the request", openai.Options{Defaults: nested}, runtime.Request{Messages: user("hi"), Options: runtime.ModelOptions{Reasoning: "high"}},
			`{` + of + `, ` + strings.Replace(effort, "low", "high", 1) + `, "text": {"verbosity": "low"}, "service_tier": "flex"}`},
		{"a schema", openai.Options{Defaults: map[string]any{"text": map[string]any{"verbosity": "low"}}},
			runtime.Request{Messages: user("hi"), Schema: json.RawMessage(closed)},
			`{` + of + `, "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "answer", "strict": true, "schema": ` + closed + `}}}`},
		{"a tool", openai.Options{Defaults: map[string]any{"parallel_tool_calls": false}}, runtime.Request{Messages: user("hi"), Tools: tool, Options: runtime.ModelOptions{ToolChoice: "crm.lookup"}},
			`{` + of + `, "parallel_tool_calls": false, "tool_choice": {"type": "function", "name": "crm__lookup"},
			"tools": [{"type": "function", "name": "crm__lookup", "parameters": {"type": "object", "properties": {"a": {}}}, "strict": false}]}`},
		{"instructions alone", openai.Options{}, runtime.Request{Messages: []runtime.Message{{Role: runtime.System, Text: "Say hi."}}},
			`{"model": "m", "store": false, "stream": true, "input": [{"type": "message", "role": "system", "content": "Say hi."}]}`},
		{"files", openai.Options{}, runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Text: "Read.", Files: []runtime.File{
			{URL: "https://a.example/b.png", MediaType: "image/png"}, {URL: "data:application/pdf;base64,JVBE", MediaType: "application/pdf"},
			{URL: "https://a.example/c.pdf", MediaType: "application/pdf"}, {URL: "data:text/plain;base64,aGk=", MediaType: "text/plain"}}}}},
			`{"model": "m", "store": false, "stream": true, "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Read."},
			{"type": "input_image", "image_url": "https://a.example/b.png", "detail": "auto"}, {"type": "input_file", "filename": "file2.pdf", "file_data": "data:application/pdf;base64,JVBE"},
			{"type": "input_file", "file_url": "https://a.example/c.pdf"}, {"type": "input_text", "text": "hi"}]}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got, want any
			if _, _, err := responses(t, func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
					t.Error(err)
				}
				answer(200, `{"status": "completed", "output": []}`)(w, r)
			}, tt.opts, &tt.req); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// Models that reason are asked for their reasoning; others would refuse that.
func TestResponsesInclude(t *testing.T) {
	for model, want := range map[string]bool{"o3": true, "o4-mini": true, "gpt-5": true, "gpt-5-mini-2025-08-07": true, "gpt-5.3-codex": true,
		"gpt-5.6": true, "gpt-5-pro": true, "gpt-5-2025-08-07": true, "gpt-5-chat-latest": false, "gpt-4.1": false, "my-deployment": false} {
		if _, _, err := responses(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if got := strings.Contains(string(body), `"include":["reasoning.encrypted_content"]`); err != nil || got != want {
				t.Errorf("%s: include is there: %t, want %t; %v", model, got, want, err)
			}
			answer(200, `{"status": "completed", "output": []}`)(w, r)
		}, openai.Options{Model: model}, &runtime.Request{Messages: user("hi")}); err != nil {
			t.Error(err)
		}
	}
}

// What servers make of answers is understood.
func TestResponsesAnswers(t *testing.T) {
	const message = `{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Hi 😀", "annotations": []}]}`
	done := func(item string) string {
		return `{"type": "response.output_item.done", "output_index": 0, "item": ` + item + `}`
	}
	delta := func(text string) string { return `{"type": "response.output_text.delta", "delta": "` + text + `"}` }
	const completed = `{"type": "response.completed", "response": {"status": "completed", "model": "m-1", "output": OUTPUT, "usage": {"input_tokens": 3, "output_tokens": 2}}}`
	whole := func(output string) string { return strings.Replace(completed, "OUTPUT", output, 1) }
	hi := &runtime.Response{Text: "Hi 😀", Finish: "stop", Model: "m-1", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 2}}
	part := func(data string) []runtime.Part {
		return []runtime.Part{{Of: "127.0.0.1/m responses", Name: "order", Data: json.RawMessage(data)}}
	}
	const thought = `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":ENC,"content":null,"status":null}`
	with := func(parts []runtime.Part) *runtime.Response {
		resp := *hi
		resp.Parts = parts
		return &resp
	}
	for _, tt := range []struct {
		name, body string
		want       *runtime.Response
		shown      map[string]string
	}{
		{"no pieces", events(done(message), whole("[]")), hi, map[string]string{"": "Hi 😀"}},
		{"the items at the end only", events(delta("Hi 😀"), whole("["+message+"]")), hi, map[string]string{"": "Hi 😀"}},
		{"a face in two pieces", events(delta(`Hi \ud83d`), delta(`\ude00`), done(message), whole("["+message+"]")), hi, map[string]string{"": "Hi 😀"}},
		{"a stream without a mark at its end", strings.Replace(events(delta("Hi 😀"), done(message), whole("["+message+"]")), "data: [DONE]\n\n", "", 1), hi, map[string]string{"": "Hi 😀"}},
		{"an answer in one piece", `{"status": "completed", "model": "m-1", "error": null, "output": [` + message + `], "usage": {"input_tokens": 3, "output_tokens": 2}}`, hi, map[string]string{"": "Hi 😀"}},
		{"reasoning that nobody could read", events(done(strings.Replace(thought, "ENC", "null", 1)), done(message), whole("[]")), hi, map[string]string{"": "Hi 😀"}},
		{"reasoning without words", events(done(strings.Replace(thought, "ENC", `"gAAA"`, 1)), done(message), whole("[]")),
			with(part(`[{"item":{"encrypted_content":"gAAA","id":"rs_1","summary":[],"type":"reasoning"}},{"bytes":7}]`)), map[string]string{"": "Hi 😀"}},
		{"a phase", events(done(strings.Replace(message, `"role"`, `"phase": "final_answer", "role"`, 1)), whole("[]")),
			with(part(`[{"bytes":7,"phase":"final_answer"}]`)), map[string]string{"": "Hi 😀"}},
		{"two summaries", events(`{"type": "response.reasoning_summary_part.added", "summary_index": 0}`, `{"type": "response.reasoning_summary_text.delta", "delta": "A."}`,
			`{"type": "response.reasoning_summary_part.added", "summary_index": 1}`, `{"type": "response.reasoning_summary_text.delta", "delta": "B."}`,
			done(message), whole("[]")), hi, map[string]string{"": "Hi 😀", "thinking": "A.\n\nB."}},
		{"an index that is a text", events(`{"type": "response.output_item.done", "output_index": "1", "item": `+strings.Replace(message, "Hi 😀", "😀", 1)+`}`,
			`{"type": "response.output_item.done", "output_index": "0", "item": `+strings.Replace(message, "Hi 😀", "Hi ", 1)+`}`, whole("[]")), hi, map[string]string{"": "Hi 😀"}},
		{"a call without an id", events(`{"type": "response.output_item.added", "item": {"type": "function_call", "name": "crm__lookup"}}`,
			done(`{"type": "function_call", "name": "crm__lookup", "arguments": ""}`), whole("[]")),
			&runtime.Response{ToolCalls: []runtime.ToolCall{{ID: "call_2_1", Name: "crm.lookup", Arguments: json.RawMessage(`{}`)}}, Finish: "tool_calls", Model: "m-1", Usage: hi.Usage},
			map[string]string{"toolCall": "crm.lookup"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, shown, err := responses(t, answer(200, tt.body), openai.Options{}, &runtime.Request{StepCall: 2, Messages: user("hi"), Tools: []runtime.ToolSpec{{Name: "crm.lookup"}}})
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("answer (-want +got):\n%s%v", diff, err)
			}
			if diff := cmp.Diff(tt.shown, shown); diff != "" {
				t.Errorf("pieces (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResponsesFailures(t *testing.T) {
	const hel = `{"type": "response.output_text.delta", "delta": "Hel"}`
	call := `{"type": "response.output_item.done", "item": {"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"}}`
	for _, tt := range []struct {
		name, body string
		reason     retry.Reason
		says       string
	}{
		{"cut", "data: " + hel + "\n\n", retry.Network, "the stream was cut"},
		{"no end", events(hel), retry.Unknown, "the answer has no output"},
		{"an error that is an event", events(hel, `{"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": null}`), retry.RateLimit, "the answer is an error: slow down"},
		{"an error within an event", events(hel, `{"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow down"}}`), retry.RateLimit, "the answer is an error: slow down"},
		{"a failed response", events(hel, `{"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error", "message": "no luck"}}}`), retry.ServerError, "the answer is an error: no luck"},
		{"a failed response that says nothing", events(hel, `{"type": "response.failed", "response": {"status": "failed", "error": null}}`), retry.ServerError, "the answer broke off: status failed"},
		{"an end without a response", events(hel, `{"type": "response.completed"}`), retry.Unknown, "the end of the answer has no response"},
		{"one that is not over", `{"status": "in_progress", "output": []}`, retry.ServerError, "the answer broke off: status in_progress"},
		{"a prompt that is not allowed", `{"status": "failed", "error": {"code": "invalid_prompt", "message": "no"}}`, "", "the answer is an error: no"},
		{"a refusal", `{"status": "completed", "output": [{"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}]}`, "", "the model refused: I will not."},
		{"output that is none", `{"status": "completed", "output": "hi"}`, "", "output is of the wrong type, string"},
		{"many calls", events(strings.Repeat(call+"\n\ndata: ", 30) + hel), "", "the answer is larger than 2048 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, _, err := responses(t, answer(200, tt.body), openai.Options{MaxBytes: 2048}, &runtime.Request{Messages: user("hi")})
			fail, ok := errors.AsType[*retry.Failure](err)
			if !ok || resp != nil || fail.Reason != tt.reason || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %+v, %v with the reason %q, want %q with %q", resp, err, retry.ReasonOf(err), tt.says, tt.reason)
			}
		})
	}
}

// An answer goes back as it came: reasoning before what it led to, and texts with their phases. What another model, or
// the other API, has left is not sent; a text that was changed is sent whole.
func TestResponsesGoBack(t *testing.T) {
	const order = `[{"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"e"}},{"bytes":2,"phase":"commentary"},{"call":true},{"bytes":6},{"call":true}]`
	calls := []runtime.ToolCall{{ID: "c1", Name: "a", Arguments: json.RawMessage(`{}`)}}
	message := func(text, phase string) string {
		return strings.Replace(`{"type": "message", "role": "assistant", "content": "`+text+`", "phase": "`+phase+`"}`, `, "phase": ""`, "", 1)
	}
	const thought, use = `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"e"}`, `{"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"}`
	for _, tt := range []struct {
		name, of, data, text string
		want                 []string
	}{
		{"as it came", "127.0.0.1/m responses", order, "Hi there", []string{thought, message("Hi", "commentary"), use, message(" there", "")}},
		{"changed", "127.0.0.1/m responses", order, "Hi", []string{thought, message("Hi", "commentary"), use}},
		{"of another model", "127.0.0.1/n responses", order, "Hi there", []string{message("Hi there", ""), use}},
		{"of the other API", "127.0.0.1/m", order, "Hi there", []string{message("Hi there", ""), use}},
		{"no order", "127.0.0.1/m responses", `{"bytes": -1}`, "Hi there", []string{message("Hi there", ""), use}},
		{"lengths that cannot be", "127.0.0.1/m responses", `[{"bytes": -9}, {"bytes": 8}]`, "Hi there", []string{message("Hi there", ""), use}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got struct{ Input []any }
			_, _, err := responses(t, func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
					t.Error(err)
				}
				answer(200, `{"status": "completed", "output": []}`)(w, r)
			}, openai.Options{}, &runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Text: "hi"},
				{Role: runtime.Assistant, Text: tt.text, ToolCalls: calls, Parts: []runtime.Part{{Of: tt.of, Name: "order", Data: json.RawMessage(tt.data)}}},
				{Role: runtime.ToolRole, ToolCallID: "c1", Text: "ok"}}})
			if err != nil {
				t.Fatal(err)
			}
			var want []any
			if err := json.Unmarshal([]byte("["+strings.Join(tt.want, ",")+"]"), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Input[1:len(got.Input)-1]); diff != "" {
				t.Errorf("the turn of the model (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResponsesOptions(t *testing.T) {
	for _, tt := range []struct {
		api      string
		defaults map[string]any
		want     string
	}{
		{"chat", nil, `openai: there is no API "chat", only "responses"`},
		{"responses", map[string]any{"store": true}, `openai: "store" is not a default: each request has its own`},
		{"responses", map[string]any{"previous_response_id": "x"}, `openai: "previous_response_id" is not a default: each request has its own`},
		{"responses", map[string]any{"reasoning": "low"}, `openai: the default "reasoning" must be an object`},
		{"responses", map[string]any{"text": map[string]any{"format": "x"}}, `openai: "text.format" is not a default: each request has its own`},
	} {
		if _, err := openai.New(openai.Options{Model: "m", API: tt.api, Defaults: tt.defaults}); err == nil || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
	if _, err := connect(t, serve(t, answer(200, `{}`)), openai.Options{API: openai.ResponsesAPI}).Generate(t.Context(), &runtime.Request{Messages: user(" ")}); err == nil ||
		!strings.Contains(err.Error(), "nothing is asked") {
		t.Errorf("got %v", err)
	}
}

// A changed thought is refused by the provider, and not asked again.
func TestResponsesChangedThought(t *testing.T) {
	asked := 0
	m := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if _, err = (responsesWire{}).Read(r, body); err != nil {
			answer(400, string(encode(map[string]any{"error": map[string]string{"message": err.Error(), "type": "invalid_request_error"}})))(w, r)
			return
		}
		t.Error("the request was taken")
	}), openai.Options{API: openai.ResponsesAPI, APIKey: key})
	item := `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"No."}],"encrypted_content":"` + sealed("Yes.") + `"}`
	_, err := m.Generate(t.Context(), &runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Text: "hi"}, {Role: runtime.Assistant, Text: "Hi.",
		Parts: []runtime.Part{{Of: "127.0.0.1/m responses", Name: "order", Data: json.RawMessage(`[{"item":` + item + `},{"bytes":3}]`)}}}, {Role: runtime.User, Text: "Bye"}}})
	if fail, ok := errors.AsType[*retry.Failure](err); !ok || fail.Reason != "" || fail.Status != 400 || asked != 1 ||
		!strings.Contains(err.Error(), "The encrypted content for item rs_1 could not be verified.") {
		t.Errorf("got %v after %d requests", err, asked)
	}
}

// Whatever comes is an answer or an error, and the same in whatever packets it comes.
func FuzzResponses(f *testing.F) {
	f.Add(events(`{"type": "response.output_item.done", "item": {"type": "message", "content": [{"text": "Hi"}]}}`, `{"type": "response.completed", "response": {"status": "completed"}}`))
	f.Add(`{"status": "incomplete", "output": [{"type": "function_call", "name": "a__b", "arguments": {}}]}`)
	f.Add(events(`{"type": "error", "message": "no"}`))
	f.Fuzz(func(t *testing.T, body string) {
		ask := func(read func(io.Reader) io.Reader) (*runtime.Response, string, error) {
			m, err := openai.New(openai.Options{Model: "m", API: openai.ResponsesAPI, APIKey: key, MaxBytes: 4096, HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(read(strings.NewReader(body))), Request: r}, nil
			})}})
			if err != nil {
				t.Fatal(err)
			}
			return stream(t.Context(), m, &runtime.Request{Messages: user("hi"), Tools: []runtime.ToolSpec{{Name: "a.b"}}})
		}
		resp, text, err := ask(func(r io.Reader) io.Reader { return r })
		if (resp == nil) == (err == nil) {
			t.Fatalf("got %v, %v, want a response or an error", resp, err)
		}
		again, againText, againErr := ask(iotest.OneByteReader)
		if diff := cmp.Diff(resp, again); diff != "" || text != againText || (err == nil) != (againErr == nil) {
			t.Errorf("byte by byte: %q, %v, want %q, %v\n%s", againText, againErr, text, err, diff)
		}
		if err != nil {
			if strings.Contains(err.Error(), key) {
				t.Errorf("the key is shown: %v", err)
			}
			return
		}
		for _, call := range resp.ToolCalls {
			if !json.Valid(call.Arguments) || call.ID == "" || call.Name == "a__b" {
				t.Errorf("got %+v", call)
			}
		}
	})
}
