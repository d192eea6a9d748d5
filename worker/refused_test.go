package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// counted is a store that counts how often runs and recipes are read.
type counted struct {
	*sqlite.Store
	loads, definitions atomic.Int64
}

func (s *counted) Load(ctx context.Context, runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	s.loads.Add(1)
	return s.Store.Load(ctx, runID, after)
}

func (s *counted) Definition(ctx context.Context, digest string) (json.RawMessage, error) {
	s.definitions.Add(1)
	return s.Store.Definition(ctx, digest)
}

func TestWorkerReadsOnce(t *testing.T) {
	store := &counted{Store: open(t, filepath.Join(t.TempDir(), "runs.db"))}
	rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{tool{"demo.work", runtime.External, instant}}}
	for range 5 {
		enqueue(t, store.Store, works, "q")
	}
	ended := make(chan *workflow.Outcome, 5)
	var bound atomic.Int64
	working(t, &worker.Worker{Runtime: rt, Queues: []string{"q"}, MaxRuns: 1,
		Ended: func(out *workflow.Outcome) { ended <- out },
		Bind: func(_ context.Context, wf *workflow.Workflow) (*runtime.Runtime, error) {
			if wf.Name() == "works" {
				bound.Add(1)
			}
			return rt, nil
		}})
	for range 5 {
		if out := <-ended; out.Status != workflow.StatusOK {
			t.Fatal(out.Err)
		}
	}
	if n := store.definitions.Load(); n != 1 {
		t.Errorf("the recipe was read %d times, want once", n)
	}
	// Each run is read once, with its journal. With room for one run, each of the other four is also looked at before.
	if n := store.loads.Load(); n > 9 {
		t.Errorf("runs were read %d times, want 9 at most", n)
	}
	if n := bound.Load(); n != 5 {
		t.Errorf("Bind was called %d times, want 5", n)
	}
}

// claimed is a store that counts how often runs are claimed.
type claimed struct {
	*checkpoint.Memory
	claims atomic.Int64
}

func (s *claimed) Claim(ctx context.Context, runID, owner string, ttl time.Duration) (checkpoint.Lease, error) {
	s.claims.Add(1)
	return s.Memory.Claim(ctx, runID, owner, ttl)
}

// A run that lacks something is tried after 0, 5, 15, 35, 75, 155, 315 and 635 s. It is claimed once, and nothing is
// recorded.
func TestWorkerBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &claimed{Memory: &checkpoint.Memory{}}
		id := enqueue(t, store, works, "q")
		before, _, err := store.Load(t.Context(), id, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		var tries []time.Duration
		begin := time.Now()
		w := &worker.Worker{Queues: []string{"q"}, Runtime: &runtime.Runtime{Store: store}, Ended: func(out *workflow.Outcome) {
			tries = append(tries, time.Since(begin).Round(5*time.Second))
			if e, _ := errors.AsType[*runtime.Error](out.Err); e == nil || e.Code != "tool.missing" {
				t.Errorf("it was refused as %v", out.Err)
			}
		}}
		stop := working(t, w)
		time.Sleep(1000 * time.Second)
		if e, _ := errors.AsType[*runtime.Error](w.Refused(id)); e == nil || e.Code != "tool.missing" {
			t.Errorf("Refused is %v, want tool.missing", w.Refused(id))
		}
		stop()
		want := []time.Duration{0, 5, 15, 35, 75, 155, 315, 635}
		if len(tries) != len(want) {
			t.Fatalf("it was tried after %v, want %v s", tries, want)
		}
		for i := range want {
			if late := tries[i] - want[i]*time.Second; late < 0 || late > 10*time.Second { // a look is every second
				t.Errorf("try %d was after %v, want %d s", i, tries[i], want[i])
			}
		}
		after, _, err := store.Load(t.Context(), id, math.MaxInt64)
		if err != nil || after.Seq != before.Seq || !after.UpdatedAt.Equal(before.UpdatedAt) {
			t.Errorf("the run has changed: %+v, %v", after, err)
		}
		if n := store.claims.Load(); n != 1 {
			t.Errorf("it was claimed %d times, want once", n)
		}
		if err := w.Refused("another"); err != nil {
			t.Error(err)
		}
	})
}

