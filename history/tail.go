package history

import (
	"context"
	"slices"

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
