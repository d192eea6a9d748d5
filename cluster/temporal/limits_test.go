package temporal

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/runtime"
	flow "github.com/braise-run/braise/workflow"
)

// largeRuntime has a tool whose outputs have as many bytes as it is asked for, nearly, and hardly shrink.
func largeRuntime(calls *effects) *runtime.Runtime {
	text := func(n int) string {
		random, data := rand.New(rand.NewPCG(uint64(n), 1)), make([]byte, n/2)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		return hex.EncodeToString(data)
	}
	busy, mu := 0, sync.Mutex{}
	return &runtime.Runtime{
		Tools: []runtime.Tool{
			runtime.NewTool(runtime.ToolSpec{Name: "large.get"}, func(_ context.Context, in struct {
				Bytes int `json:"bytes"`
			}) (any, error) {
				calls.note("get")
				return text(in.Bytes), nil
			}),
			runtime.NewTool(runtime.ToolSpec{Name: "large.take", Effect: runtime.Idempotent},
				func(_ context.Context, in struct {
					Text string `json:"text"`
					More string `json:"more,omitempty"`
				}) (any, error) {
					mu.Lock()
					busy++
					calls.note("most %d", busy)
					mu.Unlock()
					<-time.After(50 * time.Millisecond)
					mu.Lock()
					busy--
					mu.Unlock()
					return len(in.Text), nil
				}),
		}}
}

// What is too large for a cluster is refused when it is started.
func TestStartTooLarge(t *testing.T) {
	e := &Engine{}
	long := strings.Repeat("x", 700<<10)
	for what, start := range map[string]func() error{
		"the inputs": func() error {
			wf := compiled(t, head+"inputs: {a: string, b: string}\nsteps: {a: {uses: set, with: 1}}\n")
			_, err := e.Start(t.Context(), wf, map[string]any{"a": long, "b": long}, nil)
			return err
		},
		"the recipe and the inputs": func() error {
			wf := compiled(t, head+"inputs: {a: string}\nsteps: {a: {uses: set, with: \""+long+long[:200<<10]+"\"}}\n")
			_, err := e.Start(t.Context(), wf, map[string]any{"a": long + long[:310<<10]}, nil)
			return err
		},
	} {
		if err := start(); codeOf(err) != "cluster.tooLarge" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := e.Answer(t.Context(), "R", "ask", long+long, ""); codeOf(err) != "cluster.tooLarge" {
		t.Errorf("an answer: %v", err)
	}
}

// What is too large for one call fails its step. The outcome of a call with an effect outside is then known.
func TestCallTooLarge(t *testing.T) {
	for _, tt := range []struct{ steps, step string }{
		{"steps: {a: {uses: large.get, with: {bytes: 1100000}}}\n", "a"},
		{"steps:\n  a: {uses: large.get, with: {bytes: 700000}}\n  b: {uses: large.get, with: {bytes: 500000}}\n" +
			"  c: {uses: large.take, with: {text: \"${{ steps.a.output }}\", more: \"${{ steps.b.output }}\"}}\n", "c"},
	} {
		var calls effects
		out := onCluster(t, compiled(t, head+tt.steps), nil, largeRuntime(&calls), nil)
		if err := out.Failure(); err == nil || err.Code != "output.tooLarge" || err.Step != tt.step || calls.count["get"] > 2 {
			t.Errorf("step %s: %s, %v, %v", tt.step, out.Status, out.Err, calls.count)
		}
	}
}

// talker is a model that says a long text each time, and asks for pages until it has had some.
type talker struct{ bytes, pages int }

func (m talker) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	resp := &runtime.Response{Text: strings.Repeat("x", m.bytes)}
	if len(req.Messages) < 2*m.pages {
		resp.ToolCalls = []runtime.ToolCall{{ID: fmt.Sprint(len(req.Messages)), Name: "large.get", Arguments: []byte(`{"bytes": 10}`)}}
	}
	return resp, nil
}

