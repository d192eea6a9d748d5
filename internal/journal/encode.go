package journal

import (
	"fmt"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/resume"
)

// Encode makes the record of an event, without its number. The error says that a value is not JSON, or that a pause is
// not valid.
func Encode(e Event) (checkpoint.Record, error) {
	data, err := members(&e)
	if err != nil {
		return checkpoint.Record{}, err
	}
	if data == nil && (e.Resumed || e.By != "" || e.Owner != "") {
		data = map[string]any{}
	}
	addText(data, "by", e.By)
	addText(data, "owner", e.Owner)
	if e.Resumed {
		data["worked"] = int64(e.Worked)
		addParallel(data, e.Parallel)
	}
	return checkpoint.NewRecord(e.At, e.What.kind(), e.Path, data)
}

// members are the data of an event's record; nil: it has none.
func members(e *Event) (data map[string]any, err error) {
	switch w := e.What.(type) {
	case Begun:
		data = map[string]any{"inputs": w.Inputs}
		addInterrupt(data, w.Interrupt)
		addParallel(data, w.Parallel)
		if len(w.Origin) > 0 {
			data["origin"] = w.Origin
		}
		if len(w.Doubts) > 0 {
			data["doubts"] = w.Doubts
		}
	case CallBegun:
		data = map[string]any{"n": e.After, "ordinal": int64(w.Ordinal)}
		addText(data, "effect", w.Effect)
		addText(data, "key", w.Key)
	case CallEnded:
		data = w.members(e.After)
	case CallGiven:
		data = ended(e.After, w.Output, nil)
		addText(data, "finish", w.Finish)
	case TimerDue:
		data = map[string]any{"n": e.After, "timer": int64(w.Timer)}
	case WaitOver:
		data = ended(e.After, w.Output, w.Failure)
	case AgentEvents:
		data = w.members(e.After)
	case PauseOpened:
		return w.members(e)
	case PauseAnswered:
		data = w.members(e.After)
	case RollbackBegun:
		if w.Effect != "" {
			data = map[string]any{"effect": w.Effect}
		}
	case PauseClosed:
		data = map[string]any{"pause": w.Pause}
	case TokenMinted:
		data = map[string]any{"pause": w.Pause, "hash": fmt.Sprintf("%x", w.Hash)}
		if !w.ExpiresAt.IsZero() {
			data["expiresAt"] = w.ExpiresAt.Format(time.RFC3339Nano)
		}
	case ValueSent:
		data = map[string]any{"n": e.After, "channel": w.Channel, "value": w.Value}
	case RollbackEnded:
		if w.Error != "" {
			data = map[string]any{"error": w.Error}
		}
	case Redefined:
		data = w.members()
	case Told:
		data = w.members()
	case Traced:
		data = map[string]any{"traceparent": w.Traceparent}
	case Cancelled:
		data = map[string]any{"reason": w.Reason}
	case Ended:
		data = map[string]any{"status": string(w.Status)}
	}
	return data, nil
}

func addInterrupt(data map[string]any, how resume.Interrupt) {
	if how == resume.Restart {
		data["interrupt"] = string(resume.Restart)
	}
}

func addParallel(data map[string]any, n int) {
	if n > 0 {
		data["parallel"] = int64(n)
	}
}

func addUsage(data map[string]any, a Amount) {
	if a != (Amount{}) {
		usage := map[string]any{"tokens": a.Tokens, "micros": a.Micros}
		if a.Sent > 0 {
			usage["sent"] = a.Sent
		}
		if a.Calls > 0 {
			usage["calls"] = a.Calls
		}
		data["usage"] = usage
	}
}

func addText(data map[string]any, name, text string) {
	if text != "" {
		data[name] = text
	}
}

func (u *ModelUse) addTo(data map[string]any) {
	if len(u.Draws) > 0 {
		data["draws"], data["model"] = u.Draws, u.Model
	}
	addUsage(data, u.Used)
}

// ended are the members of what has an output or a failure.
func ended(after int64, output any, failure *machine.Failure) map[string]any {
	data := map[string]any{"n": after}
	if output != nil {
		data["output"] = output
	}
	if failure != nil {
		data["error"] = map[string]any{"category": failure.Category, "code": failure.Code,
			"message": failure.Err.Error()}
	}
	return data
}

func (w *Told) members() map[string]any {
	events := make([]any, len(w.Events))
	for i, c := range w.Events {
		m := map[string]any{"at": c.At.Format(time.RFC3339Nano), "name": c.Name}
		if c.Data != nil {
			m["data"] = c.Data
		}
		events[i] = m
	}
	return map[string]any{"events": events}
}

func (w *CallEnded) members(after int64) map[string]any {
	data := ended(after, w.Output, w.Failure)
	if w.Failure == nil || w.Settled {
		data["output"] = w.Output
	}
	w.Models.addTo(data)
	addText(data, "finish", w.Finish)
	if w.Unknown {
		data["unknown"] = true
	}
	addText(data, "why", w.Why)
	if w.Settled {
		data["settled"] = true
	}
	return data
}

func (w *AgentEvents) members(after int64) map[string]any {
	data := map[string]any{"n": after}
	if w.Waits {
		data["waits"] = true
	}
	if w.Began > 0 {
		data["began"] = int64(w.Began)
	}
	if len(w.Events) > 0 {
		data["events"] = w.Events
	}
	if len(w.Calls) > 0 {
		data["calls"] = w.Calls
	}
	addUsage(data, w.Used)
	return data
}

func (w *PauseOpened) members(e *Event) (map[string]any, error) {
	p := w.Pause
	p.Step, p.CreatedAt = e.Path, e.At
	data, err := p.Members()
	if err != nil {
		return nil, err
	}
	data["n"] = e.After
	addInterrupt(data, w.Interrupt)
	if w.Agent != nil {
		data["agent"] = map[string]any{"step": w.Agent.Step, "pause": w.Agent.Pause, "place": w.Agent.Place,
			"tries": int64(w.Agent.Tries)}
	}
	if u := &w.Models; w.Progress.Any() || u.Draws != nil || u.Used != (Amount{}) {
		data["call"] = w.Progress.members(u)
	}
	return data, nil
}

func (p *Progress) members(used *ModelUse) map[string]any {
	data := map[string]any{"attempts": int64(p.Attempts), "calls": int64(p.Calls)}
	if p.Repairs != nil {
		data["repairs"] = p.Repairs
	}
	if p.Answered {
		data["answer"], data["answerTo"] = p.Answer, p.AnswerTo
	}
	used.addTo(data)
	return data
}

func (w *PauseAnswered) members(after int64) map[string]any {
	data := map[string]any{"pause": w.Pause, "n": after, "next": string(w.Next)}
	if w.Next == resume.Answered {
		data["answer"] = w.Answer
	}
	if w.Kept {
		data["kept"] = true
	}
	if w.Generation > 0 {
		data["generation"] = int64(w.Generation)
	}
	return data
}

func (w *Redefined) members() map[string]any {
	var kept []any
	for _, k := range w.Kept {
		m := map[string]any{"step": k.Step, "kind": string(k.Kind), "reason": k.Reason,
			"about": k.About, "answer": k.Answer}
		addText(m, "question", k.Question)
		kept = append(kept, m)
	}
	data := map[string]any{"digest": w.Digest, "generation": int64(w.Generation), "kept": kept, "doubts": w.Doubts}
	if w.Definition != nil {
		data["definition"] = w.Definition
	}
	return data
}
