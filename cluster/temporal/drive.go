package temporal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// driving is what a leg under way has.
type driving struct {
	happened []func() // what the engine is to be told, in its order
	flights  map[int64]*flight
	timers   map[int64]workflow.CancelFunc
	task     int  // length of the history when the present workflow task began
	sent     int  // bytes that it sends
	held     bool // calls end, none begins: another execution continues
}

// flight is a call under way.
type flight struct {
	path    string
	undoes  bool
	waits   bool // until the worker says what became of the call, even if it is told to stop
	cancel  workflow.CancelFunc
	stopped error  // why it was told to stop; nil: it was not
	lacks   string // what the last worker lacked, while the call waits for another one; "": it does not
}

// drive carries out the commands of the engine until the leg is over, or another execution is to continue.
func (r *run) drive() error {
	e := r.engine
	r.flights, r.timers = map[int64]*flight{}, map[int64]workflow.CancelFunc{}
	defer func() {
		for _, id := range slices.Sorted(maps.Keys(r.timers)) {
			r.timers[id]()
		}
	}()
	if !e.View().Standing().Undoes {
		e.GoLive()
	}
	for {
		if r.asking {
			panic("the effect of a call was asked for, and is not known") // whoever asked may have caught the panic of the SDK
		}
		e.Tick(r.now())
		r.checkCancel()
		switch c := e.Next(); c.Op {
		case engine.None:
			if r.held = r.held || r.full(); r.held && !e.View().Standing().Cancelled {
				if e.Hold(); e.View().Idle() {
					r.carries = true
					return r.save()
				}
			}
			if err := r.await(); err != nil {
				return err
			}
		case engine.Make:
			r.make(c.Call)
		case engine.Stop:
			r.stop(c.Call.ID, c.Err)
		case engine.Arm:
			r.arm(c.Timer, c.Wait)
		case engine.Disarm:
			if stop := r.timers[c.Timer]; stop != nil {
				delete(r.timers, c.Timer)
				stop()
			}
		case engine.Save:
			if err := r.save(); err != nil {
				return err
			}
		case engine.Warn:
			r.warn("a rollback failed", c.Path, "error", c.Text)
		case engine.Done:
			return nil
		}
	}
}

// await waits until something happens, and tells the engine.
func (r *run) await() error {
	if err := r.save(); err != nil {
		return err
	}
	ready := func() bool {
		return len(r.happened) > 0 || len(r.asked) > 0 && r.takes() || r.cancelled != nil && !r.cancelled.told
	}
	_ = workflow.Await(r.free, ready) // it is never cancelled
	r.engine.Tick(r.now())
	switch {
	case r.cancelled != nil && !r.cancelled.told: // first: a cancelled call is not a failure
	case len(r.happened) > 0:
		tell := r.happened[0]
		r.happened = r.happened[1:]
		tell()
	default:
		q := r.asked[0]
		r.asked = r.asked[1:]
		r.take(q)
	}
	return nil
}

// checkCancel tells the engine once that the run is cancelled. Calls that go on have the grace period.
func (r *run) checkCancel() {
	if r.cancelled == nil || r.cancelled.told {
		return
	}
	r.cancelled.told = true
	r.engine.Cancel(context.Canceled, local.ErrCancelled)
	r.after(r.offer.Terms.Limits.WithDefaults().Grace, func() {
		for id, f := range r.inOrder() {
			if !f.undoes {
				r.leave(id, call.LeftBehind)
				continue
			}
			r.stop(id, engine.ErrGrace)
		}
	})
}

// inOrder are the calls under way, in the order in which they began.
func (r *run) inOrder() func(func(int64, *flight) bool) {
	return func(yield func(int64, *flight) bool) {
		for _, id := range slices.Sorted(maps.Keys(r.flights)) {
			if f := r.flights[id]; f != nil && !yield(id, f) {
				return
			}
		}
	}
}

