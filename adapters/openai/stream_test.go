package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

var (
	_ runtime.StreamingModel = (*openai.Model)(nil)
	_ runtime.Described      = (*openai.Model)(nil)
)

// stream asks for a stream, and returns the text of its pieces, too.
func stream(ctx context.Context, m *openai.Model, req *runtime.Request) (resp *runtime.Response, text string, err error) {
	resp, err = m.Stream(ctx, req, func(d runtime.Delta) {
		if d.Kind == runtime.DeltaText {
			text += d.Text
		}
	})
	return resp, text, err
}

// events are server-sent events, and the last of all.
func events(data ...string) string {
	return "data: " + strings.Join(append(data, "[DONE]"), "\n\ndata: ") + "\n\n"
}

// chunk is a piece of an answer.
func chunk(delta string) string { return `{"choices": [{"index": 0, "delta": ` + delta + `}]}` }

// An answer is the same in one piece and in many.
func TestStreamEqualsWhole(t *testing.T) {
	call := func(id, name, args string) runtime.ToolCall {
		return runtime.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(args)}
	}
	const stop = `{"choices": [{"delta": {}, "finish_reason": "stop"}]}`
	two := `{"choices": [{"message": {"tool_calls": [
		{"id": "1", "function": {"name": "crm__lookup", "arguments": "{\"id\": 7}"}},
		{"id": "2", "function": {"name": "now", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]}`
	twoCalls := runtime.Response{Finish: "tool_calls", ToolCalls: []runtime.ToolCall{call("1", "crm.lookup", `{"id": 7}`), call("2", "now", `{}`)}}
	part := func(name, data string) runtime.Part {
		return runtime.Part{Of: "127.0.0.1/m", Name: name, Data: json.RawMessage(data)}
	}
	signed := call("2", "now", `{}`)
	signed.Parts = []runtime.Part{part("extra_content", `{"signature":"x"}`)}
	signedCalls := runtime.Response{Finish: "tool_calls", ToolCalls: []runtime.ToolCall{twoCalls.ToolCalls[0], signed}}
	hello := `{"model": "m-1", "choices": [{"message": {"content": "Hello, you"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}`
	helloResponse := runtime.Response{Text: "Hello, you", Finish: "stop", Model: "m-1", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 2}}
	tests := []oddRow{
		{"text", hello, []string{
			`{"model": "m-1", "choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": null}], "usage": null}`,
			chunk(`{"content": "Hel"}`), chunk(`{"content": "lo,"}`), chunk(`{"content": null}`), chunk(`{"content": " you"}`), stop,
			`{"model": "m-2", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}`,
		}, helloResponse},
		{"usage in every piece, and a filter first", hello, []string{
			`{"model": "", "choices": [], "prompt_filter_results": [{}]}`,
			`{"model": "m-1", "choices": [{"delta": {"content": "Hello, "}}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}`,
			`{"choices": [{"delta": {"content": "you"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}`,
		}, helloResponse},
		{"the message so far beside the piece", hello, []string{
			`{"model": "m-1", "choices": [{"delta": {"content": "Hello,"}, "message": {"content": "Hello,"}}]}`,
			`{"choices": [{"delta": {"content": " you"}, "message": {"content": "Hello, you"}}]}`,
			`{"choices": [{"message": {"content": "Hello, you"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}`,
		}, helloResponse},
		{"all in one event", hello, []string{hello}, helloResponse},
		{"no usage", `{"choices": [{"message": {"content": "é\n"}, "finish_reason": "length"}]}`, []string{
			chunk(`{"content": "é"}`), `{"choices": [{"delta": {"content": "\n"}, "finish_reason": "length"}]}`,
		}, runtime.Response{Text: "é\n", Finish: "length"}},
		{"no reason to stop", `{"choices": [{"message": {"content": "x"}}]}`, []string{chunk(`{"content": "x"}`)}, runtime.Response{Text: "x"}},
		{"no text", `{"choices": [{}]}`, []string{`{"choices": [{}]}`}, runtime.Response{}},
		{"parts", `{"choices": [{"message": {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "ab"}]}, "finish_reason": "stop"}]}`, []string{
			chunk(`{"content": [{"type": "thinking", "thinking": []}]}`), chunk(`{"content": [{"type": "text", "text": "a"}]}`), chunk(`{"content": "b"}`), stop,
		}, runtime.Response{Text: "ab", Finish: "stop", Parts: []runtime.Part{part("content", `[{"thinking":[],"type":"thinking"},{"text":"ab","type":"text"}]`)}}},
		{"thinking after a text", `{"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": []}]}, "finish_reason": "stop"}]}`, []string{
			chunk(`{"content": "a"}`), chunk(`{"content": [{"type": "thinking", "thinking": []}]}`), stop,
		}, runtime.Response{Text: "a", Finish: "stop", Parts: []runtime.Part{part("content", `[{"text":"a","type":"text"},{"thinking":[],"type":"thinking"}]`)}}},
		{"a part without a text", `{"choices": [{"message": {"content": [{"type": "mark", "id": "1"}]}, "finish_reason": "stop"}]}`, []string{
			chunk(`{"content": [{"type": "mark", "id": "1"}]}`), stop,
		}, runtime.Response{Finish: "stop", Parts: []runtime.Part{part("content", `[{"id":"1","type":"mark"}]`)}}},
		{"a signature behind a text like JSON", `{"choices": [{"message": {"content": "{\"role\": \"\\", "sign" : "}"}, "finish_reason": "stop"}]}`, []string{
			chunk(`{"content": "{\"role\": "}`), chunk(`{"content": "\"\\", "sign" : "}"}`), stop,
		}, runtime.Response{Text: `{"role": "\`, Finish: "stop", Parts: []runtime.Part{part("sign", `"}"`)}}},
		{"reasoning", `{"choices": [{"message": {"content": "x", "refusal": null, "annotations": [], "reasoning_content": "I think.",
			"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "I think.", "signature": "s"}, {"type": "reasoning.encrypted", "index": 1, "data": "e"}]}, "finish_reason": "stop"}]}`, []string{
			chunk(`{"content": "", "reasoning_content": "I ", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "I "}]}`),
			chunk(`{"content": null, "reasoning_content": "think.", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "think.", "signature": null}]}`),
			chunk(`{"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s"}, {"type": "reasoning.encrypted", "index": 1, "data": "e"}]}`),
			chunk(`{"content": "x"}`), stop,
		}, runtime.Response{Text: "x", Finish: "stop", Parts: []runtime.Part{part("reasoning_content", `"I think."`),
			part("reasoning_details", `[{"index":0,"signature":"s","text":"I think.","type":"reasoning.text"},{"data":"e","index":1,"type":"reasoning.encrypted"}]`)}}},

		{"tool calls in pieces", two, []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "type": "function", "function": {"name": "crm__lookup", "arguments": ""}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "function": {"arguments": "{\"id\""}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "function": {"arguments": ": 7}"}}]}`),
			chunk(`{"tool_calls": [{"index": 1, "id": "2", "type": "function", "function": {"name": "now", "arguments": ""}}]}`),
			chunk(`{"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}`),
			`{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}`,
		}, twoCalls},
		{"tool calls by turns, the second first", two, []string{
			chunk(`{"tool_calls": [{"index": 4, "id": "1", "function": {"name": "crm__lookup"}}, {"index": 2, "id": "2", "function": {"name": "now"}}]}`),
			chunk(`{"tool_calls": [{"index": 2, "function": {"arguments": "{"}}, {"index": 4, "function": {"arguments": "{\"id\": 7"}}]}`),
			chunk(`{"tool_calls": [{"index": 4, "function": {"arguments": "}"}}, {"index": 2, "function": {"arguments": "}"}}]}`), stop,
		}, twoCalls},
		{"ids and names in pieces", strings.ReplaceAll(two, `"id": "1"`, `"id": "call_1"`), []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "call"}]}`), chunk(`{"tool_calls": [{"index": 0, "id": "_1", "function": {"name": "crm"}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "function": {"name": "__lookup", "arguments": "{\"id\": 7}"}}]}`),
			chunk(`{"tool_calls": [{"index": 1, "id": "2", "function": {"name": "n"}}]}`),
			chunk(`{"tool_calls": [{"index": 1, "function": {"name": "ow", "arguments": "{}"}}]}`), stop,
		}, runtime.Response{Finish: "tool_calls", ToolCalls: []runtime.ToolCall{call("call_1", "crm.lookup", `{"id": 7}`), call("2", "now", `{}`)}}},
		{"ids and names repeated", two, []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "crm__lookup", "arguments": ""}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "crm__lookup", "arguments": "{\"id\""}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "crm__lookup", "arguments": ": 7}"}}]}`),
			chunk(`{"tool_calls": [{"id": "2", "function": {"name": "now", "arguments": "{"}}]}`),
			chunk(`{"tool_calls": [{"id": "2", "function": {"name": "now", "arguments": "}"}}]}`), stop,
		}, twoCalls},
		{"another id with every piece", two, []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "crm__lookup"}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "id": "x", "function": {"arguments": "{\"id\": "}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "id": "y", "function": {"arguments": "7}"}}, {"index": 1, "id": "2", "function": {"name": "now", "arguments": {}}}]}`), stop,
		}, twoCalls},
		{"whole calls without an index", two, []string{
			chunk(`{"tool_calls": [{"id": "1", "function": {"name": "crm__lookup", "arguments": "{\"id\": 7}"}}, {"id": "2", "function": {"name": "now", "arguments": "{}"}}]}`), stop,
		}, twoCalls},
		{"whole calls with one index", strings.Replace(two, `"id": "2"`, `"id": "2", "extra_content": {"signature": "x"}`, 1), []string{
			chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "crm__lookup", "arguments": "{\"id\": 7}"}}]}`),
			chunk(`{"tool_calls": [{"index": 0, "id": "2", "function": {"name": "now", "arguments": "{}"}}]}`),
			chunk(`{"tool_calls": [{"extra_content": {"signature": "x"}}]}`), stop,
		}, signedCalls},
		{"pieces without an index", two, []string{
			chunk(`{"tool_calls": [{"extra_content": {"signature": "x"}}]}`),
			chunk(`{"tool_calls": [{"id": "1", "function": {"name": "crm__lookup"}}]}`), chunk(`{"tool_calls": [{"function": {"arguments": "{\"id\": "}}]}`),
			chunk(`{"tool_calls": [{"function": {"arguments": "7}"}}]}`), chunk(`{"tool_calls": [{"id": "2", "function": {"name": "now"}}]}`), stop,
		}, twoCalls},
		{"no ids", `{"choices": [{"message": {"content": "I look.", "tool_calls": [{"function": {"name": "now"}}, {"function": {"name": "now"}},
			{"function": {"name": "crm__lookup", "arguments": {"id": 7}}}, {"function": {"name": "made__up", "arguments": "{\"half<"}}]}}]}`, []string{
			chunk(`{"content": "I look."}`),
			chunk(`{"tool_calls": [{"function": {"name": "now"}}, {"function": {"name": "now"}}, {"function": {"name": "crm__lookup", "arguments": {"id": 7}}}]}`),
			chunk(`{"tool_calls": [{"function": {"name": "made__up", "arguments": "{\"half"}}]}`), chunk(`{"tool_calls": [{"function": {"arguments": "<"}}]}`), stop,
		}, runtime.Response{Text: "I look.", Finish: "tool_calls", ToolCalls: []runtime.ToolCall{
			call("call_2_1", "now", `{}`), call("call_2_2", "now", `{}`), call("call_2_3", "crm.lookup", `{"id": 7}`), call("call_2_4", "made__up", `"{\"half\u003c"`),
		}}},
	}
	for _, tt := range append(tests, oddRows()...) {
		t.Run(tt.name, func(t *testing.T) {
			m := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				var in struct{ Stream bool }
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
					t.Error(err)
				}
				if in.Stream {
					answer(200, events(tt.pieces...), "Content-Type", "text/event-stream")(w, r)
				} else {
					answer(200, tt.whole)(w, r)
				}
			}), openai.Options{})
			req := &runtime.Request{StepCall: 2, Messages: user("hi"), Tools: []runtime.ToolSpec{{Name: "crm.lookup"}, {Name: "now"}}}
			got, err := m.Generate(t.Context(), req)
			if diff := cmp.Diff(&tt.want, got); diff != "" || err != nil {
				t.Errorf("whole (-want +got):\n%s%v", diff, err)
			}
			got, text, err := stream(t.Context(), m, req)
			if diff := cmp.Diff(&tt.want, got); diff != "" || err != nil {
				t.Errorf("stream (-want +got):\n%s%v", diff, err)
			}
			if text != tt.want.Text {
				t.Errorf("pieces: got %q, want %q", text, tt.want.Text)
			}
		})
	}
}

