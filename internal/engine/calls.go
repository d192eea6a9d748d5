package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// caller is who a call is made for: a [step], an [agent] or a rollback, see [undoing]. It takes what becomes of the
// call.
type caller interface {
	// mayPause reports whether a failed attempt, or a limit, may become a pause.
	mayPause(p *pending) bool
	// entered begins the call once it has a slot.
	entered(r *Run, p *pending)
	// tell puts an event of the call into the trace. live says that an adapter or a hook told it: then live sinks have
	// it already, unless it is an agent's, which puts its events in order first.
	tell(e *events, p *pending, ev trace.Event, content any, live bool)
	// fellBack is told which model is asked from now on.
	fellBack(p *pending, model string)
	// returned takes the result of an attempt that has not failed. As a pointer, all results would escape to the heap.
	returned(r *Run, p *pending, res Result)
	// ended takes the error of a call that has failed, or the pause that it waits for.
	ended(r *Run, p *pending, end outcome, err error)
	// abandoned is how the call ends if nobody waits for it any more, and why.
	abandoned(why string) outcome
}

// pending is a call that has not ended.
//
//	blocked ──▶ queued ──▶ flying ──▶ over
//	(store)     (slot)      │   ▲
//	                        ▼   │
//	                       delayed
type pending struct {
	*Call // the attempt; each attempt has its own, because an abandoned one may still be running
	first Call

	caller
	task  *machine.Task // of the step
	site  *program.Call // where the recipe has the call, or the agent that makes it
	agent *agent        // at work, of an agent step
	rules
	counts
	finish string // why the answer of the model ended
	journal.Progress

	stage  stage
	timer  int64 // while delayed
	made         // the attempt, or the call of an earlier process
	term         // of all attempts together
	course       // likewise
	slot   bool  // it has a slot
	open   bool  // the last attempt may have had its effect
	halt         // what was told to it
}

// counts are what a call counts as in budgets.
type counts struct {
	tools    int64          // calls of tools
	accounts []*account     // in which these, calls of models and time count
	reserved journal.Amount // for the attempt
	use      journal.ModelUse
}

// halt is whether a call was told to stop.
type halt struct {
	stopped   bool
	stoppedBy error // why, unless the run's context has ended
}

// rules say what follows when an attempt of a call fails.
type rules struct {
	policy    *retry.Resolved // nil: no layer sets a retry policy
	when      *expr.Program   // of errors after which another attempt may be made; nil: any
	fallbacks []string        // models that may be called then, in order
	polled    bool            // its model answers in batches
	reports   bool            // its agent tells of calls with unknown outcome in its result
}

// made is when and by which process, as leases name it, a call was made; "": not known.
type made struct {
	at    time.Time
	owner string
}

// course is what has become of a call so far.
type course struct {
	last  error // of the attempt before
	began time.Time
	tries int           // attempts
	known bool          // the journal has that it began
	lost  []resume.Call // of its agent, that ended early and may have had their effect
}

// took is how long the call has taken by now, in whole milliseconds.
func (p *pending) took(now time.Time) time.Duration {
	return max(0, now.Sub(p.began)).Truncate(time.Millisecond)
}

// term is how much time a call has.
type term struct {
	deadline time.Time     // zero: none
	grace    time.Duration // to return after that
	late     error         // the error of a call whose time is over
	due      time.Time     // while delayed: when the next attempt is
}

// stage is the state of a call.
type stage uint8

const (
	preparing stage = iota
	blocked         // waits for the store
	queued          // waits for a slot
	asked           // waits for the driver
	flying
	working // an agent
	delayed // until its next attempt
	over
)

// calls are the calls in progress.
type calls struct {
	last       int64 // number of a call
	generation int   // that they are of
	group      int64 // of the calls that start now
	flying     []*pending
	blocked    []*pending // they wait for the store
	queue      []*pending // they wait for a slot
	busy       int        // slots
	quick      bool       // calls may be made while others wait: they do not overlap, and no hook looks at them
	spare      []*pending // memory of calls that are over
}

// outcome is how a logical call ends: with a failure, a pause, or an output.
type outcome struct {
	output  any
	extent  value.Extent // of output; zero: not measured
	failure *machine.Failure
	pause   *resume.Pause
	unknown bool // it may have had its effect although it failed
	late    bool // its time was over before an attempt was made
}

// newCall returns a new call of a task.
func (c *calls) newCall(by caller, t *machine.Task, site *program.Call, path string, now time.Time) *pending {
	p := c.fresh()
	p.caller, p.task, p.site, p.Call = by, t, site, &p.first
	p.ID, p.Kind, p.Name, p.Path, p.Pos, p.Opens = c.number(), site.Kind, site.Name, path, site.Pos, site.Secrets
	p.Ordinal, p.Generation, p.Recipe, p.began = 1, c.generation, site.Recipe, now
	return p
}

