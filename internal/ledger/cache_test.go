package ledger_test

import (
	"context"
	"errors"
	"sync"
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

// trust 5.4: a run that pauses without a store is kept until its pauses have expired, else for a day: in a cache and in the
// process.
func TestPausesWithoutAStoreAreKeptForATime(t *testing.T) {
	for _, tt := range []struct {
		name, steps string
		want        time.Duration
	}{
		{"no expiry", "  a: {uses: human, with: {prompt: Yes}}\n", 24 * time.Hour},
		{"one expires", "  a: {uses: human, with: {prompt: Yes, expires: 1h}}\n", time.Hour},
		{"the last counts", "  a: {uses: human, with: {prompt: Yes, expires: 1h}}\n  b: {uses: human, with: {prompt: Yes, expires: 72h}}\n", 72 * time.Hour},
	} {
		for name, cache := range map[string]checkpoint.Cache{"process": nil, "cache": &checkpoint.MemoryCache{}} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rt := &runtime.Runtime{Resume: resume.PassThrough{}, Cache: cache}
					out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n"+tt.steps)).Run(t.Context(), nil, rt)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(tt.want - time.Second)
					if !kept(t, out.RunID, rt) {
						t.Errorf("it is gone before %v", tt.want)
					}
					time.Sleep(2 * time.Second)
					if kept(t, out.RunID, rt) {
						t.Errorf("it is kept for longer than %v", tt.want)
					}
				})
			})
		}
	}
}

// A run that somebody has resumed is kept for the time of the pause that it has now.
func TestRunThatGoesOnIsKeptAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &runtime.Runtime{Resume: resume.PassThrough{}}
		wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: human, with: {prompt: Yes}}\n  b: {uses: human, needs: [a], with: {prompt: Yes}}\n"))
		out, _ := wf.Run(t.Context(), nil, rt)
		time.Sleep(23 * time.Hour)
		if out, _ = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); out.Status != workflow.StatusPaused {
			t.Fatalf("%s, %v", out.Status, out.Err)
		}
		time.Sleep(23 * time.Hour)
		if !kept(t, out.RunID, rt) {
			t.Error("it is gone after 23 hours")
		}
		time.Sleep(2 * time.Hour)
		if kept(t, out.RunID, rt) {
			t.Error("it is kept after 25 hours")
		}
	})
}

// kept reports whether a run without a store is known, by naming a pause that it does not have.
func kept(t *testing.T, runID string, rt *runtime.Runtime) bool {
	out, _ := workflow.Answer(t.Context(), runID, "none", nil, rt, nil)
	e, ok := out.Err.(*runtime.Error)
	return ok && e.Code == "resume.invalidToken"
}

// shared is a cache of several processes, as one of them sees it. When that is dead, the cache does not hear of it.
type shared struct {
	checkpoint.Cache
	dead atomic.Bool
	full atomic.Bool // Set fails
}

var errDead, errFull = errors.New("dead"), errors.New("the cache is full")

func (s *shared) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if s.dead.Load() {
		return nil, false, errDead
	}
	return s.Cache.Get(ctx, key)
}

func (s *shared) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	if s.dead.Load() || s.full.Load() {
		return errFull
	}
	return s.Cache.Set(ctx, key, val, ttl)
}

func (s *shared) Delete(ctx context.Context, key string) (bool, error) {
	if s.dead.Load() {
		return false, errDead
	}
	return s.Cache.Delete(ctx, key)
}

const keeping = runtest.Head + `steps:
  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo, with: {n: 1}}}
  ask: {uses: human, needs: [a], with: {prompt: Go on}}
  b: {uses: test.work, needs: [ask]}
  more: {uses: human, needs: [b], with: {prompt: And now}}
output: "${{ [steps.ask.output.decision, steps.b.output, steps.more.output.decision] }}"
`

func keepingRuntime(log *runtest.Effects, cache checkpoint.Cache, work runtest.ToolFunc) *runtime.Runtime {
	rt := runtest.UndoRuntime(log, nil)
	rt.NewRunID, rt.Cache = nil, cache
	rt.Tools = append(rt.Tools, log.External("test.act"), runtest.Tool("test.work", work))
	return rt
}

