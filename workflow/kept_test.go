package workflow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// trust 5.4: a run that pauses without a store is kept until its pauses have expired, else for a day: in a cache and in the
// process.
func TestPausesWithoutAStoreAreKeptForATime(t *testing.T) {
	for _, tt := range []struct {
		name, steps string
		want        time.Duration
	}{
		{"no expiry", "  a: {uses: human, with: {prompt: Yes}}\n", 24 * time.Hour},
		{"one expires", "  a: {uses: human, with: {prompt: Yes, expires: 1h}}\n", time.Hour},
		{"the last counts", "  a: {uses: human, with: {prompt: Yes, expires: 1h}}\n  b: {uses: human, with: {prompt: Yes, expires: 72h}}\n", 72 * time.Hour},
	} {
		for name, cache := range map[string]checkpoint.Cache{"process": nil, "cache": &checkpoint.MemoryCache{}} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rt := &runtime.Runtime{Resume: resume.PassThrough{}, Cache: cache}
					out, err := load(t, []byte(head+"steps:\n"+tt.steps)).Run(t.Context(), nil, rt)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(tt.want - time.Second)
					if !kept(t, out.RunID, rt) {
						t.Errorf("it is gone before %v", tt.want)
					}
					time.Sleep(2 * time.Second)
					if kept(t, out.RunID, rt) {
						t.Errorf("it is kept for longer than %v", tt.want)
					}
				})
			})
		}
	}
}

// A run that somebody has resumed is kept for the time of the pause that it has now.
func TestRunThatGoesOnIsKeptAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &runtime.Runtime{Resume: resume.PassThrough{}}
		wf := load(t, []byte(head+"steps:\n  a: {uses: human, with: {prompt: Yes}}\n  b: {uses: human, needs: [a], with: {prompt: Yes}}\n"))
		out, _ := wf.Run(t.Context(), nil, rt)
		time.Sleep(23 * time.Hour)
		if out, _ = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); out.Status != workflow.StatusPaused {
			t.Fatalf("%s, %v", out.Status, out.Err)
		}
		time.Sleep(23 * time.Hour)
		if !kept(t, out.RunID, rt) {
			t.Error("it is gone after 23 hours")
		}
		time.Sleep(2 * time.Hour)
		if kept(t, out.RunID, rt) {
			t.Error("it is kept after 25 hours")
		}
	})
}

// kept reports whether a run without a store is known, by naming a pause that it does not have.
func kept(t *testing.T, runID string, rt *runtime.Runtime) bool {
	out, _ := workflow.Answer(t.Context(), runID, "none", nil, rt, nil)
	e, ok := out.Err.(*runtime.Error)
	return ok && e.Code == "resume.invalidToken"
}
