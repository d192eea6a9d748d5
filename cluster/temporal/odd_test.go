package temporal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	flow "github.com/braise-run/braise/workflow"
)

const asks = head + "steps: {ask: {uses: human, with: {prompt: \"ok?\"}}}\n"

// A secret in the failure of an adapter is in no payload.
func TestSecretInFailure(t *testing.T) {
	rt := demoRuntime(t, &effects{})
	rt.Tools = append(rt.Tools, runtime.NewTool(runtime.ToolSpec{Name: "demo.leak", Effect: runtime.ReadOnly},
		func(_ context.Context, in map[string]any) (any, error) {
			return nil, &retry.Failure{Reason: retry.ServerError, Status: 401, Sent: true,
				Err: fmt.Errorf("GET https://x/?key=%v", in["token"])}
		}))
	c := newCluster(t, rt)
	c.start(compiled(t, head+"steps: {a: {uses: demo.leak, with: {token: \"${{ secrets.PAY_TOKEN }}\"}}}\n"), nil, nil)
	if out := c.outcome(); out.Failure() == nil || !strings.Contains(out.Err.Error(), "key=***") {
		t.Errorf("%s, %v", out.Status, out.Err)
	}
	if bytes.Contains(c.payloads.data, []byte(canary)) {
		t.Error("the secret is in a payload")
	}
}

// A long outcome is read in pieces, none of which cuts a letter.
func TestPieces(t *testing.T) {
	r := &run{shown: &outcome{}, text: []byte("x" + strings.Repeat("é", maxPayload))}
	var text []byte
	for size := 1; len(text) < size; {
		p, err := r.pieceOf(len(text))
		if err != nil || p.Text == "" {
			t.Fatalf("after %d bytes: %v", len(text), err)
		}
		wire, err := json.Marshal(p)
		if err != nil || json.Unmarshal(wire, p) != nil {
			t.Fatal(err)
		}
		text, size = append(text, p.Text...), p.Size
	}
	if !bytes.Equal(text, r.text) {
		t.Errorf("%d bytes of %d", len(text), len(r.text))
	}
}

// unfinished is a model whose first call of a tool has arguments that are not JSON.
type unfinished struct{ calls int }

func (m *unfinished) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	m.calls++
	if req.Messages[len(req.Messages)-1].Role == runtime.User {
		return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: "1", Name: "demo.work",
			Arguments: json.RawMessage(`{"n": 1`)}}}, nil
	}
	return &runtime.Response{Text: "done"}, nil
}

// What a model sends that is not JSON is the agent's affair, as on one machine.
func TestMalformedArguments(t *testing.T) {
	wf := compiled(t, head+"agents: {op: {model: fast, instructions: work, tools: [demo.work]}}\n"+
		"steps: {a: {uses: agent, with: {agent: op, prompt: hi}}}\noutput: \"${{ steps.a.output.text }}\"\n")
	for _, cluster := range []bool{false, true} {
		rt, m := demoRuntime(t, &effects{}), &unfinished{}
		rt.Models["fast"] = m
		out := (*flow.Outcome)(nil)
		if cluster {
			out = onCluster(t, wf, nil, rt, nil)
		} else {
			out = onOneMachine(t, wf, nil, rt)
		}
		if out.Output != "done" || m.calls != 2 {
			t.Errorf("on a cluster: %t: %v, %v, %d calls", cluster, out.Output, out.Err, m.calls)
		}
	}
}

// A run whose options no run can have does not start.
func TestOptions(t *testing.T) {
	for _, o := range []Options{{ID: "a/b"}, {MaxEvents: -1}, {MaxEvents: 9}} {
		if _, err := new(Engine).Start(t.Context(), compiled(t, asks), nil, &o); codeOf(err) != "runtime.invalid" {
			t.Errorf("%.40q, %d: %v", o.ID, o.MaxEvents, err)
		}
	}
}

