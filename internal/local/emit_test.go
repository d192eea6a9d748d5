package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// trust 5.6: the journal has the span of each execution, and run.start of a later execution names that of the first.
func TestSpansOfLegs(t *testing.T) {
	const first = "00-0af7651916cd43dd8448eb211c80319c-0000000000000001-01"
	store := &checkpoint.Memory{}
	rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Trace: []trace.Sink{runtest.Spans{Legs: new(int)}}}
	wf := runtest.Load(t, []byte(runtest.Head+"version: 1.0.0\nsteps:\n  ask: {uses: human, with: {prompt: Yes}}\n"))
	out, _ := wf.Run(t.Context(), nil, rt)
	if got := out.Trace[0].Data.Get("traceparent"); got != nil {
		t.Errorf("run.start of the first execution has the span %v", got)
	}
	again, _ := workflow.Recover(t.Context(), out.RunID, rt, nil)
	done, err := workflow.Resume(t.Context(), again.Token, map[string]any{"decision": "approve"}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, leg := range []*workflow.Outcome{again, done} {
		data := leg.Trace[0].Data
		if got := data.Get("traceparent"); got != first {
			t.Errorf("run.start of a later execution has the span %v, want %v", got, first)
		}
		if !slices.IsSortedFunc(data, func(a, b trace.Attr) int { return strings.Compare(a.Key, b.Key) }) {
			t.Errorf("run.start is not in order: %v", data)
		}
	}
	_, recs, err := store.Load(t.Context(), out.RunID, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, rec := range recs {
		var data struct{ Traceparent string }
		if rec.Kind == "run.traced" && json.Unmarshal(rec.Data, &data) == nil {
			got = append(got, data.Traceparent)
		}
	}
	var want []string
	for leg := range 3 {
		want = append(want, fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016d-01", leg+1))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans in the journal (-want +got)\n%s", diff)
	}
}

// trust 5.6: live events have the run's id, in the lines of JSONL and slog too; those of an outcome are of one run.
func TestLiveEventsNameTheirRun(t *testing.T) {
	var lines, logged bytes.Buffer
	seen := new(trace.Recorder)
	rt := &runtime.Runtime{Trace: []trace.Sink{seen, trace.NewJSONL(&lines), trace.NewSlog(slog.New(slog.NewJSONHandler(&logged, nil)))}}
	out, _ := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: set, with: 1}\n")).Run(t.Context(), nil, rt)
	for _, e := range seen.Events() {
		if e.Run != out.RunID {
			t.Errorf("%s has the run %q, want %q", e.Kind, e.Run, out.RunID)
		}
	}
	for _, e := range out.Trace {
		if e.Run != "" {
			t.Errorf("in the outcome %s has the run %q", e.Kind, e.Run)
		}
	}
	for _, text := range []string{lines.String(), logged.String()} {
		n := 0
		for line := range strings.Lines(text) {
			var e struct{ Run string }
			if n++; json.Unmarshal([]byte(line), &e) != nil || e.Run != out.RunID {
				t.Errorf("line %s has not the run %q", line, out.RunID)
			}
		}
		if n != len(out.Trace) {
			t.Errorf("%d lines for %d events", n, len(out.Trace))
		}
	}
}

// customs are the events that adapters and hooks have emitted.
func customs(events []trace.Event) (lines []string) {
	for _, e := range events {
		if e.Kind == trace.Custom {
			lines = append(lines, e.Line())
		}
	}
	return lines
}

// trust 5.7: what tools, models and hooks emit stands under their step: live, in the outcome and in the journal.
func TestEmit(t *testing.T) {
	emit := func(ctx context.Context, name string, data map[string]any) {
		if err := trace.Emit(ctx, name, data); err != nil {
			t.Error(err)
		}
	}
	pay := runtest.Tool("test.pay", func(ctx context.Context, args map[string]any) (any, error) {
		emit(ctx, "paying", map[string]any{"card": args["card"], "n": 2})
		emit(ctx, "paid", nil)
		return nil, nil
	})
	m := &runtimetest.Model{Func: func(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
		emit(ctx, "thinking", nil)
		if len(req.Tools) > 0 && req.Messages[len(req.Messages)-1].Role != runtime.ToolRole {
			return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: "1", Name: "test.pay", Arguments: []byte(`{"card":"theirs"}`)}}}, nil
		}
		return &runtime.Response{Text: "done"}, nil
	}}
	seen, store := new(trace.Recorder), &checkpoint.Memory{}
	hooks := runtime.Hooks{runtime.ToolBefore: func(ctx context.Context, m runtime.Moment) error { emit(ctx, "looked at "+m.Name, nil); return nil }}
	rt := &runtime.Runtime{Tools: []runtime.Tool{pay}, Models: map[string]runtime.Model{"m": m}, Trace: []trace.Sink{seen}, Store: store,
		Secrets: runtime.SecretMap{"CARD": "4111-1111-1111"}, Plugins: []runtime.Plugin{{Key: "audit", Hooks: hooks}}, Reporter: &runtest.Quiet{}}
	out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  pay: {uses: test.pay, with: {card: "${{ secrets.CARD }}"}, rollback: {uses: test.pay, with: {card: none}}}
  ask: {uses: model, needs: [pay], with: {model: m, prompt: Go}}
  agent: {uses: agent, needs: [ask], with: {agent: {model: m, tools: [test.pay], subagents: false}, prompt: Go}}
  no: {uses: fail, needs: [agent], with: {message: no, code: no}}
