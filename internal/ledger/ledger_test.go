package ledger_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/runtime"
)

// slow is a store and a cache, of which one hangs in one of its methods, whatever its context says.
type slow struct {
	store   checkpoint.Memory
	cache   checkpoint.MemoryCache
	in      string
	hangs   atomic.Bool   // else it works
	release chan struct{} // ends what hangs
}

func (s *slow) at(method string) {
	if method == s.in && s.hangs.Load() {
		<-s.release
	}
}

type slowStore struct {
	checkpoint.Store
	*slow
}

type slowCache struct {
	checkpoint.Cache
	*slow
}

func (s slowStore) Create(
	ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record,
) (checkpoint.Lease, error) {
	s.at("Create")
	return s.Store.Create(ctx, run, owner, ttl, recs...)
}

func (s slowStore) Claim(ctx context.Context, id, owner string, ttl time.Duration) (checkpoint.Lease, error) {
	s.at("Claim")
	return s.Store.Claim(ctx, id, owner, ttl)
}

func (s slowStore) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	s.at("Renew")
	return s.Store.Renew(ctx, l, ttl)
}

func (s slowStore) Release(ctx context.Context, l checkpoint.Lease) error {
	s.at("Release")
	return s.Store.Release(ctx, l)
}

func (s slowStore) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	s.at("Append")
	return s.Store.Append(ctx, l, after, recs...)
}

func (s slowStore) AnswerPause(
	ctx context.Context, l checkpoint.Lease, after int64, hash []byte, recs ...checkpoint.Record,
) error {
	s.at("AnswerPause")
	return s.Store.AnswerPause(ctx, l, after, hash, recs...)
}

func (s slowStore) FindPause(ctx context.Context, id string, hash []byte) (checkpoint.PauseInfo, error) {
	s.at("FindPause")
	return s.Store.FindPause(ctx, id, hash)
}

func (s slowStore) Load(ctx context.Context, id string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	s.at("Load")
	return s.Store.Load(ctx, id, after)
}

func (s slowCache) Get(ctx context.Context, key string) ([]byte, bool, error) {
	s.at("Get")
	return s.Cache.Get(ctx, key)
}

func (s slowCache) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	s.at("Set")
	return s.Cache.Set(ctx, key, val, ttl)
}

func (s slowCache) Delete(ctx context.Context, key string) (bool, error) {
	s.at("Delete")
	return s.Cache.Delete(ctx, key)
}

// begun is the beginning of a run's journal, paused what its execution ends with.
var (
	noon   = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	begun  = []journal.Event{{At: noon, What: journal.Begun{Inputs: map[string]any{}}}}
	paused = []journal.Event{{At: noon, What: journal.Paused{}}}
)

