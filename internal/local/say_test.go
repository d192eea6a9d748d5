package local_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// heard is a sink that notes what steps say, and whether the store had it by then.
type heard struct {
	store *checkpoint.Memory
	said  []string
	early []string // what the store did not have
}

func (h *heard) Emit(e trace.Event) {
	if e.Kind != trace.StepSaid {
		return
	}
	h.said = append(h.said, e.Step+": "+e.Data.Get("text").(string))
	_, recs, err := h.store.Load(context.Background(), e.Run, 0)
	if err != nil || !slices.ContainsFunc(recs, func(rec checkpoint.Record) bool { return rec.Kind == "step.said" && rec.Path == e.Step }) {
		h.early = append(h.early, e.Step)
	}
}

// What a step says is recorded, then shown, and shown once: not by the executions that resume, recover or fork the run.
func TestSaidOnce(t *testing.T) {
	store := &checkpoint.Memory{}
	h := &heard{store: store}
	rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Trace: []trace.Sink{h}}
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  each: {uses: say, foreach: {in: [a, b]}, with: {text: "item ${{ item }}"}}
  ask: {uses: human, needs: [each], with: {prompt: Well?}}
  last: {uses: say, needs: [ask], with: {text: done, value: {n: 7}}}
output: ${{ steps.last.output }}
`))
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"each[0]: item a", "each[1]: item b"}, h.said); diff != "" {
		t.Errorf("until the pause (-want +got):\n%s", diff)
	}
	again, _ := workflow.Recover(t.Context(), out.RunID, rt, nil)
	if out, err = workflow.Resume(t.Context(), again.Token, map[string]any{"decision": "approve"}, rt, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"text": "done", "value": map[string]any{"n": int64(7)}}, out.Output); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	forked, err := workflow.Fork(t.Context(), out.RunID, "last", workflow.Edits{}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"each[0]: item a", "each[1]: item b", "last: done", "last: done"}, h.said); diff != "" || h.early != nil {
		t.Errorf("in all executions (-want +got):\n%s\nbefore they were recorded: %v", diff, h.early)
	}
	run, err := history.Load(t.Context(), store, out.RunID)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range run.Events {
		if e.Kind == trace.StepSaid {
			told = append(told, e.Step+" "+e.Data.Get("text").(string))
		}
	}
	if diff := cmp.Diff([]string{"each[0] item a", "each[1] item b", "last done"}, told); diff != "" {
		t.Errorf("in the history (-want +got):\n%s", diff)
	}
	// A fork shows what is shared as outputs of steps that have ended, not as said again.
	if run, err = history.Load(t.Context(), store, forked.RunID); err != nil {
		t.Fatal(err)
	}
	told = nil
	for _, e := range run.Events {
		if e.Kind == trace.StepSaid || e.Kind == trace.StepEnd {
			told = append(told, fmt.Sprint(e.Kind, " ", e.Step, " ", e.Data.Get("status")))
		}
	}
	want := []string{"step.end each[0] succeeded", "step.end each[1] succeeded", "step.end ask succeeded", "step.said last <nil>", "step.end last succeeded"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("in the history of a fork (-want +got):\n%s", diff)
	}
	for _, s := range run.Steps {
		if s.Step == "each[1]" && (s.Uses != "say" || s.Status != "succeeded") {
			t.Errorf("a shared step is %+v", s)
		}
	}
}

// What tools say is shown at each attempt, with the secrets out, and stands in the outcome and the journal with the
// result: an execution that resumes the run does not say it again.
func TestSayFromTools(t *testing.T) {
	say := func(ctx context.Context, text string, value any) {
		if err := runtime.Say(ctx, text, value); err != nil {
			t.Error(err)
		}
	}
	pay := runtest.Tool("test.pay", func(ctx context.Context, args map[string]any) (any, error) {
		call, _ := runtime.CallOf(ctx)
		if say(ctx, fmt.Sprint("attempt ", call.Attempt, " with ", args["card"]), nil); call.Attempt == 1 {
			return nil, &retry.Failure{Reason: retry.Network, Err: errors.New("down")}
		}
		say(ctx, "paid", map[string]any{"card": args["card"], "n": 2})
		return nil, nil
	})
	m := &runtimetest.Model{Answers: []runtimetest.Answer{{ToolCalls: []runtime.ToolCall{runtest.Wants("test.pay", `{"card":"theirs"}`)}}, {Text: "done"}}}
	seen, store := new(trace.Recorder), &checkpoint.Memory{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{pay}, Models: map[string]runtime.Model{"m": m}, Trace: []trace.Sink{seen}, Store: store,
		Resume: resume.PassThrough{}, Secrets: runtime.SecretMap{"CARD": "4111-1111-1111"}, Reporter: &runtest.Quiet{}}
	wf := runtest.Load(t, []byte(runtest.Head+`defaults: {retry: {tool: {max_attempts: 2, retry_on: [network]}}}
