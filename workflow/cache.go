package workflow

import (
	"bytes"
	"context"
	"fmt"

	"github.com/braise-run/braise/checkpoint"
)

// A run without a store that pauses is kept in the runtime's cache, if there is one: its definition
// and its journal, a line each. The entry goes when a pause is answered, which exactly one of many
// achieves, and comes back with the next pause.

func cacheKey(runID string) string { return "braise.run." + runID }

// toCache keeps what a paused run has in its store.
func (r *run) toCache() error {
	ctx := context.WithoutCancel(r.ctx)
	sum, recs, err := r.journal.store.Load(ctx, r.id, 0)
	if err != nil {
		return err
	}
	run := sum.Run
	if run.Definition, err = r.wf.program.Definition(); err != nil {
		return err
	}
	text := append(checkpoint.DefinitionLine(run), '\n')
	for _, rec := range recs {
		text = append(rec.AppendLine(text), '\n')
	}
	if err := r.rt.Cache.Set(ctx, cacheKey(r.id), text, 0); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return nil
}

// fromCache makes a store of what the cache has of a run; one without the run if it has nothing.
func (l *leg) fromCache() (checkpoint.Store, error) {
	store := &checkpoint.Memory{}
	text, ok, err := l.rt.Cache.Get(l.ctx, cacheKey(l.runID))
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
	sum, err := checkpoint.Fold(l.runID, recs)
	if err != nil {
		return nil, err
	}
	run := sum.Run
	if run.Definition, err = checkpoint.ParseDefinitionLine(run.Digest, lines[0]); err != nil {
		return nil, err
	}
	lease, err := store.Create(l.ctx, run, owner(), leaseTime, recs[1:]...)
	if err == nil {
		err = store.Release(l.ctx, lease)
	}
	return store, err
}

// takeFromCache consumes the cache's entry of a run; of many exactly one does.
func (l *leg) takeFromCache() error {
	if l.rt.Store != nil || l.rt.Cache == nil {
		return nil
	}
	was, err := l.rt.Cache.Delete(context.WithoutCancel(l.ctx), cacheKey(l.runID))
	switch {
	case err != nil:
		return fmt.Errorf("cache: %w", err)
	case !was:
		return fmt.Errorf("run %q: %w", l.runID, checkpoint.ErrToken)
	}
	return nil
}
