package local

import (
	"context"
	"time"

	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/guard"
)

// yieldAfter is how many commands are carried out before other goroutines that wait for the turn get it.
const yieldAfter = 64

// turn is the right to access the state of a run. It is a channel of capacity one and not a mutex, because
// testing/synctest sees goroutines that wait for a channel.
type turn chan struct{}

func (t turn) take() { t <- struct{}{} }
func (t turn) give() { <-t }

// supervise drives the run until its execution is over. No goroutine owns the run meanwhile. A goroutine that has
// finished something takes the turn, tells the engine, and carries out its commands. It starts a goroutine for every
// ready call but one, gives the turn back, and makes the remaining call itself.
//
//	call returns ┐                                    ┌ go work: other calls
//	timer fires  ├─▶ turn: tell ─▶ carry out ─▶ give ─┤
//	ctx ends     ┘                                    └ work: one call, and round again
//
// The caller has the turn, and has it again when supervise returns.
func (r *Run) supervise() {
	if drive := driverOf(r.ctx); drive != nil {
		drive(r)
		return
	}
	r.over, r.done = false, make(chan struct{})
	stop := func() bool { return false }
	if r.ctx.Done() != nil {
		stop = context.AfterFunc(r.ctx, func() { r.happened(func() {}) })
	}
	next := r.drive(func() {
		if !r.Engine.View().Standing().Undoes {
			r.Engine.GoLive()
		}
	})
	done := r.done
	if drain := r.rt.Drain; drain != nil {
		go func() {
			select {
			case <-drain:
				r.happened(func() {})
			case <-done:
			}
		}()
	}
	r.turn.give()
	if next.Call != nil {
		go r.work(next)
	}
	<-done
	r.drops.Wait()
	stop()
	r.turn.take()
}

// Undo finishes the rollback of a run that stopped while it was being rolled back for a pause.
func (r *Run) Undo() error {
	r.supervise()
	if r.fault != nil {
		panic(r.fault)
	}
	if left := r.Engine.View().Standing().Left; left != nil {
		return left
	}
	if err := r.Flush(); err != nil {
		return err
	}
	r.Engine.Undone()
	return nil
}

// work makes a call, and the calls that follow from it.
func (r *Run) work(c flight) {
	makeRoom()
	defer func() {
		if c.Call != nil { // the adapter has ended the goroutine
			res := r.Caller.Ended(c.Call)
			go func() { r.work(r.took(c, &res)) }()
		}
	}()
	for c.Call != nil {
		res := r.make(c)
		c = r.took(c, &res)
	}
}

// make makes a call, if the run is still this process's.
func (r *Run) make(c flight) engine.Result {
	if err := r.Store.Owned(r.ctx); err != nil {
		return engine.Result{Lost: true, Err: err}
	}
	reachedCall(c.Call, failpoint.BeforeTool, failpoint.BeforeModel)
	res := r.Caller.Make(c.ctx, c.Call)
	reachedCall(c.Call, failpoint.AfterTool, failpoint.AfterModel)
	if c.Rollback && res.Err != nil && c.ctx.Err() != nil {
		res.Err = context.Cause(c.ctx)
	}
	return res
}

// took takes the result of a call, and returns the next call to make, if there is one that others do not make.
func (r *Run) took(c flight, res *engine.Result) flight {
	return r.inTurn(func() {
		if c.lone {
			c.cancel(nil)
			delete(r.lone, c.ID)
		}
		if res.Lost {
			r.fence(res.Err)
		}
		r.Engine.Returned(c.ID, res)
	})
}

// happened takes anything else that has happened: a timer, the end of a context.
func (r *Run) happened(tell func()) {
	if next := r.inTurn(tell); next.Call != nil {
		go r.work(next)
	}
}

// inTurn waits for the turn, tells the run what happened and drives it on. It returns a call to make.
func (r *Run) inTurn(tell func()) flight {
	r.turn.take()
	defer r.turn.give()
	if r.over {
		return flight{}
	}
	return r.drive(func() {
		r.checkContext() // first: a cancelled call is not a failure
		tell()
	})
}

// drive tells the run what happened, and advances it. The caller has the turn. A panic here comes from the engine,
// or from a port outside any call, and ends the run.
func (r *Run) drive(tell func()) (next flight) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if r.fault = recover(); r.fault == nil {
			r.fault = errPort
		}
		r.finished()
	}()
	r.Engine.Tick(r.now())
	tell()
	if next = r.advance(); !r.over {
		r.Store.schedule(r)
	}
	returned = true
	return next
}

// finished ends the run's turns: later events change nothing.
func (r *Run) finished() {
	if !r.over {
		r.over = true
		close(r.done)
	}
}

