package page_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// A call whose process still lives is made again only if somebody insists.
func TestRetryAlthoughItLives(t *testing.T) {
	var calls atomic.Int32
	cmd := exec.Command("sleep", "600")
	pay := runtimetest.NewTool("test.pay", func(ctx context.Context, _ json.RawMessage) (any, error) {
		if calls.Add(1) > 1 {
			return "paid", nil
		}
		cmd.Env = append(os.Environ(), "BRAISE_IDEMPOTENCY_KEY="+resume.IdempotencyKey(ctx))
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	s := newSite(t, options{recipes: map[string]string{"pays": `apiVersion: braise/v1
name: pays
steps: {pay: {uses: test.pay, timeout: 200ms}}
output: ${{ steps.pay.output }}
`}, tools: []runtime.Tool{pay}})
	id := s.run("pays", nil)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	b := s.open(olga, "#/inbox?at="+id+"/pay")
	b.sees(".pane .about", "processes")
	b.press("Call again")
	b.sees(".pane .trouble", "call.alive")
	b.axe("a call that lives")
	if n := calls.Load(); n != 1 {
		t.Fatalf("%d calls", n)
	}
	b.press("Call again although it lives")
	b.sees(".pane .said", "is recorded")
	b.status(id, "ok")
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}
