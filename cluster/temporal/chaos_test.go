package temporal

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/internal/procgroup"
	"github.com/braise-run/braise/resume"
	flow "github.com/braise-run/braise/workflow"
)

var long = flag.Bool("chaos", false, "TestChaos makes 50 runs, and kills workers 200 times and the server 5 times at least: some minutes")

// disorder is how much a chaos test does.
type disorder struct {
	runs    int
	workers int           // alive at a time
	kills   int           // of workers, at least
	servers int           // kills of the server
	every   time.Duration // time between two kills, more or less
	events  int           // of one execution of a workflow; 0: as many as usual
}

// Processes of workers, and now and then the server, are killed at any time while runs are under way. Each run ends as it does
// in one process that lives; each key has its effect once, and a call with an effect outside is made a second time only if
// a person has looked and says so.
func TestChaos(t *testing.T) {
	d := disorder{runs: 8, workers: 2, kills: 24, servers: 1, every: 600 * time.Millisecond, events: 60}
	if *long {
		d = disorder{runs: 50, workers: 3, kills: 200, servers: 5, every: time.Second, events: 60}
	}
	c := newChaos(t, d)
	var begins []func()
	for i := range d.runs {
		begins = append(begins, c.prepare(fmt.Sprintf("run-%d", i), &chaosRecipes[min(i%3, 1)], d.events))
	}
	c.disturb(d, begins)
	t.Logf("%d runs; workers were killed %d times, the server %d times; people were asked about %d lost calls",
		d.runs, c.killed, c.servers, c.questions)
	if c.questions == 0 && *long {
		t.Error("no external call was lost")
	}
}

// chaos is a server, workers that die, and a shop.
type chaos struct {
	t       *testing.T
	shop    *shop
	server  *servertest.Server
	client  client.Client
	dir     string
	workers []*procgroup.Group
	killed  int // workers
	servers int // times that the server was killed

	lock      sync.Mutex // guards the rest
	questions int
}

func newChaos(t *testing.T, d disorder) *chaos {
	c := &chaos{t: t, shop: newShop(t), server: servertest.Start(t), dir: t.TempDir()}
	c.client = c.server.Client(client.Options{})
	for range d.workers {
		c.workers = append(c.workers, c.worker())
	}
	t.Cleanup(func() {
		for _, w := range c.workers {
			w.Close()
			<-w.Exited()
		}
	})
	return c
}

