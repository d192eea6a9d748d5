package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

var header = script.Header{Recipe: "demo", Digest: "sha256:1"}

// model is a function as a model.
type model func(ctx context.Context, req *runtime.Request) (*runtime.Response, error)

func (m model) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	return m(ctx, req)
}

// echo answers with the last message.
var echo = model(func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	return &runtime.Response{Text: "re: " + req.Messages[len(req.Messages)-1].Text, Finish: "stop"}, nil
})

func newRecorder(t testing.TB, secrets ...string) (*script.Recorder, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.jsonl")
	r, err := script.NewRecorder(file, header, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return r, file
}

// closeRecorder returns the cassette's text.
func closeRecorder(ctx context.Context, t testing.TB, r *script.Recorder, file string) string {
	t.Helper()
	if err := r.Close(ctx); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func load(t testing.TB, text string) *script.Cassette {
	t.Helper()
	c, err := script.LoadCassette("run.jsonl", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func at(step string, call int, texts ...string) *runtime.Request {
	req := &runtime.Request{Run: "r", Step: step, Call: call, StepCall: call, Model: "fast"}
	for _, text := range texts {
		req.Messages = append(req.Messages, runtime.Message{Role: runtime.User, Text: text})
	}
	return req
}

func TestCassetteText(t *testing.T) {
	r, file := newRecorder(t)
	m := r.Model("fast", echo)
	m.Generate(t.Context(), at("b", 1, "<x>"))
	m.Generate(t.Context(), at("a", 1, "y"))
	lines := strings.Split(closeRecorder(t.Context(), t, r, file), "\n")
	if got, want := lines[0], `{"cassette":"braise/v1","digest":"sha256:1","recipe":"demo"}`; got != want {
		t.Errorf("header: got %s, want %s", got, want)
	}
	// The key is the hash of {"model":"fast","request":{"messages":[{"role":"user","text":"y"}]}}.
	want := `{"key":"sha256:KEY","model":"fast","request":{"messages":[{"role":"user","text":"y"}]},` +
		`"response":{"finish":"stop","text":"re: y","usage":{"input_tokens":0,"output_tokens":0}},"step":"a","stepCall":1}`
	if want = strings.Replace(want, "KEY", keyOfY, 1); lines[1] != want {
		t.Errorf("got  %s\nwant %s", lines[1], want)
	}
	if !strings.Contains(lines[2], `"text":"<x>"`) || len(lines) != 4 || lines[3] != "" {
		t.Errorf("got %q, want two entries and a line end", lines)
	}
}

func TestReplayEqualsRecording(t *testing.T) {
	temperature := 0.5
	full := at("a", 1, "hello")
	full.Messages = append(full.Messages,
		runtime.Message{Role: runtime.Assistant, ToolCalls: []runtime.ToolCall{{ID: "1", Name: "kb.search", Arguments: []byte(`{"q": 1}`)}}},
		runtime.Message{Role: runtime.ToolRole, Text: "found", ToolCallID: "1"})
	full.Tools = []runtime.ToolSpec{{Name: "kb.search", Description: "finds", Parameters: []byte(`{"type": "object"}`)}, {Name: "a.b"}}
	full.Schema, full.Temperature, full.MaxTokens = []byte(`{"type": "string"}`), &temperature, 10
	full.Messages[0].Files = []runtime.File{{URL: "https://example.com/a.png", MediaType: "image/*"}}
	full.Options = runtime.ModelOptions{TopP: &temperature, Stop: []string{"END"}, ToolChoice: "none", Reasoning: "low"}
	tests := []struct {
		name string
		req  *runtime.Request
		resp *runtime.Response
		err  error
	}{
		{"all of a response", full, &runtime.Response{
			Text: "a\nb", Finish: "tool_calls", Model: "fast-1", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 4},
			ToolCalls: []runtime.ToolCall{{ID: "2", Name: "a.b", Arguments: json.RawMessage(`{not JSON`)}},
		}, nil},
		{"trust 3.5: parts", full, &runtime.Response{Parts: []runtime.Part{{Of: "o/m", Name: "thought", Data: json.RawMessage(`{"a":1}`)}},
			ToolCalls: []runtime.ToolCall{{ID: "2", Name: "a.b", Arguments: json.RawMessage(`{}`), Parts: []runtime.Part{{Of: "o/m", Name: "sign", Data: json.RawMessage(`"s"`)}}}},
		}, nil},
		{"an empty response", at("a", 1), &runtime.Response{}, nil},
		{"a failure", at("a", 1, "x"), nil, &retry.Failure{Reason: retry.RateLimit, Status: 429, After: 1500 * time.Millisecond, Sent: true, Err: errors.New("slow down")}},
		{"a wrapped failure", at("a", 1, "x"), nil, fmt.Errorf("here: %w", &retry.Failure{Reason: retry.ServerError, Status: 503, Sent: true, Err: errors.New("busy")})},
		{"a refusal", at("a", 1, "x"), nil, &retry.Failure{Status: 400, Sent: true, Err: errors.New("no")}},
		{"trust 8.9: nothing sent", at("a", 1, "x"), nil, &retry.Failure{Reason: retry.Network, Err: errors.New("connection refused")}},
		{"an error without a reason", at("a", 1, "x"), nil, errors.New("broken")},
		{"an error with a code", at("a", 1, "x"), nil, &runtime.Error{Category: runtime.CategoryLimit, Code: "tokens", Err: errors.New("enough")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, file := newRecorder(t)
			recorded := r.Model("fast", model(func(context.Context, *runtime.Request) (*runtime.Response, error) { return tt.resp, tt.err }))
			if resp, err := recorded.Generate(t.Context(), tt.req); resp != tt.resp || err != tt.err {
				t.Errorf("the recorder changed the answer: %v, %v", resp, err)
			}
			other := *tt.req
			other.Run, other.Call = "another", 7
			resp, err := load(t, closeRecorder(t.Context(), t, r, file)).Model("fast").Generate(t.Context(), &other)
			if diff := cmp.Diff(tt.resp, resp); diff != "" {
				t.Errorf("response (-recorded +replayed):\n%s", diff)
			}
			if fmt.Sprint(err) != fmt.Sprint(tt.err) || retry.ReasonOf(err) != retry.ReasonOf(tt.err) {
				t.Errorf("got error %v (%q), want %v (%q)", err, retry.ReasonOf(err), tt.err, retry.ReasonOf(tt.err))
			}
			want, isFailure := errors.AsType[*retry.Failure](tt.err)
			got, _ := errors.AsType[*retry.Failure](err)
			if isFailure && (got.Status != want.Status || got.After != want.After || got.Sent != want.Sent) {
				t.Errorf("got %+v, want %+v", *got, *want)
			}
			if want, ok := errors.AsType[*runtime.Error](tt.err); ok {
				if got, ok := errors.AsType[*runtime.Error](err); !ok || got.Category != want.Category || got.Code != want.Code {
					t.Errorf("got %+v, want %+v", got, want)
				}
			}
		})
	}
}

// The same request of one step is answered in recorded order, from the start in each run; then there is a miss.
// streaming streams its text by the byte.
type streaming string

func (s streaming) Metadata() runtime.Metadata { return runtime.Metadata{Provider: "letters"} }

func (s streaming) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	return &runtime.Response{Text: string(s)}, nil
}

func (s streaming) Stream(ctx context.Context, req *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
	for i := range s {
		emit(runtime.Delta{Text: string(s[i : i+1])})
	}
	return s.Generate(ctx, req)
}

// A recorded model streams as it did; a replay streams the same text in its own pieces.
func TestRecordAndReplayStream(t *testing.T) {
	ask := func(m runtime.Model) string {
		t.Helper()
		var pieces []string
		resp, err := m.(runtime.StreamingModel).Stream(t.Context(), at("a", 1, "a b"), func(d runtime.Delta) { pieces = append(pieces, d.Text) })
		if err != nil || resp.Text != strings.Join(pieces, "") {
			t.Errorf("got %+v, %v after %q", resp, err, pieces)
		}
		return strings.Join(pieces, "|")
	}
	tests := []struct {
		name               string
		model              runtime.Model
		provider           string
		recorded, replayed string
	}{
		{"a model that streams", streaming("x yz"), "letters", "x| |y|z", "x |yz"},
		{"a model that does not", echo, "", "re: a b", "re: |a |b"},
		{"no text", streaming(""), "letters", "", ""},
		{"no text and no stream", model(func(context.Context, *runtime.Request) (*runtime.Response, error) { return &runtime.Response{}, nil }), "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, file := newRecorder(t)
			m := r.Model("fast", tt.model)
			if got := m.(runtime.Described).Metadata().Provider; got != tt.provider {
				t.Errorf("provider: got %q, want %q", got, tt.provider)
			}
			if got := ask(m); got != tt.recorded {
				t.Errorf("recorded: got %q, want %q", got, tt.recorded)
			}
			if got := ask(load(t, closeRecorder(t.Context(), t, r, file)).Model("fast")); got != tt.replayed {
				t.Errorf("replayed: got %q, want %q", got, tt.replayed)
			}
		})
	}
}

func TestReplayRepeats(t *testing.T) {
	n := 0
	r, file := newRecorder(t)
	m := r.Model("fast", model(func(context.Context, *runtime.Request) (*runtime.Response, error) {
		n++
		return &runtime.Response{Text: fmt.Sprint(n)}, nil
	}))
	for call := 1; call <= 3; call++ {
		m.Generate(t.Context(), at("a", call, "same"))
	}
	replay := load(t, closeRecorder(t.Context(), t, r, file)).Model("fast")
	for _, run := range []string{"r1", "r2"} {
		for _, want := range []string{"1", "2", "3", ""} {
			req := at("a", 1, "same")
			req.Run = run
			resp, err := replay.Generate(t.Context(), req)
			if want == "" {
				if err == nil || !strings.HasSuffix(err.Error(), "the request is recorded on line 2, and this run has used all of its answers (3)") {
					t.Errorf("got %v, %v, want a miss", resp, err)
				}
			} else if err != nil || resp.Text != want {
				t.Errorf("run %s: got %v, %v, want %q", run, resp, err, want)
			}
		}
	}
}

func TestRecorderIsOrdered(t *testing.T) {
	record := func(reverse bool) string {
		r, file := newRecorder(t)
		m := r.Model("fast", echo)
		done := make(chan struct{})
		const n = 20
		for i := range n {
			if reverse {
				i = n - 1 - i
			}
			go func() {
				m.Generate(t.Context(), at(fmt.Sprintf("s[%d]", i/2), i%2+1, fmt.Sprint("text ", i)))
				done <- struct{}{}
			}()
		}
		for range n {
			<-done
		}
		return closeRecorder(t.Context(), t, r, file)
	}
	if diff := cmp.Diff(record(false), record(true)); diff != "" {
		t.Errorf("two recordings differ:\n%s", diff)
	}
}

func TestRecorderKeepsSecretsOut(t *testing.T) {
	const secret = "hunter2hunter2"
	r, file := newRecorder(t, secret)
	m := r.Model("fast", model(func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		if req.StepCall == 2 {
			return nil, errors.New("no: " + secret)
		}
		return &runtime.Response{Text: secret, Parts: []runtime.Part{{Name: "thought", Data: []byte(`"` + secret + `"`)}}, ToolCalls: []runtime.ToolCall{{Name: "a.b", Arguments: []byte(`{"x":"` + secret + `"}`)}}}, nil
	}))
	m.Generate(t.Context(), at("a", 1, "it is "+secret))
	m.Generate(t.Context(), at("a", 2, "and"))
	text := closeRecorder(t.Context(), t, r, file)
	if strings.Contains(text, "hunter2") || strings.Count(text, "***") != 5 {
		t.Errorf("got %s, want five ***", text)
	}
	load(t, text)
}

