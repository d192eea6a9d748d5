package execution_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
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
				wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  it: "+tt.step+"\noutput: ${{ steps.it.output }}\n"))
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
				if got := outs[0]; tt.code == "" && (got.Err != nil || !cmp.Equal(got.Output, tt.want)) || tt.code != "" && (got.Err == nil || got.Failure().Code != tt.code) {
					t.Errorf("output %v, error %v", got.Output, got.Err)
				}
				if outs, err := workflow.Sweep(t.Context(), rt, nil); err != nil || len(outs) > 0 {
					t.Errorf("once more: %d outcomes, %v", len(outs), err)
				}
				if out, err := workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); err == nil || out.Failure().Code != "resume.invalidToken" {
					t.Errorf("the token of a pause that is over: %v", err)
				}
			})
		})
	}
}

func TestFork(t *testing.T) {
	log := &runtest.Effects{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act"), runtest.Gate}, Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
	wf := runtest.Load(t, []byte(pausing))
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
			log.Lines = nil
			fork, err := workflow.Fork(t.Context(), out.RunID, tt.at, tt.edits, rt, nil)
			if err != nil || fork.Status != tt.status || !cmp.Equal(fork.Output, tt.output) || fork.RunID == out.RunID {
				t.Fatalf("%s, output %v, %v", fork.Status, fork.Output, err)
			}
			if diff := cmp.Diff(tt.effects, log.Lines); diff != "" {
				t.Errorf("effects (-want +got)\n%s", diff)
			}
			again, err := workflow.Recover(t.Context(), fork.RunID, rt, nil) // its own journal is whole
			if err != nil || again.Status != tt.status || !cmp.Equal(again.Output, tt.output) || len(log.Lines) != len(tt.effects) {
				t.Errorf("recovered: %s, output %v, %v", again.Status, again.Output, err)
			}
			if sum, _, err := rt.Store.Load(t.Context(), fork.RunID, 0); err != nil || sum.Parent != out.RunID {
				t.Errorf("parent %q, %v", sum.Parent, err)
			}
		})
	}
	if fork, err := workflow.Fork(t.Context(), out.RunID, "lst", workflow.Edits{}, rt, nil); err == nil || fork.Failure().Code != "fork.unknownStep" {
		t.Errorf("an unknown step: %v", err)
	}
}

// repeatable is a tool that may be called again.
func repeatable(name string, f func() (any, error)) runtime.Tool {
	return runtime.NewTool(runtime.ToolSpec{Name: name, Effect: runtime.Idempotent},
		func(context.Context, struct{}) (any, error) { return f() })
}

// interruptedRun begins a run in whose step the process dies, as far as the store can tell: nobody holds it.
func interruptedRun(t *testing.T, store checkpoint.Store, id, recipe string, tools ...runtime.Tool) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	rt := &runtime.Runtime{Store: store, NewRunID: func() string { return id }, Tools: append(tools,
		repeatable("test.stop", func() (any, error) { stop(); <-ctx.Done(); return nil, ctx.Err() }))}
	if out, _ := runtest.Load(t, []byte(runtest.Head+recipe)).Run(ctx, nil, rt); out.Status != workflow.StatusCancelled {
		t.Fatal(out.Status, out.Err)
	}
}

// Trust 5.2: a sweep resumes interrupted runs only if it is told to.
func TestSweepRecovers(t *testing.T) {
	store := &checkpoint.Memory{}
	interruptedRun(t, store, "r1", "steps:\n  it: {uses: test.stop}\noutput: ${{ steps.it.output }}\n")
	stop := repeatable("test.stop", func() (any, error) { return "done", nil })
	rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Tools: []runtime.Tool{stop}}
	if outs, err := workflow.Sweep(t.Context(), rt, nil); err != nil || len(outs) > 0 {
		t.Fatalf("untold: %v, %v", outs, err)
	}
	outs, err := workflow.Sweep(t.Context(), rt, &workflow.SweepOptions{Recover: true})
	if err != nil || len(outs) != 1 || outs[0].Output != "done" {
		t.Fatalf("%v, %v", outs, err)
	}
	if outs, err = workflow.Sweep(t.Context(), rt, &workflow.SweepOptions{Recover: true}); err != nil || len(outs) > 0 {
		t.Errorf("once more: %v, %v", outs, err)
	}
}

