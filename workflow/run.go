package workflow

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// settleTime is how long a call that was told to stop, not by the run's caller, may take to
// return before it is left behind: enough to kill a process or close a connection.
const settleTime = 250 * time.Millisecond

// sinkTime is how long the end of a run waits for slow trace sinks.
const sinkTime = time.Second

// patience is how long a call that should be quick may last, once or twice, before another
// goroutine drives on. A hand-over to a worker costs about as much as a few quick calls.
const patience = 50 * time.Microsecond

// run is one execution of a workflow. One goroutine owns it: the one that drives the machine.
// Workers and timers only send to reports.
//
//	caller ──Run──▶ driver ◀──reports── workers, timers
//
// The driver itself executes a lone call, and the calls of tools that take values, which are quick
// as a rule. While it is inside, the baton says so, and the run may be taken over: by the caller
// when the context ended and the call did not come back within the grace period; by the watch when
// a call is not quick after all. Then it goes on like a worker's, and the run's other calls have
// workers.
type run struct {
	wf       *Workflow
	rt       *runtime.Runtime
	limits   runtime.Limits
	ctx      context.Context
	id       string
	prepared *prepared
	events   events

	m         *machine.Machine
	reports   chan report
	calls     chan *invocation // for workers that wait; closed at the end
	idle      int              // workers that wait, or will in a moment
	over      chan struct{}    // closed at the end: late reports go nowhere
	done      chan struct{}    // closed when the machine is done, unless the caller drove it to its end
	own       *invocation      // the one that the driver executes itself
	turns     int64            // calls that drivers executed themselves so far
	slow      bool             // a quick call was not
	watch     *time.Timer
	watching  atomic.Bool // the watch is armed
	seen      int64       // by the watch: what the baton was
	shared    *group      // of the calls that begin now
	groups    []*group
	timers    map[timerKey]*time.Timer
	ended     <-chan struct{} // ctx.Done until it was seen
	cancelled bool            // it was seen
	baton     atomic.Int64    // 0, or the number of the call that the driver is in; of a lone call negative
	fault     any             // a panic of the engine itself

	found found // findings of the run under way

	drawMutex sync.Mutex
	drawn     map[string]int // model calls so far, by model
}

// group is a context for calls that nothing can stop one by one: calls of the recipe's own steps
// without a timeout, that began before the same failure.
type group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

type timerKey struct {
	task  *machine.Task
	timer machine.Timer
}

// report is what workers and timers tell the driver.
type report struct {
	kind  reportKind
	call  *invocation // of returned, overdue and event
	event *detailed
	timer *timerKey // of due
}

// detailed is an event with content for the sinks that want it.
type detailed struct {
	trace.Event
	content any
}

type reportKind uint8

const (
	returned  reportKind = iota // a call has returned; its worker waits for the next one
	lost                        // a call has returned, and its worker has ended
	overdue                     // a call that was told to stop has had its time
	event                       // a call under way has something for the trace
	due                         // a timer of the machine
	graceOver                   // the grace period of a cancelled run is over
)

// Run executes the workflow. input is a map (or a struct) of the recipe's inputs, nil for none;
// rt may be nil, which is the zero Runtime. The Outcome is never nil, and the error is its Err:
// nil when the run is ok. Run does not panic, whatever tools and sinks do.
//
//  1. refuse what can be refused: a faulty Runtime, wrong inputs, in strict mode any finding
//  2. drive the machine
//  3. put the trace in plan order
func (wf *Workflow) Run(ctx context.Context, input any, rt *runtime.Runtime) (*Outcome, error) {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	r := &run{wf: wf, rt: rt, limits: rt.Limits.WithDefaults(), ctx: ctx, ended: ctx.Done()}
	r.events.begin()
	out := r.execute(input)
	return out, out.Err
}

