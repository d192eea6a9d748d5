// Package state has what the runs of a recipe leave to its later runs: JSON values with names, in the store of the
// runs. Recipes read and write them with the tools state.get and state.put, people with braise state.
//
// A value has a version, which begins with 1 and grows by 1 with each write. The last write wins, unless it says which
// version it expects. A value whose time is over is gone, as one that was deleted: its versions begin with 1 again.
package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/braise-run/braise/checkpoint"
)

const (
	MaxBytes = 256 << 10 // of a value, as JSON
	// MaxKey is how many characters a key may have.
	MaxKey = 250 // of four bytes each, they are the name of a document
)

// Why a write is refused. Other errors are those of the store.
var (
	ErrConflict = errors.New("it was written meanwhile")
	ErrTooLarge = errors.New("it is too large")
)

// Store is a store that tells which recipes have kept something. All stores of this module have it.
type Store interface {
	checkpoint.Documents
	checkpoint.Collections
}

// Value is what a recipe has kept.
type Value struct {
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
	Version int64           `json:"version"`
	Expires time.Time       `json:"expires,omitzero"` // zero: never
}

// Write is what [Put] keeps.
type Write struct {
	Key   string          // 1 to MaxKey characters, without NUL
	Value json.RawMessage // at most MaxBytes
	TTL   time.Duration   // how long it is kept; 0: forever
	// IfVersion is the version that the write expects, 0 that there is no such value. nil: any.
	IfVersion *int64
	// Call names who writes: a write with the same name again, as after a crash, returns what the first one did, and
	// changes nothing. The last 16 are remembered. "": each write counts.
	Call string
}

// kept is the text of a document.
type kept struct {
	Version int64           `json:"version"`
	Value   json.RawMessage `json:"value"`
	Expires time.Time       `json:"expires,omitzero"`
	Calls   []call          `json:"calls,omitempty"` // the last ones
}

type call struct {
	Name    string `json:"name"`
	Version int64  `json:"version"`
}

const keptCalls = 16

// prefix is what all names of collections with state begin with.
const prefix = "state/"

func collection(recipe string) string { return prefix + recipe }

// parse reads the text of a document; false: its time is over.
func parse(recipe, key, text string) (k kept, ok bool, err error) {
	err = json.Unmarshal([]byte(text), &k)
	if err == nil && (k.Version < 1 || k.Value == nil) {
		err = errors.New("it is not state")
	}
	if err != nil {
		return kept{}, false, fmt.Errorf("state %q of recipe %q: %w: %w", key, recipe, checkpoint.ErrCorrupt, err)
	}
	return k, k.Expires.IsZero() || time.Now().Before(k.Expires), nil
}

// read returns a value and the text of its document; nil: there is none. Without a value, k is zero.
func read(ctx context.Context, store checkpoint.Documents, recipe, key string) (k kept, text *string, err error) {
	found, ok, err := store.Document(ctx, collection(recipe), key)
	if err != nil || !ok {
		return kept{}, nil, err
	}
	k, ok, err = parse(recipe, key, found)
	if !ok {
		k = kept{}
	}
	return k, &found, err
}

// Get returns a value of a recipe. Its Version is 0, and its Value nil, if there is none. A damaged one is a
// checkpoint.ErrCorrupt.
func Get(ctx context.Context, store checkpoint.Documents, recipe, key string) (Value, error) {
	if err := check(recipe, key); err != nil {
		return Value{}, err
	}
	k, _, err := read(ctx, store, recipe, key)
	return Value{key, k.Value, k.Version, k.Expires}, err
}

