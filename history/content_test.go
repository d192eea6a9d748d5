package history_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// live keeps the events of runs with their content.
type live struct{ trace.Recorder }

func (*live) Detail() trace.Detail { return trace.Detail{Content: true} }

// contents returns the events that have content and are of these kinds, without the tokens and models that only one of
// a live trace and a journal has.
func contents(events []trace.Event, kinds ...trace.Kind) (lines []string) {
	for _, e := range events {
		if content := e.Data.Get("content"); content != nil && slices.Contains(kinds, e.Kind) {
			lines = append(lines, trace.Event{Kind: e.Kind, Step: e.Step, Data: trace.Data{{Key: "content", Value: content}}}.Line())
		}
	}
	return lines
}

// serve 14.11: what goes into calls and comes out of them is in the journal as live sinks have it, without secrets.
func TestContent(t *testing.T) {
	wf := load(t, `agents: {clerk: {model: fast, tools: [test.echo]}}
steps:
  key: {uses: test.echo, with: {key: "${{ secrets.KEY }}"}}
  act: {uses: agent, needs: [key], with: {agent: clerk, prompt: "Go on."}}
  ask: {uses: human, needs: [act], with: {prompt: Well, decisions: [approve]}}
output: {said: "${{ steps.act.output.text }}"}
`)
	model, err := script.Parse("script.yaml", []byte(`turns:
  - {text: I look, tool_calls: [{name: test.echo, args: {n: 1}}, {name: test.lost, args: {}}]}
  - {text: swordfish-1 it is}
`))
	if err != nil {
		t.Fatal(err)
	}
	sink := &live{}
	store := &checkpoint.Memory{}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}, Tools: []runtime.Tool{echo}, Store: store, Resume: resume.PassThrough{},
		Secrets: runtime.SecretMap{"KEY": "swordfish-1"}, Trace: []trace.Sink{sink}}
	out, err := wf.Run(t.Context(), nil, rt)
	if err == nil {
		out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	reader := &history.Reader{Store: store, Content: true}
	run, err := reader.Load(t.Context(), out.RunID)
	if err != nil {
		t.Fatal(err)
	}
	events, err := schema.Compile(trace.EventSchema())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range run.Events {
		if e.Step == "ask" { // a journal does not tell how long an answer took
			continue
		}
		text, _ := json.Marshal(e)
		v, _ := value.Decode(text)
		if problems := events.Check(v); problems != nil {
			t.Errorf("%s: %s", text, schema.Describe(problems))
		}
	}
	same := []trace.Kind{trace.ModelEnd, trace.ToolStart, trace.ToolEnd, trace.AgentItem, trace.RunEnd}
	got := contents(run.Events, same...)
	if diff := cmp.Diff(contents(sink.Events(), same...), got); diff != "" || len(got) != 9 {
		t.Errorf("%d events (-live +of the journal)\n%s", len(got), diff)
	}
	want := []string{
		`adapter.call key content={"key":"${{ secrets.KEY }}"}`,
		`step.end key content={"key":"***"}`,
		`model.start act content={"messages":[{"role":"user","text":"Go on."}]}`,
		`step.end act content={"steps":2,"stop_reason":"answer","text":"*** it is"}`,
		`step.end ask content={"decision":"approve","form":null}`,
	}
	others := []trace.Kind{trace.AdapterCall, trace.ModelStart, trace.StepEnd}
	if diff := cmp.Diff(want, contents(run.Events, others...)); diff != "" {
		t.Errorf("of the journal (-want +got)\n%s", diff)
	}
	var watched []trace.Event
	for e, err := range reader.Watch(t.Context(), out.RunID) {
		if err != nil {
			t.Fatal(err)
		}
		watched = append(watched, e)
	}
	if diff := cmp.Diff(run.Events, watched); diff != "" {
		t.Errorf("watched (-loaded +watched)\n%s", diff)
	}
	plain, err := history.Load(t.Context(), store, out.RunID)
	if err != nil || contents(plain.Events, slices.Concat(same, others)...) != nil {
		t.Error("there is content that nobody asked for", err)
	}
}
