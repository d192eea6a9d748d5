package runtimetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Tools that models are offered. A dot is not allowed in the names of many providers.
var (
	lookup = runtime.ToolSpec{Name: "crm.lookup", Description: "Find a customer.", Parameters: json.RawMessage(
		`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}`)}
	now = runtime.ToolSpec{Name: "now", Description: "Tell the time."}
)

var kinds = json.RawMessage(`{"type":"object","properties":{"kind":{"type":"string"}},"required":["kind"],` +
	`"additionalProperties":false}`)

func call(id, name, args string) runtime.ToolCall {
	return runtime.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(args)}
}

// answered is the response that a reply is to become.
func (r *Reply) answered() *runtime.Response {
	return &runtime.Response{Text: r.Text, ToolCalls: r.Calls, Usage: r.Usage, Finish: r.Finish, Model: r.Model}
}

// named is a reply as the provider gives it, with its own names of the tools.
func (r *Reply) named(asked *Asked, tools []runtime.ToolSpec) *Reply {
	named := *r
	named.Calls = slices.Clone(r.Calls)
	for i, c := range named.Calls {
		at := slices.IndexFunc(tools, func(spec runtime.ToolSpec) bool { return spec.Name == c.Name })
		if 0 <= at && at < len(asked.Tools) {
			named.Calls[i].Name = asked.Tools[at].Name
		}
	}
	return &named
}

// ask asks a model in all ways, and wants what the reply is to become.
func (s *suite) ask(t *testing.T, req *runtime.Request, reply *Reply) {
	t.Helper()
	m := s.serve(t, func(w http.ResponseWriter, _ *http.Request, asked *Asked) {
		for _, piece := range s.pieces(w, asked, reply.named(asked, req.Tools)) {
			io.WriteString(w, piece)
			flush(w)
		}
	})
	for _, way := range ways(t, m) {
		t.Run(way.name, func(t *testing.T) {
			got, err := way.ask(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			wantResponse(t, reply.answered(), got)
		})
	}
}

func (s *suite) testAnswers(t *testing.T) {
	tools := []runtime.ToolSpec{lookup, now}
	used := runtime.Usage{InputTokens: 20, OutputTokens: 9}
	stop := func(text string) Reply {
		return Reply{Text: text, Finish: runtime.FinishStop, Model: "m-2", Usage: used}
	}
	calls := func(text string, list ...runtime.ToolCall) Reply {
		return Reply{Text: text, Calls: list, Finish: runtime.FinishCalls, Model: "m-2", Usage: used}
	}
	ada, ben := call("c1", "crm.lookup", `{"id":7}`), call("c2", "crm.lookup", `{"id":1234567890123456789}`)
	for _, tt := range []struct {
		name  string
		req   runtime.Request
		reply Reply
	}{
		{"text", runtime.Request{}, stop("Hello, Ada!\n\nÉtienne says \"hi\" \\ 😀\t.")},
		{"white space", runtime.Request{}, stop("  a\n\n b ")},
		{"a long text", runtime.Request{}, stop(strings.Repeat("many words, ", 300))},
		{"nothing", runtime.Request{}, stop("")},
		{"a text like the protocol", runtime.Request{}, stop("data: [DONE]\n\nevent: error\ndata: {\"error\": 1}\n\n")},
		{"cut by length", runtime.Request{}, Reply{Text: "Hel", Finish: runtime.FinishLength, Usage: used}},
		{"filtered", runtime.Request{}, Reply{Text: "Hel", Finish: runtime.FinishFilter, Usage: used}},
		{"no call", runtime.Request{Tools: tools}, stop("No.")},
		{"a call", runtime.Request{Tools: tools}, calls("", ada)},
		{"a call without arguments", runtime.Request{Tools: tools}, calls("", call("c1", "now", `{}`))},
		{"arguments of all types", runtime.Request{Tools: tools}, calls("", call("c1", "now",
			`{"a":[1,-2.5e3,true,null],"b":{"c":"é \"😀\" \\"},"d":{}}`))},
		{"calls in parallel", runtime.Request{Tools: tools}, calls("I look.", ada, call("c3", "now", `{}`), ben)},
		{"the same call twice", runtime.Request{Tools: tools}, calls("", ada, call("c2", "crm.lookup", `{"id":7}`))},
		{"an unknown tool", runtime.Request{Tools: tools}, calls("", ada, call("c2", "made_up", `{"id":7}`))},
		{"a schema", runtime.Request{Schema: kinds}, stop(`{"kind":"bug \"7\""}`)},
		{"a schema and tools", runtime.Request{Schema: kinds, Tools: tools}, stop(`{"kind":"bug"}`)},
		{"a call before a schema's answer", runtime.Request{Schema: kinds, Tools: tools}, calls("", ada)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Messages = user("What is it?")
			s.ask(t, &tt.req, &tt.reply)
		})
	}
}

