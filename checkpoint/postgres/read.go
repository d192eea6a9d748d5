package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
)

// head is a row of runs, as it was at a time of the server's clock.
type head struct {
	lease    checkpoint.Lease
	key, seq int64
	started  string
	line     []byte // the summary
	now      time.Time
}

func (h *head) scan(row pgx.Row) error {
	return row.Scan(&h.lease.RunID, &h.key, &h.seq, &h.started, &h.line, &h.lease.Owner, &h.lease.Epoch, &h.lease.Until, &h.now)
}

func (h head) held() bool { return h.lease.Held(h.now) }

func (h head) summary() (checkpoint.Summary, error) {
	rec, err := checkpoint.ParseLine(h.line)
	if err == nil && (rec.Kind != summaryKind || rec.Path != h.lease.RunID || rec.Seq != h.seq) {
		err = fmt.Errorf("%w: it is another one", checkpoint.ErrCorrupt)
	}
	sum := checkpoint.Summary{Held: h.held()}
	if err == nil {
		err = json.Unmarshal(rec.Data, &sum)
	}
	if err != nil {
		return checkpoint.Summary{}, fmt.Errorf("run %q: summary: %w", h.lease.RunID, err)
	}
	return sum, nil
}

// reading calls f with a connection, and once more when that turns out to be lost.
func (s *Store) reading(ctx context.Context, f func(*pgx.Conn) error) error {
	lost, err := s.with(ctx, f)
	if lost && ctx.Err() == nil {
		_, err = s.with(ctx, f)
	}
	return err
}

// head reads the row of a run.
func (s *Store) head(ctx context.Context, runID string) (head, error) {
	var h head
	err := checkID(runID)
	if err == nil {
		err = s.reading(ctx, func(conn *pgx.Conn) error {
			return h.scan(conn.QueryRow(ctx, headSQL+"WHERE id = $1", runID))
		})
	}
	return h, found("run", runID, err)
}

// checkID returns pgx.ErrNoRows for an id that no run can have: the server does not take every text.
func checkID(runID string) error {
	if (checkpoint.Run{ID: runID, Digest: "0", StartedAt: time.Unix(0, 0)}).Check() != nil {
		return pgx.ErrNoRows
	}
	return nil
}

// found returns the error of looking for something.
func found(what, name string, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		err = checkpoint.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", what, name, err)
	}
	return nil
}

// free reads the row of a run that nobody holds.
func (s *Store) free(ctx context.Context, runID string) (head, error) {
	h, err := s.head(ctx, runID)
	if err == nil && h.held() {
		err = fmt.Errorf("run %q: %w: %q", runID, checkpoint.ErrBusy, h.lease.Owner)
	}
	return h, err
}

// leased reads the row of the run that l holds.
func (s *Store) leased(ctx context.Context, l checkpoint.Lease) (head, error) {
	h, err := s.head(ctx, l.RunID)
	if err == nil && !l.Newest(h.lease) {
		s.forget(l.RunID)
		err = fmt.Errorf("run %q: %w to %q", l.RunID, checkpoint.ErrFenced, h.lease.Owner)
	}
	return h, err
}

// Load implements checkpoint.Store.
func (s *Store) Load(ctx context.Context, runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	if err := s.begin(ctx); err != nil {
		return checkpoint.Summary{}, nil, err
	}
	defer s.calls.Done()
	after = max(after, 0)
	var h head
	var texts [][]byte
	err := checkID(runID)
	if err == nil {
		err = s.reading(ctx, func(conn *pgx.Conn) error {
			snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
			return pgx.BeginTxFunc(ctx, conn, snapshot, func(tx pgx.Tx) error {
				err := h.scan(tx.QueryRow(ctx, headSQL+"WHERE id = $1", runID))
				if err != nil || after >= h.seq {
					return err
				}
				rows, _ := tx.Query(ctx, "SELECT line FROM records WHERE run = $1 AND seq > $2 ORDER BY seq", h.key, after)
				texts, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
				return err
			})
		})
	}
	if err := found("run", runID, err); err != nil {
		return checkpoint.Summary{}, nil, err
	}
	sum, err := h.summary()
	if err != nil {
		return checkpoint.Summary{}, nil, err
	}
	recs, err := parse(sum, min(after, sum.Seq), texts)
	if err != nil {
		return checkpoint.Summary{}, nil, err
	}
	return sum, recs, nil
}

