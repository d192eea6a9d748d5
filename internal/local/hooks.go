package local

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// told collects the diagnostics about hooks.
type told struct {
	mu   sync.Mutex
	list diagnostics.List
}

func (f *told) add(d diagnostics.Diagnostic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, d)
}

// tell calls the hooks for a moment of the run or of a step, if there are any.
func (r *Run) tell(m runtime.Moment) {
	if r.Caller.Hooked() {
		_ = r.tellHooks(m)
	}
}

// tellHooks calls the hooks for a moment of the run or of a step; the error is that of one which denies the step. Once
// the run's context has ended, a hook that does not return delays the run by at most the grace period.
func (r *Run) tellHooks(m runtime.Moment) error {
	m.Run = r.ID
	ctx, ended := r.ctx, r.ctx.Done()
	if m.Point == runtime.RunFinish {
		ctx = context.WithoutCancel(ctx)
		late := make(chan struct{})
		timer := time.AfterFunc(r.limits.Grace, func() { close(late) })
		defer timer.Stop()
		ended = late
	}
	found, by := &told{}, r.Engine.View().By()
	defer func() {
		found.mu.Lock()
		defer found.mu.Unlock()
		r.Engine.Report(found.list...)
	}()
	done := make(chan error, 1)
	go func() {
		err := fmt.Errorf("a hook %q ended its goroutine", m.Point)
		returned := false
		defer func() {
			if !returned && m.Point != runtime.StepBefore { // that denies
				found.add(diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindPlugin,
					Code: diagnostics.CodeHookFailed, Step: m.Step, Message: err.Error()})
			}
			done <- err
		}()
		ctx := &trace.NoEmitter{Context: ctx,
			Why: fmt.Sprintf("the hook %q has no call to emit it with; those of models and tools have", m.Point)}
		own := &resume.CallContext{Context: ctx, RunID: r.ID, Path: m.Step, By: by}
		err = r.Caller.Redact.Error(r.Caller.Offers.Fire(own, m, found.add))
		returned = true
	}()
	select {
	case err := <-done:
		return err
	case <-ended:
	}
	timer := time.NewTimer(r.limits.Grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		r.warn("a hook ignored its context and was left behind", slog.String("point", string(m.Point)))
		return nil
	}
}

// announce tells OnPause that a pause was opened.
func (r *Run) announce(p *engine.Pause) {
	failpoint.Reached(failpoint.PauseNoted)
	if r.rt.OnPause == nil || r.rt.Store == nil {
		return
	}
	shown := p.Pause
	shown.Token = r.mint(p)
	r.flush()
	if r.Store.Err() == nil {
		go func() {
			defer func() {
				if v := recover(); v != nil {
					r.warn(fmt.Sprintf("OnPause panicked: %v", v))
				}
			}()
			r.rt.OnPause(shown)
		}()
	}
}

// mint makes a token of a pause.
func (r *Run) mint(p *engine.Pause) string {
	token, hash := resume.Mint(r.ID)
	p.Minted = true
	r.Engine.Note(p.Step, journal.TokenMinted{Pause: p.ID, Hash: hash, ExpiresAt: p.ExpiresAt})
	failpoint.Reached(failpoint.TokenMinted)
	return token
}

// warn reports to the host's operator. What the reporter does has no effect on the run. warn returns false if the
// reporter takes longer than SinkTime; it is then abandoned.
func (r *Run) warn(text string, attrs ...slog.Attr) bool {
	reporter := cmp.Or[runtime.Reporter](r.rt.Reporter, slogReporter{})
	done := make(chan struct{})
	go func() { // it may panic, or end its goroutine
		defer close(done)
		defer func() { _ = recover() }()
		reporter.Warn(text, append([]slog.Attr{slog.String("run", r.ID)}, attrs...)...)
	}()
	late := time.NewTimer(SinkTime)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}

// report warns of the diagnostics that were not reported yet. Without a reporter they are only in the outcome.
func (r *Run) report(found diagnostics.List) {
	for _, d := range found {
		if r.rt.Reporter == nil || d.Code == diagnostics.CodeRollbackFailed {
			continue
		}
		attrs := []slog.Attr{slog.String("code", string(d.Code))}
		if !d.Position.IsZero() {
			attrs = append(attrs, slog.String("position", d.Position.String()))
		}
		if d.Step != "" {
			attrs = append(attrs, slog.String("step", d.Step))
		}
		if !r.warn(d.Message, attrs...) {
			return // it would delay the run again
		}
	}
}

// warnOf is warn about a step.
func (r *Run) warnOf(text, path string) { r.warn(text, slog.String("step", path)) }

func (r *Run) warnRollback(text, path string) {
	r.warn("a rollback failed", slog.String("step", path), slog.String("error", text))
}

type slogReporter struct{}

func (slogReporter) Warn(msg string, attrs ...slog.Attr) {
	slog.Default().LogAttrs(context.Background(), slog.LevelWarn, msg, attrs...)
}
