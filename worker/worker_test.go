package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens the store in a file.
func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// tool is a tool that calls a function.
type tool struct {
	name   string
	effect runtime.Effect
	call   func(ctx context.Context) error
}

func (t tool) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: t.name, Effect: t.effect} }

func (t tool) Call(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
	if err := t.call(ctx); err != nil {
		return nil, err
	}
	return json.RawMessage(`"done"`), nil
}

const works = `
apiVersion: braise/v1
name: works
steps:
  work: {uses: demo.work}
output: ${{ steps.work.output }}
`

// enqueue records a run.
func enqueue(t *testing.T, store checkpoint.Store, text, queue string) string {
	t.Helper()
	id, err := compile(t, text).Enqueue(t.Context(), nil, &runtime.Runtime{Store: store}, &workflow.EnqueueOptions{Queue: queue})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// phase is the phase of a run.
func phase(t *testing.T, store checkpoint.Store, runID string) checkpoint.Phase {
	t.Helper()
	sum, _, err := store.Load(t.Context(), runID, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	return sum.Phase()
}

// working has a worker work until the returned function is called.
func working(t *testing.T, w *worker.Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	t.Cleanup(stop)
	return stop
}

// await waits until a run is in a phase.
func await(t *testing.T, store checkpoint.Store, runID string, want checkpoint.Phase) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	changed := make(chan struct{}, 1)
	go func() {
		_ = store.(checkpoint.Watcher).Watch(ctx, func(string) {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	for phase(t, store, runID) != want {
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("run %s is %s, want %s", runID, phase(t, store, runID), want)
		}
	}
}

func instant(context.Context) error { return nil }

func TestWorkerTakesWhatIsQueued(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "runs.db"))
	var calls atomic.Int64
	rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{tool{"demo.work", runtime.External, func(context.Context) error {
		calls.Add(1)
		return nil
	}}}}
	var ids []string
	for range 40 {
		ids = append(ids, enqueue(t, store, works, "default"))
	}
	other, none := enqueue(t, store, works, "other"), enqueue(t, store, works, "")
	var ended atomic.Int64
	working(t, &worker.Worker{Runtime: rt, Queues: []string{"default"}, Ended: func(out *workflow.Outcome) {
		if out.Status == workflow.StatusOK {
			ended.Add(1)
		}
	}})
	late := enqueue(t, store, works, "default")
	for _, id := range append(ids, late) {
		await(t, store, id, checkpoint.PhaseOK)
	}
	if n := calls.Load(); n != 41 {
		t.Errorf("%d calls, want 41", n)
	}
	for _, id := range []string{other, none} {
		if p := phase(t, store, id); p != checkpoint.PhaseQueued {
			t.Errorf("run %s of another queue is %s", id, p)
		}
	}
}

// Several workers, each with a store of its own on one file, share the runs: each call is made once.
func TestWorkersShare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	var mu sync.Mutex
	calls := map[string]int{}
	var stores []*sqlite.Store
	for range 3 {
		store := open(t, path)
		stores = append(stores, store)
		working(t, &worker.Worker{Queues: []string{"q"}, MaxRuns: 4, Runtime: &runtime.Runtime{Store: store,
			Tools: []runtime.Tool{tool{"demo.work", runtime.External, func(ctx context.Context) error {
				call, _ := runtime.CallOf(ctx)
				mu.Lock()
				defer mu.Unlock()
				calls[call.Run]++
				return nil
			}}}}})
	}
	var ids []string
	for i := range 60 {
		ids = append(ids, enqueue(t, stores[i%3], works, "q"))
	}
	for _, id := range ids {
		await(t, stores[0], id, checkpoint.PhaseOK)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, id := range ids {
		if calls[id] != 1 {
			t.Errorf("run %s: %d calls", id, calls[id])
		}
	}
}

