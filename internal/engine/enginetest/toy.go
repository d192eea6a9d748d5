// Package enginetest drives runs in tests: in any order, and from one engine to another.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/wire"
)

// Toy drives runs on a clock that stands still unless everything waits for a time. Of what may happen next it picks
// something. It is for a bubble of testing/synctest, which has such a clock. Calls and results cross as between
// processes, see package wire.
type Toy struct {
	Hand     Handover
	Probe    Probe
	Overlaps bool             // it makes calls while others are being made; else it makes one after the other
	Looks    bool             // it takes signals while a call is being made
	Ended    func(*local.Run) // is told of each execution; nil: nobody wants to know

	Executions []string // how each execution ended
	Runs       int      // that began
	Told       int      // how often a journal was told to another engine

	t    testing.TB
	pick *rand.Rand
	execution
}

// Handover says whether runs are continued by other engines.
type Handover struct {
	Run     int  // which run; 0: none
	Most    int  // how often in an execution
	Every   int  // it begins at one of so many moments
	AtRest  bool // only when all calls that can begin have begun
	Cancels bool // the run is cancelled instead
	Total   int  // how many there were

	last  int64 // number of the calls that had begun by then
	begun bool
	count int // in the execution
}

// Probe is what package engine tells its own tests only. A toy without one checks less.
type Probe struct {
	Begun   func(*engine.Run) int64                 // number of the last call that has begun
	Inherit func(to, from *engine.Run)              // gives a run the events that another one has not saved
	Differ  func(live, replayed *engine.Run) string // how two states differ; "": not at all
}

// execution is what a [Toy] knows of the execution that it drives.
type execution struct {
	*local.Run
	timers map[int64]time.Time
	flying []*flight
	back   chan struct{} // has an element when a call may have returned
}

// flight is a call that may return.
type flight struct {
	*engine.Call
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan []byte // what came of it, as another process writes it; nil: it is not made yet
}

// New returns a toy whose choices depend on a seed.
func New(t testing.TB, seed uint64) *Toy {
	return &Toy{t: t, pick: rand.New(rand.NewPCG(seed, 0))}
}

// Drive drives an execution of a run to its end. It is for [local.With].
func (y *Toy) Drive(r *local.Run) {
	y.execution = execution{Run: r, timers: map[int64]time.Time{}, back: make(chan struct{}, 1)}
	y.Hand.count, y.Hand.begun = 0, false
	if events, err := y.Events(); err == nil && isNew(events) {
		y.Runs++
	}
	if !r.Engine.View().Standing().Undoes {
		r.Engine.GoLive()
	}
	y.holds(y.Hand.Every)
	for {
		switch c := r.Next(); c.Op {
		case engine.None:
			y.holds(y.Hand.Every)
			y.refold(8)
			switch {
			case y.Hand.begun && y.Engine.View().Idle() && y.Hand.Cancels:
				if y.Hand.Cancels = false; !r.Engine.View().Standing().Cancelled {
					r.Engine.Cancel(context.Canceled, context.Canceled)
				}
			case y.Hand.begun && y.Engine.View().Idle() && !y.Engine.View().Standing().Cancelled:
				y.handOver()
			case !y.something():
				y.t.Errorf("run %s waits for nothing", r.ID)
				panic("it waits for nothing")
			}
		case engine.Make:
			f := &flight{Call: y.sent(c.Call)}
			y.begins(f.Call)
			f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
			y.flying = append(y.flying, f)
			y.holdsOnTheWay(16)
		case engine.Stop:
			for _, f := range y.flying {
				if f.ID == c.Call.ID {
					f.cancel(c.Err)
				}
			}
		case engine.Arm:
			y.timers[c.Timer] = r.Now().Add(c.Wait)
		case engine.Disarm:
			delete(y.timers, c.Timer)
		case engine.Done:
			y.refold(1)
			y.Executions = append(y.Executions, ending(r.Engine))
			if y.Ended != nil {
				y.Ended(r)
			}
			return
		case engine.Time:
			<-time.After(time.Microsecond) // what computes takes time
			r.Serve(c)
		default:
			y.holdsOnTheWay(8)
			r.Serve(c)
		}
	}
}