// Counts are those that the provider gives, in whatever form. One that is no number fails no answer.
func (s *suite) testCounts(t *testing.T) {
	all := runtime.Usage{InputTokens: 200, CachedTokens: 120, CacheWriteTokens: 30, OutputTokens: 90,
		ReasoningTokens: 50}
	if !s.has(CacheWrites) {
		all.CacheWriteTokens = 0
	}
	if !s.has(ReasoningTokens) {
		all.ReasoningTokens = 0
	}
	for _, tt := range []struct {
		name string
		form func(int) string
		want runtime.Usage
	}{
		{"integers", nil, all},
		{"fractions", func(n int) string { return fmt.Sprintf("%d.0", n) }, all},
		{"exponents", func(n int) string { return fmt.Sprintf("%de0", n) }, all},
		{"texts", func(n int) string { return fmt.Sprintf("%q", fmt.Sprint(n)) }, all},
		{"absent", func(int) string { return "" }, runtime.Usage{}},
		{"null", func(int) string { return "null" }, runtime.Usage{}},
		{"words", func(int) string { return `"many"` }, runtime.Usage{}},
		{"objects", func(int) string { return `{}` }, runtime.Usage{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.replying(t, &Reply{Text: "Hi", Finish: runtime.FinishStop, Usage: all, form: tt.form})
			for _, way := range ways(t, m) {
				got, err := way.ask(t.Context(), &runtime.Request{Messages: user("Hello")})
				if err != nil || got.Text != "Hi" || got.Usage != tt.want {
					t.Errorf("%s: got %+v, %v, want the counts %+v", way.name, got, err, tt.want)
				}
			}
		})
	}
	t.Run("more cached than asked", func(t *testing.T) { // see checkResponse
		more := runtime.Usage{InputTokens: 20, CachedTokens: 40, OutputTokens: 9}
		for _, way := range ways(t, s.replying(t, &Reply{Text: "Hi", Finish: runtime.FinishStop, Usage: more})) {
			got, err := way.ask(t.Context(), &runtime.Request{Messages: user("Hello")})
			if err != nil || got.Text != "Hi" || got.Usage.OutputTokens != 9 {
				t.Errorf("%s: got %+v, %v", way.name, got, err)
			}
		}
	})
}

