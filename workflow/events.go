package workflow

import (
	"slices"
	"time"

	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/trace"
)

// events is what a run has emitted, kept so that the outcome's trace can be put in plan order:
// the events of one task are a list, threaded through next. The first event is the run's start,
// so that index 0 means none.
type events struct {
	list  []trace.Event
	next  []int32 // by event: the next event of its task
	attrs []trace.Attr
	sinks *trace.Fanout
	now   time.Time // of the last thing that took time
}

// data makes the payload of an event; keys must come sorted. The attributes of many events share
// an array, which nobody may append to.
func (e *events) data(attrs ...trace.Attr) trace.Data {
	if cap(e.attrs)-len(e.attrs) < len(attrs) {
		e.attrs = make([]trace.Attr, 0, max(64, min(2*cap(e.attrs), 4096)))
	}
	from := len(e.attrs)
	e.attrs = append(e.attrs, attrs...)
	return trace.Data(e.attrs[from:len(e.attrs):len(e.attrs)])
}

// reserve makes room for the start and the events of n steps, of which each has three as a rule.
func (e *events) reserve(start trace.Event, n int) {
	e.list = append(make([]trace.Event, 0, 3*n+3), start)
	e.next = make([]int32, 1, 3*n+3)
	e.attrs = make([]trace.Attr, 0, 2*n)
}

// emit records an event of a task.
func (e *events) emit(t *machine.Task, ev trace.Event) {
	ev.At = e.now
	i := int32(len(e.list))
	e.list = append(e.list, ev)
	e.next = append(e.next, 0)
	if t.First == 0 {
		t.First = i
	} else {
		e.next[t.Last] = i
	}
	t.Last = i
	e.sinks.Emit(ev)
}

// runEvent makes and publishes an event of the run itself.
func (e *events) runEvent(kind trace.Kind, attrs ...trace.Attr) trace.Event {
	ev := trace.Event{At: e.now, Kind: kind}
	if len(attrs) > 0 {
		ev.Data = e.data(attrs...)
	}
	e.sinks.Emit(ev)
	return ev
}

// inPlanOrder returns the start and the recorded events in plan order, bodies in place: those of a
// task, its end apart, before those of what is inside.
func (e *events) inPlanOrder(m *machine.Machine) []trace.Event {
	order := make([]int32, 1, len(e.list))
	inOrder := true // most runs are: no copy then
	add := func(t *machine.Task, ends bool) {
		for i := t.First; i > 0; i = e.next[i] {
			if (e.list[i].Kind == trace.StepEnd) == ends {
				inOrder = inOrder && int(i) == len(order)
				order = append(order, i)
			}
		}
	}
	m.Walk(func(t *machine.Task) { add(t, false) }, func(t *machine.Task) { add(t, true) })
	if inOrder {
		return e.list
	}
	list := make([]trace.Event, len(order), len(order)+2)
	for place, i := range order {
		list[place] = e.list[i]
	}
	return list
}

// path returns the path of a task that has begun.
func (e *events) path(t *machine.Task) string { return e.list[t.First].Step }

// emitEnd records the end of a task.
func (e *events) emitEnd(t *machine.Task) {
	start := &e.list[t.First]
	e.emit(t, trace.Event{Kind: trace.StepEnd, Step: start.Step, Data: e.stepEnd(t, e.now.Sub(start.At))})
}

// statusValues are the statuses as attributes.
var statusValues = func() (list [machine.SkippedUpstream + 1]any) {
	for s := range list {
		list[s] = machine.Status(s).String()
	}
	return list
}()

// stepEnd is the payload of step.end. A failed step also has its code and message, a panicked one
// its stack.
func (e *events) stepEnd(t *machine.Task, took time.Duration) trace.Data {
	ms, status := trace.Attr{Key: "durationMs", Value: took.Milliseconds()}, trace.Attr{Key: "status", Value: statusValues[t.Status()]}
	failure := t.Failure()
	if failure == nil {
		return e.data(ms, status)
	}
	attrs := []trace.Attr{{Key: "code", Value: failure.Code}, ms, {Key: "message", Value: failure.Err.Error()}}
	if p, ok := failure.Err.(*panicError); ok {
		attrs = append(attrs, trace.Attr{Key: "stack", Value: p.stack})
	}
	return slices.Clip(append(trace.Data(attrs), status))
}