// make makes a call as an activity.
func (r *run) make(c *engine.Call) {
	req := requestOf(r.id, c, r.offer.Remote.Secrets)
	f := &flight{path: c.Path, undoes: c.Rollback,
		waits: c.Rollback || c.Effect == runtime.External}
	local := r.in.Options.LocalReads && c.Effect == runtime.ReadOnly && r.in.Options.Queues[c.Name] == ""
	if n := sizeOf(req); n > maxPayload {
		res := engine.Result{Bad: &runtime.Error{Category: runtime.CategoryLimit,
			Code: "output.tooLarge", Err: fmt.Errorf("what %s sends has %d bytes, the most on a cluster is %d",
				c.Path, n, maxPayload)}}
		r.engine.Returned(c.ID, &res)
		return
	} else if local {
		r.room(maxLocal) // of the output: what is sent to the worker stays there
	} else {
		r.room(n)
	}
	id := c.ID
	r.flights[id] = f
	var ctx workflow.Context
	ctx, f.cancel = workflow.WithCancel(r.free)
	legs := &r.leg
	engineOf := r.engine
	workflow.Go(ctx, func(ctx workflow.Context) {
		a, err := r.attempt(ctx, f, req, local)
		legs.happened = append(legs.happened, func() {
			if r.engine != engineOf || r.flights[id] != f {
				return // it was left behind
			}
			delete(r.flights, id)
			r.engine.Returned(id, r.resultOf(f, a, err))
		})
	})
}

// resultOf is what came of an attempt.
func (r *run) resultOf(f *flight, a *answer, err error) *engine.Result {
	if err == nil {
		res := a.Restore()
		if f.undoes && res.Err != nil && f.stopped != nil {
			res.Err = f.stopped
		}
		return res
	}
	res := &engine.Result{}
	var late *temporal.TimeoutError
	var app *temporal.ApplicationError
	switch {
	case f.undoes && (err == unsent || temporal.IsCanceledError(err)):
		res.Err = f.stopped
	case err == unsent:
		res.Err = err
	case temporal.IsCanceledError(err):
		res.Err = context.Canceled
	case errors.As(err, &late) && late.TimeoutType() == enums.TIMEOUT_TYPE_HEARTBEAT:
		res.Err = &retry.Failure{Reason: retry.Timeout, Sent: true, Err: errors.New("the worker that made the call was lost")}
	case errors.As(err, &late):
		res.Err = &retry.Failure{Reason: retry.Timeout, Sent: true, Err: errors.New("the worker did not say in time what became of the call")}
	case errors.As(err, &app) && isMissing(app):
		res.Err = &retry.Failure{Err: errors.New(app.Message())}
	default:
		res.Err = &retry.Failure{Reason: retry.Timeout, Sent: true, Err: fmt.Errorf("the worker failed: %w", err)}
	}
	return res
}

// attempt makes one attempt of a call in an activity. The error is the worker's, or says that the call was cancelled.
func (r *run) attempt(ctx workflow.Context, f *flight, req *request, here bool) (*answer, error) {
	policy := &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		MaximumAttempts: 1 + lostWorkers}
	if req.Once {
		policy.MaximumAttempts = 1
	}
	limit := maxCall
	if req.Timeout > 0 {
		limit = req.Timeout + req.Grace + time.Minute // the worker keeps the timeout itself
	}
	for n := 1; ; n++ {
		var came workflow.Future
		if here {
			came = workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
				StartToCloseTimeout: limit, RetryPolicy: policy, Summary: req.Path}), callActivity, req)
		} else {
			came = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
				TaskQueue: r.in.Options.Queues[req.Name], StartToCloseTimeout: limit, HeartbeatTimeout: heartbeat,
				WaitForCancellation: f.waits, RetryPolicy: policy, Summary: req.Path}), callActivity, req)
		}
		a := new(answer)
		err := came.Get(ctx, a)
		if unreadable(err) {
			panic(fmt.Errorf("this worker cannot read what came of a call: %w", err)) // another one can: the task waits for it
		}
		if app := (*temporal.ApplicationError)(nil); here && errors.As(err, &app) && app.Type() == notLocal {
			here = false // it only reads
			continue
		}
		lacks, wait := elsewhere(err, n, req.Once)
		if lacks == "" {
			return a, err
		}
		f.lacks = lacks
		if workflow.Sleep(ctx, wait) != nil {
			return nil, unsent
		}
		f.lacks = ""
	}
}

