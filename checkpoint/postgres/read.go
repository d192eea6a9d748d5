package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
)

// head is a row of runs, as it was at a time of the server's clock.
type head struct {
	lease            checkpoint.Lease
	key, seq         int64
	started, updated string
	line             []byte // the summary
	now              time.Time
}

// fields are where the columns of headSQL go.
func (h *head) fields() []any {
	return []any{&h.lease.RunID, &h.key, &h.started, &h.seq, &h.updated, &h.line,
		&h.lease.Owner, &h.lease.Epoch, &h.lease.Until, &h.now}
}

func (h *head) scan(row pgx.Row) error { return row.Scan(h.fields()...) }

func scanHead(row pgx.CollectableRow) (head, error) {
	var h head
	err := h.scan(row)
	return h, err
}

// at is when the run started.
func (h head) at() time.Time {
	at, _ := time.Parse(time.RFC3339Nano, h.started)
	return at
}

func (h head) held() bool { return h.lease.Held(h.now) }

func (h head) summary() (checkpoint.Summary, error) {
	sum := checkpoint.Summary{Held: h.held()}
	rec, err := checkpoint.ParseLine(h.line)
	if err == nil {
		err = json.Unmarshal(rec.Data, &sum)
	}
	sum.Seq = h.seq
	sum.UpdatedAt, _ = time.Parse(time.RFC3339Nano, h.updated[:min(stampLen, len(h.updated))])
	if err == nil && (rec.Kind != summaryKind || rec.Path != h.lease.RunID || mark(sum) != h.updated) {
		err = checkpoint.ErrCorrupt
	}
	if err != nil {
		return checkpoint.Summary{}, fmt.Errorf("run %q: summary: %w", h.lease.RunID, err)
	}
	return sum, nil
}

// reading calls f with a connection, and once more when that turns out to be lost.
func (s *Store) reading(ctx context.Context, f func(*pgx.Conn) error) error {
	err := s.with(ctx, f)
	if a, ok := errors.AsType[*away](err); ok && a.sent && ctx.Err() == nil {
		err = s.with(ctx, f)
	}
	return err
}

// isID reports whether a run may have the id; others may be texts that the server does not take.
func isID(runID string) bool {
	return checkpoint.Run{ID: runID, Digest: "0", StartedAt: time.Unix(0, 0)}.Check() == nil
}

// head reads the row of a run.
func (s *Store) head(ctx context.Context, runID string) (head, error) {
	var h head
	err := pgx.ErrNoRows
	if isID(runID) {
		err = s.reading(ctx, func(conn *pgx.Conn) error {
			return h.scan(conn.QueryRow(ctx, s.sql(headSQL+"WHERE id = $1"), runID))
		})
	}
	return h, found("run", runID, err)
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
		err = checkpoint.Busy(runID, h.lease.Owner)
	}
	return h, err
}

// leased reads the row of the run that l holds.
func (s *Store) leased(ctx context.Context, l checkpoint.Lease) (head, error) {
	h, err := s.head(ctx, l.RunID)
	if err == nil && !l.Newest(h.lease) {
		s.forget(l.RunID)
		err = l.Lost(h.lease)
	}
	return h, err
}

// Load implements checkpoint.Store.
func (s *Store) Load(ctx context.Context, runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	if err := s.begin(ctx); err != nil {
		return checkpoint.Summary{}, nil, err
	}
	defer s.calls.Done()
	_, sum, recs, err := s.load(ctx, runID, after)
	return sum, recs, err
}

func (s *Store) load(
	ctx context.Context, runID string, after int64,
) (head, checkpoint.Summary, []checkpoint.Record, error) {
	for {
		h, err := s.head(ctx, runID)
		if err != nil {
			return h, checkpoint.Summary{}, nil, err
		}
		sum, err := h.summary()
		if err != nil {
			return h, checkpoint.Summary{}, nil, err
		}
		var text []byte
		after := min(max(after, 0), sum.Seq)
		if after < sum.Seq {
			text, err = s.lines(ctx, h, after)
		}
		var recs []checkpoint.Record
		if err == nil {
			recs, err = parse(sum, after, text)
		}
		if err == nil {
			return h, sum, recs, nil
		}
		// Was there not enough because the run was just deleted?
		if now, nowErr := s.head(ctx, runID); nowErr == nil && now.key == h.key {
			return h, checkpoint.Summary{}, nil, fmt.Errorf("run %q: %w", runID, err)
		}
	}
}

// lines reads the writes to a journal that end behind after.
func (s *Store) lines(ctx context.Context, h head, after int64) (text []byte, err error) {
	err = s.reading(ctx, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx,
			s.sql("SELECT lines FROM SCHEMA.records WHERE run = $1 AND seq > $2 AND seq <= $3 ORDER BY seq"),
			h.key, after, h.seq)
		texts, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		text = bytes.Join(texts, nil)
		return err
	})
	return text, err
}

// parse returns the records behind after of the journal that sum is of, and checks that they are all
// there; from the first record on, that they add up to a journal, too.
func parse(sum checkpoint.Summary, after int64, text []byte) ([]checkpoint.Record, error) {
	var recs []checkpoint.Record
	for line := range bytes.Lines(text) {
		rec, err := checkpoint.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return nil, err
		}
		if len(recs) == 0 && rec.Seq <= after {
			continue // in one write with those that are wanted
		}
		recs = append(recs, rec)
		if want := after + int64(len(recs)); rec.Seq != want {
			return nil, fmt.Errorf("%w: record %d where %d should be", checkpoint.ErrCorrupt, rec.Seq, want)
		}
	}
	if end := after + int64(len(recs)); end != sum.Seq {
		return nil, fmt.Errorf("%w: its last record is %d, not %d", checkpoint.ErrCorrupt, end, sum.Seq)
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
	h, sum, _, err := s.load(ctx, runID, math.MaxInt64)
	var recs []checkpoint.Record
	p, ok := sum.Find(tokenHash, h.now)
	if err == nil && ok {
		ok, err = s.unanswered(ctx, h, p)
	}
	if err == nil && ok {
		var again head // it may be another run of that id by now
		if again, _, recs, err = s.load(ctx, runID, p.Seq-1); again.key != h.key {
			ok = false
		}
	}
	if errors.Is(err, checkpoint.ErrNotFound) || err == nil && (!ok || len(recs) == 0) {
		err = fmt.Errorf("run %q: %w", runID, checkpoint.ErrToken)
	}
	if err != nil {
		return checkpoint.PauseInfo{}, err
	}
	return checkpoint.PauseInfo{Summary: sum, Pause: p, Opened: recs[0]}, nil
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
			sql := s.sql("SELECT line FROM SCHEMA.definitions WHERE digest = $1")
			return conn.QueryRow(ctx, sql, digest).Scan(&line)
		})
	}
	if err := found("definition", digest, err); err != nil {
		return nil, err
	}
	return checkpoint.ParseDefinitionLine(digest, line)
}

// heads reads some rows of runs.
func (s *Store) heads(ctx context.Context, sql string, args ...any) ([]head, error) {
	var all []head
	err := s.reading(ctx, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, s.sql(sql), args...)
		var err error
		all, err = pgx.CollectRows(rows, scanHead)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres store: %w", err)
	}
	return all, nil
}
