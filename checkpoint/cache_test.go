package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

func TestMemoryCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c checkpoint.MemoryCache
		ctx := t.Context()
		want := func(key, want string) {
			t.Helper()
			got, ok, err := c.Get(ctx, key)
			if string(got) != want || ok != (want != "") || err != nil {
				t.Errorf("%s is %q, %v, %v, want %q", key, got, ok, err, want)
			}
		}
		set := func(key, val string, ttl time.Duration) {
			t.Helper()
			if err := c.Set(ctx, key, []byte(val), ttl); err != nil {
				t.Error(err)
			}
		}
		want("a", "")
		set("a", "1", 0)
		set("b", "2", time.Minute)
		set("c", "3", time.Minute)
		time.Sleep(time.Minute - time.Nanosecond)
		want("b", "2")
		set("c", "4", time.Minute)
		time.Sleep(time.Nanosecond)
		want("a", "1")
		want("b", "")
		want("c", "4")
		if ok, err := c.Delete(ctx, "b"); ok || err != nil {
			t.Errorf("Delete of what ran out: %v, %v", ok, err)
		}

		// Many short-lived values do not push out, or outlive, others.
		for i := range 1000 {
			set(fmt.Sprint(i), "x", time.Second)
			time.Sleep(time.Second)
		}
		want("a", "1")
		want("998", "")

		var told atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if ok, _ := c.Delete(ctx, "a"); ok {
					told.Add(1)
				}
			})
		}
		wg.Wait()
		if told.Load() != 1 {
			t.Errorf("%d of 8 deleted the value, want 1", told.Load())
		}
		want("a", "")

		done, cancel := context.WithCancel(ctx)
		cancel()
		_, _, err := c.Get(done, "c")
		_, errDelete := c.Delete(done, "c")
		for _, err := range []error{err, errDelete, c.Set(done, "d", nil, 0)} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want %v", err, context.Canceled)
			}
		}
		want("d", "")
	})
}
