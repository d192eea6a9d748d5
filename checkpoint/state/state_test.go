package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/checkpoint/state"
)

// What a recipe has kept, read by the app that runs it.
func Example() {
	ctx, store := context.Background(), &checkpoint.Memory{}
	version, err := state.Put(ctx, store, "crew-inbox", state.Write{Key: "inbox/seen", Value: []byte(`["m1","m2"]`)})
	if err != nil {
		log.Fatal(err)
	}
	seen, err := state.Get(ctx, store, "crew-inbox", "inbox/seen")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(version, seen.Version, string(seen.Value))

	// Nobody else has written it since.
	_, err = state.Put(ctx, store, "crew-inbox", state.Write{Key: "inbox/seen", Value: []byte(`[]`), IfVersion: &version})
	fmt.Println(err)
	_, err = state.Put(ctx, store, "crew-inbox", state.Write{Key: "inbox/seen", Value: []byte(`[]`), IfVersion: &version})
	fmt.Println(errors.Is(err, state.ErrConflict))
	// Output:
	// 1 1 ["m1","m2"]
	// <nil>
	// true
}

func TestPut(t *testing.T) {
	long := strings.Repeat("é", state.MaxKey)
	store := &checkpoint.Memory{}
	for i, tt := range []struct {
		w    state.Write
		want int64
		err  error
	}{
		{state.Write{Key: "k", Value: []byte("1"), IfVersion: new(int64(1))}, 0, state.ErrConflict},
		{state.Write{Key: "k", Value: []byte("1"), IfVersion: new(int64(0)), Call: "a"}, 1, nil},
		{state.Write{Key: "k", Value: []byte("2"), IfVersion: new(int64(0)), Call: "b"}, 0, state.ErrConflict},
		{state.Write{Key: "k", Value: []byte("2")}, 2, nil},
		{state.Write{Key: "k", Value: []byte("3"), IfVersion: new(int64(2)), Call: "c"}, 3, nil},
		{state.Write{Key: "k", Value: []byte("9"), IfVersion: new(int64(0)), Call: "a"}, 1, nil}, // again
		{state.Write{Key: "k", Value: []byte("9"), Call: "c"}, 3, nil},
		{state.Write{Key: long, Value: []byte("null")}, 1, nil},
		{state.Write{Key: long + "x", Value: []byte("1")}, 0, checkpoint.ErrInvalid},
		{state.Write{Key: "", Value: []byte("1")}, 0, checkpoint.ErrInvalid},
		{state.Write{Key: "a\x00", Value: []byte("1")}, 0, checkpoint.ErrInvalid},
		{state.Write{Key: "k", Value: []byte("{")}, 0, checkpoint.ErrInvalid},
		{state.Write{Key: "k", Value: []byte("1"), TTL: -1}, 0, checkpoint.ErrInvalid},
		{state.Write{Key: "k", Value: []byte(`"` + strings.Repeat("x", state.MaxBytes-1) + `"`)}, 0, state.ErrTooLarge},
		{state.Write{Key: "large", Value: []byte(`"` + strings.Repeat("x", state.MaxBytes-2) + `"`)}, 1, nil},
	} {
		got, err := state.Put(t.Context(), store, "r", tt.w)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%d: version %d, %v; want %d, %v", i, got, err, tt.want, tt.err)
		}
	}
	v, err := state.Get(t.Context(), store, "r", "k")
	if err != nil || v.Version != 3 || string(v.Value) != "3" {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := state.Get(t.Context(), store, "other", "k"); err != nil || v.Version != 0 || v.Value != nil {
		t.Errorf("of another recipe: %+v, %v", v, err)
	}
	if _, err := state.Get(t.Context(), store, "r", ""); !errors.Is(err, checkpoint.ErrInvalid) {
		t.Error(err)
	}
}

