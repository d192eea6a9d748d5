// Package jsonl keeps the journals of runs in a folder, in a readable file for each run.
//
//	DIR/RUN.jsonl             the journal, one record a line, see checkpoint.Record.AppendLine
//	DIR/RUN.lease             who holds the run
//	DIR/RUN.signals           the signals to the holder, one per line, and which are done
//	DIR/definitions/DIGEST    the recipe of a digest
//	DIR/documents/HASH.jsonl  the documents of a collection, by the SHA-256 of its name, one a line
//
// Records that are appended together follow a line with their number, so that an incomplete
// write is never treated as complete:
//
//	{"seq":7,"at":"…","kind":"batch","data":{"records":3},"sum":"…"}
//
// Several processes may share a folder on one machine. Each write is synced to the disk before it
// returns. Prune and the first write after Claim read whole journals. So do List, Count and Pauses, but only those that
// have changed, by their size and time: the store caches up to 10,000 summaries. These methods, and each check of
// Watch for changes by other processes, twice a second, get the time of every file. If you have many runs, use a
// database.
package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// Store is a checkpoint.Store in a folder.
type Store struct {
	dir   string
	clock checkpoint.Clock

	watchers checkpoint.Watchers

	mu     sync.Mutex
	closed bool
	ends   map[string]end   // by run, of those that go on in this process
	known  map[string]known // by run, for those who ask for many
}

// end is what a writer knows of a journal. It holds while the lease does: nobody else writes then.
type end struct {
	lease checkpoint.Lease
	size  int64 // of the file
	sum   checkpoint.Summary
}

const (
	journalExt = ".jsonl"
	leaseExt   = ".lease"
	signalsExt = ".signals"
	tempMark   = ".tmp-" // in the names of files that are not whole yet
)

// maxEnds is how many journals' ends a store remembers; beyond that it rereads the journals.
const maxEnds = 10_000

// Open returns the store in a folder, which it makes if need be. One that cannot be written to can be read.
func Open(dir string) (*Store, error) {
	for _, folder := range []string{"definitions", documents} {
		err := os.MkdirAll(filepath.Join(dir, folder), 0o700)
		if isReadOnly(err) {
			_, err = os.ReadDir(dir)
		}
		if err != nil {
			return nil, fmt.Errorf("jsonl store: %w", err)
		}
	}
	return &Store{dir: dir, ends: map[string]end{}, known: map[string]known{}}, nil
}

func (s *Store) journal(runID string) string     { return filepath.Join(s.dir, runID+journalExt) }
func (s *Store) leaseFile(runID string) string   { return filepath.Join(s.dir, runID+leaseExt) }
func (s *Store) signalsFile(runID string) string { return filepath.Join(s.dir, runID+signalsExt) }

func (s *Store) definition(digest string) string {
	return filepath.Join(s.dir, "definitions", strings.ReplaceAll(digest, ":", "_"))
}

// isLocal reports whether the store may look for a file of this name: ids come from strangers. Those of runs have at
// most 128 bytes, and names of files, with what stands behind the id, at most 255.
func isLocal(name string) bool {
	return len(name) <= 200 && !strings.ContainsAny(name, "/\\\x00") && filepath.IsLocal(name)
}

// begin says whether a call may begin.
func (s *Store) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("jsonl store: %w", checkpoint.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("jsonl store: %w", err)
	}
	return nil
}

// find returns where the journal of a run is.
func (s *Store) find(ctx context.Context, runID string) (name string, err error) {
	if err := s.begin(ctx); err != nil {
		return "", err
	}
	if !isLocal(runID) {
		return "", runError(runID, fs.ErrNotExist)
	}
	if _, err := os.Lstat(s.journal(runID)); err != nil {
		return "", runError(runID, err)
	}
	return s.journal(runID), nil
}

// runError words an error about the journal of a run.
func runError(runID string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = checkpoint.ErrNotFound
	}
	return fmt.Errorf("run %q: %w", runID, err)
}

