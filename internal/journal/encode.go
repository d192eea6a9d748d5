package journal

import (
	"fmt"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// Encode makes the record of an event, without its number. The error says that a value is not JSON, or that a pause is
// not valid.
func Encode(e Event) (checkpoint.Record, error) {
	data, err := members(&e)
	if err != nil {
		return checkpoint.Record{}, err
	}
	if data == nil && (e.Begins != nil || e.By != "" || e.Signal != "") {
		data = map[string]any{}
	}
	addText(data, "by", e.By)
	addText(data, "signal", e.Signal)
	if e.Begins != nil {
		_, first := e.What.(Begun)
		e.Begins.addTo(data, first)
	}
	return checkpoint.NewRecord(e.At, e.What.kind(), e.Path, data)
}

// addTo adds the members of an execution. With Begun, earlier versions recorded only who drives the run.
func (x *Execution) addTo(data map[string]any, begun bool) {
	addText(data, "owner", x.Owner)
	if !begun {
		data["worked"] = int64(x.Worked)
		addParallel(data, x.Parallel)
		if l := x.Limits; l != nil {
			limits := map[string]any{}
			addCount(limits, "items", int64(l.Items))
			addCount(limits, "steps", int64(l.Steps))
			addCount(limits, "outputBytes", int64(l.OutputBytes))
			addCount(limits, "runBytes", int64(l.RunBytes))
			data["limits"] = limits
		}
		if len(x.Tools) > 0 {
			data["tools"] = x.Tools
		}
	}
}

func (Shared) members(n int64) map[string]any { return map[string]any{"n": n} }

func (f FinallyBegun) members(n int64) map[string]any {
	data := map[string]any{"n": n, "status": f.Status}
	if f.Error != nil {
		data["error"] = f.Error
	}
	addText(data, "reason", f.Reason)
	return data
}

// members are the data of an event's record; nil: it has none.
func members(e *Event) (data map[string]any, err error) {
	switch w := e.What.(type) {
	case Begun:
		data = w.members()
	case Breakpoints:
		data = map[string]any{"steps": w.Steps}
	case Execution:
		data = map[string]any{}
		w.addTo(data, false)
	case CallFiles:
		data = map[string]any{"n": e.After, "files": w.Files}
	case CallBegun:
		data = map[string]any{"n": e.After, "ordinal": int64(w.Ordinal)}
		addText(data, "effect", w.Effect)
		addText(data, "key", w.Key)
	case CallOpen:
		data = map[string]any{"kind": w.Kind}
		addText(data, "name", w.Name)
		addCount(data, "ms", w.For.Milliseconds())
	case interface{ members(int64) map[string]any }: // those that come among the decisions of the machine
		data = w.members(e.After)
	case CallGiven:
		data = ended(e.After, w.Output, w.Failure)
		w.Answer.addTo(data)
	case TimerDue:
		data = map[string]any{"n": e.After, "timer": int64(w.Timer)}
	case PauseOpened:
		return w.members(e)
	case RollbackBegun:
		if w.Effect != "" {
			data = map[string]any{"effect": w.Effect}
		}
	case BatchBegun:
		data = map[string]any{"key": w.Key, "model": w.Model, "requests": w.Requests}
	case BatchSent:
		data = map[string]any{"key": w.Key}
		addText(data, "id", w.ID)
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
	case SignalDropped:
		data = map[string]any{"id": w.ID, "why": w.Why}
	case Told:
		data = w.members()
	case Traced:
		data = map[string]any{"traceparent": w.Traceparent}
	case Restarted:
		data = map[string]any{"generation": int64(w.Generation)}
	case Cancelled:
		data = map[string]any{"reason": w.Reason}
	case Paused:
		data = addTotal(nil, w.Usage, w.Models)
	case Ended:
		data = w.members()
	}
	return data, nil
}

// addTotal adds the usage of a run, and that of each model, if there is any; data may be nil.
func addTotal(data map[string]any, u checkpoint.Usage, models map[string]checkpoint.Usage) map[string]any {
	if u == (checkpoint.Usage{}) {
		return data
	}
	if data == nil {
		data = map[string]any{}
	}
	data["usage"] = usageData(u)
	if len(models) > 0 {
		each := make(map[string]any, len(models))
		for _, name := range value.SortedKeys(models) {
			each[name] = usageData(models[name])
		}
		data["models"] = each
	}
	return data
}

func usageData(u checkpoint.Usage) map[string]any {
	usage := map[string]any{}
	addCount(usage, "calls", u.Calls)
	addCount(usage, "inputTokens", u.InputTokens)
	addCount(usage, "cachedTokens", u.CachedTokens)
	addCount(usage, "cacheWriteTokens", u.CacheWriteTokens)
	addCount(usage, "outputTokens", u.OutputTokens)
	addCount(usage, "reasoningTokens", u.ReasoningTokens)
	addCount(usage, "micros", u.Micros)
	return usage
}

func addInterrupt(data map[string]any, how resume.Interrupt) {
	if how == resume.Restart {
		data["interrupt"] = string(resume.Restart)
	}
}

func addParallel(data map[string]any, n int) {
	addCount(data, "parallel", int64(n))
}

func addUsage(data map[string]any, a Amount) {
	if a != (Amount{}) {
		usage := map[string]any{"tokens": a.Tokens, "micros": a.Micros}
		addCount(usage, "sent", a.Sent)
		addCount(usage, "cached", a.Cached)
		addCount(usage, "written", a.Written)
		addCount(usage, "reasoned", a.Reasoned)
		addCount(usage, "calls", a.Calls)
		data["usage"] = usage
	}
}

func addCount(data map[string]any, name string, n int64) {
	if n > 0 {
		data[name] = n
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
	if len(u.Tried) > 0 {
		data["tried"] = u.Tried
	}
	addUsage(data, u.Used)
}

func (a *Answer) addTo(data map[string]any) {
	addText(data, "finish", a.Finish)
	if a.Calls != nil {
		data["calls"] = a.Calls
	}
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

func (w *Begun) members() map[string]any {
	data := map[string]any{"inputs": w.Inputs}
	addInterrupt(data, w.Interrupt)
	addParallel(data, w.Parallel)
	if len(w.Origin) > 0 {
		data["origin"] = w.Origin
	}
	if len(w.Unknown) > 0 {
		data["doubts"] = w.Unknown
	}
	w.Rules.addTo(data)
	return data
}

func (w StepDenied) members(after int64) map[string]any { return ended(after, nil, w.Failure) }

func (w WaitOver) members(after int64) map[string]any { return ended(after, w.Output, w.Failure) }

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

func (w CallEnded) members(after int64) map[string]any {
	data := ended(after, w.Output, w.Failure)
	if about, ok := data["error"].(map[string]any); ok {
		addText(about, "reason", w.Failure.Reason)
		addCount(about, "status", int64(w.Failure.Status))
	}
	if w.Failure == nil || w.Settled {
		data["output"] = w.Output
	}
	if w.Models != nil {
		w.Models.addTo(data)
	}
	w.Answer.addTo(data)
	addCount(data, "ms", w.Took.Milliseconds())
	if w.Attempts > 1 {
		data["attempts"] = int64(w.Attempts)
	}
	if w.Unknown {
		data["unknown"] = true
	}
	addText(data, "why", w.Why)
	if w.Settled {
		data["settled"] = true
	}
	return data
}

func (w AgentEvents) members(after int64) map[string]any {
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
		agent := map[string]any{"step": w.Agent.Step, "pause": w.Agent.Pause, "place": w.Agent.Place,
			"tries": int64(w.Agent.Tries)}
		w.Agent.Batched.addTo(agent)
		data["agent"] = agent
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
	earlier := p.Replies
	if last := len(earlier) - 1; p.Answered {
		data["answer"], data["answerTo"] = earlier[last].Answer, earlier[last].To
		earlier = earlier[:last]
	}
	if len(earlier) > 0 {
		data["earlier"] = earlier
	}
	used.addTo(data)
	p.Batched.addTo(data)
	return data
}

// addTo adds the request in a batch, if there is one.
func (b *Batched) addTo(data map[string]any) {
	if b.InBatch() {
		data["batched"] = map[string]any{"id": b.ID, "model": b.Of, "tokens": b.Reserved.Tokens,
			"micros": b.Reserved.Micros}
	}
}

func (w PauseAnswered) members(after int64) map[string]any {
	data := map[string]any{"pause": w.Pause, "n": after, "next": string(w.Next)}
	if w.Next == resume.Answered {
		data["answer"] = w.Answer
	}
	if w.Kept {
		data["kept"] = true
	}
	if w.Restart {
		data["restart"] = true
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
	data := map[string]any{"digest": w.Digest, "generation": int64(w.Generation), "kept": kept, "doubts": w.Unknown}
	if w.Definition != nil {
		data["definition"] = w.Definition
	}
	w.Rules.addTo(data)
	return data
}

func (s Said) members(after int64) map[string]any {
	data := map[string]any{"n": after, "text": s.Text}
	if s.Value != nil {
		data["value"] = s.Value
	}
	return data
}

func (w *Ended) members() map[string]any {
	data := addTotal(map[string]any{"status": string(w.Status)}, w.Usage, w.Models)
	if f := &w.Error; *f != (checkpoint.Failure{}) {
		failure := map[string]any{"code": f.Code, "message": f.Message}
		addText(failure, "step", f.Step)
		addText(failure, "category", f.Category)
		data["error"] = failure
	}
	return data
}
