package local

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/procgroup"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// end closes the journal of this execution, and returns its End.
func (r *Run) end() *End {
	e, j := r.Engine, &r.Store
	if r.Over {
		return r.ending(e.Err())
	}
	e.Tick(r.now())
	r.noteSpan()
	r.traced = true // nothing follows the end
	var err error
	if j.err == nil {
		err = e.Err()
	}
	left := e.Left()
	switch {
	case j.err != nil:
	case left != nil: // it can be recovered, also if it was cancelled
		if err != nil {
			e.Report(stoppedBy(err))
		}
		err = left
	case e.Waits():
		return r.endPaused()
	case !e.Cancelled() || e.ForGood():
		Reached(BeforeEnd)
		r.noteEnd(err)
	default:
		e.Note("", journal.Stopped{})
	}
	r.flush()
	if j.err != nil {
		err = StoreError(j.err)
	}
	Reached(AfterEnd)
	r.LetGo()
	if r.rt.Store == nil && j.Store != nil && j.err == nil && !e.Cancelled() && left == nil {
		_ = Memory.Delete(context.WithoutCancel(r.ctx), r.ID) // it is not needed any more
	}
	return r.ending(err)
}

// stoppedBy is the diagnostic about the error that a run would have had if its rollback had finished.
func stoppedBy(err error) diagnostics.Diagnostic {
	d := diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
		Code: diagnostics.CodeStepFailed, Message: err.Error()}
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		d.Step, d.Message = e.Step, e.Err.Error()
	}
	return d
}

// noteEnd notes that the run is over for good.
func (r *Run) noteEnd(err error) {
	if r.Store.Store == nil {
		return
	}
	status := checkpoint.OK
	if r.Engine.ForGood() {
		status = checkpoint.Cancelled
	} else if err != nil {
		status = checkpoint.Failed
	}
	r.Engine.Note("", journal.Ended{Status: status})
}

// endPaused ends the execution of a paused run: each pending pause gets a fresh token.
func (r *Run) endPaused() *End {
	j := &r.Store
	if j.Store == nil {
		if j.Store = &Memory; r.rt.Cache != nil {
			j.Store = &checkpoint.Memory{}
		}
		j.Run.Definition, j.err = r.spec.Program.Definition()
	}
	var pauses []resume.Pause
	for _, p := range r.Engine.Pauses() {
		shown := p.Pause
		shown.Token = r.mint(p)
		if c := shown.Call; c != nil {
			living := *c
			living.PIDs, _ = procgroup.Living(c.Key)
			shown.Call = &living
		}
		pauses = append(pauses, shown)
	}
	Reached(BeforeEnd)
	r.Engine.Note("", journal.Paused{})
	r.flush()
	Reached(AfterEnd)
	r.LetGo()
	if j.err == nil && r.rt.Store == nil {
		j.err = r.keep(keepFor(r.now(), pauses))
	}
	end := r.newEnd(StoreError(j.err))
	if j.err == nil {
		end.Pauses = pauses
	}
	return r.finish(end)
}

// ending returns the End of a run that was driven, or had ended before.
func (r *Run) ending(err error) *End { return r.finish(r.newEnd(err)) }

func (r *Run) newEnd(err error) *End {
	e := r.Engine
	end := &End{RunID: r.ID, Recipe: r.spec.Program.Recipe.Name, Err: err, Trace: e.Trace(), Artefact: e.Artefact(),
		Diagnostics: r.Caller.Diagnostics}
	if result := e.Result(); err == nil && result != nil {
		end.Output = result.Output
	}
	return end
}

// finish tells hooks and sinks how the run ended.
func (r *Run) finish(end *End) *End {
	r.show()
	if !r.Over {
		r.tell(runtime.Moment{Point: runtime.RunFinish, Output: end.Output, Status: end.Status(), Err: end.Err})
	}
	end.Diagnostics = append(end.Diagnostics, r.Engine.Findings(end.Trace)...)
	return r.close(end)
}

// Status is how the execution ended, as the trace names it: ok, paused, error or cancelled.
func (end *End) Status() string {
	e, _ := errors.AsType[*runtime.Error](end.Err)
	switch {
	case end.Pauses != nil:
		return "paused"
	case end.Err == nil:
		return "ok"
	case e != nil && e.Category == runtime.CategoryCancelled:
		return "cancelled"
	}
	return "error"
}

// close adds the last events, and waits for the sinks.
func (r *Run) close(end *End) *End {
	if r.Engine != nil {
		end.Used, end.Calls = r.Engine.Used()
	}
	end.StartedAt, end.EndedAt = cmp.Or(r.Store.Run.StartedAt, r.began), cmp.Or(r.Ended, r.now())
	r.addLastEvents(end)
	r.report(end.Diagnostics)
	for i := range end.Trace {
		end.Trace[i].Seq = int64(i + 1)
	}
	for _, f := range r.sinks.Close(SinkTime) {
		text := fmt.Sprintf("trace sink %d failed: %v", f.Index, f.Err)
		end.Diagnostics = append(end.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.Warn,
			Kind: diagnostics.KindAdapter,
			Code: diagnostics.CodeSinkFailed, Message: text})
		r.warn(text)
	}
	return end
}

