package engine

import (
	"time"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// spoken is what a step has said, and nobody has seen yet.
type spoken struct {
	task *machine.Task
	what journal.Said
}

// say ends a step that says something. What it says is recorded first and shown then, so that it is never shown twice.
func (r *Run) say(t *machine.Task, input any) {
	fields, _ := input.(map[string]any)
	text, err := value.Text(fields["text"])
	if err != nil {
		r.refuseWait(t, &machine.Failure{Category: string(runtime.CategoryConfig), Code: "wait.arguments", Err: err})
		return
	}
	what := journal.Said{Text: valid(r.o.Redact.Text(text)), Value: r.o.Redact.Value(fields["value"])}
	r.trace.begun(t, r.now)
	r.unsaved.spoken = append(r.unsaved.spoken, spoken{t, what})
	r.record(t, r.trace.path(t), what)
	if r.unsaved.durable {
		r.todo.ask(Command{Op: Save})
	} else {
		r.trace.said(r.unsaved.takeSpoken(), r.now)
	}
}

// said shows what has been said, now that it is recorded.
func (e *events) said(list []spoken, now time.Time) {
	for _, s := range list {
		data := trace.Data{{Key: "text", Value: s.what.Text}}
		if s.what.Value != nil {
			data = append(data, trace.Attr{Key: "value", Value: s.what.Value})
		}
		e.emit(s.task, now, trace.StepSaid, e.path(s.task), data, nil)
	}
}

// takeSpoken returns what nobody has seen yet.
func (s *unsaved) takeSpoken() []spoken {
	list := s.spoken
	s.spoken = nil
	return list
}
