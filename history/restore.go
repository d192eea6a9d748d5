package history

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/past"
)

// Restore puts the whole journal of a run, as [Source] has it, into a store that does not have the run. It does so in
// one write, so that nobody finds, and resumes, a part of the run. Nobody holds the run then. definition is its recipe;
// nil: the store has that. The error is that of the journal, as [checkpoint.Fold] says, or the store's:
// [checkpoint.ErrExists] if it has the run.
//
// A run that has not ended is there twice then. Only one of the two may be resumed: both would have the same effects.
func Restore(
	ctx context.Context, store checkpoint.Store, recs []checkpoint.Record, definition json.RawMessage,
) (checkpoint.Summary, error) {
	sum, err := checkpoint.Fold("", recs[:min(1, len(recs))])
	if err == nil {
		sum, err = checkpoint.Fold(sum.ID, recs)
	}
	if err != nil {
		return sum, err
	}
	run := sum.Run
	run.Definition = definition
	// A store makes the first record itself.
	if _, again, err := checkpoint.Begin(run, nil); err != nil {
		return sum, err
	} else if !bytes.Equal(again[0].Data, recs[0].Data) {
		return sum, fmt.Errorf("run %q: %w: its first record has more than this version knows",
			run.ID, checkpoint.ErrVersion)
	}
	guarded := guard.Stored(store)
	lease, err := guarded.Create(ctx, run, checkpoint.NewOwner(), 0, slices.Clone(recs[1:])...)
	if err != nil {
		return sum, err
	}
	return sum, guarded.Release(context.WithoutCancel(ctx), lease)
}

// Files returns what is in the files that the models of a run were shown, by SHA-256, sorted: package checkpoint/files
// finds it in the store of the run, beside the journal. recs are the records of the run. nil: there are none.
func Files(recs []checkpoint.Record) ([]string, error) {
	events := make([]journal.Event, len(recs))
	for i, rec := range recs {
		var err error
		if events[i], err = journal.Decode(rec); err != nil {
			return nil, err
		}
	}
	return past.Files(events), nil
}
