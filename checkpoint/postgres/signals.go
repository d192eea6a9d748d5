package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
)

var ended = []checkpoint.Status{checkpoint.OK, checkpoint.Failed, checkpoint.Cancelled}

// PutSignal implements checkpoint.Signals.
func (s *Store) PutSignal(ctx context.Context, runID string, signal checkpoint.Signal) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	line, invalid := signal.Line()
	call := rand.Text()
	for again := s.attempts(ctx, 0); ; {
		err := errRefused
		if invalid == nil && isID(runID) {
			err = s.write(ctx, runID, signalSQL, nil, runID, signal.ID, line, call, ended)
		}
		if errors.Is(err, errRefused) {
			err = s.refusal(ctx, runID, signal.ID, call, invalid)
		}
		if !errors.Is(err, errRefused) && !again.after(err) {
			return again.failed(err)
		}
	}
}

// refusal says why a signal was not taken; nil when the call did put it, on a connection that was lost.
func (s *Store) refusal(ctx context.Context, runID, id, call string, invalid error) error {
	h, err := s.head(ctx, runID)
	if err != nil {
		return err
	}
	rows, err := s.signals(ctx, runID)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.ID != nil && *row.ID == id {
			if *row.Call == call {
				return nil
			}
			return fmt.Errorf("run %q: signal %q: %w", runID, id, checkpoint.ErrExists)
		}
	}
	sum, err := h.summary()
	switch {
	case err != nil:
		return err
	case sum.Status.Ended():
		return fmt.Errorf("run %q: signal %q: %w: it is over", runID, id, checkpoint.ErrConflict)
	case invalid != nil:
		return fmt.Errorf("run %q: %w", runID, invalid)
	}
	return errRefused // and the reason is gone
}

// signalRow is a signal of a run; without an ID: it has none.
type signalRow struct {
	ID   *string
	Line []byte
	Call *string
	Done *bool
}

// signals reads the signals of a run.
func (s *Store) signals(ctx context.Context, runID string) (all []signalRow, err error) {
	err = s.reading(ctx, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, s.sql(signalsSQL), runID)
		var err error
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[signalRow])
		return err
	})
	return all, err
}

// Signals implements checkpoint.Signals.
func (s *Store) Signals(ctx context.Context, runID string, open bool) ([]checkpoint.Signal, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	var rows []signalRow
	var err error
	switch {
	case !isID(runID):
	case open:
		rows, err = s.open(ctx, runID)
	default:
		rows, err = s.signals(ctx, runID)
	}
	if err == nil && len(rows) == 0 {
		err = pgx.ErrNoRows
	}
	if err := found("run", runID, err); err != nil {
		return nil, err
	}
	var all []checkpoint.Signal
	for _, row := range rows {
		if row.ID == nil {
			break
		}
		signal, err := checkpoint.ParseSignalLine(row.Line)
		if err == nil && signal.ID != *row.ID {
			err = checkpoint.ErrCorrupt
		}
		if err != nil {
			return nil, fmt.Errorf("run %q: signal %q: %w", runID, *row.ID, err)
		}
		signal.Done = *row.Done
		all = append(all, signal)
	}
	return all, nil
}

// EndSignals implements checkpoint.Signals.
func (s *Store) EndSignals(ctx context.Context, l checkpoint.Lease, ids ...string) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !isText(id) })
	for again := s.attempts(ctx, l.Length); ; {
		var key int64
		err := errRefused
		if isID(l.RunID) {
			err = s.write(ctx, l.RunID, endSignalsSQL, []any{&key}, l.RunID, l.Epoch, l.Owner, ids)
		}
		if errors.Is(err, errRefused) {
			_, err = s.leased(ctx, l)
			if err == nil {
				continue // it was another's for a moment
			}
		}
		if !again.after(err) {
			return again.failed(err)
		}
	}
}

// unanswered reports whether a pause has no answer among the open signals of its run.
func (s *Store) unanswered(ctx context.Context, h head, p checkpoint.Pause) (bool, error) {
	var answered bool
	err := s.reading(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, s.sql(answeredSQL), h.key, p.AnswerID()).Scan(&answered)
	})
	if err != nil {
		return false, fmt.Errorf("run %q: %w", h.lease.RunID, err)
	}
	return !answered, nil
}