// parse returns the records behind after of the journal that sum is of, and checks that they are all
// there; from the first record on, that they add up to a journal, too.
func parse(sum checkpoint.Summary, after int64, texts [][]byte) ([]checkpoint.Record, error) {
	var recs []checkpoint.Record
	for i, text := range texts {
		rec, err := checkpoint.ParseLine(text)
		if want := after + 1 + int64(i); err == nil && rec.Seq != want {
			err = fmt.Errorf("%w: record %d where %d should be", checkpoint.ErrCorrupt, rec.Seq, want)
		}
		if err != nil {
			return nil, fmt.Errorf("run %q: %w", sum.ID, err)
		}
		recs = append(recs, rec)
	}
	if end := after + int64(len(recs)); end != sum.Seq {
		return nil, fmt.Errorf("run %q: %w: its last record is %d, not %d", sum.ID, checkpoint.ErrCorrupt, end, sum.Seq)
	}
	if after == 0 {
		if _, err := checkpoint.Fold(sum.ID, recs); err != nil {
			return nil, err
		}
	}
	return recs, nil
}

// FindPause implements checkpoint.Store.
func (s *Store) FindPause(ctx context.Context, runID string, tokenHash []byte) (checkpoint.PauseInfo, error) {
	if err := s.begin(ctx); err != nil {
		return checkpoint.PauseInfo{}, err
	}
	defer s.calls.Done()
	h, err := s.head(ctx, runID)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return checkpoint.PauseInfo{}, fmt.Errorf("run %q: %w", runID, checkpoint.ErrToken)
	} else if err != nil {
		return checkpoint.PauseInfo{}, err
	}
	sum, err := h.summary()
	if err != nil {
		return checkpoint.PauseInfo{}, err
	}
	p, ok := sum.Find(tokenHash, h.now)
	if !ok {
		return checkpoint.PauseInfo{}, fmt.Errorf("run %q: %w", runID, checkpoint.ErrToken)
	}
	var line []byte
	err = s.reading(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT line FROM records WHERE run = $1 AND seq = $2", h.key, p.Seq).Scan(&line)
	})
	if err != nil {
		return checkpoint.PauseInfo{}, found("run", runID, err)
	}
	rec, err := checkpoint.ParseLine(line)
	if err == nil && rec.Seq != p.Seq {
		err = fmt.Errorf("%w: record %d where %d should be", checkpoint.ErrCorrupt, rec.Seq, p.Seq)
	}
	if err != nil {
		return checkpoint.PauseInfo{}, fmt.Errorf("run %q: %w", runID, err)
	}
	return checkpoint.PauseInfo{Summary: sum, Pause: p, Opened: rec}, nil
}

// Definition implements checkpoint.Store.
func (s *Store) Definition(ctx context.Context, digest string) (json.RawMessage, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	err := pgx.ErrNoRows
	var line []byte
	if (checkpoint.Run{ID: "0", Digest: digest, StartedAt: time.Unix(0, 0)}).Check() == nil {
		err = s.reading(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT line FROM definitions WHERE digest = $1", digest).Scan(&line)
		})
	}
	if err := found("definition", digest, err); err != nil {
		return nil, err
	}
	return checkpoint.ParseDefinitionLine(digest, line)
}

// List implements checkpoint.Store. It reads the summaries alone.
func (s *Store) List(ctx context.Context, f checkpoint.Filter) ([]checkpoint.Summary, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	var all []checkpoint.Summary
	var failed []error
	var last head
	for {
		want := max(f.Limit, 0) - len(all) // those that cannot be read leave room for others
		runs, err := s.heads(ctx, listSQL, f.Status, f.Recipe, stamp(f.DueBefore), last.started, last.lease.RunID, max(want, 0))
		if err != nil {
			return nil, err
		}
		for _, h := range runs {
			last = h
			if sum, err := h.summary(); err != nil {
				failed = append(failed, err)
			} else if f.Match(sum) {
				all = append(all, sum)
			}
		}
		if f.Limit <= 0 || len(runs) < want || len(all) >= f.Limit {
			return all, errors.Join(failed...)
		}
	}
}

// heads reads some rows of runs.
func (s *Store) heads(ctx context.Context, sql string, args ...any) ([]head, error) {
	var all []head
	err := s.reading(ctx, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, sql, args...)
		var err error
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (head, error) {
			var h head
			err := h.scan(row)
			return h, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres store: %w", err)
	}
	return all, nil
}
