package execution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Options are workflow.ResumeOptions in lowered form.
type Options struct {
	Program       *program.Program // nil: the one in the store
	Programs      *program.Cache   // of those in the store; nil: none is kept
	AcceptChanged bool
	Complete      bool
	Force         bool
	Unattended    bool
	Refused       error
	By            string
	Groups        []string
	Vouched       bool          // somebody else has checked who answers
	Wait          time.Duration // for a signal to be taken
}

// resumption is a run that is resumed.
type resumption struct {
	ctx   context.Context
	rt    *runtime.Runtime
	o     Options
	runID string
	how   string // resume or recover, for the trace; "": neither

	ledger  *ledger.Ledger // nil: the run was not looked for
	summary checkpoint.Summary
	read    []checkpoint.Record // that a look at the run, before it was claimed, has read
	past    *past.Past          // nil: it has not been read
	ended   bool                // the run is over, nothing is held
	old     *recipe.Recipe      // the recipe of the run until now, if it is about to change
	signals []checkpoint.Signal // open when the run was claimed
}

// act is an act on a run that is resumed. If a method fails, the run stays as it is.
type act interface {
	due(*resumption) error                        // may refuse the act once the run is claimed
	possible(*resumption, *program.Program) error // may refuse it once the program is known
	fits(*local.Run) error                        // may refuse it once the secrets are known
	tell(*resumption, *local.Run) error           // performs it: tells the engine and the store
}

// recovery only resumes a run.
type recovery struct{}

func (recovery) due(*resumption) error                        { return nil }
func (recovery) possible(*resumption, *program.Program) error { return nil }
func (recovery) fits(*local.Run) error                        { return nil }
func (recovery) tell(*resumption, *local.Run) error           { return nil }

// Recover resumes a run as it is, unless it has ended.
func Recover(ctx context.Context, runID string, rt *runtime.Runtime, o Options) *local.End {
	return newResumption(ctx, runID, "recover", rt, o).resume(recovery{})
}

// Cancel ends a run for good.
func Cancel(ctx context.Context, runID, reason string, rt *runtime.Runtime, o Options) *local.End {
	return newResumption(ctx, runID, "recover", rt, o).resume(cancellation{reason: valid(reason), force: o.Force})
}

func newResumption(ctx context.Context, runID, how string, rt *runtime.Runtime, o Options) *resumption {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	return &resumption{ctx: ctx, rt: rt, o: o, runID: runID, how: how}
}

// by is who resumes the run.
func (x *resumption) by() string { return valid(cmp.Or(x.o.By, x.rt.By)) }

// opened finds the store that has the run, and executes the run by f. An error refuses the execution. If the store
// panics or ends its goroutine, the execution ends as well.
func (x *resumption) opened(f func() (*local.End, error)) *local.End {
	end, err := guard.Port(context.WithoutCancel(x.ctx), runtime.CategoryInfra, "store.failed", "the store",
		func() (*local.End, error) {
			if err := x.open(); err != nil {
				return nil, err
			}
			return f()
		})
	if err != nil {
		return x.refuse(err)
	}
	return again(x.ctx, end, x.rt, x.o)
}

// refusals are what the diagnostics beside errors say, by their code. The error has the particulars.
var refusals = map[string]string{
	string(diagnostics.CodeInvalidToken):  "the token is unknown, used or expired",
	string(diagnostics.CodeNoResume):      "there is no resume adapter to take the answer",
	string(diagnostics.CodeResumeRefused): "the resume adapter did not take the answer",
	string(diagnostics.CodeChanged):       "the run began with another definition of its recipe",
}