// number returns the number of a new call.
func (c *calls) number() int64 {
	c.last++
	return c.last
}

// fresh returns a zero call.
func (c *calls) fresh() *pending {
	n := len(c.spare)
	if n == 0 {
		return new(pending)
	}
	p := c.spare[n-1]
	c.spare = c.spare[:n-1]
	*p = pending{}
	return p
}

// reuse lets a later call use the memory of a call that is over, unless it may still be read: by an abandoned adapter,
// or by the driver that waits for a stopped one.
func (c *calls) reuse(p *pending) {
	const most = 8
	if !p.stopped && !p.Stream && p.Timeout == 0 && p.Call == &p.first && len(c.spare) < most {
		c.spare = append(c.spare, p)
	}
}

// cutOff reports whether a call must end early.
func (e *ending) cutOff(p *pending) bool {
	return p.stopped || e.cut != nil && !p.outlives()
}

// outlives reports whether the call is made although the run has ended.
func (c *Call) outlives() bool { return c.Rollback || c.Dispose }

// why is the reason why a call was told to stop; nil: not known.
func (e *ending) why(p *pending) error {
	switch {
	case p.stoppedBy != nil:
		return p.stoppedBy
	case e.cut != nil:
		return e.cause
	}
	return nil
}

// errOf is the error of a call that did not start because it was told to stop.
func (e *ending) errOf(p *pending) error {
	if err := e.why(p); err != nil {
		return err
	}
	return context.Canceled
}

// launch starts a call that no longer waits for anything.
func (p *pending) launch(r *Run) {
	if p.Kind == program.AgentCall {
		p.agent.begin(r)
		return
	}
	r.trace.tell(p, r.now, r.o.callEvent(p, r.unsaved.durable), r.o.content(p))
	p.enter(r)
}

// callEvent is the event that an adapter is called. durable: a person may have to find out its outcome.
func (o *Options) callEvent(p *pending, durable bool) trace.Event {
	data := p.site.Event
	if p.Kind == program.ModelCall {
		data = o.modelData(p)
	}
	if durable && p.hasEffect() {
		data = append(data[:len(data):len(data)], trace.Attr{Key: "key", Value: p.keyIn(o.ID)})
		slices.SortStableFunc(data, func(a, b trace.Attr) int { return strings.Compare(a.Key, b.Key) })
	}
	return trace.Event{Kind: trace.AdapterCall, Step: p.Path, Data: data}
}

// content is the input of a call if it is wanted, else nil.
func (o *Options) content(p *pending) any {
	if !o.Wants.Content {
		return nil
	}
	if p.Kind != program.ModelCall {
		return o.arguments(p)
	}
	messages := make([]any, len(p.Request.Messages))
	for i, m := range p.Request.Messages {
		messages[i] = map[string]any{"role": string(m.Role), "text": m.Text}
	}
	return map[string]any{"messages": messages}
}

// arguments are those of a call. What refers to secrets is redacted.
func (o *Options) arguments(p *pending) any {
	if p.Opens {
		return o.Adapters.Shown(p.Call)
	}
	return p.Input
}

// enter continues a call once it has a slot, where calls of agents may overlap with others.
func (p *pending) enter(r *Run) {
	if !r.program.Overlaps {
		p.entered(r, p)
		return
	}
	if r.calls.busy >= r.o.Parallel {
		if r.todo.drains && p.canPutOff(r.o.Kept) {
			p.fail(r, p.putOff(r.now), p.last)
			return
		}
		p.stage = queued
		r.calls.queue = append(r.calls.queue, p)
		return
	}
	r.calls.busy++
	p.slot = true
	p.entered(r, p)
}

// leave gives the slot of a call to the next one.
func (p *pending) leave(r *Run) {
	if !p.slot {
		return
	}
	p.slot = false
	r.calls.busy--
	if len(r.calls.queue) > 0 && !r.todo.drains {
		next := r.calls.queue[0]
		r.calls.queue = r.calls.queue[1:]
		r.calls.busy++
		next.slot = true
		next.entered(r, next)
	}
}

// make has the driver make an attempt of a call, unless that waits in a batch.
func (p *pending) make(r *Run) {
	if !p.joins(r) {
		r.todo.ask(r.calls.attempt(p, r.now, r.by))
	}
}