steps:
  pay: {uses: test.pay, with: {card: "${{ secrets.CARD }}"}}
  agent: {uses: agent, needs: [pay], with: {agent: {model: m, tools: [test.pay], subagents: false}, prompt: Go}}
  ask: {uses: human, needs: [agent], with: {prompt: Well?}}
`))
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	said := func(events []trace.Event) (lines []string) {
		for _, e := range events {
			if e.Kind == trace.StepSaid {
				lines = append(lines, e.Line())
			}
		}
		return lines
	}
	want := []string{`step.said pay text="attempt 1 with ***"`, `step.said pay text="attempt 2 with ***"`, `step.said pay text=paid value={"card":"***","n":2}`,
		`step.said agent text="attempt 1 with theirs"`, `step.said agent text="attempt 2 with theirs"`, `step.said agent text=paid value={"card":"theirs","n":2}`}
	if diff := cmp.Diff(want, said(out.Trace)); diff != "" {
		t.Errorf("outcome (-want +got)\n%s", diff)
	}
	if _, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); err != nil {
		t.Fatal(err)
	}
	told, err := history.Load(t.Context(), store, out.RunID)
	if err != nil {
		t.Fatal(err)
	}
	for where, events := range map[string][]trace.Event{"live": seen.Events(), "journal": told.Events} {
		if diff := cmp.Diff(want, said(events)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", where, diff)
		}
	}
	if err := runtime.Say(t.Context(), "nobody hears it", nil); err != nil {
		t.Errorf("outside of a run: %v", err)
	}
}

// What a tool says is bounded like what it emits; what is no JSON is not said.
func TestSayIsBounded(t *testing.T) {
	talk := runtest.Tool("test.talk", func(ctx context.Context, _ map[string]any) (any, error) {
		for _, tt := range []struct {
			text  string
			value any
			want  string
		}{
			{strings.Repeat("x", 4096), nil, `trace: event "step.said": its data have 4107 bytes, the limit is 4096`},
			{"", strings.Repeat("x", 4096), `trace: event "step.said": its data have `},
			{"f", func() {}, `trace: event "step.said": `},
		} {
			if err := runtime.Say(ctx, tt.text, tt.value); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%.10q: %v, want %q", tt.text, err, tt.want)
			}
		}
		for range 100 {
			if err := runtime.Say(ctx, "", nil); err != nil {
				t.Error(err)
			}
		}
		return nil, runtime.Say(ctx, "one more", nil)
	})
	out, err := runtest.Load(t, []byte(runtest.Head+"steps: {talk: {uses: test.talk, with: {}}}\n")).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{talk}, Reporter: &runtest.Quiet{}})
	if err == nil || !strings.Contains(err.Error(), "the call has emitted 100 events, which is the limit") {
		t.Error(out.Status, err)
	}
}

// A step may say much: a text of 1 MiB, and something in each of 10,000 rounds. What is larger than an output may be,
// fails the step.
func TestSayMuch(t *testing.T) {
	seen := new(trace.Recorder)
	rt := &runtime.Runtime{Trace: []trace.Sink{seen}, Store: &checkpoint.Memory{}}
	out, err := runtest.Load(t, []byte(runtest.Head+`inputs: {large: string}
steps:
  long: {uses: say, with: {text: "${{ repeat('x', 1048576) }}"}}
  larger: {uses: say, on_error: continue, with: {text: "${{ inputs.large }}", value: "${{ inputs.large }}"}}
  many:
    uses: loop
    needs: [long]
    with:
      over: ${{ 1..1000 }}
      steps: {ten: {uses: loop, with: {over: "${{ 1..10 }}", steps: {s: {uses: say, with: {text: "${{ item }}"}}}, output: "${{ item }}"}}}
      output: ${{ item }}
output: ["${{ len(steps.long.output.text) }}", "${{ steps.larger.error.code }}", "${{ steps.many.output.last }}"]
`)).Run(t.Context(), map[string]any{"large": strings.Repeat("x", 3<<20)}, rt)
	if diff := cmp.Diff([]any{int64(1 << 20), "output.tooLarge", int64(1000)}, out.Output); diff != "" {
		t.Errorf("%v, output (-want +got):\n%s", err, diff)
	}
	var said []string
	for _, e := range seen.Events() {
		if e.Kind == trace.StepSaid {
			said = append(said, e.Step)
		}
	}
	if want := "many#1000/ten#10/s"; len(said) != 10_001 || said[10_000] != want {
		t.Errorf("said %d times, want 10001 with %q at the end", len(said), want)
	}
}