// worker starts the process of a worker: this test again, of which only TestChaosWorker.
func (c *chaos) worker() *procgroup.Group {
	cmd := exec.Command(os.Args[0], "-test.run=^TestChaosWorker$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), "BRAISE_CHAOS_WORKER="+c.server.Addr+" "+c.shop.URL)
	log, err := os.OpenFile(filepath.Join(c.dir, "workers.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	w, err := procgroup.Start(cmd, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return w
}

// TestChaosWorker is the process of a worker in TestChaos.
func TestChaosWorker(t *testing.T) {
	addr, shopURL, ok := strings.Cut(os.Getenv("BRAISE_CHAOS_WORKER"), " ")
	if !ok {
		t.Skip("TestChaos starts it in processes of its own")
	}
	heartbeat, beat = 2*time.Second, 500*time.Millisecond
	for {
		cl, err := client.Dial(client.Options{HostPort: addr})
		if err == nil {
			w, err := NewWorker(cl, shopRuntime(shopURL), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Fatal(w.Run(t.Context())) // until it is killed
		}
		select { // the server is away
		case <-t.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// prepare returns what drives a run on the cluster, and checks it.
func (c *chaos) prepare(id string, r *chaosRecipe, events int) func() {
	want := c.locally("local-"+id, r)
	wf := r.compiled(c.t)
	return func() {
		got, err := c.onCluster(c.t.Context(), id, wf, events)
		if err != nil {
			c.t.Errorf("run %s: %v", id, err)
			return
		}
		if diff := cmp.Diff(want, outcomeText(c.t, got, id)); diff != "" {
			c.t.Errorf("outcome of %s (-one machine +cluster):\n%s", id, diff)
		}
		c.shop.check(c.t, id, r.places)
	}
}

// disturb begins runs, and kills until all are over. The runs begin one after the other, so that all of them meet about as
// many kills.
func (c *chaos) disturb(d disorder, begins []func()) {
	began, over := time.Now(), make(chan struct{})
	var runs sync.WaitGroup
	for {
		for len(begins) > 0 && (d.runs-len(begins))*d.kills <= c.killed*d.runs {
			if runs.Go(begins[0]); len(begins) == 1 {
				go func() {
					runs.Wait()
					close(over)
				}()
			}
			begins = begins[1:]
		}
		select {
		case <-over:
			return
		case <-time.After(d.every/2 + rand.N(d.every)):
		}
		if since := time.Since(began); since > 30*time.Minute || !*long && since > 3*time.Minute {
			c.t.Fatalf("runs are not over after %v:\n%s", since, c.unfinished())
		}
		if c.killed >= d.kills && len(begins) == 0 {
			continue // what is stuck now is stuck for good
		}
		i := rand.IntN(len(c.workers))
		c.workers[i].Close()
		<-c.workers[i].Exited()
		c.workers[i] = c.worker()
		if c.killed++; c.killed >= (c.servers+1)*d.kills/(d.servers+1) && c.servers < d.servers {
			c.server.Kill()
			c.server.Restart()
			c.servers++
		}
	}
}

// unfinished says where the runs stand that are not over, and what the workers said last.
func (c *chaos) unfinished() string {
	var b strings.Builder
	ctx := context.Background()
	list, err := c.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "ExecutionStatus = 'Running'"})
	if err != nil {
		return err.Error()
	}
	for _, run := range list.Executions {
		about, err := c.client.DescribeWorkflowExecution(ctx, run.Execution.WorkflowId, "")
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "%v\n%v\n", about.PendingActivities, about.PendingWorkflowTask)
		history := c.client.GetWorkflowHistory(ctx, run.Execution.WorkflowId, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for history.HasNext() {
			e, err := history.Next()
			if err != nil {
				return err.Error()
			}
			fmt.Fprintf(&b, "%s %d %s %s %.300v\n", run.Execution.WorkflowId, e.EventId, e.EventTime.AsTime().Format("15:04:05.000"), e.EventType, e.Attributes)
		}
	}
	log, _ := os.ReadFile(filepath.Join(c.dir, "workers.log"))
	return b.String() + string(log[max(0, len(log)-3000):])
}

// locally runs a recipe in this process, and returns the outcome as outcomeText has it.
func (c *chaos) locally(id string, r *chaosRecipe) string {
	rt := shopRuntime(c.shop.URL)
	rt.Store = new(checkpoint.Memory)
	out, err := r.compiled(c.t).Run(c.t.Context(), map[string]any{"run": id}, rt)
	for err == nil && out.Status == flow.StatusPaused {
		out, err = flow.Answer(c.t.Context(), out.RunID, out.Pauses[0].ID, map[string]any{"decision": "approve"}, rt, nil)
	}
	if code := codeOf(err); out.Status == flow.StatusPaused || code != r.err {
		c.t.Fatalf("run %s ends as %s: %v", id, out.Status, err)
	}
	c.shop.check(c.t, id, r.places)
	return outcomeText(c.t, out, id)
}

// outcomeText is what must be the same of an outcome wherever the run is executed and whatever dies.
func outcomeText(t *testing.T, out *flow.Outcome, run string) string {
	text, err := json.MarshalIndent(map[string]any{
		"status": out.Status, "output": out.Output, "artefact": out.Artefact, "error": fmt.Sprint(out.Err), "diagnostics": out.Diagnostics,
	}, "", "  ")
	if err != nil {
		t.Error(err)
	}
	return strings.ReplaceAll(string(text), run, "RUN")
}

// onCluster drives a run to its end: it starts it, and answers all questions as a person would. What fails because the server
// or all workers are away is done again.
func (c *chaos) onCluster(ctx context.Context, id string, wf *flow.Workflow, events int) (*flow.Outcome, error) {
	e, started, err := &Engine{Client: c.client}, false, error(nil)
	for {
		switch codeOf(err) {
		case "", "cluster.failed", "run.exists", "resume.invalidToken", "pause.answered": // the last three: a request was taken, unknown to the client
		default:
			return nil, err
		}
		if err != nil {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
				return nil, err
			}
		}
		if !started {
			_, err = e.Start(ctx, wf, map[string]any{"run": id}, &Options{ID: id, MaxEvents: events})
			started = err == nil || codeOf(err) == "run.exists"
			continue
		}
		out, failed := e.Wait(ctx, id)
		if out != nil && out.Status != flow.StatusPaused {
			return out, nil
		}
		if err = failed; out != nil {
			err = c.answer(ctx, e, out)
		}
	}
}

// answer answers the first pause that waits for a person, who looks into the shop when a call was lost.
func (c *chaos) answer(ctx context.Context, e *Engine, out *flow.Outcome) error {
	p := &out.Pauses[slices.IndexFunc(out.Pauses, func(p resume.Pause) bool { return p.RetryAt.IsZero() })]
	v := map[string]any{"decision": "approve"}
	if p.Reason == "indeterminate" {
		at := p.Call.Arguments.(map[string]any)["at"].(string)
		did, err := c.shop.happened(ctx, out.RunID, at)
		if err != nil {
			return err
		}
		v["decision"] = "retry"
		if did {
			v = map[string]any{"decision": "result", "form": map[string]any{"did": at}}
		}
		c.lock.Lock()
		c.questions++
		c.lock.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if out, err := e.Answer(ctx, out.RunID, p.ID, v, "ada"); out == nil {
		return err
	}
	return nil
}