// advance carries out the commands of the engine until the engine waits for something to happen. It starts all
// ready calls but one, which it returns. It returns a quick call at once: the other work comes after the call, or
// before it ends if something happens meanwhile.
func (r *Run) advance() (mine flight) {
	for n := 1; !r.over; n++ {
		if n%yieldAfter == 0 {
			if mine.Call != nil {
				go r.work(mine)
				mine = flight{}
			}
			r.turn.give()
			r.turn.take()
			continue
		}
		r.checkContext() // each time: a step's expressions may take long
		c := r.Engine.Next()
		r.show()
		switch c.Op {
		case engine.None:
			return mine
		case engine.Make:
			if mine.Call != nil {
				go r.work(mine)
			}
			if mine = r.launch(c.Call); c.Call.Quick {
				return mine
			}
		case engine.Save:
			if mine.Call != nil { // it does not wait for the store
				go r.work(mine)
				mine = flight{}
			}
			r.flush()
		default:
			r.carryOut(c)
		}
	}
	return flight{}
}

// carryOut carries out any other command.
func (r *Run) carryOut(c engine.Command) {
	switch c.Op {
	case engine.Stop:
		r.stop(c.Call, c.Err)
	case engine.Arm:
		r.arm(c.Timer, c.Wait)
	case engine.Disarm:
		if timer := r.timers[c.Timer]; timer != nil {
			timer.Stop()
			delete(r.timers, c.Timer)
		}
	case engine.Hook:
		r.tell(*c.Moment)
	case engine.Announce:
		r.announce(c.Pause)
	case engine.Warn:
		r.warnRollback(c.Text, c.Path)
	case engine.Time:
		r.Engine.Tick(r.now())
	case engine.Drop:
		r.drops.Go(func() { r.Caller.DropBatch(r.ctx, c.Call) })
	case engine.Done:
		r.finished()
	}
}

// show sends new events to the sinks.
func (r *Run) show() {
	for _, s := range r.Engine.Shown() {
		r.sinks.Emit(s.Event, r.Caller.Redact.Value(s.Content))
	}
}

// watchCalls notes calls that take long, once some time has passed.
func (r *Run) watchCalls(after time.Duration) {
	r.watch = time.AfterFunc(after, func() {
		r.happened(func() {
			r.watch = nil
			noted, next := r.Engine.NoteOpen(OpenTime)
			if next > 0 {
				r.watchCalls(next)
			}
			if noted {
				r.flush()
			}
		})
	})
}

func (r *Run) arm(id int64, wait time.Duration) {
	if r.timers == nil {
		r.timers = map[int64]*time.Timer{}
	}
	r.timers[id] = time.AfterFunc(wait, func() {
		r.happened(func() {
			delete(r.timers, id)
			r.Engine.Fired(id)
		})
	})
}

// stop tells a call to stop. The call is abandoned if it does not return soon, unless the whole run was
// cancelled, which has a longer grace period.
func (r *Run) stop(c *engine.Call, err error) {
	if g := r.groupOf(c); g != nil {
		g.cancel(err)
	}
	if id := c.ID; !r.Engine.View().Standing().Cancelled {
		r.leaveSoon(call.LeftBehind, func(flying *engine.Call) bool { return flying.ID == id })
	}
}

// leaveSoon abandons calls that do not return soon.
func (r *Run) leaveSoon(text string, which func(*engine.Call) bool) {
	time.AfterFunc(guard.SettleTime, func() { r.happened(func() { r.leave(text, which) }) })
}

// leave abandons calls that did not return in time. It drops their results, if any arrive.
func (r *Run) leave(text string, which func(*engine.Call) bool) {
	for _, c := range r.Engine.View().Flying() {
		if !which(c) {
			continue
		}
		r.warnOf(text, c.Path)
		res := engine.Result{Left: true, Err: context.Cause(r.groupOf(c).ctx)}
		r.Engine.Returned(c.ID, &res)
	}
}

// checkContext cancels the run once its context has ended, and drains it once the host says so.
func (r *Run) checkContext() {
	if r.draining() {
		r.Engine.Drain()
	}
	if !r.ended && r.ctx.Err() != nil {
		r.ended = true
		r.stopped(func() { r.Engine.Cancel(r.ctx.Err(), r.Caller.Redact.Error(context.Cause(r.ctx))) })
	}
}

// draining reports whether the host drains its runs.
func (r *Run) draining() bool {
	select {
	case <-r.rt.Drain:
		return true
	default:
		return false
	}
}

// stopped ends the run early, after the grace period at the latest.
func (r *Run) stopped(tell func()) {
	already := r.Engine.View().Standing().Cancelled
	r.Engine.Tick(r.now())
	if tell(); already {
		return
	}
	time.AfterFunc(r.limits.Grace, func() {
		r.happened(func() { r.leave(call.LeftBehind, func(c *engine.Call) bool { return !c.Rollback }) })
	})
}

// fence stops a run that this process no longer holds.
func (r *Run) fence(err error) {
	r.Store.Fail(err)
	r.stopped(func() { r.Engine.Break(err) })
}

// release frees everything that serves the calls. If the run was never driven, it ends its turns.
func (r *Run) release() {
	if !r.let {
		r.over, r.let = true, true
		r.turn.give()
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
