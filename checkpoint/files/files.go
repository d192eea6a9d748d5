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

// What there is to say about a content is a collection named by its SHA-256: the document [where], which names the
// place of the content, and one document for each run that has it. The content itself has a collection of its own each
// time it is put, so one that is being removed is never taken for another one that is being put.
//
// Two processes that use a content and remove it at the same time see each other, as each writes before it reads. One
// that uses it writes the document of its run, then reads where the content is, and renames what it finds marked. One
// that removes it marks where it is, then reads whether a run has it, and removes only what still has its own mark.
const (
	about   = "files/"   // and the SHA-256
	content = "content/" // and the SHA-256, "/", and the place: a collection with the documents below
	where   = "place"
	made    = "made" // comes first, as stores of files read the first document to learn the collection's name
	data    = "data"
	ofRun   = "run " // and its ID: a document with the time at which the run was given the content
)

// unnamed is how long a content may be in the store before a run is named that has it, and fresh how long such a run
// may not be in the store yet: a run writes its journal before it shows the file.
const unnamed, fresh = 24 * time.Hour, 5 * time.Minute

// place is where a content is.
type place struct {
	In string `json:"in"`
	// Mark is that of the process which is about to remove the content, each time another one; "": none is.
	Mark string `json:"mark,omitempty"`
}