// lockRun opens a journal and locks it; closing it lets go of the lock.
func (s *Store) lockRun(ctx context.Context, runID string) (*lockedFile, error) {
	name, err := s.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	f, err := openLocked(ctx, name, os.O_RDWR)
	if err != nil {
		return nil, runError(runID, err)
	}
	return f, nil
}

// lockDir locks what runs share: their coming and going, and the definitions. Who needs a run's
// lock too takes that first.
func (s *Store) lockDir(ctx context.Context) (*lockedFile, error) {
	return openLocked(ctx, filepath.Join(s.dir, ".lock"), os.O_CREATE|os.O_RDWR)
}

// Create implements checkpoint.Store.
func (s *Store) Create(
	ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record,
) (lease checkpoint.Lease, err error) {
	if err := s.begin(ctx); err != nil {
		return lease, err
	}
	sum, recs, err := checkpoint.Begin(run, recs)
	if err != nil {
		return lease, err
	}
	defer func() {
		if err != nil {
			lease, err = checkpoint.Lease{}, fmt.Errorf("run %q: %w", run.ID, err)
		}
	}()
	text := encode(recs)
	temp, err := s.writeTemp(text)
	if err != nil {
		return lease, err
	}
	defer os.Remove(temp) // fails when all went well
	dir, err := s.lockDir(ctx)
	if err != nil {
		return lease, err
	}
	defer dir.Close()
	if _, err := os.Lstat(s.journal(run.ID)); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = checkpoint.ErrExists
		}
		return lease, err
	}
	if err := s.keepDefinition(run); err != nil {
		return lease, err
	}
	// Who died in the middle of a Delete may have left the signals of another run of that id.
	if err := os.Remove(s.signalsFile(run.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return lease, err
	}
	lease = s.clock.Give(run.ID, owner, 1, ttl)
	if err := s.writeLease(lease); err != nil {
		return lease, err
	}
	if err := s.publish(temp, s.journal(run.ID)); err != nil {
		return lease, err
	}
	s.remember(end{lease, int64(len(text)), sum})
	s.watchers.Tell(run.ID)
	return lease, nil
}

func (s *Store) keepDefinition(run checkpoint.Run) error {
	if run.Definition == nil {
		return nil
	}
	name := s.definition(run.Digest)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp, err := s.writeTemp(append(checkpoint.DefinitionLine(run), '\n'))
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	return s.publish(temp, name)
}

// Claim implements checkpoint.Store.
func (s *Store) Claim(ctx context.Context, runID, owner string, ttl time.Duration) (l checkpoint.Lease, err error) {
	err = s.clock.Watch(ctx, func() error {
		f, old, err := s.lockFree(ctx, runID)
		if err != nil {
			return err
		}
		defer f.Close()
		l, err = s.changeLease(s.clock.Give(runID, owner, old.Epoch+1, ttl))
		return err
	})
	return l, err
}

// lockFree locks a run that nobody holds, and returns its last lease.
func (s *Store) lockFree(ctx context.Context, runID string) (*lockedFile, checkpoint.Lease, error) {
	if _, err := s.find(ctx, runID); err != nil {
		return nil, checkpoint.Lease{}, err
	}
	// Who has the run does not wait for those who cannot have it.
	l, err := s.freeLease(runID)
	if err != nil {
		return nil, l, err
	}
	f, err := s.lockRun(ctx, runID)
	if err != nil {
		return nil, l, err
	}
	if l, err = s.freeLease(runID); err != nil {
		f.Close()
		return nil, l, err
	}
	return f, l, nil
}

// freeLease returns the last lease of a run, and an ErrBusy while that keeps others from it.
func (s *Store) freeLease(runID string) (checkpoint.Lease, error) {
	l, err := s.readLease(runID)
	if err == nil {
		err = s.clock.Free(l)
	}
	return l, err
}

