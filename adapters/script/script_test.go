package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

func parse(t testing.TB, text string) *script.Model {
	t.Helper()
	m, err := script.Parse("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// request is the first call of step draft, and of the run, with one message.
func request(text string) *runtime.Request {
	return &runtime.Request{
		Run: "r", Step: "draft", Call: 1, StepCall: 1, Model: "fast",
		Messages: []runtime.Message{{Role: runtime.User, Text: text}},
	}
}

func TestGenerateSelects(t *testing.T) {
	const text = `
turns: [{text: t1}, {text: t2}, {text: t3}]
steps:
  draft: [{text: d1}, {text: d2}]
  verify[2]/check: [{text: v1}]
matches:
  - {contains: refund, step: other, text: m-other}
  - {contains: [refund, damaged], text: m-both}
  - {contains: refund, text: m-refund}
  - {step: pinned, text: m-pinned}
`
	tests := []struct {
		name           string
		step           string
		call, stepCall int
		messages       []string
		want           string // "" means no turn left
	}{
		{"first turn", "a", 1, 1, nil, "t1"},
		{"turns count the model's calls", "a", 3, 1, nil, "t3"},
		{"steps go before turns", "draft", 3, 1, nil, "d1"},
		{"steps count the step's calls", "draft", 9, 2, nil, "d2"},
		{"a step that is listed does not fall back", "draft", 1, 3, nil, ""},
		{"a path of a body", "verify[2]/check", 9, 1, nil, "v1"},
		{"turns used up", "a", 4, 1, nil, ""},
		{"a request without a position", "a", 0, 0, nil, ""},
		{"matches go before steps", "draft", 1, 1, []string{"a refund please"}, "m-refund"},
		{"matches are used again", "draft", 9, 9, []string{"a refund please"}, "m-refund"},
		{"the first match wins", "draft", 1, 1, []string{"damaged: refund"}, "m-both"},
		{"strings may stand in different messages", "draft", 1, 1, []string{"damaged", "refund"}, "m-both"},
		{"a match of one step", "other", 1, 1, []string{"refund"}, "m-other"},
		{"a match by step alone", "pinned", 1, 1, nil, "m-pinned"},
		{"case counts", "a", 2, 1, []string{"Refund"}, "t2"},
	}
	m := parse(t, text)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := &runtime.Request{Step: tt.step, Call: tt.call, StepCall: tt.stepCall, Model: "fast"}
			for _, text := range tt.messages {
				req.Messages = append(req.Messages, runtime.Message{Role: runtime.User, Text: text})
			}
			resp, err := m.Generate(t.Context(), req)
			if tt.want == "" {
				if err == nil || !strings.Contains(err.Error(), "no turn left") {
					t.Errorf("got %v, %v, want no turn left", resp, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if resp.Text != tt.want {
				t.Errorf("got %q, want %q", resp.Text, tt.want)
			}
		})
	}
}

func TestGenerateAnswers(t *testing.T) {
	ten := request("0123456789") // 10 bytes: 3 tokens
	tests := []struct {
		name, turn string
		want       *runtime.Response
	}{
		{"text", `{text: Hello}`, &runtime.Response{
			Text: "Hello", Finish: "stop", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 2}}},
		{"empty text", `{text: ""}`, &runtime.Response{
			Finish: "stop", Usage: runtime.Usage{InputTokens: 3}}},
		{"json is canonical", `{json: {b: 1, a: [2.5, "<", null]}}`, &runtime.Response{
			Text: `{"a":[2.5,"<",null],"b":1}`, Finish: "stop", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 7}}},
		{"json null", `{json: null}`, &runtime.Response{
			Text: "null", Finish: "stop", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 1}}},
		{"json string", `{json: hi}`, &runtime.Response{
			Text: `"hi"`, Finish: "stop", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 1}}},
		{"tool calls", `{text: wait, tool_calls: [{name: kb.search, args: {q: x, n: 1}}, {name: a.b, id: mine}]}`, &runtime.Response{
			Text: "wait", Finish: "tool_calls",
			ToolCalls: []runtime.ToolCall{
				{ID: "call_1_1", Name: "kb.search", Arguments: json.RawMessage(`{"n":1,"q":"x"}`)},
				{ID: "mine", Name: "a.b", Arguments: json.RawMessage(`{}`)},
			},
			Usage: runtime.Usage{InputTokens: 3, OutputTokens: 9}}}, // 4 + 9+15 + 3+2 = 33 bytes
		{"usage given", `{text: Hello, usage: {input_tokens: 100, output_tokens: 0}}`, &runtime.Response{
			Text: "Hello", Finish: "stop", Usage: runtime.Usage{InputTokens: 100}}},
		{"usage given in part", `{text: Hello, usage: {output_tokens: 7}}`, &runtime.Response{
			Text: "Hello", Finish: "stop", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 7}}},
		{"finish given", `{text: Hel, finish: length}`, &runtime.Response{
			Text: "Hel", Finish: "length", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := parse(t, "turns: ["+tt.turn+"]")
			for range 2 { // the same answer again: the model has no position
				got, err := m.Generate(t.Context(), ten)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("response (-want +got):\n%s", diff)
				}
				for _, c := range got.ToolCalls {
					c.Arguments[0] = 'X' // the caller's copy
				}
			}
		})
	}
}

