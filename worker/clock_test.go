package worker_test

import (
	"context"
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// behind is a store with a clock: that of this machine is an hour ahead of it.
type behind struct {
	*checkpoint.Memory
	err error
}

func (s behind) Now(context.Context) (time.Time, error) { return time.Now().Add(-time.Hour), s.err }

const naps = `
apiVersion: braise/v1
name: naps
steps:
  nap: {uses: wait, with: {duration: 30m}}
  ask: {uses: human, needs: [nap], with: {prompt: Go?, expires: 10m, on_expire: reject}}
`

// A worker whose clock is an hour ahead ends neither waits nor questions early, as the clock of the store counts. The
// same holds for a sweep.
func TestClockOfTheStoreCounts(t *testing.T) {
	for name, sweeps := range map[string]bool{"worker": false, "sweep": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := behind{Memory: &checkpoint.Memory{}}
				rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}}
				id := enqueue(t, store, naps, "q")
				noon, _ := store.Now(t.Context())
				if sweeps {
					opts := &workflow.SweepOptions{Recover: true, Every: time.Second}
					ctx, stop := context.WithCancel(t.Context())
					swept := make(chan struct{})
					go func() {
						defer close(swept)
						for range workflow.Sweeps(ctx, rt, opts) { // it only has to be done
						}
					}()
					defer func() { stop(); <-swept }()
				} else {
					working(t, &worker.Worker{Queues: []string{"q"}, Runtime: rt})
				}
				due := func() time.Duration {
					run, _, err := store.Load(t.Context(), id, math.MaxInt64)
					if err != nil {
						t.Fatal(err)
					}
					return run.Due().Sub(noon)
				}
				time.Sleep(29 * time.Minute)
				if p := phase(t, store, id); p != checkpoint.PhaseWaiting || due().Round(5*time.Second) != 30*time.Minute {
					t.Errorf("after 29 m it is %s, and something is due after %v", p, due())
				}
				time.Sleep(2 * time.Minute)
				if p := phase(t, store, id); p != checkpoint.PhaseWaiting || due().Round(5*time.Second) != 40*time.Minute {
					t.Errorf("after 31 m it is %s, and something is due after %v", p, due())
				}
				if err := workflow.Signal(t.Context(), id, checkpoint.Signal{Kind: checkpoint.SignalAnswer,
					Data: []byte(`{"pause": "ask", "value": {"decision": "maybe"}}`)}, store, nil); err == nil || errorCode(err) != "answer.unfit" {
					t.Errorf("an answer before the end: %v", err)
				}
				time.Sleep(10 * time.Minute)
				if p := phase(t, store, id); p != checkpoint.PhaseOK {
					t.Errorf("after 41 m it is %s", p)
				}
			})
		})
	}
}

func errorCode(err error) string {
	e, _ := errors.AsType[*runtime.Error](err)
	if e == nil {
		return ""
	}
	return e.Code
}

// Whether a request is too old depends on the clock of the store.
func TestSignaturesGoByTheClockOfTheStore(t *testing.T) {
	store := behind{Memory: &checkpoint.Memory{}}
	tr := trigger(t, worker.TriggerConfig{Name: "t", Start: new(begun).start, Store: store,
		Signature: worker.SignedStandard, Secret: "whsec_" + base64.StdEncoding.EncodeToString(signing)})
	now, _ := store.Now(t.Context())
	for at, want := range map[time.Time]string{now: "", now.Add(time.Hour): "hook.signature"} {
		if _, err := tr.Accept(t.Context(), standard("m1", at, `{}`), []byte(`{}`)); errorCode(err) != want {
			t.Errorf("%v of %v: %v, want %q", at, now, err, want)
		}
	}
}

// A store whose clock cannot be read leaves runs with that of the machine.
func TestClockThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := behind{Memory: &checkpoint.Memory{}, err: errors.New("no")}
		id := enqueue(t, store, works, "q")
		if run, _, err := store.Load(t.Context(), id, math.MaxInt64); err != nil || !run.StartedAt.Equal(time.Now()) {
			t.Errorf("it started at %v, and now it is %v: %v", run.StartedAt, time.Now(), err)
		}
		out, err := mustCompile(naps).Run(t.Context(), nil, &runtime.Runtime{Store: store, Resume: resume.PassThrough{}})
		if err != nil || !slices.ContainsFunc(out.Diagnostics, func(d diagnostics.Diagnostic) bool {
			return d.Code == diagnostics.CodeStoreClock && strings.Contains(d.Message, "no")
		}) {
			t.Errorf("%v, diagnostics %v, want %s", err, out.Diagnostics, diagnostics.CodeStoreClock)
		}
	})
}
