package trace

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/braise-run/braise/internal/value"
)

// The limits of what one attempt of a call may emit.
const (
	maxCustom     = 100     // events
	maxCustomName = 64      // bytes of a name
	maxCustomData = 4 << 10 // bytes of an event's data, as JSON
)

// Emit adds an event custom to the trace of a run, under the step whose call ctx belongs to. It is for tools, models
// and hooks, in the context that they were called with; without a run in it, it does nothing. Live sinks get the event
// at once, of an agent's calls when the call ends; the outcome's trace and the journal have it with the result of the
// call. Secrets are taken out. A hook of a run or of a step has no call: there Emit fails.
//
// name has 1 to 64 bytes. data is anything that is a JSON object of at most 4 KiB, nil for none. An attempt of a call
// may emit 100 events. The error says what does not fit, or that the call is over; nothing is emitted then. It may be
// ignored.
func Emit(ctx context.Context, name string, data map[string]any) error {
	var e *Emitter
	switch to := ctx.Value(emitterKey{}).(type) {
	case *Emitter:
		e = to
	case *NoEmitter:
		return fmt.Errorf("trace: event %q: %s", name, to.Why)
	default:
		return nil
	}
	if name == "" || len(name) > maxCustomName {
		return fmt.Errorf("trace: the name of an event has 1 to %d bytes, not %d", maxCustomName, len(name))
	}
	if data == nil {
		return e.add(Told{At: time.Now().UTC(), Name: name})
	}
	text, err := value.JSON(data)
	if err != nil {
		return fmt.Errorf("trace: event %q: %w", name, err)
	}
	if len(text) > maxCustomData {
		return fmt.Errorf("trace: event %q: its data have %d bytes, the limit is %d", name, len(text), maxCustomData)
	}
	own, err := value.Decode(text)
	if err != nil {
		return fmt.Errorf("trace: event %q: %w", name, err)
	}
	return e.add(Told{At: time.Now().UTC(), Name: name, Data: own.(map[string]any)})
}

// Told is what a call has emitted.
type Told struct {
	At   time.Time
	Name string
	Data map[string]any // decoded JSON; nil: none
}

// Event returns the event custom of a step; of the name step.said, with a text, the event of that kind.
func (t Told) Event(step string) Event {
	e := Event{At: t.At, Kind: Custom, Step: step, Data: Data{{"name", t.Name}}}
	switch text, said := t.Data["text"].(string); {
	case said && t.Name == string(StepSaid):
		e.Kind, e.Data = StepSaid, Data{{"text", text}}
		if v := t.Data["value"]; v != nil {
			e.Data = append(e.Data, Attr{"value", v})
		}
	case t.Data != nil:
		e.Data = Data{{"data", t.Data}, {"name", t.Name}}
	}
	return e
}

// Emitter is the context of one attempt of a call in which [Emit] works: for those who make calls.
type Emitter struct {
	context.Context
	To interface {
		// Emitted shows an event to live sinks, and returns it with the secrets out.
		Emitted(Told) Told
	}

	mu   sync.Mutex
	told []Told
	over bool
}

type emitterKey struct{}

// Value returns the emitter itself to [Emit], and what its Context has to all others.
func (e *Emitter) Value(key any) any {
	if key == (emitterKey{}) {
		return e
	}
	return e.Context.Value(key)
}

// NoEmitter is a context of a run in which [Emit] fails.
type NoEmitter struct {
	context.Context
	Why string // there is nothing to emit to
}

// Value returns the NoEmitter itself to [Emit], and what its Context has to all others.
func (e *NoEmitter) Value(key any) any {
	if key == (emitterKey{}) {
		return e
	}
	return e.Context.Value(key)
}

// End returns what was emitted. What comes later, from a call that was left behind, is refused.
func (e *Emitter) End() []Told {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	return e.told
}

func (e *Emitter) add(t Told) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.over:
		return fmt.Errorf("trace: event %q: the call is over", t.Name)
	case len(e.told) == maxCustom:
		return fmt.Errorf("trace: event %q: the call has emitted %d events, which is the limit", t.Name, maxCustom)
	}
	e.told = append(e.told, e.To.Emitted(t))
	return nil
}
