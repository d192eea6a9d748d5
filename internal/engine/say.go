package engine

import (
	"time"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/trace"
)

// spoken is what a step has said, and nobody has seen yet.
type spoken struct {
	task *machine.Task
	what journal.Said
}

// saidBy is what a step with this input says.
func saidBy(input any, redact *value.Redactor) (journal.Said, error) {
	fields, _ := input.(map[string]any)
	text, err := value.Text(fields["text"])
	if err != nil {
		return journal.Said{}, err
	}
	return journal.Said{Text: valid(redact.Text(text)), Value: redact.Value(fields["value"])}, nil
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
