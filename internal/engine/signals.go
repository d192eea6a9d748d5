package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// For says on whose behalf the run acts from now on, and which signal it carries out; "": none.
func (r *Run) For(by, signal string) { r.unsaved.actor = actor{by, signal} }

// Carry returns the events that carry out a signal: of an answer to a pause or of a value for a channel. The first of
// them names the signal. If the signal does not apply, the only event says why. Take, or TakeNow, applies the events.
func (r *Run) Carry(s checkpoint.Signal) []journal.Event {
	was := r.unsaved.actor
	r.unsaved.actor = actor{s.By, s.ID}
	defer func() { r.unsaved.actor = was }()
	var data map[string]any
	var err error
	if s.Data != nil {
		var v any
		v, err = value.Decode(s.Data)
		data, _ = v.(map[string]any)
	}
	var events []journal.Event
	switch {
	case err != nil:
	case s.Kind == checkpoint.SignalAnswer:
		var p *Pause
		var v any
		if p, err = r.waits.answered(data); err == nil {
			v, err = r.View().Fits(p, AnswerIn(&p.Pause, data))
		}
		if err == nil {
			events = r.Answer(p, v)
		}
	case s.Kind == checkpoint.SignalSend:
		var channel int
		if channel, err = r.View().channelFor(data, r.program.Graph.Channels); err == nil {
			events = r.Send(channel, data["value"])
		}
	case s.Kind == checkpoint.SignalTell:
		err = r.Tell(s)
	default:
		err = fmt.Errorf("this version does not know signals of the kind %q", s.Kind)
	}
	if err != nil {
		return []journal.Event{r.Dropped(s, err.Error())}
	}
	return events
}

// Dropped returns the event that a signal does not apply.
func (r *Run) Dropped(s checkpoint.Signal, why string) journal.Event {
	return journal.Event{At: r.now, By: s.By, What: journal.SignalDropped{ID: s.ID, Why: valid(r.o.Redact.Text(why))}}
}

// TakeNow records and applies events while the run is live.
func (r *Run) TakeNow(events []journal.Event) {
	for i := range events {
		r.noteEvent(events[i])
	}
	r.Take(events)
}

// answered is the pause that a signal answers.
func (w *waits) answered(data map[string]any) (*Pause, error) {
	id, _ := data["pause"].(string)
	p := w.pause(id)
	if p == nil {
		return nil, fmt.Errorf("pause %q is no longer open", id)
	}
	if question, ok := data["question"].(string); ok && question != p.Question() {
		return nil, fmt.Errorf("%s asks something else by now", &p.Pause)
	}
	return p, nil
}

// AnswerIn is the answer in a signal. One that says nothing is the default of a question that has one; else it is {},
// to which defaults of fields and a lone decision are added.
func AnswerIn(p *resume.Pause, data map[string]any) any {
	v, said := data["value"]
	schema, _ := p.Schema.(map[string]any)
	if _, preset := schema["default"]; said || preset && len(p.Decisions) == 0 {
		return v
	}
	return map[string]any{}
}

// Fits returns the answer that an input is to a pending pause. The error says why the pause does not take it.
func (v View) Fits(p *Pause, input any) (any, error) {
	answer, err := p.Check(input)
	for _, check := range []func() error{
		func() error { return RaisedEnough(&p.Pause, answer) },
		func() error { return FitsApproval(&p.Pause, answer, v.redact) },
		func() error { return v.Refuses(p, answer) },
	} {
		if err == nil {
			err = check()
		}
	}
	return answer, err
}

// channelFor returns the channel that takes the value in a signal.
func (v View) channelFor(data map[string]any, channels []machine.Channel) (int, error) {
	name, _ := data["channel"].(string)
	index := program.ChannelIndex(channels, name)
	if index < 0 {
		return index, fmt.Errorf("there is no channel %q", name)
	}
	switch refused, over := v.Takes(index, data["value"]); {
	case over:
		return index, errors.New("the run is over")
	case refused != nil:
		return index, refused.Err
	}
	return index, nil
}

// notes are notes for agents: those that none has taken yet, and the ids of those that were.
type notes struct {
	left []noteTo
	over []string
}

// noteTo is a note for the agent of a step; "": for the first one that looks.
type noteTo struct {
	step string
	runtime.Note
}

// of returns the notes for the agent of a step.
func (n *notes) of(step string) (list []runtime.Note) {
	for _, one := range n.left {
		if one.step == "" || one.step == step {
			list = append(list, one.Note)
		}
	}
	return list
}

// taken notes that an agent has recorded notes.
func (n *notes) taken(list []runtime.Note) {
	for _, one := range list {
		i := slices.IndexFunc(n.left, func(o noteTo) bool { return o.ID == one.ID })
		if i >= 0 {
			n.left, n.over = slices.Delete(n.left, i, i+1), append(n.over, one.ID)
		}
	}
}

// Tell has an agent take the note of a signal between two of its steps. The error says that the step has ended.
func (r *Run) Tell(s checkpoint.Signal) (err error) {
	v, _ := value.Decode(s.Data)
	data, _ := v.(map[string]any)
	step, _ := data["step"].(string)
	text, _ := data["text"].(string)
	r.m.Walk(func(t *machine.Task) {
		if step != "" && t.Path() == step && t.Status() >= machine.Succeeded {
			err = fmt.Errorf("step %q has ended", step)
		}
	}, func(*machine.Task) {})
	if err == nil {
		r.unsaved.notes.left = append(r.unsaved.notes.left, noteTo{step, runtime.Note{ID: s.ID, Text: text}})
	}
	return err
}

// Told returns the notes that agents have recorded since its last call, by the id of their signal.
func (r *Run) Told() []string {
	ids := r.unsaved.notes.over
	r.unsaved.notes.over = nil
	return ids
}

// AsksPeople reports whether a pause waits for somebody, and not only for a time or a batch.
func (p *Pause) AsksPeople() bool {
	return !p.batched.InBatch() && (p.Kind != resume.System || p.RetryAt.IsZero())
}
