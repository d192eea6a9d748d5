package call

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/braise-run/braise/internal/daily"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// inBatch does what a call has to do with a batch.
func (a *attempt) inBatch() engine.Result {
	what := a.call.Batch
	model, err := a.polled(a.call.Request.Model)
	if err != nil {
		return engine.Result{Err: err}
	}
	switch what.Op {
	case engine.BatchSend:
		return a.sendBatch(model)
	case engine.BatchFind:
		id, err := model.Find(a.ctx, &runtime.Batch{Key: what.Key, Begun: what.Begun, IDs: what.IDs})
		return engine.Result{BatchID: id, Err: a.shown(err)}
	}
	return a.lookIntoBatch(model)
}

// polled finds a model that answers in batches.
func (c *Caller) polled(name string) (runtime.PolledModel, error) {
	model, ok := c.Offers.Models[name].(runtime.PolledModel)
	if !ok {
		return nil, &retry.Failure{Err: fmt.Errorf("model %q does not answer in batches", name)}
	}
	return model, nil
}

// sendBatch sends a batch of those requests that may be sent.
func (a *attempt) sendBatch(model runtime.PolledModel) (res engine.Result) {
	what := a.call.Batch
	b := &runtime.Batch{Key: what.Key, Begun: what.Begun}
	reserved := map[string]daily.Reservation{}
	unsent := func(id string, bad error) {
		if res.Unsent == nil {
			res.Unsent = map[string]error{}
		}
		res.Unsent[id] = a.shownPause(a.shown(bad))
	}
	for i, c := range what.Calls {
		one := &attempt{Caller: a.Caller, call: c, ctx: a.ctx}
		one.findable()
		bad := one.mayAsk()
		if a.Day != nil && bad == nil {
			reserved[what.IDs[i]], bad = a.Day.Reserve(a.ctx, named(c), engine.Wanted(c, a.rt.Prices).Micros)
		}
		a.found = append(a.found, one.found...)
		if bad != nil {
			unsent(what.IDs[i], bad)
			continue
		}
		b.IDs, b.Requests = append(b.IDs, what.IDs[i]), append(b.Requests, one.asks)
	}
	free := func(id string) {
		if a.Day != nil {
			a.settleDay(reserved[id], 0)
		}
	}
	id, err := "", error(nil)
	for len(b.IDs) > 0 {
		id, err = model.Submit(a.ctx, b)
		unfit, ok := errors.AsType[*runtime.UnfitRequests](err)
		if !ok {
			break
		}
		left := &runtime.Batch{Key: b.Key, Begun: b.Begun}
		for i, id := range b.IDs {
			if bad := unfit.Errs[id]; bad != nil {
				unsent(id, bad)
				free(id)
				continue
			}
			left.IDs, left.Requests = append(left.IDs, id), append(left.Requests, b.Requests[i])
		}
		if len(left.IDs) == len(b.IDs) {
			break
		}
		b, err = left, nil
	}
	if err == nil && id == "" && len(b.IDs) > 0 {
		err = errors.New("the batch was sent, and has no id")
	}
	if engine.IsUnsent(err) {
		for _, id := range b.IDs {
			free(id)
		}
	}
	res.BatchID, res.Err = id, a.shown(err)
	return res
}

// settleDay replaces what was reserved on a day by what it has cost.
func (a *attempt) settleDay(r daily.Reservation, cost int64) {
	ctx := context.WithoutCancel(a.ctx) // what was paid counts, however the run ends
	if err := a.Day.Settle(ctx, r, cost); err != nil && a.Warn != nil {
		a.Warn("the cost of a call is not counted on its day: "+err.Error(), a.call.Path)
	}
}

