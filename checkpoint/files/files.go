// Package files keeps what is in the files of messages beside the journals of runs: images, PDFs and texts that models
// were shown. Journals name them by their SHA-256. A store keeps each content once, however many runs have it, for as
// long as one of these is in the store.
package files

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// MaxBytes is how many bytes a file may have.
const MaxBytes = 20 << 20

// Store is a store that keeps runs and documents. All stores of this module are.
type Store interface {
	checkpoint.Store
	checkpoint.Documents
	checkpoint.Collections
}

// The collections of a content, and of what there is to say about it, are named by its SHA-256. A content is put before
// the document that names the place of it and its runs, and removed after that, and each time it has a place of its
// own. So one that is being removed is never taken for another one that is being put.
const (
	about   = "files/"   // and the SHA-256: a collection with the document usedBy
	content = "content/" // and the SHA-256, "/", and the place: a collection with the documents below
	usedBy  = "runs"
	made    = "made" // comes first, as stores of files read the first document to learn the collection's name
	data    = "data"
)

// unnamed is how long a content may be in the store before a run is named that has it, and fresh how long such a run
// may not be in the store yet: a run writes its journal before it shows the file.
var unnamed, fresh = 24 * time.Hour, 5 * time.Minute

// kept is what there is to say about a content.
type kept struct {
	In   string    `json:"in"` // its place
	At   time.Time `json:"at"` // when the last run was added
	Runs []string  `json:"runs"`
}

// Sum returns the SHA-256 of a content, in hex: its name in the store.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Put keeps a content for a run, and returns its [Sum]. What the store has already is not written again. A content of
// more than MaxBytes is a checkpoint.ErrInvalid; other errors are those of the store.
func Put(ctx context.Context, store checkpoint.Documents, run string, content []byte) (sum string, err error) {
	if sum = Sum(content); len(content) > MaxBytes {
		return "", fmt.Errorf("file %s: %w: it has %d bytes, %d are allowed",
			sum, checkpoint.ErrInvalid, len(content), MaxBytes)
	}
	place := ""
	in, err := use(ctx, store, sum, run, func() (string, error) {
		if place == "" {
			place = newPlace()
			return place, write(ctx, store, sum, place, content)
		}
		return place, nil
	})
	if place != "" && place != in { // another process was faster, or nothing came of it
		err = cmp.Or(err, store.DeleteDocuments(context.WithoutCancel(ctx), collection(sum, place)))
	}
	return sum, err
}

// Share keeps for a run what another one has. checkpoint.ErrNotFound if the store does not have it.
func Share(ctx context.Context, store checkpoint.Documents, run, sum string) error {
	_, err := use(ctx, store, sum, run, func() (string, error) { return "", gone(sum) })
	return err
}

// use notes that a run has a content, and returns the place of that. put puts one that the store does not have.
func use(
	ctx context.Context, store checkpoint.Documents, sum, run string, put func() (string, error),
) (place string, err error) {
	for {
		k, old, err := read(ctx, store, sum)
		if err != nil || slices.Contains(k.Runs, run) {
			return k.In, err
		}
		if old == nil {
			if k.In, err = put(); err != nil {
				return "", err
			}
		}
		k.At, k.Runs = time.Now().UTC(), append(k.Runs, run)
		text, err := json.Marshal(k)
		if err != nil {
			return "", err
		}
		err = store.SwapDocument(ctx, about+sum, usedBy, old, new(string(text)))
		if !errors.Is(err, checkpoint.ErrConflict) {
			return k.In, err
		}
	}
}

// read returns what there is to say about a content, and the text of that; nil: the store does not have it.
func read(ctx context.Context, store checkpoint.Documents, sum string) (k kept, text *string, err error) {
	found, ok, err := store.Document(ctx, about+sum, usedBy)
	if err != nil || !ok {
		return k, nil, err
	}
	if err = json.Unmarshal([]byte(found), &k); err == nil && k.In == "" {
		err = errors.New("it has no place")
	}
	if err != nil {
		return kept{}, nil, fmt.Errorf("file %s: %w: %w", sum, checkpoint.ErrCorrupt, err)
	}
	return k, &found, nil
}

func collection(sum, place string) string { return content + sum + "/" + place }

// newPlace returns a place that no other content ever has. It says when that was.
func newPlace() string {
	id := make([]byte, 8)
	rand.Read(id) // which never fails
	return strconv.FormatInt(time.Now().Unix(), 10) + "-" + hex.EncodeToString(id)
}