// newLedger returns the ledger of a run that paused, if there is one.
func newLedger(t *testing.T, s *slow, cached, exists bool) *ledger.Ledger {
	t.Helper()
	l := &ledger.Ledger{Run: checkpoint.Run{ID: "r1", Recipe: "r", Digest: "d", Definition: []byte("{}"),
		StartedAt: noon}}
	rt := &runtime.Runtime{Store: slowStore{&s.store, s}}
	if l.Store = rt.Store; cached {
		rt = &runtime.Runtime{Cache: slowCache{&s.cache, s}}
		l.Spare(rt.Cache)
	}
	if !exists {
		return l
	}
	for _, events := range [][]journal.Event{begun, paused} {
		if err := l.Write(t.Context(), events); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Keep(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context()); err != nil || l.Held() {
		t.Fatal(err)
	}
	run, seq := l.Run, l.Seq
	l, err := ledger.Open(t.Context(), rt, "r1")
	if err != nil {
		t.Fatal(err)
	}
	l.Run, l.Seq = run, seq
	return l
}

// Whatever hangs in a store or a cache, each act on a run ends with the named error, after the limit.
func TestStoreThatHangs(t *testing.T) {
	type act struct {
		name    string
		exists  bool // the run
		claimed bool
		do      func(context.Context, *ledger.Ledger) error
	}
	claim := act{"claim", true, false, func(ctx context.Context, l *ledger.Ledger) error { return l.Claim(ctx) }}
	load := act{"load", true, false,
		func(ctx context.Context, l *ledger.Ledger) error { _, _, err := l.Load(ctx, 0); return err }}
	find := act{"find", true, false,
		func(ctx context.Context, l *ledger.Ledger) error { _, err := l.Find(ctx, []byte("x")); return err }}
	create := act{"create", false, false,
		func(ctx context.Context, l *ledger.Ledger) error { return l.Write(ctx, begun) }}
	write := act{"append", true, true,
		func(ctx context.Context, l *ledger.Ledger) error { return l.Write(ctx, paused) }}
	answer := act{"answer", true, true,
		func(ctx context.Context, l *ledger.Ledger) error { return l.Answer(ctx, []byte("x"), paused) }}
	value := act{"value", true, true,
		func(ctx context.Context, l *ledger.Ledger) error { return l.Answer(ctx, nil, paused) }}
	renew := act{"renew", true, true, func(ctx context.Context, l *ledger.Ledger) error { return l.Renew(ctx) }}
	release := act{"release", true, true, func(ctx context.Context, l *ledger.Ledger) error { return l.Release(ctx) }}
	keep := act{"keep", true, true,
		func(ctx context.Context, l *ledger.Ledger) error { return l.Keep(ctx, time.Hour) }}
	forget := act{"forget", true, true, func(ctx context.Context, l *ledger.Ledger) error { return l.Forget(ctx) }}
	short := ledger.LeaseTime / 3
	for _, tt := range []struct {
		act
		in     string
		cached bool
		limit  time.Duration
		names  string // what the error names
	}{
		{create, "Create", false, guard.StoreTime, "the store"},
		{claim, "Claim", false, guard.StoreTime, "the store"},
		{load, "Load", false, guard.StoreTime, "the store"},
		{find, "FindPause", false, guard.StoreTime, "the store"},
		{write, "Append", false, guard.StoreTime, "the store"},
		{answer, "AnswerPause", false, guard.StoreTime, "the store"},
		{value, "Append", false, guard.StoreTime, "the store"},
		{renew, "Renew", false, short, "the store"},
		{release, "Release", false, short, "the store"},
		{claim, "Get", true, guard.StoreTime, "the "},
		{claim, "Set", true, guard.StoreTime, "the "},
		{claim, "Delete", true, guard.StoreTime, "the "},
		{value, "Get", true, guard.StoreTime, "the cache"},
		{value, "Set", true, guard.StoreTime, "the cache"},
		{renew, "Get", true, short, "the store"},
		{renew, "Set", true, short, "the store"},
		{release, "Get", true, short, "the store"},
		{release, "Delete", true, short, "the store"},
		{keep, "Get", true, guard.StoreTime, "the cache"},
		{keep, "Set", true, guard.StoreTime, "the cache"},
		{forget, "Get", true, guard.StoreTime, "the cache"},
		{forget, "Delete", true, guard.StoreTime, "the cache"},
	} {
		name := tt.name + " " + tt.in
		if tt.cached {
			name += " of the cache"
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{in: tt.in, release: make(chan struct{})}
				defer synctest.Wait()
				defer close(s.release)
				l := newLedger(t, s, tt.cached, tt.exists)
				if tt.claimed {
					if err := l.Claim(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				s.hangs.Store(true)
				began := time.Now()
				err := tt.do(t.Context(), l)
				took := time.Since(began)
				if most := tt.limit + 2*guard.SettleTime; took < tt.limit || took > most {
					t.Errorf("it took %v, want %v to %v", took, tt.limit, most)
				}
				e, ok := errors.AsType[*runtime.Error](err)
				if !ok || e.Code != "store.failed" || !strings.Contains(err.Error(), tt.names) ||
					!strings.Contains(err.Error(), "ignored its context and was left behind") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// Who gives up waits no longer, but what was begun is finished: a turn of the cache is not lost, no answer is cut off.
func TestCallerGivesUp(t *testing.T) {
	for _, cached := range []bool{false, true} {
		s := &slow{}
		l := newLedger(t, s, cached, true)
		if err := l.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Run.Queued = true // as it was recorded
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Write(ctx, []journal.Event{{At: noon, What: journal.Traced{Traceparent: "x"}}}); err != nil {
			t.Errorf("cached: %t: Write: %v", cached, err)
		}
		if err := l.Answer(ctx, nil, paused); err != nil {
			t.Errorf("cached: %t: Answer: %v", cached, err)
		}
		if err := l.Release(ctx); err != nil {
			t.Errorf("cached: %t: Release: %v", cached, err)
		}
		sum, _, err := l.Load(t.Context(), 0)
		if err != nil || sum.Seq != l.Seq || sum.Held {
			t.Errorf("cached: %t: the store has %d records of %d, held: %t, %v", cached, sum.Seq, l.Seq, sum.Held, err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("cached: %t: Release of what is not held: %v", cached, err)
		}
	}
}

// A run that nobody renews is somebody else's after the time of its lease.
func TestOwned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{in: "Renew", release: make(chan struct{})}
		defer synctest.Wait()
		defer close(s.release)
		l := newLedger(t, s, false, true)
		if err := l.Owned(t.Context()); err != nil {
			t.Errorf("not held: %v", err)
		}
		if err := l.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ledger.LeaseTime - 1)
		s.hangs.Store(true)
		if err := l.Owned(t.Context()); err != nil {
			t.Errorf("within its time: %v", err)
		}
		if err := l.Lost(errors.New("away")); err != nil {
			t.Errorf("Lost, within its time: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := l.Owned(t.Context()); !errors.Is(err, checkpoint.ErrFenced) || !strings.Contains(err.Error(), "ran out") {
			t.Errorf("after it: %v", err)
		}
		if err := l.Lost(errors.New("away")); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("Lost, after it: %v", err)
		}
	})
}

func TestDecodeNewer(t *testing.T) {
	_, err := ledger.Decode([]checkpoint.Record{{Seq: 4, Kind: "moon.rose"}})
	if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != "journal.newer" ||
		!strings.Contains(err.Error(), `record 4 is of kind "moon.rose"`) {
		t.Error(err)
	}
}
