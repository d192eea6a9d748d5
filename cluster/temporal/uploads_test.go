package temporal

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	flow "github.com/braise-run/braise/workflow"
)

// cut is a client that does something before it sends a part of a value, the same one each time it is sent.
type cut struct {
	client.Client
	at int // where the part begins
	do func()
}

func (c *cut) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if o.UpdateName == partUpdate && o.Args[1] == c.at {
		c.do()
	}
	return c.Client.UpdateWorkflow(ctx, o)
}

// A worker that is lost when half of a value has come does not lose that half: the next one takes the value, once. If none
// comes, the sender's time ends, and so its error says; the run goes on without the value.
func TestServerUploadLosesWorker(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	rt := demoRuntime(t, &effects{})
	work := func() func() { return working(t, c, rt, &WorkerOptions{Drain: time.Millisecond}) }
	text := strings.Repeat("0123456789abcdef", maxValue>>5)
	e := &Engine{Client: c}
	stop := work()
	id, err := e.Start(t.Context(), compiled(t, collects(3)), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	alone := &Engine{Client: &cut{c, 2 * maxSaid, func() { stop(); cancel() }}}
	if _, err := alone.Send(ctx, id, "c", "alone:"+text, ""); codeOf(err) != "cluster.failed" || ctx.Err() == nil {
		t.Errorf("no worker is left: %v", err)
	}
	stop = work()
	replaced := sync.OnceFunc(func() { stop(); stop = work() })
	other := &Engine{Client: &cut{c, 2 * maxSaid, replaced}}
	for _, s := range []struct {
		by   *Engine
		text string
	}{{e, "before"}, {other, "large:" + text}, {e, "behind"}} {
		if _, err := s.by.Send(t.Context(), id, "c", s.text, ""); err != nil {
			t.Fatalf("%.6s: %v", s.text, err)
		}
	}
	out, err := e.Wait(t.Context(), id)
	if err != nil || out.Status != flow.StatusOK || !strings.Contains(fmt.Sprint(out.Output), "last:beforelarge:behind ") {
		t.Errorf("%v, %v", out.Output, err)
	}
	replays(t, historyOf(t, c, id), id, rt)
}

// Large values that the run refuses make room for others at once.
func TestServerUploadsRefused(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	e := &Engine{Client: c}
	working(t, c, demoRuntime(t, &effects{}), nil)
	ctx, cancel := context.WithTimeout(t.Context(), uploadTime*2/3)
	defer cancel()
	id, err := e.Start(ctx, compiled(t, collects(2)), nil, nil)
	if err == nil {
		_, err = e.Send(ctx, id, "c", "small:", "")
	}
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("0123456789abcdef", maxSaid>>3)
	for range maxAtOnce + 1 {
		if _, err := e.Send(ctx, id, "other", text, ""); codeOf(err) != "channel.unknown" {
			t.Fatalf("a value for no channel: %.200v", err)
		}
	}
	if _, err := e.Send(ctx, id, "c", text, ""); err != nil {
		t.Errorf("behind what was refused: %.200v", err)
	}
}