// What servers make of server-sent events is understood, in whatever packets it comes.
func TestStreamForms(t *testing.T) {
	const hel, lo = `{"choices": [{"delta": {"content": "Hel"}}]}`, `{"choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}]}`
	const use = `{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}`
	all := events(hel, lo, use)
	tests := []struct{ name, body string }{
		{"as it should be", all},
		{"carriage return and line feed", strings.ReplaceAll(all, "\n", "\r\n")},
		{"carriage return", strings.ReplaceAll(all, "\n", "\r")},
		{"byte order mark", "\ufeff" + all},
		{"blank lines first", "\n\r\n \n" + all},
		{"no blanks", strings.ReplaceAll(all, "data: ", "data:")},
		{"comments", ": OPENROUTER PROCESSING\n\n:\n" + strings.ReplaceAll(all, "\n\n", "\n: ping\n\n: ping\n\n")},
		{"comments in events", "data: : OPENROUTER PROCESSING\n\n" + strings.ReplaceAll(all, "\n\n", "\n\ndata::\n\n")},
		{"other fields", "retry: 10\n\n" + strings.ReplaceAll(all, "data: ", "id: 1\nevent: chunk\ndata\nx-field: {}\ndata: ")},
		{"events without data", "event: ping\n\nevent: ping\ndata:\n\nevent: error\n\n" + all},
		{"several data fields", strings.ReplaceAll(all, "[{", "[\ndata: {")},
		{"no last line end", strings.TrimSpace(all)},
		{"no [DONE]", strings.TrimSuffix(all, "data: [DONE]\n\n")},
		{"no [DONE], no empty line", strings.TrimSuffix(all, "\n\ndata: [DONE]\n\n")},
		{"half of [DONE]", strings.TrimSuffix(all, "NE]\n\n")},
		{"after [DONE]", all + "data: {\n\nno"},
		{"no empty lines", strings.ReplaceAll(all, "\n\n", "\n")},
		{"whole", `{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}`},
		{"whole, after a mark and blank lines", "\ufeff\n\n" + `{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{len(tt.body), 1, 7} {
				m := connect(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
					for rest := tt.body; rest != ""; {
						n := min(size, len(rest))
						io.WriteString(w, rest[:n])
						http.NewResponseController(w).Flush()
						rest = rest[n:]
					}
				}), openai.Options{})
				got, text, err := stream(t.Context(), m, &runtime.Request{})
				want := &runtime.Response{Text: "Hello", Finish: "stop", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 2}}
				if diff := cmp.Diff(want, got); diff != "" || err != nil || text != "Hello" {
					t.Errorf("in packets of %d bytes: got %q, %v (-want +got):\n%s", size, text, err, diff)
				}
			}
		})
	}
}

func TestStreamFailures(t *testing.T) {
	const hel = `{"choices": [{"delta": {"content": "Hel"}}]}`
	ok := func(reason retry.Reason, message string) failure {
		return failure{Reason: reason, Status: 200, Sent: true, Message: message}
	}
	lost := func(message string) failure {
		return failure{Reason: retry.Network, Sent: true, Message: "the connection was lost: reading the answer: " + message}
	}
	const wasCut = "the stream was cut: unexpected EOF"
	const chunked = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := []struct {
		name    string
		handler http.HandlerFunc
		text    string // that has come
		want    failure
	}{
		{"cut between events", answer(200, "data: "+hel+"\n\n"), "Hel", lost(wasCut)},
		{"cut, with a reason that is null in words", answer(200, `data: {"choices": [{"delta": {"content": "Hel"}, "finish_reason": "null"}]}`+"\n\n"), "Hel", lost(wasCut)},
		{"cut within an event", answer(200, "data: "+hel+"\n\ndata: {\"choices\": [{"), "Hel", lost(wasCut)},
		{"cut within a field", answer(200, "data: "+hel+"\n\nda"), "Hel", lost(wasCut)},
		{"connection lost", cut(chunked + "34\r\ndata: " + hel + "\n\n\r\n10\r\ndata"), "Hel", lost("unexpected EOF")},
		{"only comments", answer(200, ": ping\n\n: ping\n\n"), "", lost(wasCut)},
		{"text", answer(200, "upstream\nis gone"), "", ok(retry.Unknown, "the answer is neither JSON nor a stream of events: upstream")},
		{"only [DONE]", answer(200, "data: [DONE]\n\n"), "", ok(retry.Unknown, "the answer has no choices")},
		{"broken JSON", answer(200, events(hel, `{"choices": [}`)), "Hel",
			ok(retry.Unknown, `the answer is not JSON (invalid character '}' looking for beginning of value): {"choices": [}`)},
		{"a page in an event", answer(200, events(hel, `<html>`)), "Hel", ok("", "the answer is a page, not JSON: <html>\n  hint: check the base URL")},
		{"an error half-way", answer(200, events(hel, `{"error": {"message": "slow down", "type": "rate_limit_error"}}`)), "Hel",
			ok(retry.RateLimit, "the answer is an error: slow down")},
		{"an error of a provider", answer(200, events(hel, `{"error": {"code": 502, "message": "gone"}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}`)), "Hel",
			failure{retry.ServerError, 502, 0, true, "the answer is an error: gone"}},
		{"an error of a choice", answer(200, events(hel, `{"choices": [{"delta": {"content": "x"}, "error": {"code": 503, "message": "gone"}}]}`)), "Hel",
			failure{retry.ServerError, 503, 0, true, "the answer is an error: gone"}},
		{"an event called error", answer(200, "data: "+hel+"\n\nevent: error\ndata: {\"message\": \"key "+strings.ReplaceAll(key, `"`, `\"`)+"\", \"code\": 500}\n\n"), "Hel",
			failure{retry.ServerError, 500, 0, true, "the answer is an error: key ***"}},
		{"an event called error, with words", answer(200, "event: error\ndata: no luck"), "", ok("", "the answer is an error: no luck")},
		{"a field called error", answer(200, "error: {\"code\": 500, \"message\": \"no luck\"}\n\n"), "", failure{retry.ServerError, 500, 0, true, "the answer is an error: no luck"}},
		{"an error without a field", answer(200, "data: "+hel+"\n\n{\"error\": {\"message\": \"no luck\"}}\n"), "Hel", ok("", "the answer is an error: no luck")},
		{"a refusal", answer(200, events(chunk(`{"refusal": "I will"}`), chunk(`{"refusal": " not."}`))), "", ok("", "the model refused: I will not.")},
		{"fewer than no tokens", answer(200, events(hel, `{"choices": [], "usage": {"prompt_tokens": -1}}`)), "Hel", ok("", "the answer counts fewer than 0 tokens")},
		{"a list that is none", answer(200, events(chunk(`{"tool_calls": "now"}`))), "",
			ok("", "the answer does not keep to the protocol: choices.delta.tool_calls is of the wrong type, string")},
		{"a long line", answer(200, "data: "+hel+"\n\n: "+strings.Repeat("x", 3000)), "Hel", ok("", "the answer is larger than 2048 bytes")},
		{"a long event", answer(200, strings.Repeat("data: x\n", 2000)), "", ok("", "the answer is larger than 2048 bytes")},
		{"a long text", answer(200, strings.Repeat("data: "+hel+"\n\n", 1000)), strings.Repeat("Hel", 2048/3), ok("", "the answer is larger than 2048 bytes")},
		{"many tool calls", answer(200, strings.Repeat("data: "+chunk(`{"tool_calls": [{"id": "1", "function": {"name": "a", "arguments": "{}"}}]}`)+"\n\n"+
			"data: "+chunk(`{"tool_calls": [{"id": "2", "function": {"name": "a", "arguments": "{}"}}]}`)+"\n\n", 9)), "", ok("", "the answer is larger than 2048 bytes")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := connect(t, serve(t, tt.handler), openai.Options{APIKey: key, MaxBytes: 2048})
			resp, text, err := stream(t.Context(), m, &runtime.Request{})
			if diff := cmp.Diff(tt.want, failureOf(t, resp, err)); diff != "" || text != tt.text {
				t.Errorf("after %q, want %q; failure (-want +got):\n%s", text, tt.text, diff)
			}
		})
	}
}

