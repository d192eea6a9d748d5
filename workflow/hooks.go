package workflow

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// found gathers findings of a run that is under way.
type found struct {
	mu   sync.Mutex
	list diagnostics.List
}

func (f *found) add(d diagnostics.Diagnostic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, d)
}

// inPlanOrder returns the findings in the order of the steps that they are about: those of the run
// itself first.
func (f *found) inPlanOrder(events []trace.Event) diagnostics.List {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) == 0 {
		return nil
	}
	place := map[string]int{}
	for i, e := range events {
		if _, ok := place[e.Step]; !ok {
			place[e.Step] = i
		}
	}
	list := slices.Clone(f.list)
	slices.SortStableFunc(list,
		func(a, b diagnostics.Diagnostic) int { return cmp.Compare(place[a.Step], place[b.Step]) })
	return list
}

// hooked reports whether plugins have hooks.
func (r *run) hooked() bool { return len(r.prepared.offers.Plugins) > 0 }

// tell calls the hooks of a moment of the run or of a step, if there are any.
func (r *run) tell(m runtime.Moment) {
	if r.hooked() {
		r.tellHooks(m)
	}
}

// tellHooks is tell. A hook that does not return holds the run no longer than the grace period once
// the run's context has ended.
func (r *run) tellHooks(m runtime.Moment) {
	m.Run = r.id
	ctx, ended := r.ctx, r.ctx.Done()
	if m.Point == runtime.RunFinish {
		ctx = context.WithoutCancel(ctx)
		late := make(chan struct{})
		timer := time.AfterFunc(r.limits.Grace, func() { close(late) })
		defer timer.Stop()
		ended = late
	}
	done := make(chan struct{})
	go func() {
		returned := false
		defer func() {
			if !returned {
				r.found.add(diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindPlugin,
					Code: diagnostics.CodeHookFailed,
					Step: m.Step, Message: fmt.Sprintf("a hook %q ended its goroutine", m.Point)})
			}
			close(done)
		}()
		_ = r.prepared.offers.Fire(ctx, m, r.found.add) // these moments deny nothing
		returned = true
	}()
	select {
	case <-done:
		return
	case <-ended:
	}
	timer := time.NewTimer(r.limits.Grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		r.warn("a hook ignored its context and was left behind", slog.String("point", string(m.Point)))
	}
}

// tellEnd tells the hooks that a step has ended.
func (r *run) tellEnd(t *machine.Task) {
	if !r.hooked() {
		return
	}
	m := runtime.Moment{Point: runtime.StepAfter, Step: r.events.path(t),
		Output: t.Output(), Status: t.Status().String()}
	if f := t.Failure(); f != nil {
		m.Err = f.Err
	}
	r.tell(m)
}

// ask calls the hooks before a call; an error denies it.
func (in *invocation) ask(m runtime.Moment) error {
	if !in.run.hooked() {
		return nil
	}
	if err := in.fire(m); err != nil {
		return &runtime.Error{Category: runtime.CategoryConfirmation, Code: "hook.denied", Err: err}
	}
	return nil
}

// fire calls the hooks of a moment of a call, on the goroutine of the call.
func (in *invocation) fire(m runtime.Moment) error {
	m.Run, m.Step = in.run.id, in.path
	return in.run.prepared.offers.Fire(in.ctx, m, in.run.found.add)
}
