package jsonl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/regular"
)

// ended is the kind of a line that says which of the signals before it are done.
const ended checkpoint.Kind = "signals.ended"

// PutSignal implements checkpoint.Signals. It has the lock of the run's journal, as who ends the run does.
func (s *Store) PutSignal(ctx context.Context, runID string, signal checkpoint.Signal) error {
	f, err := s.lockRun(ctx, runID)
	if err != nil {
		return err
	}
	defer f.Close()
	fail := func(err error) error { return fmt.Errorf("run %q: signal %.40q: %w", runID, signal.ID, err) }
	all, size, err := s.readSignals(runID)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(o checkpoint.Signal) bool { return o.ID == signal.ID }) {
		return fail(checkpoint.ErrExists)
	}
	sum, _, err := s.look(ctx, runID)
	if err != nil {
		return err
	}
	if sum.Status.Ended() {
		return fail(fmt.Errorf("%w: the run is over", checkpoint.ErrConflict))
	}
	line, err := signal.Line()
	if err == nil {
		err = s.extendSignals(runID, size, append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("run %q: %w", runID, err)
	}
	s.watchers.Tell(runID)
	return nil
}

// Signals implements checkpoint.Signals. Like Load, it does not wait for who writes.
func (s *Store) Signals(ctx context.Context, runID string, open bool) ([]checkpoint.Signal, error) {
	if _, err := s.find(ctx, runID); err != nil {
		return nil, err
	}
	all, _, err := s.readSignals(runID)
	if open {
		all = slices.DeleteFunc(all, func(o checkpoint.Signal) bool { return o.Done })
	}
	return all, err
}

// EndSignals implements checkpoint.Signals.
func (s *Store) EndSignals(ctx context.Context, l checkpoint.Lease, ids ...string) error {
	f, err := s.lockLeased(ctx, l)
	if err != nil {
		return err
	}
	defer f.Close()
	all, size, err := s.readSignals(l.RunID)
	if err != nil {
		return err
	}
	var now []string
	for _, o := range all {
		if !o.Done && slices.Contains(ids, o.ID) {
			now = append(now, o.ID)
		}
	}
	if now == nil {
		return nil
	}
	rec, err := checkpoint.NewRecord(time.Now(), ended, "", map[string]any{"ids": now})
	if err == nil {
		rec.Seq = 1
		err = s.extendSignals(l.RunID, size, append(rec.AppendLine(nil), '\n'))
	}
	if err != nil {
		return fmt.Errorf("run %q: signals: %w", l.RunID, err)
	}
	return nil
}

// readSignals returns the signals of a run, and how many bytes of their file are whole lines: what is behind them is of
// a write that goes on, or that somebody died in.
func (s *Store) readSignals(runID string) (all []checkpoint.Signal, size int64, err error) {
	text, err := regular.ReadFile(s.signalsFile(runID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("run %q: signals: %w", runID, err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	all, err = decodeSignals(text)
	if err != nil {
		return nil, 0, fmt.Errorf("run %q: signals: %w", runID, err)
	}
	return all, int64(len(text)), nil
}

// decodeSignals reads the lines of a file of signals.
func decodeSignals(text []byte) (all []checkpoint.Signal, err error) {
	n := 0
	for line := range bytes.Lines(text) {
		line, n = bytes.TrimSuffix(line, []byte("\n")), n+1
		if rec, err := checkpoint.ParseLine(line); err == nil && rec.Kind == ended {
			if err := endSignals(all, rec); err != nil {
				return nil, err
			}
			continue
		}
		signal, err := checkpoint.ParseSignalLine(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", n, err)
		case slices.ContainsFunc(all, func(o checkpoint.Signal) bool { return o.ID == signal.ID }):
			return nil, fmt.Errorf("%w: signal %q appears there twice", checkpoint.ErrCorrupt, signal.ID)
		}
		all = append(all, signal)
	}
	return all, nil
}

// endSignals carries out a line that says which signals are done.
func endSignals(all []checkpoint.Signal, rec checkpoint.Record) error {
	var data struct{ IDs []string }
	if err := json.Unmarshal(rec.Data, &data); err != nil {
		return fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	for _, id := range data.IDs {
		i := slices.IndexFunc(all, func(o checkpoint.Signal) bool { return o.ID == id })
		if i < 0 {
			return fmt.Errorf("%w: signal %q is done, but was never left", checkpoint.ErrCorrupt, id)
		}
		all[i].Done = true
	}
	return nil
}

// extendSignals adds a line behind the whole lines of a run's signals, and syncs it.
func (s *Store) extendSignals(runID string, size int64, line []byte) error {
	f, err := regular.OpenFile(s.signalsFile(runID), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size() > size {
		err = cut(f, size)
	}
	if err == nil {
		err = extend(f, size, line)
	}
	if err == nil && size == 0 { // the file may be new
		err = syncDir(s.dir)
	}
	return err
}
