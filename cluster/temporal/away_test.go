package temporal

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/runtime"
	flow "github.com/braise-run/braise/workflow"
)

// A server is away for a while: more than a minute in the long form, after which the SDK gives up. A run whose call is under
// way ends as it should, and who waits for it meanwhile learns so.
func TestServerAway(t *testing.T) {
	long := 20 * time.Second
	if !testing.Short() {
		long = 75 * time.Second
	}
	s := servertest.Start(t)
	c := s.Client(client.Options{Logger: quiet{}})
	var done effects
	rt, began := demoRuntime(t, &done), make(chan bool, 9)
	slow := func(ctx context.Context, _ map[string]any) (any, error) {
		began <- true
		select {
		case <-time.After(5 * time.Second):
			return "done", nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	rt.Tools = append(rt.Tools, runtime.NewTool(runtime.ToolSpec{Name: "demo.slow", Effect: runtime.Idempotent}, slow))
	working(t, c, rt, nil)
	e := &Engine{Client: c}
	id, err := e.Start(t.Context(), compiled(t, head+"steps:\n"+charge+"  slow: {uses: demo.slow, needs: [pay], with: {}}\n"+
		"  a: {uses: demo.work, needs: [slow], with: {n: 2}}\noutput: ${{ steps.a.output.square }}\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		out *flow.Outcome
		err error
	}
	ended := make(chan result, 1)
	go func() {
		out, err := e.Wait(t.Context(), id)
		ended <- result{out, err}
	}()
	<-began
	s.Kill()
	select {
	case r := <-ended:
		t.Errorf("nobody waits while the server is away: %+v, %v", r.out, r.err)
	case <-time.After(long):
	}
	s.Restart()
	select {
	case r := <-ended:
		if r.out == nil || r.out.Status != flow.StatusOK || r.out.Output != int64(4) || done.count["charge 3"] != 1 {
			t.Errorf("%+v, %v, %v", r.out, r.err, done.count)
		}
	case <-time.After(3 * time.Minute):
		t.Error("the run does not end")
	}
}

// A server that does not come back is not waited for without end: then it is not known what became of the run.
func TestServerGone(t *testing.T) {
	if testing.Short() {
		t.Skip("the SDK asks for more than a minute")
	}
	was := outage
	outage = 0
	defer func() { outage = was }()
	s := servertest.Start(t)
	c := s.Client(client.Options{Logger: quiet{}})
	e := &Engine{Client: c}
	id, err := e.Start(t.Context(), compiled(t, asks), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if out, err := e.Wait(ctx, id); out != nil || codeOf(err) != "cluster.unavailable" || ctx.Err() != nil {
		t.Errorf("%+v, %v", out, err)
	}
}

// Notes name the queue of calls that nobody polls, and the steps that wait there.
func TestServerNobodyMakesCalls(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	var done effects
	working(t, c, demoRuntime(t, &done), nil)
	e := &Engine{Client: c}
	id, err := e.Start(t.Context(), compiled(t, head+"steps:\n  a: {uses: demo.work, with: {n: 2}}\n  b: {uses: demo.work, with: {n: 3}}\n"),
		nil, &Options{Queues: map[string]string{"demo.work": "far"}})
	if err != nil {
		t.Fatal(err)
	}
	noted(t, e, id, `no worker polls the task queue "far", to which calls go: step a and 1 more`)
	working(t, c, demoRuntime(t, &done), &WorkerOptions{TaskQueue: "far", OnlyCalls: true})
	if out, err := e.Wait(t.Context(), id); err != nil || out.Status != flow.StatusOK {
		t.Errorf("%+v, %v", out, err)
	}
	if notes, err := e.Notes(t.Context(), id); notes != nil || err != nil {
		t.Errorf("a run that is over: %q, %v", notes, err)
	}
}
