package execution_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

const shipping = runtest.Head + `
inputs: {order: integer}
steps:
  ship: {uses: test.echo, with: {order: "${{ inputs.order }}"}}
  ask: {uses: human, with: {prompt: Done?}, needs: [ship]}
output: ${{ steps.ship.output.order }}
`

// countedStore counts the writes of a store.
type countedStore struct {
	checkpoint.Store
	writes []string
}

func (s *countedStore) Create(
	ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record,
) (checkpoint.Lease, error) {
	s.writes = append(s.writes, "create")
	return s.Store.Create(ctx, run, owner, ttl, recs...)
}

// A run that is put into a queue is one write. Nothing is executed, until somebody recovers the run.
func TestEnqueue(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.db")
	db := runtest.Must(sqlite.Open(t.Context(), file, nil))
	defer db.Close()
	store := &countedStore{Store: db}
	rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{runtest.Echo}, Resume: resume.PassThrough{}, By: "host"}
	wf := runtest.Load(t, []byte(shipping))
	id, err := wf.Enqueue(t.Context(), map[string]any{"order": 7}, rt,
		&workflow.EnqueueOptions{RunID: "o-7", Queue: "default", Labels: map[string]string{"customer": "4711"}, By: "ada"})
	if err != nil || id != "o-7" {
		t.Fatal(id, err)
	}
	sum, recs, err := store.Load(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := checkpoint.Run{ID: "o-7", Recipe: "test", Digest: wf.Plan().Digest, StartedAt: sum.StartedAt, Queue: "default",
		Labels: map[string]string{"customer": "4711"}, By: "ada", Queued: true}
	if diff := cmp.Diff(want, sum.Run); diff != "" || sum.Phase() != checkpoint.PhaseQueued || len(recs) != 2 {
		t.Errorf("%s, %d records (-want +got)\n%s", sum.Phase(), len(recs), diff)
	}
	if diff := cmp.Diff([]string{"create"}, store.writes); diff != "" {
		t.Errorf("writes (-want +got)\n%s", diff)
	}

	out, err := workflow.Recover(t.Context(), id, rt, nil)
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	if sum, _, _ = store.Load(t.Context(), id, 0); sum.Phase() != checkpoint.PhaseWaiting {
		t.Errorf("its phase is %s", sum.Phase())
	}
	out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
	if err != nil || out.Output != int64(7) {
		t.Error(out.Output, err)
	}
}

// What Run refuses, Enqueue refuses too, and records nothing.
func TestEnqueueRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		input any
		rt    runtime.Runtime // with a store
		o     workflow.EnqueueOptions
		code  string
	}{
		{name: "an input that does not fit", input: map[string]any{"order": "x"}, code: "input.invalid"},
		{name: "no input", code: "input.invalid"},
		{name: "no JSON", input: func() {}, code: "input.invalid"},
		{name: "a faulty runtime", input: map[string]any{"order": 1}, rt: runtime.Runtime{Limits: runtime.Limits{MaxParallel: -1}},
			code: "runtime.invalid"},
		{name: "strict", input: map[string]any{"order": 1}, rt: runtime.Runtime{Diagnostics: diagnostics.Strict, Tools: []runtime.Tool{}},
			code: "strict.failed"},
		{name: "an id that is taken", input: map[string]any{"order": 1}, o: workflow.EnqueueOptions{RunID: "taken"}, code: "run.exists"},
		{name: "an id that is none", input: map[string]any{"order": 1}, o: workflow.EnqueueOptions{RunID: "../x"}, code: "store.failed"},
		{name: "a label that is none", input: map[string]any{"order": 1},
			o: workflow.EnqueueOptions{Labels: map[string]string{"": "x"}}, code: "store.failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &checkpoint.Memory{}
			wf := runtest.Load(t, []byte(shipping))
			rt := tt.rt
			if rt.Store = store; rt.Tools == nil {
				rt.Tools = []runtime.Tool{runtest.Echo}
			}
			if _, err := store.Create(t.Context(), checkpoint.Run{ID: "taken", Recipe: "r", Digest: "d", StartedAt: time.Now()}, "o", 0); err != nil {
				t.Fatal(err)
			}
			id, err := wf.Enqueue(t.Context(), tt.input, &rt, &tt.o)
			if got := runtest.CodeOf(err); id != "" || got != tt.code {
				t.Errorf("run %q, %s (%v), want %s", id, got, err, tt.code)
			}
			if list, err := store.List(t.Context(), checkpoint.Filter{}); len(list) != 1 {
				t.Errorf("%d runs, %v", len(list), err)
			}
		})
	}
	t.Run("no store", func(t *testing.T) {
		_, err := runtest.Load(t, []byte(shipping)).Enqueue(t.Context(), map[string]any{"order": 1}, &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo}}, nil)
		if runtest.CodeOf(err) != "enqueue.noStore" || !strings.Contains(err.Error(), "\n  hint: ") {
			t.Error(err)
		}
	})
}