// newer is a store whose recipes are of a format that this version does not know.
type newer struct{ *checkpoint.Memory }

func (s newer) Definition(ctx context.Context, digest string) (json.RawMessage, error) {
	text, err := s.Memory.Definition(ctx, digest)
	return bytes.ReplaceAll(text, []byte("braise/v1"), []byte("braise/v9")), err
}

// A recipe that cannot be compiled is no failure of the store, which would be tried again each second.
func TestWorkerLeavesWhatItCannotCompile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newer{&checkpoint.Memory{}}
		id := enqueue(t, store, works, "q")
		rt := &runtime.Runtime{Store: store}
		var tries int
		stop := working(t, &worker.Worker{Queues: []string{"q"}, Runtime: rt,
			Bind: func(context.Context, *workflow.Workflow) (*runtime.Runtime, error) { return rt, nil },
			Ended: func(out *workflow.Outcome) {
				tries++
				if e, _ := errors.AsType[*runtime.Error](out.Err); out.RunID != id || e == nil || e.Code != "recipe.invalid" {
					t.Errorf("it was refused as %v", out.Err)
				}
			}})
		time.Sleep(30 * time.Second)
		stop()
		if tries != 3 { // after 0, 5 and 15 s
			t.Errorf("it was tried %d times, want 3", tries)
		}
		_, err := workflow.Recover(t.Context(), id, rt, nil)
		if e, _ := errors.AsType[*runtime.Error](err); e == nil || e.Code != "recipe.invalid" || e.Category != runtime.CategoryConfig {
			t.Errorf("Recover: %v", err)
		}
	})
}

// asked is a store of runs whose pause is answered when the worker looks how it left the run.
type asked struct {
	*checkpoint.Memory
	answered sync.Once
}

func (s *asked) Load(ctx context.Context, runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	sum, recs, err := s.Memory.Load(ctx, runID, after)
	if err == nil && len(sum.Pauses) > 0 && !sum.Held {
		s.answered.Do(func() {
			err = workflow.Signal(ctx, runID, checkpoint.Signal{Kind: checkpoint.SignalAnswer, By: "ada",
				Data: json.RawMessage(`{"pause":"ask","value":{"decision":"approve"}}`)}, s.Memory, nil)
		})
	}
	return sum, recs, err
}

// An answer that comes between the end of an execution and the worker's look at what it left is not forgotten.
func TestWorkerSeesAnswersAtOnce(t *testing.T) {
	store := &asked{Memory: &checkpoint.Memory{}}
	id := enqueue(t, store.Memory, asks, "q")
	working(t, &worker.Worker{Runtime: &runtime.Runtime{Store: store, Resume: resume.PassThrough{}}, Queues: []string{"q"}})
	await(t, store.Memory, id, checkpoint.PhaseOK)
}

// serve.md 14.8: a run with a record that this version does not know is left to others, and State says so as long as it is.
func TestWorkerLeavesNewerJournals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		rt := &runtime.Runtime{Store: store}
		id := enqueue(t, store, works, "q")
		l, err := store.Claim(t.Context(), id, "newer", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		sum, _, err := store.Load(t.Context(), id, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		next := checkpoint.Record{Seq: sum.Seq + 1, At: time.Now(), Kind: "run.dreamt", Data: []byte("{}")}
		if err := store.Append(t.Context(), l, sum.Seq, next); err != nil {
			t.Fatal(err)
		}
		if err := store.Release(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		w := &worker.Worker{Queues: []string{"q"}, Runtime: rt}
		stop := working(t, w)
		time.Sleep(10 * time.Second)
		if e, _ := errors.AsType[*runtime.Error](w.Refused(id)); e == nil || e.Code != "journal.newer" || w.State().Newer != 1 {
			t.Errorf("%v, %+v", w.Refused(id), w.State())
		}
		after, _, err := store.Load(t.Context(), id, math.MaxInt64)
		if err != nil || after.Seq != next.Seq || after.Held {
			t.Errorf("the run has changed: %+v, %v", after, err)
		}
		if err := store.Delete(t.Context(), id); err != nil { // as if another version had taken it
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if w.State().Newer != 0 {
			t.Errorf("%+v", w.State())
		}
		stop()
	})
}