func write(ctx context.Context, store checkpoint.Documents, sum, place string, content []byte) error {
	in := collection(sum, place)
	err := store.PutDocument(ctx, in, checkpoint.Document{Name: made, Text: time.Now().UTC().Format(time.RFC3339)})
	if err == nil {
		err = store.PutDocument(ctx, in,
			checkpoint.Document{Name: data, Text: base64.StdEncoding.EncodeToString(content)})
	}
	return err
}

// Get returns a content. checkpoint.ErrNotFound if the store does not have it, checkpoint.ErrCorrupt if it is not what
// was put.
func Get(ctx context.Context, store checkpoint.Documents, sum string) ([]byte, error) {
	k, old, err := read(ctx, store, sum)
	if err != nil {
		return nil, err
	}
	if old == nil {
		return nil, gone(sum)
	}
	text, ok, err := store.Document(ctx, collection(sum, k.In), data)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, gone(sum)
	}
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil || Sum(content) != sum {
		return nil, fmt.Errorf("file %s: %w: its content has changed", sum, checkpoint.ErrCorrupt)
	}
	return content, nil
}

func gone(sum string) error { return fmt.Errorf("file %s: %w", sum, checkpoint.ErrNotFound) }

// DeleteUnused removes what no run in the store has any more, and returns how many contents went. Those that a run was
// given in the last five minutes stay, as it may not be in the store yet. What cannot be read stays, and the error
// joins what is wrong with it.
func DeleteUnused(ctx context.Context, store Store) (n int, err error) {
	names, err := store.Collections(ctx, about)
	failed := []error{err}
	there := map[string]bool{} // runs
	for _, name := range names {
		went, err := deleteUnused(ctx, store, strings.TrimPrefix(name, about), there)
		if failed = append(failed, err); went {
			n++
		}
	}
	went, err := deleteLost(ctx, store)
	return n + went, errors.Join(append(failed, err)...)
}

// deleteUnused removes a content unless a run has it. there has the runs that are known to be in the store.
func deleteUnused(ctx context.Context, store Store, sum string, there map[string]bool) (went bool, err error) {
	k, old, err := read(ctx, store, sum)
	if err != nil || old == nil || time.Since(k.At) < fresh {
		return false, err
	}
	runs := []string{}
	for _, run := range k.Runs {
		if _, known := there[run]; !known {
			_, _, err := store.Load(ctx, run, math.MaxInt64)
			there[run] = !errors.Is(err, checkpoint.ErrNotFound)
		}
		if there[run] {
			runs = append(runs, run)
		}
	}
	var text *string
	switch {
	case len(runs) == len(k.Runs):
		return false, nil
	case len(runs) > 0:
		rest, err := json.Marshal(kept{k.In, k.At, runs})
		if err != nil {
			return false, err
		}
		text = new(string(rest))
	}
	switch err := store.SwapDocument(ctx, about+sum, usedBy, old, text); {
	case errors.Is(err, checkpoint.ErrConflict): // another run has it now
		return false, nil
	case err != nil || text != nil:
		return false, err
	}
	return true, store.DeleteDocuments(ctx, collection(sum, k.In))
}

// deleteLost removes contents that were put by processes which died before they named a run, or while they removed
// them.
func deleteLost(ctx context.Context, store Store) (n int, err error) {
	names, err := store.Collections(ctx, content)
	failed := []error{err}
	for _, name := range names {
		sum, place, _ := strings.Cut(strings.TrimPrefix(name, content), "/")
		stamp, _, _ := strings.Cut(place, "-")
		at, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil || time.Since(time.Unix(at, 0)) < unnamed {
			continue
		}
		k, _, err := read(ctx, store, sum)
		if err == nil && k.In != place {
			if err = store.DeleteDocuments(ctx, name); err == nil {
				n++
			}
		}
		failed = append(failed, err)
	}
	return n, errors.Join(failed...)
}

// Is reports whether a collection is one of this package. Another store gets what is in it by [Copy].
func Is(collection string) bool {
	return strings.HasPrefix(collection, about) || strings.HasPrefix(collection, content)
}

// Copy puts into another store what its runs have in this one, and returns how many contents it did not have yet.
func Copy(ctx context.Context, from, to Store) (n int, err error) {
	names, err := from.Collections(ctx, about)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		sum := strings.TrimPrefix(name, about)
		k, _, err := read(ctx, from, sum)
		if err != nil {
			return n, err
		}
		for _, run := range k.Runs {
			if _, _, err := to.Load(ctx, run, math.MaxInt64); errors.Is(err, checkpoint.ErrNotFound) {
				continue
			}
			err := Share(ctx, to, run, sum)
			if errors.Is(err, checkpoint.ErrNotFound) {
				var content []byte
				if content, err = Get(ctx, from, sum); err == nil {
					_, err = Put(ctx, to, run, content)
					n++
				}
			}
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}
