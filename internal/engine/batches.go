package engine

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
)

// batches are the calls of models that answer in batches. Such a call waits in a pause:
//
//	a call ─▶ pause ─┐                                     ┌─▶ pause again: the batch is not over
//	a call ─▶ pause ─┼─▶ BatchBegun ─▶ send ─▶ BatchSent ─▶ look ─▶ answers: all calls go on
//	                 once nothing else is to be done
//
// One pause of a batch has a RetryAt, at which its call looks at the batch for all of them. If a process dies, or loses
// the connection, between BatchBegun and BatchSent, the provider is asked whether it has the batch.
type batches struct {
	used   bool               // there are such calls
	held   map[string]*Call   // that wait to be sent, by the id of the request; of this execution
	failed map[string]*Result // of requests that were not sent, likewise
	jobs   []*pending         // what is done with batches, once the store has all events
	busy   int                // of these, in progress
	sent   []*batch           // in the order in which they began
	of     map[string]*batch  // the latest, by the id of a request
}

// batch is a batch of requests that was sent, or may have been.
type batch struct {
	journal.BatchBegun
	begun time.Time
	id    string // by its provider; "": it has none
	known bool   // the id is
	look  bool   // it is to be looked for
	over  bool   // this execution knows that its answers are there
}

// The most that is sent as one batch.
const (
	maxBatch      = 10_000   // requests
	maxBatchBytes = 64 << 20 // of their texts
)

// BatchDelay is when a batch is looked at next that began so long ago: the longer ago, the later.
func BatchDelay(age time.Duration) time.Duration {
	return min(max(age/4, time.Minute), 15*time.Minute).Truncate(time.Second)
}

// begin applies that a batch is about to be sent.
func (b *batches) begin(at time.Time, what journal.BatchBegun) {
	s := &batch{BatchBegun: what, begun: at, look: true}
	b.sent = append(b.sent, s)
	if b.of == nil {
		b.of = map[string]*batch{}
	}
	for _, id := range what.Requests {
		b.of[id] = s
	}
}

// know applies what is known of a batch from then on.
func (b *batches) know(what journal.BatchSent) error {
	i := slices.IndexFunc(b.sent, func(s *batch) bool { return s.Key == what.Key })
	if i < 0 {
		return fmt.Errorf("no batch %q has begun", what.Key)
	}
	s := b.sent[i]
	s.id, s.known, s.look = what.ID, true, false
	return nil
}

// at returns the batch of a request; nil: it was not sent, for all that is known.
func (b *batches) at(id string) *batch {
	if s := b.of[id]; s != nil && (!s.known || s.id != "") {
		return s
	}
	return nil
}

// sees notes a pause that opens. It reports whether a call waits there in a batch.
func (b *batches) sees(p *Pause) bool {
	b.used = b.used || p.strays || p.batched.InBatch()
	return p.batched.InBatch()
}

// joins decides what a call of a model does that answers in batches: it waits to be sent, or goes on waiting, or fails
// because it could not be sent. It returns false if an attempt is to be made: of a model that answers at once, or to
// look at the batch.
func (p *pending) joins(r *Run) bool {
	if p.Kind != program.ModelCall || p.Looks {
		return false
	}
	p.Batch = nil
	if !p.polled && !p.Batched.InBatch() {
		return false
	}
	b, id := &r.batches, r.o.requestID(p)
	if p.Batched.ID != id { // an agent may have to ask something else first
		want := Wanted(p.Call, r.o.Prices)
		p.Batched = journal.Batched{ID: id, Of: p.Request.Model,
			Reserved: journal.Amount{Tokens: want.Tokens, Micros: want.Micros}}
	}
	s := b.at(id)
	switch res := b.failed[id]; {
	case !p.polled && s == nil:
		p.forgetBatch()
		return false
	case res != nil:
		delete(b.failed, id)
		p.forgetBatch()
		p.stage = preparing
		p.attempted(r, res)
	case !p.polled: // what was sent is paid
		p.waitOn(r, fmt.Sprintf("model %q no longer answers in batches, and a batch of it was sent: have it answer in "+
			"batches again, or cancel the run", p.Request.Model))
	case s == nil:
		if err := r.o.refusesBatch(p); err != nil {
			p.fail(r, nil, err)
			break
		}
		b.hold(p)
		p.waitOn(r, fmt.Sprintf("model %q answers in batches", p.Request.Model))
	case s.known:
		p.Batch = &Batch{Op: BatchLook, Key: s.Key, ID: s.id, Begun: s.begun, IDs: []string{id}}
		return false
	default:
		s.look = true
		p.waitOn(r, fmt.Sprintf("it is not known yet whether a batch of model %q was sent", s.Model))
	}
	return true
}

