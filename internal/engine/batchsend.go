package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// maySend reports whether nothing else is to be done that could lead to more calls of models, so that the calls that
// wait in batches are sent.
func (r *Run) maySend() bool {
	e := &r.ending
	if e.cancelled || e.broken || e.forGood != nil || r.todo.hold || r.undo.atEnd || r.undo.wasUndone || r.calls.any() {
		return false
	}
	return !slices.ContainsFunc(waiting(r.m), func(p *pending) bool {
		return p.stage == delayed && p.Kind == program.ModelCall && p.polled
	})
}

// next returns what is to be done with batches when the machine has nothing to do: a command, or None while
// something is in progress. again says that the machine has something to do now, ok that there is a command.
func (b *batches) next(r *Run) (c Command, again, ok bool) {
	if !b.used {
		return Command{}, false, false
	}
	if len(b.jobs) == 0 && r.maySend() {
		if again = r.endBatched(b.stuck(r.waits.pauses)); !again {
			b.sendHeld(r)
		}
	}
	switch {
	case again:
		return Command{}, true, false
	case len(b.jobs) == 0 || r.todo.hold || r.ending.cancelled || r.ending.broken:
	case len(r.unsaved.events) > 0 && r.unsaved.durable:
		return Command{Op: Save}, false, true
	default:
		p := b.jobs[0]
		b.jobs = b.jobs[1:]
		b.busy++
		p.stage, p.made = flying, made{r.now, r.o.Owner}
		r.calls.flying = append(r.calls.flying, p)
		return Command{Op: Make, Call: p.Call, of: p}, false, true
	}
	return Command{}, false, b.busy > 0 && r.m.Result() != nil
}

// sendHeld begins to send what is held, and to look for batches that may have been sent.
func (b *batches) sendHeld(r *Run) {
	for _, s := range b.sent {
		if !s.known && s.look {
			s.look = false
			b.do(r.calls.number(), r.o.ID, s.Model, &Batch{Op: BatchFind, Key: s.Key, Begun: s.begun, IDs: s.Requests})
		}
	}
	for _, g := range b.groups(r.waits.pauses) {
		what := journal.BatchBegun{Model: g[0].Request.Model}
		for _, c := range g {
			what.Requests = append(what.Requests, c.Batch.IDs[0])
		}
		what.Key = resume.Key(r.o.ID, r.calls.generation, what.Requests[0], len(b.sent)+1, "batch")
		r.TakeNow([]journal.Event{{At: r.now, What: what}})
		b.of[what.Requests[0]].look = false
		b.do(r.calls.number(), r.o.ID, what.Model,
			&Batch{Op: BatchSend, Key: what.Key, Begun: r.now, IDs: what.Requests, Calls: g})
	}
}

// groups takes the calls that are held, as batches: the calls of each are of one model. Calls that no longer wait are
// dropped.
func (b *batches) groups(pauses []*Pause) (full [][]*Call) {
	groups, models := map[string][]*Call{}, []string(nil)
	sizes := map[string]int{}
	for _, q := range pauses {
		c := b.held[q.batched.ID]
		if c == nil || b.at(q.batched.ID) != nil {
			continue
		}
		model, size := c.Request.Model, sizeOf(c.Request)
		if len(groups[model]) >= maxBatch || len(groups[model]) > 0 && sizes[model]+size > maxBatchBytes {
			full = append(full, groups[model])
			groups[model], sizes[model] = nil, 0
		}
		if !slices.Contains(models, model) {
			models = append(models, model)
		}
		groups[model], sizes[model] = append(groups[model], withID(c, q.batched.ID)), sizes[model]+size
	}
	b.held = nil
	for _, model := range models {
		full = append(full, groups[model])
	}
	return full
}

// withID is a call that is to be sent as a request with this id.
func withID(c *Call, id string) *Call {
	c.Batch = &Batch{Op: BatchSend, IDs: []string{id}}
	return c
}

// sizeOf is about how many bytes a request has.
func sizeOf(req *runtime.Request) (n int) {
	for i := range req.Messages {
		n += len(req.Messages[i].Text)
		for _, f := range req.Messages[i].Files {
			n += len(f.URL)
		}
		for _, c := range req.Messages[i].ToolCalls {
			n += len(c.Arguments)
		}
	}
	return n + len(req.Schema)
}