// A queued run can be cancelled, deleted and swept, but not forked. A fork can be queued.
func TestQueuedRuns(t *testing.T) {
	store := &checkpoint.Memory{}
	rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{runtest.Echo}, Resume: resume.PassThrough{}}
	wf := runtest.Load(t, []byte(shipping))
	queue := func(id string) string {
		t.Helper()
		return runtest.Must(wf.Enqueue(t.Context(), map[string]any{"order": 7}, rt, &workflow.EnqueueOptions{RunID: id, Queue: "q"}))
	}
	out, err := workflow.Cancel(t.Context(), queue("a"), "not wanted", rt, nil)
	if runtest.CodeOf(err) != "run.cancelled" || out.Status != workflow.StatusCancelled {
		t.Error(out.Status, err)
	}
	if err := store.Delete(t.Context(), queue("b")); err != nil {
		t.Error(err)
	}
	if _, err = workflow.Fork(t.Context(), queue("c"), "ship", workflow.Edits{}, rt, nil); runtest.CodeOf(err) != "fork.queued" {
		t.Error(err)
	}
	if outs, err := workflow.Sweep(t.Context(), rt, nil); len(outs) != 0 || err != nil {
		t.Errorf("a sweep took %d runs: %v", len(outs), err)
	}
	outs, err := workflow.Sweep(t.Context(), rt, &workflow.SweepOptions{Recover: true})
	if len(outs) != 1 || outs[0].RunID != "c" || outs[0].Status != workflow.StatusPaused || err != nil {
		t.Fatalf("a sweep that recovers took %v: %v", outs, err)
	}

	forked, err := workflow.EnqueueFork(t.Context(), "c", "ask", workflow.Edits{}, rt, &workflow.EnqueueOptions{RunID: "d", Queue: "q", By: "ada"})
	if err != nil || forked != "d" {
		t.Fatal(forked, err)
	}
	sum, _, err := store.Load(t.Context(), "d", 0)
	if err != nil || sum.Phase() != checkpoint.PhaseQueued || sum.Parent != "c" || sum.Queue != "q" || sum.By != "ada" {
		t.Errorf("%+v, %v", sum, err)
	}
	out, err = workflow.Recover(t.Context(), "d", rt, nil)
	if err != nil || out.Status != workflow.StatusPaused || out.Artefact["ship"] == nil {
		t.Error(out.Status, out.Artefact, err)
	}
}

// A run from a queue whose caller gives up is recorded as any other: what its calls did is in the journal.
func TestEnqueuedIsCancelled(t *testing.T) {
	calls := 0
	ctx, cancel := context.WithCancel(t.Context())
	ship := runtime.NewTool(runtime.ToolSpec{Name: "ship.send", Description: "Sends."},
		func(context.Context, map[string]any) (string, error) { calls++; cancel(); return "sent", nil })
	store := &checkpoint.Memory{}
	rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{ship}, Resume: resume.PassThrough{}}
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  ship: {uses: ship.send, with: {}}
  ask: {uses: human, with: {prompt: Done?}, needs: [ship]}
`))
	id, err := wf.Enqueue(t.Context(), nil, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := workflow.Recover(ctx, id, rt, nil); runtest.CodeOf(err) != "run.cancelled" || calls != 1 {
		t.Errorf("%s, %d calls, %v", out.Status, calls, err)
	}
	out, err := workflow.Recover(t.Context(), id, rt, nil)
	if err != nil || out.Status != workflow.StatusPaused || calls != 1 || out.Artefact["ship"] != "sent" {
		t.Errorf("%s, %d calls, %v, %v", out.Status, calls, out.Artefact, err)
	}
}
