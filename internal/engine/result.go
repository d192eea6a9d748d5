package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Err is the error that a run ends with; nil: none.
func (v View) Err() error {
	if reason := v.ending.cancelledForGood(); reason != nil && (v.ending.fixed == nil || !v.ending.cancelled) {
		return cancelledForGood(*reason)
	}
	f := v.m.Result().Failure
	if f == nil {
		return nil
	}
	if v.ending.cause == ErrDrained && f.Category == string(runtime.CategoryCancelled) {
		return &runtime.Error{Category: runtime.CategoryCancelled, Code: "run.drained", Err: f.Err}
	}
	return &runtime.Error{Category: runtime.Category(f.Category), Code: f.Code, Step: f.Path, Err: f.Err}
}

// Trace returns what happened in this execution, in plan order.
func (r *Run) Trace() []trace.Event { return r.trace.inPlanOrder(r.m) }

// Ended returns the paths of the run's own steps that have ended.
func (v View) Ended() map[string]bool {
	ended := map[string]bool{}
	v.m.Walk(func(t *machine.Task) {
		if t.Owner() == nil && t.Whole() == t && t.Status() >= machine.Succeeded {
			ended[t.Path()] = true
		}
	}, func(*machine.Task) {})
	return ended
}

// Diagnostics returns the diagnostics of the run: first the failures that did not decide its error, then the rest in
// the order of the steps in its trace.
func (v View) Diagnostics(events []trace.Event) (list diagnostics.List) {
	if v.m.Result() != nil {
		for _, f := range v.m.Others() {
			message, hint, _ := strings.Cut(f.Err.Error(), "\n  hint: ")
			list = append(list, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
				Code: diagnostics.CodeStepFailed, Message: fmt.Sprintf("step %q failed too: %s", f.Path, message),
				Hint: hint, Step: f.Path})
		}
	}
	list = append(list, failedFinally(v.m)...)
	if len(v.found) == 0 {
		return list
	}
	place := map[string]int{}
	for i, e := range events {
		if _, ok := place[e.Step]; !ok {
			place[e.Step] = i
		}
	}
	found := slices.Clone(v.found)
	slices.SortStableFunc(found,
		func(a, b diagnostics.Diagnostic) int { return cmp.Compare(place[a.Step], place[b.Step]) })
	return append(list, found...)
}

// cancelledForGood is the error of a run that was cancelled for good.
func cancelledForGood(reason string) *runtime.Error {
	return &runtime.Error{Category: runtime.CategoryCancelled, Code: "run.cancelled",
		Err: fmt.Errorf("the run was cancelled for good: %w", cancelledBecause(cmp.Or(reason, "no reason was given")))}
}

// cancelledBecause is a context.Canceled with its own message.
type cancelledBecause string

func (c cancelledBecause) Error() string { return string(c) }

func (c cancelledBecause) Is(target error) bool { return target == context.Canceled }

// Standing is how far a run has come to its end.
type Standing struct {
	Waits         bool           // for an answer; it is not known before [View.Result] is
	Cancelled     bool           // it was told to stop
	ForGood       bool           // it was cancelled for good, and does not run its finally yet
	EndsCancelled bool           // it was cancelled for good, also if its finally runs or has run since
	Undoes        bool           // only rollbacks are left to do
	WasUndone     bool           // it paused and was rolled back, so that an answer restarts it
	Restarts      bool           // it is to be rolled back because of an answer, and then begins again
	Left          *runtime.Error // why rollbacks are left to a recovery; nil: none are
}

// Over reports whether the run has ended for good, once the execution is over, unless the run waits.
func (s Standing) Over() bool { return s.Left == nil && (!s.Cancelled || s.ForGood) }

// Standing returns how far the run has come to its end.
func (v View) Standing() Standing {
	s := Standing{Cancelled: v.ending.cancelled, ForGood: v.ending.forGood != nil,
		EndsCancelled: v.ending.cancelledForGood() != nil, Undoes: v.undo.atEnd, WasUndone: v.undo.wasUndone,
		Restarts: v.undo.restart != nil, Left: v.undo.left}
	if result := v.m.Result(); s.ForGood {
		s.Waits = len(v.waits.pauses) > 0
	} else {
		s.Waits = result != nil && result.Status == machine.Waiting
	}
	return s
}
