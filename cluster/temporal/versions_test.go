package temporal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/runtime"
	flow "github.com/braise-run/braise/workflow"
)

// noted waits until a run has a note with these texts.
func noted(t *testing.T, e *Engine, id string, texts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		notes, err := e.Notes(ctx, id)
		all := strings.Join(notes, "\n")
		missing := ""
		for _, text := range texts {
			if !strings.Contains(all, text) {
				missing = text
			}
		}
		if err == nil && missing == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the notes of %s lack %q: %q, %v", id, missing, notes, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// current makes a version of the workers of a queue the current one, as soon as the server knows it.
func current(t *testing.T, c client.Client, queue, build string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		_, err := c.WorkerDeploymentClient().GetHandle(queue).SetCurrentVersion(ctx,
			client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build})
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// buildOf is the version that the present execution of a run keeps to.
func buildOf(t *testing.T, c client.Client, id string) string {
	t.Helper()
	info, err := c.DescribeWorkflowExecution(t.Context(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	return info.GetWorkflowExecutionInfo().GetVersioningInfo().GetDeploymentVersion().GetBuildId()
}

// upgrades reports whether the server tells runs that their workers have another version.
func upgrades(t *testing.T, c client.Client) bool {
	t.Helper()
	info, err := c.WorkflowService().GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(info.ServerVersion, "%d.%d", &major, &minor); err != nil {
		t.Fatal(info.ServerVersion, err)
	}
	return major > 1 || minor >= 31
}

// A run keeps to the version of the workers that it began with, or moves to the current one while it is paused, where the
// server supports that. Notes say what is missing.
func TestServerVersions(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	e := &Engine{Client: c}
	var old, young effects
	wf := compiled(t, head+"steps:\n  a: {uses: demo.work, with: {n: 1}}\n  ask: {uses: human, needs: [a], with: {prompt: \"Sure?\"}}\n"+
		"  b: {uses: demo.work, needs: [ask], with: {n: 2}}\noutput: \"${{ steps.ask.output.decision }}\"\n")
	begin := func(id string) {
		t.Helper()
		if _, err := e.Start(t.Context(), wf, nil, &Options{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	paused := func(id, build string) {
		t.Helper()
		if out, err := e.Wait(t.Context(), id); err != nil || out.Status != flow.StatusPaused {
			t.Fatal(out, err)
		}
		if got := buildOf(t, c, id); got != build {
			t.Errorf("%s is at version %q, want %q", id, got, build)
		}
	}
	working(t, c, demoRuntime(t, &old), &WorkerOptions{Build: "v1"})
	begin("first")
	noted(t, e, "first", `no version of the workers of the task queue "braise" is the current one; there are ["v1"]`)
	current(t, c, "braise", "v1")
	paused("first", "v1")

	working(t, c, demoRuntime(t, &young), &WorkerOptions{Build: "v2"})
	current(t, c, "braise", "v2")
	begin("second")
	paused("second", "v2")
	if young.count["work 1"] != 1 || old.count["work 1"] != 1 {
		t.Errorf("v1 made %v, v2 %v", old.count, young.count)
	}
	out, err := e.Answer(t.Context(), "first", "ask", object("decision", "approve"), "")
	if err != nil || out.Output != "approve" {
		t.Fatal(out, err)
	}
	want, by := "v1", &old
	if upgrades(t, c) {
		want, by = "v2", &young
	}
	if got := buildOf(t, c, "first"); got != want || by.count["work 2"] != 1 {
		t.Errorf("the first run ends at version %q, want %q; v1 made %v, v2 %v", got, want, old.count, young.count)
	}

	_, err = c.UpdateWorkflowExecutionOptions(t.Context(), client.UpdateWorkflowExecutionOptionsRequest{WorkflowId: "second",
		WorkflowExecutionOptionsChanges: client.WorkflowExecutionOptionsChanges{
			VersioningOverride: &client.VersioningOverrideChange{Value: &client.PinnedVersioningOverride{
				Version: worker.WorkerDeploymentVersion{DeploymentName: "braise", BuildID: "v1"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := e.Answer(t.Context(), "second", "ask", object("decision", "reject"), ""); err != nil || out.Output != "reject" ||
		old.count["work 2"] == 0 {
		t.Errorf("%+v, %v, %v", out, err, old.count)
	}
}

// Workers that execute something else cannot continue a run: it waits and says why, and the right ones end it.
func TestServerWrongWorkers(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	e := &Engine{Client: c}
	stop := working(t, c, demoRuntime(t, &effects{}), nil)
	id, err := e.Start(t.Context(), compiled(t, asks), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := e.Wait(t.Context(), id); err != nil || out.Status != flow.StatusPaused {
		t.Fatal(out, err)
	}
	stop()
	w := worker.New(c, DefaultTaskQueue, worker.Options{})
	other := newWorker(demoRuntime(t, &effects{}))
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, in *input, packed []byte) (*ended, error) {
		if err := workflow.Sleep(ctx, time.Hour); err != nil {
			return nil, err
		}
		return other.run(ctx, in, packed)
	}, workflow.RegisterOptions{Name: runWorkflow})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := e.Answer(ctx, id, "ask", object("decision", "approve"), "")
		answered <- err
	}()
	if err := c.SignalWorkflow(t.Context(), id, "", "nothing", nil); err != nil { // a task that is in the history
		t.Fatal(err)
	}
	noted(t, e, id, "the workflow task fails again and again", "TMPRL1100")
	w.Stop()
	working(t, c, demoRuntime(t, &effects{}), nil)
	err = <-answered
	cancel()
	if err != nil { // the update may be gone with its task
		if _, err = e.Answer(t.Context(), id, "ask", object("decision", "approve"), ""); err != nil && codeOf(err) != "pause.answered" {
			t.Fatal(err)
		}
	}
	if out, err := e.Wait(t.Context(), id); err != nil || out.Status != flow.StatusOK {
		t.Errorf("%+v, %v", out, err)
	}
}

// What comes for a run that is over says what became of it.
func TestServerLate(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	e := &Engine{Client: c}
	stop := working(t, c, demoRuntime(t, &effects{}), nil)
	for _, id := range []string{"answered", "cancelled"} {
		if _, err := e.Start(t.Context(), compiled(t, asks), nil, &Options{ID: id}); err != nil {
			t.Fatal(err)
		}
		if out, err := e.Wait(t.Context(), id); err != nil || out.Status != flow.StatusPaused {
			t.Fatal(out, err)
		}
	}
	if _, err := e.Answer(t.Context(), "answered", "ask", object("decision", "approve"), "ada"); err != nil {
		t.Fatal(err)
	}
	if out, _ := e.Cancel(t.Context(), "cancelled", "no", "ada"); out == nil || out.Status != flow.StatusCancelled {
		t.Fatal(out)
	}
	late := func(id, channel, code, text string) {
		t.Helper()
		var err error
		if channel != "" {
			_, err = e.Send(t.Context(), id, channel, 1, "")
		} else {
			_, err = e.Answer(t.Context(), id, "ask", object("decision", "approve"), "")
		}
		if codeOf(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %s", id, err, code)
		}
	}
	late("answered", "", "pause.answered", `pause "ask" was answered by "ada"`)
	late("cancelled", "", "run.ended", `run "cancelled" is over (cancelled)`)
	late("cancelled", "c", "channel.closed", `run "cancelled" is over`)
	late("nobody", "", "run.notFound", "nobody")
	stop()
}

// Who pauses or resets the activity of a call holds up what may be repeated, and lets alone what may not.
func TestServerPausedActivity(t *testing.T) {
	was, wasBeat := heartbeat, beat
	heartbeat, beat = 2*time.Second, 300*time.Millisecond
	defer func() { heartbeat, beat = was, wasBeat }()
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	for _, tt := range []struct {
		effect       runtime.Effect
		reset        bool
		begun, ended int
	}{{runtime.Idempotent, false, 2, 1}, {runtime.Idempotent, true, 2, 1}, {runtime.External, false, 1, 1}, {runtime.External, true, 1, 1}} {
		t.Run(fmt.Sprint(tt.effect, tt.reset), func(t *testing.T) {
			rt, calls, began, goes := demoRuntime(t, &effects{}), &effects{}, make(chan bool, 9), make(chan bool)
			rt.Tools = append(rt.Tools, runtime.NewTool(runtime.ToolSpec{Name: "demo.slow", Effect: tt.effect},
				func(ctx context.Context, _ map[string]any) (any, error) {
					calls.note("begun")
					began <- true
					select {
					case <-goes:
						calls.note("ended")
						return "ok", nil
					case <-ctx.Done():
						calls.note("stopped: %v", errors.Is(ctx.Err(), context.Canceled))
						return nil, ctx.Err()
					}
				}))
			id := fmt.Sprint(tt.effect, "-", tt.reset)
			e := &Engine{Client: c, TaskQueue: id}
			working(t, c, rt, &WorkerOptions{TaskQueue: id})
			if _, err := e.Start(t.Context(), compiled(t, head+"steps: {a: {uses: demo.slow}}\n"), nil, &Options{ID: id}); err != nil {
				t.Fatal(err)
			}
			<-began
			run := &commonpb.WorkflowExecution{WorkflowId: id}
			var err error
			if tt.reset {
				_, err = c.WorkflowService().ResetActivity(t.Context(), &workflowservice.ResetActivityRequest{Namespace: "default", Execution: run,
					Activity: &workflowservice.ResetActivityRequest_Type{Type: callActivity}})
			} else {
				_, err = c.WorkflowService().PauseActivity(t.Context(), &workflowservice.PauseActivityRequest{Namespace: "default", Execution: run,
					Activity: &workflowservice.PauseActivityRequest_Type{Type: callActivity}})
			}
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(3 * time.Second) // longer than a worker may be silent
			if !tt.reset {
				_, err = c.WorkflowService().UnpauseActivity(t.Context(), &workflowservice.UnpauseActivityRequest{Namespace: "default", Execution: run,
					Activity: &workflowservice.UnpauseActivityRequest_Type{Type: callActivity}})
				if err != nil {
					t.Fatal(err)
				}
			}
			if tt.begun == 2 {
				<-began
			}
			close(goes)
			out, err := e.Wait(t.Context(), id)
			if out == nil || out.Status != flow.StatusOK || calls.count["begun"] != tt.begun || calls.count["ended"] != tt.ended {
				t.Errorf("%+v, %v, %v", out, err, calls.count)
			}
		})
	}
}

// Runs are found by search attributes, once somebody has registered them.
func TestServerSearchAttributes(t *testing.T) {
	bare := servertest.Start(t)
	c := bare.Client(client.Options{Logger: quiet{}})
	w, err := NewWorker(c, demoRuntime(t, &effects{}), &WorkerOptions{SearchAttributes: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); codeOf(err) != "cluster.searchAttributes" || !strings.Contains(err.Error(), "--name BraiseRecipe --type Keyword") {
		t.Errorf("nobody has registered them: %v", err)
	}
	c = servertest.Start(t, "--search-attribute="+RecipeAttribute+"=Keyword", "--search-attribute="+StatusAttribute+"=Keyword").
		Client(client.Options{Logger: quiet{}})
	working(t, c, demoRuntime(t, &effects{}), &WorkerOptions{SearchAttributes: true})
	e := &Engine{Client: c}
	count := func(status string) int64 {
		resp, err := c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: RecipeAttribute + " = 'one' AND " + StatusAttribute + " = '" + status + "' AND ExecutionStatus != 'ContinuedAsNew'"})
		if err != nil {
			t.Fatal(err)
		}
		return resp.Count
	}
	eventually := func(status string) {
		t.Helper()
		for n := 0; count(status) != 1; n++ {
			if n == 200 {
				t.Fatalf("no run is %s", status)
			}
			<-time.After(50 * time.Millisecond) // visibility is late
		}
	}
	id, err := e.Start(t.Context(), compiled(t, asks), nil, &Options{MaxEvents: minEvents})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := e.Wait(t.Context(), id); err != nil || out.Status != flow.StatusPaused {
		t.Fatal(out, err)
	}
	eventually("paused")
	if _, err := e.Answer(t.Context(), id, "ask", object("decision", "approve"), ""); err != nil {
		t.Fatal(err)
	}
	eventually("ok")
	if count("paused") != 0 {
		t.Error("the run is paused and over")
	}
}