// What comes after a finish_reason is missed by nobody.
func TestStreamEndsAfterFinish(t *testing.T) {
	const sent = `data: {"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}` + "\n\n"
	check := func(t *testing.T, m *openai.Model) {
		got, text, err := stream(t.Context(), m, &runtime.Request{})
		if diff := cmp.Diff(&runtime.Response{Text: "Hello", Finish: "stop"}, got); diff != "" || err != nil || text != "Hello" {
			t.Errorf("got %q, %v (-want +got):\n%s", text, err, diff)
		}
	}
	t.Run("half a count of tokens", func(t *testing.T) {
		check(t, connect(t, serve(t, answer(200, sent+`data: {"choices": [], "usage": {"prompt_`)), openai.Options{}))
	})
	t.Run("lost connection", func(t *testing.T) {
		check(t, connect(t, serve(t, cut("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"+sent)), openai.Options{}))
	})
	t.Run("silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { // without a network: its clock would be the real one
			m, err := openai.New(openai.Options{Model: "m", HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				body := io.MultiReader(strings.NewReader(sent), silence{r.Context()})
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(body), Request: r}, nil
			})}})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			check(t, m)
			if got := time.Since(began); got != openai.DefaultTimeout {
				t.Errorf("it took %s, want %s", got, openai.DefaultTimeout)
			}
		})
	})
}

