package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/braise-run/braise/checkpoint"
)

// watched are the changes that a Watch of a store tells.
type watched struct {
	t     *testing.T
	runs  chan string
	ended chan error
	stop  context.CancelFunc
}

func (m *medium) watch(t *testing.T, s *Store) *watched {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &watched{t: t, runs: make(chan string, 1000), ended: make(chan error, 1), stop: stop}
	go func() { w.ended <- s.Watch(ctx, func(runID string) { w.runs <- runID }) }()
	t.Cleanup(stop)
	w.wait("")
	return w
}

// wait waits until a run, or any, is told.
func (w *watched) wait(runID string) string {
	w.t.Helper()
	for late := time.After(2 * time.Minute); ; {
		select {
		case id := <-w.runs:
			if id == "" || id == runID {
				return id
			}
		case err := <-w.ended:
			w.t.Fatalf("Watch ended: %v", err)
		case <-late:
			w.t.Fatalf("no change of %q was told", runID)
		}
	}
}

func (w *watched) end() {
	w.t.Helper()
	w.stop()
	if err := <-w.ended; !errors.Is(err, context.Canceled) {
		w.t.Errorf("Watch: %v, want context.Canceled", err)
	}
}

// serve 2: what another process does is told by its notifications, run by run.
func TestWatchNotified(t *testing.T) {
	before := goleak.IgnoreCurrent()
	m := newMedium(t)
	s, other := m.open(), m.open()
	w := m.watch(t, s)
	for i := range 5 {
		id := fmt.Sprint("run-", i)
		l := m.create(other, id)
		if got := w.wait(id); got != id {
			t.Errorf("told %q, want %q", got, id)
		}
		if err := other.Append(t.Context(), l, 1, note("a")); err != nil {
			t.Fatal(err)
		}
		w.wait(id)
	}
	w.end()
	s.Close()
	other.Close()
	goleak.VerifyNone(t, before)
}

// serve 2: a store that is closed right after its last write still tells of it.
func TestWatchLastNews(t *testing.T) {
	m := newMedium(t)
	w := m.watch(t, m.open())
	other := m.open()
	l := m.create(other, "run")
	w.wait("run")
	if err := errors.Join(other.Append(t.Context(), l, 1, note("a")), other.Close()); err != nil {
		t.Fatal(err)
	}
	if got := w.wait("run"); got != "run" {
		t.Errorf("told %q", got)
	}
	w.end()
}

// serve 2: a process that was killed before it told of its last write is found out about.
func TestWatchUntold(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	s := m.open()
	w := m.watch(t, s)
	sum := m.createOld(makeRun("run"))
	if got := w.wait(sum.ID); got != "" {
		t.Errorf("told %q", got)
	}
	w.end()
}

// serve 2: where no notifications come, the server is asked.
func TestWatchPolls(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	s, other := m.open(), m.open()
	s.session.channel, other.session.channel = "elsewhere", "elsewhere"
	w := m.watch(t, s)
	for i := range 3 {
		m.create(other, fmt.Sprint("run-", i))
		if got := w.wait(""); got != "" {
			t.Errorf("told %q", got)
		}
	}
	m.create(s, "mine")
	w.wait("mine")
	w.end()
}

// serve 2: after its connection was lost, or the server was away, a watcher looks at everything again.
func TestWatchReconnects(t *testing.T) {
	m := newMedium(t)
	direct := m.open()
	p := startProxy(t, m)
	s := m.open()
	w := m.watch(t, s)
	for round := range 3 {
		p.set(true)
		id := fmt.Sprint("run-", round)
		m.create(direct, id) // is told to nobody
		p.set(false)
		w.wait(id)
		again := fmt.Sprint("again-", round)
		m.create(direct, again)
		w.wait(again)
	}
	m.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", m.name)
	m.create(direct, "last")
	w.wait("last")
	w.end()
}

// serve 2: a watcher ends with its context or its store while the server is away.
func TestWatchWhileAway(t *testing.T) {
	before := goleak.IgnoreCurrent()
	m := newMedium(t)
	p := startProxy(t, m)
	s := m.open()
	p.set(true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	none := func(string) { t.Error("told while the server was away") }
	go func() { ended <- s.Watch(ctx, none) }()
	for range cap(p.refused) {
		<-p.refused
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch: %v, want context.Canceled", err)
	}
	go func() { ended <- s.Watch(t.Context(), none) }()
	for range cap(p.refused) {
		<-p.refused
	}
	s.Close()
	if err := <-ended; !errors.Is(err, checkpoint.ErrClosed) {
		t.Errorf("Watch: %v, want ErrClosed", err)
	}
	p.listener.Close()
	p.all.Wait()
	goleak.VerifyNone(t, before)
}
