package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
)

// toy drives runs one thing after the other, on a clock that stands still unless everything waits for a time. Of what
// may happen next it picks something. It is for a bubble of testing/synctest, whose clock is such a one.
type toy struct {
	t    *testing.T
	pick *rand.Rand
	legs []string // how each came out
	leg
	hand  handover
	runs  int
	ended func(*local.Run) // is told of each execution; nil: nobody wants to know
	told  int              // how often a journal was told to another engine
}

// leg is what a [toy] knows of the leg that it drives.
type leg struct {
	*local.Run
	timers map[int64]time.Time
	flying []*flight
	making *flight // of them
}

// flight is a call that may return.
type flight struct {
	*engine.Call
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan engine.Result // what came of it
}

// handover says whether runs are carried on by other engines on the way.
type handover struct {
	run     int   // which run; 0: none
	most    int   // in an execution
	every   int   // it is begun at one of so many moments
	cancels bool  // it is cancelled instead
	last    int64 // number of the calls that had begun by then
	begun   bool
	count   int // in the execution
	total   int
}

func newToy(t *testing.T, seed uint64) *toy {
	return &toy{t: t, pick: rand.New(rand.NewPCG(seed, 0))}
}

// drive drives an execution of a run to its end.
func (y *toy) drive(r *local.Run) {
	y.leg = leg{Run: r, timers: map[int64]time.Time{}}
	y.hand.count, y.hand.begun = 0, false
	if events, err := y.Events(); err == nil && engine.IsNew(events) {
		y.runs++
	}
	if !r.Engine.Undoes() {
		r.Engine.GoLive()
	}
	for {
		switch c := r.Next(); c.Op {
		case engine.None:
			y.holds(y.hand.every)
			y.refold(8)
			switch {
			case y.hand.begun && y.Engine.Idle() && y.hand.cancels:
				if y.hand.cancels = false; !r.Engine.Cancelled() {
					r.Engine.Cancel(context.Canceled, context.Canceled)
				}
			case y.hand.begun && y.Engine.Idle() && !y.Engine.Cancelled():
				y.handOver()
			case !y.something():
				y.t.Errorf("run %s waits for nothing", r.ID)
				panic("it waits for nothing")
			}
		case engine.Make:
			f := &flight{Call: c.Call}
			y.begins(c.Call)
			f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
			y.flying = append(y.flying, f)
			y.holds(16)
		case engine.Stop:
			for _, f := range y.flying {
				if f.Call == c.Call {
					f.cancel(c.Err)
				}
			}
		case engine.Arm:
			y.timers[c.Timer] = r.Now().Add(c.Wait)
		case engine.Disarm:
			delete(y.timers, c.Timer)
		case engine.Done:
			y.refold(1)
			y.legs = append(y.legs, ending(r.Engine))
			if y.ended != nil {
				y.ended(r)
			}
			return
		case engine.Time:
			<-time.After(time.Microsecond) // what computes takes time
			r.Serve(c)
		default:
			y.holds(8)
			r.Serve(c)
		}
	}
}

// something makes one of the things happen that may happen now; false: there is none.
func (y *toy) something() bool {
	due, wait := y.due()
	switch n := len(y.flying) + len(due); {
	case y.making != nil:
		y.waitForCall(due, wait)
	case n > 0:
		if i := y.pick.IntN(n); i < len(y.flying) {
			y.makes(i)
		} else {
			y.fires(due[i-len(y.flying)])
		}
	case wait < 0:
		return false
	default:
		<-time.After(wait)
	}
	return true
}

// due returns the timers that are due, and how long the next one takes that is not; -1: there is none.
func (y *toy) due() (list []int64, wait time.Duration) {
	wait = -1
	now := y.Now()
	for _, id := range slices.Sorted(maps.Keys(y.timers)) {
		if left := y.timers[id].Sub(now); left <= 0 {
			list = append(list, id)
		} else if wait < 0 || left < wait {
			wait = left
		}
	}
	return list, wait
}

func (y *toy) fires(id int64) {
	delete(y.timers, id)
	y.Engine.Tick(y.Now())
	y.Engine.Fired(id)
}