// hold keeps a call until it is sent with others.
func (b *batches) hold(p *pending) {
	if b.held == nil {
		b.held = map[string]*Call{}
	}
	asked := *p.Call
	b.used, b.held[p.Batched.ID] = true, &asked
}

// refusesBatch is the error of a call that cannot wait for a batch, as no call of the run can; nil: it can.
func (o *Options) refusesBatch(p *pending) error {
	why := ", and this run would begin again after each\n  hint: use another model, or interrupt: continue"
	switch {
	case !o.Kept:
		why = ", which need a store\n  hint: give store in braise.yaml, or Runtime.Store"
	case o.Interrupt != resume.Restart:
		return nil
	}
	return program.ConfigError(diagnostics.CodeNoBatch, "%s: model %q answers in batches: its calls wait in pauses%s",
		p.site.Pos, p.Request.Model, why)
}

// requestID identifies one attempt at one call: no other request of any run has the same, and a later execution that
// makes the attempt again gives it the same. So it finds the answer.
func (o *Options) requestID(p *pending) string {
	op := ""
	if p.Job != nil {
		op = string(p.Job.Op)
	}
	asked, err := json.Marshal(p.Request.Messages)
	if err != nil { // the provider gets them as JSON
		asked = []byte(err.Error())
	}
	return resume.Key(o.ID, p.Generation, p.Path, p.Ordinal,
		fmt.Sprintf("%s %q %d %x", op, p.Request.Model, p.Attempts, sha256.Sum256(asked)))
}

// waitOn has a call wait in a pause. The first one of a batch is to look at it.
func (p *pending) waitOn(r *Run, about string) {
	r.drawn.undraw(p)
	pause := &resume.Pause{Kind: resume.External, Reason: resume.BatchReason, Prompt: about}
	if s := r.batches.at(p.Batched.ID); !r.batches.isLed(r.waits.pauses, s, p.Batched.Of) {
		age := time.Duration(0)
		if s != nil {
			age = r.now.Sub(s.begun)
		}
		pause.RetryAt = r.now.Add(BatchDelay(age))
	}
	p.ended(r, p, outcome{pause: pause}, nil)
}

// isLed reports whether a call waits that is to look at a batch; nil: at the next one of that model.
func (b *batches) isLed(pauses []*Pause, s *batch, model string) bool {
	return slices.ContainsFunc(pauses, func(q *Pause) bool {
		return q.batched.InBatch() && !q.RetryAt.IsZero() && q.batched.Of == model && b.at(q.batched.ID) == s
	})
}

// stillWaits lets a call wait on that has looked at its batch, which is not over; false: the call goes on, and with it
// the others in its batch.
func (p *pending) stillWaits(r *Run, res *Result) bool {
	if p.Batch == nil {
		return false
	}
	p.release(journal.Amount{})
	if asked, ok := errors.AsType[*resume.Suspension](res.Err); ok {
		p.waitOn(r, asked.Pause.Prompt)
		return true
	}
	if r.ending.cutOff(p) || r.ending.broken {
		return false
	}
	s := r.batches.at(p.Batched.ID)
	p.forgetBatch()
	s.over = true
	r.endBatched(func(q *Pause) bool { return r.batches.at(q.batched.ID) == s })
	return false
}

// forgetBatch notes that the next attempt of a call is another request.
func (p *pending) forgetBatch() {
	p.Batched = journal.Batched{}
	if a, ok := p.caller.(*agent); ok {
		delete(a.batched, placeOf(p.Path, p.Job.Call))
	}
}

// endBatched has calls go on that wait in batches.
func (r *Run) endBatched(which func(*Pause) bool) (some bool) {
	for _, q := range slices.Clone(r.waits.pauses) {
		if (q.batched.InBatch() || q.strays) && which(q) {
			r.endPause(q, resume.GoOn, nil)
			some = true
		}
	}
	return some
}