func (r *run) execute(input any) (out *Outcome) {
	var start trace.Event
	about := []trace.Attr{{Key: "digest", Value: r.wf.recipe.Digest}, {Key: "recipe", Value: r.wf.recipe.Name}}
	if v := r.wf.recipe.Version; v != "" {
		about = append(about, trace.Attr{Key: "version", Value: v})
	}
	defer func() {
		if p := recover(); p != nil { // the engine's own fault, or of a port without a step: still an outcome
			if start.Kind == "" {
				start = r.events.runEvent(trace.RunStart, about...)
			}
			r.m, r.id = nil, cmp.Or(r.id, newRunID())
			out = r.outcome(start, nil, &runtime.Error{Category: runtime.CategoryInfra, Code: "engine.panic", Err: fmt.Errorf("engine: panic: %v", p)})
		} else if out == nil { // the caller's goroutine ends
			r.events.sinks.Close(sinkTime)
		}
	}()
	r.prepared = &prepared{list: slices.Clone(r.wf.Diagnostics)}
	inputs, err := r.open(input)
	start = r.events.runEvent(trace.RunStart, about...)
	if err != nil {
		return r.outcome(start, nil, err)
	}
	r.m = machine.New(r.wf.graph, inputs, machine.Options{
		MaxParallel: r.maxParallel(), MaxItems: r.limits.MaxItems, WallTime: r.wf.recipe.Limits.WallTime, Grace: r.limits.Grace,
		MaxTasks: r.limits.MaxSteps, MaxOutput: r.limits.MaxOutputBytes, MaxOutputs: r.limits.MaxRunBytes,
		Run: map[string]any{"id": r.id, "recipe": r.wf.recipe.Name, "version": r.wf.recipe.Version},
	})
	r.events.reserve(start, len(r.wf.graph.Nodes))
	r.over, r.done, r.own = make(chan struct{}), make(chan struct{}), new(invocation)
	r.reports = make(chan report, 16)
	r.tell(runtime.Moment{Point: runtime.RunInit})
	func() {
		defer r.release() // also if the caller's goroutine ends
		r.supervise()
	}()
	if r.fault != nil {
		panic(r.fault)
	}
	return r.outcome(start, r.m.Result().Output, r.resultError())
}

// release lets go of all that serves the calls.
func (r *run) release() {
	close(r.over)
	if r.calls != nil {
		close(r.calls)
	}
	for _, g := range r.groups {
		g.cancel(nil)
	}
	for _, t := range r.timers {
		t.Stop()
	}
	if r.watch != nil {
		r.watch.Stop()
	}
}

// maxParallel is the lowest bound that recipe and host set, else the default.
func (r *run) maxParallel() int {
	inRecipe, inHost := r.wf.recipe.Limits.MaxParallel, r.rt.Limits.MaxParallel
	if inRecipe > 0 && (inHost == 0 || inRecipe < inHost) {
		return inRecipe
	}
	return r.limits.MaxParallel
}

// open does what comes before the first step: the run's id, its inputs, what it needs.
func (r *run) open(input any) (map[string]any, error) {
	if err := r.rt.Validate(); err != nil {
		r.id = newRunID()
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "runtime.invalid", Err: err}
	}
	newID := r.rt.NewRunID
	if newID == nil {
		newID = newRunID
	}
	r.id = newID()
	r.events.sinks = trace.NewFanout(r.rt.Trace, r.id)
	p, err := r.wf.prepare(r.ctx, r.rt)
	r.prepared = p
	if cancelled := r.ctxError(); cancelled != nil {
		return nil, cancelled
	}
	if err != nil {
		return nil, err
	}
	given, err := inputMap(input)
	if err != nil {
		return nil, configError(diagnostics.CodeInput, "%w", err)
	}
	inputs, err := r.wf.inputs.check(given)
	if err != nil {
		for _, f := range r.wf.inputs.faults(given, &suggester{}, func(string) bool { return true }) {
			p.list = append(p.list, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
				Code: diagnostics.CodeInput, Message: f.message, Hint: f.hint})
		}
		return nil, configError(diagnostics.CodeInput, "%w", err)
	}
	p.list = r.rt.Diagnostics.Apply(p.list)
	if r.rt.Diagnostics == diagnostics.Strict && p.list.HasErrors() {
		return nil, configError(diagnostics.CodeStrict, "strict diagnostics failure: %w", p.list.Err())
	}
	return inputs, r.ctxError()
}

