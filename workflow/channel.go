package workflow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Send puts a value into a channel of a run that waits or was interrupted, and goes on with the run. The
// channel is one of the recipe's own file; those of sub-recipes are reached by answering the pauses of
// their receive steps. value is anything that is JSON.
//
// The value answers the pauses of the steps that get it. When nobody waits, a queue or a value channel
// keeps it, a topic does not, and the run pauses again. Nothing has happened when the Outcome's error
// is channel.unknown, channel.closed (the run is over), channel.full, or run.busy (somebody works on the
// run).
func Send(
	ctx context.Context, runID, channel string, value any, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID}
	v, err := frozen(value)
	if err != nil {
		return l.refuse(program.ConfigError(diagnostics.CodeInput, "%w", err))
	}
	l.sent = &sent{name: channel, value: v}
	return l.run(nil)
}

// frozen is a value of the caller's that the caller may change afterwards.
func frozen(v any) (any, error) {
	v, err := value.Normalise(v)
	if err != nil {
		return nil, fmt.Errorf("the value is not JSON: %w", err)
	}
	return value.Clone(v), nil
}

// sent is a value from outside.
type sent struct {
	name  string
	index int // of the channel, once the workflow is known
	value any
}

// openReceive opens the pause of a step that waits for a value when nothing else can go on. One that is
// about to have waited for long enough is waited for.
func (r *run) openReceive(t *machine.Task) {
	p := resume.Pause{Kind: resume.External, Reason: t.ChannelName()}
	if until, ok := t.Driver.(time.Time); ok {
		if until.Sub(r.events.now) <= r.limits.InlineWait { // its timer is armed
			r.m.Keep(t)
			return
		}
		p.ExpiresAt = until
	}
	r.pause(t, r.m.Decided(), journal.PauseOpened{Pause: p})
}

// began begins a step in the trace of this leg that waited for a value in an earlier one.
func (r *run) began(t *machine.Task) {
	if t.First == 0 && t.Node().Kind == machine.Receive {
		r.events.emit(t, trace.StepStart, t.Path(), nil, nil)
	}
}

// recordSent writes down a value from outside, as the answer to the pauses of those who get it and, where
// it does not end there, as a value in the channel; and goes on with the run.
func (r *run) recordSent(l *leg) error {
	s := l.sent
	if result := r.m.Result(); r.forGood != nil || result != nil && result.Status != machine.Waiting {
		return channelClosed(l.runID, s.name)
	}
	if failure := r.m.Refuses(s.index, s.value); failure != nil {
		return &runtime.Error{Category: runtime.Category(failure.Category), Code: failure.Code, Err: failure.Err}
	}
	if err := r.undoFirst(l); err != nil {
		return err
	}
	pauses, into := r.waitingFor(s.index)
	events := r.sentEvents(s, pauses, into)
	recs, err := r.encodeFirst(events)
	if err != nil {
		return err
	}
	if err := l.takeFromCache(); err != nil {
		return err
	}
	reached(beforeAnswer)
	if err := r.journal.store.Append(context.WithoutCancel(r.ctx), l.lease, r.journal.seq, recs...); err != nil {
		return err
	}
	reached(afterAnswer)
	r.journal.seq += int64(len(recs))
	if !r.wasUndone {
		r.tellReplayed()
	}
	r.takeIn(nil, events)
	return nil
}

// waitingFor returns the pauses of those who get the next value of a channel, and whether the value is for
// others too: for the channel itself, or for those whose pauses are not open yet.
func (r *run) waitingFor(channel int) (pauses []*openPause, others bool) {
	for _, t := range r.m.Receivers(channel) {
		if i := slices.IndexFunc(r.pauses, func(p *openPause) bool { return p.task == t }); i >= 0 {
			pauses = append(pauses, r.pauses[i])
		}
	}
	return pauses, len(pauses) == 0 || r.wf.program.Graph.Channels[channel].Kind != machine.QueueChannel
}

// sentEvents are the events of a value from outside: answers, then what is left for others. In a run that
// was rolled back the value comes first, and one answer begins the run again.
func (r *run) sentEvents(s *sent, pauses []*openPause, others bool) (events []journal.Event) {
	put := journal.Event{At: r.events.now, After: r.m.Decided(),
		What: journal.ValueSent{Channel: s.name, Value: s.value}}
	if r.wasUndone {
		events = append(events, put)
		if len(pauses) > 0 {
			events = append(events, r.beginsAgain(pauses[0], r.answered(pauses[0], resume.Answered, s.value))...)
		}
		return events
	}
	for _, p := range pauses {
		events = append(events, r.answered(p, resume.Answered, s.value))
	}
	if others {
		events = append(events, put)
	}
	return events
}

// encodeFirst makes records of events that are written at once, the first of this leg among them.
func (r *run) encodeFirst(events []journal.Event) ([]checkpoint.Record, error) {
	r.stamp(events)
	return encode(events)
}

// takeSent goes on with a value from outside that is in the journal. A run that pauses rolled back keeps it
// for its next beginning, when it is there from the start.
func (r *run) takeSent(s sent) {
	pauses, others := r.waitingFor(s.index)
	if r.interrupt == resume.Restart && others {
		r.sent = append(r.sent, s)
	}
	if r.wasUndone && len(pauses) > 0 { // an answer follows that begins the run again
		for _, p := range pauses {
			r.keepAnswer(p, resume.Answered, s.value)
		}
		return
	}
	r.m.Send(s.index, s.value)
}

// applySent is takeSent for an event of the journal.
func (r *run) applySent(w journal.ValueSent) error {
	i := program.ChannelIndex(r.wf.program.Graph.Channels, w.Channel)
	if i < 0 {
		return fmt.Errorf("there is no channel %q", w.Channel)
	}
	r.takeSent(sent{name: w.Channel, index: i, value: w.Value})
	return nil
}

// shareSent gives a new run a value that somebody sent to another one, unless it has no such channel.
func (r *run) shareSent(w journal.ValueSent) {
	if i := program.ChannelIndex(r.wf.program.Graph.Channels, w.Channel); i >= 0 {
		r.record(nil, "", w)
	}
}

// channelClosed is the error of a value for a run that is over.
func channelClosed(runID, channel string) *runtime.Error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "channel.closed",
		Err: fmt.Errorf("channel %q is closed: run %q is over", channel, runID)}
}

// find finds the channel of a run that can take the value.
func (s *sent) find(l *leg, wf *Workflow) error {
	list := wf.program.Graph.Channels
	s.index = program.ChannelIndex(list, s.name)
	switch {
	case l.old != nil:
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.definitionChanged",
			Err: fmt.Errorf("run %q began with another definition of recipe %q"+
				"\n  hint: recover it with the new one first", l.runID, wf.Name())}
	case s.index >= 0 && l.ended:
		return channelClosed(l.runID, s.name)
	case s.index >= 0:
		return nil
	}
	var names []string
	for _, c := range list {
		names = append(names, c.Name)
	}
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "channel.unknown",
		Err: fmt.Errorf("recipe %q has no channel %q%s", wf.Name(), s.name,
			program.HintLine(diagnostics.DidYouMean(s.name, names)))}
}
