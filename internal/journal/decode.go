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

// Decode reads the event of a record. Its What is nil if this version does not know the kind. The error is
// [checkpoint.ErrCorrupt] with the record's number and kind.
func Decode(rec checkpoint.Record) (Event, error) {
	e, err := decode(rec)
	if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
		err = fmt.Errorf("record %d (%s): %w: %w", rec.Seq, rec.Kind, checkpoint.ErrCorrupt, err)
	}
	return e, err
}

// dataOf returns the members of a record; nil: it has none.
func dataOf(rec checkpoint.Record) (object, error) {
	if rec.Data == nil {
		return nil, nil
	}
	v, err := value.Decode(rec.Data)
	data, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, errors.New("its data")
	}
	return data, nil
}

func decode(rec checkpoint.Record) (e Event, err error) {
	e = Event{At: rec.At, Path: rec.Path}
	data, err := dataOf(rec)
	if err != nil {
		return e, err
	}
	e.After, _ = data["n"].(int64)
	e.By, e.Signal = data.text("by"), data.text("signal")
	switch rec.Kind {
	case batchBegun, batchSent:
		e.What = data.batch(rec.Kind)
	case checkpoint.RunCreated:
		e.What = Created{data.text("recipe"), data.text("digest"), data.yes("queued")}
	case runInput:
		e.What = data.begun()
	case breakpoints:
		e.What = data.breakpoints()
	case checkpoint.RunExecution:
		e.What = data.execution()
	case callBegun:
		e.What = CallBegun{int(data.count("ordinal")), data.text("effect"), data.text("key")}
	case callOpen:
		e.What = CallOpen{data.text("kind"), data.text("name"), data.ms()}
	case callFiles:
		e.What = data.files()
	case callEnded:
		e.What = data.callEnded()
	case callGiven:
		e.What = CallGiven{data["output"], data.failure(), data.answer()}
	case timerFired:
		e.What = TimerDue{machine.Timer(data.count("timer"))}
	case waitOver:
		e.What = WaitOver{data["output"], data.failure()}
	case said:
		e.What = Said{data.text("text"), data["value"]}
	case denied:
		e.What = StepDenied{data.failure()}
	case agentEvents:
		e.What, err = decodeAgent(rec, data)
	case checkpoint.PauseOpened:
		e.What, err = decodeOpened(rec, data)
	case checkpoint.PauseAnswered:
		e.What = data.answered()
	case checkpoint.PauseClosed:
		e.What = PauseClosed{data.text("pause")}
	case checkpoint.TokenMinted:
		e.What = data.minted()
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
	case shared:
		e.What = Shared{}
	case finallyBegun:
		e.What = data.finally()
	case dropped:
		e.What = SignalDropped{data.text("id"), data.text("why")}
	case told:
		e.What = decodeTold(data)
	case traced:
		e.What = Traced{data.text("traceparent")}
	case restarted:
		e.What = Restarted{int(data.count("generation"))}
	case stopped:
		e.What = Stopped{}
	case checkpoint.RunPaused:
		e.What = data.paused()
	case checkpoint.RunEnded:
		e.What = data.ended()
	}
	e.Begins = data.begins(e.What)
	return e, err
}

func (o object) callEnded() CallEnded {
	used := o.models()
	return CallEnded{Output: o["output"], Failure: o.failure(), Models: used.Some(), Answer: o.answer(),
		Unknown: o.yes("unknown"), Why: o.text("why"), Settled: o.yes("settled"),
		Took: o.ms(), Attempts: int(min(o.count("attempts"), math.MaxInt32))}
}

func (o object) files() (what CallFiles) {
	for _, v := range o.list("files") {
		m, _ := v.(map[string]any)
		f := object(m)
		what.Files = append(what.Files, File{f.text("path"), f.text("sha256"), f.text("mediaType"), f.count("bytes")})
	}
	return what
}

func (o object) minted() TokenMinted {
	hash, _ := hex.DecodeString(o.text("hash"))
	at, _ := time.Parse(time.RFC3339Nano, o.text("expiresAt"))
	return TokenMinted{o.text("pause"), hash, at}
}

// begins is the execution that begins with another event, in a journal of an earlier version.
func (o object) begins(what What) *Execution {
	if _, ok := what.(Execution); ok || o["worked"] == nil && o["owner"] == nil {
		return nil
	}
	x := o.execution()
	return &x
}

func (o object) answered() PauseAnswered {
	return PauseAnswered{o.text("pause"), resume.Next(o.text("next")), o["answer"], o.yes("kept"),
		int(o.count("generation")), o.yes("restart")}
}

func (o object) paused() Paused {
	usage, models := o.total()
	return Paused{usage, models}
}

func (o object) finally() FinallyBegun {
	return FinallyBegun{o.text("status"), o["error"], o.text("reason")}
}

func (o object) begun() Begun {
	return Begun{o.in("inputs"), o.interrupt(), o.parallel(), o.texts("origin"), o.unknown(),
		o.rules()}
}

func (o object) breakpoints() (what Breakpoints) {
	for _, v := range o.list("steps") {
		if step, ok := v.(string); ok {
			what.Steps = append(what.Steps, step)
		}
	}
	return what
}

func (o object) ended() Ended {
	f := o.in("error")
	usage, models := o.total()
	return Ended{checkpoint.Status(o.text("status")),
		checkpoint.Failure{Code: f.text("code"), Message: f.text("message"), Step: f.text("step"),
			Category: f.text("category")}, usage, models}
}

