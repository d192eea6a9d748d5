package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/trace"
)

// make begins a call inside an agent.
func (a *agent) make(r *Run, j *agents.Job) {
	a.begins = false
	step := a.call
	if j.Op == agents.RunRecipe {
		if reply, over := insideOf(step.task, j); over {
			a.came = append(a.came, replied{j, reply})
		} else {
			a.inner = append(a.inner, j)
		}
		return
	}
	p := r.calls.newCall(a, step.task, step.site, j.Path, r.now)
	loop := a.execution.Definition(j.Frame)
	r.o.Adapters.Runs(j.Path, loop)
	p.Job, p.Agent, p.Kind, p.Name, p.Opens = j, Agent{loop.Name, loop.Cwd}, kindOf(j.Op), j.Name, false
	p.Generation, p.Ordinal, p.Dispose = step.Generation, max(j.Call, 1), j.Op == agents.DisposeLayer
	p.Alone, p.known = true, a.mayPause(p) // agents record that they call models and tools
	a.jobs = append(a.jobs, p)
	if p.Kind == "" {
		r.todo.ask(r.calls.attempt(p, r.now, r.by))
		return
	}
	p.accounts = step.accounts
	p.Context.Replies, p.Context.Answered = j.Replies, j.Replies != nil
	if err := a.prepare(&r.o, p, &r.tools, r.waits.files[p.task], r.now); err != nil {
		a.ended(r, p, outcome{}, err)
		return
	}
	if pause, err := p.limitTools(); err != nil {
		p.fail(r, pause, err)
		return
	}
	if a.asksFirst(p) { // the loop asks
		a.ended(r, p, outcome{}, &retry.Failure{Reason: retry.Timeout, Sent: true,
			Err: errors.New("the run has begun again, and it is not known what became of the call before")})
		return
	}
	p.enter(r)
}

// kindOf is the kind of a call of an agent, for retry policies; "": none applies.
func kindOf(op agents.Op) program.CallKind {
	switch op {
	case agents.CallModel, agents.AskSummary:
		return program.ModelCall
	case agents.CallTool:
		return program.ToolCall
	case agents.LoadMemory, agents.SaveMemory:
		return program.MemoryCall
	case agents.Retrieve:
		return program.RetrieverCall
	}
	return ""
}

// prepare fills in a call of an agent.
func (a *agent) prepare(o *Options, p *pending, seen *tools, files []journal.File, now time.Time) (err error) {
	site := p.site
	switch p.Kind {
	case program.ModelCall:
		req := *p.Job.Request
		if p.Batched = a.batched[placeOf(p.Path, 0)]; p.Batched.InBatch() {
			req.Model = p.Batched.Of
		}
		p.Request, p.Ordinal, p.Name = &req, req.Call, req.Model
		if showsLocal(&req) {
			p.Files = append([]journal.File{}, files...)
		}
		about, _ := o.Adapters.Model(cmp.Or(p.Batched.Of, p.Job.Name))
		p.Stream = about.Streams && o.Wants.Deltas && p.Job.Op == agents.CallModel
		o.resolve(p, site.Retry, about.Retry)
		p.fallbacks, p.polled = about.Fallbacks, about.Polled
		p.Attempts, p.Calls = a.tries[placeOf(p.Path, 0)], a.calls[p.Path]
		if d := a.unsaid[p.Path]; d != nil {
			p.Calls += len(d.calls)
		}
		return nil
	case program.RetrieverCall:
		if err := o.Adapters.Prepare(p.Call); err != nil {
			return err
		}
	case program.ToolCall:
		if err := seen.unchanged(p.Name); err != nil {
			return err
		}
		if p.Input = p.Job.Args; p.Input == nil {
			if p.Input, err = value.Decode(p.Job.Arguments); err != nil {
				return err
			}
		}
		if err := o.Adapters.Prepare(p.Call); err != nil {
			return err
		}
		p.Attempts = a.tries[placeOf(p.Path, p.Job.Call)]
		if p.Job.Timeout > 0 {
			p.deadline, p.grace = now.Add(p.Job.Timeout), o.Limits.Grace
			p.late = fmt.Errorf("%s took longer than %v: %w", p.named(), p.Job.Timeout, context.DeadlineExceeded)
		}
	}
	o.resolve(p, site.Agents.Retries[p.Kind], o.Adapters.Retry(p.Call))
	return nil
}

// asksFirst reports whether the outcome of a call in an earlier generation must be asked for first. It returns true
// once for each such call.
func (a *agent) asksFirst(p *pending) bool {
	if len(a.unknown) == 0 || p.repeatable() {
		return false
	}
	key := unknownKey(p.Path, past.AboutCall(p.Name, p.Input))
	a.unknown[key]--
	return a.unknown[key] >= 0
}

