package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// Delete implements checkpoint.Store.
func (s *Store) Delete(ctx context.Context, runID string) error {
	return s.clock.Watch(ctx, func() error {
		f, _, err := s.lockFree(ctx, runID)
		if err != nil {
			return err
		}
		defer f.Close()
		return s.remove(ctx, f, runID)
	})
}

// remove removes a run that is locked. The journal goes first: without it there is no run.
func (s *Store) remove(ctx context.Context, f *lockedFile, runID string) error {
	dir, err := s.lockDir(ctx)
	if err != nil {
		return fmt.Errorf("run %q: %w", runID, err)
	}
	defer dir.Close()
	s.forget(runID)
	if runtime.GOOS == "windows" {
		f.File.Close() // or it could not be removed; the lock is another file there
	}
	err = os.Remove(s.journal(runID))
	for _, name := range []string{s.leaseFile(runID), s.signalsFile(runID)} {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = os.Remove(name)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("run %q: %w", runID, err)
	}
	return syncDir(s.dir)
}

// Prune implements checkpoint.Store. It also removes files that a process left when it died in
// the middle of a Create. While a journal cannot be read, no definition goes.
func (s *Store) Prune(ctx context.Context, before time.Time, statuses ...checkpoint.Status) (int, error) {
	ids, err := s.runs(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	var failed []error
	for _, id := range ids {
		switch pruned, err := s.prune(ctx, id, before, statuses); {
		case pruned:
			n++
		case ctx.Err() != nil:
			return n, err
		case err != nil && !errors.Is(err, checkpoint.ErrBusy) && !errors.Is(err, checkpoint.ErrNotFound):
			failed = append(failed, err)
		}
	}
	if failed == nil {
		return n, s.sweep(ctx)
	}
	return n, errors.Join(failed...)
}

// prune removes one run, if it may go.
func (s *Store) prune(ctx context.Context, runID string, before time.Time, statuses []checkpoint.Status) (bool, error) {
	f, _, err := s.lockFree(ctx, runID)
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum, _, err := readAll(f.File, runID)
	if err != nil || !sum.Prunable(before, statuses) {
		return false, err
	}
	err = s.remove(ctx, f, runID)
	return err == nil, err
}

// sweep removes the definitions that no run refers to, and unfinished files of the dead.
func (s *Store) sweep(ctx context.Context) error {
	dir, err := s.lockDir(ctx)
	if err != nil {
		return fmt.Errorf("jsonl store: %w", err)
	}
	defer dir.Close()
	ids, err := s.runs(ctx)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, id := range ids {
		// Not through Load: the holder of the journal's lock may be waiting for the folder's.
		digest, err := digestOf(s.journal(id))
		if err != nil {
			return fmt.Errorf("run %q: %w", id, err)
		}
		keep[s.definition(digest)] = true
	}
	names, _ := filepath.Glob(filepath.Join(s.dir, "definitions", "*"))
	temps, _ := filepath.Glob(filepath.Join(s.dir, tempMark+"*"))
	for _, name := range slices.Concat(names, temps) {
		info, err := os.Lstat(name)
		unfinished := strings.HasPrefix(filepath.Base(name), tempMark)
		if err != nil || keep[name] || info.IsDir() || unfinished && time.Since(info.ModTime()) < time.Hour {
			continue
		}
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("jsonl store: %w", err)
		}
	}
	return nil
}
