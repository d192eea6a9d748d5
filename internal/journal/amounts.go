package journal

import (
	"encoding/json"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// Drawn is a call of a model, as scripts count it.
type Drawn struct {
	Model string `json:"model"`
	N     int    `json:"n"`    // in the run
	Step  string `json:"step"` // the path of the agent or child
}

// ModelUse is what a call used of models.
type ModelUse struct {
	Model string  // that Draws are of: the one that answered, or failed last
	Draws []int   // the numbers of the calls, in the run
	Tried []Tried // models that had failed before, in order; nil: none
	Used  Amount  // by all of them
}

// Some returns what was used; nil: nothing. Most calls are not of models.
func (u *ModelUse) Some() *ModelUse {
	if u.Model == "" && u.Draws == nil && u.Tried == nil && u.Used == (Amount{}) {
		return nil
	}
	kept := *u
	return &kept
}

// All returns what was used; of nil, nothing.
func (u *ModelUse) All() (all ModelUse) {
	if u != nil {
		all = *u
	}
	return all
}

// Calls is how many calls of models it was, those that failed before another model was called among them.
func (u *ModelUse) Calls() int {
	n := len(u.Draws)
	for _, tried := range u.Tried {
		n += len(tried.Draws)
	}
	return n
}

// First is the model that was called first; "": not known.
func (u *ModelUse) First() string {
	if len(u.Tried) > 0 {
		return u.Tried[0].Model
	}
	return u.Model
}

// After is the model that was called when the i-th of Tried had failed; "": none was.
func (u *ModelUse) After(i int) string {
	if i+1 < len(u.Tried) {
		return u.Tried[i+1].Model
	}
	return u.Model
}

// Tried is a model that failed before another one was called instead.
type Tried struct {
	Model string `json:"model"`
	Draws []int  `json:"draws"` // the numbers of its calls, in the run
}

// Model is the one of the last of the calls; "": there is none.
func (e *AgentEvents) Model() string {
	if len(e.Calls) == 0 {
		return ""
	}
	return e.Calls[len(e.Calls)-1].Model
}

// Progress is the progress of a call, kept over a pause of the engine.
type Progress struct {
	Attempts int            // of the call in progress, all failed
	Calls    int            // of the model, by this step
	Repairs  []string       // what was added to a model's messages: an answer, what is wrong with it, and so on
	Replies  []resume.Reply // the answers to the pauses that the adapter asked for, in order
	Answered bool           // the last of them is to the pause before the call
	Batched  Batched
}

// Batched is the request of a call that waits for its answer in a batch. The zero Batched is of a call that does not.
type Batched struct {
	ID       string // of the request
	Of       string // the model that is asked
	Reserved Amount // what it may use, in tokens and money
}

// InBatch reports whether the call waits for its answer in a batch.
func (b *Batched) InBatch() bool { return b.ID != "" }

// Any reports whether there is anything to keep.
func (p *Progress) Any() bool { return p.Within() || p.Replies != nil }

// Within reports whether the call was on its way: it waits for the engine. Else its adapter asked for the pause.
func (p *Progress) Within() bool {
	return p.Attempts > 0 || p.Repairs != nil || p.Answered || p.Batched.InBatch()
}

// MaxAmount limits what one call counts, so that sums do not overflow.
const MaxAmount = value.MaxMicros

// Count is a decoded JSON integer that is not negative, up to MaxAmount; 0 for anything else.
func Count(v any) int64 {
	switch v := v.(type) {
	case int64:
		return min(max(0, v), MaxAmount)
	case float64:
		return int64(min(max(0, v), MaxAmount))
	case json.Number:
		if v[0] != '-' {
			return MaxAmount
		}
	}
	return 0
}

// Amount is what calls of models use.
type Amount struct {
	Tokens int64
	Micros int64 // millionths of a US dollar
	Sent   int64 // of the Tokens, those of requests; 0 in records of earlier versions
	// Of those Sent, and of the others, what has a price of its own, or may have. Earlier versions recorded none.
	Cached, Written int64 // read from the provider's cache, and written to it
	Reasoned        int64 // thought
	Calls           int64 // attempts that the other side answered, or may have; 0 in records of earlier versions
	Tools           int64 // calls of tools, which the other events of a journal tell: no record has it
}

// Plus adds, up to MaxAmount.
func (a Amount) Plus(b Amount) Amount {
	return a.each(b, func(x, y int64) int64 { return min(x+y, MaxAmount) })
}

// Minus subtracts, down to nothing.
func (a Amount) Minus(b Amount) Amount {
	return a.each(b, func(x, y int64) int64 { return max(x-y, 0) })
}

func (a Amount) each(b Amount, f func(x, y int64) int64) Amount {
	return Amount{Tokens: f(a.Tokens, b.Tokens), Micros: f(a.Micros, b.Micros), Sent: f(a.Sent, b.Sent),
		Cached: f(a.Cached, b.Cached), Written: f(a.Written, b.Written), Reasoned: f(a.Reasoned, b.Reasoned),
		Calls: f(a.Calls, b.Calls), Tools: f(a.Tools, b.Tools)}
}

// Total is the amount as the usage of a run.
func (a Amount) Total() checkpoint.Usage {
	return checkpoint.Usage{Calls: a.Calls, InputTokens: a.Sent, CachedTokens: a.Cached, CacheWriteTokens: a.Written,
		OutputTokens: a.Tokens - a.Sent, ReasoningTokens: a.Reasoned, Micros: a.Micros}
}
