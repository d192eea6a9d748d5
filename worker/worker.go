// Package worker executes runs that wait in the queues of a store.
//
// A [Worker] takes runs by lease, so any number of workers, in any number of processes, may share a store. It takes
// queued runs, runs in which something is due, and interrupted runs, the oldest first. A run without a queue belongs to
// the process that started it: a worker takes it only if there is a signal for it.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Worker executes the runs of a store. Its fields must not change while Run works. The zero value lacks a Runtime.
type Worker struct {
	// Runtime is what runs may touch. Its Store has the runs, and is a checkpoint.Querier, a checkpoint.Watcher and a
	// checkpoint.Signals, as all stores of this module are. Its By is not used: nobody asked for what a worker does by
	// itself.
	Runtime *runtime.Runtime
	// Bind returns the runtime for runs of a recipe. Its Store must be that of Runtime. nil: Runtime is for all runs.
	Bind func(ctx context.Context, wf *workflow.Workflow) (*runtime.Runtime, error)
	// Queues are the names of the queues whose runs the worker takes. nil: it takes runs with signals only.
	Queues []string
	// MaxRuns is how many executions happen at a time; paused runs do not count. Defaults to 16.
	MaxRuns int
	// MaxRunsOf bounds MaxRuns for single recipes, by name. nil: no bounds.
	MaxRunsOf map[string]int
	// Drain is how long executions may go on after the context of Run has ended: calls under way end, and no new ones
	// begin. Then their contexts end, too. Defaults to 30 s.
	Drain time.Duration
	// Schedules begin runs at given times. nil: none.
	Schedules []Schedule
	// Ended is told of every execution. It must return quickly. nil: nobody is.
	Ended func(*workflow.Outcome)

	compiled workflow.Compiled

	mu      sync.Mutex
	working map[string]*attempt // by run id
	left    map[string]mark     // likewise
	state   State
}

// State is what a worker does.
type State struct {
	Executions int       // under way
	Draining   bool      // it takes no more runs
	Err        error     // why the store could not be read when the worker last looked; nil: it could
	Looked     time.Time // when that was; zero: never
	// Newer is how many runs it leaves to others, as a newer version has written their journals.
	Newer int
}

// State returns what the worker does now.
func (w *Worker) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := w.state
	state.Executions = len(w.working)
	for _, m := range w.left { // the mark of a run that another one has taken since grows old
		e, ok := errors.AsType[*runtime.Error](m.refused)
		if ok && e.Code == "journal.newer" && time.Since(m.until) < time.Minute {
			state.Newer++
		}
	}
	return state
}

// Works reports whether the worker executes a run now.
func (w *Worker) Works(runID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.working[runID] != nil
}

// shared is what a worker needs of a store.
type shared = guard.Shared

// Run works until ctx ends:
//
//  1. it takes no more runs, and closes the Drain of their runtimes: no call begins
//  2. it waits for the calls under way, for as long as Drain says
//  3. it ends the contexts of the executions that are left, and waits for their ends
//
// Then it returns nil. Runs that did not end are interrupted, and other workers resume them. The error says that
// the worker cannot work: something is wrong with its fields, or the store is closed. A store that fails is asked
// again, see [State].
func (w *Worker) Run(ctx context.Context) error {
	l, err := w.begin(ctx)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer func() {
		w.mu.Lock()
		w.working, w.left = nil, nil
		w.mu.Unlock()
	}()
	err = l.work(ctx)
	w.setState(func(s *State) { s.Draining = true })
	l.drain(cmp.Or(w.Drain, 30*time.Second))
	return err
}

// loop is a worker at work.
type loop struct {
	*Worker
	store   shared
	most    int
	drained chan struct{}
	stop    context.CancelFunc // of all executions
	ctx     context.Context    // of all executions
	ended   chan *attempt
	wake    chan struct{}        // has room for one
	rest    []checkpoint.Summary // what the last look found and had no room for
	looked  time.Time            // when that was
}