// addLastEvents adds the events that say how the run ended.
func (r *Run) addLastEvents(end *End) {
	at := r.now()
	add := func(kind trace.Kind, attrs ...trace.Attr) {
		end.Trace = append(end.Trace, r.runEvent(at, kind, attrs...))
	}
	e, _ := errors.AsType[*runtime.Error](end.Err)
	status := end.Status()
	switch {
	case status == "paused":
		for _, p := range end.Pauses {
			add(trace.RunPaused, trace.Attr{Key: "pauseKind", Value: string(p.Kind)},
				trace.Attr{Key: "step", Value: p.Step})
		}
		add(trace.RunOutput, trace.Attr{Key: "type", Value: "artefact"})
	case e == nil:
		add(trace.RunSuccess)
	case status == "cancelled":
		add(trace.RunCancelled, trace.Attr{Key: "reason", Value: e.Err.Error()})
	default:
		attrs := []trace.Attr{{Key: "code", Value: e.Code}, {Key: "message", Value: e.Err.Error()}}
		if e.Step != "" {
			attrs = append(attrs, trace.Attr{Key: "step", Value: e.Step})
		}
		add(trace.RunError, attrs...)
	}
	if status == "ok" {
		add(trace.RunEnd, endsWell...)
		return
	}
	add(trace.RunEnd, trace.Attr{Key: "status", Value: status})
}

// endsWell is the payload of run.end for a run that is ok. Runs share it.
var endsWell = trace.Data{{Key: "status", Value: "ok"}}

// A run without a store that pauses is kept in the runtime's cache, if there is one: its definition and its journal,
// a line each. Answering a pause consumes the entry, so exactly one of many answers succeeds. The next pause adds it
// again.

// CacheKey is the key of a run's entry.
func CacheKey(runID string) string { return "braise.run." + runID }

// pauseTime is how long a run without a store is kept for a pause that does not expire.
const pauseTime = 24 * time.Hour

// keepFor is how long a run without a store is kept: until the last of its pauses has expired.
func keepFor(now time.Time, pauses []resume.Pause) (most time.Duration) {
	for _, p := range pauses {
		if p.ExpiresAt.IsZero() {
			most = max(most, pauseTime)
		} else {
			most = max(most, p.ExpiresAt.Sub(now), 1) // 0 would mean forever
		}
	}
	return most
}

// keep keeps a paused run that has no store for the given time: in the cache, or in this process.
func (r *Run) keep(ttl time.Duration) error {
	if r.rt.Cache != nil {
		return r.toCache(ttl)
	}
	id, seq := r.ID, r.Store.Seq
	time.AfterFunc(ttl, func() {
		ctx := context.Background()
		if sum, _, err := Memory.Load(ctx, id, math.MaxInt64); err == nil && sum.Seq == seq {
			_ = Memory.Delete(ctx, id) // it was not resumed in time; if it is being resumed now, it stays
		}
	})
	return nil
}

// toCache keeps what a paused run has in its store.
func (r *Run) toCache(ttl time.Duration) error {
	ctx := context.WithoutCancel(r.ctx)
	sum, recs, err := r.Store.Store.Load(ctx, r.ID, 0)
	if err != nil {
		return err
	}
	run := sum.Run
	if run.Definition, err = r.spec.Program.Definition(); err != nil {
		return err
	}
	text := append(checkpoint.DefinitionLine(run), '\n')
	for _, rec := range recs {
		text = append(rec.AppendLine(text), '\n')
	}
	if err := r.rt.Cache.Set(ctx, CacheKey(r.ID), text, ttl); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return nil
}

// FromCache makes a store of what the cache has of a run. The store is empty if the cache has nothing.
func FromCache(ctx context.Context, cache checkpoint.Cache, runID string) (checkpoint.Store, error) {
	store := &checkpoint.Memory{}
	text, ok, err := cache.Get(ctx, CacheKey(runID))
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	if !ok {
		return store, nil
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	var recs []checkpoint.Record
	for _, line := range lines[1:] {
		rec, err := checkpoint.ParseLine(line)
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	sum, err := checkpoint.Fold(runID, recs)
	if err != nil {
		return nil, err
	}
	run := sum.Run
	if run.Definition, err = checkpoint.ParseDefinitionLine(run.Digest, lines[0]); err != nil {
		return nil, err
	}
	held, err := store.Create(ctx, run, Owner(), LeaseTime, recs[1:]...)
	if err == nil {
		err = store.Release(ctx, held)
	}
	return store, err
}
