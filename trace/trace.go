// Package trace defines the events that a run emits, and the sinks that receive them.
package trace

import "time"

// Attr is one named value of an event.
type Attr struct {
	Key   string
	Value any // decoded JSON
}

// Data is the payload of an event: a short list of attributes, sorted by key, none twice. It is
// an object in JSON. Nobody may change it.
type Data []Attr

// Get returns the value of key; nil when there is none.
func (d Data) Get(key string) any {
	for _, a := range d {
		if a.Key == key {
			return a.Value
		}
	}
	return nil
}

// Event is one thing that happened in a run.
type Event struct {
	Seq  int64     // from 1 in an outcome; 0 in live events
	At   time.Time // UTC
	Run  string    // the run's id; "" in an outcome and in what a journal tells, which are of one run
	Kind Kind
	Step string // the step's path, "" for events of the run: send, verify[2]/check
	Data Data   // nil: none
}

// Sink takes events as they happen. A run calls Emit from one goroutine per sink, in order; the
// sink may keep the event but not change its Data. What a sink does never changes the run: a
// panic is caught, a slow sink is not waited for (beyond a short flush at the end of the run), and
// either is reported once, as diagnostic sink.failed. A sink that can fail also implements
// interface{ Err() error }, asked once at the end.
type Sink interface {
	Emit(Event)
}

// Detailed is an optional second interface of a Sink that wants more than the outcome's trace
// holds. A run asks once, when it begins.
type Detailed interface {
	Detail() Detail
}

// Detail says what a sink gets beside the events of the outcome's trace.
type Detail struct {
	// Content adds an attribute "content", secrets out: to adapter.call what goes in ({messages,
	// tools} for a model, the arguments of a tool, {query, top_k} for a retriever), to model.end what
	// comes out ({text, tool_calls}), to the step.end of the others' steps their output. In agents it is
	// model.start, and tool.start and tool.end, that have what goes in and comes out. To the step.start of a foreach it
	// adds {items}, how many there are. The run.end of a run that is ok has its output.
	Content bool
	// Deltas adds model.delta events, from models that stream.
	Deltas bool
}

// PerRun is an optional second interface of a Sink that must tell runs apart: each run emits to
// the sink that ForRun returns when the run begins. The Sink's own Emit is not called then.
type PerRun interface {
	ForRun(runID string) Sink
}