// silence is a body that never yields a byte.
type silence struct{ ctx context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// A stream may stall before the answer or within, and be cancelled by the one who reads it.
func TestStreamStalls(t *testing.T) {
	for _, sent := range []string{"", "data: ", ": ping\n\n", "data: " + chunk(`{"content": "Hel"}`) + "\n\n"} {
		asked := make(chan struct{}, 3)
		srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, sent)
			http.NewResponseController(w).Flush()
			asked <- struct{}{}
			<-r.Context().Done() // the connection was closed; else the server would not close
		})

		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		_, _, err := stream(ctx, connect(t, srv, openai.Options{}), &runtime.Request{})
		if !errors.Is(err, context.Canceled) || retry.ReasonOf(err) != "" {
			t.Errorf("cancelled after %q: got %v", sent, err)
		}

		resp, _, err := stream(t.Context(), connect(t, srv, openai.Options{Timeout: 50 * time.Millisecond}), &runtime.Request{})
		got := failureOf(t, resp, err)
		if got.Reason != retry.Timeout || !strings.HasSuffix(got.Message, "timed out after 50ms") {
			t.Errorf("own timeout after %q: got %+v", sent, got)
		}

		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _, err = stream(ctx, connect(t, srv, openai.Options{}), &runtime.Request{})
		if !errors.Is(err, context.DeadlineExceeded) || retry.ReasonOf(err) != retry.Timeout {
			t.Errorf("deadline after %q: got %v", sent, err)
		}
		cancel()
	}
}

