package workflow_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// sleeper is a runtime with a tool that takes the seconds in its argument s.
func sleeper() *runtime.Runtime {
	sleep := tool("test.sleep", func(ctx context.Context, args map[string]any) (any, error) {
		s, _ := args["s"].(int64)
		select {
		case <-time.After(time.Duration(s) * time.Second):
			return s, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return &runtime.Runtime{Tools: []runtime.Tool{sleep}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
}

var approve = map[string]any{"decision": "approve"}

// Time counts while a run is worked on, in all its legs together, and not while it is paused.
func TestTimeOfAllLegs(t *testing.T) {
	for _, tt := range []struct {
		name, text, code string
		changed          string // in text, for the second leg
		restart          bool
		want             time.Duration // from the answer to the end
	}{
		{name: "the run's", code: "limits.wall_time", want: 4 * time.Second, text: `limits: {wall_time: 10s}
steps:
  one: {uses: test.sleep, with: {s: 6}}
  ask: {uses: human, needs: [one], with: {prompt: Go on}}
  two: {uses: test.sleep, needs: [ask], with: {s: 5}}
`},
		{name: "of a run that begins again", code: "limits.wall_time", restart: true, want: 4 * time.Second, text: `limits: {wall_time: 10s}
steps:
  one: {uses: test.sleep, with: {s: 6}}
  ask: {uses: human, needs: [one], with: {prompt: Go on}}
`},
		{name: "of a run with another definition", code: "limits.wall_time", changed: "s: 5", want: 4 * time.Second, text: `limits: {wall_time: 10s}
steps:
  one: {uses: test.sleep, with: {s: 6}}
  ask: {uses: human, needs: [one], with: {prompt: Go on}}
  two: {uses: test.sleep, needs: [ask], with: {s: 5}}
`},
		{name: "of a body", code: "step.timeout", want: 4 * time.Second, text: `steps:
  all:
    uses: recipe
    timeout: 10s
    with:
      steps:
        one: {uses: test.sleep, with: {s: 6}}
        ask: {uses: human, needs: [one], with: {prompt: Go on}}
        two: {uses: test.sleep, needs: [ask], with: {s: 5}}
`},
		{name: "of a body that began later", code: "limits.wall_time", want: 8 * time.Second, text: `steps:
  before: {uses: test.sleep, with: {s: 4}}
  all:
    uses: recipe
    needs: [before]
    limits: {wall_time: 10s}
    with:
      steps:
        one: {uses: test.sleep, with: {s: 2}}
        ask: {uses: human, needs: [one], with: {prompt: Go on}}
        two: {uses: test.sleep, needs: [ask], with: {s: 9}}
`},
		{name: "enough", want: 4 * time.Second, text: `limits: {wall_time: 11s}
steps:
  one: {uses: test.sleep, with: {s: 6}}
  ask: {uses: human, needs: [one], with: {prompt: Go on}}
  two: {uses: test.sleep, needs: [ask], with: {s: 4}}
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := sleeper()
				if tt.restart {
					rt.Interrupt = resume.Restart
				}
				out, err := load(t, []byte(head+tt.text)).Run(t.Context(), nil, rt)
				if err != nil || out.Status != workflow.StatusPaused {
					t.Fatal(out.Status, err)
				}
				time.Sleep(time.Hour)
				var opts *workflow.ResumeOptions
				if tt.changed != "" {
					opts = &workflow.ResumeOptions{Workflow: load(t, []byte(head+strings.Replace(tt.text, tt.changed, "s: 7", 1))), AcceptChanged: true}
				}
				begin := time.Now()
				out, _ = workflow.Resume(t.Context(), out.Token, approve, rt, opts)
				if took := time.Since(begin); took != tt.want {
					t.Errorf("took %v, want %v", took, tt.want)
				}
				if e := out.Error(); (e == nil) != (tt.code == "") || e != nil && e.Code != tt.code {
					t.Errorf("%s, %v; want code %q", out.Status, out.Err, tt.code)
				}
			})
		})
	}
}

// The time of a run that was cancelled counts, call under way and all; a call that is made again has its
// own timeout from the start.
func TestTimeOfInterruptedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := sleeper()
		wf := load(t, []byte(head+`limits: {wall_time: 30s}
steps:
  one: {uses: test.sleep, timeout: 9s, on_error: continue, with: {s: 8}}
  two: {uses: test.sleep, needs: [one], with: {s: 60}}
`))
		rt.Tools[0] = idempotent{rt.Tools[0].(valueTool)}
		id := ""
		for range 3 { // 5 s each
			ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, context.Canceled)
			var out *workflow.Outcome
			if id == "" {
				out, _ = wf.Run(ctx, nil, rt)
			} else {
				out, _ = wf.Recover(ctx, id, rt)
			}
			cancel()
			if id = out.RunID; out.Status != workflow.StatusCancelled || !errors.Is(out.Err, context.Canceled) {
				t.Fatal(out.Status, out.Err)
			}
			time.Sleep(time.Minute)
		}
		begin := time.Now()
		out, _ := wf.Recover(t.Context(), id, rt)
		if took := time.Since(begin); took != 15*time.Second || out.Error() == nil || out.Error().Code != "limits.wall_time" {
			t.Errorf("%s, %v after %v", out.Status, out.Err, took)
		}
		if out.Artefact["one"] != int64(8) {
			t.Errorf("artefact %v", out.Artefact)
		}
	})
}

// idempotent is a tool that may be called again.
type idempotent struct{ valueTool }

func (t idempotent) Spec() runtime.ToolSpec {
	spec := t.valueTool.Spec()
	spec.Effect = runtime.Idempotent
	return spec
}
