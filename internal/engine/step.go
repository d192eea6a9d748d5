package engine

import (
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// step is the [caller] of a call that the recipe has: its outcome is that of the task.
type step struct{}

func (step) mayPause(*pending) bool { return true }

func (step) entered(r *Run, p *pending) { p.make(r) }

func (step) tell(e *events, p *pending, ev trace.Event, content any, live bool) {
	if *e.keep(p.task) = ev; !live {
		e.show(ev, content)
	}
}

// fellBack has scripts count the calls of the other model from the start.
func (step) fellBack(p *pending, _ string) { p.Calls = 0 }

func (s step) returned(r *Run, p *pending, res Result) {
	switch {
	case res.Bad != nil:
		p.fail(r, nil, res.Bad)
	case p.Kind == program.ModelCall:
		s.modelAnswered(r, p, res.Response)
	default:
		s.succeeded(r, p, res.Output, res.Extent)
	}
}

func (s step) ended(r *Run, p *pending, end outcome, err error) {
	if end.pause == nil && end.failure == nil {
		end.failure = faultOf(p, err, r.o.Redact, r.program.Errors, r.ending.cut != nil)
	}
	s.finish(r, p, end)
}

func (step) abandoned(why string) outcome { return outcome{failure: notDone(why)} }

// succeeded ends a call with an output, unless the output is not valid.
func (s step) succeeded(r *Run, p *pending, output any, extent value.Extent) {
	site, want := p.site, p.site.Answer
	if site.Kind == program.ModelCall || site.Kind == program.AgentCall {
		want = nil // it was checked
	}
	if err := program.CheckOutput(output, want, site.MaxBytes, site.Pos); err != nil {
		p.fail(r, nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "output.invalid", Err: err})
		return
	}
	if fault, err := p.task.Broken(output); fault != "" || err != nil {
		s.finish(r, p, outcome{failure: machine.CheckFailure(fault, err)})
		return
	}
	s.finish(r, p, outcome{output: output, extent: extent})
}

// finish handles the end of the call of a step.
func (s step) finish(r *Run, p *pending, end outcome) {
	p.stage = over
	p.release(journal.Amount{}) // of a call that was not made, or panicked
	p.leave(r)
	t := p.task
	t.Driver = nil
	if end.pause != nil {
		s.suspend(r, p, end.pause)
		return
	}
	r.batches.leave(r, p.Batched.ID)
	if end.failure != nil && (end.unknown || p.hasUnknownOutcome()) {
		end.unknown = true
		if !r.ending.cancelled {
			follows := p.followsUnknown(r)
			if follows == program.Ask {
				return
			}
			end.unknown = follows == program.Ignore
		}
	}
	what := journal.CallEnded{Output: end.output, Extent: end.extent, Failure: end.failure, Models: p.use.Some(),
		Answer: journal.Answer{Finish: p.finish}, Unknown: end.unknown, Took: p.took(r.now), Attempts: p.tries}
	if end.unknown {
		what.Why = r.o.stopText(r.ending.why(p))
	}
	p.unuse()
	if end.failure != nil && end.failure.Category == string(runtime.CategoryCancelled) && r.ending.cancelled {
		r.applyEnded(t, p.Path, &what) // a call cancelled from outside is repeated when the run is recovered
		return
	}
	r.unsaved.urgent = r.unsaved.urgent || r.unsaved.durable && p.hasEffect()
	r.record(t, p.Path, what)
}

// suspend opens the pause that a call asked for.
func (step) suspend(r *Run, p *pending, pause *resume.Pause) {
	t := p.task
	p.unuse()
	if pause.Reason != journal.Indeterminate && !r.m.CanWait(t) { // it was told to stop meanwhile
		what := journal.CallEnded{Failure: notDone("cancelled before it ended"), Models: p.use.Some()}
		if r.ending.cancelled {
			r.applyEnded(t, p.Path, &what)
		} else {
			r.record(t, p.Path, what)
		}
		return
	}
	r.pause(t, journal.PauseOpened{Pause: *pause, Progress: p.Progress, Models: p.use})
}