// A worker that stops gives up the calls that take longer: what may be repeated is made by the next worker, and of what
// may not, nobody knows whether it had its effect.
func TestServerStoppedWorker(t *testing.T) {
	s := servertest.Start(t)
	for _, tt := range []struct {
		effect runtime.Effect
		want   flow.Status
	}{{runtime.External, flow.StatusPaused}, {runtime.Idempotent, flow.StatusOK}} {
		c := s.Client(client.Options{Logger: quiet{}})
		rt, calls, began := demoRuntime(t, &effects{}), &effects{}, make(chan bool, 9)
		rt.Tools = append(rt.Tools, runtime.NewTool(runtime.ToolSpec{Name: "demo.slow", Effect: tt.effect},
			func(ctx context.Context, _ map[string]any) (any, error) {
				began <- true
				if calls.note("slow") > 1 {
					return "ok", nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}))
		e := &Engine{Client: c, TaskQueue: string(tt.effect)}
		stop := working(t, c, rt, &WorkerOptions{TaskQueue: e.TaskQueue, Drain: 100 * time.Millisecond})
		id, err := e.Start(t.Context(), compiled(t, head+"steps: {a: {uses: demo.slow}}\n"), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		<-began
		stop()
		working(t, s.Client(client.Options{Logger: quiet{}}), rt, &WorkerOptions{TaskQueue: e.TaskQueue})
		out, err := e.Wait(t.Context(), id)
		if out == nil || out.Status != tt.want {
			t.Errorf("%s: %+v, %v", tt.effect, out, err)
		}
	}
}

// A cancellation is not lost while a run moves to another execution, and says why.
func TestServerCancelledFull(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	e := &Engine{Client: c}
	working(t, c, demoRuntime(t, &effects{}), nil)
	id, err := e.Start(t.Context(), compiled(t, asks), nil, &Options{MaxEvents: minEvents})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := e.Wait(t.Context(), id); err != nil || out.Status != flow.StatusPaused {
		t.Fatal(out, err)
	}
	out, err := e.Cancel(t.Context(), id, "no longer needed", "ada")
	if out == nil || out.Status != flow.StatusCancelled || !strings.Contains(out.Err.Error(), "no longer needed") {
		t.Errorf("%+v, %v", out, err)
	}
}

// Outputs that are too large to stay in a task are fetched by calls of their own, and values that come at once fit into
// one task.
func TestServerLargeAtOnce(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	e := &Engine{Client: c}
	rt := demoRuntime(t, &effects{})
	rt.Tools = append(rt.Tools, runtime.NewTool(runtime.ToolSpec{Name: "demo.large", Effect: runtime.ReadOnly},
		func(context.Context, map[string]any) (any, error) { return strings.Repeat("abcdefghi ", 60_000), nil }))
	working(t, c, rt, nil)
	var steps strings.Builder
	for i := range 9 {
		fmt.Fprintf(&steps, "  s%d: {uses: demo.large}\n", i)
	}
	id, err := e.Start(t.Context(), compiled(t, head+"steps:\n"+steps.String()), nil, &Options{LocalReads: true})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := e.Wait(t.Context(), id); out == nil || out.Status != flow.StatusOK {
		t.Errorf("reads: %v, %v", out, err)
	}

	id, err = e.Start(t.Context(), compiled(t, head+"channels: {c: queue}\nsteps:\n"+
		"  slow: {uses: demo.work, with: {n: 1, ms: 2000}}\n"+
		"  get: {uses: receive, needs: [slow], with: {channel: c}}\noutput: \"${{ len(steps.get.output) }}\"\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 7 {
		group.Go(func() {
			if _, err := e.Send(t.Context(), id, "c", strings.Repeat("x", 290<<10), ""); err != nil {
				t.Errorf("a value: %.200v", err)
			}
		})
	}
	group.Wait()
	if out, err := e.Wait(t.Context(), id); err != nil || fmt.Sprint(out.Output) != fmt.Sprint(290<<10) {
		t.Errorf("values: %v", err)
	}
}

// Workers may differ in what they say of the effects of a tool: the run keeps to what the first one said.
func TestServerEffects(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	e := &Engine{Client: c}
	spec := runtime.ToolSpec{Name: "demo.got", Effect: runtime.External,
		EffectOf: func(json.RawMessage) runtime.Effect { return runtime.ReadOnly }}
	with := demoRuntime(t, &effects{})
	with.Tools = append(with.Tools, runtime.NewTool(spec, func(context.Context, map[string]any) (any, error) { return 1, nil }))
	working(t, c, with, nil)
	id, err := e.Start(t.Context(), compiled(t, head+"steps: {a: {uses: demo.got}}\n"), nil, &Options{LocalReads: true})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := e.Wait(t.Context(), id); out == nil || out.Status != flow.StatusOK {
		t.Fatal(out, err)
	}
	replays(t, historyOf(t, c, id), id, demoRuntime(t, &effects{}))
}