// ctxError refuses a run whose context has ended before it began.
func (r *run) ctxError() error {
	if r.ctx.Err() == nil {
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryCancelled, Code: "run.cancelled", Err: cancelCause(r.ctx)}
}

// cancelCause is why ctx ended; it is context.Canceled in any case.
func cancelCause(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return fmt.Errorf("the run was cancelled: %w", cause)
	}
	return fmt.Errorf("the run was cancelled (%w): %w", cause, context.Canceled)
}

// inputMap makes a map of what Run was given, which the caller may change afterwards.
func inputMap(input any) (map[string]any, error) {
	v, err := value.Normalise(input)
	if err != nil {
		return nil, fmt.Errorf("the input is not JSON: %w", err)
	}
	switch v := v.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return value.Clone(v).(map[string]any), nil
	}
	return nil, fmt.Errorf("the input must be a map from input names to values, not %s", value.TypeName(v))
}

// supervise drives the run, on a goroutine of its own if the caller may have to take over from it.
func (r *run) supervise() {
	if r.ctx.Done() == nil {
		r.driveHere()
		return
	}
	go r.driveBeside()
	select {
	case <-r.done:
		return
	case <-r.ctx.Done():
	}
	grace := time.NewTimer(r.limits.Grace)
	defer grace.Stop()
	for {
		select {
		case <-r.done:
			return
		case <-grace.C:
		}
		if turn := r.baton.Load(); turn != 0 && r.baton.CompareAndSwap(turn, 0) {
			r.cancel()
			r.leave(r.own)
			r.drive(new(*invocation)) // nothing starts any more
			return
		}
		// The driver is at work and counts the grace period itself, unless it was about to call.
		grace.Reset(settleTime)
	}
}

// driveHere drives the run on the caller's goroutine and waits for whoever took it over.
func (r *run) driveHere() {
	finished, inside := false, (*invocation)(nil)
	defer func() {
		if !finished && (inside == nil || !r.returned(inside)) { // else the goroutine ends, and nobody drives
			<-r.done
		}
	}()
	finished = r.drive(&inside)
}

// driveBeside drives the run on a goroutine of its own. When an adapter ends that goroutine, the
// run goes on on another one.
func (r *run) driveBeside() {
	var inside *invocation
	defer func() {
		if inside != nil {
			go func() {
				if r.returned(inside) {
					r.driveBeside()
				}
			}()
		}
	}()
	if r.drive(&inside) {
		close(r.done)
	}
}

// watchCall makes sure that the run goes on if the call that begins now takes long.
func (r *run) watchCall() {
	if r.watching.Load() {
		return
	}
	if r.watch == nil {
		r.watch = time.AfterFunc(time.Hour, r.look)
	}
	r.watching.Store(true)
	r.watch.Reset(patience)
}

// look takes the run over if the driver is in the same quick call as the last time.
func (r *run) look() {
	switch turn := r.baton.Load(); {
	case turn <= 0:
		r.watching.Store(false)
	case turn != r.seen || !r.baton.CompareAndSwap(turn, 0):
		r.seen = turn
		r.watch.Reset(patience)
	default:
		r.own.task.Driver = r.own
		r.own, r.slow = new(invocation), true
		r.driveBeside()
	}
}

// leave gives up a call that did not return in time. Its result, if one comes, is dropped.
func (r *run) leave(in *invocation) {
	in.left = true
	r.warn("a call ignored its context and was left behind", slog.String("step", in.task.Path()))
	r.m.Finish(in.task, nil, machine.Unknown, &machine.Failure{Category: string(runtime.CategoryCancelled), Code: "step.cancelled",
		Err: errors.New("the call ignored its context and was left behind")})
}