// Pieces come while the answer is not finished, and who gets one may cancel the rest.
func TestStreamIsCancelledByItsReader(t *testing.T) {
	gone := make(chan struct{})
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: "+chunk(`{"content": "Hel"}`)+"\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var pieces []string
	_, err := connect(t, srv, openai.Options{}).Stream(ctx, &runtime.Request{}, func(d runtime.Delta) {
		pieces = append(pieces, d.Text)
		cancel()
	})
	if !errors.Is(err, context.Canceled) || retry.ReasonOf(err) != "" {
		t.Errorf("got %v, want a cancellation", err)
	}
	if diff := cmp.Diff([]string{"Hel"}, pieces); diff != "" {
		t.Errorf("pieces (-want +got):\n%s", diff)
	}
	<-gone
}

// An endpoint that refuses the options of a stream, or streams, is asked without; once is enough to
// know.
func TestStreamRefused(t *testing.T) {
	const usage, plain, whole = "stream and usage", "stream", "whole"
	mistral := `{"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options", "include_usage"]}]}}`
	tests := []struct {
		name    string
		status  int
		refusal string
		takes   string // the best that the endpoint takes
		asked   []string
	}{
		{"nothing", 0, "", usage, []string{usage, usage}},
		{"options", 422, mistral, plain, []string{usage, plain, plain}},
		{"streams", 400, `{"error": {"message": "Your organization must be verified to stream this model.", "param": "stream"}}`, whole, []string{usage, whole, whole}},
		{"one after the other", 400, "unknown field stream_options, or stream", whole, []string{usage, plain, whole, whole}},
		{"for another reason", 400, "upstream says no", "", []string{usage, usage}},
		{"for a reason that no change helps", 400, "a stream of tears", "", []string{usage, whole, usage, whole}},
		{"with another status", 401, "stream_options", "", []string{usage, usage}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			m := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				var in struct {
					Stream  bool
					Options *struct {
						Usage bool `json:"include_usage"`
					} `json:"stream_options"`
				}
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
					t.Error(err)
				}
				how := whole
				if in.Stream {
					how = plain
				}
				if in.Options != nil && in.Options.Usage {
					how = usage
				}
				asked = append(asked, how)
				switch {
				case how != tt.takes:
					answer(tt.status, tt.refusal)(w, r)
				case how == whole:
					answer(200, `{"choices": [{"message": {"content": "Hello"}}]}`)(w, r)
				default:
					answer(200, events(chunk(`{"content": "Hello"}`)))(w, r)
				}
			}), openai.Options{})
			for range 2 {
				resp, text, err := stream(t.Context(), m, &runtime.Request{})
				if tt.takes == "" {
					if failureOf(t, resp, err).Status != tt.status {
						t.Errorf("got %v, want status %d", err, tt.status)
					}
				} else if err != nil || resp.Text != "Hello" || text != "Hello" {
					t.Errorf("got %+v, %v, %q", resp, err, text)
				}
			}
			if diff := cmp.Diff(tt.asked, asked); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMetadata(t *testing.T) {
	for _, tt := range [][3]string{
		{"", "", "openai"},
		{"https://eu.api.openai.com/v1", "", "openai"},
		{"https://contoso.openai.azure.com/openai/v1", "", "azure.ai.openai"},
		{"https://contoso.services.ai.azure.com/models", "", "azure.ai.inference"},
		{"https://API.anthropic.com/v1", "", "anthropic"},
		{"https://generativelanguage.googleapis.com/v1beta/openai", "", "gcp.gemini"},
		{"https://us-central1-aiplatform.googleapis.com/v1", "", "gcp.vertex_ai"},
		{"https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1", "", "aws.bedrock"},
		{"https://api.mistral.ai/v1", "", "mistral_ai"},
		{"https://api.groq.com/openai/v1", "", "groq"},
		{"https://api.deepseek.com", "", "deepseek"},
		{"https://api.x.ai/v1", "", "x_ai"},
		{"https://api.perplexity.ai", "", "perplexity"},
		{"https://api.cohere.ai/compatibility/v1", "", "cohere"},
		{"https://api.max.ai/v1", "", "api.max.ai"},
		{"https://openrouter.ai/api/v1", "", "openrouter.ai"},
		{"http://localhost:11434/v1", "", "localhost"},
		{"http://[::1]:8000/v1", "", "::1"},
		{"http://localhost:8000/v1", "openai", "openai"},
	} {
		m, err := openai.New(openai.Options{BaseURL: tt[0], Provider: tt[1], Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := m.Metadata().Provider, tt[2]; got != want {
			t.Errorf("%s: got %s, want %s", tt[0], got, want)
		}
		if got := m.Metadata().Model; got != "m" {
			t.Errorf("%s: got the model %q, want m", tt[0], got)
		}
		// trust 3.3, 8.10
		want := &retry.Metadata{Restartable: true, RateLimited: 2 * time.Second, Policy: retry.Policy{MaxAttempts: 3, Backoff: 500 * time.Millisecond,
			MaxBackoff: 8 * time.Second, Jitter: retry.FullJitter,
			RetryOn: []retry.Reason{retry.RateLimit, retry.ServerError, retry.Network}}}
		if diff := cmp.Diff(want, m.Metadata().Retry); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt[0], diff)
		}
	}
}