// mayPause reports whether the call may become a pause: what is gathered for the agent is not waited for.
func (a *agent) mayPause(p *pending) bool {
	return p.Kind != program.MemoryCall && p.Kind != program.RetrieverCall
}

// entered makes a call of an agent once it has a slot.
func (a *agent) entered(r *Run, p *pending) {
	if p.overdue(r.now) {
		p.ended(r, p, outcome{late: true}, p.lateError())
		return
	}
	if pause, err := r.budget.reserve(p, r.clock.At(r.now)); err != nil {
		p.fail(r, pause, err)
		return
	}
	if p.Request != nil {
		r.drawn.draw(p)
	}
	p.make(r)
}

func (a *agent) tell(e *events, p *pending, ev trace.Event, content any, _ bool) {
	if ev.Kind != trace.AdapterCall && a.execution.Told(p.Job, ev) { // it tells of its calls itself
		e.show(ev, content)
	}
}

// fellBack has scripts count the calls of an agent, whatever its models.
func (*agent) fellBack(p *pending, model string) { p.Name = model }

// returned handles the result of a call of an agent.
func (a *agent) returned(r *Run, p *pending, res Result) {
	if res.Bad != nil {
		a.ended(r, p, outcome{}, res.Bad)
		return
	}
	var reply agents.Reply
	var err error
	if res.Reply != nil {
		reply = *res.Reply
	}
	switch p.Kind {
	case program.ModelCall:
		reply.Response = res.Response
	case program.ToolCall:
		if reply.Output = res.Text; res.Output != nil {
			reply.Output, err = value.JSON(res.Output)
		}
		reply.Files = res.Pictures
	}
	reply.Err = err
	a.reply(r, p, reply)
}

func (*agent) abandoned(string) outcome { return outcome{} }

// ended ends a call of an agent without a result: it failed, or waits.
func (a *agent) ended(r *Run, p *pending, end outcome, err error) {
	p.release(journal.Amount{}) // of a call that was not made, or panicked
	delete(a.tries, placeOf(p.Path, p.Job.Call))
	if end.pause != nil {
		place := placeOf(p.Path, p.Job.Call)
		if p.Attempts > 0 {
			a.tries[place] = p.Attempts
		}
		if p.Batched.InBatch() {
			a.batched[place] = p.Batched
		}
		err = resume.Suspend(*end.pause)
	} else {
		r.batches.leave(r, p.Batched.ID)
	}
	if p.late != nil && !end.late && !r.now.Before(p.deadline) && errors.Is(err, context.DeadlineExceeded) {
		err = p.late
	}
	if panicked, ok := errors.AsType[*PanicError](err); ok {
		err = &agents.PanicError{Text: panicked.Text}
	}
	switch cut := p.hasUnknownOutcome() && r.ending.cutOff(p); { // otherwise the agent finds out by the error
	case cut && a.call != nil && !r.ending.cancelled && a.call.onIndeterminate(r.o.Durable) != program.Ignore:
		a.call.lost = append(a.call.lost, *r.o.aboutCall(p, &r.before))
	case cut:
		r.Report(r.o.callUnknown(p.Path, p.Name, r.o.stopText(r.ending.why(p))))
	}
	a.reply(r, p, agents.Reply{Err: err})
}

// reply gives an agent the result of a call.
func (a *agent) reply(r *Run, p *pending, reply agents.Reply) {
	p.stage, reply.Took, reply.Attempts = over, p.took(r.now), p.tries
	p.leave(r)
	a.jobs = slices.DeleteFunc(a.jobs, func(q *pending) bool { return q == p })
	if len(p.use.Draws) > 0 || len(p.use.Tried) > 0 || p.use.Used != (journal.Amount{}) {
		d := a.unsaid[p.Path]
		if d == nil {
			d = &drawing{}
			a.unsaid[p.Path] = d
		}
		for _, used := range append(p.use.Tried, journal.Tried{Model: p.use.Model, Draws: p.use.Draws}) {
			for _, n := range used.Draws {
				d.calls = append(d.calls, journal.Drawn{Model: used.Model, N: n, Step: p.Path})
			}
		}
		d.used = d.used.Plus(p.use.Used)
	}
	a.came = append(a.came, replied{p.Job, reply})
	if a.call != nil {
		a.pump(r)
	}
}

// placeOf names the call that a pause belongs to, the same for all its pauses; number is 0 for the model.
func placeOf(path string, number int) string { return path + ":" + strconv.Itoa(number) }
