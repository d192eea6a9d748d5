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
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
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
	clock    clock
	host     recipe.Limits // the host's bound of the run

	m           *machine.Machine
	reports     chan report
	calls       chan *invocation // for workers that wait; closed at the end
	idle        int              // workers that wait, or will in a moment
	over        chan struct{}    // closed at the end: late reports go nowhere
	done        chan struct{}    // closed when the machine is done, unless the caller drove it to its end
	own         *invocation      // the one that the driver executes itself
	turns       int64            // calls that drivers executed themselves so far
	slow        bool             // a quick call was not
	slots       chan struct{}    // of calls under way, one each; nil: the machine starts no more than there may be
	watch       *time.Timer
	watching    atomic.Bool // the watch is armed
	seen        int64       // by the watch: what the baton was
	shared      *group      // of the calls that begin now
	groups      []*group
	timers      map[timerKey]*time.Timer
	ended       <-chan struct{} // ctx.Done until it was seen
	cancelled   bool            // it was seen, or the journal cannot be written any more
	cancelledAt int64           // what the machine had decided then
	baton       atomic.Int64    // 0, or the number of the call that the driver is in; of a lone call negative
	fault       any             // a panic of the engine itself

	found found // findings of the run under way

	journal   journal
	leg       *leg // that the run goes on with; nil: it begins
	let       bool // the lease was given back
	live      bool // goOnLive is done
	replaying bool
	stamped   bool                  // see stamp
	pending   []machine.Command     // calls and waits that an earlier leg left under way
	armed     []machine.Command     // its timers
	halted    []*machine.Task       // calls that it told to stop
	unsure    map[*machine.Task]int // calls that had begun and have no result, by their ordinal
	blocked   []blocked             // calls that wait for the journal
	pauses    []*openPause
	opened    map[string]int // pauses so far, by path
	answers   map[*machine.Task]reply
	progress  map[*machine.Task]progress // of calls that paused and are not finished
	agents    map[*machine.Task]*agentLog
	sleepers  []*time.Timer
	waits     []resume.Pause // of a run that ends its leg paused, with tokens

	interrupt  resume.Interrupt        // what pausing does to the run
	generation int                     // beginnings of the run so far
	kept       map[pauseKey]keptAnswer // for later generations
	sent       []sent                  // from outside, there from the start of later generations
	nth        map[pauseKey]int        // pauses of this generation so far, by key without n
	doubts     map[pauseKey]bool       // without n: of a call of an earlier generation nobody knows whether it had its effect
	rolled     map[string]rolled       // by path of the rollback
	wasUndone  bool                    // this generation paused, and was rolled back
	atEnd      bool                    // nothing is left to do but to roll back
	forGood    *string                 // why the run was cancelled for good; nil: it was not
	again      []*machine.Task         // that ended in an earlier leg, for the trace

	budget    budget
	drawMutex sync.Mutex
	drawn     map[string]*drawn // by model
}

// blocked is a call that begins once what is before it is in the journal.
type blocked struct {
	in    *invocation
	alone bool
}

// drawn are the calls of a model.
type drawn struct {
	made []bool // by number, from 1: that call was
	free int    // where in made the first may be that was not
}

// group is a context for calls that nothing can stop one by one: calls of the recipe's own steps
// without a timeout, that began before the same failure.
type group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// reply is the answer to the pause that a call asked for.
type reply struct {
	value any
	to    string // the reason of the pause
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
	timer *timerKey     // of due
	task  *machine.Task // of waitOver
	pause *openPause    // of pauseDue
	err   error         // of fenced
	batch *agentBatch   // of agentEvents
}

// detailed is an event with content for the sinks that want it.
type detailed struct {
	trace.Event
	content any
}

type reportKind uint8

const (
	returned    reportKind = iota // a call has returned; its worker waits for the next one
	lost                          // a call has returned, and its worker has ended
	overdue                       // a call that was told to stop has had its time
	event                         // a call under way has something for the trace
	due                           // a timer of the machine
	graceOver                     // the grace period of a cancelled run is over
	late                          // records have waited for long enough
	fenced                        // the run's lease was lost
	waitOver                      // a short wait is over
	pauseDue                      // a pause has come to its time
	agentEvents                   // of an agent at work, for the journal
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
	r := newRun(ctx, wf, rt)
	out := r.execute(func() (map[string]any, error) { return r.open(input) }, r.beginJournal)
	return out, out.Err
}

