package postgres

import (
	"bytes"
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

// Document implements checkpoint.Documents.
func (s *Store) Document(ctx context.Context, collection, name string) (text string, ok bool, err error) {
	err = s.documents(ctx, collection, (checkpoint.Document{Name: name}).Check(collection), func() error {
		now, _, err := s.document(ctx, collection, name)
		if now != nil {
			text, ok = *now, true
		}
		return err
	})
	return text, ok, err
}

// document returns the text of a document and its line; nil: there is none.
func (s *Store) document(ctx context.Context, collection, name string) (text *string, line []byte, err error) {
	err = s.reading(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, s.sql("SELECT line FROM SCHEMA.documents WHERE collection = $1 AND name = $2"),
			collection, name).Scan(&line)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	d, err := checkpoint.ParseDocumentLine(collection, name, line)
	return &d.Text, line, err
}

// SwapDocument implements checkpoint.Documents. No two lines are alike, as each has the time when it was made: so it
// knows its own one again when the connection was lost while it wrote.
func (s *Store) SwapDocument(ctx context.Context, collection, name string, old, text *string) error {
	d := checkpoint.Document{Name: name}
	line, invalid := d.SwapLine(collection, text)
	return s.documents(ctx, collection, invalid, func() error {
		for again := s.attempts(ctx, 0); ; {
			now, was, err := s.document(ctx, collection, name)
			switch {
			case err != nil:
			case again.sent && bytes.Equal(was, line): // also both nil
				return nil
			default:
				if err := d.CheckSwap(now, old); err != nil || was == nil && line == nil {
					return err
				}
				err = s.swap(ctx, collection, name, was, line)
				if errors.Is(err, errRefused) {
					continue // somebody was quicker
				}
			}
			if !again.after(err) {
				return err
			}
		}
	})
}

// swap replaces the line of a document; nil: there is none.
func (s *Store) swap(ctx context.Context, collection, name string, was, line []byte) error {
	key := collection + "\x00" + name
	switch {
	case was == nil:
		return s.send(ctx, key, addSQL, nil, collection, name, line)
	case line == nil:
		return s.send(ctx, key, dropSQL, nil, collection, name, was)
	}
	return s.send(ctx, key, swapSQL, nil, collection, name, was, line)
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
