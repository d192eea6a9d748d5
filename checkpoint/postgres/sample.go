package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
)

// Sample implements checkpoint.Sampler. It reads no summaries, but for runs that an earlier version changed last.
func (s *Store) Sample(ctx context.Context, from, to time.Time, use func(*checkpoint.Summary)) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	var older []int64
	err := s.with(ctx, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, s.sql(sampleSQL), stamp(from), stamp(to))
		var key int64
		var recipe, queue, started, status, figures string
		var owner *string // nil: nobody holds the run
		var one checkpoint.Summary
		columns := []any{&key, &recipe, &queue, &started, &status, &figures, &owner}
		_, err := pgx.ForEachRow(rows, columns, func() error {
			one.Held = owner != nil && !checkpoint.OwnerGone(*owner)
			one.Recipe, one.Queue, one.StartedAt = recipe, queue, head{started: started}.at()
			if one.SetFigures(checkpoint.Status(status), figures) {
				use(&one)
			} else {
				older = append(older, key)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("postgres store: %w", err)
	}
	var failed []error
	for keys := range slices.Chunk(older, most) {
		heads, err := s.heads(ctx, headSQL+"WHERE key = ANY($1)", keys)
		if err != nil {
			return err
		}
		for _, h := range heads {
			if sum, err := h.summary(); err != nil {
				failed = append(failed, err)
			} else {
				use(&sum)
			}
		}
	}
	return errors.Join(failed...)
}
