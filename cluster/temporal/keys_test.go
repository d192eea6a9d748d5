package temporal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/cluster/temporal/servertest"
	runs "github.com/braise-run/braise/history"
	flow "github.com/braise-run/braise/workflow"
)

// twoWorkers is the data converter of two workers, one of which lacks the key. It makes the first so many attempts to decode
// what wants is about.
type twoWorkers struct {
	converter.DataConverter
	other converter.DataConverter
	wants func(ptr any) bool
	times *atomic.Int64
}

func (k twoWorkers) FromPayloads(p *commonpb.Payloads, ptrs ...any) error {
	if k.wants(ptrs[0]) && k.times.Add(-1) >= 0 {
		return k.other.FromPayloads(p, ptrs...)
	}
	return k.DataConverter.FromPayloads(p, ptrs...)
}

// lacking has a run whose payloads are encrypted meet a worker that lacks the key so many times.
func lacking(c *cluster, t *testing.T, times int64, other converter.DataConverter, wants func(ptr any) bool) *atomic.Int64 {
	t.Helper()
	n := &atomic.Int64{}
	n.Store(times)
	key := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), newCodec(t, keyA))
	c.SetDataConverter(twoWorkers{key, other, wants, n})
	return n
}

// others are the data converters of workers without the key.
func others(t *testing.T) map[string]converter.DataConverter {
	return map[string]converter.DataConverter{
		"another key": converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), newCodec(t, keyB)),
		"no key":      converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), newCodec(t)),
		"no codec":    converter.GetDefaultDataConverter(),
	}
}

// A worker that cannot read what a run begins with fails its workflow task, and not the run.
func TestRunWithoutKey(t *testing.T) {
	for name, other := range others(t) {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, demoRuntime(t, &effects{}))
			lacking(c, t, 1, other, func(ptr any) bool { _, ok := ptr.(*input); return ok })
			c.start(compiled(t, head+"steps: {a: {uses: demo.work, with: {n: 2}}}\n"), nil, nil)
			var broke *temporal.PanicError // with which a worker fails its task
			if err := c.GetWorkflowError(); !errors.As(err, &broke) || !strings.Contains(broke.Error(), "this worker cannot read what the run begins with") {
				t.Errorf("the run ended: %v", err)
			}
		})
	}
}

// A call that comes to workers without the key is made by one that has it, however late: nothing was sent before.
func TestCallWithoutKey(t *testing.T) {
	for name, other := range others(t) {
		for _, tool := range []string{
			"demo.lookup, with: {ticket: x}", "demo.work, with: {n: 2}",
			`demo.charge, with: {amount: 3, token: "${{ secrets.PAY_TOKEN }}"}`,
		} {
			t.Run(name+" "+tool, func(t *testing.T) {
				var done effects
				c := newCluster(t, demoRuntime(t, &done))
				left := lacking(c, t, 20, other, func(ptr any) bool { _, ok := ptr.(**request); return ok })
				c.start(compiled(t, head+"steps: {a: {uses: "+tool+"}}\n"), nil, nil)
				out := c.outcome()
				if out.Status != flow.StatusOK || left.Load() >= 0 || done.count["charge 3"] > 1 || len(done.count) > 1 {
					t.Errorf("%s %v, %v; %d attempts left", out.Status, out.Err, done.count, left.Load())
				}
			})
		}
	}
}

// A run whose calls nobody can read still takes a cancel.
func TestCallWithoutKeyCancelled(t *testing.T) {
	var done effects
	c := newCluster(t, demoRuntime(t, &done))
	lacking(c, t, 1<<40, others(t)["no key"], func(ptr any) bool { _, ok := ptr.(**request); return ok })
	c.RegisterDelayedCallback(c.CancelWorkflow, time.Hour)
	c.start(compiled(t, head+"steps: {a: {uses: demo.charge, with: {amount: 3, token: x}}}\n"), nil, nil)
	if out := c.outcome(); out.Status != flow.StatusCancelled || len(done.count) > 0 {
		t.Errorf("%s %v, %v", out.Status, out.Err, done.count)
	}
}