// Trust 6.6: a sweep works on several runs at once, so that a slow one holds up nobody; sweepers together hand out each
// run once, and no tokens for those of others.
func TestSweepSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		nap := runtest.Tool("test.rest", func(context.Context, map[string]any) (any, error) { time.Sleep(15 * time.Second); return nil, nil })
		rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Tools: []runtime.Tool{nap}}
		wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  it: {uses: wait, with: {duration: 1h}}\n  on: {uses: test.rest, needs: [it]}\n"+
			"  ask: {uses: human, needs: [on], with: {prompt: Next}}\n"))
		const runs = 8
		for range runs {
			if out, err := wf.Run(t.Context(), nil, rt); err != nil || out.Status != workflow.StatusPaused {
				t.Fatal(out.Status, err)
			}
		}
		time.Sleep(time.Hour)
		began := time.Now()
		swept := make(chan []*workflow.Outcome, 3)
		for range cap(swept) {
			go func() {
				outs, err := workflow.Sweep(t.Context(), rt, &workflow.SweepOptions{MaxRuns: runs})
				if err != nil {
					t.Error(err)
				}
				swept <- outs
			}()
		}
		seen := map[string]int{}
		for range cap(swept) {
			for _, out := range <-swept {
				if seen[out.RunID]++; out.Status != workflow.StatusPaused {
					t.Errorf("%s: %v", out.RunID, out.Err)
				}
			}
		}
		if took := time.Since(began); len(seen) != runs || took > 16*time.Second {
			t.Errorf("%d runs in %v", len(seen), took)
		}
		for id, n := range seen {
			minted := 0
			for _, rec := range runtest.RecordsIn(t.Context(), store, id) {
				if rec.Kind == checkpoint.TokenMinted {
					minted++
				}
			}
			if n != 1 || minted != 2 {
				t.Errorf("%s: handed out %d times, %d tokens, want 1 and 2", id, n, minted)
			}
		}
	})
}

// Trust 6.6: what falls due while a slow run is worked on does not wait for it; the end of the context ends the sweeps.
func TestSweepsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		slow := runtest.Tool("test.rest", func(ctx context.Context, args map[string]any) (any, error) {
			select {
			case <-time.After(time.Duration(args["s"].(int64)) * time.Second):
			case <-ctx.Done():
			}
			return args["s"], ctx.Err()
		})
		rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Tools: []runtime.Tool{slow}}
		for wait, rest := range map[string]int{"10s": 30, "12s": 0} {
			wf := runtest.Load(t, []byte(runtest.Head+fmt.Sprintf("steps:\n  it: {uses: wait, with: {duration: %s}}\n"+
				"  on: {uses: test.rest, needs: [it], with: {s: %d}}\noutput: ${{ steps.on.output }}\n", wait, rest)))
			if out, err := wf.Run(t.Context(), nil, rt); err != nil || out.Status != workflow.StatusPaused {
				t.Fatal(out.Status, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		var got []string
		for out, err := range workflow.Sweeps(ctx, rt, &workflow.SweepOptions{Every: time.Second, Recover: true}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(out.Output, " after ", time.Since(began)))
		}
		if diff := cmp.Diff([]string{"0 after 12s", "30 after 40s"}, got); diff != "" || time.Since(began) != time.Minute {
			t.Errorf("%v (-want +got)\n%s", time.Since(began), diff)
		}
	})
}

// serve 12.4: a sweep whose runs drain lets calls in progress end, takes no more runs, and ends. Another asks nobody.
func TestSweepsDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drain := make(chan struct{})
		var calls atomic.Int32
		pay := runtest.Tool("test.pay", func(ctx context.Context, _ map[string]any) (any, error) {
			calls.Add(1)
			time.Sleep(3 * time.Second)
			return "paid", ctx.Err()
		})
		rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Tools: []runtime.Tool{pay}}
		wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.pay}\n  b: {uses: test.pay, needs: [a]}\noutput: ${{ steps.b.output }}\n"))
		for range 3 {
			if _, err := wf.Enqueue(t.Context(), nil, rt, nil); err != nil {
				t.Fatal(err)
			}
		}
		draining := *rt
		draining.Drain = drain
		time.AfterFunc(time.Second, func() { close(drain) })
		began := time.Now()
		var got []string
		for out, err := range workflow.Sweeps(t.Context(), &draining, &workflow.SweepOptions{Every: time.Second, Recover: true, MaxRuns: 2}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(out.Failure().Code, " after ", time.Since(began)))
		}
		if diff := cmp.Diff([]string{"run.drained after 3s", "run.drained after 3s"}, got); diff != "" || calls.Load() != 2 {
			t.Errorf("%d calls (-want +got)\n%s", calls.Load(), diff)
		}
		outs, err := workflow.Sweep(t.Context(), &draining, &workflow.SweepOptions{Recover: true})
		if err != nil || len(outs) > 0 || calls.Load() != 2 {
			t.Errorf("a sweep that drains from the start: %d outcomes, %d calls, %v", len(outs), calls.Load(), err)
		}
		outs, err = workflow.Sweep(t.Context(), rt, &workflow.SweepOptions{Recover: true})
		if err != nil || len(outs) != 3 || calls.Load() != 6 {
			t.Fatalf("%d outcomes, %d calls, %v", len(outs), calls.Load(), err)
		}
		for _, out := range outs {
			if out.Output != "paid" {
				t.Errorf("%s: %v", out.Status, out.Err)
			}
		}
	})
}

