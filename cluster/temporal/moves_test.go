package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	flow "github.com/braise-run/braise/workflow"
)

// The reply to a value may be lost while the run moves to another execution of its workflow. Whoever sends it again, as a
// client does, has sent it once.
func TestSaidTwice(t *testing.T) {
	wf := compiled(t, head+"channels: {c: queue}\nsteps:\n  first: {uses: receive, with: {channel: c}}\n"+
		"  second: {uses: receive, needs: [first], with: {channel: c}}\n"+
		"output: [\"${{ steps.first.output }}\", \"${{ steps.second.output }}\"]\n")
	hello := valueFor("c", "hello")
	hello.ID = "u1"
	c := newCluster(t, demoRuntime(t, &effects{}))
	c.tell(time.Hour, hello, nil)
	c.RegisterDelayedCallback(func() { c.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	c.tell(3*time.Hour, answerTo("none", 1), errors.New("braise.moved")) // a task, in which the run sees that it is full
	c.start(wf, nil, nil)
	c, start, _ := c.next(demoRuntime(t, &effects{}))
	c.tell(time.Hour, hello, nil)
	c.tell(2*time.Hour, valueFor("c", "world"), nil)
	start()
	if out := c.outcome(); fmt.Sprint(out.Output) != "[hello world]" {
		t.Errorf("%v, %v", out.Output, out.Err)
	}
}

// A paused run continues elsewhere with outputs that are larger than what the server takes at once, and shows them.
func TestCarriedOutputs(t *testing.T) {
	wf := compiled(t, head+"steps:\n  each: {uses: large.get, foreach: {in: [1, 2]}, with: {bytes: 500000}}\n"+
		"  get: {uses: large.get, with: {bytes: 1000000}}\n  more: {uses: large.get, with: {bytes: 900000}}\n"+
		"  loop: {uses: loop, with: {max_iterations: 1, steps: {in: {uses: set, with: 7}, ask: {uses: human, with: {prompt: \"Sure?\"}}}}}\n"+
		"output: \"${{ steps.loop.output }}\"\n")
	rt := func() *runtime.Runtime {
		rt := largeRuntime(&effects{})
		rt.Resume = demoRuntime(t, &effects{}).Resume
		return rt
	}
	c := newCluster(t, rt())
	var before, after outcome
	c.RegisterDelayedCallback(func() { before = c.shows() }, time.Hour)
	c.RegisterDelayedCallback(func() { c.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	c.tell(3*time.Hour, answerTo("none", 1), errors.New("braise.moved"))
	c.start(wf, nil, nil)
	c, start, _ := c.next(rt())
	c.RegisterDelayedCallback(func() { after = c.shows() }, time.Hour)
	start()
	want, got := before.Artefact.V.(map[string]any), after.Artefact.V.(map[string]any)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 3 || after.Status != "paused" {
		t.Errorf("%s with %d outputs, then %s with %d", before.Status, len(want), after.Status, len(got))
	}
}

// shows is the outcome that queries get.
func (c *cluster) shows() (o outcome) {
	c.t.Helper()
	var text []byte
	for size := 1; len(text) < size; {
		var p piece
		v, err := c.QueryWorkflow(outcomeQuery, len(text))
		if err == nil {
			err = v.Get(&p)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		text, size = append(text, p.Text...), p.Size
	}
	if err := json.Unmarshal(text, &o); err != nil {
		c.t.Fatal(err)
	}
	return o
}

// A paused run whose version of the workers is not the current one any more moves to that one before it takes an answer. A
// server that always has another one does not keep it busy.
func TestMoves(t *testing.T) {
	wf := compiled(t, head+"steps:\n"+charge+ask+"output: \"${{ steps.ask.output.decision }}\"\n")
	var done effects
	c := newCluster(t, demoRuntime(t, &done))
	say := answerTo("ask", object("decision", "approve"))
	c.RegisterDelayedCallback(func() { c.SetTargetWorkerDeploymentVersionChanged(true) }, time.Hour)
	c.tell(2*time.Hour, say, errors.New("braise.moved"))
	c.start(wf, nil, nil)
	for moved := 1; moved <= mostMoves; moved++ {
		next, start, about := c.next(demoRuntime(t, &done))
		if about.InitialVersioningBehavior != workflow.ContinueAsNewVersioningBehaviorAutoUpgrade {
			t.Errorf("the next execution begins with behaviour %d", about.InitialVersioningBehavior)
		}
		c = next
		c.SetTargetWorkerDeploymentVersionChanged(true)
		want := errors.New("braise.moved")
		if moved == mostMoves {
			want = nil
		}
		c.tell(time.Hour, say, want)
		start()
	}
	if out := c.outcome(); out.Output != "approve" || done.count["charge 3"] != 1 {
		t.Errorf("%v, %v, %v", out.Output, out.Err, done.count)
	}
}

// A run whose journal is too large for another execution stays with the version of its workers.
func TestStays(t *testing.T) {
	get := "  %s: {uses: large.get, with: {bytes: 1000000}}\n"
	wf := compiled(t, head+"steps:\n"+fmt.Sprintf(get+get+get+get, "a", "b", "c", "d")+
		"  nap: {uses: wait, needs: [a, b, c, d], with: {duration: 2h}}\noutput: done\n")
	c := newCluster(t, largeRuntime(&effects{}))
	c.RegisterDelayedCallback(func() { c.SetTargetWorkerDeploymentVersionChanged(true) }, time.Hour)
	c.start(wf, nil, nil)
	if out := c.outcome(); out.Output != "done" {
		t.Errorf("%s, %v", out.Status, out.Err)
	}
}

// Versions and queues that the server does not take are refused when a worker is made.
func TestVersionsRefused(t *testing.T) {
	for _, tt := range []WorkerOptions{{Build: "v:1"}, {Build: "__v"}, {Build: strings.Repeat("v", 256)},
		{Build: "v1", TaskQueue: "a.b"}, {Build: "v1", TaskQueue: "a:b"}, {Build: "v1", TaskQueue: "__a"}} {
		if _, err := NewWorker(nil, &runtime.Runtime{}, &tt); codeOf(err) != "runtime.invalid" {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	o, err := deployment("a.b", "")
	if err != nil || o.UseVersioning {
		t.Errorf("without a version: %+v, %v", o, err)
	}
	o, err = deployment("braise", "v1.4.0")
	if want := (worker.WorkerDeploymentVersion{DeploymentName: "braise", BuildID: "v1.4.0"}); err != nil || o.Version != want {
		t.Errorf("%+v, %v", o, err)
	}
}

// The sinks of a worker get the events of each leg of a run once, in their order.
func TestSinks(t *testing.T) {
	var kinds []string
	rt := demoRuntime(t, &effects{})
	rt.Trace = []trace.Sink{sink(func(e trace.Event) {
		if e.Run != "R1" {
			t.Errorf("an event of run %q", e.Run)
		}
		kinds = append(kinds, strings.TrimSpace(string(e.Kind)+" "+e.Step))
	})}
	wf := compiled(t, head+"steps:\n  a: {uses: demo.work, with: {n: 2}}\n  ask: {uses: human, needs: [a], with: {prompt: \"Sure?\"}}\n")
	here := *rt
	here.Store, here.NewRunID = &checkpoint.Memory{}, func() string { return "R1" }
	out, err := wf.Run(t.Context(), nil, &here)
	if err != nil || out.Status != flow.StatusPaused {
		t.Fatal(out, err)
	}
	if _, err := flow.Answer(t.Context(), "R1", "ask", object("decision", "approve"), &here, nil); err != nil {
		t.Fatal(err)
	}
	want := kinds
	kinds = nil
	onCluster(t, wf, nil, rt, nil, answerTo("ask", object("decision", "approve")))
	if diff := cmp.Diff(want, kinds); diff != "" || len(want) < 8 {
		t.Errorf("events (-one machine +cluster):\n%s", diff)
	}
}

type sink func(trace.Event)

func (s sink) Emit(e trace.Event) { s(e) }

// hands are the tools of an environment.
type hands []runtime.Tool

func (hands) Instructions(context.Context) (string, error) { return "", nil }
func (h hands) Tools() []runtime.Tool                      { return h }

// The effect of a call is what the tool says of its arguments: also of a tool of the environment, and the worst if it panics.
func TestEffectHere(t *testing.T) {
	tool := func(name string, of func(json.RawMessage) runtime.Effect) runtime.Tool {
		return runtime.NewTool(runtime.ToolSpec{Name: name, Effect: runtime.External, EffectOf: of},
			func(context.Context, struct{}) (any, error) { return nil, nil })
	}
	says := func(e runtime.Effect) func(json.RawMessage) runtime.Effect {
		return func(json.RawMessage) runtime.Effect { return e }
	}
	rt := &runtime.Runtime{
		Env: hands{nil, tool("env.look", says(runtime.ReadOnly)), tool("both", says(runtime.ReadOnly))},
		Tools: []runtime.Tool{tool("own.look", says(runtime.Idempotent)), tool("both", says(runtime.Idempotent)),
			tool("bad", func(json.RawMessage) runtime.Effect { panic("oh") })},
	}
	for name, want := range map[string]runtime.Effect{"env.look": runtime.ReadOnly, "own.look": runtime.Idempotent,
		"both": runtime.Idempotent, "bad": runtime.External, "none": runtime.External} {
		if got := effectHere(rt, name, nil); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
