package serve_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

const letter = `apiVersion: braise/v1
name: hello
inputs: {who: string}
steps:
  draft: {uses: model, with: {model: fast, prompt: "Write to ${{ inputs.who }}."}}
  ask: {uses: human, with: {prompt: "Send it?", show: {letter: "${{ steps.draft.output.text }}"}, decisions: [approve, reject]}}
output: ${{ steps.ask.output.decision }}
`

// A server and a worker over one store: a run is started, watched with its pieces, answered and ended, over HTTP alone.
func TestWithAWorker(t *testing.T) {
	l := newLab(t, nil)
	wf := compile(t, letter)
	model, err := script.Parse("answers.yaml", []byte("turns: [{text: Dear Ada, delay: 50ms}]"))
	if err != nil {
		t.Fatal(err)
	}
	served := labOf(t, l.store, func(s *serve.Server) {
		s.Recipes = func() []serve.Recipe { return []serve.Recipe{{Name: "hello", Workflow: wf}} }
		s.Runtime = &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}}
	})
	rt := &runtime.Runtime{Store: l.store, Models: map[string]runtime.Model{"fast": model}, Trace: []trace.Sink{served.server.Sink()}}
	ended := make(chan *workflow.Outcome, 10)
	w := &worker.Worker{Runtime: rt, Queues: []string{"default"}, Ended: func(o *workflow.Outcome) { ended <- o }}
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)

	id := served.start(starter, "hello", `{"inputs": {"who": "Ada"}}`)
	v := served.watch(reader, "/api/v1/runs/"+id+"/events", nil)
	go func() { worked <- w.Run(ctx) }()
	defer func() {
		stop()
		if err := <-worked; err != nil {
			t.Error(err)
		}
	}()
	pieces := ""
	for {
		m, more := v.next()
		if !more {
			t.Fatal("the stream ended")
		}
		var e struct {
			Kind string
			Data struct{ Text string }
		}
		if err := json.Unmarshal([]byte(m.data), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == "model.delta" {
			if m.id != "" {
				t.Errorf("a piece has the id %s", m.id)
			}
			pieces += e.Data.Text
		}
		if e.Kind == "run.paused" {
			break
		}
	}
	if pieces != "Dear Ada" {
		t.Errorf("the pieces are %q", pieces)
	}
	<-ended
	pauses := served.get(answerer, "/api/v1/pauses").is(200).has(map[string]any{"pauses.0.runId": id, "pauses.0.show": map[string]any{"letter": "Dear Ada"}})
	served.send("POST", "/api/v1/runs/"+id+"/pauses/"+at(pauses.json(), "pauses.0.id").(string)+"/answer",
		request{token: answerer, body: `{"decision": "approve"}`, header: http.Header{"Prefer": {"wait=60"}}}).
		is(200).has(map[string]any{"status": "ok", "output": "approve"})
	if rest := v.kinds(); rest[len(rest)-1] != " end" {
		t.Errorf("the stream ended with %q", rest)
	}
	served.get(reader, "/api/v1/runs/"+id+"/steps/draft").is(200).has(map[string]any{"status": "succeeded", "output.text": "Dear Ada"})
}

// A recipe that the worker of the process cannot execute is shown with the reason, and is not started for its queues.
// Nobody knows that of a worker elsewhere.
func TestStartLacksSomething(t *testing.T) {
	lacking := `apiVersion: braise/v1
name: lacking
steps:
  say: {uses: model, with: {model: fast, prompt: hi}}
  call: {uses: demo.call, needs: [say]}
`
	const noModel, noTool = `no model named "fast" is configured; step "say" needs it`, `no tool named "demo.call" is configured; step "call" needs it`
	rt := &runtime.Runtime{Tools: []runtime.Tool{slow{}}}
	l := newLab(t, func(s *serve.Server) {
		wf := compile(t, lacking)
		s.Recipes = func() []serve.Recipe { return []serve.Recipe{{Name: "lacking", Workflow: wf}} }
		s.Runtime, s.Worker = rt, &worker.Worker{Queues: []string{"default", "b"}}
	})
	for _, path := range []string{"/api/v1/recipes", "/api/v1/recipes/lacking"} {
		entry := l.get(reader, path).is(200).json()
		if list, ok := entry["recipes"].([]any); ok {
			entry = list[0].(map[string]any)
		}
		if a, b := at(entry, "diagnostics.0.message"), at(entry, "diagnostics.1.message"); a != noModel || b != noTool || entry["valid"] != true {
			t.Errorf("%s: %v", path, entry)
		}
	}
	for _, body := range []string{`{}`, `{"queue": "b"}`} {
		l.post(starter, "/api/v1/recipes/lacking/runs", body).is(422).has(map[string]any{"error": map[string]any{
			"category": "config", "code": "model.missing", "message": noModel, "step": "say",
			"hint": "configure it where runs are executed, or choose the queue of a worker that has it"},
			"diagnostics.0.code": "model.missing", "diagnostics.0.level": "error", "diagnostics.0.step": "say"})
	}
	l.start(starter, "lacking", `{"queue": "elsewhere"}`)

	model, err := script.Parse("answers.yaml", []byte("turns: [{text: hi}]"))
	if err != nil {
		t.Fatal(err)
	}
	rt.Models = map[string]runtime.Model{"fast": model}
	assumed := *rt
	l = labOf(t, l.store, func(s *serve.Server) {
		s.Recipes, s.Runtime, s.Worker = l.server.Recipes, rt, l.server.Worker
		s.Assume = func(*workflow.Workflow) *runtime.Runtime { return &assumed }
	})
	l.post(starter, "/api/v1/recipes/lacking/runs", "{}").fails(422, "tool.missing", "known here: demo.slow")
	assumed.Tools = []runtime.Tool{called{}}
	l.start(starter, "lacking", "{}")

	l = labOf(t, l.store, func(s *serve.Server) { s.Recipes = l.server.Recipes }) // no worker here
	l.get(reader, "/api/v1/recipes").is(200).has(map[string]any{"recipes.0.diagnostics": []any{}})
	l.start(starter, "lacking", "{}")
}