// drive executes the machine's commands until the run is over, or until it was taken over (false).
// inside is the call that the driver executes itself, while it does.
func (r *run) drive(inside **invocation) (finished bool) {
	defer func() {
		if p := recover(); p != nil { // the engine's own fault
			r.fault, finished = p, true
		}
	}()
	for work := 0; ; work++ {
		select {
		case <-r.ended: // each time: a step's expressions may take long
			r.cancel()
		default:
		}
		if work%64 == 63 {
			r.poll()
		}
		c := r.m.Next()
		switch c.Op {
		case machine.None:
			r.wait()
		case machine.Began:
			r.events.emit(c.Task, trace.Event{Kind: trace.StepStart, Step: c.Task.Path()}, nil)
			if r.hooked() {
				r.tell(runtime.Moment{Point: runtime.StepBefore, Step: r.events.path(c.Task)})
			}
		case machine.Ended:
			if c.Task.Node().Kind != machine.Call { // what computes takes time too
				r.events.tick()
			}
			r.events.emitEnd(c.Task)
			r.tellEnd(c.Task)
			if c.Task.Failure() != nil {
				r.shared = nil
			}
		case machine.Skipped:
			reason := skippedUpstream
			if c.Task.Status() == machine.SkippedWhen {
				reason = skippedWhen
			}
			r.events.emit(c.Task, trace.Event{Kind: trace.StepSkip, Step: c.Task.Path(), Data: reason}, nil)
		case machine.Start:
			if !r.start(c, inside) {
				return false
			}
		case machine.Stop:
			r.stop(c)
		case machine.Arm:
			r.arm(timerKey{c.Task, c.Timer}, c.Wait)
		case machine.Disarm:
			key := timerKey{c.Task, c.Timer}
			if timer := r.timers[key]; timer != nil { // else it came due in this very moment
				timer.Stop()
				delete(r.timers, key)
			}
		case machine.Done:
			return true
		}
	}
}

// start executes a call: a lone or quick one here, others on a goroutine each. It returns false
// when the run was taken over meanwhile.
func (r *run) start(c machine.Command, inside **invocation) bool {
	in := r.own
	*in = invocation{run: r, task: c.Task, call: c.Task.Node().Adapter.(*call), input: c.Input, path: r.events.path(c.Task), ctx: r.ctx}
	if r.ctx.Err() != nil {
		if !r.cancelled {
			r.cancel()
		}
		r.m.Finish(c.Task, nil, machine.Unknown, in.fault(cancelCause(r.ctx)))
		return true
	}
	if err := in.prepare(); err != nil {
		r.m.Finish(c.Task, nil, machine.Unknown, in.fault(err))
		return true
	}
	r.events.emit(c.Task, in.event(), in.content())
	r.turns++
	switch quick := !r.slow && in.tool != nil && in.tool.values != nil && !ownContext(c.Task); {
	case c.Alone:
		in.turn = -r.turns
	case quick:
		in.turn = r.turns
		in.ctx, in.cancel = r.callContext(c.Task)
		r.watchCall()
	default:
		r.hand(in)
		return true
	}
	*inside = in
	r.baton.Store(in.turn)
	in.do()
	*inside = nil
	return r.returned(in)
}

// returned takes the result of a call of the driver's own. When the run was taken over (false), it
// reports the result like a worker.
func (r *run) returned(in *invocation) bool {
	if !r.baton.CompareAndSwap(in.turn, 0) {
		r.send(report{kind: lost, call: in})
		return false
	}
	r.events.tick()
	if r.ctx.Err() != nil && !r.cancelled {
		r.cancel() // before the result: a call that was cancelled is no failure
	}
	r.m.Finish(in.task, in.output, in.size, in.failure)
	return true
}

// hand gives a call to a worker.
func (r *run) hand(in *invocation) {
	r.own = new(invocation)
	in.task.Driver = in
	in.ctx, in.cancel = r.callContext(in.task)
	if r.idle > 0 {
		r.idle--
		r.calls <- in
		return
	}
	if r.calls == nil {
		r.calls = make(chan *invocation, 16)
	}
	go r.work(in)
}