// isNew reports whether a journal is of a run that has only begun.
func isNew(events []journal.Event) bool {
	return !slices.ContainsFunc(events, func(e journal.Event) bool {
		switch e.What.(type) {
		case journal.Created, journal.Breakpoints, journal.Begun, journal.Execution:
			return false
		}
		return true
	})
}

// something makes one of the things happen that may happen now; false: there is none.
func (y *Toy) something() bool {
	due, wait := y.due()
	var ready []*flight // to be made
	for _, f := range y.flying {
		if f.done == nil {
			ready = append(ready, f)
		}
	}
	making := len(ready) < len(y.flying)
	if making && !y.Overlaps {
		ready = nil
	}
	switch n := len(ready) + len(due); {
	case making && len(ready) > 0 && y.pick.IntN(2) == 0:
		y.waitForCall(due, 2*time.Microsecond)
	case making && len(ready) == 0:
		y.waitForCall(due, wait)
	case n > 0:
		if i := y.pick.IntN(n); i < len(ready) {
			y.makes(ready[i])
		} else {
			y.fires(due[i-len(ready)])
		}
	case wait < 0:
		return false
	default:
		<-time.After(wait)
	}
	return true
}

// due returns the timers that are due, and how long the next one takes that is not; -1: there is none.
func (y *Toy) due() (list []int64, wait time.Duration) {
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

func (y *Toy) fires(id int64) {
	delete(y.timers, id)
	y.Engine.Tick(y.Now())
	y.Engine.Fired(id)
}

// sent is a call as another process gets it.
func (y *Toy) sent(c *engine.Call) *engine.Call {
	data, err := wire.EncodeCall(y.Digest(), c)
	if err == nil {
		c, err = wire.DecodeCall(y.Digest(), data)
	}
	if err != nil {
		y.t.Errorf("run %s: %v", y.ID, err)
		panic(err)
	}
	return c
}

// makes makes a call, which takes a little time.
func (y *Toy) makes(f *flight) {
	f.done = make(chan []byte, 1)
	caller, back, digest := y.Caller, y.back, y.Digest()
	go func() {
		res := caller.Make(f.ctx, f.Call)
		<-time.After(time.Microsecond)
		data, err := wire.EncodeResult(digest, &res)
		if err != nil {
			y.t.Errorf("run %s: %s: %v", y.ID, f.Path, err)
		}
		f.done <- data
		select {
		case back <- struct{}{}:
		default:
		}
	}()
}

// waitForCall tells the engine of a call that has returned, or of a timer that is due. If there is none, it waits for
// one: no longer than so long, if that is not negative.
func (y *Toy) waitForCall(due []int64, wait time.Duration) {
	var over []*flight
	for _, f := range y.flying {
		if len(f.done) > 0 {
			over = append(over, f)
		}
	}
	switch {
	case len(over) > 0:
		y.returned(over[y.pick.IntN(len(over))])
		return
	case len(due) > 0:
		y.fires(due[0])
		return
	}
	if y.Looks {
		y.Serve(engine.Command{Op: engine.Save})
		if y.Look(); wait < 0 || wait > local.LookEvery {
			wait = local.LookEvery
		}
	}
	var timer <-chan time.Time
	if wait >= 0 {
		timer = time.After(wait)
	}
	select {
	case <-y.back:
		<-time.After(time.Nanosecond) // others may return at the same moment
	case <-timer:
	}
}

// returned tells the engine what came of a call.
func (y *Toy) returned(f *flight) {
	data := <-f.done
	y.flying = slices.DeleteFunc(y.flying, func(other *flight) bool { return other == f })
	stopped := context.Cause(f.ctx) // such an error does not cross
	f.cancel(nil)
	res, err := wire.DecodeResult(y.Digest(), data)
	if err != nil {
		y.t.Errorf("run %s: %s: %v", y.ID, f.Path, err)
		res = &engine.Result{Err: err}
	}
	if f.Rollback && res.Err != nil && stopped != nil {
		res.Err = stopped
	}
	y.Engine.Tick(y.Now())
	y.Engine.Returned(f.ID, res)
}

// holds holds the run back in one of n cases, if it is to be handed over.
func (y *Toy) holds(n int) {
	if y.Hand.Run == y.Runs && !y.Hand.begun && y.Hand.count < y.Hand.Most && y.pick.IntN(n) == 0 {
		if y.Hand.begun = true; y.Probe.Begun != nil {
			y.Hand.last = y.Probe.Begun(y.Engine)
		}
		y.Engine.Hold()
	}
}

// holdsOnTheWay is holds at a moment when calls that can begin may not have begun.
func (y *Toy) holdsOnTheWay(n int) {
	if !y.Hand.AtRest {
		y.holds(n)
	}
}

// begins checks that no call of a step begins in a run that is held. An agent comes to the next call that has no
// record before it holds.
func (y *Toy) begins(c *engine.Call) {
	begins := y.Probe.Begun != nil && c.ID > y.Hand.last
	if y.Hand.begun && begins && !y.Engine.View().Standing().Cancelled && c.Job == nil {
		y.t.Errorf("run %s is held, and %s begins", y.ID, c.Path)
	}
}

// handOver has another engine continue the run.
func (y *Toy) handOver() {
	if len(y.flying) > 0 {
		y.t.Errorf("run %s is idle, with %d calls under way", y.ID, len(y.flying))
	}
	y.Serve(engine.Command{Op: engine.Save})
	next, err := y.replayed()
	if err != nil {
		y.t.Errorf("run %s was not handed over: %v", y.ID, err)
		panic(err)
	}
	switch unsaved := len(y.Engine.Unsaved()); {
	case y.Probe.Inherit != nil:
		y.Probe.Inherit(next, y.Engine)
	case unsaved > 0:
		y.t.Errorf("run %s was handed over with %d events that are not saved", y.ID, unsaved)
	}
	y.Engine, y.timers = next, map[int64]time.Time{}
	y.Hand.Total++
	if y.Hand.begun, y.Hand.count = false, y.Hand.count+1; !next.View().Standing().Undoes {
		next.GoLive()
	}
}

// replayed is another engine that was told what the journal has so far.
func (y *Toy) replayed() (*engine.Run, error) {
	events, err := y.Events()
	if err != nil {
		return nil, err
	}
	return y.Replayed(events)
}

// refold tells another engine the journal so far, in one of n cases: it must be in the same state. What a run that is
// cancelled leaves undone is in no journal.
func (y *Toy) refold(n int) {
	if y.Probe.Differ == nil || y.pick.IntN(n) > 0 || y.t.Failed() || y.Engine.View().Standing().Cancelled {
		return
	}
	other, err := y.replayed()
	if err != nil {
		y.t.Errorf("run %s: its journal is refused: %v", y.ID, err)
		return
	}
	y.Told++
	if diff := y.Probe.Differ(y.Engine, other); diff != "" {
		y.t.Errorf("run %s: its journal comes to another state (live, told):\n%s", y.ID, diff)
	}
}

// ending is how an execution came out.
func ending(e *engine.Run) string {
	result := e.View().Result()
	if result == nil {
		return "cut off"
	}
	text := fmt.Sprintln(result.Status, shown(result.Output))
	if err := e.View().Err(); err != nil {
		text += fmt.Sprintln(err)
	}
	if left := e.View().Standing().Left; left != nil {
		text += fmt.Sprintln(left)
	}
	for _, d := range e.View().Diagnostics(nil) { // what calls found, only the engine knows that was told
		if d.Code == diagnostics.CodeStepFailed {
			text += fmt.Sprintln(d.Step, d.Message)
		}
	}
	switch result.Status {
	case machine.Succeeded:
		text += shown(e.View().Artefact())
	case machine.Waiting:
		text += shown(e.View().Artefact())
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
