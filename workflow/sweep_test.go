package workflow_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func TestSweep(t *testing.T) {
	for _, tt := range []struct {
		name, step string
		after      time.Duration // the pause comes to its time
		want       any           // the output
		code       string        // or the error
	}{
		{"a wait", "{uses: wait, with: {duration: 1h}}", time.Hour, nil, ""},
		{"a person who does not answer", "{uses: human, with: {prompt: Go on, expires: 2h, on_expire: reject}}", 2 * time.Hour,
			map[string]any{"decision": "reject", "form": nil}, ""},
		{"a person who does not answer, with a value", "{uses: human, with: {prompt: Go on, expires: 2h, on_expire: {set: late}}}", 2 * time.Hour, "late", ""},
		{"a person who had to answer", "{uses: human, with: {prompt: Go on, expires: 2h, on_expire: fail}}", 2 * time.Hour, nil, "pause.expired"},
		{"an event that does not come", "{uses: wait, with: {event: paid, timeout: 3h}}", 3 * time.Hour, nil, "pause.expired"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
				wf := load(t, []byte(head+"steps:\n  it: "+tt.step+"\noutput: ${{ steps.it.output }}\n"))
				out, err := wf.Run(t.Context(), nil, rt)
				if err != nil || out.Status != workflow.StatusPaused {
					t.Fatal(out.Status, err)
				}
				time.Sleep(tt.after - time.Second)
				if outs, err := workflow.Sweep(t.Context(), rt, nil); err != nil || len(outs) > 0 {
					t.Fatalf("too early: %d outcomes, %v", len(outs), err)
				}
				time.Sleep(time.Second)
				outs, err := workflow.Sweep(t.Context(), rt, nil)
				if err != nil || len(outs) != 1 {
					t.Fatalf("%d outcomes, %v", len(outs), err)
				}
				if got := outs[0]; tt.code == "" && (got.Err != nil || !cmp.Equal(got.Output, tt.want)) || tt.code != "" && (got.Err == nil || got.Error().Code != tt.code) {
					t.Errorf("output %v, error %v", got.Output, got.Err)
				}
				if outs, err := workflow.Sweep(t.Context(), rt, nil); err != nil || len(outs) > 0 {
					t.Errorf("once more: %d outcomes, %v", len(outs), err)
				}
				if out, err := workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); err == nil || out.Error().Code != "resume.invalidToken" {
					t.Errorf("the token of a pause that is over: %v", err)
				}
			})
		})
	}
}

func TestFork(t *testing.T) {
	log := &effects{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{log.external("test.act"), gate}, Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
	wf := load(t, []byte(pausing))
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	if out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at      string
		edits   workflow.Edits
		effects []string
		output  any
		status  workflow.Status
	}{
		{"last", workflow.Edits{}, []string{"test.act approve"}, "approve", workflow.StatusOK},
		{"last", workflow.Edits{Outputs: map[string]any{"ask": "edited"}}, []string{"test.act edited"}, "edited", workflow.StatusOK},
		{"ask", workflow.Edits{}, nil, nil, workflow.StatusPaused},
		{"beside", workflow.Edits{}, []string{"test.act 3", "test.act approve"}, "approve", workflow.StatusOK},
		{"first", workflow.Edits{}, []string{"test.act 1", "test.act 3"}, nil, workflow.StatusPaused},
	} {
		t.Run(fmt.Sprintf("%s, %v", tt.at, tt.edits.Outputs), func(t *testing.T) {
			log.lines = nil
			fork, err := workflow.Fork(t.Context(), out.RunID, tt.at, tt.edits, rt, nil)
			if err != nil || fork.Status != tt.status || !cmp.Equal(fork.Output, tt.output) || fork.RunID == out.RunID {
				t.Fatalf("%s, output %v, %v", fork.Status, fork.Output, err)
			}
			if diff := cmp.Diff(tt.effects, log.lines); diff != "" {
				t.Errorf("effects (-want +got)\n%s", diff)
			}
			again, err := workflow.Recover(t.Context(), fork.RunID, rt, nil) // its own journal is whole
			if err != nil || again.Status != tt.status || !cmp.Equal(again.Output, tt.output) || len(log.lines) != len(tt.effects) {
				t.Errorf("recovered: %s, output %v, %v", again.Status, again.Output, err)
			}
			if sum, _, err := rt.Store.Load(t.Context(), fork.RunID, 0); err != nil || sum.Parent != out.RunID {
				t.Errorf("parent %q, %v", sum.Parent, err)
			}
		})
	}
	if fork, err := workflow.Fork(t.Context(), out.RunID, "lst", workflow.Edits{}, rt, nil); err == nil || fork.Error().Code != "fork.unknownStep" {
		t.Errorf("an unknown step: %v", err)
	}
}
