package temporal

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/wire"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// DefaultTaskQueue is the queue of engines and workers that name none.
const DefaultTaskQueue = "braise"

// WorkerOptions say how a [Worker] works; nil is their zero value.
type WorkerOptions struct {
	TaskQueue string        // "" is DefaultTaskQueue
	OnlyCalls bool          // the worker makes calls, and drives no runs
	Drain     time.Duration // how long running calls may go on when the worker stops. Defaults to 30 s.
	MaxCalls  int           // calls under way. 0: as many as the SDK's default
	// Build is the version of the worker, which the server then has runs keep to: all workers of a queue have one, and
	// somebody says which one is current. "": the worker has none.
	Build string
	// SearchAttributes has the runs that begin on this worker found by [RecipeAttribute] and [StatusAttribute], which
	// somebody has registered in the namespace.
	SearchAttributes bool
}

// Worker makes the calls of runs, and drives them. It keeps no state: it may die at any time.
type Worker struct {
	rt       *runtime.Runtime
	programs program.Cache
	client   client.Client
	search   bool
	worker   worker.Worker
	broke    chan error // why the SDK has stopped the worker, if it does
}

// NewWorker makes a worker of a task queue, with what its runs may touch. Run has it work. The runtime's Store, Cache,
// OnPause, Reporter and NewRunID are not used, and its Trace gets the events of a run once it pauses, ends or goes on in
// another execution. The error says that the runtime cannot be used.
func NewWorker(c client.Client, rt *runtime.Runtime, opts *WorkerOptions) (*Worker, error) {
	w, o, err := newWorker(rt), WorkerOptions{}, unsupported(rt)
	if opts != nil {
		o = *opts
	}
	if err == nil {
		err = rt.Validate()
	}
	if err != nil {
		return nil, err
	}
	queue := cmp.Or(o.TaskQueue, DefaultTaskQueue)
	versions, err := deployment(queue, o.Build)
	if err != nil {
		return nil, err
	}
	w.client, w.search, w.broke = c, o.SearchAttributes, make(chan error, 1)
	s := worker.Options{DeploymentOptions: versions, WorkerStopTimeout: cmp.Or(o.Drain, 30*time.Second), DisableWorkflowWorker: o.OnlyCalls,
		MaxConcurrentActivityExecutionSize: o.MaxCalls, MaxHeartbeatThrottleInterval: beat,
		DefaultHeartbeatThrottleInterval: beat, DeadlockDetectionTimeout: 10 * time.Second,
		OnFatalError: func(err error) { w.broke <- err }}
	w.worker = worker.New(c, queue, s)
	w.register(w.worker, o.OnlyCalls)
	return w, nil
}

func newWorker(rt *runtime.Runtime) *Worker { return &Worker{rt: rt} }

// registry is where a worker says what it can do.
type registry interface {
	RegisterDynamicWorkflow(w any, options workflow.DynamicRegisterOptions)
	RegisterActivityWithOptions(a any, options activity.RegisterOptions)
}

func (w *Worker) register(to registry, onlyCalls bool) {
	to.RegisterActivityWithOptions(w.call, activity.RegisterOptions{Name: callActivity})
	if onlyCalls {
		return
	}
	to.RegisterActivityWithOptions(w.offerFor, activity.RegisterOptions{Name: offerActivity})
	to.RegisterActivityWithOptions(w.trace, activity.RegisterOptions{Name: traceActivity})
	to.RegisterDynamicWorkflow(w.begin, workflow.DynamicRegisterOptions{})
}

// Run works until ctx ends. Then the worker takes no more tasks, and returns once its calls have ended, after
// WorkerOptions.Drain at the latest. The error says that it could not begin, or why it cannot go on: the server no longer
// has the namespace, or refuses the worker for good.
func (w *Worker) Run(ctx context.Context) error {
	if w.search {
		if err := registered(ctx, w.client); err != nil {
			return err
		}
	}
	if err := w.worker.Start(); err != nil {
		return refusal(err)
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-w.broke:
	}
	w.worker.Stop()
	return refusal(err)
}

// refusal is the error of a server that takes no worker; nil for none.
func refusal(err error) error {
	if _, gone := errors.AsType[*serviceerror.NamespaceNotFound](err); gone {
		return clusterError("cluster.namespace", "the server has no such namespace: %w", err)
	}
	return failed("", err)
}