// The last 16 calls are known again, and no earlier one.
func TestCallsAreForgotten(t *testing.T) {
	store := &checkpoint.Memory{}
	for i := range 17 {
		if _, err := state.Put(t.Context(), store, "r", state.Write{Key: "k", Value: []byte("1"), Call: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, again := range []struct {
		call string
		want int64
	}{{"1", 2}, {"16", 17}, {"0", 18}, {"1", 19}} {
		got, err := state.Put(t.Context(), store, "r", state.Write{Key: "k", Value: []byte("1"), Call: again.call})
		if err != nil || got != again.want {
			t.Errorf("call %s again: %d, %v; want %d", again.call, got, err, again.want)
		}
	}
}

func TestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		put := func(recipe, key string, ttl time.Duration) {
			t.Helper()
			if _, err := state.Put(t.Context(), store, recipe, state.Write{Key: key, Value: []byte("1"), TTL: ttl}); err != nil {
				t.Fatal(err)
			}
		}
		list := func(recipe string, want ...string) {
			t.Helper()
			values, err := state.List(t.Context(), store, recipe)
			var keys []string
			for _, v := range values {
				keys = append(keys, fmt.Sprint(v.Key, v.Version))
			}
			if diff := cmp.Diff(want, keys); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		}
		put("r", "short", time.Hour)
		put("r", "short", time.Hour)
		put("r", "long", 2*time.Hour)
		put("r", "ever", 0)
		put("s", "short", time.Hour)
		time.Sleep(time.Hour - 1)
		list("r", "ever1", "long1", "short2")
		time.Sleep(time.Nanosecond)
		list("r", "ever1", "long1")
		if v, err := state.Get(t.Context(), store, "r", "short"); err != nil || v.Version != 0 {
			t.Errorf("%+v, %v", v, err)
		}
		put("r", "short", time.Minute) // versions begin anew
		list("r", "ever1", "long1", "short1")
		time.Sleep(time.Hour)
		n, err := state.DeleteExpired(t.Context(), store)
		if n != 3 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		list("r", "ever1")
		names, err := state.Recipes(t.Context(), store)
		if diff := cmp.Diff([]string{"r"}, names); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	})
}

func TestDelete(t *testing.T) {
	store := &checkpoint.Memory{}
	for _, key := range []string{"a", "b", "c"} {
		if _, err := state.Put(t.Context(), store, "r", state.Write{Key: key, Value: []byte("1")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []bool{true, false} {
		if found, err := state.Delete(t.Context(), store, "r", "a"); found != want || err != nil {
			t.Errorf("%v, %v", found, err)
		}
	}
	if err := state.DeleteAll(t.Context(), store, "r"); err != nil {
		t.Error(err)
	}
	if list, err := state.List(t.Context(), store, "r"); len(list) != 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
}

// A document that somebody else has put there is no state: it is reported, never taken for one.
func TestDamaged(t *testing.T) {
	for _, text := range []string{"", "{}", "[1]", `{"version": 0, "value": 1}`, `{"version": 1}`, `{"version": "1", "value": 1}`} {
		store := &checkpoint.Memory{}
		if err := store.PutDocument(t.Context(), "state/r", checkpoint.Document{Name: "k", Text: text}); err != nil {
			t.Fatal(err)
		}
		_, getErr := state.Get(t.Context(), store, "r", "k")
		_, putErr := state.Put(t.Context(), store, "r", state.Write{Key: "k", Value: []byte("1")})
		_, listErr := state.List(t.Context(), store, "r")
		_, pruneErr := state.DeleteExpired(t.Context(), store)
		for _, err := range []error{getErr, putErr, listErr, pruneErr} {
			if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), `state "k" of recipe "r"`) {
				t.Errorf("%q: %v", text, err)
			}
		}
		if found, err := state.Delete(t.Context(), store, "r", "k"); !found || err != nil {
			t.Errorf("Delete: %v, %v", found, err)
		}
	}
}

// Runs that write at once lose nothing: each conditional write is of a version that nobody else has written.
func TestAtOnce(t *testing.T) {
	files, err := jsonl.Open(filepath.Join(t.TempDir(), "runs"))
	if err != nil {
		t.Fatal(err)
	}
	disk, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close(); disk.Close() })
	for name, store := range map[string]checkpoint.Documents{"memory": &checkpoint.Memory{}, "jsonl": files, "sqlite": disk} {
		t.Run(name, func(t *testing.T) {
			const writers, times = 4, 8
			var all sync.WaitGroup
			for range writers {
				all.Go(func() {
					for n := 0; n < times; {
						v, err := state.Get(t.Context(), store, "r", "count")
						if err != nil {
							t.Error(err)
							return
						}
						var count int
						_ = json.Unmarshal(v.Value, &count) // 0 at first
						_, err = state.Put(t.Context(), store, "r", state.Write{Key: "count", Value: fmt.Append(nil, count+1),
							IfVersion: &v.Version})
						switch {
						case err == nil:
							n++
						case !errors.Is(err, state.ErrConflict):
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			v, err := state.Get(t.Context(), store, "r", "count")
			if want := fmt.Sprint(writers * times); err != nil || string(v.Value) != want || v.Version != writers*times {
				t.Errorf("%s, version %d, %v; want %s", v.Value, v.Version, err, want)
			}
		})
	}
}
