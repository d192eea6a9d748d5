package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
)

// PutDocument implements checkpoint.Documents.
func (s *Store) PutDocument(ctx context.Context, collection string, d checkpoint.Document) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	line, err := checkpoint.DocumentLine(collection, d)
	if err != nil {
		return err
	}
	return s.write(ctx, func(w *writer) error { return w.putDocument(collection, d.Name, line) })
}

func (w *writer) putDocument(collection, name string, line []byte) error {
	return w.exec("INSERT INTO documents (collection, name, line) VALUES (?, ?, ?) "+
		"ON CONFLICT (collection, name) DO UPDATE SET line = excluded.line", collection, name, line)
}

// Documents implements checkpoint.Documents.
func (s *Store) Documents(ctx context.Context, collection string) (all []checkpoint.Document, err error) {
	err = s.read(ctx, func(c *sqlite.Conn) error {
		if err := checkpoint.CheckCollection(collection); err != nil {
			return &refusal{err}
		}
		return query(c, func(stmt *sqlite.Stmt) error {
			d, err := checkpoint.ParseDocumentLine(collection, stmt.ColumnText(0), column(stmt, 1))
			if err != nil {
				return refuse("collection %q: %w", collection, err)
			}
			all = append(all, d)
			return nil
		}, "SELECT name, line FROM documents WHERE collection = ? ORDER BY num", collection)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Document implements checkpoint.Documents.
func (s *Store) Document(ctx context.Context, collection, name string) (text string, ok bool, err error) {
	err = s.read(ctx, func(c *sqlite.Conn) error {
		if err := (checkpoint.Document{Name: name}).Check(collection); err != nil {
			return &refusal{err}
		}
		found, err := document(c, collection, name)
		if found != nil {
			text, ok = *found, true
		}
		return err
	})
	return text, ok, err
}

// document returns the text of a document; nil: there is none.
func document(c *sqlite.Conn, collection, name string) (found *string, err error) {
	err = query(c, func(stmt *sqlite.Stmt) error {
		d, err := checkpoint.ParseDocumentLine(collection, name, column(stmt, 0))
		if err != nil {
			return refuse("collection %q: %w", collection, err)
		}
		found = &d.Text
		return nil
	}, "SELECT line FROM documents WHERE collection = ? AND name = ?", collection, name)
	return found, err
}

// SwapDocument implements checkpoint.Documents.
func (s *Store) SwapDocument(ctx context.Context, collection, name string, old, text *string) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	d := checkpoint.Document{Name: name}
	line, err := d.SwapLine(collection, text)
	if err != nil {
		return err
	}
	return s.write(ctx, func(w *writer) error {
		now, err := document(w.conn, collection, name)
		if err != nil {
			return err
		}
		if err := d.CheckSwap(now, old); err != nil {
			return refuse("collection %q: %w", collection, err)
		}
		if line == nil {
			return w.exec("DELETE FROM documents WHERE collection = ? AND name = ?", collection, name)
		}
		return w.putDocument(collection, name, line)
	})
}

// Collections implements checkpoint.Collections.
func (s *Store) Collections(ctx context.Context, prefix string) (names []string, err error) {
	err = s.read(ctx, func(c *sqlite.Conn) error {
		return query(c, func(stmt *sqlite.Stmt) error {
			names = append(names, stmt.ColumnText(0))
			return nil
		}, "SELECT DISTINCT collection FROM documents WHERE substr(collection, 1, length(?1)) = ?1 ORDER BY collection",
			prefix)
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// DeleteDocuments implements checkpoint.Documents.
func (s *Store) DeleteDocuments(ctx context.Context, collection string) error {
	return s.write(ctx, func(w *writer) error {
		if err := checkpoint.CheckCollection(collection); err != nil {
			return &refusal{err}
		}
		return w.exec("DELETE FROM documents WHERE collection = ?", collection)
	})
}
