package journal

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// object is the data of a record. A member that is missing, or has another type than expected, is zero.
type object map[string]any

func (o object) text(name string) string { s, _ := o[name].(string); return s }
func (o object) yes(name string) bool    { return o[name] == true }
func (o object) list(name string) []any  { l, _ := o[name].([]any); return l }
func (o object) in(name string) object   { m, _ := o[name].(map[string]any); return m }

// count is a number that is not negative, and not so large that sums overflow.
func (o object) count(name string) int64 {
	n, _ := o[name].(int64)
	return max(0, min(n, MaxAmount))
}

// Decode reads the event of a record. Its What is nil if the kind means nothing to a run. The error is
// [checkpoint.ErrCorrupt] with the record's number and kind.
func Decode(rec checkpoint.Record) (Event, error) {
	e, err := decode(rec)
	if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
		err = fmt.Errorf("record %d (%s): %w: %w", rec.Seq, rec.Kind, checkpoint.ErrCorrupt, err)
	}
	return e, err
}

func decode(rec checkpoint.Record) (e Event, err error) {
	e = Event{At: rec.At, Path: rec.Path}
	var data object
	if rec.Data != nil {
		v, err := value.Decode(rec.Data)
		m, ok := v.(map[string]any)
		if err != nil || !ok {
			return e, errors.New("its data")
		}
		data = m
	}
	e.After, _ = data["n"].(int64)
	e.By, e.Owner = data.text("by"), data.text("owner")
	if worked, ok := data["worked"].(int64); ok {
		e.Resumed, e.Worked, e.Parallel = true, time.Duration(worked), data.parallel()
	}
	switch rec.Kind {
	case checkpoint.RunCreated:
		e.What = Created{data.text("recipe"), data.text("digest")}
	case runInput:
		e.What = Begun{data.in("inputs"), data.interrupt(), data.parallel(), data.texts("origin"), data.doubts()}
	case callBegun:
		e.What = CallBegun{int(data.count("ordinal")), data.text("effect"), data.text("key")}
	case callEnded:
		e.What = CallEnded{Output: data["output"], Failure: data.failure(), Models: data.models(),
			Finish: data.text("finish"), Unknown: data.yes("unknown"), Why: data.text("why"),
			Settled: data.yes("settled")}
	case callGiven:
		e.What = CallGiven{data["output"], data.text("finish")}
	case timerFired:
		e.What = TimerDue{machine.Timer(data.count("timer"))}
	case waitOver:
		e.What = WaitOver{data["output"], data.failure()}
	case agentEvents:
		e.What, err = decodeAgent(rec, data)
	case checkpoint.PauseOpened:
		e.What, err = decodeOpened(rec, data)
	case checkpoint.PauseAnswered:
		e.What = PauseAnswered{data.text("pause"), resume.Next(data.text("next")), data["answer"],
			data.yes("kept"), int(data.count("generation"))}
	case checkpoint.PauseClosed:
		e.What = PauseClosed{data.text("pause")}
	case checkpoint.TokenMinted:
		hash, _ := hex.DecodeString(data.text("hash"))
		at, _ := time.Parse(time.RFC3339Nano, data.text("expiresAt"))
		e.What = TokenMinted{data.text("pause"), hash, at}
	case valueSent:
		e.What = ValueSent{data.text("channel"), data["value"]}
	case rollbackBegun:
		e.What = RollbackBegun{data.text("effect")}
	case rollbackEnded:
		e.What = RollbackEnded{data.text("error")}
	case redefined:
		e.What = decodeRedefined(data)
	case cancelling:
		e.What = Cancelled{data.text("reason")}
	case told:
		e.What = decodeTold(data)
	case traced:
		e.What = Traced{data.text("traceparent")}
	case stopped:
		e.What = Stopped{}
	case checkpoint.RunPaused:
		e.What = Paused{}
	case checkpoint.RunEnded:
		e.What = Ended{checkpoint.Status(data.text("status"))}
	}
	return e, err
}