// A fork that this server cannot execute is refused in the words of a start, unless what is missing is for steps that
// stand. Outputs that a fork would not use are refused, too.
func TestRefusedFork(t *testing.T) {
	l := newLab(t, nil)
	wf := compile(t, `apiVersion: braise/v1
name: forked
inputs: {n: {type: integer, default: 1}}
steps:
  say: {uses: model, with: {model: fast, prompt: hi}}
  sum: {uses: set, needs: [say], with: "${{ inputs.n }}"}
  ask: {uses: human, needs: [sum], with: {prompt: Go?}}
`)
	model, err := script.Parse("answers.yaml", []byte("turns: [{text: hi}]"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Store: l.store, Models: map[string]runtime.Model{"fast": model}})
	if err != nil {
		t.Fatal(err)
	}
	path := "/api/v1/runs/" + out.RunID + "/fork"
	l = labOf(t, l.store, func(s *serve.Server) { s.Worker = &worker.Worker{Queues: []string{"default"}} }) // it has no model
	for _, body := range []string{`{"at": "say"}`, `{"at": "ask", "inputs": {"n": 2}}`} {
		l.post(operator, path, body).is(422).has(map[string]any{"error": map[string]any{
			"category": "config", "code": "model.missing", "message": `no model named "fast" is configured; step "say" needs it`, "step": "say",
			"hint": "configure it where runs are executed, or choose the queue of a worker that has it"},
			"diagnostics.0.code": "model.missing"})
	}
	l.post(operator, path, `{"at": "ask", "inputs": {"n": "two"}}`).is(422).has(map[string]any{
		"error.code": "input.invalid", "diagnostics.0.data.path": "/inputs/n"})
	for _, dry := range []string{"false", "true"} {
		l.post(operator, path, `{"at": "ask", "outputs": {"sum": 5}, "dry": `+dry+`}`).is(422).has(map[string]any{
			"error.code": "fork.computed", "error.step": "sum",
			"error.message": `a step of kind set computes its output in the fork, too`})
	}
	l.get(reader, "/api/v1/runs?parent="+out.RunID).has(map[string]any{"runs": []any{}})
	l.post(operator, path, `{"at": "say", "outputs": {"say": {"text": "ho"}}}`).is(202)
	l.post(operator, path, `{"at": "ask"}`).is(202)
	l.post(operator, path, `{"at": "say", "queue": "elsewhere"}`).is(202)
}

// called is a tool.
type called struct{ slow }

func (called) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "demo.call"} }

// A run that the worker of the process leaves as it is says why, until it is taken.
func TestRefusedRun(t *testing.T) {
	l := newLab(t, nil)
	wf := compile(t, `{apiVersion: braise/v1, name: hello, steps: {say: {uses: model, with: {model: fast, prompt: hi}}}}`)
	model, err := script.Parse("answers.yaml", []byte("turns: [{text: hi}]"))
	if err != nil {
		t.Fatal(err)
	}
	var has atomic.Bool
	ended := make(chan *workflow.Outcome, 10)
	rt := &runtime.Runtime{Store: l.store}
	w := &worker.Worker{Runtime: rt, Queues: []string{"default"}, Ended: func(o *workflow.Outcome) { ended <- o },
		Bind: func(context.Context, *workflow.Workflow) (*runtime.Runtime, error) {
			bound := *rt
			if has.Load() {
				bound.Models = map[string]runtime.Model{"fast": model}
			}
			return &bound, nil
		}}
	id, err := wf.Enqueue(t.Context(), nil, rt, &workflow.EnqueueOptions{Queue: "default"})
	if err != nil {
		t.Fatal(err)
	}
	l = labOf(t, l.store, func(s *serve.Server) { s.Worker = w })
	before := l.get(reader, "/api/v1/runs/"+id).is(200).has(map[string]any{"phase": "queued", "refused": nil}).header.Get("ETag")
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	working.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	<-ended
	l.send("GET", "/api/v1/runs/"+id, request{token: reader, header: http.Header{"If-None-Match": {before}}}).is(200).has(map[string]any{
		"phase": "queued", "refused": map[string]any{"category": "config", "code": "model.missing",
			"message": `the run is left as it is: no model named "fast" is configured; step "say" needs it`,
			"hint":    "configure it where runs are executed, or choose the queue of a worker that has it"}})
	other, err := wf.Enqueue(t.Context(), nil, rt, &workflow.EnqueueOptions{Queue: "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	l.get(reader, "/api/v1/runs/"+other).is(200).has(map[string]any{"refused": nil})
	l.post(operator, "/api/v1/runs/"+other+"/recover", "").is(202)
	l.get(reader, "/api/v1/runs/"+other).is(200).has(map[string]any{"refused.code": "queue.other",
		"refused.message": `the worker of this process does not execute the runs of queue "elsewhere"`})
	has.Store(true)
	l.post(operator, "/api/v1/runs/"+id+"/recover", "").is(202)
	if out := <-ended; out.Status != workflow.StatusOK {
		t.Fatal(out.Err)
	}
	l.get(reader, "/api/v1/runs/"+id).is(200).has(map[string]any{"phase": "ok", "refused": nil})
}
