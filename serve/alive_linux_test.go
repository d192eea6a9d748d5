package serve_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// trust 7.12: a pause about a call has the processes of the call that still live.
func TestProcessesOfACall(t *testing.T) {
	l := newLab(t, nil)
	cmd := exec.Command("sleep", "600")
	pay := runtimetest.NewTool("test.pay", func(ctx context.Context, _ json.RawMessage) (any, error) {
		cmd.Env = append(os.Environ(), "BRAISE_IDEMPOTENCY_KEY="+resume.IdempotencyKey(ctx))
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	l.rt.Tools = []runtime.Tool{pay}
	id := l.run(compile(t, "apiVersion: braise/v1\nname: refund\nsteps:\n  p1: {uses: test.pay, timeout: 100ms}\n"), nil)
	made := l.post(operator, "/api/v1/runs/"+id+"/pauses/p1/tokens", `{}`).is(200).json()
	look, _ := json.Marshal(map[string]any{"token": made["token"]})
	check := func(pids any) {
		t.Helper()
		l.get(reader, "/api/v1/runs/"+id+"/output").is(200).has(map[string]any{"pauses.0.call.tool": "test.pay", "pauses.0.call.pids": pids})
		l.get(reader, "/api/v1/runs/"+id).is(200).has(map[string]any{"pending.0.call.pids": pids})
		l.get(reader, "/api/v1/pauses").is(200).has(map[string]any{"pauses.0.call.pids": pids})
		l.post("", "/api/v1/token/look", string(look)).is(200).has(map[string]any{"call.pids": pids})
	}
	check([]any{float64(cmd.Process.Pid)})
	alive := request{token: reader, header: http.Header{"If-None-Match": {l.get(reader, "/api/v1/runs/"+id).header.Get("ETag")}}}
	l.send("GET", "/api/v1/runs/"+id, alive).is(304)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	l.send("GET", "/api/v1/runs/"+id, alive).is(200) // nothing was recorded, and yet it shows something else
	check(nil)
}