`)).Run(t.Context(), nil, rt)
	if err == nil {
		t.Fatal("the run did not fail")
	}
	want := []string{
		`custom pay name="looked at test.pay"`, `custom pay data={"card":"***","n":2} name=paying`, "custom pay name=paid",
		"custom ask name=thinking",
		"custom agent name=thinking", `custom agent name="looked at test.pay"`, `custom agent data={"card":"theirs","n":2} name=paying`,
		"custom agent name=paid", "custom agent name=thinking",
		`custom pay!rollback name="looked at test.pay"`, `custom pay!rollback data={"card":"none","n":2} name=paying`,
		"custom pay!rollback name=paid",
	}
	told, err := history.Load(t.Context(), store, out.RunID)
	if err != nil {
		t.Fatal(err)
	}
	for where, events := range map[string][]trace.Event{"live": seen.Events(), "outcome": out.Trace, "journal": told.Events} {
		if diff := cmp.Diff(want, customs(events)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", where, diff)
		}
	}
}

// trust 5.7: what is emitted is bounded, and nothing comes from a call that is over.
func TestEmitIsBounded(t *testing.T) {
	var left context.Context
	busy := runtest.Tool("test.busy", func(ctx context.Context, _ map[string]any) (any, error) {
		left = ctx
		for _, tt := range []struct {
			name string
			data map[string]any
			want string
		}{
			{"", nil, "trace: the name of an event has 1 to 64 bytes, not 0"},
			{strings.Repeat("n", 65), nil, "trace: the name of an event has 1 to 64 bytes, not 65"},
			{"large", map[string]any{"a": strings.Repeat("x", 4089)}, `trace: event "large": its data have 4097 bytes, the limit is 4096`},
			{"odd", map[string]any{"a": make(chan int)}, `trace: event "odd": `},
		} {
			if err := trace.Emit(ctx, tt.name, tt.data); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%q: %v, want %s", tt.name, err, tt.want)
			}
		}
		for range 100 {
			if err := trace.Emit(ctx, "step", map[string]any{"a": strings.Repeat("x", 4088)}); err != nil {
				t.Error(err)
			}
		}
		if err := trace.Emit(ctx, "step", nil); err == nil {
			t.Error("a call may emit more than 100 events")
		}
		return nil, nil
	})
	out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.busy}\n")).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{busy}})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(customs(out.Trace)); n != 100 {
		t.Errorf("%d events, want 100", n)
	}
	if err := trace.Emit(left, "late", nil); err == nil {
		t.Error("a call that is over may emit")
	}
	if err := trace.Emit(t.Context(), "alone", nil); err != nil {
		t.Errorf("without a run: %v", err)
	}
}

// trust 5.7: a hook of a run or of a step has nothing to emit to, and is told so.
func TestEmitInHooksWithoutACall(t *testing.T) {
	told := map[runtime.Point]string{}
	hooks := runtime.Hooks{}
	for _, point := range []runtime.Point{runtime.RunInit, runtime.StepBefore, runtime.StepAfter, runtime.RunFinish} {
		hooks[point] = func(ctx context.Context, m runtime.Moment) error {
			err := trace.Emit(ctx, "seen", nil)
			if told[m.Point] = fmt.Sprint(err); point == runtime.StepBefore { // an error would deny the step
				return nil
			}
			return err
		}
	}
	out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: set, with: 1}\n")).Run(t.Context(), nil, &runtime.Runtime{Plugins: []runtime.Plugin{{Key: "audit", Hooks: hooks}}})
	if err != nil || len(customs(out.Trace)) > 0 {
		t.Fatalf("%v, %v", out.Trace, err)
	}
	for point := range hooks {
		want := fmt.Sprintf(`trace: event "seen": the hook %q has no call to emit it with; those of models and tools have`, point)
		if told[point] != want {
			t.Errorf("%s: %s, want %s", point, told[point], want)
		}
	}
	if len(out.Diagnostics) != 3 { // the hooks gave the error back
		t.Errorf("diagnostics: %v", out.Diagnostics)
	}
}