func decodeTold(data object) (what Told) {
	for _, v := range data.list("events") {
		m, _ := v.(map[string]any)
		at, _ := time.Parse(time.RFC3339Nano, object(m).text("at"))
		what.Events = append(what.Events, Custom{at, object(m).text("name"), object(m).in("data")})
	}
	return what
}

func (o object) interrupt() resume.Interrupt {
	if o.text("interrupt") == string(resume.Restart) {
		return resume.Restart
	}
	return resume.Continue
}

// texts are the members of a member that are texts; nil: there are none.
func (o object) texts(name string) map[string]string {
	var texts map[string]string
	members := o.in(name)
	for _, name := range value.SortedKeys(members) {
		if text, ok := members[name].(string); ok {
			if texts == nil {
				texts = map[string]string{}
			}
			texts[name] = text
		}
	}
	return texts
}

func (o object) parallel() int { return int(min(o.count("parallel"), math.MaxInt32)) }

func (o object) failure() *machine.Failure {
	f := o.in("error")
	if f == nil {
		return nil
	}
	return &machine.Failure{Category: f.text("category"), Code: f.text("code"), Err: errors.New(f.text("message"))}
}

func (o object) usage() Amount {
	u := o.in("usage")
	return Amount{Tokens: u.count("tokens"), Micros: u.count("micros"), Sent: u.count("sent"), Calls: u.count("calls")}
}

func (o object) models() ModelUse {
	u := ModelUse{Model: o.text("model"), Used: o.usage()}
	for _, n := range o.list("draws") {
		if n, ok := n.(int64); ok {
			u.Draws = append(u.Draws, int(n))
		}
	}
	return u
}

func decodeAgent(rec checkpoint.Record, data object) (What, error) {
	var kept struct {
		Events []agents.Event `json:"events"`
		Calls  []Drawn        `json:"calls"`
		Waits  bool           `json:"waits"`
		Began  int            `json:"began"`
	}
	if err := json.Unmarshal(rec.Data, &kept); err != nil {
		return nil, err
	}
	return AgentEvents{kept.Events, kept.Calls, data.usage(), kept.Waits, kept.Began}, nil
}

func decodeOpened(rec checkpoint.Record, data object) (What, error) {
	p, err := resume.Opened(rec)
	if err != nil {
		return nil, err
	}
	w := PauseOpened{Pause: p, Interrupt: data.interrupt()}
	if call := data.in("call"); call != nil {
		w.Progress, w.Models = call.progress(), call.models()
	}
	if a := data.in("agent"); a != nil {
		w.Agent = &AgentPause{a.text("step"), a.text("pause"), a.text("place"), int(min(a.count("tries"), 1<<30))}
	}
	return w, nil
}

func (o object) progress() Progress {
	p := Progress{Attempts: int(min(o.count("attempts"), 1<<30)), Calls: int(min(o.count("calls"), 1<<30)),
		AnswerTo: o.text("answerTo")}
	for _, v := range o.list("repairs") {
		text, _ := v.(string)
		p.Repairs = append(p.Repairs, text)
	}
	p.Answer, p.Answered = o["answer"]
	return p
}

func decodeRedefined(data object) Redefined {
	w := Redefined{Digest: data.text("digest"), Definition: data["definition"],
		Generation: int(data.count("generation")), Doubts: data.doubts()}
	for _, v := range data.list("kept") {
		m, _ := v.(map[string]any)
		k := object(m)
		w.Kept = append(w.Kept, KeptAnswer{k.text("step"), resume.Kind(k.text("kind")),
			k.text("reason"), k.text("about"), k["answer"],
			k.text("question")})
	}
	return w
}

func (o object) doubts() (list []Doubt) {
	for _, v := range o.list("doubts") {
		var d Doubt
		text, _ := value.JSON(v)
		_ = json.Unmarshal(text, &d)
		if m, _ := v.(map[string]any); d.Call != nil { // with its numbers as they are elsewhere
			d.Call.Arguments = object(m).in("call")["arguments"]
		}
		list = append(list, d)
	}
	return list
}
