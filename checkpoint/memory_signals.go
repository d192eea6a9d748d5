package checkpoint

import (
	"context"
	"fmt"
	"slices"
)

// open returns the signals that are not done.
func (r *memoryRun) open() []Signal {
	return slices.DeleteFunc(slices.Clone(r.signals), func(s Signal) bool { return s.Done })
}

// PutSignal implements Signals.
func (m *Memory) PutSignal(ctx context.Context, runID string, s Signal) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	r := m.runs[runID]
	switch {
	case r == nil:
		return fmt.Errorf("run %q: %w", runID, ErrNotFound)
	case slices.ContainsFunc(r.signals, func(o Signal) bool { return o.ID == s.ID }):
		return fmt.Errorf("run %q: signal %q: %w", runID, s.ID, ErrExists)
	case r.sum.Status.Ended():
		return fmt.Errorf("run %q: signal %q: %w: it is over", runID, s.ID, ErrConflict)
	}
	line, err := s.Line()
	if err == nil {
		s, err = ParseSignalLine(line) // bytes of its own, and the time in UTC
	}
	if err != nil {
		return fmt.Errorf("run %q: %w", runID, err)
	}
	r.signals = append(r.signals, s)
	m.watchers.Tell(runID)
	return nil
}

// Signals implements Signals. The signals share their data with the store; callers must not change it.
func (m *Memory) Signals(ctx context.Context, runID string, open bool) ([]Signal, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	switch r := m.runs[runID]; {
	case r == nil:
		return nil, fmt.Errorf("run %q: %w", runID, ErrNotFound)
	case open:
		return r.open(), nil
	default:
		return slices.Clone(r.signals), nil
	}
}

// EndSignals implements Signals.
func (m *Memory) EndSignals(ctx context.Context, l Lease, ids ...string) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	r, err := m.leased(l)
	if err != nil {
		return err
	}
	for i := range r.signals {
		r.signals[i].Done = r.signals[i].Done || slices.Contains(ids, r.signals[i].ID)
	}
	return nil
}

// Count implements Querier.
func (m *Memory) Count(ctx context.Context, f Filter, most int) (map[Phase]int, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	f.After = Cursor{}
	counts := map[Phase]int{}
	for _, r := range m.runs {
		if s := r.summary(); (most <= 0 || counts[s.Phase()] < most) && f.Match(s, r.open()...) {
			counts[s.Phase()]++
		}
	}
	return counts, nil
}

// Pauses implements Querier.
func (m *Memory) Pauses(ctx context.Context, f PauseFilter) ([]PauseInfo, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var all []PauseInfo
	for _, r := range m.runs {
		for _, p := range r.sum.Unanswered(r.open()).Pauses {
			if info := (PauseInfo{r.summary(), p, r.recs[p.Seq-1]}); f.Match(info) {
				all = append(all, info)
			}
		}
	}
	slices.SortFunc(all, f.Compare)
	if f.Limit > 0 {
		all = all[:min(f.Limit, len(all))]
	}
	return all, nil
}

// Watch implements Watcher: it calls changed at once.
func (m *Memory) Watch(ctx context.Context, changed func(runID string)) error {
	if err := m.watchers.Watch(ctx, changed, 0, nil); err != nil {
		return fmt.Errorf("memory store: %w", err)
	}
	return nil
}