// do has something done with a batch of the run, as the call with this number, once the store has all events.
func (b *batches) do(number int64, run, model string, what *Batch) {
	b.jobs = append(b.jobs, &pending{Call: &Call{ID: number, Kind: program.ModelCall, Name: model, Alone: true,
		Request: &runtime.Request{Run: run, Model: model}, Ask: Ask{Batch: what}}})
}

// stuck returns which calls go on because nothing else would have them do so: they could not be sent, were held by a
// process that has died, or wait in a batch at which no call is to look.
func (b *batches) stuck(pauses []*Pause) func(*Pause) bool {
	led := map[*batch]bool{}
	for _, q := range pauses {
		if s := b.at(q.batched.ID); q.batched.InBatch() && s != nil && !q.RetryAt.IsZero() {
			led[s] = true
		}
	}
	return func(q *Pause) bool {
		s := b.at(q.batched.ID)
		switch {
		case s == nil:
			return b.held[q.batched.ID] == nil
		case b.failed[q.batched.ID] != nil, s.over:
			return true
		}
		first := !led[s]
		led[s] = true
		return first
	}
}

// returned handles what came of something that was done with a batch.
func (b *batches) returned(r *Run, p *pending, res *Result) {
	what := p.Batch
	b.busy--
	s := b.of[what.IDs[0]]
	if res.Lost || s.known {
		return
	}
	for _, id := range value.SortedKeys(res.Unsent) {
		one := &Result{Bad: res.Unsent[id]}
		if _, ok := errors.AsType[*retry.Failure](one.Bad); ok { // of the model
			one.Err, one.Bad = one.Bad, nil
		}
		b.fail(id, one)
	}
	switch refused := what.Op == BatchSend && IsUnsent(res.Err); {
	case res.Left, res.Err != nil && !refused: // its provider is asked later
		r.Report(diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindAdapter,
			Code: diagnostics.CodeBatchUnknown, Message: r.o.Redact.Text(fmt.Sprintf(
				"it is not known whether a batch of model %q was sent, and its provider is asked again: %v",
				s.Model, cmp.Or(res.Err, errors.New("the call was left behind"))))})
		return
	case res.Err != nil:
		for _, id := range what.IDs {
			if b.failed[id] == nil {
				b.fail(id, &Result{Err: res.Err})
			}
		}
	}
	r.TakeNow([]journal.Event{{At: r.now, What: journal.BatchSent{Key: what.Key, ID: res.BatchID}}})
}

// IsUnsent reports whether an error says that a batch was not sent.
func IsUnsent(err error) bool {
	if err == nil {
		return false
	}
	f := retry.FailureOf(err)
	return f.Unsent() || 400 <= f.Status && f.Status <= 499 && f.Status != 408
}

// fail notes why a request was not sent.
func (b *batches) fail(id string, res *Result) {
	if b.failed == nil {
		b.failed = map[string]*Result{}
	}
	b.failed[id] = res
}

// leave says that the call of a request has ended without its answer. If no other call waits for the batch, its
// provider is told. What another execution continues waits on.
func (b *batches) leave(r *Run, id string) {
	s := b.at(id)
	if r.past.replaying || r.ending.cancelled || s == nil || s.id == "" || s.over {
		return
	}
	same := func(of *journal.Batched) bool { return of.ID != id && b.at(of.ID) == s }
	if slices.ContainsFunc(r.waits.pauses, func(q *Pause) bool { return same(&q.batched) }) ||
		slices.ContainsFunc(waiting(r.m), func(q *pending) bool { return same(&q.Batched) }) {
		return
	}
	queued := false
	r.m.Walk(func(t *machine.Task) {
		kept := r.waits.progress[t]
		queued = queued || t.Queued() && same(&kept.Batched)
	}, func(*machine.Task) {})
	if queued {
		return
	}
	s.over = true
	what := &Batch{Op: BatchDrop, Key: s.Key, ID: s.id, Begun: s.begun}
	r.todo.ask(Command{Op: Drop, Call: &Call{Kind: program.ModelCall, Name: s.Model, Ask: Ask{Batch: what}}})
}

// leaveAll ends the pauses of all calls that wait in batches, in a run that ends.
func (b *batches) leaveAll(r *Run) {
	for _, p := range slices.Clone(r.waits.pauses) {
		if p.batched.InBatch() {
			r.waits.drop(p)
			r.budget.unholdAll(p.task)
			b.leave(r, p.batched.ID)
		}
	}
}
