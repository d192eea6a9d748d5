package jsonl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// age makes the files of a run look as if nobody had changed them for an hour.
func age(t testing.TB, s *Store, runID string) {
	t.Helper()
	hour := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, name := range []string{s.journal(runID), s.leaseFile(runID), s.signalsFile(runID)} {
		if err := os.Chtimes(name, hour, hour); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// List does not read what did not change. Who writes shows in the size of a file, or in its time.
func TestListReadsWhatChanged(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	l, rec := begin(t, s)
	list := func(filter checkpoint.Filter) ([]checkpoint.Summary, error) { return s.List(t.Context(), filter) }
	age(t, s, "run")
	if all, err := list(checkpoint.Filter{}); err != nil || len(all) != 1 || all[0].Held {
		t.Fatalf("List: %v, %v", all, err)
	}
	flip := func(text string) string { return strings.Replace(text, "greet", "greed", 1) }
	edit(t, s.journal("run"), flip) // a byte on the disk has changed, and neither size nor time
	age(t, s, "run")
	for _, list := range []func() (int, error){
		func() (int, error) { all, err := list(checkpoint.Filter{Recipe: "greet"}); return len(all), err },
		func() (int, error) {
			n, err := s.Count(t.Context(), checkpoint.Filter{Recipe: "greet"}, 0)
			return n[checkpoint.PhaseInterrupted], err
		},
	} {
		if n, err := list(); err != nil || n != 1 {
			t.Errorf("%d runs, %v: the journal was read again", n, err)
		}
	}
	now := time.Now()
	if err := os.Chtimes(s.journal("run"), now, now); err != nil {
		t.Fatal(err)
	}
	if all, err := list(checkpoint.Filter{}); !errors.Is(err, checkpoint.ErrCorrupt) || len(all) != 0 {
		t.Errorf("List of a damaged journal: %v, %v", all, err)
	}
	edit(t, s.journal("run"), func(text string) string { return strings.Replace(text, "greed", "greet", 1) })

	for _, tt := range []struct {
		what   string
		change func() error
		filter checkpoint.Filter
	}{
		{"a record", func() error { return s.Append(t.Context(), l, 2, rec) }, checkpoint.Filter{}},
		{"a signal", func() error { return s.PutSignal(t.Context(), "run", left("a")) }, checkpoint.Filter{Signalled: true}},
		{"a lease", func() error { _, err := s.Renew(t.Context(), l, time.Hour); return err },
			checkpoint.Filter{Phases: []checkpoint.Phase{checkpoint.PhaseRunning}}},
	} {
		age(t, s, "run")
		if all, err := list(checkpoint.Filter{}); err != nil || len(all) != 1 {
			t.Fatalf("before %s: %v, %v", tt.what, all, err)
		}
		if err := tt.change(); err != nil {
			t.Fatal(err)
		}
		if all, err := list(tt.filter); err != nil || len(all) != 1 {
			t.Errorf("after %s: %v, %v", tt.what, all, err)
		}
	}
	if all, _ := list(checkpoint.Filter{}); all[0].Seq != 3 {
		t.Errorf("List shows %d records, want 3", all[0].Seq)
	}

	// What is gone is forgotten.
	if _, err := s.Renew(t.Context(), l, 0); err != nil {
		t.Fatal(err)
	}
	age(t, s, "run")
	list(checkpoint.Filter{})
	if len(s.known) != 1 {
		t.Errorf("it knows %d runs", len(s.known))
	}
	if err := s.Delete(t.Context(), "run"); err != nil {
		t.Fatal(err)
	}
	if all, err := list(checkpoint.Filter{}); err != nil || len(all) != 0 || len(s.known) != 0 {
		t.Errorf("after Delete: %v, %v; it knows %d runs", all, err, len(s.known))
	}
}

// A folder that cannot be read does not end a Watch: who reads then finds out.
func TestWatchWithoutFolder(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan string)
	ended := make(chan error)
	go func() { ended <- s.Watch(ctx, func(id string) { told <- id }) }()
	<-told // it is ready
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if id := <-told; id != "" {
		t.Errorf("run %q has changed", id)
	}
	cancel()
	for {
		select {
		case <-told:
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return
		}
	}
}

func BenchmarkList(b *testing.B) {
	s, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for i := range 3000 {
		id := fmt.Sprint("run-", i)
		if _, err := s.Create(b.Context(), checkpoint.Run{ID: id, Digest: "d", StartedAt: time.Now()}, "me", 0); err != nil {
			b.Fatal(err)
		}
		age(b, s, id)
	}
	for b.Loop() {
		if all, err := s.List(b.Context(), checkpoint.Filter{Limit: 50}); err != nil || len(all) != 50 {
			b.Fatalf("%d runs, %v", len(all), err)
		}
	}
}