// What a model answers, and what it is sent, has a bound: beyond it the step fails, and the run ends.
func TestModelTooLarge(t *testing.T) {
	for _, tt := range []struct {
		name  string
		model talker
		steps string
		gets  int
	}{
		{"response", talker{1100 << 10, 0}, "steps: {ask: {uses: model, with: {model: m, prompt: Write.}}}\n", 0},
		{"conversation", talker{600 << 10, 5}, "agents: {op: {model: m, instructions: Read., tools: [large.get], max_steps: 9}}\n" +
			"steps: {ask: {uses: agent, with: {agent: op, prompt: Read.}}}\n", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls effects
			rt := largeRuntime(&calls)
			rt.Models = map[string]runtime.Model{"m": tt.model}
			rt.Limits.MaxOutputBytes = 16 << 20
			out := onCluster(t, compiled(t, head+tt.steps), nil, rt, nil)
			if err := out.Failure(); err == nil || err.Code != "output.tooLarge" || err.Step != "ask" || calls.count["get"] != tt.gets {
				t.Errorf("%s, %.300v, %v", out.Status, out.Err, calls.count)
			}
		})
	}
}

// What a run keeps is bounded by 32 MiB, whatever the limits of the worker allow: 33 outputs of 1 MB fit, which the short
// form leaves out, and 34 do not.
func TestRunTooLarge(t *testing.T) {
	for items, code := range map[int]string{33: "", 34: "outputs.tooLarge"} {
		if testing.Short() && code == "" {
			continue
		}
		rt := largeRuntime(&effects{})
		rt.Limits.MaxRunBytes = 1 << 40
		steps := "steps:\n"
		for i := range items {
			steps += fmt.Sprintf("  get%d: {uses: large.get, with: {bytes: 1000000}}\n", i)
		}
		out := onCluster(t, compiled(t, head+steps+"output: done\n"), nil, rt, nil)
		if err := out.Failure(); (err == nil) != (code == "") || err != nil && err.Code != code {
			t.Errorf("%d items of 1 MB: %s, %.300v", items, out.Status, out.Err)
		}
	}
}

// However many calls a recipe allows, a cluster makes 200 at once.
func TestCallsAtOnce(t *testing.T) {
	var calls effects
	rt := largeRuntime(&calls)
	rt.Limits.MaxParallel = 1000
	wf := compiled(t, head+"steps: {each: {uses: large.take, foreach: {in: \"${{ 1..300 }}\"}, with: {text: x}}}\n")
	out := onCluster(t, wf, nil, rt, nil)
	if out.Status != flow.StatusOK || calls.count["most 201"] > 0 || calls.count["most 100"] == 0 {
		t.Errorf("%s, %v", out.Status, out.Err)
	}
}

// A run whose journal is too large for the next execution of its workflow fails.
func TestCarriedTooLarge(t *testing.T) {
	get := "  %s: {uses: large.get, with: {bytes: 1000000}}\n"
	wf := compiled(t, head+"steps:\n"+fmt.Sprintf(get+get+get+get, "a", "b", "c", "d")+
		"  nap: {uses: wait, needs: [a, b, c, d], with: {duration: 2h}}\n"+
		"  last: {uses: large.take, needs: [nap], with: {text: x}}\n")
	c := newCluster(t, largeRuntime(&effects{}))
	c.RegisterDelayedCallback(func() { c.SetContinueAsNewSuggested(true) }, time.Hour)
	c.start(wf, nil, nil)
	if out := c.outcome(); out.Failure() == nil || out.Failure().Code != "cluster.tooLarge" {
		t.Errorf("%s, %v", out.Status, out.Err)
	}
}

// What a workflow task sends stays below what the server takes: a run with many large calls comes to its end.
func TestServerLargeFanOut(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	var calls effects
	rt := largeRuntime(&calls)
	rt.Limits.MaxParallel = 100
	working(t, c, rt, nil)
	s := sample{name: head + "steps:\n  get: {uses: large.get, with: {bytes: 60000}}\n" +
		"  each: {uses: large.take, foreach: {in: \"${{ 1..100 }}\"}, with: {text: \"${{ steps.get.output }}\"}}\n" +
		"output: \"${{ sum(steps.each.output) }}\"\n"}
	if out := onServer(t, &Engine{Client: c}, "L1", s, Options{}); out.Status != flow.StatusOK || fmt.Sprint(out.Output) != "6000000" {
		t.Errorf("%s %v, %v", out.Status, out.Output, out.Err)
	}
}