// attempt has the driver make an attempt of a call, for whom the run serves.
func (c *calls) attempt(p *pending, now time.Time, by string) Command {
	p.Attempt, p.Group, p.By = p.Attempts+1, c.group, by
	p.Alone = p.Alone || p.task.Nested() || p.task.Node().Timeout > 0
	if p.policy != nil && p.Batch == nil {
		p.Timeout = p.policy.Timeout
	}
	if left := p.deadline.Sub(now); !p.deadline.IsZero() && (p.Timeout == 0 || left < p.Timeout) {
		p.Timeout, p.Grace = max(left, 1), p.grace
	}
	p.Quick = p.Quick && p.policy == nil && p.Timeout == 0 && !p.Alone && c.quick
	p.stage = asked
	return Command{Op: Make, Call: p.Call, of: p}
}

// begins reports whether a call that is handed to the driver starts. If not, it is over.
func (p *pending) begins(r *Run) bool {
	switch {
	case p.stage != asked:
		return false
	case p.stopped, r.ending.broken, r.ending.cancelled && !p.outlives():
		p.open = false
		p.fail(r, nil, r.ending.errOf(p))
		return false
	}
	p.stage, p.made = flying, made{r.now, r.o.Owner}
	p.tries++
	r.calls.flying = append(r.calls.flying, p)
	return true
}

// stop tells a call to stop.
func (p *pending) stop(r *Run, err error) {
	if p.stopped {
		return
	}
	if p.stopped = true; r.ending.cut == nil {
		p.stoppedBy = err
	}
	switch p.stage {
	case working:
		p.agent.stop(r, context.Canceled, err)
	case flying:
		r.todo.ask(Command{Op: Stop, Call: p.Call, Detail: &Detail{Err: err}})
	case delayed:
		r.todo.disarm(p.timer)
		p.fail(r, nil, cmp.Or(p.last, r.ending.errOf(p)))
	case queued:
		r.calls.queue = slices.DeleteFunc(r.calls.queue, func(q *pending) bool { return q == p })
		p.fail(r, nil, r.ending.errOf(p))
	}
}

// Returned reports the result of an attempt at the call with this ID, once. It ignores a call that the run does not
// wait for. From then on the run owns the Call, and may use its memory for another one.
func (r *Run) Returned(call int64, res *Result) {
	i := slices.IndexFunc(r.calls.flying, func(p *pending) bool { return p.ID == call })
	if i < 0 {
		return
	}
	p := r.calls.flying[i]
	r.calls.flying = slices.Delete(r.calls.flying, i, i+1)
	p.stage = preparing
	r.Report(res.Found...)
	if p.task == nil {
		r.batches.returned(r, p, res)
		return
	}
	if len(res.Told) > 0 {
		r.Note(p.Path, r.trace.told(p, res.Told))
	}
	switch {
	case res.Lost:
		p.ended(r, p, p.abandoned("this process no longer holds the run"), res.Err)
	case res.Left:
		p.open = true
		p.useReserved()
		p.ended(r, p, p.abandoned("the call ignored its context and was left behind"),
			cmp.Or(res.Err, r.ending.errOf(p)))
	case res.Yield:
		p.retry(r)
	case p.stillWaits(r, res):
	default:
		p.attempted(r, res)
		if p.stage == over {
			r.calls.reuse(p)
		}
	}
}

// stopText describes why a call was told to stop.
func (o *Options) stopText(why error) string {
	if why == nil || why == context.Canceled {
		return ""
	}
	return valid(o.Redact.Text(why.Error()))
}

// hasEffect reports whether the call may do something to the world.
func (p *pending) hasEffect() bool {
	return p.Kind == program.ToolCall && p.Effect != runtime.ReadOnly ||
		p.Kind == program.RetrieverCall && p.Effect == runtime.Idempotent // it writes to an index
}

// begunAs sets the effect of the call to the one recorded when it began; "": it keeps its own.
func (p *pending) begunAs(effect string) *pending {
	p.Effect = cmp.Or(runtime.Effect(effect), p.Effect)
	return p
}

// repeatable reports whether a second call does no harm.
func (p *pending) repeatable() bool {
	return p.Kind != program.ToolCall || p.Effect != runtime.External
}

// notDone is the failure of a call that was cancelled.
func notDone(why string) *machine.Failure {
	return &machine.Failure{Category: string(runtime.CategoryCancelled), Code: "step.cancelled", Err: errors.New(why)}
}

// redefine begins the generation of a change of the definition, unless that continues the present one.
func (c *calls) redefine(what *journal.Redefined) {
	if what.Generation > 0 {
		c.generation = what.Generation
	}
}

// any reports whether there are calls that the driver makes, or that wait for the store or a slot.
func (c *calls) any() bool { return len(c.flying)+len(c.blocked)+len(c.queue) > 0 }

// unblock takes the next call that waited for the store.
func (c *calls) unblock() *pending {
	p := c.blocked[0]
	c.blocked, p.stage = c.blocked[1:], preparing
	return p
}
