package temporal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	flow "github.com/braise-run/braise/workflow"
)

const (
	head   = "apiVersion: braise/v1\nname: one\n"
	charge = `  pay: {uses: demo.charge, with: {amount: 3, token: "${{ secrets.PAY_TOKEN }}"}, rollback: {uses: demo.refund, with: {id: "${{ steps.pay.output.id }}"}}}` + "\n"
	ask    = "  ask: {uses: human, needs: [pay], with: {prompt: \"Sure?\"}}\n"
)

// What fails, or is refused, does so on a cluster as on one machine.
func TestSameFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		recipe string
		in     any
		change func(*runtime.Runtime)
	}{
		"a panic":            {head + "steps: {a: {uses: demo.panics, with: {}}}\n", nil, nil},
		"a bad input":        {head + "inputs: {n: integer}\nsteps: {a: {uses: set, with: 1}}\n", map[string]any{"n": "x", "m": 1}, nil},
		"a missing tool":     {head + "steps: {a: {uses: demo.none, with: {}}}\n", nil, nil},
		"a missing model":    {head + "steps: {a: {uses: model, with: {model: none, prompt: hi}}}\n", nil, nil},
		"a missing secret":   {head + "steps:\n" + charge, nil, func(rt *runtime.Runtime) { rt.Secrets = nil }},
		"an invalid runtime": {head + "steps: {a: {uses: set, with: 1}}\n", nil, func(rt *runtime.Runtime) { rt.Limits.MaxItems = -1 }},
		"no output":          {head + "steps: {a: {uses: demo.work, with: {n: 2}, output: {schema: {type: string}}}}\n", nil, nil},
		"exhausted":          {head + "steps: {a: {uses: demo.flaky, with: {}, retry: {max_attempts: 2, backoff: 10ms}}}\n", nil, nil},
		"a pause of retries": {head + "steps: {a: {uses: demo.flaky, with: {}, retry: {max_attempts: 4, backoff: 1100ms, mode: pause}}}\n", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			wf := compiled(t, tt.recipe)
			var done effects
			here, there := demoRuntime(t, &done), demoRuntime(t, &effects{})
			if tt.change != nil {
				tt.change(here)
				tt.change(there)
			}
			want := onOneMachine(t, wf, tt.in, here)
			got := onCluster(t, wf, tt.in, there, nil)
			if diff := cmp.Diff(plain(t, want), plain(t, got)); diff != "" {
				t.Errorf("outcome (-one machine +cluster):\n%s", diff)
			}
		})
	}
}

// After three days a question is answered.
func TestLongWait(t *testing.T) {
	wf := compiled(t, head+"steps:\n  nap: {uses: wait, with: {duration: 72h}}\n  ask: {uses: human, needs: [nap], with: {prompt: \"Sure?\"}}\noutput: \"${{ steps.ask.output.decision }}\"\n")
	c := newCluster(t, demoRuntime(t, &effects{}))
	c.tell(time.Hour, answerTo("ask", object("decision", "approve")), errors.New(`run "R1" has no pending pause "ask"`+
		"\n  hint: pending pauses: [\"nap\"]"))
	c.tell(73*time.Hour, answerTo("ask", object("decision", "maybe")), errors.New(
		`unknown decision "maybe"`))
	c.tell(80*time.Hour, answerTo("ask", object("decision", "approve")), nil)
	c.start(wf, nil, nil)
	if out := c.outcome(); out.Output != "approve" || out.EndedAt.Sub(out.StartedAt) < 80*time.Hour {
		t.Errorf("%s %v after %v, %v", out.Status, out.Output, out.EndedAt.Sub(out.StartedAt), out.Err)
	}
}

// A run that is cancelled while it waits is rolled back, as on one machine; so is one at work.
func TestCancel(t *testing.T) {
	wf := compiled(t, head+"steps:\n"+charge+ask)
	var here, there effects
	rt := demoRuntime(t, &here)
	rt.Store, rt.NewRunID = &checkpoint.Memory{}, func() string { return "R1" }
	if out, err := wf.Run(t.Context(), nil, rt); out.Status != flow.StatusPaused {
		t.Fatal(err)
	}
	want, _ := flow.Cancel(t.Context(), "R1", "not needed", rt, nil)
	c := newCluster(t, demoRuntime(t, &there))
	c.RegisterDelayedCallback(func() {
		c.SignalWorkflow(cancelSignal, canceled{Reason: "not needed"})
		c.CancelWorkflow()
	}, time.Hour)
	c.start(wf, nil, nil)
	if diff := cmp.Diff(plain(t, want), plain(t, c.outcome())); diff != "" {
		t.Errorf("outcome (-one machine +cluster):\n%s", diff)
	}
	if diff := cmp.Diff(here.count, there.count); diff != "" || there.count["refund c3"] != 1 {
		t.Errorf("effects (-one machine +cluster):\n%s", diff)
	}
	there = effects{}
	wf = compiled(t, head+"steps:\n"+charge+"  hang: {uses: demo.hang, needs: [pay], with: {}}\n")
	c = newCluster(t, demoRuntime(t, &there))
	c.RegisterDelayedCallback(c.CancelWorkflow, 100*time.Millisecond)
	c.start(wf, nil, nil)
	if out := c.outcome(); out.Status != flow.StatusCancelled || there.count["refund c3"] != 1 {
		t.Errorf("%s, %v, %v", out.Status, out.Err, there.count)
	}
}