// unsent is the error of a call that was told to stop while it waited for a worker that can make it. It is no cancellation:
// the effect of a call that was cancelled is not known.
var unsent error = &retry.Failure{Err: &runtime.Error{Category: runtime.CategoryInfra,
	Err: errors.New("the call was told to stop before a worker came that can make it")}}

// elsewhere says what a worker lacks, if another one is to make the call whose n-th activity has ended with an error, and
// when: nothing was sent. "": the call is not made again. A key that a worker lacks is no matter of the run, which waits
// for a worker with the key however long that takes. once: no activity of the call has more than one attempt.
func elsewhere(err error, n int, once bool) (lacks string, wait time.Duration) {
	var app *temporal.ApplicationError
	switch {
	case !errors.As(err, &app):
		return "", 0
	case isUnread(app):
		return app.Message(), time.Second << min(n-1, 8)
	case once && n <= lostWorkers && isMissing(app):
		return app.Message(), time.Second << min(n-1, 3)
	}
	return "", 0
}

// notLocal is the type of the error of a local activity whose output is too large for one.
const notLocal = "braise.notLocal"

// unreadable reports whether an activity has ended, and this worker cannot decode how.
func unreadable(err error) bool {
	var ended *temporal.ActivityError
	known, _ := errors.AsType[*runtime.Error](err)
	return err != nil && !errors.As(err, &ended) && (errors.Is(err, converter.ErrUnableToDecode) ||
		known != nil && (known.Code == "cluster.codecKey" || known.Code == "cluster.payload"))
}

// missing is the type of the error of a worker that lacks what a call needs: nothing was sent.
const missing = "braise.missing"

func isMissing(e *temporal.ApplicationError) bool {
	return e.Type() == missing || e.Type() == "ActivityNotRegisteredError"
}

// isUnread reports whether a worker could not decode what an activity is given, in the words of the SDK: it lacks the key.
func isUnread(e *temporal.ApplicationError) bool {
	return strings.HasPrefix(e.Message(), "unable to decode the activity function input payload")
}

// room waits for a workflow task that can send so many bytes: the messages of the server have a limit.
func (r *run) room(size int) {
	if n := workflow.GetInfo(r.free).GetCurrentHistoryLength(); n != r.task {
		r.task, r.sent = n, 0
	}
	if r.sent > 0 && r.sent+size > maxTask {
		_ = workflow.Sleep(r.free, time.Millisecond)
		r.task, r.sent = workflow.GetInfo(r.free).GetCurrentHistoryLength(), 0
	}
	r.sent += size
}

// stop tells a call to stop. A call whose worker does not say soon what became of it is left behind, unless the whole
// run was cancelled, which has a longer grace period.
func (r *run) stop(id int64, err error) {
	f := r.flights[id]
	if f == nil {
		return
	}
	f.stopped = err
	f.cancel()
	if f.waits && (f.undoes || !r.engine.View().Standing().Cancelled) {
		r.after(2*beat+guard.SettleTime, func() { r.leave(id, call.LeftBehind) })
	}
}

// leave abandons a call.
func (r *run) leave(id int64, text string) {
	f := r.flights[id]
	if f == nil {
		return
	}
	r.warn(text, f.path)
	delete(r.flights, id)
	f.cancel()
	r.engine.Returned(id, &engine.Result{Left: true, Err: f.stopped})
}

// arm has a timer of the engine fire.
func (r *run) arm(id int64, wait time.Duration) {
	r.timers[id] = r.after(wait, func() {
		delete(r.timers, id)
		r.engine.Fired(id)
	})
}

// after has something happen later in this leg, unless it is stopped.
func (r *run) after(wait time.Duration, then func()) (stop workflow.CancelFunc) {
	ctx, stop := workflow.WithCancel(r.free)
	leg, engineOf := &r.leg, r.engine
	workflow.Go(ctx, func(ctx workflow.Context) {
		if workflow.NewTimer(ctx, max(0, wait)).Get(ctx, nil) == nil {
			leg.happened = append(leg.happened, func() {
				if r.engine == engineOf {
					then()
				}
			})
		}
	})
	return stop
}

// warn tells the log of the worker, which is silent in replays.
func (r *run) warn(text, path string, more ...any) {
	workflow.GetLogger(r.free).Warn(text, append([]any{"run", r.id, "step", path}, more...)...)
}