func TestWorkerLimits(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "runs.db"))
	var now, most, slow, mostSlow atomic.Int64
	began, let := make(chan struct{}, 100), make(chan struct{})
	busy := func(n, m *atomic.Int64) {
		if k := n.Add(1); k > m.Load() {
			m.Store(k)
		}
	}
	rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{
		tool{"demo.work", runtime.External, func(context.Context) error {
			busy(&now, &most)
			defer now.Add(-1)
			began <- struct{}{}
			<-let
			return nil
		}},
		tool{"demo.crawl", runtime.External, func(context.Context) error {
			busy(&now, &most)
			busy(&slow, &mostSlow)
			defer now.Add(-1)
			defer slow.Add(-1)
			began <- struct{}{}
			<-let
			return nil
		}},
	}}
	var ids []string
	crawls := strings.ReplaceAll(strings.ReplaceAll(works, "demo.work", "demo.crawl"), "name: works", "name: crawls")
	for range 4 {
		ids = append(ids, enqueue(t, store, crawls, "q"))
	}
	for range 4 {
		ids = append(ids, enqueue(t, store, works, "q"))
	}
	working(t, &worker.Worker{Runtime: rt, Queues: []string{"q"}, MaxRuns: 3, MaxRunsOf: map[string]int{"crawls": 1}})
	for range 3 { // the first crawl, and two works behind the other crawls
		<-began
	}
	close(let)
	for _, id := range ids {
		await(t, store, id, checkpoint.PhaseOK)
	}
	if most.Load() != 3 || mostSlow.Load() != 1 {
		t.Errorf("at most %d at a time, %d of them crawls; want 3 and 1", most.Load(), mostSlow.Load())
	}
}

// interrupt leaves a run as Ctrl-C in a terminal does.
func interrupt(t *testing.T, store checkpoint.Store) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, _ := compile(t, works).Run(ctx, nil, &runtime.Runtime{Store: store, Limits: runtime.Limits{Grace: time.Millisecond},
		Tools: []runtime.Tool{tool{"demo.work", runtime.ReadOnly, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}}}})
	if out.Status != workflow.StatusCancelled || phase(t, store, out.RunID) != checkpoint.PhaseInterrupted {
		t.Fatalf("%s: %v", out.Status, out.Err)
	}
	return out.RunID
}

// serve 12.8: a worker does not go on with what a person stopped, until somebody asks for it.
func TestWorkerLeavesWhatPeopleStopped(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "runs.db"))
	stopped := interrupt(t, store)
	rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{tool{"demo.work", runtime.ReadOnly, instant}}}
	working(t, &worker.Worker{Runtime: rt, Queues: []string{"default"}})
	for range 3 { // the worker has looked several times
		await(t, store, enqueue(t, store, works, "default"), checkpoint.PhaseOK)
	}
	if p := phase(t, store, stopped); p != checkpoint.PhaseInterrupted {
		t.Fatalf("it is %s", p)
	}
	err := store.PutSignal(t.Context(), stopped, checkpoint.Signal{ID: "take-1", Kind: checkpoint.SignalTake, By: "ada", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	await(t, store, stopped, checkpoint.PhaseOK)
}

// A run that lacks something is left to workers that have it.
func TestWorkerLeavesWhatItCannotDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	store := open(t, path)
	id := enqueue(t, store, works, "q")
	refused := make(chan *workflow.Outcome, 100)
	working(t, &worker.Worker{Runtime: &runtime.Runtime{Store: store}, Queues: []string{"q"},
		Ended: func(out *workflow.Outcome) {
			select {
			case refused <- out:
			default: // it looks again when the other has executed the run
			}
		}})
	out := <-refused
	if e, ok := errors.AsType[*runtime.Error](out.Err); !ok || e.Code != "tool.missing" {
		t.Fatalf("%v", out.Err)
	}
	if p := phase(t, store, id); p != checkpoint.PhaseQueued {
		t.Errorf("it is %s", p)
	}
	for range 3 { // the worker has looked several times, and has not tried again
		await(t, store, enqueue(t, store, strings.ReplaceAll(works, "{uses: demo.work}", "{uses: set, with: 1}"), "q"), checkpoint.PhaseOK)
		if out := <-refused; out.RunID == id {
			t.Fatal("it was tried again at once")
		}
	}
	other := open(t, path)
	working(t, &worker.Worker{Queues: []string{"q"}, Runtime: &runtime.Runtime{Store: other,
		Tools: []runtime.Tool{tool{"demo.work", runtime.External, instant}}}})
	await(t, store, id, checkpoint.PhaseOK)
}

// lame is a store that cannot be claimed for a while.
type lame struct {
	*sqlite.Store
	failures atomic.Int32 // that are left
}

func (s *lame) Claim(ctx context.Context, runID, owner string, ttl time.Duration) (checkpoint.Lease, error) {
	if s.failures.Add(-1) >= 0 {
		return checkpoint.Lease{}, errors.New("the disk is full")
	}
	return s.Store.Claim(ctx, runID, owner, ttl)
}