// work executes calls on a goroutine of its own: one, then those that the driver sends.
func (r *run) work(in *invocation) {
	defer func() {
		if in != nil { // the adapter ended the goroutine
			r.send(report{kind: lost, call: in})
		}
	}()
	for in != nil {
		in.do()
		r.send(report{kind: returned, call: in})
		in = <-r.calls
	}
}

// ownContext reports whether a call may be stopped by itself.
func ownContext(t *machine.Task) bool { return t.Nested() || t.Node().Timeout > 0 }

// callContext makes the context of a call that runs beside others.
func (r *run) callContext(t *machine.Task) (context.Context, context.CancelCauseFunc) {
	if ownContext(t) {
		return context.WithCancelCause(r.ctx)
	}
	if r.shared == nil {
		ctx, cancel := context.WithCancelCause(r.ctx)
		r.shared = &group{ctx, cancel}
		r.groups = append(r.groups, r.shared)
	}
	return r.shared.ctx, r.shared.cancel
}

// emit tells the driver of an event of a call that is under way.
func (in *invocation) emit(ev trace.Event, content any) {
	r := in.run
	if in.cancel != nil {
		r.send(report{kind: event, call: in, event: &detailed{ev, content}})
		return
	}
	if r.baton.CompareAndSwap(in.turn, 0) { // else the caller has taken over
		r.events.tick()
		r.events.emit(in.task, ev, content)
		r.baton.Store(in.turn)
	}
}

// send reports to the driver, or to nobody once the run is over.
func (r *run) send(rep report) {
	select {
	case r.reports <- rep:
		return
	default:
	}
	select {
	case r.reports <- rep:
	case <-r.over:
	}
}

func (r *run) arm(key timerKey, wait time.Duration) {
	if r.timers == nil {
		r.timers = map[timerKey]*time.Timer{}
	}
	r.timers[key] = time.AfterFunc(wait, func() { r.send(report{kind: due, timer: &key}) })
}

// stop tells a call to stop. Unless the whole run was cancelled, which has a longer grace period,
// the call is left behind if it does not return soon.
func (r *run) stop(c machine.Command) {
	in, ok := c.Task.Driver.(*invocation)
	if !ok {
		return // the driver's own call, which the caller takes over from: its context has ended
	}
	in.cancel(c.Err)
	if !r.cancelled {
		time.AfterFunc(settleTime, func() { r.send(report{kind: overdue, call: in}) })
	}
}

// wait takes the next report.
func (r *run) wait() {
	select {
	case rep := <-r.reports:
		r.take(rep)
	case <-r.ended:
		r.cancel()
	}
}

// poll takes what has been reported, so that a long chain of pure steps notices it.
func (r *run) poll() {
	for {
		select {
		case rep := <-r.reports:
			r.take(rep)
		case <-r.ended:
			r.cancel()
		default:
			return
		}
	}
}

func (r *run) cancel() {
	r.ended, r.cancelled = nil, true
	r.events.tick()
	r.m.Cancel(cancelCause(r.ctx))
	time.AfterFunc(r.limits.Grace, func() { r.send(report{kind: graceOver}) })
}

func (r *run) take(rep report) {
	r.events.tick()
	if r.ctx.Err() != nil && !r.cancelled {
		r.cancel() // before what is reported: a call that was cancelled is no failure
	}
	in := rep.call
	if rep.kind == returned {
		r.idle++
	}
	switch {
	case rep.kind == due:
		delete(r.timers, *rep.timer)
		r.m.Due(rep.timer.task, rep.timer.timer)
	case rep.kind == graceOver:
		for _, t := range r.m.Calls() {
			if in, ok := t.Driver.(*invocation); ok { // else it is about to start, and will not
				r.leave(in)
			}
		}
	case in.left || in.task.Driver == nil: // left behind, or returned in time
	case rep.kind == event:
		r.events.emit(in.task, rep.event.Event, rep.event.content)
	case rep.kind == overdue:
		r.leave(in)
	default:
		in.task.Driver = nil
		if ownContext(in.task) {
			in.cancel(nil)
		}
		r.m.Finish(in.task, in.output, in.size, in.failure)
	}
}

