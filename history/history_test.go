package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// The journal of a run with an agent tells what its executions told, but for what a journal does not have. In every execution it
// says where the agent stands.
func TestLoadTellsOfAgents(t *testing.T) {
	wf := load(t, `agents:
  research: {model: fast, tools: [human.ask]}
  tidier: {model: fast, tools: [test.echo, human.ask], approval: {test.echo: pause}, delegates: [research]}
steps:
  tidy: {uses: agent, with: {agent: tidier, prompt: Tidy up.}}
`)
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
	calls := map[string][]history.Call{}
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
	wantCalls := map[string][]history.Call{
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

// past is what the journal of the run r1 tells.
func past(t *testing.T, store checkpoint.Store) *history.Run {
	t.Helper()
	run, err := history.Load(t.Context(), store, "r1")
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// load compiles a recipe from its third line on.
func load(t testing.TB, text string) *workflow.Workflow {
	t.Helper()
	r, err := recipe.Parse("recipe.yaml", []byte("apiVersion: braise/v1\nname: test\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wf
}

// echo returns what it is given.
var echo = runtime.NewTool(runtime.ToolSpec{Name: "test.echo"}, func(_ context.Context, args map[string]any) (any, error) { return args, nil })

// agentLines lists the events of agents without what no journal has: the names of models, snapshots and summaries,
// and that children wait and go on.
func agentLines(events []trace.Event) (list []string) {
	for _, e := range events {
		child := e.Step != "tidy"
		switch {
		case e.Kind == trace.LoopSnapshot, e.Kind == trace.StepWaiting, e.Kind == trace.StepStart, e.Kind == trace.StepEnd, e.Step == "":
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

var tools = []runtime.Tool{echo, runtime.NewTool(runtime.ToolSpec{Name: "test.fail"}, func(context.Context, struct{}) (any, error) {
	return nil, errors.New("no luck")
})}

const asking = `steps:
  first: {uses: test.echo, with: {n: 1}}
  ask: {uses: human, needs: [first], with: {prompt: "Go?", decisions: [approve, reject]}}
  bad: {uses: test.fail, needs: [ask]}
`

// begin runs a recipe until it waits.
func begin(t *testing.T, store checkpoint.Store) *workflow.Outcome {
	t.Helper()
	rt := &runtime.Runtime{Tools: tools, Store: store, NewRunID: func() string { return "r1" }}
	out, _ := load(t, asking).Run(t.Context(), nil, rt)
	if out.Status != workflow.StatusPaused {
		t.Fatalf("the run ended %s: %v", out.Status, out.Err)
	}
	return out
}

// answer approves, so that the run goes on and fails.
func answer(t *testing.T, store checkpoint.Store, out *workflow.Outcome) {
	t.Helper()
	rt := &runtime.Runtime{Tools: tools, Store: store, Resume: resume.PassThrough{}}
	out, _ = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
	if e := out.Failure(); e == nil || e.Step != "bad" {
		t.Fatalf("the run ended %s: %v", out.Status, out.Err)
	}
}

// kinds lists the kinds of events with their steps.
func kinds(events []trace.Event) (list []string) {
	for _, e := range events {
		list = append(list, strings.TrimSpace(string(e.Kind)+" "+e.Step))
	}
	return list
}

var (
	untilPause = []string{"run.start", "step.start first", "adapter.call first", "step.end first", "step.start ask", "step.waiting ask",
		"run.paused", "run.output", "run.end"}
	afterPause = []string{"run.start", "step.end ask", "step.start bad", "adapter.call bad", "step.end bad", "run.error", "run.end"}
)

func TestLoad(t *testing.T) {
	store := &checkpoint.Memory{}
	out := begin(t, store)
	run := past(t, store)
	if run.RunID != "r1" || run.Recipe != "test" || run.Status != history.Paused || !run.EndedAt.IsZero() || run.StartedAt.IsZero() {
		t.Errorf("a paused run is %+v", run)
	}
	if len(run.Pauses) != 1 || run.Pauses[0].ID != "ask" || run.Pauses[0].Prompt != "Go?" || run.Pauses[0].Token != "" {
		t.Errorf("pauses %+v", run.Pauses)
	}
	want := []history.Step{{Step: "first", Uses: "test.echo", Status: "succeeded"}, {Step: "ask", Uses: "human", Status: "waiting"},
		{Step: "bad", Uses: "test.fail", Status: "pending"}}
	if diff := cmp.Diff(want, run.Steps, timeless); diff != "" {
		t.Errorf("steps of a paused run (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(untilPause, kinds(run.Events)); diff != "" {
		t.Errorf("events of a paused run (-want +got)\n%s", diff)
	}

	answer(t, store, out)
	run = past(t, store)
	if run.Status != history.Failed || run.EndedAt.IsZero() || len(run.Pauses) != 0 || run.Opened["ask"].Prompt != "Go?" {
		t.Errorf("a failed run is %+v", run)
	}
	want[1].Status, want[2].Status, want[2].Error = "succeeded", "failed", checkpoint.Failure{Code: "tool.failed", Message: "no luck"}
	if diff := cmp.Diff(want, run.Steps, timeless); diff != "" {
		t.Errorf("steps of a failed run (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(slices.Concat(untilPause, afterPause), kinds(run.Events)); diff != "" {
		t.Errorf("events of a failed run (-want +got)\n%s", diff)
	}
	if _, err := history.Load(t.Context(), store, "none"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("an unknown run: %v", err)
	}
}

// A run that nobody holds is interrupted until somebody claims it.
func TestStatusOf(t *testing.T) {
	store := &checkpoint.Memory{}
	run := checkpoint.Run{ID: "r1", Recipe: "test", Digest: "d", StartedAt: time.Now()}
	lease, err := store.Create(t.Context(), run, checkpoint.NewOwner(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got := past(t, store).Status; got != history.Running {
		t.Errorf("a run that is held is %s", got)
	}
	if err := store.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if got := past(t, store).Status; got != history.Interrupted {
		t.Errorf("a run that nobody holds is %s", got)
	}
	for _, tt := range []struct {
		filter history.Filter
		want   []string
	}{
		{history.Filter{}, []string{"r1"}},
		{history.Filter{Statuses: []history.Status{history.Interrupted}, Limit: 1}, []string{"r1"}},
		{history.Filter{Statuses: []history.Status{history.Running}}, nil},
		{history.Filter{Statuses: []history.Status{history.Paused}}, nil},
		{history.Filter{Recipe: "other"}, nil},
	} {
		list, err := history.List(t.Context(), store, tt.filter)
		if err != nil || list == nil {
			t.Errorf("%+v: %v, %v", tt.filter, list, err)
		}
		var got []string
		for _, info := range list {
			got = append(got, info.RunID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v lists %q, want %q", tt.filter, got, tt.want)
		}
	}
}

// A limit counts what the status lets through, not what the store has of both.
func TestListCountsWhatIsListed(t *testing.T) {
	store := &checkpoint.Memory{}
	at := time.Now()
	for i, id := range []string{"a", "b", "c"} { // c is the newest; b is held
		run := checkpoint.Run{ID: id, Recipe: "test", Digest: "d", StartedAt: at.Add(time.Duration(i) * time.Second)}
		lease, err := store.Create(t.Context(), run, checkpoint.NewOwner(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if id != "b" {
			if err := store.Release(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		filter history.Filter
		want   string
	}{
		{history.Filter{}, "c b a"},
		{history.Filter{Limit: 2}, "c b"},
		{history.Filter{Statuses: []history.Status{history.Running}, Limit: 1}, "b"},
		{history.Filter{Statuses: []history.Status{history.Interrupted}, Limit: 2}, "c a"},
		{history.Filter{Statuses: []history.Status{history.Interrupted, history.Running}, Limit: 2}, "c b"},
	} {
		list, err := history.List(t.Context(), store, tt.filter)
		var ids []string
		for _, info := range list {
			ids = append(ids, info.RunID)
		}
		if got := strings.Join(ids, " "); err != nil || got != tt.want {
			t.Errorf("%+v lists %q, want %q (%v)", tt.filter, got, tt.want, err)
		}
	}
}

// Watch tells what is there, and what comes, and ends with the run. It does not wait if the store tells of changes.
func TestWatch(t *testing.T) {
	watch(t, &checkpoint.Memory{}, 0)
	watch(t, struct{ checkpoint.Store }{&checkpoint.Memory{}}, 500*time.Millisecond)
}

// watch checks what comes of a run, and how long after it was recorded.
func watch(t *testing.T, store checkpoint.Store, late time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out := begin(t, store)
		var watched []trace.Event
		done := make(chan error)
		go func() {
			for e, err := range history.Watch(ctx, store, "r1") {
				if err != nil {
					done <- err
					return
				}
				watched = append(watched, e)
			}
			done <- nil
		}()
		synctest.Wait() // it has told what is there
		if diff := cmp.Diff(untilPause, kinds(watched)); diff != "" {
			t.Errorf("events before the answer (-want +got)\n%s", diff)
		}
		answer(t, store, out)
		answered := time.Now()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(answered); took < late || took > late+50*time.Millisecond {
			t.Errorf("it was told after %v, want %v", took, late)
		}
		if diff := cmp.Diff(past(t, store).Events, watched); diff != "" {
			t.Errorf("events (-of the journal +watched)\n%s", diff)
		}
	})
}

func TestWatchThatEndsEarly(t *testing.T) {
	store := &checkpoint.Memory{}
	begin(t, store)
	for range history.Watch(t.Context(), store, "r1") {
		break // whoever has seen enough may leave
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	var last error
	for _, err := range history.Watch(ctx, store, "r1") {
		if seen++; seen == len(untilPause) {
			cancel()
		}
		last = err
	}
	if seen != len(untilPause)+1 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d events, then %v", seen, last)
	}
	for _, err := range history.Watch(t.Context(), store, "none") {
		last = err
	}
	if !errors.Is(last, checkpoint.ErrNotFound) {
		t.Errorf("an unknown run: %v", last)
	}
}