func (p place) text() *string {
	text, _ := json.Marshal(p) // two strings
	return new(string(text))
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
	in := ""
	kept, err := use(ctx, store, sum, run, func() (string, error) {
		if in != "" {
			return in, nil
		}
		in = newID()
		return in, write(ctx, store, sum, in, content)
	})
	if in != "" && in != kept { // another process was faster, or nothing came of it
		err = cmp.Or(err, store.DeleteDocuments(context.WithoutCancel(ctx), collection(sum, in)))
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
) (in string, err error) {
	if err := note(ctx, store, sum, run); err != nil {
		return "", err
	}
	for {
		p, old, err := find(ctx, store, sum)
		if err != nil {
			return "", err
		}
		switch {
		case old == nil:
			if p.In, err = put(); err != nil {
				return "", err
			}
		case p.Mark == "":
			return p.In, nil
		}
		now := place{In: p.In}
		err = store.SwapDocument(ctx, about+sum, where, old, now.text())
		if err == nil {
			return p.In, nil
		}
		if !errors.Is(err, checkpoint.ErrConflict) {
			return "", err
		}
	}
}

// note writes down that a run has a content, unless that was done just now. An older note is written again, as it may
// be about to be removed.
func note(ctx context.Context, store checkpoint.Documents, sum, run string) error {
	text, ok, err := store.Document(ctx, about+sum, ofRun+run)
	if err != nil || ok && age(text) < fresh/2 {
		return err
	}
	return store.PutDocument(ctx, about+sum, checkpoint.Document{Name: ofRun + run, Text: stamp()})
}

func stamp() string { return time.Now().UTC().Format(time.RFC3339) }

// age returns how long ago a [stamp] was made; one that is damaged is old.
func age(stamp string) time.Duration {
	at, _ := time.Parse(time.RFC3339, stamp)
	return time.Since(at)
}

// find returns where a content is, and the text of that; nil: the store does not have it.
func find(ctx context.Context, store checkpoint.Documents, sum string) (p place, text *string, err error) {
	found, ok, err := store.Document(ctx, about+sum, where)
	if err == nil && !ok {
		if ok, err = move(ctx, store, sum); ok {
			return find(ctx, store, sum)
		}
	}
	if err != nil || !ok {
		return p, nil, err
	}
	if err = json.Unmarshal([]byte(found), &p); err == nil && p.In == "" {
		err = errors.New("it has no place")
	}
	if err != nil {
		return place{}, nil, fmt.Errorf("file %s: %w: %w", sum, checkpoint.ErrCorrupt, err)
	}
	return p, &found, nil
}

// move puts what an earlier version said about a content, in one document, into those of today. It reports whether
// there was one.
func move(ctx context.Context, store checkpoint.Documents, sum string) (was bool, err error) {
	const listed = "runs"
	text, ok, err := store.Document(ctx, about+sum, listed)
	if err != nil || !ok {
		return false, err
	}
	var old struct {
		In   string    `json:"in"`
		At   time.Time `json:"at"` // when the last run was added
		Runs []string  `json:"runs"`
	}
	if err := json.Unmarshal([]byte(text), &old); err != nil {
		return false, fmt.Errorf("file %s: %w: %w", sum, checkpoint.ErrCorrupt, err)
	}
	at := old.At.Format(time.RFC3339)
	for _, run := range old.Runs {
		err = cmp.Or(err, add(ctx, store, sum, ofRun+run, at))
	}
	err = cmp.Or(err, add(ctx, store, sum, where, *place{In: old.In}.text()))
	if err == nil {
		err = store.SwapDocument(ctx, about+sum, listed, &text, nil)
	}
	if errors.Is(err, checkpoint.ErrConflict) { // another process does the same
		err = nil
	}
	return err == nil, err
}

// add puts a document, unless the collection has it.
func add(ctx context.Context, store checkpoint.Documents, sum, name, text string) error {
	err := store.SwapDocument(ctx, about+sum, name, nil, &text)
	if errors.Is(err, checkpoint.ErrConflict) {
		return nil
	}
	return err
}

func collection(sum, in string) string { return content + sum + "/" + in }

// newID returns the name of a place, or a mark, that there never was. It says when that was.
func newID() string {
	id := make([]byte, 8)
	rand.Read(id) // which never fails
	return strconv.FormatInt(time.Now().Unix(), 10) + "-" + hex.EncodeToString(id)
}

func write(ctx context.Context, store checkpoint.Documents, sum, in string, content []byte) error {
	err := store.PutDocument(ctx, collection(sum, in), checkpoint.Document{Name: made, Text: stamp()})
	if err == nil {
		err = store.PutDocument(ctx, collection(sum, in),
			checkpoint.Document{Name: data, Text: base64.StdEncoding.EncodeToString(content)})
	}
	return err
}

// Get returns a content. checkpoint.ErrNotFound if the store does not have it, checkpoint.ErrCorrupt if it is not what
// was put.
func Get(ctx context.Context, store checkpoint.Documents, sum string) ([]byte, error) {
	p, old, err := find(ctx, store, sum)
	if err != nil {
		return nil, err
	}
	if old == nil {
		return nil, gone(sum)
	}
	text, ok, err := store.Document(ctx, collection(sum, p.In), data)
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
	runs := runs{store, map[string]bool{}}
	for _, name := range names {
		went, err := deleteUnused(ctx, runs, strings.TrimPrefix(name, about))
		if failed = append(failed, err); went {
			n++
		}
	}
	went, err := deleteLost(ctx, store)
	return n + went, errors.Join(append(failed, err)...)
}

// deleteUnused removes a content unless a run has it.
func deleteUnused(ctx context.Context, runs runs, sum string) (went bool, err error) {
	if used, err := runs.have(ctx, sum); used || err != nil {
		return false, err
	}
	p, old, err := find(ctx, runs.Store, sum)
	if err != nil || old == nil {
		return false, err
	}
	marked := place{p.In, newID()}.text()
	err = runs.SwapDocument(ctx, about+sum, where, old, marked)
	if err == nil {
		if used, err := runs.have(ctx, sum); used || err != nil { // the mark may stay
			return false, err
		}
		err = runs.SwapDocument(ctx, about+sum, where, marked, nil)
	}
	if errors.Is(err, checkpoint.ErrConflict) { // a run was given it, or another process removes it
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, runs.DeleteDocuments(ctx, collection(sum, p.In))
}

// runs are those of a store.
type runs struct {
	Store
	known map[string]bool // whether they are there, as far as it was asked
}

// have reports whether a run has a content. The notes of runs that are gone go.
func (r runs) have(ctx context.Context, sum string) (used bool, err error) {
	all, err := r.Documents(ctx, about+sum)
	if err != nil {
		return false, err
	}
	for _, d := range all {
		id, ok := strings.CutPrefix(d.Name, ofRun)
		if !ok {
			continue
		}
		if age(d.Text) < fresh {
			used = true
		} else if there, err := r.there(ctx, id); err != nil {
			return false, err
		} else if there {
			used = true
		} else if err := r.SwapDocument(ctx, about+sum, d.Name, &d.Text, nil); errors.Is(err, checkpoint.ErrConflict) {
			used = true
		} else if err != nil {
			return false, err
		}
	}
	return used, nil
}

func (r runs) there(ctx context.Context, id string) (there bool, err error) {
	if there, known := r.known[id]; known {
		return there, nil
	}
	_, _, err = r.Load(ctx, id, math.MaxInt64)
	if there = !errors.Is(err, checkpoint.ErrNotFound); there && err != nil {
		return false, err
	}
	r.known[id] = there
	return there, nil
}

// deleteLost removes contents that were put by processes which died before they said where, or while they removed them.
func deleteLost(ctx context.Context, store Store) (n int, err error) {
	names, err := store.Collections(ctx, content)
	failed := []error{err}
	for _, name := range names {
		sum, in, _ := strings.Cut(strings.TrimPrefix(name, content), "/")
		since, _, _ := strings.Cut(in, "-")
		at, err := strconv.ParseInt(since, 10, 64)
		if err != nil || time.Since(time.Unix(at, 0)) < unnamed {
			continue
		}
		p, _, err := find(ctx, store, sum)
		if err == nil && p.In != in {
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
		if _, _, err := find(ctx, from, sum); err != nil {
			return n, err
		}
		all, err := from.Documents(ctx, name)
		if err != nil {
			return n, err
		}
		for _, d := range all {
			run, ok := strings.CutPrefix(d.Name, ofRun)
			if _, _, err := to.Load(ctx, run, math.MaxInt64); !ok || errors.Is(err, checkpoint.ErrNotFound) {
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
