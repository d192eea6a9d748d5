package engine

import (
	"slices"
	"time"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/trace"
)

// events is what a run has emitted, kept so that its trace can be put in plan order: the events of one task are a
// list, threaded through next. The first event is the run's start, so that index 0 means none.
type events struct {
	live  bool // there are live sinks
	list  []trace.Event
	next  []int32 // by event: the next event of its task
	base  int32   // events before it have their final places
	shown []Shown // not yet returned by Shown
}

// Shown is an event for live sinks.
type Shown struct {
	trace.Event
	Content any // the input or output of a call; nil: none, or not wanted
}

// Shown returns the events since its last call, if there are live sinks. The slice is valid until the run is told
// something.
func (r *Run) Shown() []Shown {
	list := r.trace.shown
	r.trace.shown = list[:0]
	return list
}

// show passes on an event that is not, or not yet, in the trace.
func (e *events) show(ev trace.Event, content any) {
	if e.live {
		e.shown = append(e.shown, Shown{ev, content})
	}
}

// reserve makes room for the start, the events of n steps, usually three each, and the events that end the
// run.
func (e *events) reserve(start trace.Event, n int) {
	e.list = append(make([]trace.Event, 0, 3*n+3), start)
	e.next = make([]int32, 1, 3*n+1)
	e.base = 1
}

// grow makes room for n more events, and for those that end the run.
func (e *events) grow(n int) {
	e.list, e.next = slices.Grow(e.list, n+4), slices.Grow(e.next, n)
}

// settle puts the events so far in their final plan order: later events follow them.
func (e *events) settle(m *machine.Machine) {
	e.inPlanOrder(m)
	e.base = int32(len(e.list))
}

// add records an event that belongs to no task, after all others. Everything must be settled.
func (e *events) add(ev trace.Event, content any) {
	e.append(ev)
	e.show(ev, content)
}

// emit records an event of a task. content is for live sinks; nil: none.
func (e *events) emit(t *machine.Task, at time.Time, kind trace.Kind, step string, data trace.Data, content any) {
	ev := e.keep(t)
	ev.At, ev.Kind, ev.Step, ev.Data = at, kind, step, data
	if e.live {
		e.show(*ev, content)
	}
}

// begun adds the start of a step that waited in an earlier execution to the trace of this one.
func (e *events) begun(t *machine.Task, now time.Time) {
	if t.First == 0 {
		e.emit(t, now, trace.StepStart, t.Path(), nil, nil)
	}
}

// told records the events that an adapter or a hook emitted during a call. Live sinks have them already, except those
// of an agent.
func (e *events) told(p *pending, list []trace.Told) (what journal.Told) {
	for _, t := range list {
		what.Events = append(what.Events, journal.Custom{At: t.At, Name: t.Name, Data: t.Data})
		p.tell(e, p, t.Event(p.Path), nil, true)
	}
	return what
}

// append puts an event after all others. Everything must be settled.
func (e *events) append(ev trace.Event) {
	e.list, e.next = append(e.list, ev), append(e.next, 0)
	e.base = int32(len(e.list))
}

// keep makes the place of an event of a task.
func (e *events) keep(t *machine.Task) *trace.Event {
	i := int32(len(e.list))
	if e.next = append(e.next, 0); len(e.list) < cap(e.list) { // behind the events nothing was ever written
		e.list = e.list[:i+1]
	} else {
		e.list = append(e.list, trace.Event{})
	}
	if t.First == 0 {
		t.First = i
	} else {
		e.next[t.Last] = i
	}
	t.Last = i
	return &e.list[i]
}

// inPlanOrder returns the start and the recorded events in plan order, bodies in place: those of a
// task, its end apart, before those of what is inside.
func (e *events) inPlanOrder(m *machine.Machine) []trace.Event {
	order := make([]int32, 0, len(e.list)) // by place: the event that belongs there
	for i := range e.base {
		order = append(order, i)
	}
	add := func(t *machine.Task, ends bool) {
		for i := t.First; i >= e.base; i = e.next[i] {
			if (e.list[i].Kind == trace.StepEnd) == ends {
				order = append(order, i)
			}
		}
	}
	m.Walk(func(t *machine.Task) { add(t, false) }, func(t *machine.Task) { add(t, true) })
	for place, from := range order { // events that stand in each other's places, a cycle at a time
		if int(from) == place {
			continue
		}
		first, to := e.list[place], int32(place)
		for ; from != int32(place); from = order[to] {
			e.list[to], order[to] = e.list[from], to
			to = from
		}
		e.list[to], order[to] = first, to
	}
	return e.list
}

// path returns the path of a task.
func (e *events) path(t *machine.Task) string {
	if t.First == 0 { // it began in an earlier execution
		return t.Path()
	}
	return e.list[t.First].Step
}

// emitEnd records the end of a task.
func (e *events) end(t *machine.Task, now time.Time) {
	var took time.Duration
	if i := t.First; i > 0 {
		if next := e.next[i]; next > 0 && e.list[next].Kind == trace.StepStart { // it had to wait for a yes
			i = next
		}
		took = max(0, now.Sub(e.list[i].At))
	}
	var content any
	if c, ok := t.Node().Adapter.(*program.Call); ok && c.Kind != program.ModelCall {
		content = t.Output()
	}
	e.emit(t, now, trace.StepEnd, e.path(t), stepEnd(t, took), content)
}

// The payloads of step.skip.
var (
	skippedUpstream = trace.Data{{Key: "reason", Value: "upstream"}}
	skippedWhen     = trace.Data{{Key: "reason", Value: "when_false"}}
)

// quickEnds are the payloads of steps that succeeded within so many milliseconds. Runs share them.
var quickEnds = func() (list [16]trace.Data) {
	for ms := range list {
		list[ms] = endData(int64(ms), machine.Succeeded)
	}
	return list
}()

func endData(ms int64, status machine.Status) trace.Data {
	return trace.Data{{Key: "durationMs", Value: ms}, {Key: "status", Value: status.String()}}
}

// stepEnd is the payload of step.end. A failed step also has its code and message, a panicked one
// its stack.
func stepEnd(t *machine.Task, took time.Duration) trace.Data {
	ms, failure := took.Milliseconds(), t.Failure()
	switch {
	case failure != nil:
	case t.Status() == machine.Succeeded && uint64(ms) < uint64(len(quickEnds)):
		return quickEnds[ms]
	default:
		return endData(ms, t.Status())
	}
	data := trace.Data{{Key: "code", Value: failure.Code}, {Key: "durationMs", Value: ms},
		{Key: "message", Value: failure.Err.Error()}}
	if p, ok := failure.Err.(*PanicError); ok {
		data = append(data, trace.Attr{Key: "stack", Value: p.Stack})
	}
	return append(data, trace.Attr{Key: "status", Value: t.Status().String()})
}

// tell puts an event of a call into the trace that happens now.
func (e *events) tell(p *pending, now time.Time, ev trace.Event, content any) {
	ev.At = now
	p.caller.tell(e, p, ev, content, false)
}
