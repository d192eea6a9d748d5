package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// leg is a run that is gone on with.
type leg struct {
	ctx     context.Context
	rt      *runtime.Runtime
	opts    *ResumeOptions
	runID   string
	recover bool
	fork    bool
	cancel  *string                        // why the run is to end for good; nil: it is not
	sent    *sent                          // what somebody puts into a channel; nil: nothing
	still   func(*checkpoint.Summary) bool // whether to go on with the run, once it is claimed; nil: it is

	store   checkpoint.Store
	summary checkpoint.Summary
	past    []journal.Event // of the journal, its first record included
	lease   checkpoint.Lease
	claimed time.Time      // when the store was asked for it
	ended   bool           // the run is over, nothing is held
	from    int            // where in recs the present definition begins to count
	old     *recipe.Recipe // what the run ran until now, if that is about to change
}

// by is who makes the leg.
func (l *leg) by() string { return strings.ToValidUTF8(cmp.Or(l.opts.By, l.rt.By), "\uFFFD") }

// refuse is the outcome of a leg that cannot begin.
func (l *leg) refuse(err error) (*Outcome, error) {
	var e *runtime.Error
	if !errors.As(err, &e) {
		e = local.StoreError(err).(*runtime.Error)
	}
	out := &Outcome{Status: StatusError, RunID: l.runID, Recipe: l.summary.Recipe, Err: e}
	if l.ctx.Err() != nil && errors.Is(err, l.ctx.Err()) { // not the store's fault
		e = &runtime.Error{Category: runtime.CategoryCancelled, Code: "run.cancelled",
			Err: engine.CancelCause(context.Cause(l.ctx))}
		out.Status, out.Err = StatusCancelled, e
	}
	if e.Code == "resume.invalidToken" {
		out.Diagnostics = append(out.Diagnostics, invalidToken())
		local.Report(l.rt, l.runID, out.Diagnostics)
	}
	if l.still == nil || !errors.Is(err, errQuicker) {
		out.Trace = l.refusal(e)
	}
	return out, out.Err
}

// refusal is the trace of a leg that cannot begin, which sinks are shown too.
func (l *leg) refusal(e *runtime.Error) []trace.Event {
	var about trace.Data
	add := func(key string, v any, known bool) {
		if known {
			about = append(about, trace.Attr{Key: key, Value: v})
		}
	}
	add("digest", l.summary.Digest, l.summary.Digest != "")
	add("recipe", l.summary.Recipe, l.summary.Recipe != "")
	add("recover", true, l.recover)
	add("resume", true, !l.recover && !l.fork)
	end := trace.Event{Kind: trace.RunError, Data: trace.Data{{Key: "code", Value: e.Code},
		{Key: "message", Value: e.Err.Error()}}}
	status := StatusError
	if e.Category == runtime.CategoryCancelled {
		status = StatusCancelled
		end = trace.Event{Kind: trace.RunCancelled, Data: trace.Data{{Key: "reason", Value: e.Err.Error()}}}
	}
	end.Seq, end.At = 2, time.Now().UTC()
	events := []trace.Event{{Seq: 1, At: end.At, Kind: trace.RunStart, Data: about}, end,
		{Seq: 3, At: end.At, Kind: trace.RunEnd, Data: trace.Data{{Key: "status", Value: string(status)}}}}
	if l.rt == nil || e.Code == "runtime.invalid" {
		return events
	}
	sinks := trace.NewFanout(l.rt.Equipped().Trace, l.runID)
	for _, ev := range events {
		ev.Seq = 0 // sinks number what they get
		sinks.Emit(ev, nil)
	}
	sinks.Close(local.SinkTime)
	return events
}

// apart makes a leg on a goroutine of its own, so that a store that panics or ends its goroutine comes to an outcome.
func (l *leg) apart(f func() (*Outcome, error)) (out *Outcome, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				out, err = l.refuse(fmt.Errorf("panic in the store: %v", p))
			}
		}()
		out, err = f()
	}()
	if <-done; out == nil {
		return l.refuse(errors.New("the store ended its goroutine"))
	}
	return out, err
}

