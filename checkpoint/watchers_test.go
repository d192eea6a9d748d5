package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
)

// Changes that come while changed is busy are told together, each run once, and too many as any run.
func TestWatchersTellTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w checkpoint.Watchers
		w.Tell("nobody watches")
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		hold := make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- w.Watch(ctx, func(runID string) { told = append(told, runID); <-hold }, 0, nil)
		}()
		wants := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, told); diff != "" {
				t.Fatalf("told (-want +got):\n%s", diff)
			}
			told = nil
		}
		next := func() { hold <- struct{}{} }
		wants("")
		for _, id := range []string{"b", "a", "b"} {
			w.Tell(id)
		}
		next()
		wants("a")
		next()
		wants("b")
		for i := range 1001 {
			w.Tell(fmt.Sprint(i))
		}
		next()
		wants("")
		next()
		wants()
		w.Tell("last")
		wants("last")
		cancel()
		next()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch: %v", err)
		}
	})
}

// What others do is looked for at intervals, and first of all before Watch is ready.
func TestWatchersLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w checkpoint.Watchers
		began := time.Now()
		news := make(chan []string, 1)
		news <- []string{"from before"}
		var told []string
		ended := make(chan error)
		go func() {
			ended <- w.Watch(t.Context(), func(runID string) {
				told = append(told, fmt.Sprintf("%q after %v", runID, time.Since(began)))
			}, 500*time.Millisecond, func() []string {
				select {
				case found := <-news:
					return found
				default:
					return nil
				}
			})
		}()
		synctest.Wait()
		w.Tell("mine")
		time.Sleep(600 * time.Millisecond)
		news <- []string{"a", "b"}
		time.Sleep(1900 * time.Millisecond)
		synctest.Wait()
		w.Close()
		if err := <-ended; !errors.Is(err, checkpoint.ErrClosed) {
			t.Errorf("Watch: %v", err)
		}
		want := []string{`"" after 0s`, `"mine" after 0s`, `"a" after 1s`, `"b" after 1s`}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		err := w.Watch(t.Context(), func(string) { t.Error("changed was called") }, 0, nil)
		if !errors.Is(err, checkpoint.ErrClosed) {
			t.Errorf("Watch afterwards: %v", err)
		}
	})
}
