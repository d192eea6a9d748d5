package workflow_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// heard is a sink that notes what steps say, and whether the store had it by then.
type heard struct {
	store *checkpoint.Memory
	said  []string
	early []string // what the store did not have
}

func (h *heard) Emit(e trace.Event) {
	if e.Kind != trace.StepSaid {
		return
	}
	h.said = append(h.said, e.Step+": "+e.Data.Get("text").(string))
	_, recs, err := h.store.Load(context.Background(), e.Run, 0)
	if err != nil || !slices.ContainsFunc(recs, func(rec checkpoint.Record) bool { return rec.Kind == "step.said" && rec.Path == e.Step }) {
		h.early = append(h.early, e.Step)
	}
}

// What a step says is recorded, then shown, and shown once: not by the executions that resume, recover or fork the run.
func TestSaidOnce(t *testing.T) {
	store := &checkpoint.Memory{}
	h := &heard{store: store}
	rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Trace: []trace.Sink{h}}
	wf := load(t, []byte(head+`steps:
  each: {uses: say, foreach: {in: [a, b]}, with: {text: "item ${{ item }}"}}
  ask: {uses: human, needs: [each], with: {prompt: Well?}}
  last: {uses: say, needs: [ask], with: {text: done, value: {n: 7}}}
output: ${{ steps.last.output }}
`))
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"each[0]: item a", "each[1]: item b"}, h.said); diff != "" {
		t.Errorf("until the pause (-want +got):\n%s", diff)
	}
	again, _ := workflow.Recover(t.Context(), out.RunID, rt, nil)
	if out, err = workflow.Resume(t.Context(), again.Token, map[string]any{"decision": "approve"}, rt, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"text": "done", "value": map[string]any{"n": int64(7)}}, out.Output); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	forked, err := workflow.Fork(t.Context(), out.RunID, "last", workflow.Edits{}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"each[0]: item a", "each[1]: item b", "last: done", "last: done"}, h.said); diff != "" || h.early != nil {
		t.Errorf("in all executions (-want +got):\n%s\nbefore they were recorded: %v", diff, h.early)
	}
	run, err := history.Load(t.Context(), store, out.RunID)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range run.Events {
		if e.Kind == trace.StepSaid {
			told = append(told, e.Step+" "+e.Data.Get("text").(string))
		}
	}
	if diff := cmp.Diff([]string{"each[0] item a", "each[1] item b", "last done"}, told); diff != "" {
		t.Errorf("in the history (-want +got):\n%s", diff)
	}
	// A fork shows what is shared as outputs of steps that have ended, not as said again.
	if run, err = history.Load(t.Context(), store, forked.RunID); err != nil {
		t.Fatal(err)
	}
	told = nil
	for _, e := range run.Events {
		if e.Kind == trace.StepSaid || e.Kind == trace.StepEnd {
			told = append(told, fmt.Sprint(e.Kind, " ", e.Step, " ", e.Data.Get("status")))
		}
	}
	want := []string{"step.end each[0] succeeded", "step.end each[1] succeeded", "step.end ask succeeded", "step.said last <nil>", "step.end last succeeded"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("in the history of a fork (-want +got):\n%s", diff)
	}
	for _, s := range run.Steps {
		if s.Step == "each[1]" && (s.Uses != "say" || s.Status != "succeeded") {
			t.Errorf("a shared step is %+v", s)
		}
	}
}