// program returns the program of a definition.
func (w *Worker) program(definition json.RawMessage) (*program.Program, error) {
	sum := sha256.Sum256(definition)
	return w.programs.Of(hex.EncodeToString(sum[:]), program.Now,
		func() (*recipe.Recipe, error) { return recipe.FromDefinition(definition) })
}

// offerFor is the activity that says what the runtime has for a run.
func (w *Worker) offerFor(ctx context.Context, in *input) (*offer, error) {
	p, err := w.program(in.Definition)
	if err != nil {
		return nil, err
	}
	given, err := value.Decode(in.Inputs)
	if err != nil {
		return nil, err
	}
	o := offerOf(ctx, p, given, w.rt, rand.Text())
	o.Terms.Search = w.search
	if n := sizeOf(o); n > maxOffer {
		return &offer{Refused: wire.FaultOf(tooLarge("what the worker offers has %d bytes, the most on a cluster is %d"+
			"\n  hint: its tools have long descriptions or schemas", n, maxOffer))}, nil
	}
	return o, nil
}

// call is the activity that makes one attempt of a call. Its error says that this worker cannot make it.
func (w *Worker) call(ctx context.Context, req *request) (*answer, error) {
	defer beats(ctx)()
	if req.Once {
		var stop func()
		ctx, stop = steady(ctx)
		defer stop()
	}
	c, err := req.Restore()
	if err != nil {
		return nil, err
	}
	uses := &program.Program{Recipe: &recipe.Recipe{}, Graph: &machine.Graph{}} // as far as a binding reads it
	if c.Kind == program.ToolCall && c.Job == nil {
		uses.Tools = []program.Use{{Name: c.Name}}
	}
	for _, name := range req.Secrets {
		uses.Secrets = append(uses.Secrets, program.Use{Name: name})
	}
	caller, err := call.Bind(ctx, uses, w.rt)
	if err != nil {
		return nil, temporal.NewApplicationError(err.Error(), missing)
	}
	if known := caller.Known(uses); len(known) < len(req.Secrets) {
		return nil, temporal.NewApplicationError(fmt.Sprintf("the worker has only the secrets %q of %q", known, req.Secrets), missing)
	}
	caller.RunID, ctx = req.Run, value.WithRedactor(ctx, caller.Redact)
	caller.Warn = func(text, path string) {
		activity.GetLogger(ctx).Warn(text, "run", req.Run, "step", path)
	}
	if err := lacks(caller, w.rt, c); err != nil {
		return nil, temporal.NewApplicationError(err.Error(), missing)
	}
	if c.Kind == program.ToolCall || c.Kind == program.RetrieverCall {
		if err := caller.Prepare(c); err != nil {
			return shown(&engine.Result{Bad: err}, caller), nil
		}
	}
	res := makes(ctx, caller, c)
	if cause := context.Cause(ctx); res.Err != nil && aborts(cause) {
		return nil, temporal.NewApplicationError(fmt.Sprintf("the call was stopped: %v", cause), stopped)
	}
	if res.Reply != nil && len(res.Reply.Tools) > 0 {
		res = engine.Result{Err: clusterError("cluster.unsupported", "a skill brings tools, which agents on a cluster cannot call")}
	}
	a := bounded(shown(&res, caller))
	if n := sizeOf(a); n > maxLocal && activity.IsActivity(ctx) && activity.GetInfo(ctx).IsLocalActivity {
		return nil, temporal.NewNonRetryableApplicationError(fmt.Sprintf("the output has %d bytes", n), notLocal, nil)
	}
	return a, nil
}

// shown is what came of a call, without secrets.
func shown(res *engine.Result, caller *call.Caller) *answer {
	a := wire.ResultOf(res)
	a.Err.Redact(caller.Redact)
	a.Bad.Redact(caller.Redact)
	return a
}

// makes makes a call, even if the adapter ends the goroutine.
func makes(ctx context.Context, caller *call.Caller, c *engine.Call) engine.Result {
	done := make(chan engine.Result, 1)
	go func() {
		returned := false
		defer func() {
			if !returned {
				done <- caller.Ended(c)
			}
		}()
		res := caller.Make(ctx, c)
		returned = true
		done <- res
	}()
	return <-done
}