func newRun(ctx context.Context, wf *Workflow, rt *runtime.Runtime) *run {
	r := &run{wf: wf, rt: rt, limits: rt.Limits.WithDefaults(), host: hostLimits(rt.Budget), ctx: ctx, ended: ctx.Done(), generation: 1, interrupt: rt.Interrupt}
	r.events.begin()
	r.clock.since = r.events.began
	return r
}

// execute makes one leg of a run: open says what its inputs are, or refuses it; ready does what is
// left to do once there is a machine.
func (r *run) execute(open func() (map[string]any, error), ready func() error) (out *Outcome) {
	var start trace.Event
	defer func() {
		if p := recover(); p != nil { // the engine's own fault, or of a port without a step: still an outcome
			if start.Kind == "" {
				start = r.events.runEvent(trace.RunStart, r.about()...)
			}
			r.m, r.id = nil, cmp.Or(r.id, newRunID())
			out = r.outcome(start, nil, &runtime.Error{Category: runtime.CategoryInfra, Code: "engine.panic", Err: fmt.Errorf("engine: panic: %v", p)})
		} else if out == nil { // the caller's goroutine ends
			r.events.sinks.Close(sinkTime)
		}
	}()
	r.prepared = &prepared{list: slices.Clone(r.wf.Diagnostics)}
	inputs, err := open()
	start = r.events.runEvent(trace.RunStart, r.about()...)
	if err != nil {
		return r.outcome(start, nil, err)
	}
	r.journal.inputs = inputs
	r.m = r.newMachine()
	r.m.Tell(r.events.now)
	steps := len(r.wf.graph.Nodes)
	r.events.reserve(start, steps)
	if r.rt.Store == nil {
		r.journal.entries = make([]entry, 0, steps+1)
	}
	r.over, r.done, r.own = make(chan struct{}), make(chan struct{}), new(invocation)
	r.reports = make(chan report, 16)
	if r.wf.overlaps {
		r.slots = make(chan struct{}, r.maxParallel())
	}
	if err := ready(); err != nil {
		r.m = nil
		return r.outcome(start, nil, storeError(err))
	}
	if r.leg == nil || !r.leg.ended {
		r.tell(runtime.Moment{Point: runtime.RunInit})
		func() {
			defer r.release() // also if the caller's goroutine ends
			if !r.atEnd {
				r.supervise()
			}
		}()
	}
	if r.fault != nil {
		panic(r.fault)
	}
	return r.end(start)
}

// about is the payload of run.start.
func (r *run) about() []trace.Attr {
	about := []trace.Attr{{Key: "digest", Value: r.wf.digest}, {Key: "recipe", Value: r.wf.recipe.Name}}
	if r.leg != nil && r.leg.recover {
		about = slices.Insert(about, 1, trace.Attr{Key: "recover", Value: true})
	} else if r.leg != nil {
		about = append(about, trace.Attr{Key: "resume", Value: true})
	}
	if v := r.wf.recipe.Version; v != "" {
		about = append(about, trace.Attr{Key: "version", Value: v})
	}
	return about
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
	for _, t := range r.sleepers {
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

// open does what comes before the first step: the run's id, what it needs, its inputs.
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
	if err := r.prepare(); err != nil {
		return nil, err
	}
	given, err := inputMap(input)
	if err != nil {
		return nil, configError(diagnostics.CodeInput, "%w", err)
	}
	inputs, err := r.wf.inputs.check(given)
	if err != nil {
		for _, f := range r.wf.inputs.faults(given, &suggester{}, func(string) bool { return true }) {
			r.prepared.list = append(r.prepared.list, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
				Code: diagnostics.CodeInput, Message: f.message, Hint: f.hint})
		}
		return nil, configError(diagnostics.CodeInput, "%w", err)
	}
	return inputs, r.strict()
}

