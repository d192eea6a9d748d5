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
	return s.write(ctx, func(w *writer) error {
		return w.exec("INSERT INTO documents (collection, name, line) VALUES (?, ?, ?) "+
			"ON CONFLICT (collection, name) DO UPDATE SET line = excluded.line", collection, d.Name, line)
	})
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
