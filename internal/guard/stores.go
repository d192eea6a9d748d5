package guard

import (
	"context"
	"encoding/json"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// Stored returns a store whose calls are guarded. It has none of the optional interfaces of the original.
func Stored(s checkpoint.Store) checkpoint.Store { return store{s} }

type store struct{ of checkpoint.Store }

func (s store) Load(
	ctx context.Context, runID string, after int64,
) (checkpoint.Summary, []checkpoint.Record, error) {
	return Load(ctx, s.of, runID, after)
}

func (s store) Definition(ctx context.Context, digest string) (json.RawMessage, error) {
	return Definition(ctx, s.of, digest)
}

func (s store) List(ctx context.Context, f checkpoint.Filter) ([]checkpoint.Summary, error) {
	return List(ctx, s.of, f)
}

func (s store) Create(
	ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record,
) (checkpoint.Lease, error) {
	return Store(ctx, func(ctx context.Context) (checkpoint.Lease, error) {
		return s.of.Create(ctx, run, owner, ttl, recs...)
	})
}

func (s store) Claim(ctx context.Context, runID, owner string, ttl time.Duration) (checkpoint.Lease, error) {
	return Store(ctx, func(ctx context.Context) (checkpoint.Lease, error) { return s.of.Claim(ctx, runID, owner, ttl) })
}

func (s store) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	return Store(ctx, func(ctx context.Context) (checkpoint.Lease, error) { return s.of.Renew(ctx, l, ttl) })
}

func (s store) Release(ctx context.Context, l checkpoint.Lease) error {
	return do(ctx, func(ctx context.Context) error { return s.of.Release(ctx, l) })
}

func (s store) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	return do(ctx, func(ctx context.Context) error { return s.of.Append(ctx, l, after, recs...) })
}

func (s store) AnswerPause(
	ctx context.Context, l checkpoint.Lease, after int64, tokenHash []byte, recs ...checkpoint.Record,
) error {
	return do(ctx, func(ctx context.Context) error { return s.of.AnswerPause(ctx, l, after, tokenHash, recs...) })
}

func (s store) FindPause(ctx context.Context, runID string, tokenHash []byte) (checkpoint.PauseInfo, error) {
	return Store(ctx, func(ctx context.Context) (checkpoint.PauseInfo, error) {
		return s.of.FindPause(ctx, runID, tokenHash)
	})
}

func (s store) Delete(ctx context.Context, runID string) error {
	return do(ctx, func(ctx context.Context) error { return s.of.Delete(ctx, runID) })
}

// Prune may take long: it has no limit but ctx.
func (s store) Prune(ctx context.Context, before time.Time, statuses ...checkpoint.Status) (int, error) {
	return unlimited(ctx, func() (int, error) { return s.of.Prune(ctx, before, statuses...) })
}

func (s store) Close() error {
	return do(context.Background(), func(context.Context) error { return s.of.Close() })
}

// Shared is a store that several processes use.
type Shared interface {
	checkpoint.Store
	checkpoint.Querier
	checkpoint.Watcher
	checkpoint.Signals
}

// SharedStore returns a store whose calls are guarded. It has no other optional interfaces of the original.
func SharedStore(s Shared) Shared {
	return struct {
		store
		querier
		watcher
		signals
	}{store{s}, querier{s}, watcher{s}, signals{s}}
}

// Noted is a store whose pauses can be told of, and that keeps notes on that.
type Noted interface {
	checkpoint.Store
	checkpoint.Querier
	checkpoint.Watcher
	checkpoint.Documents
}

// NotedStore returns a store whose calls are guarded. It has no other optional interfaces of the original.
func NotedStore(s Noted) Noted {
	return struct {
		store
		querier
		watcher
		documents
	}{store{s}, querier{s}, watcher{s}, documents{s}}
}

type querier struct{ of checkpoint.Querier }

func (q querier) Count(ctx context.Context, f checkpoint.Filter, most int) (map[checkpoint.Phase]int, error) {
	return Store(ctx, func(ctx context.Context) (map[checkpoint.Phase]int, error) { return q.of.Count(ctx, f, most) })
}

func (q querier) Pauses(ctx context.Context, f checkpoint.PauseFilter) ([]checkpoint.PauseInfo, error) {
	return Store(ctx, func(ctx context.Context) ([]checkpoint.PauseInfo, error) { return q.of.Pauses(ctx, f) })
}

// Watched returns a Watcher whose calls are guarded, for as long as ctx lasts.
func Watched(w checkpoint.Watcher) checkpoint.Watcher { return watcher{w} }

type watcher struct{ of checkpoint.Watcher }

func (w watcher) Watch(ctx context.Context, changed func(runID string)) error {
	_, err := unlimited(ctx, func() (any, error) { return nil, w.of.Watch(ctx, changed) })
	return err
}

type signals struct{ of checkpoint.Signals }

func (s signals) PutSignal(ctx context.Context, runID string, one checkpoint.Signal) error {
	return do(ctx, func(ctx context.Context) error { return s.of.PutSignal(ctx, runID, one) })
}

func (s signals) Signals(ctx context.Context, runID string, open bool) ([]checkpoint.Signal, error) {
	return Store(ctx, func(ctx context.Context) ([]checkpoint.Signal, error) { return s.of.Signals(ctx, runID, open) })
}

func (s signals) EndSignals(ctx context.Context, l checkpoint.Lease, ids ...string) error {
	return do(ctx, func(ctx context.Context) error { return s.of.EndSignals(ctx, l, ids...) })
}

// Documented returns Documents whose calls are guarded.
func Documented(d checkpoint.Documents) checkpoint.Documents { return documents{d} }

type documents struct{ of checkpoint.Documents }

func (d documents) PutDocument(ctx context.Context, collection string, one checkpoint.Document) error {
	return do(ctx, func(ctx context.Context) error { return d.of.PutDocument(ctx, collection, one) })
}

func (d documents) Documents(ctx context.Context, collection string) ([]checkpoint.Document, error) {
	return Store(ctx, func(ctx context.Context) ([]checkpoint.Document, error) {
		return d.of.Documents(ctx, collection)
	})
}

func (d documents) DeleteDocuments(ctx context.Context, collection string) error {
	return do(ctx, func(ctx context.Context) error { return d.of.DeleteDocuments(ctx, collection) })
}

func (d documents) Document(ctx context.Context, collection, name string) (text string, ok bool, err error) {
	found, err := Store(ctx, func(ctx context.Context) (*string, error) {
		text, ok, err := d.of.Document(ctx, collection, name)
		if !ok {
			return nil, err
		}
		return &text, err
	})
	if found == nil {
		return "", false, err
	}
	return *found, true, err
}

func (d documents) SwapDocument(ctx context.Context, collection, name string, old, text *string) error {
	return do(ctx, func(ctx context.Context) error { return d.of.SwapDocument(ctx, collection, name, old, text) })
}