// drawCall counts the calls of a model: the n-th gets n, from 1.
func (r *run) drawCall(model string) int {
	r.drawMutex.Lock()
	defer r.drawMutex.Unlock()
	if r.drawn == nil {
		r.drawn = map[string]int{}
	}
	r.drawn[model]++
	return r.drawn[model]
}

// resultError words the end of the machine as the run's error.
func (r *run) resultError() error {
	f := r.m.Result().Failure
	if f == nil {
		return nil
	}
	return &runtime.Error{Category: runtime.Category(f.Category), Code: f.Code, Step: f.Path, Err: f.Err}
}

// statusOf is the status of a run that ended with err, nil for ok.
func statusOf(err error) Status {
	e, _ := errors.AsType[*runtime.Error](err)
	switch {
	case err == nil:
		return StatusOK
	case e != nil && e.Category == runtime.CategoryCancelled:
		return StatusCancelled
	}
	return StatusError
}

// outcome puts together how the run ended, and tells the sinks. output is the recipe's.
func (r *run) outcome(start trace.Event, output any, err error) *Outcome {
	out := &Outcome{Status: statusOf(err), RunID: r.id, Recipe: r.wf.recipe.Name, Output: output, Err: err}
	out.Trace = []trace.Event{start}
	out.Diagnostics = r.prepared.list
	if r.m != nil {
		out.Trace = r.events.inPlanOrder(r.m)
		out.Artefact = r.m.Artefact()
		for _, f := range r.m.Others() {
			out.Diagnostics = append(out.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
				Code: diagnostics.CodeStepFailed, Message: fmt.Sprintf("step %q failed too: %v", f.Path, f.Err), Step: f.Path})
		}
		finish := runtime.Moment{Point: runtime.RunFinish, Output: output, Status: string(statusOf(err)), Err: err}
		r.tell(finish)
		out.Diagnostics = append(out.Diagnostics, r.found.inPlanOrder(out.Trace)...)
	}
	var last trace.Event
	switch e := out.Error(); {
	case e == nil:
		last = r.events.runEvent(trace.RunSuccess)
	case e.Category == runtime.CategoryCancelled:
		last = r.events.runEvent(trace.RunCancelled, trace.Attr{Key: "reason", Value: e.Error()})
	default:
		attrs := []trace.Attr{{Key: "code", Value: e.Code}, {Key: "message", Value: e.Error()}}
		if e.Step != "" {
			attrs = append(attrs, trace.Attr{Key: "step", Value: e.Step})
		}
		last = r.events.runEvent(trace.RunError, attrs...)
	}
	end := r.events.runEvent(trace.RunEnd, trace.Attr{Key: "status", Value: string(out.Status)})
	out.Trace = append(out.Trace, last, end)
	for i := range out.Trace {
		out.Trace[i].Seq = int64(i + 1)
	}
	for _, f := range r.events.sinks.Close(sinkTime) {
		text := fmt.Sprintf("trace sink %d failed: %v", f.Index, f.Err)
		out.Diagnostics = append(out.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindAdapter,
			Code: diagnostics.CodeSinkFailed, Message: text})
		r.warn(text)
	}
	return out
}

// warn tells the host's operator; whatever that does changes nothing.
func (r *run) warn(text string, attrs ...slog.Attr) {
	defer func() { _ = recover() }()
	reporter := r.rt.Reporter
	if reporter == nil {
		reporter = slogReporter{}
	}
	reporter.Warn(text, append([]slog.Attr{slog.String("run", r.id)}, attrs...)...)
}

type slogReporter struct{}

func (slogReporter) Warn(msg string, attrs ...slog.Attr) {
	slog.Default().LogAttrs(context.Background(), slog.LevelWarn, msg, attrs...)
}

// newRunID returns a UUIDv7 (RFC 9562, 5.7): 48 bits of Unix milliseconds, then random bits.
func newRunID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	ms := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint64(id[:8], ms<<16|uint64(id[6])<<8|uint64(id[7]))
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[:8], id[:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:], id[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