// A run that lacks something is tried again after 5, 15, 35 and 75 s, at once when it has changed, and nothing is recorded.
func TestSweepsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  it: {uses: test.gone}\n"))
		id, err := wf.Enqueue(t.Context(), nil, &runtime.Runtime{Store: store}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second+time.Millisecond)
		defer cancel()
		began := time.Now()
		var got []string
		for out, err := range workflow.Sweeps(ctx, &runtime.Runtime{Store: store}, &workflow.SweepOptions{Every: time.Second,
			Recover: true, ResumeOptions: workflow.ResumeOptions{Complete: true}}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(time.Since(began).Round(time.Second), " ", runtest.ErrorCode(out)))
		}
		want := []string{"0s tool.missing", "5s tool.missing", "15s tool.missing", "35s tool.missing", "1m15s tool.missing"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if sum, recs, err := store.Load(t.Context(), id, 0); err != nil || sum.Status != checkpoint.Queued || len(recs) != 2 {
			t.Errorf("the run is %s with %d records, %v", sum.Status, len(recs), err)
		}
	})
}

// Trust 6.6: a call that had begun five times in a row when the process died fails; after an orderly stop it counts anew.
func TestPoison(t *testing.T) {
	for _, tt := range []struct {
		deaths int
		kind   checkpoint.Kind // of the record behind the third
		code   string
	}{{4, "", ""}, {5, "", "step.poison"}, {6, "run.stopped", ""}} {
		store := &checkpoint.Memory{}
		calls := 0
		it := repeatable("test.it", func() (any, error) { calls++; return calls, nil })
		rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{it}, NewRunID: func() string { return "r0" }}
		wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  it: {uses: test.it}\n"))
		if out, err := wf.Run(t.Context(), nil, rt); err != nil {
			t.Fatal(out.Status, err)
		}
		sum, recs, err := store.Load(t.Context(), "r0", 0)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(recs, func(r checkpoint.Record) bool { return r.Kind == "call.begun" })
		died := slices.Clone(recs[1:at])
		for n := range tt.deaths {
			died = append(died, recs[at])
			if n == 2 && tt.kind != "" {
				died = append(died, checkpoint.Record{At: recs[at].At, Kind: tt.kind})
			}
		}
		for i := range died {
			died[i].Seq = 0
		}
		run := sum.Run
		run.ID = "r1"
		if run.Definition, err = store.Definition(t.Context(), run.Digest); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Create(t.Context(), run, "dead", 0, died...); err != nil {
			t.Fatal(err)
		}
		calls = 0
		out, _ := wf.Recover(t.Context(), "r1", rt)
		got := ""
		if e := out.Failure(); e != nil {
			got = e.Code
		}
		if got != tt.code || calls != map[bool]int{true: 1}[tt.code == ""] {
			t.Errorf("after %d deaths: %q, %d calls", tt.deaths, got, calls)
		}
	}
}

// trust 6.6: a number of runs below 0 is an error, and nothing is swept.
func TestSweepRefusesANegativeNumberOfRuns(t *testing.T) {
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	outs, err := workflow.Sweep(t.Context(), rt, &workflow.SweepOptions{MaxRuns: -1})
	if err == nil || len(outs) > 0 || err.Error() != "sweep: MaxRuns is -1, not a number of runs\n  hint: leave it 0 for the default, 4" {
		t.Errorf("%d outcomes, %v", len(outs), err)
	}
}

// run.started_at is when the run began, also behind a pause; in a fork when the fork began.
func TestStartedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
		wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  it: {uses: wait, with: {duration: 1h}}\n"+
			"  at: {uses: set, needs: [it], with: \"${{ run.started_at }}\"}\noutput: [\"${{ steps.at.output }}\", \"${{ run.started_at }}\"]\n"))
		const began = "2000-01-01T00:00:00Z" // of the bubble
		out, err := wf.Run(t.Context(), nil, rt)
		if err != nil || out.Status != workflow.StatusPaused {
			t.Fatal(out.Status, err)
		}
		time.Sleep(time.Hour)
		outs, err := workflow.Sweep(t.Context(), rt, nil)
		if err != nil || len(outs) != 1 || !cmp.Equal(outs[0].Output, any([]any{began, began})) {
			t.Fatal(len(outs), outs[0].Output, err)
		}
		const forked = "2000-01-01T01:00:00Z" // the wait is shared
		if fork, err := workflow.Fork(t.Context(), out.RunID, "at", workflow.Edits{}, rt, nil); err != nil || !cmp.Equal(fork.Output, any([]any{forked, forked})) {
			t.Error("fork:", fork.Output, err)
		}
	})
}