// Check returns what is wrong with the fields of the worker; nil: nothing is.
func (w *Worker) Check() error {
	if w.Runtime == nil {
		return errors.New("there is no Runtime")
	}
	if err := w.Runtime.Validate(); err != nil {
		return err
	}
	if _, ok := w.Runtime.Store.(shared); !ok {
		return fmt.Errorf("a %T cannot be shared by workers\n  hint: it lacks checkpoint.Querier, "+
			"checkpoint.Watcher or checkpoint.Signals", w.Runtime.Store)
	}
	if slices.Contains(w.Queues, "") {
		return errors.New("a queue has no name\n  hint: runs without a queue belong to who began them")
	}
	if w.MaxRuns < 0 || w.Drain < 0 {
		return fmt.Errorf("MaxRuns is %d and Drain is %v: neither may be negative", w.MaxRuns, w.Drain)
	}
	for _, name := range slices.Sorted(maps.Keys(w.MaxRunsOf)) {
		if n := w.MaxRunsOf[name]; n < 1 {
			return fmt.Errorf("MaxRunsOf of recipe %q is %d, not a number of runs", name, n)
		}
	}
	return w.checkSchedules()
}

// begin makes the worker one at work.
func (w *Worker) begin(ctx context.Context) (*loop, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	l := &loop{Worker: w, store: guard.SharedStore(w.Runtime.Store.(shared)), most: cmp.Or(w.MaxRuns, 16),
		drained: make(chan struct{}), ended: make(chan *attempt), wake: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.working != nil {
		return nil, errors.New("it works already")
	}
	w.working, w.left, w.state = map[string]*attempt{}, map[string]mark{}, State{}
	l.ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	return l, nil
}

func (w *Worker) setState(change func(*State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.state)
}

// A worker looks for runs when the store has changed, but not more often than every lookTime, and every second. What it
// had no room for it takes without another look, for restTime: then something else may come first.
const (
	lookTime = 20 * time.Millisecond
	idleTime = time.Second
	restTime = 100 * time.Millisecond
)

// work takes runs until ctx ends. The error is that of a closed store.
func (l *loop) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	helpers.Go(func() { l.watch(ctx) })
	for i := range l.Schedules {
		helpers.Go(func() { l.keep(ctx, &l.Schedules[i]) })
	}
	ticker := time.NewTicker(idleTime)
	defer ticker.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for due := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case x := <-l.ended:
			l.end(x)
			if !l.goOn(ctx) {
				next.Reset(0) // there is room for others
				due = true
			}
		case <-ticker.C:
			next.Reset(0)
			due = true
		case <-l.wake: // a look that is due sooner stays so
			if !due {
				next.Reset(lookTime)
			}
			due = true
		case <-next.C:
			due = false
			err := l.look(ctx)
			if errors.Is(err, checkpoint.ErrClosed) {
				return err
			}
			if ctx.Err() == nil {
				l.setState(func(s *State) { s.Err, s.Looked = err, time.Now() })
			}
		}
	}
}

// watch wakes the worker when the store has changed. A worker whose store cannot be watched looks every second.
func (l *loop) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := l.store.Watch(ctx, func(runID string) {
			if runID != "" && l.Works(runID) {
				return
			}
			select {
			case l.wake <- struct{}{}:
			default:
			}
		})
		if ctx.Err() != nil || errors.Is(err, checkpoint.ErrClosed) {
			return
		}
		l.warn("the store cannot be watched: runs are looked for every second", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
	}
}

// warn tells the host's operator.
func (l *loop) warn(message string, err error) { report(l.Runtime.Reporter, message, err) }

// report tells the host's operator of an error that nothing else tells of; a nil r is slog.Default.
func report(r runtime.Reporter, message string, err error) {
	at := slog.String("error", err.Error())
	if r == nil {
		slog.Warn(message, at)
		return
	}
	r.Warn(message, at)
}

// drain waits for the executions.
func (l *loop) drain(patience time.Duration) {
	close(l.drained)
	defer l.stop()
	late := time.AfterFunc(patience, l.stop)
	defer late.Stop()
	for l.State().Executions > 0 {
		l.end(<-l.ended)
	}
}
