package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// sent is v as another process gets it.
func sent[T any](t *testing.T, v *T) *T {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	got := new(T)
	if err := json.Unmarshal(text, got); err != nil {
		t.Fatal(err)
	}
	return got
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
			got := sent(t, faultOf(err)).err()
			if reflect.TypeOf(err) != reflect.TypeOf(got) && reflect.TypeOf(got) != reflect.TypeFor[*worded]() {
				t.Errorf("it is a %T, not a %T", got, err)
			}
			if diff := cmp.Diff(knownOf(err), knownOf(got)); diff != "" {
				t.Errorf("(-sent +got):\n%s", diff)
			}
		})
	}
	if faultOf(nil) != nil || (*fault)(nil).err() != nil {
		t.Error("no error has become one")
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

// A call and its result are in another process what they are here.
func TestCallOverTheWire(t *testing.T) {
	asks := any(map[string]any{"yes": true, "n": int64(1)})
	c := &engine.Call{Kind: program.ToolCall, Name: "x.y", Path: "a/b[2]", Timeout: time.Second, Grace: time.Minute,
		Site: &program.Call{Kind: program.ToolCall, Name: "x.y", Secrets: true},
		Input: map[string]any{"n": int64(1), "f": 1.5, "none": nil,
			"key":        expr.Sealed{Parts: []expr.SealedPart{{Text: "Bearer "}, {Secret: "KEY"}}},
			sealedMember: "plain", "list": []any{map[string]any{plainMember: int64(2)}}},
		Context: engine.Context{Generation: 2, Ordinal: 3, Attempt: 4, Key: "k", Answered: true,
			Replies: []resume.Reply{{To: "first", Answer: map[string]any{"n": int64(1<<53 + 1)}}, {To: "second"}, {To: "mine", Answer: asks}}},
	}
	got := sent(t, requestOf("R", c, []string{"KEY"})).call()
	if diff := cmp.Diff(c, got, ignored); diff != "" {
		t.Errorf("call of a step (-sent +got):\n%s", diff)
	}
	temperature := 0.5
	c = &engine.Call{Kind: program.ModelCall, Name: "m", Path: "a", Site: &program.Call{Kind: program.AgentCall, Name: "m"},
		Loop: &agentloop.Loop{Name: "clerk", Cwd: "desk"},
		Ask:  engine.Ask{Looks: true, Files: []journal.File{{Path: "a.png", SHA256: "00", MediaType: "image/png", Bytes: 1}}},
		Request: &runtime.Request{Run: "R", Model: "m", Temperature: &temperature,
			Messages: []runtime.Message{{Role: runtime.Assistant, ToolCalls: []runtime.ToolCall{{ID: "1", Name: "t", Arguments: json.RawMessage(`{"a":1}`)}}}},
			Tools:    []runtime.ToolSpec{{Name: "t"}, {Name: "u", Parameters: json.RawMessage(`{"type":"object"}`)}}},
		Job: &agents.Job{Op: agents.CallModel, Path: "a", Name: "m", Timeout: time.Second},
	}
	c.Job.Conversation, c.Job.Request = runtime.Conversation{Thread: "t1", Resource: "ada"}, c.Request
	got = sent(t, requestOf("R", c, nil)).call()
	if diff := cmp.Diff(c, got, ignored); diff != "" {
		t.Errorf("call of an agent (-sent +got):\n%s", diff)
	}
	for _, res := range []*engine.Result{
		{Output: map[string]any{"n": int64(1), "f": 2.5, "none": nil}},
		{Files: []journal.File{{Path: "a.png", SHA256: "00", MediaType: "image/png", Bytes: 1}}},
		{Extent: value.Extent{Bytes: 7, Weight: 9}, Response: &runtime.Response{Text: "hi", Finish: runtime.FinishStop,
			ToolCalls: []runtime.ToolCall{{ID: "1", Name: "t"}}, Parts: []runtime.Part{{Of: "m", Data: json.RawMessage(`1`)}}}},
		{Reply: &agents.Reply{Text: "x", Found: true, Documents: []runtime.Document{{ID: "d", Score: 0.5}},
			Decision: runtime.ApprovalDecision{Allow: true}}, Told: []trace.Told{{At: time.Unix(1, 0).UTC(), Name: "n", Data: map[string]any{"i": int64(1)}}}},
	} {
		if diff := cmp.Diff(res, sent(t, answerOf(res)).result(), ignored); diff != "" {
			t.Errorf("result (-sent +got):\n%s", diff)
		}
	}
}

// ignored are the members that do not leave a process.
var ignored = cmp.Options{
	cmp.FilterPath(func(p cmp.Path) bool {
		f, ok := p.Index(-1).(cmp.StructField)
		return ok && f.Name() != "" && !('A' <= f.Name()[0] && f.Name()[0] <= 'Z')
	}, cmp.Ignore()),
}
