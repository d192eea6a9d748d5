package engine

import (
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// start begins the call of a step, unless something else comes first:
//
//  1. its adapter must be configured, and its arguments must be valid
//  2. if the outcome of the same call is unknown, the run asks for it
//  3. if time is limited, there must be time for it
//  4. what is in its files must be in the store first
//  5. its possible effect must be in the store first
func (r *Run) start(c machine.Command) {
	t := c.Task
	if r.agents[t].deliver(r) {
		return
	}
	if c.Again && t.Stopped() { // after the steps inside
		step{}.stoppedBefore(r, c)
		return
	}
	p := r.calls.newCall(step{}, t, t.Node().Adapter.(*program.Call), r.trace.path(t), r.now)
	p.Input = c.Input
	t.Driver = p
	if r.ending.cut != nil {
		p.fail(r, nil, CancelCause(r.ending.cause))
		return
	}
	if kept, ok := r.waits.progress[t]; ok { // its pause is over
		p.Progress = kept
		delete(r.waits.progress, t)
		if kept.Within() { // and did not concern the adapter
			delete(r.waits.answers, t)
		}
	}
	pause, err := r.prepareCall(p)
	if err != nil {
		p.fail(r, pause, err)
		return
	}
	if answer, ok := r.waits.answers[t]; ok && c.Again {
		p.Progress.Replies = append(slices.Clip(p.Progress.Replies), answer)
		p.Progress.Answered = true
		delete(r.waits.answers, t)
	}
	p.Context.Replies, p.Context.Answered = p.Progress.Replies, p.Progress.Answered
	if r.unsaved.durable && (r.past.maybeMade(p) || r.before.MustAsk(unknownKey(p.Path, "")) > 0) {
		delete(r.past.unsure, t)
		step{}.finish(r, p, outcome{failure: countsAsFailed(), unknown: true})
		return
	}
	bounded := r.budget.timed() || r.budget.countsTools() || len(p.Spends) > 0
	later := p.Kind == program.ModelCall || p.Kind == program.AgentCall // models have checked, agents check each call
	if bounded && !later {
		if p.accounts = r.budget.accountsOf(t); p.Kind == program.ToolCall {
			p.tools = 1
		}
		if pause, err := r.budget.reserve(p, r.clock.At(r.now)); err != nil {
			p.fail(r, pause, err)
			return
		}
	}
	if err := r.past.poisonous(p); err != nil {
		p.fail(r, nil, err)
		return
	}
	if req := p.shown(); showsLocal(req) && !r.waits.knowsFiles(p) {
		p.Looks, p.Request = true, req
		p.enter(r)
		return
	}
	if r.unsaved.durable {
		if effect := p.hasEffect(); effect || r.unsaved.urgent {
			if effect {
				r.record(t, p.Path, journal.CallBegun{Ordinal: p.Ordinal, Effect: string(p.Effect), Key: p.Key})
				p.known = true
			}
			p.stage = blocked
			r.calls.blocked = append(r.calls.blocked, p)
			return
		}
	}
	p.launch(r)
}

// maybeMade reports whether a call may have been made already, with an effect that may not come twice.
func (p *leftOver) maybeMade(c *pending) bool {
	was, begun := p.unsure[c.task]
	if !begun || was.Ordinal != c.Ordinal || c.begunAs(was.Effect).repeatable() {
		return false
	}
	c.made = was.made
	return true
}

// prepareCall finds the adapter of a step's call, and fills in the call. An error, or a pause, ends the call.
func (r *Run) prepareCall(p *pending) (*resume.Pause, error) {
	switch p.Kind {
	case program.ModelCall:
		models, err := r.o.prepareModel(p)
		if err == nil {
			p.accounts, err = r.budget.priced(p.task, p.site.Pos, models...)
		}
		if err != nil {
			return nil, err
		}
		pause, err := r.budget.reserve(p, r.clock.At(r.now))
		if err == nil {
			r.drawn.draw(p)
		}
		return pause, err
	case program.RetrieverCall:
		err := r.o.prepareRetriever(p)
		if err == nil && len(p.Spends) > 0 { // what it uses of models counts
			_, err = r.budget.priced(p.task, p.site.Pos, p.Spends...)
		}
		return nil, err
	case program.AgentCall:
		found, err := r.agents.prepare(p, &r.o, &r.budget, &r.before, r.program.Earlier())
		r.Report(found...)
		return nil, err
	}
	return nil, r.o.prepareTool(p, &r.tools)
}

// prepareTool finds the tool and checks the arguments.
func (o *Options) prepareTool(p *pending, seen *tools) error {
	if p.site.Key != nil {
		v, err := p.site.Key.Eval(p.task)
		if err != nil {
			return &runtime.Error{Category: runtime.CategoryConfig, Code: "expr.failed", Err: err}
		}
		if p.Key, err = value.Text(v); err != nil || p.Key == "" {
			return program.ConfigError(diagnostics.CodeArguments, "%s: idempotency_key of %q must not be empty",
				p.site.Pos, p.site.Name)
		}
	}
	if err := seen.unchanged(p.Name); err != nil {
		return err
	}
	if err := o.Adapters.Prepare(p.Call); err != nil {
		return err
	}
	o.resolve(p, p.site.Retry, o.Adapters.Retry(p.Call))
	return nil
}

// prepareRetriever finds the retriever and checks the arguments.
func (o *Options) prepareRetriever(p *pending) error {
	if err := o.Adapters.Prepare(p.Call); err != nil {
		return err
	}
	o.resolve(p, p.site.Retry, o.Adapters.Retry(p.Call))
	return nil
}
