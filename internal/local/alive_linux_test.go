package local_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// trust 6.4: processes of a call that still live are shown, and the call is not made again before they have ended,
// unless that is forced.
func TestCallThatStillRuns(t *testing.T) {
	for _, force := range []bool{false, true} {
		calls, kill := 0, func() {}
		pids := []int{}
		pay := runtest.Tool("test.pay", func(ctx context.Context, _ map[string]any) (any, error) {
			if calls++; calls > 1 {
				return "paid", nil
			}
			cmd := exec.Command("sleep", "600")
			cmd.Env = append(os.Environ(), "BRAISE_IDEMPOTENCY_KEY="+resume.IdempotencyKey(ctx))
			if err := cmd.Start(); err != nil {
				return nil, err
			}
			pids = append(pids, cmd.Process.Pid)
			kill = func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Tools: []runtime.Tool{pay}, Resume: resume.PassThrough{}}
		out, _ := runtest.Load(t, []byte(runtest.Head+"steps:\n  p1: {uses: test.pay, timeout: 100ms}\n")).Run(t.Context(), nil, rt)
		t.Cleanup(kill)
		runtest.OnlyPause(t, out, "p1", "indeterminate")
		if diff := cmp.Diff(pids, out.Pauses[0].Call.PIDs); diff != "" {
			t.Errorf("processes (-want +got)\n%s", diff)
		}
		retry := map[string]any{"decision": "retry"}
		refused, _ := workflow.Resume(t.Context(), out.Token, retry, rt, nil)
		if runtest.ErrorCode(refused) != "call.alive" || calls != 1 {
			t.Errorf("%s, %v, %d calls", refused.Status, refused.Err, calls)
		}
		opts := &workflow.ResumeOptions{Force: force}
		if !force {
			kill()
		}
		if out, _ = workflow.Resume(t.Context(), out.Token, retry, rt, opts); out.Status != workflow.StatusOK || calls != 2 {
			t.Errorf("%s, %v, %d calls", out.Status, out.Err, calls)
		}
	}
}
