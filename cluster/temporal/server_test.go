package temporal

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/cluster/temporal/servertest"
	runs "github.com/braise-run/braise/history"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	flow "github.com/braise-run/braise/workflow"
)

// working starts a worker that stops with the test, or earlier by the returned function.
func working(t testing.TB, c client.Client, rt *runtime.Runtime, o *WorkerOptions) (stop func()) {
	t.Helper()
	w, err := NewWorker(c, rt, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// historyOf is what the server has of the last execution of a run.
func historyOf(t testing.TB, c client.Client, id string) *historypb.History {
	t.Helper()
	return historyOfExecution(t, c, id, "")
}

// historyOfExecution is what the server has of an execution of a run; "": the last one.
func historyOfExecution(t testing.TB, c client.Client, id, execution string) *historypb.History {
	t.Helper()
	var h historypb.History
	it := c.GetWorkflowHistory(t.Context(), id, execution, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		h.Events = append(h.Events, e)
	}
	return &h
}

// replays checks that a history leads the workflow where it led before.
func replays(t testing.TB, h *historypb.History, id string, rt *runtime.Runtime) {
	t.Helper()
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(newWorker(rt).run, workflow.RegisterOptions{Name: runWorkflow})
	o := worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id}}
	if err := r.ReplayWorkflowHistoryWithOptions(quiet{}, h, o); err != nil {
		t.Errorf("the history of %s does not replay: %v", id, err)
	}
}

// onServer runs a workflow on a server, and tells it what is said when it waits for somebody.
func onServer(t testing.TB, e *Engine, id string, s sample, o Options) *flow.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	o.ID = id
	if _, err := e.Start(ctx, compiled(t, s.name), s.in, &o); err != nil {
		t.Fatal(err)
	}
	out, err := e.Wait(ctx, id)
	for _, say := range s.say {
		if out == nil {
			t.Fatal(err)
		}
		if say.Channel != "" {
			out, err = e.Send(ctx, id, say.Channel, say.Value.V, "")
		} else {
			out, err = e.Answer(ctx, id, say.Pause, say.Value.V, "")
		}
	}
	if out == nil {
		for _, ev := range historyOf(t, e.Client, id).Events {
			if f := ev.GetWorkflowTaskFailedEventAttributes(); f != nil {
				t.Log(f.Cause, f.Failure.GetMessage())
			}
		}
		t.Fatal(err)
	}
	return out
}

// A run ends on a server as it does on one machine; its history replays, and has no secret.
func TestServerSameOutcome(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	var there effects
	rt := demoRuntime(t, &there)
	working(t, c, rt, nil)
	e := &Engine{Client: c}
	for _, tt := range samples {
		t.Run(tt.name, func(t *testing.T) {
			var here effects
			want := onOneMachine(t, compiled(t, tt.name), tt.in, demoRuntime(t, &here), tt.say...)
			got := onServer(t, e, "R1-"+tt.name, tt, Options{})
			text := strings.ReplaceAll(plain(t, got), "R1-"+tt.name, "R1")
			if diff := cmp.Diff(keyless(plain(t, want)), keyless(text)); diff != "" {
				t.Errorf("outcome (-one machine +server):\n%s", diff)
			}
			h := historyOf(t, c, "R1-"+tt.name)
			t.Logf("%d events", len(h.Events))
			replays(t, h, "R1-"+tt.name, rt)
			shown, err := protojson.Marshal(h)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(shown), canary) || strings.Contains(decodedText(h), canary) {
				t.Error("the history has a secret")
			}
		})
	}
}

// untraced is an outcome without its trace, which is of the last execution.
func untraced(out *flow.Outcome) *flow.Outcome {
	short := *out
	short.Trace = nil
	return &short
}

// A run comes to the same however many executions of its workflow it takes.
func TestServerContinues(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	var there effects
	e := &Engine{Client: c}
	for _, tt := range samples {
		for _, most := range []int{10, 25, 60} {
			id := fmt.Sprint("R-", tt.name, "-", most)
			t.Run(id, func(t *testing.T) {
				var here effects
				working(t, c, demoRuntime(t, &there), nil)
				want := onOneMachine(t, compiled(t, tt.name), tt.in, demoRuntime(t, &here), tt.say...)
				got := onServer(t, e, id, tt, Options{MaxEvents: most})
				text := strings.ReplaceAll(plain(t, untraced(got)), id, "R1")
				if diff := cmp.Diff(keyless(plain(t, untraced(want))), keyless(text)); diff != "" {
					t.Errorf("outcome (-one machine +server):\n%s", diff)
				}
				n := len(historyOf(t, c, id).Events)
				t.Logf("%d events in the last execution", n)
			})
		}
	}
}

