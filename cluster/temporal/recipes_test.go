package temporal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/recipes"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	flow "github.com/braise-run/braise/workflow"
)

// shipped is a recipe of this repository with what its braise.yaml configures. The scripts of its models begin anew.
func shipped(t *testing.T, name string) (*flow.Workflow, *runtime.Runtime) {
	t.Helper()
	dir := filepath.Join("../../recipes", name)
	if name == "agent" || name == "ingest" { // they write into their folder
		work := t.TempDir()
		if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		dir = work
	}
	config, err := host.LoadConfig(filepath.Join(dir, host.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if exec := config.Tools.Exec; exec != nil && exec.Dir == "" {
		exec.Dir = "." // in place of the working folder
	}
	rt, err := config.Runtime(dir)
	if err != nil {
		t.Fatal(err)
	}
	rt.Resume = resume.PassThrough{}
	r, err := recipe.Load(os.DirFS(dir), "recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wf, err := flow.Compile(r, &flow.Options{Tools: rt.ToolSpecs()})
	if err != nil {
		t.Fatal(err)
	}
	return wf, rt
}

// approved answers whatever a run asks with yes, and ends a talk.
func approved(t *testing.T, out *flow.Outcome, err error, answer func(pause string, v any) (*flow.Outcome, error)) *flow.Outcome {
	t.Helper()
	for n := 0; out != nil && out.Status == flow.StatusPaused; n++ {
		if n == 9 {
			t.Fatalf("it asks again and again: %+v", out.Pauses)
		}
		yes := any(map[string]any{"decision": "approve"})
		if len(out.Pauses[0].Decisions) == 0 {
			yes = "bye"
		}
		out, err = answer(out.Pauses[0].ID, yes)
	}
	if out == nil || out.Status != flow.StatusOK {
		t.Fatal(out, err)
	}
	return out
}

// Each recipe of this repository ends on a server as it does on one machine, trace included: also with two workers, of which
// one makes only calls that Queues send to it, and with many executions of a workflow, where the trace is that of the last one.
func TestServerRecipes(t *testing.T) {
	inputs := map[string]map[string]any{"changelog": {"log_file": "data/log.txt", "polish": true},
		"hitl": {"wait": "1ms"}}
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	for _, name := range recipes.Names() {
		wf, rt := shipped(t, name)
		rt.Store, rt.NewRunID = &checkpoint.Memory{}, func() string { return "R1" }
		out, err := wf.Run(t.Context(), inputs[name], rt)
		local := approved(t, out, err, func(pause string, v any) (*flow.Outcome, error) {
			return flow.Answer(t.Context(), "R1", pause, v, rt, nil)
		})
		for _, far := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/", far), func(t *testing.T) {
				if testing.Short() && !far {
					t.Skip("the other way does more")
				}
				wf, rt := shipped(t, name)
				e := &Engine{Client: c, TaskQueue: fmt.Sprint(name, far)}
				o, want := &Options{ID: e.TaskQueue}, local
				working(t, c, rt, &WorkerOptions{TaskQueue: e.TaskQueue})
				if far {
					o.Queues, o.MaxEvents, want = map[string]string{}, 30, untraced(local)
					for _, tool := range rt.Tools {
						o.Queues[tool.Spec().Name] = "far-" + name
					}
					for model := range rt.Models {
						o.Queues[model] = "far-" + name
					}
					working(t, c, rt, &WorkerOptions{TaskQueue: "far-" + name, OnlyCalls: true})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				if _, err := e.Start(ctx, wf, inputs[name], o); err != nil {
					t.Fatal(err)
				}
				out, err := e.Wait(ctx, o.ID)
				got := approved(t, out, err, func(pause string, v any) (*flow.Outcome, error) {
					return e.Answer(ctx, o.ID, pause, v, "")
				})
				if far {
					got = untraced(got)
				}
				text := strings.ReplaceAll(plain(t, got), o.ID, "R1")
				if diff := cmp.Diff(keyless(plain(t, want)), keyless(text)); diff != "" {
					t.Errorf("outcome (-one machine +server):\n%s", diff)
				}
			})
		}
	}
}
