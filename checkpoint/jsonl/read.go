package jsonl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/regular"
)

// Load implements checkpoint.Store. It does not wait for who writes, as that process may be stopped: it returns what
// was there before.
func (s *Store) Load(ctx context.Context, runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	sum, recs, lease, err := s.load(ctx, runID)
	if err != nil {
		return checkpoint.Summary{}, nil, err
	}
	sum.Held = s.clock.Held(lease)
	return sum, recs[min(max(after, 0), int64(len(recs))):], nil
}

// load returns a run as it was at one moment: its summary but for Held, its records and its lease.
func (s *Store) load(
	ctx context.Context, runID string,
) (sum checkpoint.Summary, recs []checkpoint.Record, lease checkpoint.Lease, err error) {
	for {
		name, err := s.find(ctx, runID)
		if err != nil {
			return sum, nil, lease, err
		}
		was, err := s.readLease(runID)
		if err != nil {
			return sum, nil, lease, err
		}
		sum, recs, err := s.read(ctx, name, runID)
		if err != nil {
			return sum, nil, lease, err
		}
		lease, err := s.readLease(runID)
		if err != nil || was.Newest(lease) { // the journal is of its time
			return sum, recs, lease, err
		}
	}
}

// read reads a journal to which somebody may be writing.
func (s *Store) read(
	ctx context.Context, name, runID string,
) (checkpoint.Summary, []checkpoint.Record, error) {
	f, err := regular.Open(name)
	if err != nil {
		return checkpoint.Summary{}, nil, runError(runID, err)
	}
	defer f.Close()
	text, err := text(f)
	if err != nil {
		return checkpoint.Summary{}, nil, runError(runID, err)
	}
	recs, _, err := decode(text)
	if err != nil {
		unlock, lockErr := tryLock(f)
		switch {
		case lockErr != nil:
			return checkpoint.Summary{}, nil, runError(runID, lockErr)
		case unlock != nil:
			defer unlock()
			return readAll(f, runID)
		case errors.Is(err, errTorn):
			err = nil // the end is on its way
		}
	}
	return fold(runID, recs, err)
}

// FindPause implements checkpoint.Store.
func (s *Store) FindPause(ctx context.Context, runID string, tokenHash []byte) (checkpoint.PauseInfo, error) {
	open, err := s.Signals(ctx, runID, true)
	var sum checkpoint.Summary
	var recs []checkpoint.Record
	if err == nil {
		sum, recs, err = s.Load(ctx, runID, 0)
	}
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return checkpoint.PauseInfo{}, err
	}
	p, ok := sum.Unanswered(open).Find(tokenHash, time.Now())
	if !ok {
		return checkpoint.PauseInfo{}, fmt.Errorf("run %q: %w", runID, checkpoint.ErrToken)
	}
	return checkpoint.PauseInfo{Summary: sum, Pause: p, Opened: recs[p.Seq-1]}, nil
}

// Definition implements checkpoint.Store.
func (s *Store) Definition(ctx context.Context, digest string) (json.RawMessage, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	err := fs.ErrNotExist
	var text []byte
	if isLocal(digest) {
		text, err = regular.ReadFile(s.definition(digest))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("definition %q: %w", digest, checkpoint.ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("definition %q: %w", digest, err)
	}
	line, ok := strings.CutSuffix(string(text), "\n")
	if !ok {
		return nil, fmt.Errorf("definition %q: %w: it is cut short", digest, checkpoint.ErrCorrupt)
	}
	return checkpoint.ParseDefinitionLine(digest, []byte(line))
}

// runs returns the ids of all runs, sorted.
func (s *Store) runs(ctx context.Context) ([]string, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("jsonl store: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), journalExt); ok && !strings.HasPrefix(id, ".") {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