// What a step's timeout or another step's failure stopped waits to be stopped; what the end of the
// run stopped is not recorded.
func TestStoppedCalls(t *testing.T) {
	stop := model(func(ctx context.Context, _ *runtime.Request) (*runtime.Response, error) { return nil, ctx.Err() })
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	r, file := newRecorder(t)
	r.Model("fast", stop).Generate(ended, at("a", 1, "x"))
	text := closeRecorder(t.Context(), t, r, file)
	if !strings.Contains(text, `"stopped":true`) {
		t.Fatalf("got %s, want a stopped call", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := load(t, text).Model("fast").Generate(ctx, at("a", 1, "x"))
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}

	r, file = newRecorder(t)
	r.Model("fast", stop).Generate(ended, at("a", 1, "x"))
	if text := closeRecorder(ended, t, r, file); strings.Count(text, "\n") != 1 {
		t.Errorf("got %s, want the header alone", text)
	}
}

func TestRecorderFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := script.NewRecorder(filepath.Join(dir, "no", "run.jsonl"), header, nil); err == nil {
		t.Error("a missing folder: got no error")
	}
	if _, err := script.NewRecorder(dir, header, nil); err == nil {
		t.Error("a folder as the file: got no error")
	}
	file := filepath.Join(dir, "run.jsonl")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := script.NewRecorder(file, header, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "old" {
		t.Errorf("before Close: got %q, %v, want the old file", text, err)
	}
	text := closeRecorder(t.Context(), t, r, file)
	r.Model("fast", echo).Generate(t.Context(), at("a", 1, "late"))
	if again := closeRecorder(t.Context(), t, r, file); again != text {
		t.Errorf("a second Close wrote %q", again)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want the cassette alone", entries, err)
	}
	if err := (*script.Recorder)(nil).Close(t.Context()); err != nil {
		t.Errorf("nil Recorder: %v", err)
	}
}

func TestMiss(t *testing.T) {
	temperature := 0.5
	r, file := newRecorder(t)
	m := r.Model("fast", echo)
	m.Generate(t.Context(), at("draft", 1, "You are kind.", "The customer would like a refund for the order 4711."))
	m.Generate(t.Context(), at("draft", 2, "something else"))
	m.Generate(t.Context(), at("other", 1, "You are strict.", "Check the order."))
	m.Generate(t.Context(), at("three", 1, "one", "the same", "three"))
	c := load(t, closeRecorder(t.Context(), t, r, file))
	const sys, user = "You are kind.", "The customer would like a refund for the order 4711."
	ask := func(step string, change func(*runtime.Request), texts ...string) *runtime.Request {
		req := at(step, 1, texts...)
		if change != nil {
			change(req)
		}
		return req
	}
	third := ask("draft", func(r *runtime.Request) { r.StepCall = 3 }, "something new")
	near := "the nearest is on line 2, turn 1 of step \"draft\": "
	tests := []struct {
		name  string
		model string
		req   *runtime.Request
		want  string // after the first part
	}{
		{"a text", "fast", ask("draft", nil, sys, "The customer would like a rebate for the order 4711."),
			near + `message 2 (user) differs at character 29: recorded "…omer would like a refund for the order 4711.", now "…omer would like a rebate for the order 4711."`},
		{"at the end", "fast", ask("draft", nil, sys, user+"é"),
			near + `message 2 (user) differs at character 53: recorded "… for the order 4711.", now "… for the order 4711.é"`},
		{"the same turn of the step", "fast", ask("draft", nil, "something new"), strings.TrimSuffix(near, " ") + `
  - message 1 (user) differs at character 1: recorded "You are kind.", now "something new"
  - message 2 (user) is recorded, but missing now: "The customer would like a refund for the…"`},
		{"another turn of the step", "fast", third, `the nearest is on line 3, turn 2 of step "draft": message 1 (user) differs at character 11: recorded "something else", now "something new"`},
		{"the most similar of all", "fast", ask("new", nil, "You are strict.", "Check the box."),
			`the nearest is on line 4, turn 1 of step "other": message 2 (user) differs at character 11: recorded "Check the order.", now "Check the box."`},
		{"a role", "fast", ask("draft", func(r *runtime.Request) { r.Messages[0].Role = runtime.System }, sys, user),
			near + "message 1 is recorded as of user, and now of system"},
		{"more messages", "fast", ask("draft", nil, sys, user, "and?"), near + `message 3 (user) is new: "and?"`},
		{"a message at the beginning", "fast", ask("draft", nil, "hear me", sys, user), near + `message 1 (user) is new: "hear me"`},
		{"the model", "big", ask("draft", nil, sys, user), near + `the model was "fast"`},
		{"the temperature", "fast", ask("draft", func(r *runtime.Request) { r.Temperature = &temperature }, sys, user),
			near + `temperature differs at character 1: recorded "null", now "0.5"`},
		{"max_tokens", "fast", ask("draft", func(r *runtime.Request) { r.MaxTokens = 7 }, sys, user),
			near + `max_tokens differs at character 1: recorded "0", now "7"`},
		{"tools", "fast", ask("draft", func(r *runtime.Request) { r.Tools = []runtime.ToolSpec{{Name: "a.b"}} }, sys, user),
			near + `tool "a.b" is offered, and was not`},
		{"schema", "fast", ask("draft", func(r *runtime.Request) { r.Schema = []byte(`{}`) }, sys, user),
			near + `schema differs at character 1: recorded "null", now "{}"`},
		{"around equal messages", "fast", ask("three", nil, "uno", "the same", "tres"), `the nearest is on line 5, turn 1 of step "three":
  - message 1 (user) differs at character 1: recorded "one", now "uno"
  - message 3 (user) differs at character 2: recorded "three", now "tres"`},
		{"the step", "fast", ask("moved", nil, sys, user), `line 2 has the request, but of step "draft"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.Model(tt.model).Generate(t.Context(), tt.req)
			want := fmt.Sprintf("run.jsonl: no answer is recorded for turn %d of step %q to model %q: %s", tt.req.StepCall, tt.req.Step, tt.model, tt.want)
			if err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if reason := retry.ReasonOf(err); reason != "" {
				t.Errorf("got reason %q, want none: a miss is never retried", reason)
			}
		})
	}
	_, err := new(script.Cassette).Model("fast").Generate(t.Context(), at("a", 1, "x"))
	if want := `cassette: no answer is recorded for turn 1 of step "a" to model "fast": the cassette is empty`; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// keyOfY is the SHA-256 of {"model":"fast","request":{"messages":[{"role":"user","text":"y"}]}}, as sha256sum prints it.
const keyOfY = "2de4efd2f6f0f23734b7dd8bd3c6ae69929ff3ac333640c69a6a6edb8fbaa29e"

func TestLoadCassetteRefuses(t *testing.T) {
	const (
		head = `{"cassette":"braise/v1","digest":"sha256:1","recipe":"demo"}`
		ask  = `"key":"sha256:` + keyOfY + `","model":"fast","request":{"messages":[{"role":"user","text":"y"}]}`
		ok   = `"response":{"text":"a","usage":{"input_tokens":0,"output_tokens":0}}`
		at   = `"step":"s","stepCall":1`
	)
	tests := []struct {
		name, text string
		line       int
		code       diagnostics.Code
		message    string // a part
	}{
		{"empty", "", 1, diagnostics.CodeSyntax, "not a line of a cassette"},
		{"no header", "{" + ask + "," + ok + "," + at + "}", 1, diagnostics.CodeUnknownKey, `unknown field "key"`},
		{"another format", `{"cassette":"braise/v2","digest":"","recipe":""}`, 1, diagnostics.CodeInvalidValue, `"braise/v2"`},
		{"header without a recipe", `{"cassette":"braise/v1","digest":""}`, 1, diagnostics.CodeMissingKey, "lacks a key"},
		{"cut off", head + "\n{" + ask, 2, diagnostics.CodeSyntax, "not a line of a cassette"},
		{"an empty line", head + "\n\n", 2, diagnostics.CodeSyntax, "not a line of a cassette"},
		{"a list", head + "\n[]", 2, diagnostics.CodeWrongType, "must be an object"},
		{"a wrong type", head + "\n{" + ask + `,"response":{"text":1},` + at + "}", 2, diagnostics.CodeWrongType, `"response.text" may not be of type number`},
		{"an unknown key", head + "\n{" + ask + "," + ok + "," + at + `,"also":1}`, 2, diagnostics.CodeUnknownKey, `unknown field "also"`},
		{"a key twice", head + "\n{" + ask + "," + ok + "," + at + `,"step":"s"}`, 2, diagnostics.CodeSyntax, "step"},
		{"a key in capitals", head + "\n{" + ask + "," + ok + `,"STEP":"s","stepCall":1}`, 2, diagnostics.CodeMissingKey, "lacks a key"},
		{"no usage", head + "\n{" + ask + `,"response":{"text":""},` + at + "}", 2, diagnostics.CodeMissingKey, "lacks a key"},
		{"no answer", head + "\n{" + ask + "," + at + "}", 2, diagnostics.CodeInvalidValue, "not 0"},
		{"two answers", head + "\n{" + ask + "," + ok + `,"stopped":true,` + at + "}", 2, diagnostics.CodeInvalidValue, "not 2"},
		{"no step call", head + "\n{" + ask + "," + ok + `,"step":"s","stepCall":0}`, 2, diagnostics.CodeMissingKey, "counts from 1"},
		{"a wrong reason", head + "\n{" + ask + `,"error":{"message":"m","reason":"mood"},` + at + "}", 2, diagnostics.CodeInvalidValue, "a reason"},
		{"a wrong wait", head + "\n{" + ask + `,"error":{"message":"m","after":"soon"},` + at + "}", 2, diagnostics.CodeInvalidValue, "wait"},
		{"another request", head + "\n{" + strings.Replace(ask, `"y"`, `"z"`, 1) + "," + ok + "," + at + "}", 2, diagnostics.CodeInvalidValue, "the key does not belong"},
		{"the second entry", head + "\n{" + ask + "," + ok + "," + at + "}\n{}\n", 3, diagnostics.CodeMissingKey, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := script.LoadCassette("run.jsonl", []byte(tt.text))
			list, ok := errors.AsType[*diagnostics.Error](err)
			if !ok || len(list.List) != 1 {
				t.Fatalf("got %v, want a *diagnostics.Error with one diagnostic", err)
			}
			d := list.List[0]
			if d.Position.Line != tt.line || d.Position.File != "run.jsonl" || d.Code != tt.code || !strings.Contains(d.Message, tt.message) {
				t.Errorf("got %s (%s), want line %d, code %s, %q", err, d.Code, tt.line, tt.code, tt.message)
			}
		})
	}
	edited := load(t, head+"\r\n{"+at+", "+ask+","+strings.Replace(ok, `"a"`, `"edited"`, 1)+"}")
	if resp, err := edited.Model("fast").Generate(t.Context(), askY()); err != nil || resp.Text != "edited" {
		t.Errorf("an edited answer: got %v, %v", resp, err)
	}
}

func askY() *runtime.Request { return at("s", 1, "y") }

func FuzzCassette(target *testing.F) {
	f := seedtest.Fuzz(target)
	r, file := newRecorder(f)
	r.Model("fast", echo).Generate(f.Context(), at("a", 1, "x"))
	r.Model("fast", model(func(context.Context, *runtime.Request) (*runtime.Response, error) {
		return nil, &retry.Failure{Reason: retry.RateLimit, Status: 429, After: time.Second, Err: errors.New("e")}
	})).Generate(f.Context(), at("a", 2, "x"))
	f.Add(closeRecorder(f.Context(), f, r, file), "x")
	f.Add("{}\n[]\n", "")
	f.Add(`{"cassette":"braise/v1","digest":"","recipe":""}`, "y")
	f.Fuzz(func(t *testing.T, text, asked string) {
		c, err := script.LoadCassette("fuzz.jsonl", []byte(text))
		if err != nil {
			list, ok := errors.AsType[*diagnostics.Error](err)
			if !ok || c != nil || len(list.List) == 0 || list.List[0].Position.Line == 0 {
				t.Fatalf("got %v, %v, want only an error with a position", c, err)
			}
			return
		}
		for _, name := range append(c.Models(), "fast") {
			resp, err := c.Model(name).Generate(t.Context(), at("other step", 1, asked)) // never one that waits
			if (resp == nil) == (err == nil) && !strings.Contains(text, "other step") {
				t.Fatalf("got %v, %v, want a response or an error", resp, err)
			}
		}
	})
}

func ExampleRecorder() {
	dir, err := os.MkdirTemp("", "cassette")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "run.jsonl")
	live, _ := script.Parse("live.yaml", []byte("turns: [{text: We refund it.}]")) // in earnest, a model of adapters/openai
	ctx := context.Background()
	ask := func(m runtime.Model, text string) {
		resp, err := m.Generate(ctx, &runtime.Request{Step: "draft", Call: 1, StepCall: 1, Model: "fast",
			Messages: []runtime.Message{{Role: runtime.User, Text: text}}})
		if err != nil {
			fmt.Println("error:", err)
			return
		}
		fmt.Println(resp.Text)
	}

	recorder, err := script.NewRecorder(file, script.Header{Recipe: "reply"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ask(recorder.Model("fast", live), "Where is my money?")
	if err := recorder.Close(ctx); err != nil {
		fmt.Println(err)
		return
	}

	data, err := os.ReadFile(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	cassette, err := script.LoadCassette("run.jsonl", data)
	if err != nil {
		fmt.Println(err)
		return
	}
	ask(cassette.Model("fast"), "Where is my money?")
	ask(cassette.Model("fast"), "Where is my parcel?")
	// Output:
	// We refund it.
	// We refund it.
	// error: run.jsonl: no answer is recorded for turn 1 of step "draft" to model "fast": the nearest is on line 2, turn 1 of step "draft": message 1 (user) differs at character 13: recorded "Where is my money?", now "Where is my parcel?"
}