// An answer is read in whatever packets and lines it comes.
func (s *suite) testForms(t *testing.T) {
	reply := &Reply{Text: "A" + mark + "B é😀", Finish: runtime.FinishStop,
		Usage: runtime.Usage{InputTokens: 3, OutputTokens: 2}}
	for _, tt := range []struct {
		name   string
		packet int // bytes
		change func(body string, stream bool) string
		text   string
	}{
		{"packets of a byte", 1, nil, reply.Text},
		{"packets of 7 bytes", 7, nil, reply.Text},
		{"invalid UTF-8", 0, func(body string, _ bool) string { return strings.ReplaceAll(body, mark, "\xff") },
			"A\ufffdB é😀"},
		{"half a character", 0, func(body string, _ bool) string { return strings.ReplaceAll(body, mark, `\ud83d`) },
			"A\ufffdB é😀"},
		{"other line ends", 0, func(body string, stream bool) string {
			if stream {
				body = strings.ReplaceAll(body, "\n", "\r\n")
			}
			return body
		}, reply.Text},
		{"comments between events", 0, func(body string, stream bool) string {
			if stream {
				body = ": ping\n\n" + strings.ReplaceAll(body, "\n\n", "\n\n: ping\n\n")
			}
			return body
		}, reply.Text},
		{"white space around", 0, func(body string, _ bool) string { return "\n\n" + body + "\n\n" }, reply.Text},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.serve(t, func(w http.ResponseWriter, _ *http.Request, asked *Asked) {
				body := strings.Join(s.pieces(w, asked, reply), "")
				if tt.change != nil {
					body = tt.change(body, asked.Stream)
				}
				for body != "" {
					n := len(body)
					if tt.packet > 0 {
						n = min(tt.packet, n)
					}
					io.WriteString(w, body[:n])
					flush(w)
					body = body[n:]
				}
			})
			for _, way := range ways(t, m) {
				got, err := way.ask(t.Context(), &runtime.Request{Messages: user("Hello")})
				if err != nil {
					t.Fatalf("%s: %v", way.name, err)
				}
				want := reply.answered()
				want.Text = tt.text
				wantResponse(t, want, got)
			}
		})
	}
}

// What the model thinks is no part of the answer, and if pieces of it are handed on, they are of a kind of their own.
func (s *suite) testThinking(t *testing.T) {
	reply := &Reply{Thinking: "Is it 7?\n\nIt is.", Text: "Seven.", Finish: runtime.FinishStop}
	streaming, ok := s.replying(t, reply).(runtime.StreamingModel)
	if !ok || !s.has(Thinking) {
		return
	}
	thought := ""
	resp, err := streaming.Stream(t.Context(), &runtime.Request{Messages: user("Hi")}, func(d runtime.Delta) {
		if d.Kind == runtime.DeltaThinking {
			thought += d.Text
		}
	})
	if err != nil || resp.Text != reply.Text || thought != "" && thought != reply.Thinking {
		t.Errorf("got %+v, %v, and the thought %q", resp, err, thought)
	}
}

// A refusal is either an error that no retry follows, with the model's reason, or an answer that says that it was held
// back.
func (s *suite) testRefusal(t *testing.T) {
	m := s.replying(t, &Reply{Refusal: "I will not say that.", Finish: runtime.FinishStop})
	for _, way := range ways(t, m) {
		resp, err := way.ask(t.Context(), &runtime.Request{Messages: user("Say it.")})
		switch {
		case err == nil && resp.Finish == runtime.FinishFilter:
		case err == nil:
			t.Errorf("%s: got %+v, want an error or %q", way.name, resp, runtime.FinishFilter)
		case failed(t, err).Reason != "" || !strings.Contains(err.Error(), "I will not say that."):
			t.Errorf("%s: got the error %v with the reason %q", way.name, err, retry.ReasonOf(err))
		}
	}
}

// A model is safe for concurrent use.
func (s *suite) testAtOnce(t *testing.T) {
	m := s.serve(t, func(w http.ResponseWriter, _ *http.Request, asked *Asked) {
		text := asked.Messages[0].Text
		for _, piece := range s.pieces(w, asked, &Reply{Text: text, Finish: runtime.FinishStop}) {
			io.WriteString(w, piece)
		}
	})
	var all sync.WaitGroup
	for i := range 8 {
		for _, way := range ways(t, m) {
			all.Go(func() {
				text := fmt.Sprintf("number %d", i)
				got, err := way.ask(t.Context(), &runtime.Request{Messages: user(text)})
				if err != nil || got.Text != text {
					t.Errorf("%s: got %+v, %v, want %q", way.name, got, err, text)
				}
			})
		}
	}
	all.Wait()
}
