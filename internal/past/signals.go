package past

import "github.com/braise-run/braise/internal/journal"

// Signals returns the signals that events carry out, or drop, by id.
func Signals(events []journal.Event) map[string]bool {
	ids := map[string]bool{}
	for i := range events {
		if id := events[i].Signal; id != "" {
			ids[id] = true
		}
		switch what := events[i].What.(type) {
		case journal.SignalDropped:
			ids[what.ID] = true
		case journal.AgentEvents:
			for _, e := range what.Events {
				for _, n := range e.Rest().Notes {
					ids[n.ID] = true
				}
			}
		}
	}
	return ids
}

// Idle counts the executions at the end that recorded nothing, up to most. Those that somebody asked for do not count,
// and nothing before them does.
func (p *Past) Idle(most int) (n int) {
	for i := len(p.Events) - 1; i >= 0 && n < most; i-- {
		e := &p.Events[i]
		switch e.What.(type) {
		case journal.Traced:
		case journal.Execution:
			if e.By != "" || e.Signal != "" {
				return n
			}
			n++
		default:
			return n
		}
	}
	return n
}