// lockLeased locks the run that l holds.
func (s *Store) lockLeased(ctx context.Context, l checkpoint.Lease) (*lockedFile, error) {
	f, err := s.lockRun(ctx, l.RunID)
	if err != nil {
		return nil, err
	}
	now, err := s.readLease(l.RunID)
	if err == nil && !l.Newest(now) {
		s.forget(l.RunID)
		err = l.Lost(now)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Renew implements checkpoint.Store.
func (s *Store) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	f, err := s.lockLeased(ctx, l)
	if err != nil {
		return checkpoint.Lease{}, err
	}
	defer f.Close()
	return s.changeLease(s.clock.Give(l.RunID, l.Owner, l.Epoch, ttl))
}

// Release implements checkpoint.Store.
func (s *Store) Release(ctx context.Context, l checkpoint.Lease) error {
	f, err := s.lockLeased(ctx, l)
	if err != nil {
		return err
	}
	defer f.Close()
	s.forget(l.RunID)
	_, err = s.changeLease(s.clock.Give(l.RunID, "", l.Epoch+1, 0))
	s.watchers.Tell(l.RunID)
	return err
}

// Append implements checkpoint.Store.
func (s *Store) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	return s.append(ctx, l, func(sum checkpoint.Summary) (checkpoint.Summary, []checkpoint.Record, error) {
		return sum.Next(after, recs)
	})
}

// AnswerPause implements checkpoint.Store.
func (s *Store) AnswerPause(
	ctx context.Context, l checkpoint.Lease, after int64, tokenHash []byte, recs ...checkpoint.Record,
) error {
	return s.append(ctx, l, func(sum checkpoint.Summary) (checkpoint.Summary, []checkpoint.Record, error) {
		return sum.Answer(after, tokenHash, recs)
	})
}

func (s *Store) append(
	ctx context.Context, l checkpoint.Lease,
	next func(checkpoint.Summary) (checkpoint.Summary, []checkpoint.Record, error),
) error {
	f, err := s.lockLeased(ctx, l)
	if err != nil {
		return err
	}
	defer f.Close()
	e, err := s.end(f, l)
	if err != nil {
		return err
	}
	sum, recs, err := next(e.sum)
	if err != nil || len(recs) == 0 {
		return err
	}
	text := encode(recs)
	if err := extend(f.File, e.size, text); err != nil {
		s.forget(l.RunID)
		return fmt.Errorf("run %q: %w", l.RunID, err)
	}
	s.remember(end{l, e.size + int64(len(text)), sum})
	s.watchers.Tell(l.RunID)
	return nil
}

// end returns what is known of a journal's end, or reads it.
func (s *Store) end(f *lockedFile, l checkpoint.Lease) (end, error) {
	info, err := f.Stat()
	if err != nil {
		return end{}, fmt.Errorf("run %q: %w", l.RunID, err)
	}
	s.mu.Lock()
	e, ok := s.ends[l.RunID]
	s.mu.Unlock()
	if ok && l.Newest(e.lease) && e.size == info.Size() {
		return e, nil
	}
	sum, _, err := readAll(f.File, l.RunID)
	return end{l, info.Size(), sum}, err
}

func (s *Store) remember(e end) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ends) >= maxEnds {
		clear(s.ends)
	}
	if e.sum.Status == checkpoint.Running {
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

// Repair implements checkpoint.Repairer.
func (s *Store) Repair(ctx context.Context, runID string) (gone int64, err error) {
	err = s.clock.Watch(ctx, func() error {
		gone, err = s.repair(ctx, runID)
		return err
	})
	return gone, err
}

func (s *Store) repair(ctx context.Context, runID string) (int64, error) {
	f, _, err := s.lockFree(ctx, runID)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	s.forget(runID)
	text, err := text(f.File)
	if err != nil {
		return 0, fmt.Errorf("run %q: %w", runID, err)
	}
	recs, whole, err := decode(text)
	if err != nil && !errors.Is(err, errTorn) {
		return 0, fmt.Errorf("run %q: %w", runID, err)
	}
	if _, foldErr := checkpoint.Fold(runID, recs); foldErr != nil {
		return 0, foldErr
	}
	if err == nil {
		return 0, nil
	}
	if err := cut(f.File, whole); err != nil {
		return 0, fmt.Errorf("run %q: %w", runID, err)
	}
	return int64(len(text)) - whole, nil
}

// Close implements checkpoint.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.ends, s.known = true, map[string]end{}, map[string]known{}
	s.watchers.Close()
	return nil
}