func TestStream(t *testing.T) {
	const text = " Höflich  danken,\nbitte. "
	m := parse(t, "turns: [{text: "+strconv.Quote(text)+", usage: {input_tokens: 1}}, {tool_calls: [{name: a.b}]}, {error: {status: 429}}, {expect: {contains: x}, text: y}]")
	tests := []struct {
		call   int
		pieces []string
	}{
		{1, []string{" ", "Höflich ", " ", "danken,\nbitte. "}},
		{2, nil}, {3, nil}, {4, nil}, {5, nil},
	}
	for _, tt := range tests {
		req := request("hello")
		req.Call = tt.call
		want, wantErr := m.Generate(t.Context(), req)
		var pieces []string
		got, err := m.Stream(t.Context(), req, func(d runtime.Delta) { pieces = append(pieces, d.Text) })
		if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("call %d: got %v, want %v (-want +got):\n%s", tt.call, err, wantErr, diff)
		}
		if diff := cmp.Diff(tt.pieces, pieces); diff != "" {
			t.Errorf("call %d: pieces (-want +got):\n%s", tt.call, diff)
		}
	}
}

func TestGenerateFails(t *testing.T) {
	tests := []struct {
		turn string
		want retry.Failure
		text string
	}{
		{`{status: 429, message: slow down, retry_after: 1s}`,
			retry.Failure{Reason: retry.RateLimit, Status: 429, After: time.Second}, "status 429 Too Many Requests: slow down"},
		{`{status: 503}`, retry.Failure{Reason: retry.ServerError, Status: 503}, "status 503 Service Unavailable"},
		{`{status: 504}`, retry.Failure{Reason: retry.Timeout, Status: 504}, "status 504 Gateway Timeout"},
		{`{status: 400, message: no}`, retry.Failure{Status: 400}, "status 400 Bad Request: no"},
		{`{status: 599}`, retry.Failure{Reason: retry.ServerError, Status: 599}, "status 599"},
		{`{status: 400, reason: network}`, retry.Failure{Reason: retry.Network, Status: 400}, "status 400 Bad Request"},
		{`{message: broken}`, retry.Failure{Reason: retry.Unknown}, "broken"},
		{`{reason: timeout}`, retry.Failure{Reason: retry.Timeout}, "scripted failure: timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.turn, func(t *testing.T) {
			_, err := parse(t, "turns: [{error: "+tt.turn+"}]").Generate(t.Context(), request("x"))
			got, ok := errors.AsType[*retry.Failure](err)
			if !ok {
				t.Fatalf("got %v, want a *retry.Failure", err)
			}
			if err.Error() != tt.text {
				t.Errorf("got message %q, want %q", err, tt.text)
			}
			if got.Reason != tt.want.Reason || got.Status != tt.want.Status || got.After != tt.want.After {
				t.Errorf("got %+v, want %+v", *got, tt.want)
			}
		})
	}
}