// prepare finds out what the runtime offers.
func (r *run) prepare() error {
	p, err := r.wf.prepare(r.ctx, r.rt)
	r.prepared = p
	if cancelled := r.ctxError(); cancelled != nil {
		return cancelled
	}
	if err == nil && (r.leg == nil || !r.leg.ended) {
		err = r.unpriced()
	}
	return err
}

// strict refuses a run with findings, if that is asked for.
func (r *run) strict() error {
	p := r.prepared
	p.list = r.rt.Diagnostics.Apply(p.list)
	if r.rt.Diagnostics == diagnostics.Strict && p.list.HasErrors() {
		return configError(diagnostics.CodeStrict, "strict diagnostics failure: %w", p.list.Err())
	}
	return r.ctxError()
}

// beginJournal gives a new run its journal. Where the host has chosen the run's id it is begun at once, so
// that nothing runs under an id that is taken.
func (r *run) beginJournal() error {
	j := &r.journal
	j.run = checkpoint.Run{ID: r.id, Recipe: r.wf.recipe.Name, Digest: r.wf.digest, StartedAt: r.events.now}
	if j.store = r.rt.Store; j.store == nil {
		return nil
	}
	var err error
	if j.run.Definition, err = r.wf.definition(); err != nil {
		return err
	}
	if r.rt.NewRunID != nil {
		r.flush()
	}
	return j.err
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

// watchCall makes sure that the run goes on if the call that the baton names takes long.
func (r *run) watchCall() {
	if r.watch == nil {
		r.watch = time.AfterFunc(time.Hour, r.look)
	}
	if r.watching.CompareAndSwap(false, true) {
		r.watch.Reset(patience)
	}
}

// look takes the run over if the driver is in the same quick call as the last time.
func (r *run) look() {
	switch turn := r.baton.Load(); {
	case turn <= 0:
		if r.watching.Store(false); r.baton.Load() > 0 { // a call began in this very moment
			r.watchCall()
		}
	case turn != r.seen || !r.baton.CompareAndSwap(turn, 0):
		r.seen = turn
		r.watch.Reset(patience)
	default:
		r.own.task.Driver = r.own
		r.own, r.slow = new(invocation), true
		r.driveBeside()
	}
}

// notDone is the failure of a call that was cancelled.
func notDone(why string) *machine.Failure {
	return &machine.Failure{Category: string(runtime.CategoryCancelled), Code: "step.cancelled", Err: errors.New(why)}
}

// leave gives up a call that did not return in time. Its result, if one comes, is dropped.
func (r *run) leave(in *invocation) {
	in.left = true
	r.warn("a call ignored its context and was left behind", slog.String("step", in.task.Path()))
	in = &invocation{run: r, task: in.task, path: in.path, call: in.call, tool: in.tool, args: in.args, size: machine.Unknown} // the old one is its worker's
	in.failure = notDone("the call ignored its context and was left behind")
	r.finish(in)
}

// drive executes the machine's commands until the run is over, or until it was taken over (false).
// inside is the call that the driver executes itself, while it does.
func (r *run) drive(inside **invocation) (finished bool) {
	defer func() {
		if p := recover(); p != nil { // the engine's own fault
			r.fault, finished = p, true
		}
	}()
	r.goOnLive()
	for len(r.pending) > 0 {
		c := r.pending[0]
		r.pending = r.pending[1:]
		if !r.carryOut(c, inside) {
			return false
		}
	}
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
		switch {
		case c.Op == machine.None && r.m.Result() != nil: // it was replayed to its end
			return true
		case c.Op == machine.None && len(r.blocked) > 0:
			if !r.unblock(inside) {
				return false
			}
		case c.Op == machine.None:
			r.wait()
		case c.Op == machine.Done:
			return true
		case !r.carryOut(c, inside):
			return false
		}
	}
}

