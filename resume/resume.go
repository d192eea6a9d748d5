// Package resume defines how runs pause and resume: the [Pause] and its tokens, the
// [Adapter] that receives an answer, the data that a tool gets when it is called again, and
// [Decide], which determines which recorded steps of a run remain valid if the recipe has changed.
//
// Its functions are pure, except for the random part of [Mint]: the caller provides the time and the store.
package resume

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Adapter checks or converts the answer to a pause before the run gets it. Resolve returns the
// answer: it may look up who answers and refuse, or convert what came in. After an
// error nothing has happened and the token stays usable. [Pause.Check] sees the answer next. An answer
// in a [RestartWith] restarts the run.
type Adapter interface {
	Resolve(ctx context.Context, req Request) (input any, err error)
}

// Request is an answer that came in for an open pause.
type Request struct {
	Token     string // "" where the host named the run and the pause instead; keep it out of logs
	RunID     string
	Pause     Pause     // without a token
	Input     any       // what came in, see [AnswerOf]
	Interrupt Interrupt // of the run
}

// RestartWith is what an [Adapter] returns to have the run begin again instead of going on where it paused, whatever
// its Interrupt: the finished steps are rolled back, and the run begins at its first step, as its next generation,
// with the same inputs. Input is the answer. It is kept as those are that were given before, and applied when
// the pause comes again.
//
// The decision is recorded, and the token used, before the first rollback; a run that is interrupted behind that
// is recovered. It is refused, and the token stays usable, if the run cannot begin again: it will fail or was
// cancelled, or calls are under way that an interrupted execution left.
type RestartWith struct {
	Input any
}

// PassThrough is the Adapter that takes the input as it is.
type PassThrough struct{}

// Resolve returns the input of req.
func (PassThrough) Resolve(_ context.Context, req Request) (any, error) { return req.Input, nil }

// Interrupt says what a pause does to the steps that have finished. It is fixed when a run begins.
type Interrupt string

// The ways to interrupt a run; "" is Continue.
const (
	Continue Interrupt = "continue" // finished steps stand
	Restart  Interrupt = "restart"  // they are rolled back, and the run restarts with the answer
)

type (
	answerKey      struct{}
	idempotencyKey struct{}
)

// Reply is an answer that a call has got.
type Reply struct {
	To     string `json:"to"` // the Reason of the pause
	Answer any    `json:"answer"`
}

// given has the answers of a call; answered says that the last one is to the pause before it.
type given struct {
	replies  []Reply
	answered bool
}

// Answer returns the answer to the pause that the caller asked for with [Suspend], as
// [Pause.Check] returned it. It is false on the first call, before there was a pause. Nobody may
// change the answer.
func Answer(ctx context.Context) (any, bool) {
	g, _ := ctx.Value(answerKey{}).(given)
	if !g.answered {
		return nil, false
	}
	return g.replies[len(g.replies)-1].Answer, true
}

// Replies returns the answers to all pauses that the caller asked for so far, in order; nil: none. An [Answer] is the
// last of them. An adapter that asks for several gives each pause a Reason of its own. Nobody may change the answers.
func Replies(ctx context.Context) []Reply {
	g, _ := ctx.Value(answerKey{}).(given)
	return g.replies
}

// WithAnswer returns a context for the call that gets the answer. The engine makes it; tests of
// tools may.
func WithAnswer(ctx context.Context, answer any) context.Context {
	return context.WithValue(ctx, answerKey{}, given{[]Reply{{Answer: answer}}, true})
}

// IdempotencyKey returns the key of the call that ctx belongs to, see [Key]; "" outside of a run.
func IdempotencyKey(ctx context.Context) string {
	key, _ := ctx.Value(idempotencyKey{}).(string)
	return key
}

// WithIdempotencyKey returns a context for a call with that key. The engine makes it.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, key)
}

// CallContext is the context of a call: [Answer] and [IdempotencyKey] find in it what they look for,
// and the key is made when somebody asks for it. The engine makes one for each call.
type CallContext struct {
	context.Context

	RunID      string // see [Key], for this and the next three
	Generation int
	Path       string
	Ordinal    int
	Attempt    int         // from 1
	Recipe     string      // the name of the recipe in whose file the step stands, or the agent
	By         string      // who started the run, or gave the last answer; "": not known
	Detail     *CallDetail // nil: nothing of that
}

// CallDetail is what few calls have.
type CallDetail struct {
	Own string // see [Key]

	Agent    string // that calls; "" for a step's own call
	Depth    int    // of the agent: 0 is no delegate or sub-agent
	Thread   string // of its conversation
	Resource string // likewise
	Cwd      string // where its calls work

	Replies  []Reply // the answers to the pauses that the call asked for, in order; nil: none
	Answered bool    // the last of them is to the pause before this call
}

// Value returns what the call knows of itself, else what the context around it has.
func (c *CallContext) Value(key any) any {
	switch key.(type) {
	case callKey:
		return c
	case idempotencyKey:
		own := ""
		if c.Detail != nil {
			own = c.Detail.Own
		}
		return Key(c.RunID, c.Generation, c.Path, c.Ordinal, own)
	case answerKey:
		if d := c.Detail; d != nil {
			return given{d.Replies, d.Answered}
		}
		return nil
	}
	return c.Context.Value(key)
}

type callKey struct{}

// CallIn returns the context of the call that ctx belongs to; nil outside of a run.
func CallIn(ctx context.Context) *CallContext {
	c, _ := ctx.Value(callKey{}).(*CallContext)
	if c == nil || c.RunID == "" {
		return nil
	}
	return c
}

// Key returns the idempotency key of a call: all its attempts share it, and no other call has it.
// The ordinal counts the logical calls of the step from 1, the generation the beginnings of the run.
// own is the key that the recipe gives; "" is none.
//
// It is the SHA-256, in hex, of the five one after the other, numbers in decimal, each as a
// netstring: its length in bytes, a colon, itself, a comma. So run "r", generation 1, step "send",
// call 2 and no own key make
//
//	1:r,1:1,4:send,1:2,0:,
func Key(runID string, generation int, path string, ordinal int, own string) string {
	text := make([]byte, 0, 256)
	for _, part := range [...]string{runID, strconv.Itoa(generation), path, strconv.Itoa(ordinal), own} {
		text = append(append(append(strconv.AppendInt(text, int64(len(part)), 10), ':'), part...), ',')
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