func (o object) execution() Execution {
	worked, _ := o["worked"].(int64)
	x := Execution{Owner: o.text("owner"), Worked: time.Duration(worked), Parallel: o.parallel(),
		Tools: o.texts("tools")}
	if l := o.in("limits"); l != nil {
		x.Limits = &Limits{l.size("items"), l.size("steps"), l.size("outputBytes"), l.size("runBytes")}
	}
	return x
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

// ms is how long something took.
func (o object) ms() time.Duration {
	return time.Duration(min(o.count("ms"), int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// total is the usage of a run, and that of each model.
func (o object) total() (checkpoint.Usage, map[string]checkpoint.Usage) {
	var each map[string]checkpoint.Usage
	models := o.in("models")
	for _, name := range value.SortedKeys(models) {
		if each == nil {
			each = make(map[string]checkpoint.Usage, len(models))
		}
		each[name] = models.in(name).used()
	}
	return o.in("usage").used(), each
}

func (o object) used() checkpoint.Usage {
	return checkpoint.Usage{Calls: o.count("calls"), InputTokens: o.count("inputTokens"),
		CachedTokens: o.count("cachedTokens"), CacheWriteTokens: o.count("cacheWriteTokens"),
		OutputTokens: o.count("outputTokens"), ReasoningTokens: o.count("reasoningTokens"), Micros: o.count("micros")}
}

func (o object) parallel() int { return int(min(o.count("parallel"), math.MaxInt32)) }

func (o object) size(name string) int { return int(min(o.count(name), math.MaxInt)) }

func (o object) failure() *machine.Failure {
	f := o.in("error")
	if f == nil {
		return nil
	}
	return &machine.Failure{Category: f.text("category"), Code: f.text("code"), Err: errors.New(f.text("message")),
		Reason: f.text("reason"), Status: f.size("status")}
}

func (o object) usage() Amount {
	u := o.in("usage")
	return Amount{Tokens: u.count("tokens"), Micros: u.count("micros"), Sent: u.count("sent"), Calls: u.count("calls"),
		Cached: u.count("cached"), Written: u.count("written"), Reasoned: u.count("reasoned")}
}

func (o object) answer() Answer { return Answer{o.text("finish"), o.list("calls")} }

func (o object) models() ModelUse {
	u := ModelUse{Model: o.text("model"), Draws: o.draws(), Used: o.usage()}
	for _, v := range o.list("tried") {
		m, _ := v.(map[string]any)
		u.Tried = append(u.Tried, Tried{object(m).text("model"), object(m).draws()})
	}
	return u
}

func (o object) draws() (numbers []int) {
	for _, n := range o.list("draws") {
		if n, ok := n.(int64); ok {
			numbers = append(numbers, int(n))
		}
	}
	return numbers
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
		w.Agent = &AgentPause{a.text("step"), a.text("pause"), a.text("place"), int(min(a.count("tries"), 1<<30)),
			a.batched()}
	}
	return w, nil
}

func (o object) progress() Progress {
	p := Progress{Attempts: int(min(o.count("attempts"), 1<<30)), Calls: int(min(o.count("calls"), 1<<30))}
	p.Repairs = o.words("repairs")
	for _, v := range o.list("earlier") {
		m, _ := v.(map[string]any)
		p.Replies = append(p.Replies, resume.Reply{To: object(m).text("to"), Answer: m["answer"]})
	}
	if last, ok := o["answer"]; ok {
		p.Replies, p.Answered = append(p.Replies, resume.Reply{To: o.text("answerTo"), Answer: last}), true
	}
	p.Batched = o.batched()
	return p
}

func (o object) batch(kind checkpoint.Kind) What {
	if kind == batchSent {
		return BatchSent{o.text("key"), o.text("id")}
	}
	return BatchBegun{o.text("key"), o.text("model"), o.words("requests")}
}

func (o object) batched() Batched {
	b := o.in("batched")
	return Batched{b.text("id"), b.text("model"), Amount{Tokens: b.count("tokens"), Micros: b.count("micros")}}
}

// words are the texts of a list.
func (o object) words(name string) (list []string) {
	for _, v := range o.list(name) {
		text, _ := v.(string)
		list = append(list, text)
	}
	return list
}

func decodeRedefined(data object) Redefined {
	w := Redefined{Digest: data.text("digest"), Definition: data["definition"],
		Generation: int(data.count("generation")), Unknown: data.unknown(), Rules: data.rules()}
	for _, v := range data.list("kept") {
		m, _ := v.(map[string]any)
		k := object(m)
		w.Kept = append(w.Kept, KeptAnswer{k.text("step"), resume.Kind(k.text("kind")),
			k.text("reason"), k.text("about"), k["answer"],
			k.text("question")})
	}
	return w
}

func (o object) unknown() (list []UnknownCall) {
	for _, v := range o.list("doubts") {
		var d UnknownCall
		text, _ := value.JSON(v)
		_ = json.Unmarshal(text, &d)
		if m, _ := v.(map[string]any); d.Call != nil { // with its numbers as they are elsewhere
			call := object(m).in("call")
			d.Call.Arguments, d.Call.Given = call["arguments"], call["given"]
		}
		list = append(list, d)
	}
	return list
}