// lacks says what a call needs that the worker does not have; nil: nothing.
func lacks(caller *call.Caller, rt *runtime.Runtime, c *engine.Call) error {
	own, no := caller.Offers.Runtime, ""
	switch {
	case c.Kind == program.ModelCall && caller.Offers.Models[c.Request.Model] == nil:
		no = fmt.Sprintf("model %q", c.Request.Model)
	case (c.Looks || c.Files != nil) && own.Files == nil:
		no = "folder of files"
	case c.Kind == program.ToolCall && !hasTool(caller, c.Name):
		no = fmt.Sprintf("tool %q", c.Name)
	case c.Kind == program.RetrieverCall && !caller.Reaches(c):
		no = "retriever"
	case c.Kind == program.MemoryCall && own.Memory == nil:
		no = "memory"
	case c.Job == nil:
	case c.Job.Op == agents.LoadSkills && own.Skills == nil:
		no = "skill loader"
	case c.Job.Op == agents.LoadInstructions && own.Env == nil:
		no = "environment"
	case (c.Job.Op == agents.ReadInbox || c.Job.Op == agents.ClearInbox) && rt.Inbox == nil:
		no = "inbox"
	case c.Job.Op == agents.AskApprover && own.Approver == nil:
		no = "approver"
	}
	if no == "" {
		return nil
	}
	return fmt.Errorf("the worker has no %s, which the run began with", no)
}

func hasTool(caller *call.Caller, name string) bool {
	for _, spec := range caller.Offers.ToolSpecs() {
		if spec.Name == name && spec.Missing == "" {
			return true
		}
	}
	env := caller.Offers.Runtime.Env
	if env == nil {
		return false
	}
	for _, t := range env.Tools() {
		if t != nil && t.Spec().Name == name {
			return true
		}
	}
	return false
}

// bounded refuses an answer that the server would not take: after the call, nobody would know what became of it.
func bounded(a *answer) *answer {
	n := sizeOf(a)
	if n <= maxPayload+1<<16 {
		return a
	}
	return wire.ResultOf(&engine.Result{Bad: &runtime.Error{Category: runtime.CategoryLimit,
		Code: "output.tooLarge",
		Err:  fmt.Errorf("the output has %d bytes, the most on a cluster is %d", n, maxPayload)}})
}

// sizeOf is the size of a payload before it is coded.
func sizeOf(v any) int {
	text, err := json.Marshal(v)
	if err != nil {
		return 0 // the data converter says why
	}
	return len(text)
}

// stopped is the type of the error of a call that was stopped, not because the run wants that: it is made again.
const stopped = "braise.stopped"

// aborts reports whether a call whose context has ended for a reason is made again later: its worker stops, or somebody
// has paused or reset the activity on the server.
func aborts(cause error) bool {
	return errors.Is(cause, worker.ErrWorkerShutdown) || errors.Is(cause, activity.ErrActivityPaused) ||
		errors.Is(cause, activity.ErrActivityReset)
}

// steady is a context that ends when ctx does, unless the activity was paused or reset: a call that nobody makes again is
// not interrupted by that.
func steady(ctx context.Context) (context.Context, func()) {
	still := context.WithoutCancel(ctx)
	free := func() {}
	if late, ok := ctx.Deadline(); ok {
		still, free = context.WithDeadline(still, late)
	}
	still, cancel := context.WithCancelCause(still)
	unlink := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !errors.Is(cause, activity.ErrActivityPaused) && !errors.Is(cause, activity.ErrActivityReset) {
			cancel(cause)
		}
	})
	return still, func() {
		unlink()
		cancel(nil)
		free()
	}
}

// beats says from time to time that a call is being made, until it is told to stop. That the call has begun is known.
func beats(ctx context.Context) (stop func()) {
	if !activity.IsActivity(ctx) || activity.GetInfo(ctx).IsLocalActivity {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a call that was told to stop still lives
	every := beat
	var next *time.Timer
	next = time.AfterFunc(maxCall, func() {
		activity.RecordHeartbeat(context.WithoutCancel(ctx))
		if next.Reset(every); ctx.Err() != nil {
			next.Stop()
		}
	})
	next.Reset(every)
	return func() {
		cancel()
		next.Stop()
	}
}