// with are the options of somebody who has these keys.
func with(t *testing.T, keys ...[]byte) client.Options {
	t.Helper()
	return newCodec(t, keys...).Options(client.Options{Logger: quiet{}})
}

// two starts a client and an engine with these keys.
func two(t *testing.T, s *servertest.Server, keys ...[]byte) (client.Client, *Engine) {
	t.Helper()
	o := with(t, keys...)
	c := s.Client(o)
	return c, &Engine{Client: c, DataConverter: o.DataConverter}
}

// On a server whose payloads are encrypted everything is as without keys: outcomes, lists, journals and definitions, over
// many executions. Nothing of a run can be read there.
func TestServerKeys(t *testing.T) {
	s := servertest.Start(t)
	c, e := two(t, s, keyA)
	working(t, c, demoRuntime(t, &effects{}), nil)
	tried := samples[:3]
	if testing.Short() {
		tried = samples[:1]
	}
	for _, most := range []int{0, 25} {
		for _, tt := range tried {
			id := fmt.Sprint(tt.name, "-", most)
			t.Run(id, func(t *testing.T) {
				want := onOneMachine(t, compiled(t, tt.name), tt.in, demoRuntime(t, &effects{}), tt.say...)
				got := onServer(t, e, id, tt, Options{MaxEvents: most})
				text := strings.ReplaceAll(plain(t, untraced(got)), id, "R1")
				if diff := cmp.Diff(keyless(plain(t, untraced(want))), keyless(text)); diff != "" {
					t.Errorf("outcome (-one machine +server):\n%s", diff)
				}
				run, err := runs.Load(t.Context(), &Source{Engine: e}, id)
				if err != nil || len(run.Steps) == 0 || run.Recipe != tt.name {
					t.Errorf("%+v, %v", run, err)
				}
				src := &Source{Engine: e}
				sum, _, err := src.Load(t.Context(), id, 0)
				if err != nil {
					t.Fatal(err)
				}
				definition, err := src.Definition(t.Context(), sum.Digest)
				if err != nil || !strings.Contains(string(definition), tt.name) {
					t.Errorf("%s, %v", definition, err)
				}
				shown, err := protojson.Marshal(historyOf(t, c, id))
				if err != nil {
					t.Fatal(err)
				}
				for _, secret := range []string{"apiVersion", "charged twice", "it broke", canary} {
					if text := string(shown) + decodedText(historyOf(t, c, id)); strings.Contains(text, secret) {
						t.Errorf("the history has %q", secret)
					}
				}
			})
		}
	}
	list, err := e.List(t.Context(), checkpoint.Filter{})
	for ; err == nil && len(list) < 2*len(tried); list, err = e.List(t.Context(), checkpoint.Filter{}) {
		<-time.After(50 * time.Millisecond) // visibility is late
	}
	if err != nil || !slices.ContainsFunc(list, func(s checkpoint.Summary) bool { return s.Recipe == samples[0].name }) {
		t.Errorf("%+v, %v", list, err)
	}
}

// Of two workers one lacks the key: it ends no run and spoils no call, whatever comes to it.
func TestServerWorkerWithoutKey(t *testing.T) {
	s := servertest.Start(t)
	right, e := two(t, s, keyA)
	for name, keys := range map[string][][]byte{"none": nil, "other": {keyB}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the server waits longer and longer until it gives a task again
			var done effects
			queue := "queue-" + name
			e := *e
			e.TaskQueue = queue
			wrong, _ := two(t, s, keys...)
			stop := working(t, wrong, demoRuntime(t, &done), &WorkerOptions{TaskQueue: queue})
			id, err := e.Start(t.Context(), compiled(t, head+"steps:\n"+charge+
				"  a: {uses: demo.work, needs: [pay], with: {n: 2}}\n  b: {uses: demo.lookup, needs: [a], with: {ticket: x}}\n"), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			why := "this worker cannot read what the run begins with"
			if keys != nil { // what it says is encrypted, too
				why = newCodec(t, keys...).KeyIDs()[0]
			}
			noted(t, &e, id, "the workflow task fails again and again", why)
			working(t, right, demoRuntime(t, &done), &WorkerOptions{TaskQueue: queue})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			out, err := e.Wait(ctx, id)
			if err != nil || out.Status != flow.StatusOK || done.count["charge 3"] != 1 || done.count["work 2"] != 1 {
				t.Errorf("%+v, %v, %v", out, err, done.count)
			}
			stop()
		})
	}
}

