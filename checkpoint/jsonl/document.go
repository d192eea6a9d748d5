package jsonl

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/regular"
)

// documents is the folder of the collections. Their files are never changed, only replaced.
const documents = "documents"

func (s *Store) collection(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(s.dir, documents, hex.EncodeToString(sum[:])+journalExt)
}

// PutDocument implements checkpoint.Documents. It rewrites the whole collection.
func (s *Store) PutDocument(ctx context.Context, collection string, d checkpoint.Document) error {
	line, err := checkpoint.DocumentLine(collection, d)
	return s.inDocuments(ctx, collection, err, func() error {
		all, lines, err := s.readDocuments(collection)
		if err != nil {
			return err
		}
		if at := indexOf(all, d.Name); at >= 0 {
			lines[at] = line
		} else {
			lines = append(lines, line)
		}
		return s.writeDocuments(collection, lines)
	})
}

// indexOf returns the index of a document among others, or -1.
func indexOf(all []checkpoint.Document, name string) int {
	return slices.IndexFunc(all, func(d checkpoint.Document) bool { return d.Name == name })
}

// writeDocuments replaces a collection.
func (s *Store) writeDocuments(collection string, lines [][]byte) error {
	if len(lines) == 0 {
		return s.removeDocuments(collection)
	}
	temp, err := s.writeTemp(append(bytes.Join(lines, []byte("\n")), '\n'))
	if err != nil {
		return err
	}
	if err := os.Rename(temp, s.collection(collection)); err != nil {
		os.Remove(temp)
		return err
	}
	return syncDir(filepath.Join(s.dir, documents))
}

func (s *Store) removeDocuments(collection string) error {
	err := os.Remove(s.collection(collection))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncDir(filepath.Join(s.dir, documents))
	}
	return err
}

// DeleteDocuments implements checkpoint.Documents.
func (s *Store) DeleteDocuments(ctx context.Context, collection string) error {
	return s.inDocuments(ctx, collection, checkpoint.CheckCollection(collection),
		func() error { return s.removeDocuments(collection) })
}

// Document implements checkpoint.Documents. It reads the whole collection, without a lock.
func (s *Store) Document(ctx context.Context, collection, name string) (string, bool, error) {
	err := s.begin(ctx)
	if err == nil {
		err = (checkpoint.Document{Name: name}).Check(collection)
	}
	if err != nil {
		return "", false, err
	}
	all, _, err := s.readDocuments(collection)
	if err != nil {
		return "", false, fmt.Errorf("collection %q: %w", collection, err)
	}
	if at := indexOf(all, name); at >= 0 {
		return all[at].Text, true, nil
	}
	return "", false, nil
}

// SwapDocument implements checkpoint.Documents. It rewrites the whole collection.
func (s *Store) SwapDocument(ctx context.Context, collection, name string, old, text *string) error {
	d := checkpoint.Document{Name: name}
	line, invalid := d.SwapLine(collection, text)
	return s.inDocuments(ctx, collection, invalid, func() error {
		all, lines, err := s.readDocuments(collection)
		if err != nil {
			return err
		}
		var now *string
		at := indexOf(all, name)
		if at >= 0 {
			now = &all[at].Text
		} else {
			at = len(lines)
		}
		if err := d.CheckSwap(now, old); err != nil {
			return err
		}
		var next [][]byte
		if line != nil {
			next = [][]byte{line}
		}
		return s.writeDocuments(collection, slices.Replace(lines, at, min(at+1, len(lines)), next...))
	})
}

// inDocuments calls f while nobody else writes to the folder, unless there is a reason to refuse; invalid is one.
func (s *Store) inDocuments(ctx context.Context, collection string, invalid error, f func() error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	if invalid != nil {
		return invalid
	}
	lock, err := openLocked(ctx, filepath.Join(s.dir, documents, ".lock"), os.O_CREATE|os.O_RDWR)
	if err == nil {
		err = f()
		lock.Close()
	}
	if err != nil {
		return fmt.Errorf("collection %q: %w", collection, err)
	}
	return nil
}

// Documents implements checkpoint.Documents. It needs no lock.
func (s *Store) Documents(ctx context.Context, collection string) ([]checkpoint.Document, error) {
	err := s.begin(ctx)
	if err == nil {
		err = checkpoint.CheckCollection(collection)
	}
	if err != nil {
		return nil, err
	}
	all, _, err := s.readDocuments(collection)
	if err != nil {
		return nil, fmt.Errorf("collection %q: %w", collection, err)
	}
	return all, nil
}

// Collections implements checkpoint.Collections. The name of a collection is in each of its lines, so the first line of
// all files is read; one in which that is damaged is an error.
func (s *Store) Collections(ctx context.Context, prefix string) ([]string, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, documents))
	if err != nil {
		return nil, fmt.Errorf("collections: %w", err)
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) != journalExt {
			continue
		}
		line, err := firstLine(filepath.Join(s.dir, documents, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was deleted meanwhile
		}
		var data struct{ Collection string }
		rec, parseErr := checkpoint.ParseLine(line)
		if err = cmp.Or(err, parseErr); err == nil {
			err = json.Unmarshal(rec.Data, &data)
		}
		if err != nil {
			return nil, fmt.Errorf("collection in %s: %w", e.Name(), err)
		}
		if strings.HasPrefix(data.Collection, prefix) {
			names = append(names, data.Collection)
		}
	}
	slices.Sort(names)
	return names, nil
}

// firstLine reads the first line of a file.
func firstLine(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadBytes('\n')
	if err == io.EOF { // which the line says
		err = nil
	}
	return bytes.TrimSuffix(line, []byte("\n")), err
}

// readDocuments returns the documents of a collection and the line of each.
func (s *Store) readDocuments(collection string) (all []checkpoint.Document, lines [][]byte, err error) {
	text, err := regular.ReadFile(s.collection(collection))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	for line := range bytes.Lines(text) {
		line, whole := bytes.CutSuffix(line, []byte("\n"))
		d, err := checkpoint.ParseDocumentLine(collection, "", line)
		switch {
		case err != nil:
			return nil, nil, err
		case !whole || seen[d.Name]:
			return nil, nil, fmt.Errorf("document %q: %w", d.Name, checkpoint.ErrCorrupt)
		}
		seen[d.Name] = true
		all, lines = append(all, d), append(lines, line)
	}
	return all, lines, nil
}