// refuse returns the End of an execution that cannot begin.
func (x *resumption) refuse(err error) *local.End {
	unknown := errors.Is(err, checkpoint.ErrToken) || errors.Is(err, checkpoint.ErrNotFound)
	if unknown && x.ledger != nil && x.ledger.Store == &ledger.Memory {
		err = fmt.Errorf("%w\n  hint: no store is configured, so only the runs of this process are known", err)
	}
	e := ledger.Error(err)
	if x.ctx.Err() != nil && errors.Is(err, x.ctx.Err()) { // not a failure of the store
		e = local.Cancelled(x.ctx)
	}
	end := &local.End{End: engine.End{RunID: x.runID, Recipe: x.summary.Recipe, Err: e}}
	if errors.Is(err, errQuicker) {
		return end
	}
	if text := refusals[e.(*runtime.Error).Code]; text != "" {
		end.Diagnostics = diagnostics.List{{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindResume,
			Code: diagnostics.Code(e.(*runtime.Error).Code), Message: text}}
	}
	var about trace.Data
	if x.summary.Digest != "" {
		about = append(about, trace.Attr{Key: "digest", Value: x.summary.Digest})
	}
	if x.summary.Recipe != "" {
		about = append(about, trace.Attr{Key: "recipe", Value: x.summary.Recipe})
	}
	if x.how != "" {
		about = append(about, trace.Attr{Key: x.how, Value: true})
	}
	return local.Refuse(x.ctx, x.rt, about, end)
}

// open finds the store that has the run.
func (x *resumption) open() (err error) {
	if err := call.Validate(x.ctx, x.rt); err != nil {
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "runtime.invalid", Err: err}
	}
	x.ledger, err = ledger.Open(x.ctx, x.rt, x.runID)
	return err
}

// resume opens the store, and executes the run.
func (x *resumption) resume(a act) *local.End {
	return x.opened(func() (*local.End, error) { return x.execute(a) })
}

// execute claims the run, performs the act, and drives the run.
func (x *resumption) execute(a act) (*local.End, error) {
	if err := x.refusedStill(a); err != nil {
		return nil, err
	}
	if err := x.claim(); err != nil {
		return nil, err
	}
	if c, ok := x.cancelSignal(); ok {
		a = c
	}
	p, err := x.allow(a)
	if err != nil {
		x.release()
		return nil, err
	}
	s := specOf(p, x.rt, x.by())
	s.About = slices.Insert(slices.Clone(s.About), 2, trace.Attr{Key: x.how, Value: true}) // after digest and recipe
	if span := x.past.Traceparent; span != "" {
		i := slices.IndexFunc(s.About, func(a trace.Attr) bool { return a.Key > "traceparent" })
		if i < 0 {
			i = len(s.About)
		}
		s.About = slices.Insert(s.About, i, trace.Attr{Key: "traceparent", Value: span})
	}
	return local.Drive(x.ctx, s, func(r *local.Run) error { return x.begin(s, r, a) }), nil
}

// claim takes the run, unless it has ended, and loads it. Who resumes unattended, or has found a pending pause, has
// just seen that it has not.
func (x *resumption) claim() error {
	if seen := x.summary.Seq > 0 && !x.summary.Status.Ended(); !seen && !x.o.Unattended {
		sum, _, err := x.ledger.Load(x.ctx, math.MaxInt64)
		if err != nil {
			return err
		}
		x.ended = sum.Status.Ended()
	}
	var err error
	if !x.ended {
		if err = x.ledger.Claim(x.ctx); err != nil {
			return err
		}
	}
	err = x.load()
	switch {
	case err != nil || x.ended:
	case x.summary.Status.Ended() && x.o.Unattended:
		err = Over(x.summary)
	case x.summary.Status.Ended(): // since it was looked at
		x.release()
		x.ended = true
	case x.rt.Store != nil:
		x.signals, err = local.Signals(x.ctx, x.ledger.Store, x.runID)
	}
	if err != nil {
		x.release()
	}
	return err
}

// load reads the journal, as far as it has not been read.
func (x *resumption) load() error {
	var recs []checkpoint.Record
	var err error
	if x.summary, recs, err = x.ledger.Load(x.ctx, int64(len(x.read))); err == nil {
		var events []journal.Event
		if events, err = ledger.Decode(append(x.read, recs...)); err == nil {
			x.past, err = past.Read(x.runID, events)
		}
		x.ledger.Run, x.ledger.Seq = x.summary.Run, int64(len(events))
		x.read = nil
	}
	return err
}

// allow returns the program of the run, if the act is possible.
func (x *resumption) allow(a act) (*program.Program, error) {
	if err := a.due(x); err != nil {
		return nil, err
	}
	if err := x.poisonous(); err != nil {
		return nil, err
	}
	p, err := x.program()
	if err != nil {
		return nil, err
	}
	return p, a.possible(x, p)
}

