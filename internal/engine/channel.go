package engine

import (
	"fmt"
	"slices"
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
func (r *Run) Takes(channel int, v any) (refused *machine.Failure, over bool) {
	if result := r.m.Result(); r.ending.forGood != nil || result != nil && result.Status != machine.Waiting {
		return nil, true
	}
	return r.m.Refuses(channel, v), false
}

// Send returns the events of a value from outside: the answers to the pauses of the steps that receive it and, unless
// they consume it, a value in the channel. Take applies them, once they are in the store.
func (r *Run) Send(channel int, v any) []journal.Event {
	pauses, others := r.waitingFor(channel)
	return r.actBy(r.sentEvents(r.program.Graph.Channels[channel].Name, v, pauses, others))
}

// openReceive opens the pause of a step that waits for a value when nothing else can continue. If the step's
// timeout is near, the run waits for it instead.
func (r *Run) openReceive(t *machine.Task) {
	p := resume.Pause{Kind: resume.External, Reason: t.ChannelName()}
	if until, ok := t.Driver.(time.Time); ok {
		if until.Sub(r.now) <= r.o.Limits.InlineWait { // its timer is armed
			r.m.Keep(t)
			return
		}
		p.ExpiresAt = until
	}
	r.pause(t, journal.PauseOpened{Pause: p})
}

// waitingFor returns the pauses of the steps that get the next value of a channel, and whether the value is for
// others too: for the channel itself, or for steps whose pauses are not open yet.
func (r *Run) waitingFor(channel int) (pauses []*Pause, others bool) {
	for _, t := range r.m.Receivers(channel) {
		if i := slices.IndexFunc(r.waits.pauses, func(p *Pause) bool { return p.task == t }); i >= 0 {
			pauses = append(pauses, r.waits.pauses[i])
		}
	}
	return pauses, len(pauses) == 0 || r.program.Graph.Channels[channel].Kind != machine.QueueChannel
}

// sentEvents are the events of a value from outside: answers, then the value for others. In a run that
// was rolled back the value comes first, and one answer restarts the run.
func (r *Run) sentEvents(channel string, v any, pauses []*Pause, others bool) (events []journal.Event) {
	put := journal.Event{At: r.now, After: r.m.Decided(),
		What: journal.ValueSent{Channel: channel, Value: v}}
	if r.undo.wasUndone {
		events = append(events, put)
		if len(pauses) > 0 {
			events = append(events, r.beginsAgain(pauses[0], r.answeredNow(pauses[0], resume.Answered, v))...)
		}
		return events
	}
	for _, p := range pauses {
		events = append(events, r.answeredNow(p, resume.Answered, v))
	}
	if others {
		events = append(events, put)
	}
	return events
}

// takeSent applies a value from outside that is in the journal. The run keeps the value for its next generation, which
// has it from the start.
func (r *Run) takeSent(s sent) {
	pauses, others := r.waitingFor(s.index)
	if others {
		r.sent = append(r.sent, s)
	}
	if r.undo.wasUndone && len(pauses) > 0 { // an answer follows that restarts the run
		for _, p := range pauses {
			r.keepAnswer(p, resume.Answered, s.value, false)
		}
		return
	}
	r.m.Send(s.index, s.value)
}

// applySent is takeSent for an event of the journal.
func (r *Run) applySent(w journal.ValueSent) error {
	i := program.ChannelIndex(r.program.Graph.Channels, w.Channel)
	if i < 0 {
		return fmt.Errorf("there is no channel %q", w.Channel)
	}
	r.takeSent(sent{i, w.Value})
	return nil
}

// shareSent gives a new run a value that was sent to another run, unless it has no such channel.
func (r *Run) shareSent(w journal.ValueSent) {
	if i := program.ChannelIndex(r.program.Graph.Channels, w.Channel); i >= 0 {
		r.record(nil, "", w)
	}
}
