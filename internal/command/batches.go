package command

import (
	"fmt"

	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/resume"
)

// inBatches says in one line what calls wait for in batches, and returns the other pauses; "": none does.
func inBatches(pauses []resume.Pause) (others []resume.Pause, text string) {
	var next *resume.Pause
	n := 0
	for i := range pauses {
		p := &pauses[i]
		if !p.InBatch() {
			others = append(others, *p)
			continue
		}
		n++
		if next == nil || !p.RetryAt.IsZero() && (next.RetryAt.IsZero() || p.RetryAt.Before(next.RetryAt)) {
			next = p
		}
	}
	if n == 0 {
		return others, ""
	}
	text = fmt.Sprintf("1 call waits: %s", terminal.Visible(terminal.Cut(next.Prompt)))
	if n > 1 {
		text = fmt.Sprintf("%d calls wait: %s", n, terminal.Visible(terminal.Cut(next.Prompt)))
	}
	if !next.RetryAt.IsZero() {
		text += fmt.Sprintf("; braise runs sweep looks at it from %s on", terminal.LocalTime(next.RetryAt))
	}
	return others, text
}
