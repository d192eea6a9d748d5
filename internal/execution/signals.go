package execution

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/runtime"
)

// cancellation ends a run for good.
type cancellation struct {
	recovery
	reason string
	force  bool
	signal *checkpoint.Signal // that asks for it; nil: none
}

func (cancellation) possible(x *resumption, p *program.Program) error {
	return x.unchanged(p, "cancel it without the new one")
}

func (c cancellation) tell(x *resumption, r *local.Run) error {
	e := r.Engine
	stands := e.View().Standing()
	done := stands.ForGood && !(c.force && stands.Waits)
	if c.signal != nil {
		e.For(c.signal.By, c.signal.ID)
		defer e.For(x.by(), "")
		r.Carried(*c.signal)
		if done {
			e.TakeNow([]journal.Event{e.Dropped(*c.signal, "the run was cancelled before")})
		}
	}
	if !done {
		e.CancelForGood(c.reason, c.force)
	}
	return nil
}

// fresh are the open signals that the journal does not name.
func (x *resumption) fresh() []checkpoint.Signal {
	if len(x.signals) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(x.signals), func(s checkpoint.Signal) bool { return x.past.Signals[s.ID] })
}

// called reports whether a signal that the journal does not name asks for something to be done.
func (x *resumption) called() bool { return slices.ContainsFunc(x.fresh(), local.Wakes) }

// cancelSignal returns the act that a signal asks for, if one cancels the run: it comes before whatever else is to be
// done.
func (x *resumption) cancelSignal() (c cancellation, ok bool) {
	fresh := x.fresh()
	i := slices.IndexFunc(fresh, func(s checkpoint.Signal) bool { return s.Kind == checkpoint.SignalCancel })
	if i < 0 {
		return c, false
	}
	s := &fresh[i]
	return cancellation{reason: valid(local.Reason(*s)), force: local.Force(*s) || x.o.Force, signal: s}, true
}

// taken says who has the run executed, and by which signal that asks to resume it; "": by none.
func (x *resumption) taken() (by, id string) {
	for _, s := range x.fresh() {
		if s.Kind == checkpoint.SignalTake {
			return s.By, s.ID
		}
	}
	return x.by(), ""
}

// carry carries out a signal before the run goes on.
func (x *resumption) carry(r *local.Run, s checkpoint.Signal) error {
	if s.Kind == checkpoint.SignalTell && r.Tell(s) {
		return nil
	}
	err := x.record(r, nil, func() []journal.Event { return r.Engine.Carry(s) })
	if err == nil {
		r.Carried(s)
		failpoint.Reached(failpoint.SignalTaken)
	}
	return err
}

// mostPoison is how many executions in a row may record nothing.
const mostPoison = 3

// poisonous refuses a run, if the options say so, whose last executions recorded nothing: it may be what ends
// processes. Those that somebody asked for do not count, and neither does a run that has a new signal.
func (x *resumption) poisonous() error {
	if !x.o.Unattended || x.ended || len(x.fresh()) > 0 {
		return nil
	}
	if x.past.Idle(mostPoison) < mostPoison {
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: "run.poison",
		Err: fmt.Errorf("%d executions of run %q in a row recorded nothing: it may be what ends its process"+
			"\n  hint: find out why, then recover it by hand", mostPoison, x.runID)}
}

// signalled is a recovery of a run that has a signal which the execution before did not take.
type signalled struct{ recovery }

func (signalled) due(x *resumption) error {
	if x.ended || !x.called() {
		return errQuicker
	}
	return nil
}

// again executes a run again while signals come that its execution could not take.
func again(ctx context.Context, end *local.End, rt *runtime.Runtime, o Options) *local.End {
	if !end.Signalled || ctx.Err() != nil {
		return end
	}
	next := newResumption(ctx, end.RunID, "recover", rt, o).resume(signalled{})
	if errors.Is(next.Err, errQuicker) || errors.Is(next.Err, checkpoint.ErrBusy) {
		return end // somebody else has the run, or had it
	}
	return next
}
