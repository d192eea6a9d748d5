package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
)

// PutDocument implements checkpoint.Documents.
func (s *Store) PutDocument(ctx context.Context, collection string, d checkpoint.Document) error {
	line, err := checkpoint.DocumentLine(collection, d)
	return s.documents(ctx, collection, err, func() error {
		for again := s.attempts(ctx, 0); ; {
			err := s.send(ctx, collection+"\x00"+d.Name, putSQL, nil, collection, d.Name, line)
			if !again.after(err) {
				return err
			}
		}
	})
}

// Documents implements checkpoint.Documents.
func (s *Store) Documents(ctx context.Context, collection string) (all []checkpoint.Document, err error) {
	err = s.documents(ctx, collection, checkpoint.CheckCollection(collection), func() error {
		return s.reading(ctx, func(conn *pgx.Conn) error {
			rows, _ := conn.Query(ctx,
				s.sql("SELECT name, line FROM SCHEMA.documents WHERE collection = $1 ORDER BY num"), collection)
			all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (checkpoint.Document, error) {
				var name string
				var line []byte
				if err := row.Scan(&name, &line); err != nil {
					return checkpoint.Document{}, err
				}
				return checkpoint.ParseDocumentLine(collection, name, line)
			})
			return err
		})
	})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all, nil
}

// Collections implements checkpoint.Collections.
func (s *Store) Collections(ctx context.Context, prefix string) (names []string, err error) {
	err = s.documents(ctx, prefix, nil, func() error {
		return s.reading(ctx, func(conn *pgx.Conn) error {
			rows, _ := conn.Query(ctx, s.sql("SELECT DISTINCT collection FROM SCHEMA.documents "+
				"WHERE starts_with(collection, $1) ORDER BY collection"), prefix)
			names, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	})
	return names, err
}

// DeleteDocuments implements checkpoint.Documents.
func (s *Store) DeleteDocuments(ctx context.Context, collection string) error {
	return s.documents(ctx, collection, checkpoint.CheckCollection(collection), func() error {
		err := s.send(ctx, collection, removeSQL, nil, collection)
		if errors.Is(err, errRefused) {
			return nil // there was nothing
		}
		return err
	})
}

// documents makes a call that is about a collection, unless there is a reason to refuse; invalid is one.
func (s *Store) documents(ctx context.Context, collection string, invalid error, call func() error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	if invalid != nil {
		return invalid
	}
	if err := call(); err != nil {
		return fmt.Errorf("collection %q: %w", collection, err)
	}
	return nil
}