// carryOut executes a command of the machine. It returns false when the run was taken over
// meanwhile.
func (r *run) carryOut(c machine.Command, inside **invocation) bool {
	switch c.Op {
	case machine.Began:
		r.beginTime(c.Task)
		r.events.emit(c.Task, trace.Event{Kind: trace.StepStart, Step: c.Task.Path()}, nil)
		if r.hooked() {
			r.tell(runtime.Moment{Point: runtime.StepBefore, Step: r.events.path(c.Task)})
		}
	case machine.Ended:
		if c.Task.Node().Kind != machine.Call { // what computes takes time too
			r.events.tick()
		}
		r.began(c.Task)
		r.events.emitEnd(c.Task)
		r.closePauses(c.Task)
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
		return r.start(c, inside)
	case machine.Open:
		r.openWait(c)
	case machine.Stop:
		r.stop(c)
	case machine.Arm:
		if n := c.Task.Node(); n != nil && n.Kind == machine.Receive {
			c.Task.Driver = r.events.now.Add(c.Wait) // see openReceive
		}
		if c.Task.Node() == nil && c.Timer == machine.Timeout { // the run's
			c.Wait -= r.clock.at(r.events.now)
		}
		r.arm(timerKey{c.Task, c.Timer}, c.Wait)
	case machine.Disarm:
		key := timerKey{c.Task, c.Timer}
		if timer := r.timers[key]; timer != nil { // else it came due in this very moment
			timer.Stop()
			delete(r.timers, key)
		}
	}
	return true
}

// goOnLive makes the state that the journal gave a live one, once.
func (r *run) goOnLive() {
	if r.leg == nil || r.live {
		return
	}
	r.live = true
	undone := r.wasUndone
	if undone { // then what is due begins the run again
		r.goOnDue()
	}
	r.m.Walk(func(t *machine.Task) {
		if t.Status() == machine.Running && t.First == 0 {
			r.events.emit(t, trace.Event{Kind: trace.StepStart, Step: t.Path()}, nil)
		}
	}, func(*machine.Task) {})
	for i, a := range r.armed {
		r.armed[i].Wait -= r.timeOf(a.Task)
	}
	r.pending, r.armed = slices.Concat(r.armed, r.pending), nil
	for _, t := range r.halted { // calls that were told to stop are not made again
		if i := slices.IndexFunc(r.pending, func(c machine.Command) bool { return c.Op == machine.Start && c.Task == t }); i >= 0 {
			r.pending = slices.Delete(r.pending, i, i+1)
			in := &invocation{run: r, task: t, path: r.events.path(t), call: t.Node().Adapter.(*call), size: machine.Unknown}
			in.failure = notDone("the call was told to stop before the process died")
			r.finish(in)
		}
	}
	r.halted = nil
	if !undone {
		r.goOnDue()
	}
}

// goOnDue ends the pauses that are due.
func (r *run) goOnDue() {
	for _, p := range slices.Clone(r.pauses) {
		r.goOn(p)
	}
}

// start executes a call, unless the journal comes first. It returns false when the run was taken
// over meanwhile.
func (r *run) start(c machine.Command, inside **invocation) bool {
	in := r.own
	*in = invocation{run: r, task: c.Task, call: c.Task.Node().Adapter.(*call), input: c.Input, path: r.events.path(c.Task), ctx: r.ctx}
	if r.ctx.Err() != nil {
		if !r.cancelled {
			r.cancel()
		}
		in.failure = in.fault(cancelCause(r.ctx))
		r.finish(in)
		return true
	}
	if err := in.prepare(); err != nil {
		in.size, in.failure = machine.Unknown, in.fault(err)
		r.finish(in)
		return true
	}
	in.identify(c.Again)
	if r.journal.durable() {
		if unsure, ok := r.unsure[c.Task]; ok && unsure == in.ordinal && !in.repeatable() || r.doubtful(pauseKey{step: in.path, kind: resume.System, reason: indeterminate}) > 0 {
			delete(r.unsure, c.Task)
			in.pause = in.askWhatHappened()
			r.finish(in)
			return true
		}
	}
	if in.req == nil && in.agent == nil && r.timed() { // models have asked before, and agents ask for each call
		in.accounts = r.accountsOf(in.task)
		if err := in.reserve(); err != nil {
			in.size, in.failure = machine.Unknown, in.fault(err)
			r.finish(in)
			return true
		}
	}
	if r.journal.durable() {
		if effect := in.hasEffect(); effect || r.journal.urgent {
			if effect {
				r.note(entry{kind: recBegun, path: in.path, n: r.m.Decided(), ordinal: in.ordinal})
			}
			r.own = new(invocation)
			r.blocked = append(r.blocked, blocked{in, c.Alone})
			return true
		}
	}
	return r.launch(in, c.Alone && (len(r.journal.entries) == 0 || !r.journal.durable()), inside)
}