// open finds the store that has the run.
func (l *leg) open() (err error) {
	if l.rt == nil {
		l.rt = &runtime.Runtime{}
	}
	if l.opts == nil {
		l.opts = &ResumeOptions{}
	}
	if err := l.rt.Validate(); err != nil {
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "runtime.invalid", Err: err}
	}
	switch {
	case l.store != nil: // it was opened before
	case l.rt.Store != nil:
		l.store = l.rt.Store
	case l.rt.Cache != nil:
		l.store, err = local.FromCache(l.ctx, l.rt.Cache, l.runID)
	default:
		l.store = &local.Memory
	}
	return err
}

func (l *leg) find(req resume.Request, hash []byte) (checkpoint.PauseInfo, error) {
	if hash != nil {
		return l.store.FindPause(l.ctx, l.runID, hash)
	}
	sum, recs, err := l.store.Load(l.ctx, l.runID, 0)
	if err != nil {
		return checkpoint.PauseInfo{}, err
	}
	for _, p := range sum.Pauses {
		if p.ID == req.Pause.ID && p.Seq >= 1 && p.Seq <= int64(len(recs)) {
			return checkpoint.PauseInfo{Summary: sum, Pause: p, Opened: recs[p.Seq-1]}, nil
		}
	}
	var open []string
	for _, p := range sum.Pauses {
		open = append(open, p.ID)
	}
	return checkpoint.PauseInfo{}, &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.invalidToken",
		Err: fmt.Errorf("run %q has no open pause %q\n  hint: open are %q", l.runID, req.Pause.ID, open)}
}

// given is an answer that is about to be recorded.
type given struct {
	pause  string
	about  *resume.Pause
	hash   []byte // nil: the host answers by name
	answer any
}

// claim takes the run, unless it has ended, and loads it.
func (l *leg) claim() error {
	sum, _, err := l.store.Load(l.ctx, l.runID, math.MaxInt64)
	if err != nil {
		return err
	}
	if l.ended = sum.Status.Ended(); !l.ended {
		local.Reached(local.BeforeClaim)
		l.claimed = time.Now()
		if l.lease, err = l.store.Claim(l.ctx, l.runID, local.Owner(), local.LeaseTime); err != nil {
			return err
		}
		local.Reached(local.AfterClaim)
	}
	if err = l.load(); err != nil {
		l.release()
	}
	return err
}

// load reads the journal.
func (l *leg) load() error {
	var recs []checkpoint.Record
	var err error
	if l.summary, recs, err = l.store.Load(l.ctx, l.runID, 0); err == nil {
		l.past, err = local.Decode(recs)
	}
	return err
}

// release gives back a run that cannot be gone on with.
func (l *leg) release() {
	if !l.ended {
		_ = l.store.Release(context.WithoutCancel(l.ctx), l.lease) // it runs out by itself
	}
}

// append writes records behind the first so many, and consumes the token of the answer among them; g may be nil.
func (l *leg) append(after int64, g *given, recs []checkpoint.Record) error {
	ctx := context.WithoutCancel(l.ctx)
	if g != nil && g.hash != nil {
		return l.store.AnswerPause(ctx, l.lease, after, g.hash, recs...)
	}
	return l.store.Append(ctx, l.lease, after, recs...)
}

// takeFromCache consumes the cache's entry of a run; of many exactly one does.
func (l *leg) takeFromCache() error {
	if l.rt.Store != nil || l.rt.Cache == nil {
		return nil
	}
	was, err := l.rt.Cache.Delete(context.WithoutCancel(l.ctx), local.CacheKey(l.runID))
	switch {
	case err != nil:
		return fmt.Errorf("cache: %w", err)
	case !was:
		return fmt.Errorf("run %q: %w", l.runID, checkpoint.ErrToken)
	}
	return nil
}

// invalidToken is the finding about a token that is worth nothing.
func invalidToken() diagnostics.Diagnostic {
	return diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindResume,
		Code:    diagnostics.CodeInvalidToken,
		Message: "the token is unknown, used or expired"}
}