// Put keeps a value of a recipe, and returns its version. The error is ErrConflict, ErrTooLarge, a
// checkpoint.ErrInvalid, or the store's.
func Put(ctx context.Context, store checkpoint.Documents, recipe string, w Write) (version int64, err error) {
	if err := w.check(recipe); err != nil {
		return 0, err
	}
	next := kept{Value: w.Value}
	if w.TTL > 0 {
		next.Expires = time.Now().Add(w.TTL).UTC()
	}
	for {
		now, old, err := read(ctx, store, recipe, w.Key)
		if err != nil {
			return 0, err
		}
		if i := slices.IndexFunc(now.Calls, func(c call) bool { return c.Name == w.Call }); i >= 0 {
			return now.Calls[i].Version, nil
		}
		if w.IfVersion != nil && *w.IfVersion != now.Version {
			return 0, fmt.Errorf("state %q of recipe %q has version %d, not %d: %w",
				w.Key, recipe, now.Version, *w.IfVersion, ErrConflict)
		}
		if next.Version, next.Calls = now.Version+1, now.Calls; w.Call != "" {
			next.Calls = append(next.Calls[max(0, len(next.Calls)-keptCalls+1):], call{w.Call, next.Version})
		}
		text, err := json.Marshal(&next)
		if err != nil {
			return 0, fmt.Errorf("state %q of recipe %q: %w: %w", w.Key, recipe, checkpoint.ErrInvalid, err)
		}
		err = store.SwapDocument(ctx, collection(recipe), w.Key, old, new(string(text)))
		if !errors.Is(err, checkpoint.ErrConflict) {
			return next.Version, err
		}
	}
}

func (w *Write) check(recipe string) error {
	switch err := check(recipe, w.Key); {
	case err != nil:
		return err
	case len(w.Value) > MaxBytes:
		return fmt.Errorf("state %q of recipe %q: %w: %d bytes as JSON, %d are allowed",
			w.Key, recipe, ErrTooLarge, len(w.Value), MaxBytes)
	case w.TTL < 0:
		return fmt.Errorf("state %q of recipe %q: %w: its TTL is %v", w.Key, recipe, checkpoint.ErrInvalid, w.TTL)
	}
	return nil
}

func check(recipe, key string) error {
	if n := utf8.RuneCountInString(key); n > MaxKey {
		return fmt.Errorf("a key of state: %w: it has %d characters, %d are allowed", checkpoint.ErrInvalid, n, MaxKey)
	}
	if err := (checkpoint.Document{Name: key}).Check(collection(recipe)); err != nil {
		return fmt.Errorf("a key of state: %w", err)
	}
	return nil
}

// List returns the values of a recipe, sorted by key; empty, not nil, if there are none. A damaged one is a
// checkpoint.ErrCorrupt.
func List(ctx context.Context, store checkpoint.Documents, recipe string) ([]Value, error) {
	all, err := store.Documents(ctx, collection(recipe))
	if err != nil {
		return nil, err
	}
	list := []Value{}
	for _, d := range all {
		k, ok, err := parse(recipe, d.Name, d.Text)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, Value{d.Name, k.Value, k.Version, k.Expires})
		}
	}
	slices.SortFunc(list, func(a, b Value) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// Recipes returns the names of the recipes that have kept something, sorted.
func Recipes(ctx context.Context, store checkpoint.Collections) ([]string, error) {
	names, err := store.Collections(ctx, prefix)
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], prefix)
	}
	return names, err
}

// Delete removes a value. It reports whether there was one.
func Delete(ctx context.Context, store checkpoint.Documents, recipe, key string) (bool, error) {
	for {
		old, ok, err := store.Document(ctx, collection(recipe), key)
		if err != nil || !ok {
			return false, err
		}
		err = store.SwapDocument(ctx, collection(recipe), key, &old, nil)
		if !errors.Is(err, checkpoint.ErrConflict) {
			return err == nil, err
		}
	}
}

// DeleteAll removes all values of a recipe.
func DeleteAll(ctx context.Context, store checkpoint.Documents, recipe string) error {
	return store.DeleteDocuments(ctx, collection(recipe))
}

// DeleteExpired removes the values, of all recipes, whose time was over, and returns how many. What cannot be read
// stays, and the error joins what is wrong with it.
func DeleteExpired(ctx context.Context, store Store) (n int, err error) {
	recipes, err := Recipes(ctx, store)
	var failed []error
	for _, recipe := range recipes {
		all, err := store.Documents(ctx, collection(recipe))
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, d := range all {
			_, ok, err := parse(recipe, d.Name, d.Text)
			if err != nil || ok {
				failed = append(failed, err)
				continue
			}
			switch err := store.SwapDocument(ctx, collection(recipe), d.Name, &d.Text, nil); {
			case err == nil:
				n++
			case !errors.Is(err, checkpoint.ErrConflict): // else somebody has written it meanwhile
				failed = append(failed, err)
			}
		}
	}
	return n, errors.Join(err, errors.Join(failed...))
}
