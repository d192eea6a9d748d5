package history

import (
	"context"
	"fmt"
	"time"

	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/resume"
)

// Act is an action on a run by its host or a person. An answer that on_expire gave is an act too, with an empty By. A
// drop is a signal, such as an answer or a cancel, that was recorded and came too late, or did not fit any more.
type Act struct {
	At       time.Time `json:"at"`
	What     string    `json:"what"`               // start, answer, send, change (of the definition), cancel or drop
	By       string    `json:"by,omitempty"`       // who acted, as the host named them; "": not known
	Pause    string    `json:"pause,omitempty"`    // the pause that was answered
	Decision string    `json:"decision,omitempty"` // of an answer that has one
	Channel  string    `json:"channel,omitempty"`  // the channel that a value was sent to
	Reason   string    `json:"reason,omitempty"`   // of a cancel or an answer; of a drop, why the signal did not apply
}

// act adds the act of an event, if it has one.
func (r *journalLog) act(e *journal.Event) {
	a := Act{At: e.At, By: e.By}
	switch what := e.What.(type) {
	case journal.Begun:
		a.What = "start"
	case journal.PauseAnswered:
		if what.Next != resume.Answered || what.Kept {
			return
		}
		a.What, a.Pause = "answer", what.Pause
		answer, _ := what.Answer.(map[string]any)
		a.Decision, _ = answer["decision"].(string)
		form, _ := answer["form"].(map[string]any)
		a.Reason, _ = form["reason"].(string)
	case journal.ValueSent:
		a.What, a.Channel = "send", what.Channel
	case journal.Redefined:
		a.What = "change"
	case journal.Cancelled:
		a.What, a.Reason = "cancel", what.Reason
	case journal.SignalDropped:
		a.What, a.Reason = "drop", what.Why
	default:
		return
	}
	r.acts = append(r.acts, a)
}

// Origin returns what the host recorded about where a run began, see runtime.Runtime. It is nil if nothing was
// recorded, as in journals of earlier versions. The error is the store's.
func Origin(ctx context.Context, store Source, runID string) (map[string]string, error) {
	_, recs, err := guard.Load(ctx, store, runID, 0)
	if err != nil {
		return nil, err
	}
	for _, rec := range recs {
		e, err := journal.Decode(rec)
		if err != nil {
			return nil, fmt.Errorf("run %q: %w", runID, err)
		}
		if begun, ok := e.What.(journal.Begun); ok {
			return begun.Origin, nil
		}
	}
	return nil, nil
}