// unblock writes the journal, and begins the calls that waited for it.
func (r *run) unblock(inside **invocation) bool {
	r.flush()
	for len(r.blocked) > 0 {
		b := r.blocked[0]
		r.blocked = r.blocked[1:]
		if r.journal.err != nil || r.cancelled {
			b.in.failure = notDone("the call did not begin")
			r.finish(b.in)
			continue
		}
		if !r.launch(b.in, b.alone && len(r.blocked) == 0, inside) {
			return false
		}
	}
	return true
}

// launch begins a call: a lone or quick one here, others on a goroutine each. It returns false when
// the run was taken over meanwhile.
func (r *run) launch(in *invocation, alone bool, inside **invocation) bool {
	if in.agent != nil {
		r.hand(in) // it tells of its calls itself, and needs a driver
		return true
	}
	r.events.emit(in.task, in.event(), in.content())
	r.turns++
	if r.slots != nil {
		alone = false
	}
	switch quick := r.slots == nil && !r.slow && in.tool != nil && in.tool.values != nil && !ownContext(in.task); {
	case alone:
		in.turn = -r.turns
		in.setContext(r.ctx, nil)
	case quick:
		in.turn = r.turns
		in.setContext(r.callContext(in.task))
	default:
		r.hand(in)
		return true
	}
	r.own = in
	*inside = in
	r.baton.Store(in.turn)
	if in.turn > 0 { // only now: the watch looks at the baton
		r.watchCall()
	}
	in.reachedCall(beforeTool, beforeModel)
	in.do()
	in.reachedCall(afterTool, afterModel)
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
	r.finish(in)
	return true
}

// finish tells the journal and the machine how a call ended.
func (r *run) finish(in *invocation) {
	in.release(amount{}) // of a call that was not made, or panicked
	if a := in.agent; a != nil {
		if r.closeAgent(in); a.pauses != nil && in.failure == nil {
			r.suspendAgent(in, a.pauses)
			return
		}
	}
	if in.pause != nil {
		r.suspend(in)
		return
	}
	cancelled := in.failure != nil && in.failure.Category == string(runtime.CategoryCancelled)
	if !cancelled || !r.cancelled { // what was cancelled from outside is done again when the run is recovered
		r.note(entry{kind: recEnded, path: in.path, n: r.decided(), output: in.output, failure: in.failure, asked: in.asked()})
		r.journal.urgent = r.journal.urgent || r.journal.durable() && in.hasEffect()
		r.m.Spend(in.task, in.used.micros)
	}
	r.m.Finish(in.task, in.output, in.size, in.failure)
}

// hand gives a call to a worker.
func (r *run) hand(in *invocation) {
	if r.own == in {
		r.own = new(invocation)
	}
	in.task.Driver = in
	in.setContext(r.callContext(in.task))
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
		in.reachedCall(beforeTool, beforeModel)
		in.do()
		in.reachedCall(afterTool, afterModel)
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
	if in.tell != nil { // it is inside an agent
		in.tell(ev)
		return
	}
	if in.told != nil { // it is a rollback's
		select {
		case in.told <- detailed{ev, content}:
		case <-in.ctx.Done():
		}
		return
	}
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
	r.ended = nil
	r.stopAll(cancelCause(r.ctx))
}

// stopAll ends the run early, after the grace period at the latest.
func (r *run) stopAll(cause error) {
	r.cancelled, r.cancelledAt = true, r.m.Decided()
	r.events.tick()
	r.m.Cancel(cause)
	time.AfterFunc(r.limits.Grace, func() { r.send(report{kind: graceOver}) })
}

