package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/wire"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

const digest = "sha256:00"

// called is a call as another process gets it.
func called(t *testing.T, c *engine.Call) *engine.Call {
	t.Helper()
	data, err := wire.EncodeCall(digest, c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.DecodeCall(digest, data)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// came is a result as another process gets it.
func came(t *testing.T, res *engine.Result) *engine.Result {
	t.Helper()
	data, err := wire.EncodeResult(digest, res)
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.DecodeResult(digest, data)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// sent is an error as another process gets it.
func sent(t *testing.T, err error) error {
	t.Helper()
	return came(t, &engine.Result{Err: err}).Err
}

// toolCall is a call of a step that has all that such a call can have.
func toolCall() *engine.Call {
	return &engine.Call{ID: 7, Kind: program.ToolCall, Name: "x.y", Path: "a/b[2]", Opens: true,
		Pos: diagnostics.Position{File: "r.yaml", Line: 3, Column: 4},
		Input: map[string]any{"n": int64(1), "f": 1.5, "none": nil, "big": json.Number("12345678901234567890"),
			"key":     expr.Sealed{Parts: []expr.SealedPart{{Text: "Bearer "}, {Secret: "KEY", Escape: "query"}}},
			"$sealed": "plain", "list": []any{map[string]any{"$plain": int64(2)}}},
		Context: engine.Context{Generation: 2, Ordinal: 3, Attempt: 4, Key: "k", Recipe: "order", By: "ada", Answered: true,
			Replies: []resume.Reply{{To: "first", Answer: map[string]any{"n": int64(1<<53 + 1)}}, {To: "second"},
				{To: "mine", Answer: any(map[string]any{"yes": true, "n": int64(1)})}}},
		Timeout: time.Second, Grace: time.Minute, Group: 5, Alone: true, Rollback: true, Dispose: true,
		Ready: engine.Ready{Effect: runtime.Idempotent, Spends: []string{"m"}}}
}

// A call is in another process what it is here.
func TestCalls(t *testing.T) {
	temperature, files := 0.5, []journal.File{{Path: "a.png", SHA256: "00", MediaType: "image/png", Bytes: 1}}
	req := &runtime.Request{Run: "R", Model: "m", Temperature: &temperature,
		Messages: []runtime.Message{{Role: runtime.Assistant,
			ToolCalls: []runtime.ToolCall{{ID: "1", Name: "t", Arguments: json.RawMessage(`{"a":1}`)}}}},
		Tools: []runtime.ToolSpec{{Name: "t"}, {Name: "u", Parameters: json.RawMessage(`{"type":"object"}`)}}}
	talk := runtime.Conversation{Thread: "t1", Resource: "ada"}
	for name, c := range map[string]*engine.Call{
		"of a step": toolCall(),
		"of an agent's model": {Kind: program.ModelCall, Name: "m", Path: "a", Request: req,
			Agent: engine.Agent{Name: "clerk", Cwd: "desk"}, Ask: engine.Ask{Stream: true, Looks: true, Files: files},
			Job: &agents.Job{Op: agents.CallModel, Path: "a", Name: "m", Timeout: time.Second, Conversation: talk,
				Request: req}},
		"of an agent's tool": {Kind: program.ToolCall, Name: "x.y", Path: "a/b#1",
			Input: map[string]any{"id": int64(1<<60 + 1)}, Job: &agents.Job{Op: agents.CallTool, Path: "a/b#1", Call: 2,
				Scope: agents.OfHost, Arguments: json.RawMessage(`{"id":1152921504606846977}`)}},
		"of an approver": {Path: "a", Job: &agents.Job{Op: agents.AskApprover, Approval: &runtime.ApprovalRequest{
			Tool: "x.y", Arguments: json.RawMessage(`{"id":1}`), Keys: []string{"x.y"}}}},
	} {
		if diff := cmp.Diff(c, called(t, c)); diff != "" {
			t.Errorf("call %s (-sent +got):\n%s", name, diff)
		}
	}
}

// What a process finds out for itself alone stays in it: whether others may wait for the call.
func TestQuickStays(t *testing.T) {
	if got := called(t, &engine.Call{Path: "a", Ready: engine.Ready{Quick: true}}); got.Quick {
		t.Error("a call in another process is quick")
	}
}

// A call has nothing but data, and JSON where a member may be anything. What tools in a request say of effects is never
// there: models do not see it.
func TestCallsAreData(t *testing.T) {
	known := map[string]bool{"engine.Call.Input": true, "resume.Reply.Answer": true, "agents.Job.Args": true,
		"runtime.ToolSpec.EffectOf": true}
	seen := map[reflect.Type]bool{}
	var walk func(where string, of reflect.Type)
	walk = func(where string, of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(where, of.Elem())
		case reflect.Func, reflect.Chan, reflect.Interface, reflect.UnsafePointer:
			if !known[where] {
				t.Errorf("%s is a %s", where, of.Kind())
			}
		case reflect.Struct:
			if seen[of] || of == reflect.TypeFor[time.Time]() {
				return
			}
			seen[of] = true
			for i := range of.NumField() {
				f := of.Field(i)
				if !f.IsExported() {
					t.Errorf("%s.%s stays in the process", of, f.Name)
				}
				walk(fmt.Sprintf("%s.%s", of, f.Name), f.Type)
			}
		}
	}
	walk("engine.Call", reflect.TypeFor[engine.Call]())
	if len(seen) < 10 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

// Every member of a call and of a result crosses, or is known not to.
func TestMembers(t *testing.T) {
	for _, tt := range []struct {
		from, to reflect.Type
		stay     string
	}{
		{reflect.TypeFor[engine.Call](), reflect.TypeFor[wire.Call](), "Ask Context Ready Pos Agent"},
		{reflect.TypeFor[engine.Ask](), reflect.TypeFor[wire.Call](), "Batch"},
		{reflect.TypeFor[engine.Ready](), reflect.TypeFor[wire.Call](), "Quick"},
		{reflect.TypeFor[engine.Context](), reflect.TypeOf(wire.Call{}.Context), ""},
		{reflect.TypeFor[engine.Agent](), reflect.TypeOf(wire.Call{}.Agent).Elem(), ""},
		{reflect.TypeFor[engine.Result](), reflect.TypeFor[wire.Result](), "Extent Text BatchID Unsent"},
	} {
		for i := range tt.from.NumField() {
			name := tt.from.Field(i).Name
			if _, ok := tt.to.FieldByName(name); !ok && !strings.Contains(" "+tt.stay+" ", " "+name+" ") {
				t.Errorf("%s.%s does not cross", tt.from, name)
			}
		}
	}
}

// A result is in another process what it is here.
func TestResults(t *testing.T) {
	for name, res := range map[string]*engine.Result{
		"an output":  {Output: map[string]any{"n": int64(1), "f": 2.5, "none": nil}, Extent: value.Extent{Bytes: 7, Weight: 9}},
		"files":      {Files: []journal.File{{Path: "a.png", SHA256: "00", MediaType: "image/png", Bytes: 1}}},
		"pictures":   {Pictures: []runtime.File{{URL: "t.png", MediaType: "image/png", SHA256: "00", Bytes: 1}}},
		"yield":      {Yield: true},
		"lost, left": {Lost: true, Left: true, Spent: []runtime.Spent{{Name: "m", Usage: runtime.Usage{InputTokens: 3}}}},
		"a response": {Response: &runtime.Response{Text: "hi", Finish: runtime.FinishStop,
			ToolCalls: []runtime.ToolCall{{ID: "1", Name: "t"}}, Parts: []runtime.Part{{Of: "m", Data: json.RawMessage(`1`)}}}},
		"a reply": {Reply: &agents.Reply{Text: "x", Found: true, Documents: []runtime.Document{{ID: "d", Score: 0.5}},
			Decision: runtime.ApprovalDecision{Allow: true},
			Tools:    []runtime.ToolSpec{{Name: "s.t", Effect: runtime.ReadOnly, Result: "{n}", Approval: "pause"}}}},
		"events": {Told: []trace.Told{{At: time.Unix(1, 0).UTC(), Name: "n", Data: map[string]any{"i": int64(1)}}, {Name: "m"}},
			Found: diagnostics.List{{Code: "x.y", Message: "m", Data: map[string]any{"n": int64(1)}}}},
	} {
		if diff := cmp.Diff(res, came(t, res)); diff != "" {
			t.Errorf("%s (-sent +got):\n%s", name, diff)
		}
	}
}

// What cannot cross as it is crosses as what has the same meaning.
func TestResultsThatChange(t *testing.T) {
	asks := func(json.RawMessage) runtime.Effect { return runtime.ReadOnly }
	for name, tt := range map[string]struct{ res, want engine.Result }{
		"a text": {engine.Result{Text: json.RawMessage(`{"n":1}`)}, engine.Result{Output: map[string]any{"n": int64(1)}}},
		"arguments that are not JSON": {
			engine.Result{Response: &runtime.Response{ToolCalls: []runtime.ToolCall{{Arguments: json.RawMessage("{\xff")}, {Arguments: json.RawMessage(" ")}}}},
			engine.Result{Response: &runtime.Response{ToolCalls: []runtime.ToolCall{{Arguments: json.RawMessage("\"{\ufffd\"")}, {}}}}},
		"a tool whose arguments say its effect": {
			engine.Result{Reply: &agents.Reply{Tools: []runtime.ToolSpec{{Name: "s.t", Effect: runtime.ReadOnly, EffectOf: asks}}}},
			engine.Result{Reply: &agents.Reply{Tools: []runtime.ToolSpec{{Name: "s.t", Effect: runtime.External}}}}},
	} {
		if diff := cmp.Diff(&tt.want, came(t, &tt.res)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Bytes that this process cannot use are refused, and the error says why.
func TestRefused(t *testing.T) {
	call, err := wire.EncodeCall(digest, toolCall())
	if err != nil {
		t.Fatal(err)
	}
	result, err := wire.EncodeResult(digest, &engine.Result{Output: "x"})
	if err != nil {
		t.Fatal(err)
	}
	replaced := func(data []byte, old, now string) []byte {
		text := strings.Replace(string(data), old, now, 1)
		if text == string(data) {
			t.Fatalf("%s lacks %s", data, old)
		}
		return []byte(text)
	}
	decoders := map[string]func(string, []byte) error{
		"call":   func(digest string, data []byte) error { _, err := wire.DecodeCall(digest, data); return err },
		"result": func(digest string, data []byte) error { _, err := wire.DecodeResult(digest, data); return err },
	}
	for _, tt := range []struct {
		name, what string
		digest     string
		data       []byte
		want       error
		text       string
	}{
		{"a newer call", "call", digest, replaced(call, `"version":1`, `"version":2`), wire.ErrNewer,
			"call: a newer version of Braise has written it: version 2, this one reads up to 1\n  hint: update this process first"},
		{"a newer result of another shape", "result", digest, []byte(`{"version":3,"digest":{},"result":1}`), wire.ErrNewer,
			"result: a newer version of Braise has written it: version 3, this one reads up to 1\n  hint: update this process first"},
		{"a call of another recipe", "call", "sha256:11", call, wire.ErrDigest,
			`call: it is of another recipe: digest "sha256:00", this one is "sha256:11"`},
		{"a result of another recipe", "result", "sha256:11", result, wire.ErrDigest,
			`result: it is of another recipe: digest "sha256:00", this one is "sha256:11"`},
		{"a cut call", "call", digest, call[:40], wire.ErrCorrupt,
			"call: it is cut off, or no message of Braise: after 40 bytes of 40: unexpected end of JSON input"},
		{"no version", "result", digest, []byte(`{}`), wire.ErrCorrupt, "result: it is cut off, or no message of Braise: it has no version"},
		{"a result for a call", "call", digest, result, wire.ErrCorrupt, ""},
		{"a call for a result", "result", digest, call, wire.ErrCorrupt, ""},
		{"a broken secret", "call", digest, replaced(call, `["Bearer ",""]`, `["Bearer "]`), wire.ErrCorrupt,
			`call of "a/b[2]": it is cut off, or no message of Braise: part 1 of a text with secrets is [Bearer ]`},
	} {
		err := decoders[tt.what](tt.digest, tt.data)
		if !errors.Is(err, tt.want) || tt.text != "" && err.Error() != tt.text {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for n := range call {
		if err := decoders["call"](digest, call[:n]); !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("the first %d bytes of a call: %v", n, err)
		}
	}
	for n := range result {
		if err := decoders["result"](digest, result[:n]); !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("the first %d bytes of a result: %v", n, err)
		}
	}
}

// What the engine asks about an error has the same answer in another process.
func TestFault(t *testing.T) {
	busy := &retry.Failure{Reason: retry.ServerError, Status: 503, After: time.Second, Sent: true, Err: errors.New("busy")}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	question := resume.Pause{Kind: resume.System, Reason: "mine", Prompt: "?", RetryAt: at,
		Schema: map[string]any{"maximum": int64(3)}, Show: []any{int64(1), 1.5},
		OnExpire: resume.Expiry{Answered: true, Value: map[string]any{"n": int64(2)}}}
	for _, err := range []error{
		errors.New("plain"),
		busy,
		fmt.Errorf("around: %w", busy),
		&runtime.Error{Category: runtime.CategoryTool, Code: "x.y", Step: "a", Err: fmt.Errorf("in: %w", busy)},
		fmt.Errorf("around: %w", &runtime.Error{Category: runtime.CategoryLimit, Code: "l", Err: io.EOF}),
		fmt.Errorf("cut: %w", io.ErrUnexpectedEOF),
		fmt.Errorf("late: %w", context.DeadlineExceeded),
		fmt.Errorf("stopped: %w", context.Canceled),
		&retry.Failure{Reason: retry.Timeout, Err: fmt.Errorf("late: %w", context.DeadlineExceeded)},
		&engine.PanicError{Text: "boo", Stack: "f\n\tf.go:1\n"},
		&resume.Suspension{Pause: question},
		fmt.Errorf("asks: %w", &resume.Suspension{Pause: question}),
	} {
		t.Run(err.Error(), func(t *testing.T) {
			got := sent(t, err)
			if a, b := fmt.Sprintf("%T", err), fmt.Sprintf("%T", got); a != b && b != "*wire.worded" {
				t.Errorf("it is a %s, not a %s", b, a)
			}
			if diff := cmp.Diff(knownOf(err), knownOf(got)); diff != "" {
				t.Errorf("(-sent +got):\n%s", diff)
			}
		})
	}
	if got := sent(t, nil); got != nil {
		t.Errorf("no error has become %v", got)
	}
}

// knownOf is what the engine finds out about an error.
func knownOf(err error) map[string]any {
	f := retry.FailureOf(err)
	m := map[string]any{"text": err.Error(), "reason": f.Reason, "status": f.Status, "after": f.After, "sent": f.Sent,
		"late": errors.Is(err, context.DeadlineExceeded), "stopped": errors.Is(err, context.Canceled)}
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		m["known"] = []any{e.Category, e.Code, e.Step, e.Err.Error()}
	}
	if e, ok := errors.AsType[*engine.PanicError](err); ok {
		m["panic"] = *e
	}
	if e, ok := errors.AsType[*resume.Suspension](err); ok {
		m["pause"] = e.Pause
	}
	return m
}