// serve 11: a run whose store failed is soon tried again: nothing that it needs is missing.
func TestWorkerTriesAgain(t *testing.T) {
	store := &lame{Store: open(t, filepath.Join(t.TempDir(), "runs.db"))}
	store.failures.Store(2)
	id := enqueue(t, store, works, "q")
	working(t, &worker.Worker{Queues: []string{"q"}, Runtime: &runtime.Runtime{Store: store,
		Tools: []runtime.Tool{tool{"demo.work", runtime.External, instant}}}})
	await(t, store, id, checkpoint.PhaseOK)
	if n := store.failures.Load(); n >= 0 {
		t.Errorf("the store failed %d times less than it should", n+1)
	}
}

// serve 12.4: what a worker executes when it is told to stop comes to its end, and another goes on.
func TestWorkerDrains(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	store := open(t, path)
	var calls atomic.Int64
	began, let := make(chan struct{}, 10), make(chan struct{})
	rt := func(store checkpoint.Store) *runtime.Runtime {
		return &runtime.Runtime{Store: store, Tools: []runtime.Tool{tool{"demo.work", runtime.External, func(context.Context) error {
			calls.Add(1)
			began <- struct{}{}
			<-let
			return nil
		}}}}
	}
	two := works[:strings.Index(works, "output:")] + "  more: {uses: demo.work, needs: [work]}\n"
	id := enqueue(t, store, two, "q")
	w := &worker.Worker{Runtime: rt(store), Queues: []string{"q"}}
	stop := working(t, w)
	<-began
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	for !w.State().Draining {
		goruntime.Gosched()
	}
	close(let)
	<-stopped
	if n, p := calls.Load(), phase(t, store, id); n != 1 || p != checkpoint.PhaseInterrupted {
		t.Fatalf("%d calls, it is %s; want 1, interrupted", n, p)
	}
	working(t, &worker.Worker{Runtime: rt(open(t, path)), Queues: []string{"q"}})
	await(t, store, id, checkpoint.PhaseOK)
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}

// A call that takes longer than the worker's patience is told to stop.
func TestWorkerEndsLongCalls(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "runs.db"))
	id := enqueue(t, store, works, "q")
	began := make(chan struct{})
	stop := working(t, &worker.Worker{Queues: []string{"q"}, Drain: 10 * time.Millisecond, Runtime: &runtime.Runtime{Store: store,
		Tools: []runtime.Tool{tool{"demo.work", runtime.ReadOnly, func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		}}}}})
	<-began
	stop()
	if p := phase(t, store, id); p != checkpoint.PhaseInterrupted {
		t.Errorf("it is %s", p)
	}
}

func TestWorkerRefusesItsFields(t *testing.T) {
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}}
	start := func(context.Context, map[string]any, *workflow.EnqueueOptions) (string, error) { return "", nil }
	daily := worker.Schedule{Name: "daily", Cron: "0 2 * * *", Start: start}
	for _, tt := range []struct {
		w    *worker.Worker
		want string
	}{
		{&worker.Worker{}, "no Runtime"},
		{&worker.Worker{Runtime: &runtime.Runtime{}}, "cannot be shared by workers"},
		{&worker.Worker{Runtime: rt, Queues: []string{""}}, "a queue has no name"},
		{&worker.Worker{Runtime: rt, MaxRuns: -1}, "MaxRuns is -1"},
		{&worker.Worker{Runtime: rt, MaxRunsOf: map[string]int{"r": 0}}, `MaxRunsOf of recipe "r"`},
		{&worker.Worker{Runtime: rt, Schedules: []worker.Schedule{daily, daily}}, "there are two of this name"},
		{&worker.Worker{Runtime: rt, Schedules: []worker.Schedule{{Name: "x"}}}, `schedule "x"`},
	} {
		if err := tt.w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

func ExampleWorker() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	wf := mustCompile(`
apiVersion: braise/v1
name: greet
inputs: {name: string}
steps: {greet: {uses: set, with: {text: "Hello, ${{ inputs.name }}!"}}}
output: ${{ steps.greet.output.text }}
`)
	if _, err := wf.Enqueue(ctx, map[string]any{"name": "Ada"}, rt, &workflow.EnqueueOptions{Queue: "default"}); err != nil {
		fmt.Println(err)
	}
	w := &worker.Worker{Runtime: rt, Queues: []string{"default"}, Ended: func(out *workflow.Outcome) {
		fmt.Println(out.Output)
		cancel()
	}}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: Hello, Ada!
}