// The history of a run tells of all executions of its workflow: each step that ended in one of them is there once.
func TestServerHistory(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	working(t, c, demoRuntime(t, &effects{}), nil)
	e := &Engine{Client: c}
	guarded := samples[slices.IndexFunc(samples, func(s sample) bool { return s.name == "guarded" })]
	ended := func(id string, most int) (steps []string) {
		onServer(t, e, id, guarded, Options{MaxEvents: most})
		run, err := runs.Load(t.Context(), &Source{Engine: e}, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range run.Events {
			if event.Kind == trace.StepEnd {
				steps = append(steps, event.Step)
			}
		}
		slices.Sort(steps)
		return steps
	}
	one, many := ended("H1", 0), ended("H2", 25)
	if diff := cmp.Diff(one, many); diff != "" || !slices.Contains(one, "pay[0]") || !slices.Contains(one, "note") {
		t.Errorf("steps that ended (-one execution +many):\n%s", diff)
	}
	if n := len(executionsOf(t, c, "H2")); n < 3 {
		t.Errorf("%d executions", n)
	}
}

// Of several answers to one pause a run takes one; what does not fit leaves no event. A token is an answer's name. A late
// one meets a used token, or, at the same moment, the answer before it.
func TestServerAnswers(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	working(t, c, demoRuntime(t, &effects{}), nil)
	e := &Engine{Client: c, TokenKey: bytes.Repeat([]byte("k"), 32)}
	wf := compiled(t, head+"steps:\n  ask: {uses: human, with: {prompt: \"Sure?\"}}\n  more: {uses: human, needs: [ask], with: {prompt: \"Really?\"}}\noutput: [\"${{ steps.ask.output.decision }}\", \"${{ steps.more.output.decision }}\"]\n")
	id, err := e.Start(t.Context(), wf, nil, &Options{By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Wait(t.Context(), id)
	if err != nil || out.Status != flow.StatusPaused {
		t.Fatal(out, err)
	}
	before := len(historyOf(t, c, id).Events)
	if _, err := e.Answer(t.Context(), id, "ask", object("decision", "maybe"), ""); codeOf(err) != "answer.unfit" {
		t.Errorf("an answer that does not fit: %v", err)
	}
	if n := len(historyOf(t, c, id).Events); n != before {
		t.Errorf("%d events, after a refused answer %d", before, n)
	}
	token := out.Token
	var took atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := e.Resume(t.Context(), token, object("decision", "approve"), "bob"); err == nil {
				took.Add(1)
			} else if code := codeOf(err); code != "resume.invalidToken" && code != "pause.answered" {
				t.Errorf("a late answer: %v", err)
			}
		})
	}
	all.Wait()
	if took.Load() != 1 {
		t.Errorf("%d answers were taken", took.Load())
	}
	out, err = e.Answer(t.Context(), id, "more", object("decision", "reject"), "bob")
	if err != nil || fmt.Sprint(out.Output) != "[approve reject]" {
		t.Errorf("%v, %v", out.Output, err)
	}
	recs, err := e.Journal(t.Context(), id)
	if err != nil || len(recs) == 0 || recs[len(recs)-1].Kind != checkpoint.RunEnded {
		t.Errorf("%d records, %v", len(recs), err)
	}
	if _, err := e.Start(t.Context(), wf, nil, &Options{ID: id}); codeOf(err) != "run.exists" {
		t.Errorf("a second run of the id: %v", err)
	}
	if _, err := e.Journal(t.Context(), "none"); codeOf(err) != "run.notFound" {
		t.Errorf("no such run: %v", err)
	}
	list, err := e.List(t.Context(), checkpoint.Filter{Recipe: "one"})
	for ; err == nil && (len(list) == 0 || !list[0].Status.Ended()); list, err = e.List(t.Context(), checkpoint.Filter{Recipe: "one"}) {
		<-time.After(50 * time.Millisecond) // visibility is late
	}
	if err != nil || len(list) != 1 || list[0].ID != id || list[0].Status != checkpoint.OK || list[0].By != "ann" {
		t.Errorf("%+v, %v", list, err)
	}
}

// Calls go where Queues send them, to a worker that only makes calls; those that only read stay with LocalReads.
func TestServerQueues(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	var here, there effects
	working(t, c, demoRuntime(t, &here), nil)
	working(t, c, demoRuntime(t, &there), &WorkerOptions{TaskQueue: "far", OnlyCalls: true})
	e := &Engine{Client: c}
	out := onServer(t, e, "Q1", samples[0], Options{Queues: map[string]string{"demo.work": "far"}, LocalReads: true})
	if out.Status != flow.StatusOK || here.count["work 7"] != 0 || there.count["work 7"] != 1 || here.count["charge 5"] != 1 {
		t.Errorf("%s %v, here %v, there %v", out.Status, out.Err, here.count, there.count)
	}
	local := 0
	for _, event := range historyOf(t, c, "Q1").Events {
		if a := event.GetMarkerRecordedEventAttributes(); a.GetMarkerName() == "LocalActivity" {
			local++
		}
	}
	if local != 3 { // the offer, the step fetch, and the agent's call of demo.lookup
		t.Errorf("%d local activities", local)
	}
}
