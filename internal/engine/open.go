package engine

import (
	"time"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
)

// NoteOpen records the calls that have been in progress for so long, unless the journal has that they began. next is
// how long the others need to get there; 0: there are none.
func (r *Run) NoteOpen(long time.Duration) (noted bool, next time.Duration) {
	if !r.unsaved.durable || r.ending.cancelled {
		return false, 0
	}
	for _, p := range waiting(r.m) {
		if p.known {
			continue
		}
		if left := long - r.now.Sub(p.began); left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		p.known, noted = true, true
		r.Note(r.trace.path(p.task), journal.CallOpen{Kind: string(p.Kind), Name: p.adapter(), For: p.took(r.now)})
	}
	return noted, next
}

// adapter is the name of what is called; "": there is only one of its kind.
func (p *pending) adapter() string {
	switch {
	case p.Request != nil:
		return p.Request.Model
	case p.Kind == program.ToolCall:
		return p.Name
	}
	return ""
}