func TestGenerateRefuses(t *testing.T) {
	tests := []struct{ name, script, message, want string }{
		{"no turn left", "turns: [{text: a}]\nsteps: {draft: []}", "last words",
			`s.yaml: no turn left for call 1 of step "draft", call 1 of model "fast": steps.draft has 0; the last message is user "last words"`},
		{"a typing error", "steps: {drafft: [{text: a}]}", "last words",
			`s.yaml: no turn left for call 1 of step "draft", call 1 of model "fast": steps has no "draft", did you mean "drafft"?, turns has 0; the last message is user "last words"`},
		{"missing text", "turns:\n  - expect: {contains: [refund, order]}\n    text: a", "an order",
			`s.yaml:2:5: the request of step "draft" does not contain "refund"; the last message is user "an order"`},
		{"forbidden text", "turns:\n  - expect: {contains: [refund], not_contains: secret}\n    text: a", "a\nsecret",
			`s.yaml:2:5: the request of step "draft" does not contain "refund", contains "secret"; the last message is user "a\nsecret"`},
		{"other options", "turns:\n  - expect: {options: {top_p: 0.5, max_tokens: 9, reasoning: low}}\n    text: a", "x",
			`s.yaml:2:5: the request of step "draft" has max_tokens null, not 9, has reasoning null, not "low", ` +
				`has top_p null, not 0.5; the last message is user "x"`},
		{"an error is not given when the request is wrong", "turns:\n  - expect: {contains: refund}\n    error: {status: 500}", "x",
			`s.yaml:2:5: the request of step "draft" does not contain "refund"; the last message is user "x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(t, tt.script).Generate(t.Context(), request(tt.message))
			if err == nil {
				t.Fatal("got no error")
			}
			if err.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
			if reason := retry.ReasonOf(err); reason != "" {
				t.Errorf("got reason %q, want none: a wrong script is never retried", reason)
			}
		})
	}
}

func TestRefusalCutsTheLastMessage(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"at a rune's boundary", strings.Repeat("a", 199) + "é" + "tail", strings.Repeat("a", 199) + `" (the first 199 of 205 bytes)`},
		{"just short enough", strings.Repeat("b", 200), strings.Repeat("b", 200) + `"`},
		{"not text at all", strings.Repeat("\x80", 300), `"" (the first 0 of 300 bytes)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(t, "turns: []").Generate(t.Context(), request(tt.text))
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) || !utf8.ValidString(err.Error()) {
				t.Errorf("got %v, want it to end in %s", err, tt.want)
			}
		})
	}
	_, err := parse(t, "turns: []").Generate(t.Context(), &runtime.Request{Call: 1, StepCall: 1})
	if err == nil || !strings.HasSuffix(err.Error(), "it has no messages") {
		t.Errorf("got %v, want it to end in %q", err, "it has no messages")
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, "turns: [{delay: 50ms, text: late}]")
		start := time.Now()
		if _, err := m.Generate(t.Context(), request("x")); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 50*time.Millisecond {
			t.Errorf("answered after %v, want 50ms", got)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		start = time.Now()
		_, err := m.Generate(ctx, request("x"))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 20*time.Millisecond {
			t.Errorf("got %v after %v, want the deadline after 20ms", err, time.Since(start))
		}
	})
}

func TestGenerateWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := parse(t, "turns: [{text: a}]").Generate(ctx, request("x"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// A run at any max_parallel gets the same answers by step path.
func TestGenerateConcurrently(t *testing.T) {
	const steps, calls = 8, 50
	var text strings.Builder
	text.WriteString("steps:\n")
	for s := range steps {
		fmt.Fprintf(&text, "  s%d:\n", s)
		for c := range calls {
			fmt.Fprintf(&text, "    - {text: s%d call %d}\n", s, c+1)
		}
	}
	m := parse(t, text.String())
	results := make(chan string)
	for s := range steps {
		go func() {
			for c := range calls {
				step, want := fmt.Sprintf("s%d", s), fmt.Sprintf("s%d call %d", s, c+1)
				resp, err := m.Generate(t.Context(), &runtime.Request{Step: step, Call: 1, StepCall: c + 1})
				if err != nil || resp.Text != want {
					results <- fmt.Sprintf("got %v, %v, want %q", resp, err, want)
					continue
				}
				results <- ""
			}
		}()
	}
	for range steps * calls {
		if problem := <-results; problem != "" {
			t.Error(problem)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	type found struct {
		At      string
		Code    diagnostics.Code
		Message string
	}
	tests := []struct {
		name, text string
		want       []found
	}{
		{"empty file", "", []found{{"s.yaml:1:1", diagnostics.CodeSyntax, "the document is empty"}}},
		{"empty mapping", "{}", []found{{"s.yaml:1:1", diagnostics.CodeMissingKey, "a script has turns, steps or matches"}}},
		{"not a mapping", "- text: a", []found{{"s.yaml:1:1", diagnostics.CodeWrongType, "this must be a mapping, not a list"}}},
		{"unknown keys", "turn: []\nturns:\n- {txt: a, text: b}", []found{
			{"s.yaml:1:1", diagnostics.CodeUnknownKey, `unknown key "turn"`},
			{"s.yaml:3:4", diagnostics.CodeUnknownKey, `unknown key "txt"`},
		}},
		{"no answer", "turns:\n  - expect: {contains: a}", []found{
			{"s.yaml:2:5", diagnostics.CodeMissingKey, "a turn needs one of text, json, tool_calls, error"}}},
		{"two answers", "turns:\n  - {text: a, json: 1}\n  - {json: 1, tool_calls: [{name: a.b}]}\n  - {text: a, tool_calls: [{name: a.b}], error: {status: 500}}", []found{
			{"s.yaml:2:5", diagnostics.CodeInvalidValue, "a turn has one answer, not text, json"},
			{"s.yaml:3:5", diagnostics.CodeInvalidValue, "a turn has one answer, not json, tool_calls"},
			{"s.yaml:4:5", diagnostics.CodeInvalidValue, "a turn has one answer, not text, tool_calls, error"},
		}},
		{"wrong types", "turns: {}\nsteps: []\nmatches: x", []found{
			{"s.yaml:1:8", diagnostics.CodeWrongType, `"turns" must be a list, not a mapping`},
			{"s.yaml:2:8", diagnostics.CodeWrongType, `"steps" must be a mapping, not a list`},
			{"s.yaml:3:10", diagnostics.CodeWrongType, `"matches" must be a list, not a string`},
		}},
		{"turn of a wrong type", "turns: [text]\nsteps:\n  a: {text: x}\nmatches: [y]", []found{
			{"s.yaml:1:9", diagnostics.CodeWrongType, "this must be a mapping, not a string"},
			{"s.yaml:3:6", diagnostics.CodeWrongType, `"a" must be a list, not a mapping`},
			{"s.yaml:4:11", diagnostics.CodeWrongType, "this must be a mapping, not a string"},
		}},
		{"values", "turns:\n- text: 42\n  delay: 5\n  finish: stopp\n  usage: {input_tokens: -1}\n  expect: {contains: 1, not_contains: ['']}", []found{
			{"s.yaml:2:9", diagnostics.CodeWrongType, `"text" must be a string, not an integer`},
			{"s.yaml:3:10", diagnostics.CodeWrongType, `"delay" must be a duration, not an integer`},
			{"s.yaml:4:11", diagnostics.CodeInvalidValue, `"finish" may not be "stopp"`},
			{"s.yaml:5:25", diagnostics.CodeInvalidValue, `"input_tokens" must be between 0 and 2147483647`},
			{"s.yaml:6:22", diagnostics.CodeWrongType, `"contains" must be a string or a list of strings, not an integer`},
			{"s.yaml:6:40", diagnostics.CodeInvalidValue, "this may not be empty"},
		}},
		{"error", "turns:\n- error: {}\n- error: {status: 200}\n- error: {reason: later}\n- {error: {status: 500}, usage: {}}", []found{
			{"s.yaml:2:10", diagnostics.CodeMissingKey, `an error needs "status", "message" or "reason"`},
			{"s.yaml:3:19", diagnostics.CodeInvalidValue, `"status" must be between 400 and 599`},
			{"s.yaml:4:19", diagnostics.CodeInvalidValue, `"reason" may not be "later"`},
			{"s.yaml:5:33", diagnostics.CodeInvalidValue, `"usage" means nothing beside "error"`},
		}},
		{"tool calls", "turns:\n- tool_calls: []\n- tool_calls: [{args: [], arguments: {}}]", []found{
			{"s.yaml:2:15", diagnostics.CodeInvalidValue, `"tool_calls" may not be empty`},
			{"s.yaml:3:16", diagnostics.CodeMissingKey, `the key "name" is missing`},
			{"s.yaml:3:23", diagnostics.CodeWrongType, `"args" must be a mapping, not a list`},
			{"s.yaml:3:27", diagnostics.CodeUnknownKey, `unknown key "arguments"`},
		}},
		{"match", "matches:\n- text: a\n- {contains: [], text: a}\n- {contains: a}", []found{
			{"s.yaml:2:3", diagnostics.CodeMissingKey, `a match needs "contains", "step" or both`},
			{"s.yaml:3:14", diagnostics.CodeInvalidValue, `"contains" may not be empty`},
			{"s.yaml:4:3", diagnostics.CodeMissingKey, "a turn needs one of text, json, tool_calls, error"},
		}},
		{"a step twice", "steps:\n  a: []\n  a: []", []found{
			{"s.yaml:2:3", diagnostics.CodeDuplicateKey, `key "a" appears twice, again on line 3`},
			{"s.yaml:3:3", diagnostics.CodeDuplicateKey, `key "a" appears twice, first on line 2`},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := script.Parse("s.yaml", []byte(tt.text))
			if m != nil {
				t.Errorf("got a model, want nil")
			}
			list, ok := errors.AsType[*diagnostics.Error](err)
			if !ok {
				t.Fatalf("got %v, want a *diagnostics.Error", err)
			}
			var got []found
			for _, d := range list.List {
				got = append(got, found{d.Position.String(), d.Code, d.Message})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParse(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add("turns:\n  - text: Hello\n  - tool_calls: [{name: kb.search, args: {q: refund}}]\n")
	f.Add("turns:\n  - expect: {contains: refund}\n    json: {a: [1, 2.5, null]}\n")
	f.Add("turns:\n  - error: {status: 429, message: slow down, retry_after: 1s}\n  - delay: 50ms\n    text: late\n")
	f.Add("steps:\n  draft: [{text: first}]\nmatches:\n  - contains: [refund, x]\n    text: We refund.\n")
	f.Add("turns: [{text: a, usage: {input_tokens: 1}, finish: stop}]")
	f.Add("turns: [{}, [], {text: !x y}, {json: .inf}, *a]")
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no delays
	f.Fuzz(func(t *testing.T, text string) {
		m, err := script.Parse("fuzz.yaml", []byte(text))
		if err != nil {
			list, ok := errors.AsType[*diagnostics.Error](err)
			if !ok || m != nil || len(list.List) == 0 || list.List[0].Position.Line == 0 {
				t.Fatalf("got %v, %v, want only an error with a position", m, err)
			}
			return
		}
		for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx)} {
			if strings.Contains(text, "delay") && ctx.Err() == nil {
				continue
			}
			resp, err := m.Generate(ctx, &runtime.Request{Step: "draft", Call: 1, StepCall: 1})
			if (resp == nil) == (err == nil) {
				t.Fatalf("got %v, %v, want a response or an error", resp, err)
			}
		}
	})
}

func ExampleParse() {
	model, err := script.Parse("canned.yaml", []byte(`
turns:
  - text: Hello
  - expect: {contains: refund}
    json: {severity: high, category: billing}
matches:
  - contains: weather
    text: I only know about orders.
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, question := range []string{"Hi!", "How is the weather?", "How are you?"} {
		resp, err := model.Generate(context.Background(), &runtime.Request{
			Step: "ask", Call: i + 1, StepCall: i + 1, Model: "fast",
			Messages: []runtime.Message{{Role: runtime.User, Text: question}},
		})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(resp.Text)
	}
	// Output:
	// Hello
	// I only know about orders.
	// canned.yaml: no turn left for call 3 of step "ask", call 3 of model "fast": none of matches fits, turns has 2; the last message is user "How are you?"
}
