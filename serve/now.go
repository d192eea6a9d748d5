package serve

import (
	"context"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
)

// doing is what a run does, or waits for.
type doing struct {
	Step string `json:"step" doc:"The path of the step."`
	Text string `json:"text,omitempty" doc:"What is called, asked or waited for; at most 200 bytes."`
	// Until is zero where nothing but an answer ends the wait.
	Until time.Time `json:"until,omitzero" doc:"When the run continues by itself. Absent: it does not."`
}

const (
	lookBack = 16  // records that are read to find what a run does
	maxDoing = 200 // bytes
)

// now returns what a run does or waits for; nil: neither, or it is not known.
func (a *api) now(ctx context.Context, s checkpoint.Summary) *doing {
	phase, after := s.Phase(), s.Seq-lookBack
	switch {
	case phase == checkpoint.PhaseWaiting && len(s.Pauses) > 0:
		after = s.Pauses[0].Seq - 1
	case phase != checkpoint.PhaseRunning && phase != checkpoint.PhaseInterrupted:
		return nil
	}
	_, recs, err := a.store.Load(ctx, s.ID, max(0, after))
	if err != nil || len(recs) == 0 {
		return nil
	}
	if phase == checkpoint.PhaseWaiting {
		p, err := resume.Opened(recs[0])
		if err != nil {
			return nil
		}
		switch {
		case p.Prompt != "":
		case p.Kind == resume.External:
			p.Prompt = "waits for " + p.Reason
		default:
			p.Prompt = p.Reason
		}
		return &doing{p.Step, cut(p.Prompt), p.RetryAt}
	}
	for i := len(recs) - 1; i >= 0; i-- {
		if recs[i].Path == "" {
			continue
		}
		var call struct{ Kind, Name string }
		if recs[i].Kind == "call.open" && json.Unmarshal(recs[i].Data, &call) == nil && call.Name != "" {
			call.Kind += " " + call.Name
		}
		return &doing{Step: recs[i].Path, Text: cut(call.Kind)}
	}
	return nil
}

// cut returns the beginning of a text.
func cut(text string) string {
	if len(text) <= maxDoing {
		return text
	}
	n := maxDoing - len("…")
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