// A call that is sent to workers without the key waits for one that has it, and it is said why.
func TestServerCallsWithoutKey(t *testing.T) {
	s := servertest.Start(t)
	right, e := two(t, s, keyA)
	wrong, _ := two(t, s, keyB)
	var done effects
	working(t, right, demoRuntime(t, &done), nil)
	for _, tt := range []struct{ name, tool, step, note string }{
		{"once", "demo.charge", strings.Replace(charge, "rollback", "timeout: 5m, rollback", 1), "step pay waits for another worker: "},
		{"again", "demo.work", "  pay: {uses: demo.work, with: {n: 3}}\n", "step pay is at attempt "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stop := working(t, wrong, demoRuntime(t, &done), &WorkerOptions{TaskQueue: "far-" + tt.name, OnlyCalls: true})
			id, err := e.Start(t.Context(), compiled(t, head+"steps:\n"+tt.step), nil,
				&Options{Queues: map[string]string{tt.tool: "far-" + tt.name}})
			if err != nil {
				t.Fatal(err)
			}
			noted(t, e, id, tt.note, newCodec(t, keyA).KeyIDs()[0], "the keys here are")
			working(t, right, demoRuntime(t, &done), &WorkerOptions{TaskQueue: "far-" + tt.name, OnlyCalls: true})
			stop()
			out, err := e.Wait(t.Context(), id)
			if err != nil || out.Status != flow.StatusOK || done.count["charge 3"] > 1 || done.count["work 3"] > 1 {
				t.Errorf("%+v, %v, %v", out, err, done.count)
			}
		})
	}
	if done.count["charge 3"] != 1 || done.count["work 3"] != 1 {
		t.Error(done.count)
	}
}

// A key is changed while runs wait: everybody gets the new one behind the old one, then the order changes, then the old
// one goes.
func TestServerNewKey(t *testing.T) {
	s := servertest.Start(t)
	c, e := two(t, s, keyA)
	stop := working(t, c, demoRuntime(t, &effects{}), nil)
	turn := func(keys ...[]byte) {
		t.Helper()
		stop()
		c, e = two(t, s, keys...)
		stop = working(t, c, demoRuntime(t, &effects{}), nil)
	}
	begin := func(id string) {
		t.Helper()
		if _, err := e.Start(t.Context(), compiled(t, asks), nil, &Options{ID: id, MaxEvents: minEvents}); err != nil {
			t.Fatal(err)
		}
		if out, err := e.Wait(t.Context(), id); err != nil || out.Status != flow.StatusPaused {
			t.Fatal(out, err)
		}
	}
	end := func(id string) {
		t.Helper()
		out, err := e.Answer(t.Context(), id, "ask", object("decision", "approve"), "")
		if err != nil || out.Status != flow.StatusOK {
			t.Errorf("%s: %+v, %v", id, out, err)
		}
	}
	begin("a1")
	begin("a2")
	turn(keyA, keyB)
	end("a1")
	begin("b1")
	turn(keyB, keyA)
	end("a2")
	end("b1")
	begin("c1")
	turn(keyB)
	end("c1")
	sum, _, err := (&Source{Engine: e}).Load(t.Context(), "a1", 0) // nobody has the key any more
	if codeOf(err) != "run.notFound" && sum.Recipe != "" {
		t.Errorf("%+v, %v", sum, err)
	}
}