// decided is what a record says that the machine had decided by then: what it decides while the run is
// being cancelled, whoever goes on decides anew.
func (r *run) decided() int64 {
	if r.cancelled {
		return r.cancelledAt
	}
	return r.m.Decided()
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
	case rep.kind == agentEvents:
		r.takeEvents(in, rep.batch)
	case rep.kind == due:
		delete(r.timers, *rep.timer)
		if !r.cancelled {
			r.note(entry{kind: recFired, path: rep.timer.task.Path(), n: r.m.Decided(), timer: rep.timer.timer})
		}
		r.m.Due(rep.timer.task, rep.timer.timer)
	case rep.kind == late:
		r.journal.armed = nil
		r.flush()
	case rep.kind == fenced:
		r.journal.err = errors.Join(r.journal.err, rep.err)
		if !r.cancelled {
			r.stopAll(rep.err)
		}
	case rep.kind == waitOver:
		if rep.task.Status() == machine.Waiting && !r.cancelled {
			r.note(entry{kind: recWaitOver, path: rep.task.Path(), n: r.m.Decided()})
			r.m.Answer(rep.task, nil, nil)
		}
	case rep.kind == pauseDue:
		if !r.cancelled {
			r.goOn(rep.pause)
		}
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
		r.finish(in)
	}
}

// drawCall counts the calls of a model: each gets the least number, from 1, that no other has. So a
// call that a crash interrupted gets its number again.
func (r *run) drawCall(model string) int {
	r.drawMutex.Lock()
	defer r.drawMutex.Unlock()
	d := r.drawnOf(model)
	for d.free < len(d.made) && d.made[d.free] {
		d.free++
	}
	if d.free == len(d.made) {
		d.made = append(d.made, false)
	}
	d.made[d.free] = true
	return d.free + 1
}

// markDrawn notes a call of an earlier leg.
func (r *run) markDrawn(model string, n int) {
	if n < 1 || n > math.MaxInt32 {
		return
	}
	d := r.drawnOf(model)
	for len(d.made) < n {
		d.made = append(d.made, false)
	}
	d.made[n-1] = true
}

func (r *run) drawnOf(model string) *drawn {
	d := r.drawn[model]
	if d == nil {
		if d = new(drawn); r.drawn == nil {
			r.drawn = map[string]*drawn{}
		}
		r.drawn[model] = d
	}
	return d
}

// resultError words the end of the machine as the run's error.
func (r *run) resultError() error {
	if r.journal.err != nil {
		return storeError(r.journal.err)
	}
	if r.forGood != nil {
		return cancelledForGood(*r.forGood)
	}
	f := r.m.Result().Failure
	if f == nil {
		return nil
	}
	return &runtime.Error{Category: runtime.Category(f.Category), Code: f.Code, Step: f.Path, Err: f.Err}
}

// end closes the journal of this leg, and makes the outcome.
func (r *run) end(start trace.Event) *Outcome {
	left := r.undoAtEnd()
	err := r.resultError()
	switch {
	case r.leg != nil && r.leg.ended || r.journal.err != nil:
	case left != nil: // it can be recovered, and so it can if it was cancelled
		if err != nil {
			r.found.add(stoppedBy(err))
		}
		err = left
	case r.forGood == nil && r.m.Result().Status == machine.Waiting:
		return r.endPaused(start)
	case !r.cancelled || r.forGood != nil:
		reached(beforeEnd)
		r.noteEnd(err)
	default:
		r.noteData(recStopped, "", nil)
	}
	if r.leg == nil || !r.leg.ended {
		r.flush()
		if r.journal.err != nil {
			err = storeError(r.journal.err)
		}
		reached(afterEnd)
		r.letGo()
		r.let = true
	}
	if r.rt.Store == nil && r.leg != nil && r.journal.err == nil && !r.cancelled && left == nil {
		_ = local.Delete(context.WithoutCancel(r.ctx), r.id) // nobody asks for it any more
	}
	var output any
	if result := r.m.Result(); err == nil && result != nil {
		output = result.Output
	}
	return r.outcome(start, output, err)
}

