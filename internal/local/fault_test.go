package local_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// After a panic of the engine itself another process can take the run: its lease is given back.
func TestFaultGivesLeaseBack(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	r, err := recipe.Parse("r.yaml", []byte("apiVersion: braise/v1\nname: r\nsteps:\n  a: {uses: set, with: {value: 1}}\noutput: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := &checkpoint.Memory{}
	rt := &runtime.Runtime{Store: store, NewRunID: func() string { return "run" }}
	out, err := wf.Run(local.With(t.Context(), func(*local.Run) { panic("here") }), nil, rt)
	if err == nil || err.Error() != "engine: panic: here" || out.Status != workflow.StatusError {
		t.Errorf("%v, %v", out.Status, err)
	}
	if _, err := store.Claim(t.Context(), "run", "another", time.Minute); err != nil {
		t.Errorf("Claim: %v", err)
	}
}