// release gives back a run that cannot be resumed.
func (x *resumption) release() {
	_ = x.ledger.Release(x.ctx) // else the lease expires by itself
}

// begin brings the run to where its execution begins.
func (x *resumption) begin(s *local.Spec, r *local.Run, a act) error {
	r.Store.Ledger, r.Over, r.Ended = x.ledger, x.ended, x.summary.EndedAt
	inputs, err := x.openAgain(s, r)
	if err != nil {
		return err
	}
	r.Start()
	return ledger.Error(x.ready(s.Program, r, inputs, a))
}

// openAgain is open for a run that is resumed: its inputs are in the journal.
func (x *resumption) openAgain(s *local.Spec, r *local.Run) (map[string]any, error) {
	r.Name(x.runID)
	err := r.Bind()
	if err == nil && !x.ended {
		err = cmp.Or(r.Caller.Unpriced(), limitDay(r, x.summary.Labels))
	}
	if err != nil {
		return nil, err
	}
	inputs := x.past.Begun.Inputs
	s.Interrupt = x.past.Begun.Interrupt
	if x.old != nil || x.past.Definition.From > 0 { // the definition may have other inputs
		if inputs, err = s.Program.Inputs.Check(inputs); err != nil {
			return nil, program.ConfigError(diagnostics.CodeInput, "the run's inputs: %w", err)
		}
	}
	return inputs, r.Strict()
}

// ready replays the journal of a run to its end, and performs the act.
func (x *resumption) ready(p *program.Program, r *local.Run, inputs map[string]any, a act) error {
	if err := a.fits(r); err != nil {
		return err
	}
	if x.old != nil {
		given, _ := a.(*answer)
		return x.redefine(p, r, inputs, given)
	}
	e := r.Engine
	c, cancels := a.(cancellation)
	e.For(x.taken())
	err := e.Resume(inputs, x.past, x.ended, cancels)
	if err != nil || x.ended {
		e.TellReplayed()
		return err
	}
	e.For(x.by(), "")
	failpoint.Reached(failpoint.Replayed)
	fresh := r.Signalled(x.signals, x.past)
	if !cancels {
		if err = x.lacks(r); err == nil {
			err = x.restart(r)
		}
		for i := 0; i < len(fresh) && err == nil; i++ {
			err = x.carry(r, fresh[i])
		}
	}
	if err == nil {
		err = a.tell(x, r)
	}
	if err == nil && !cancels {
		err = x.restart(r)
	}
	if err != nil {
		return err
	}
	e.TellReplayed()
	if err = x.goLive(r); err == nil && c.signal != nil {
		failpoint.Reached(failpoint.SignalTaken)
	}
	return err
}

// goLive holds the run, and records that its execution has begun, unless that is in the journal already.
func (x *resumption) goLive(r *local.Run) error {
	r.Hold()
	err := r.Flush()
	failpoint.Reached(failpoint.ExecutionBegun)
	return err
}

// undo finishes the rollback of a run.
func (x *resumption) undo(r *local.Run) error {
	if err := x.goLive(r); err != nil {
		return err
	}
	return r.Undo()
}

// record writes events from outside, in one write that consumes the token with the hash, and applies them. If the run
// stopped while it was being rolled back for a pause, record finishes the rollback first.
func (x *resumption) record(r *local.Run, hash []byte, what func() []journal.Event) error {
	if r.Engine.View().Standing().Undoes {
		if err := x.undo(r); err != nil {
			return err
		}
	}
	events := what()
	if err := x.write(r, hash, events...); err != nil {
		return err
	}
	if !r.Engine.View().Standing().WasUndone {
		r.Engine.TellReplayed()
	}
	r.Engine.Take(events)
	return nil
}

// write writes what is not in the store yet, then events, and consumes the token with the hash; nil: there is none.
func (x *resumption) write(r *local.Run, hash []byte, events ...journal.Event) error {
	if err := x.ledger.Answer(x.ctx, hash, slices.Concat(r.Engine.Unsaved(), events)); err != nil {
		return err
	}
	r.Engine.Saved()
	return nil
}