// trust 5.4: the cache has the run, its answer with it, until its execution has ended. A process that dies in the
// execution does not lose the run: when its lease has run out another one recovers it, and the token is used.
func TestRunStaysInTheCacheWhileItIsExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, all := &runtest.Effects{}, &checkpoint.MemoryCache{}
		mine := &shared{Cache: all}
		began, ends := make(chan bool), make(chan bool)
		rt := keepingRuntime(log, mine, func(context.Context, map[string]any) (any, error) {
			began <- true
			<-ends
			return "mine", nil
		})
		out, err := runtest.Load(t, []byte(keeping)).Run(t.Context(), nil, rt)
		if out.Status != workflow.StatusPaused {
			t.Fatal(err)
		}
		died := make(chan *workflow.Outcome)
		go func() {
			out, _ := workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, nil)
			died <- out
		}()
		<-began
		other := keepingRuntime(log, all, func(context.Context, map[string]any) (any, error) { return "other", nil })
		refused := func(when, want string, out *workflow.Outcome) {
			t.Helper()
			if e := out.Failure(); e == nil || e.Code != want {
				t.Errorf("%s: %v, want %s", when, out.Err, want)
			}
		}
		time.Sleep(time.Minute) // the lease is renewed
		again, _ := workflow.Recover(t.Context(), out.RunID, other, nil)
		refused("while it is executed", "run.busy", again)
		again, _ = workflow.Resume(t.Context(), out.Token, runtest.Yes, other, nil)
		refused("the token", "resume.invalidToken", again)

		mine.dead.Store(true)
		time.Sleep(16 * time.Second)
		again, err = workflow.Recover(t.Context(), out.RunID, other, nil)
		if again.Status != workflow.StatusPaused || again.Pauses[0].ID != "more" {
			t.Fatalf("recovered: %s, %v", again.Status, err)
		}
		ends <- true
		refused("the dead one", "run.fenced", <-died)
		again, err = workflow.Resume(t.Context(), again.Token, runtest.Yes, other, nil)
		if diff := cmp.Diff(any([]any{"approve", "other", "approve"}), again.Output); diff != "" {
			t.Errorf("%v, output (-want +got)\n%s", err, diff)
		}
		if diff := cmp.Diff([]string{"test.act 1"}, log.Lines); diff != "" {
			t.Errorf("effects (-want +got)\n%s", diff)
		}
		again, _ = workflow.Recover(t.Context(), out.RunID, other, nil)
		refused("at the end", "run.notFound", again)
	})
}

// trust 5.4: of many who answer by a cache, exactly one does.
func TestOneOfManyAnswersByACache(t *testing.T) {
	for range 20 {
		var works atomic.Int32
		log, all := &runtest.Effects{}, &checkpoint.MemoryCache{}
		rt := keepingRuntime(log, all, func(context.Context, map[string]any) (any, error) { return int64(works.Add(1)), nil })
		out, _ := runtest.Load(t, []byte(keeping)).Run(t.Context(), nil, rt)
		var won atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				again, err := workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, nil)
				switch {
				case err == nil:
					won.Add(1)
				case again.Failure().Code != "run.busy" && again.Failure().Code != "resume.invalidToken":
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || works.Load() != 1 {
			t.Fatalf("%d answered, and the work was done %d times", won.Load(), works.Load())
		}
	}
}

// trust 5.4: a run that pauses and that the cache does not take has failed: it is rolled back. An answer that the cache
// does not take is refused, and the token stays usable.
func TestRunThatTheCacheDoesNotTakeIsRolledBack(t *testing.T) {
	log := &runtest.Effects{}
	cache := &shared{Cache: &checkpoint.MemoryCache{}}
	worked := func() {}
	rt := keepingRuntime(log, cache, func(context.Context, map[string]any) (any, error) { worked(); return "done", nil })
	failed := func(name string, out *workflow.Outcome, want ...string) {
		t.Helper()
		if e := out.Failure(); out.Status != workflow.StatusError || e.Code != "store.failed" || !errors.Is(out.Err, errFull) || out.Token != "" {
			t.Errorf("%s: %s, %v", name, out.Status, out.Err)
		}
		if diff := cmp.Diff(want, log.Lines); diff != "" {
			t.Errorf("%s: effects (-want +got)\n%s", name, diff)
		}
		log.Lines = nil
	}
	cache.full.Store(true)
	out, _ := runtest.Load(t, []byte(keeping)).Run(t.Context(), nil, rt)
	failed("the first pause", out, "test.act 1", "test.undo 1")

	cache.full.Store(false)
	out, _ = runtest.Load(t, []byte(keeping)).Run(t.Context(), nil, rt)
	cache.full.Store(true)
	again, _ := workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, nil)
	failed("an answer", again, "test.act 1")

	cache.full.Store(false)
	worked = func() { cache.full.Store(true) }
	again, _ = workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, nil)
	failed("the next pause", again, "test.undo 1")
	if again, _ = workflow.Recover(t.Context(), out.RunID, rt, nil); again.Failure() == nil || again.Failure().Code != "run.notFound" {
		t.Errorf("afterwards: %s, %v", again.Status, again.Err)
	}
}
