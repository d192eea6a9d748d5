package engine

import (
	"fmt"
	"time"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
)

// sent is a value from outside.
type sent struct {
	index int // of the channel
	value any
}

// Takes returns the error if a value from outside cannot be sent to a channel; nil: it can. over says that the run is
// over.
func (v View) Takes(channel int, sent any) (refused *machine.Failure, over bool) {
	if result := v.m.Result(); v.ending.forGood != nil || result != nil && result.Status != machine.Waiting {
		return nil, true
	}
	return v.m.Refuses(channel, sent), false
}

// Send returns the events of a value from outside: the answers to the pauses of the steps that receive it and, unless
// they consume it, a value in the channel. Take applies them, once they are in the store.
func (r *Run) Send(channel int, v any) []journal.Event {
	pauses, others := r.waits.forValue(r.m, channel, r.program.Graph.Channels[channel].Kind)
	put := journal.Event{At: r.now, After: r.m.Decided(),
		What: journal.ValueSent{Channel: r.program.Graph.Channels[channel].Name, Value: v}}
	var events []journal.Event
	if r.undo.wasUndone { // the value comes first, and one answer restarts the run
		events = append(events, put)
		if len(pauses) > 0 {
			answer := r.moment().ends(pauses[0], resume.Answered, v)
			events = append(events, r.waits.beginAgain(pauses[0], answer, r.calls.generation+1)...)
		}
		return r.unsaved.signs(events)
	}
	for _, p := range pauses {
		events = append(events, r.moment().ends(p, resume.Answered, v))
	}
	if others {
		events = append(events, put)
	}
	return r.unsaved.signs(events)
}

// pauseToReceive is the pause of a step that waits for a value when nothing else can continue. near says that its
// timeout is, for which the run waits instead.
func pauseToReceive(t *machine.Task, now time.Time, inline time.Duration) (p resume.Pause, near bool) {
	p = resume.Pause{Kind: resume.External, Reason: t.ChannelName()}
	if until, ok := t.Driver.(time.Time); ok { // its timer is armed
		p.ExpiresAt, near = until, until.Sub(now) <= inline
	}
	return p, near
}

// forValue returns the pauses of the steps that get the next value of a channel, and whether the value is for
// others too: for the channel itself, or for steps whose pauses are not open yet.
func (w *waits) forValue(m *machine.Machine, channel int, kind machine.ChannelKind) (pauses []*Pause, others bool) {
	for _, t := range m.Receivers(channel) {
		if p := w.byTask(t); p != nil {
			pauses = append(pauses, p)
		}
	}
	return pauses, len(pauses) == 0 || kind != machine.QueueChannel
}

// applySent applies a value from outside that is in the journal. The run keeps the value for its next generation, which
// has it from the start.
func (r *Run) applySent(w journal.ValueSent) error {
	i := program.ChannelIndex(r.program.Graph.Channels, w.Channel)
	if i < 0 {
		return fmt.Errorf("there is no channel %q", w.Channel)
	}
	s := sent{i, w.Value}
	pauses, others := r.waits.forValue(r.m, s.index, r.program.Graph.Channels[s.index].Kind)
	if others {
		r.sent = append(r.sent, s)
	}
	if r.undo.wasUndone && len(pauses) > 0 { // an answer follows that restarts the run
		for _, p := range pauses {
			r.before.keep(p, resume.Answered, s.value)
		}
		return nil
	}
	r.m.Send(s.index, s.value)
	return nil
}