// lookIntoBatch gets the answer to a request in a batch. Without one, the result is the pause in which the call waits.
func (a *attempt) lookIntoBatch(model runtime.PolledModel) (res engine.Result) {
	what, name := a.call.Batch, a.call.Request.Model
	state, err := a.poll(a.ctx, model, what.ID)
	switch {
	case err != nil && (a.ctx.Err() != nil || isOver(err)):
		return a.answered(response{err: err})
	case err != nil:
		return a.waits(fmt.Sprintf("batch %q of model %q cannot be looked at: %v", what.ID, name, a.shown(err)))
	case !state.Over && state.Requests > 0:
		return a.waits(fmt.Sprintf("batch %q of model %q is not over: %d of %d requests are", what.ID, name,
			state.Answered, state.Requests))
	case !state.Over:
		return a.waits(fmt.Sprintf("batch %q of model %q is not over", what.ID, name))
	}
	var resp response
	if read := state.Answers[what.IDs[0]]; read != nil {
		resp.model, resp.err = read(a.ctx, a.call.Request)
	} else if resp.err = state.Err; resp.err == nil {
		resp.err = &retry.Failure{Reason: retry.ServerError, Sent: true, Err: fmt.Errorf(
			"batch %q of model %q is over, and has no answer to the request", what.ID, name)}
	}
	res = a.answered(resp)
	if a.Day != nil {
		a.settleDay(daily.Reserved(what.Begun, engine.Wanted(a.call, a.rt.Prices).Micros),
			engine.Used(a.call, &res, a.rt.Prices).Micros)
	}
	return res
}

// waits is the result of a call that waits on in its batch.
func (a *attempt) waits(why string) engine.Result {
	p := resume.Pause{Kind: resume.External, Reason: resume.BatchReason, Prompt: why}
	return engine.Result{Err: resume.Suspend(p)}
}

// isOver reports whether an error says that a batch will never be answered. A key that the provider does not take can
// be replaced.
func isOver(err error) bool {
	f := retry.FailureOf(err)
	return f.Reason == "" && f.Status != http.StatusUnauthorized && f.Status != http.StatusForbidden
}

// poll is what is known of a batch. One call at a time asks for more.
type poll struct {
	turn  chan struct{}
	state *runtime.BatchState
	err   error
	at    time.Time // of state and err; zero: there is none
}

// pollFor is how long what a provider says of a batch that is not over serves other calls.
const pollFor = time.Second

// poll says how far a batch is.
func (c *Caller) poll(ctx context.Context, model runtime.PolledModel, id string) (*runtime.BatchState, error) {
	c.mu.Lock()
	one := c.polls[id]
	if one == nil {
		if c.polls == nil {
			c.polls = map[string]*poll{}
		}
		one = &poll{turn: make(chan struct{}, 1)}
		c.polls[id] = one
	}
	c.mu.Unlock()
	select {
	case one.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-one.turn }()
	known := !one.at.IsZero() && (time.Since(one.at) < pollFor || one.err == nil && one.state.Over)
	if known {
		return one.state, one.err
	}
	state, err := model.Poll(ctx, id)
	if err == nil && state == nil {
		err = errors.New("the model says nothing of the batch")
	}
	if ctx.Err() == nil {
		one.state, one.err, one.at = state, err, time.Now()
	}
	return state, err
}

// dropTime is how long it may take to tell a provider that nobody waits for a batch.
const dropTime = 10 * time.Second

// DropBatch tells the provider of a batch that nobody waits for it any more.
func (c *Caller) DropBatch(ctx context.Context, call *engine.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	_, err := guard.Port(ctx, runtime.CategoryModel, "model.failed", fmt.Sprintf("model %q", call.Name),
		func() (struct{}, error) {
			model, err := c.polled(call.Name)
			if err == nil {
				err = model.Cancel(ctx, call.Batch.ID)
			}
			return struct{}{}, err
		})
	if err != nil && c.Warn != nil {
		c.Warn(fmt.Sprintf("batch %q, for which nobody waits any more, was not cancelled: %v", call.Batch.ID,
			c.Redact.Error(err)), "")
	}
}
