package postgres

import "github.com/braise-run/braise/checkpoint"

// maxEnds is how many journals' ends a store remembers; beyond that it rereads them.
const maxEnds = 10_000

// end is what a writer knows of a journal. A write says what it relies on, so nothing bad happens
// when the journal has moved on.
type end struct {
	lease checkpoint.Lease
	key   int64
	sum   checkpoint.Summary
}

// known returns what is remembered of the journal that l holds.
func (s *Store) known(l checkpoint.Lease) (end, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.ends[l.RunID]
	return e, ok && l.Newest(e.lease)
}

func (s *Store) remember(e end) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ends) >= maxEnds {
		clear(s.ends)
	}
	_, there := s.ends[e.lease.RunID]
	if e.sum.Status == checkpoint.Running || there && e.sum.Status.Ended() { // then Release follows
		s.ends[e.lease.RunID] = e
	} else { // what comes next, if anything, comes from the process that claims the run
		delete(s.ends, e.lease.RunID)
	}
}

func (s *Store) forget(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, runID)
}
