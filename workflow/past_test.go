package workflow_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// The journal of a run with an agent tells what its legs told, but for what a journal does not have. In every leg it
// says where the agent stands.
func TestPastOfAgents(t *testing.T) {
	wf := load(t, []byte(head+`agents:
  research: {model: fast, tools: [human.ask]}
  tidier: {model: fast, tools: [test.echo, human.ask], approval: {test.echo: pause}, delegates: [research]}
steps:
  tidy: {uses: agent, with: {agent: tidier, prompt: Tidy up.}}
`))
	model, err := script.Parse("script.yaml", []byte(`steps:
  tidy:
    - tool_calls: [{name: test.echo, args: {n: 1}}, {name: test.eco, args: {}}, {name: human.ask, args: {question: "Why?"}}]
    - tool_calls: [{name: test.echo, args: {n: 2}}, {name: delegate_research, args: {task: dig}}, {name: agent.spawn, args: {id: ant}}]
    - tool_calls: [{name: agent.send, args: {id: ant, text: go}}]
    - {text: done}
  tidy/research#5:
    - tool_calls: [{name: human.ask, args: {question: "Where?"}}]
    - {text: here}
  "tidy/agent.ant#7": [{text: went}]
`))
	if err != nil {
		t.Fatal(err)
	}
	store := &checkpoint.Memory{}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}, Tools: []runtime.Tool{echo}, Store: store, Resume: resume.PassThrough{},
		NewRunID: func() string { return "r1" }}
	out, err := wf.Run(t.Context(), nil, rt)
	var told []trace.Event
	calls := map[string][]agentloop.PastCall{}
	for _, answer := range []struct {
		pause string
		value any
	}{
		{"tidy:call3", map[string]any{"answer": "because"}},
		{"tidy:call1", map[string]any{"decision": "approve", "form": map[string]any{"scope": "session"}}},
		{"tidy/research#5:call1", map[string]any{"answer": "there"}},
	} {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, out.Trace...)
		calls[answer.pause] = past(t, store).Steps[0].Agent.Calls
		out, err = workflow.Answer(t.Context(), "r1", answer.pause, answer.value, rt, &workflow.ResumeOptions{Workflow: wf})
	}
	if out.Status != workflow.StatusOK {
		t.Fatal(err)
	}
	told = append(told, out.Trace...)
	wantCalls := map[string][]agentloop.PastCall{
		"tidy:call3":            {{Path: "tidy", Call: 1, Tool: "test.echo"}, {Path: "tidy", Call: 3, Tool: "human.ask"}},
		"tidy:call1":            {{Path: "tidy", Call: 1, Tool: "test.echo"}},
		"tidy/research#5:call1": {{Path: "tidy", Call: 5, Tool: "delegate_research"}, {Path: "tidy/research#5", Call: 1, Tool: "human.ask"}},
	}
	if diff := cmp.Diff(wantCalls, calls); diff != "" {
		t.Errorf("open calls before each answer (-want +got)\n%s", diff)
	}

	p := past(t, store)
	if diff := cmp.Diff(agentLines(told), agentLines(p.Events)); diff != "" {
		t.Errorf("events (-told +of the journal)\n%s", diff)
	}
	if s := p.Steps[0]; len(p.Steps) != 1 || s.Status != "succeeded" || s.Agent.Step != 4 || s.Agent.Calls != nil || s.Agent.Usage.OutputTokens == 0 {
		t.Errorf("steps %+v", p.Steps)
	}
	events, err := schema.Compile(trace.EventSchema())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Events {
		text, _ := json.Marshal(e)
		v, _ := value.Decode(text)
		if problems := events.Check(v); problems != nil {
			t.Errorf("%s: %s", text, schema.Describe(problems))
		}
	}
}

// past reads the journal of the run r1.
func past(t *testing.T, store checkpoint.Store) *workflow.Past {
	t.Helper()
	_, recs, err := store.Load(t.Context(), "r1", 0)
	if err != nil {
		t.Fatal(err)
	}
	p := workflow.NewPast(func(string) *recipe.Recipe { return nil })
	for _, rec := range recs {
		p.Add(rec)
	}
	return p
}

// agentLines lists the events of agents without what no journal has: the names of models, snapshots and summaries,
// and that children wait and go on.
func agentLines(events []trace.Event) (list []string) {
	for _, e := range events {
		child := e.Step != "tidy"
		switch {
		case e.Kind == trace.LoopSnapshot, e.Kind == trace.AgentItem, e.Kind == trace.StepWaiting, e.Kind == trace.StepStart, e.Kind == trace.StepEnd, e.Step == "":
			continue
		case child && (e.Data.Get("stopReason") == "paused" || e.Data.Get("resume") == true):
			continue
		}
		e.Data = slices.DeleteFunc(slices.Clone(e.Data), func(a trace.Attr) bool {
			return a.Key == "model" || a.Key == "messages" && e.Kind == trace.ModelStart
		})
		list = append(list, e.Line())
	}
	return list
}