// makes makes a call, which takes a little time.
func (y *toy) makes(i int) {
	f := y.flying[i]
	f.done = make(chan engine.Result, 1)
	y.making = f
	go func() {
		res := y.Caller.Make(f.ctx, f.Call)
		if f.Rollback && res.Err != nil && f.ctx.Err() != nil {
			res.Err = context.Cause(f.ctx)
		}
		<-time.After(time.Microsecond)
		f.done <- res
	}()
}

// waitForCall waits for the call that is being made, or for a timer.
func (y *toy) waitForCall(due []int64, wait time.Duration) {
	var timer <-chan time.Time
	if wait >= 0 {
		timer = time.After(wait)
	}
	f := y.making
	select {
	case res := <-f.done:
		y.making = nil
		y.flying = slices.DeleteFunc(y.flying, func(other *flight) bool { return other == f })
		f.cancel(nil)
		y.Engine.Tick(y.Now())
		y.Engine.Returned(f.Call, &res)
	case <-timer:
	default:
		if len(due) > 0 {
			y.fires(due[0])
			return
		}
		select {
		case res := <-f.done:
			f.done <- res
		case <-timer:
		}
	}
}

// holds holds the run back in one of n cases, if it is to be handed over.
func (y *toy) holds(n int) {
	if y.hand.run == y.runs && !y.hand.begun && y.hand.count < y.hand.most && y.pick.IntN(n) == 0 {
		y.hand.begun, y.hand.last = true, y.Engine.Begun()
		y.Engine.Hold()
	}
}

// begins sees to it that no call of a step begins in a run that is held. An agent comes to the next call that has no
// record before it does.
func (y *toy) begins(c *engine.Call) {
	if y.hand.begun && !y.Engine.Cancelled() && c.Job == nil && c.ID > y.hand.last {
		y.t.Errorf("run %s is held, and %s begins", y.ID, c.Path)
	}
}

// handOver has another engine carry the run on.
func (y *toy) handOver() {
	if len(y.flying) > 0 {
		y.t.Errorf("run %s is idle, with %d calls under way", y.ID, len(y.flying))
	}
	y.Serve(engine.Command{Op: engine.Save})
	next, err := y.replayed()
	if err != nil {
		y.t.Errorf("run %s was not handed over: %v", y.ID, err)
		panic(err)
	}
	next.Inherit(y.Engine)
	y.Engine, y.timers = next, map[int64]time.Time{}
	y.hand.total++
	if y.hand.begun, y.hand.count = false, y.hand.count+1; !next.Undoes() {
		next.GoLive()
	}
}

// replayed is another engine that was told what the journal has so far.
func (y *toy) replayed() (*engine.Run, error) {
	events, err := y.Events()
	if err != nil {
		return nil, err
	}
	return y.Replayed(events)
}

// refold tells another engine the journal so far, in one of n cases: it must be in the same state. What a run that is
// cancelled leaves undone is in no journal.
func (y *toy) refold(n int) {
	if y.pick.IntN(n) > 0 || y.t.Failed() || y.Engine.Cancelled() {
		return
	}
	other, err := y.replayed()
	if err != nil {
		y.t.Errorf("run %s: its journal is refused: %v", y.ID, err)
		return
	}
	other.Settle()
	y.told++
	if diff := engine.Differ(y.Engine.State(), other.State()); diff != "" {
		y.t.Errorf("run %s: its journal comes to another state (live, told):\n%s", y.ID, diff)
	}
}

// ending is how an execution came out.
func ending(e *engine.Run) string {
	result := e.Result()
	if result == nil {
		return "cut off"
	}
	text := fmt.Sprintln(result.Status, shown(result.Output))
	if err := e.Err(); err != nil {
		text += fmt.Sprintln(err)
	}
	if left := e.Left(); left != nil {
		text += fmt.Sprintln(left)
	}
	switch result.Status {
	case machine.Succeeded:
		text += shown(e.Artefact())
	case machine.Waiting:
		text += shown(e.Artefact())
		for _, p := range e.Pauses() {
			text += fmt.Sprintln("\n", p.ID, p.Step, p.Kind, p.Reason, p.Prompt, shown(p.Show))
		}
	}
	return text
}

func shown(v any) string {
	text, err := value.JSON(v)
	return string(text) + errorText(err)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return errors.Unwrap(err).Error()
}