func FuzzStream(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add(events(chunk(`{"content": "Hel"}`), chunk(`{"content": "lo"}`), `{"choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}`))
	f.Add("\ufeff: ping\r\n\r\nevent: error\rdata: {\"error\": {\"code\": 500}}\r\n")
	f.Add(events(chunk(`{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "a__b", "arguments": "{\"x\""}}]}`),
		chunk(`{"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}, {"function": {"name": "a__b", "arguments": {}}}]}`)))
	f.Add("data: {\ndata: }\ndata: {}\nerror: x\n{\"choices\": [{}]}\n\n")
	f.Add(`{"choices": [{"message": {"content": "Hello"}}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		ask := func(read func(io.Reader) io.Reader) (*runtime.Response, string, error) {
			m, err := openai.New(openai.Options{Model: "m", APIKey: key, MaxBytes: 4096, HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(read(strings.NewReader(body))), Request: r}, nil
			})}})
			if err != nil {
				t.Fatal(err)
			}
			return stream(t.Context(), m, &runtime.Request{Tools: []runtime.ToolSpec{{Name: "a.b"}}})
		}
		resp, text, err := ask(func(r io.Reader) io.Reader { return r })
		if (resp == nil) == (err == nil) {
			t.Fatalf("got %v, %v, want a response or an error", resp, err)
		}
		byBytes, byBytesText, byBytesErr := ask(iotest.OneByteReader)
		if diff := cmp.Diff(resp, byBytes); diff != "" || text != byBytesText || fmt.Sprint(err) != fmt.Sprint(byBytesErr) {
			t.Errorf("byte by byte: %q, %v, want %q, %v\n%s", byBytesText, byBytesErr, text, err, diff)
		}
		if err != nil {
			if fail, ok := errors.AsType[*retry.Failure](err); !ok || len(err.Error()) > 2000 || strings.Contains(err.Error(), key) {
				t.Errorf("got %#v", fail)
			}
			return
		}
		if text != resp.Text || len(text) > 4096 || resp.Usage.InputTokens < 0 || resp.Usage.OutputTokens < 0 {
			t.Errorf("got %+v after %q", resp, text)
		}
		for _, call := range resp.ToolCalls {
			if !json.Valid(call.Arguments) || call.ID == "" || call.Name == "a__b" {
				t.Errorf("got %+v", call)
			}
		}
	})
}

func ExampleModel_Stream() {
	// Any endpoint will do; here one that stands in for it.
	srv := httptest.NewServer(answer(200, events(
		`{"choices": [{"delta": {"content": "Hello,"}}]}`,
		`{"choices": [{"delta": {"content": " Ada!"}, "finish_reason": "stop"}]}`,
		`{"choices": [], "usage": {"prompt_tokens": 8, "completion_tokens": 4}}`)))
	defer srv.Close()

	model, err := openai.New(openai.Options{BaseURL: srv.URL + "/v1", Model: "gpt-5-mini"})
	if err != nil {
		panic(err)
	}
	resp, err := model.Stream(context.Background(), &runtime.Request{
		Messages: []runtime.Message{{Role: runtime.User, Text: "Greet Ada."}},
	}, func(d runtime.Delta) { fmt.Printf("%q\n", d.Text) })
	fmt.Println(resp.Text, resp.Usage.OutputTokens, err)
	// Output:
	// "Hello,"
	// " Ada!"
	// Hello, Ada! 4 <nil>
}

// Which files a model takes is told before it is asked.
func TestTakes(t *testing.T) {
	for name, tt := range map[string]struct {
		opts                openai.Options
		image, pdf, anyText bool
	}{
		"chat completions": {openai.Options{}, true, true, true},
		"responses":        {openai.Options{API: openai.ResponsesAPI}, true, true, true},
		"no images":        {openai.Options{NoImages: true}, false, false, true},
		"DeepSeek":         {openai.Options{BaseURL: "https://api.deepseek.com/v1"}, false, false, true},
	} {
		tt.opts.Model = "m"
		m, err := openai.New(tt.opts)
		if err != nil {
			t.Fatal(err)
		}
		takes := m.Metadata().Options
		for media, want := range map[string]bool{"image/png": tt.image, "image/*": tt.image, "application/pdf": tt.pdf,
			"text/csv": tt.anyText, "audio/wav": false, "": true} {
			if got := runtime.TakesType(takes, media); got != want {
				t.Errorf("%s: takes %q: %v, want %v", name, media, got, want)
			}
		}
	}
}
