package history

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/trace"
)

// Tail reads the events of a run as they are recorded. [Reader.Tail] makes one. It is for one goroutine at a time.
type Tail struct {
	reader *Reader
	runID  string
	log    *journalLog // nil: nothing was read
	seq    int64       // of the last record
}

// Tail returns a tail that begins with the first event of the run.
func (r *Reader) Tail(runID string) *Tail { return &Tail{reader: r, runID: runID} }

// Next returns the events that were recorded since the last call, numbered on, and what the store has about the run. It
// does not wait for any. The error is the store's; Next may be called again.
func (t *Tail) Next(ctx context.Context) (checkpoint.Summary, []trace.Event, error) {
	sum, recs, err := guard.Load(ctx, t.reader.Store, t.runID, t.seq)
	if err != nil {
		return sum, nil, err
	}
	if t.log == nil {
		t.log = t.reader.newLog(context.WithoutCancel(ctx))
	}
	told := len(t.log.events)
	for _, rec := range recs {
		t.log.add(rec)
	}
	t.log.started("recover")
	t.log.past = nil
	t.seq += int64(len(recs))
	events := slices.Clip(t.log.events[told:])
	if t.reader.Content && slices.ContainsFunc(events, needsReplay) {
		v, err := t.reader.view(ctx, t.runID)
		if err != nil {
			return sum, nil, err
		}
		v.addContent(events)
	}
	return sum, events, nil
}

// Watch yields what Next returns, some events at a time, until the run has ended; see [Reader.Watch].
func (t *Tail) Watch(ctx context.Context) iter.Seq2[[]trace.Event, error] {
	return func(yield func([]trace.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var changed <-chan struct{}
		for {
			sum, events, err := t.Next(ctx)
			if !yield(events, err) || err != nil || sum.Status.Ended() {
				return
			}
			if changed == nil {
				changed = t.reader.changes(ctx, t.runID)
			}
			select {
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			case <-changed:
			}
		}
	}
}

// Work returns what the agent of a step has done, up to the last event that Next returned. step may also be the path
// of a child of it. It is nil if the step has no agent that has begun. Its calls have no times. Nothing is read or
// replayed for it.
func (t *Tail) Work(step string) *Work {
	if t.log == nil {
		return nil
	}
	path := step
	for t.log.agents[path] == nil {
		end := strings.LastIndexByte(path, '/')
		if end < 0 {
			return nil
		}
		path = path[:end]
	}
	w := workOf(path, &t.log.agents[path].state)
	return &w
}