// If the worker that calls is lost, a call with an effect outside is a question, and not made again by itself.
func TestWorkerLost(t *testing.T) {
	for _, tt := range []struct {
		decision any
		want     int // charges
		output   any
	}{
		{object("decision", "retry"), 1, "c3"},
		{object("decision", "result", "form", object("id", "mine")), 0, "mine"},
	} {
		var done effects
		c := newCluster(t, demoRuntime(t, &done))
		w := newWorker(demoRuntime(t, &done))
		lost := false
		c.OnActivity(callActivity, mock.Anything, mock.Anything).Return(
			func(ctx context.Context, req *request) (*answer, error) {
				if req.Name == "demo.charge" && !lost {
					lost = true
					return nil, temporal.NewHeartbeatTimeoutError()
				}
				return w.call(ctx, req)
			})
		c.tell(time.Hour, answerTo("pay", tt.decision), nil)
		c.start(compiled(t, head+"steps:\n"+charge+"output: \"${{ steps.pay.output.id }}\"\n"), nil, nil)
		out := c.outcome()
		if done.count["charge 3"] != tt.want || out.Output != tt.output {
			t.Errorf("%v: %d charges, %s %v %v", tt.decision, done.count["charge 3"], out.Status, out.Output, out.Err)
		}
	}
}

// A worker that lacks what a call needs has not made it: another one does, even of a call with an effect outside.
func TestWorkerWithoutTool(t *testing.T) {
	var done effects
	c := newCluster(t, demoRuntime(t, &done))
	poor := newWorker(&runtime.Runtime{Secrets: runtime.SecretMap{"PAY_TOKEN": canary}})
	w := newWorker(demoRuntime(t, &done))
	tries := 0
	c.OnActivity(callActivity, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, req *request) (*answer, error) {
			if tries++; tries < 3 {
				return poor.call(ctx, req)
			}
			return w.call(ctx, req)
		})
	c.start(compiled(t, head+"steps:\n"+charge), nil, nil)
	if out := c.outcome(); out.Status != flow.StatusOK || tries != 3 || done.count["charge 3"] != 1 {
		t.Errorf("%s %v after %d tries, %v", out.Status, out.Err, tries, done.count)
	}
}

// No payload has a secret.
func TestSecretsStay(t *testing.T) {
	c := newCluster(t, demoRuntime(t, &effects{}))
	c.start(compiled(t, head+"steps:\n"+charge+"  oh: {uses: demo.panics, needs: [pay], with: {}}\n"), nil, nil)
	if out := c.outcome(); out.Status != flow.StatusError {
		t.Fatal(out.Status)
	}
	if text := string(c.payloads.data); strings.Contains(text, canary) || !strings.Contains(text, "PAY_TOKEN") {
		t.Error("a payload has a secret, or nothing was sent")
	}
}

// What a cluster cannot do is refused before anything runs.
func TestRefused(t *testing.T) {
	hook := func(p runtime.Point) []runtime.Plugin {
		return []runtime.Plugin{{Key: "mine", Hooks: runtime.Hooks{p: func(context.Context, runtime.Moment) error { return nil }}}}
	}
	wf := compiled(t, head+"steps:\n"+charge)
	for _, tt := range []struct {
		name string
		rt   runtime.Runtime
		code string
	}{
		{"a hook of steps", runtime.Runtime{Plugins: hook(runtime.StepBefore)}, "cluster.hooks"},
		{"a hook of runs", runtime.Runtime{Plugins: hook(runtime.RunFinish)}, "cluster.hooks"},
		{"an adapter for answers", runtime.Runtime{Resume: changes{}}, "cluster.unsupported"},
		{"breakpoints", runtime.Runtime{Breakpoints: []string{"pay"}}, "cluster.unsupported"},
		{"a model that answers in batches", runtime.Runtime{Models: map[string]runtime.Model{"m": inBatches{}}}, "cluster.unsupported"},
		{"a limit of a day", runtime.Runtime{Budget: runtime.Budget{PerLabel: map[string]float64{"a": 1}}}, "cluster.unsupported"},
	} {
		if _, err := NewWorker(nil, &tt.rt, nil); codeOf(err) != tt.code {
			t.Errorf("%s: NewWorker: %v", tt.name, err)
		}
		if out := onCluster(t, wf, nil, &tt.rt, nil); out.Failure() == nil || out.Failure().Code != tt.code || len(out.Artefact) > 0 {
			t.Errorf("%s: %s, %v", tt.name, out.Status, out.Err)
		}
	}
	for _, steps := range []string{
		"  seen: {uses: state.get, with: {key: k}}\n",
		"  ask: {uses: agent, with: {agent: a, prompt: go}}\nagents: {a: {model: fast, tools: [state.put]}}\n",
	} {
		for _, store := range []checkpoint.Store{nil, &checkpoint.Memory{}} {
			rt := demoRuntime(t, &effects{})
			rt.Store = store
			out := onCluster(t, compiled(t, head+"steps:\n"+steps), nil, rt, nil)
			if out.Failure() == nil || out.Failure().Code != "cluster.unsupported" || len(out.Artefact) > 0 {
				t.Errorf("state: %s, %v", out.Status, out.Err)
			}
		}
	}
	var done effects
	rt := demoRuntime(t, &done)
	rt.Plugins = hook(runtime.ToolBefore)
	if out := onCluster(t, wf, nil, rt, nil); out.Status != flow.StatusOK {
		t.Errorf("a hook of tools: %v", out.Err)
	}
}

type changes struct{}

func (changes) Resolve(_ context.Context, r resume.Request) (any, error) { return r.Input, nil }

// inBatches is a model that answers in batches.
type inBatches struct{ runtime.PolledModel }