// noteEnd notes that the run is over for good.
func (r *run) noteEnd(err error) {
	if !r.journal.durable() {
		return
	}
	data := map[string]any{"status": string(checkpoint.OK)}
	if r.forGood != nil {
		data["status"] = string(checkpoint.Cancelled)
	} else if err != nil {
		data["status"] = string(checkpoint.Failed)
	}
	r.noteData(checkpoint.RunEnded, "", data)
}

// endPaused ends the leg of a run that waits: each open pause gets a fresh token.
func (r *run) endPaused(start trace.Event) *Outcome {
	place := map[*machine.Task]int{}
	r.m.Walk(func(t *machine.Task) { place[t] = len(place) }, func(*machine.Task) {})
	slices.SortStableFunc(r.pauses, func(a, b *openPause) int { return cmp.Compare(place[a.task], place[b.task]) })
	if r.journal.store == nil {
		if r.journal.store = &local; r.rt.Cache != nil {
			r.journal.store = &checkpoint.Memory{}
		}
		r.journal.run.Definition, r.journal.err = r.wf.definition()
	}
	var pauses []resume.Pause
	for _, p := range r.pauses {
		shown := p.Pause
		shown.Token = r.mint(p)
		pauses = append(pauses, shown)
	}
	reached(beforeEnd)
	r.noteData(checkpoint.RunPaused, "", nil)
	r.flush()
	reached(afterEnd)
	r.letGo()
	r.let = true
	if r.journal.err == nil && r.rt.Store == nil && r.rt.Cache != nil {
		r.journal.err = r.toCache()
	}
	if err := r.journal.err; err != nil {
		return r.outcome(start, nil, storeError(err))
	}
	r.waits = pauses
	return r.outcome(start, nil, nil)
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
	if err == nil && r.waits != nil {
		out.Status, out.Token, out.Pauses = StatusPaused, r.waits[0].Token, r.waits
	}
	out.Trace = []trace.Event{start}
	out.Diagnostics = r.prepared.list
	if r.m != nil {
		out.Trace = r.events.inPlanOrder(r.m)
		out.Artefact = r.m.Artefact()
		if r.m.Result() != nil {
			for _, f := range r.m.Others() {
				out.Diagnostics = append(out.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
					Code: diagnostics.CodeStepFailed, Message: fmt.Sprintf("step %q failed too: %v", f.Path, f.Err), Step: f.Path})
			}
		}
		if r.leg == nil || !r.leg.ended {
			r.tell(runtime.Moment{Point: runtime.RunFinish, Output: output, Status: string(out.Status), Err: err})
		}
		out.Diagnostics = append(out.Diagnostics, r.found.inPlanOrder(out.Trace)...)
	}
	out.Trace = append(out.Trace, r.lastEvents(out)...)
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

// lastEvents are those that say how the run ended.
func (r *run) lastEvents(out *Outcome) (list []trace.Event) {
	add := func(kind trace.Kind, attrs ...trace.Attr) { list = append(list, r.events.runEvent(kind, attrs...)) }
	switch e := out.Error(); {
	case out.Status == StatusPaused:
		for _, p := range out.Pauses {
			add(trace.RunPaused, trace.Attr{Key: "pauseKind", Value: string(p.Kind)}, trace.Attr{Key: "step", Value: p.Step})
		}
		add(trace.RunOutput, trace.Attr{Key: "type", Value: "artefact"})
	case e == nil:
		add(trace.RunSuccess)
	case out.Status == StatusCancelled:
		add(trace.RunCancelled, trace.Attr{Key: "reason", Value: e.Error()})
	default:
		attrs := []trace.Attr{{Key: "code", Value: e.Code}, {Key: "message", Value: e.Error()}}
		if e.Step != "" {
			attrs = append(attrs, trace.Attr{Key: "step", Value: e.Step})
		}
		add(trace.RunError, attrs...)
	}
	add(trace.RunEnd, trace.Attr{Key: "status", Value: string(out.Status)})
	return list
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
