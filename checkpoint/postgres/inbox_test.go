package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/braise-run/braise/checkpoint"
)

// Many runs ask for their signals at once: each gets its own, and who asks in vain keeps nothing from the others.
func TestInboxOfMany(t *testing.T) {
	const runs = 50
	m := newMedium(t)
	s := m.open()
	for n := range runs {
		id := fmt.Sprint("run-", n)
		m.create(s, id)
		for k := range n % 3 {
			signal := checkpoint.Signal{ID: fmt.Sprint(id, "-", k), Kind: checkpoint.SignalTake, At: start}
			if err := s.PutSignal(t.Context(), id, signal); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.exec("BEGIN")
	m.exec("LOCK TABLE SCHEMA.signals")
	ctx, cancel := context.WithCancel(t.Context())
	var gaveUp, all sync.WaitGroup
	gaveUp.Go(func() {
		if _, err := s.Signals(ctx, "run-1", true); !errors.Is(err, context.Canceled) {
			t.Errorf("who gives up gets %v", err)
		}
	})
	m.locked()
	for _, id := range []string{"run-1", "nobody", "\x00"} {
		gaveUp.Go(func() {
			if _, err := s.Signals(ctx, id, true); !errors.Is(err, context.Canceled) && !errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("who gives up gets %v", err)
			}
		})
	}
	for n := range runs {
		all.Go(func() {
			id := fmt.Sprint("run-", n)
			open, err := s.Signals(t.Context(), id, true)
			if err != nil || len(open) != n%3 {
				t.Errorf("%s: %v, %v", id, open, err)
			}
			for k, signal := range open {
				if signal.ID != fmt.Sprint(id, "-", k) {
					t.Errorf("%s: signal %d is %s", id, k, signal.ID)
				}
			}
		})
		all.Go(func() {
			if _, err := s.Signals(t.Context(), fmt.Sprint("not-", n), true); !errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("of no run: %v", err)
			}
		})
	}
	cancel()
	gaveUp.Wait()
	m.exec("COMMIT")
	all.Wait()
}

// The server does not answer: all that wait are told, and the next query is another one.
func TestInboxWithoutAnswer(t *testing.T) {
	m := newMedium(t)
	s := m.open()
	m.create(s, "run")
	m.exec("BEGIN")
	m.exec("LOCK TABLE SCHEMA.signals")
	failed := make(chan error)
	go func() {
		_, err := s.Signals(t.Context(), "run", true)
		failed <- err
	}()
	m.locked()
	s.inbox.patience.End()
	if err := <-failed; err == nil || isSentinel(err) || errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("Signals: %v", err)
	}
	m.exec("ROLLBACK")
	if open, err := s.Signals(t.Context(), "run", true); err != nil || len(open) != 0 {
		t.Errorf("then: %v, %v", open, err)
	}
}
