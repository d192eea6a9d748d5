package limit_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/limit"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// models.md 2: limits hold over all processes of a store. Three of them ask one endpoint, which refuses nothing.
func TestSharedFan(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits limit.Limits
		takes  time.Duration
		used   runtime.Usage
		most   time.Duration
	}{
		{"max_parallel", limit.Limits{MaxParallel: 4}, time.Second, runtime.Usage{}, 40 * time.Second},
		{"rpm", limit.Limits{RPM: 50}, time.Second, runtime.Usage{}, 3 * time.Minute},
		{"tpm", limit.Limits{TPM: 10_000}, 10 * time.Second, runtime.Usage{InputTokens: 60, OutputTokens: 40}, 8 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{Limits: tt.limits, takes: tt.takes, used: tt.used, began: time.Now()}
				store := &checkpoint.Memory{}
				var all sync.WaitGroup
				for process := range 3 {
					m := limit.New(e, tt.limits)
					limit.ShareAs(m, store, "m", fmt.Sprint("process ", process))
					for range 40 {
						all.Go(func() {
							if _, err := m.Generate(t.Context(), request("x")); err != nil {
								t.Error(err)
							}
						})
					}
				}
				all.Wait()
				if took := time.Since(e.began); e.refused > 0 || len(e.at) != 120 || took > tt.most {
					t.Errorf("%d answers in %v, %d refused; want 120 in %v, none refused", len(e.at), took, e.refused, tt.most)
				}
			})
		})
	}
}

// The calls of one process wait for those of another; a wait is told, and can be given up.
func TestSharedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		hold := make(chan struct{})
		busy := limit.New(&runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
			<-hold
			return &runtime.Response{}, nil
		}}, limit.Limits{MaxParallel: 1})
		limit.ShareAs(busy, store, "m", "there")
		here := limit.New(runtimetest.Texts("late"), limit.Limits{MaxParallel: 1})
		limit.ShareAs(here, store, "m", "here")
		var all sync.WaitGroup
		all.Go(func() { _, _ = busy.Generate(t.Context(), request("x")) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second) // longer than a process that is silent counts
		defer cancel()
		_, err := here.Generate(ctx, request("y"))
		const want = `model "m" was not asked, after 1m30s of waiting for its limit max_parallel: context deadline exceeded`
		if err == nil || err.Error() != want || !retry.FailureOf(err).Unsent() {
			t.Errorf("error %v, want %s", err, want)
		}
		close(hold)
		all.Wait()
		if resp, err := here.Generate(t.Context(), request("y")); err != nil || resp.Text != "late" {
			t.Errorf("once it is free: %v, %v", resp, err)
		}
	})
}

// What a process that died had under way counts for a minute; what it sent, for as long as it does.
func TestSharedDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, began := &checkpoint.Memory{}, time.Now()
		text := fmt.Sprintf(`{"seconds":[{"second":%d,"requests":1,"tokens":9}],"busy":{"gone":{"calls":1,"until":%q}}}`,
			began.Unix(), began.Add(time.Minute).Format(time.RFC3339))
		if err := store.SwapDocument(t.Context(), "limits", "m", nil, &text); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			limits limit.Limits
			want   time.Duration
		}{
			{limit.Limits{RPM: 2}, 0},
			{limit.Limits{MaxParallel: 1}, time.Minute},
			{limit.Limits{RPM: 2}, 62 * time.Second}, // those of before count, too
		} {
			m := limit.New(runtimetest.Texts("a"), tt.limits)
			limit.ShareAs(m, store, "m", fmt.Sprint(tt))
			if _, err := m.Generate(t.Context(), request("x")); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < tt.want || took > tt.want+lookEvery {
				t.Errorf("%+v: sent after %v, want %v", tt.limits, took, tt.want)
			}
		}
	})
}

// lookEvery is how late a process may learn that others have given something back.
const lookEvery = 250 * time.Millisecond

// What is no request counts for nothing, also elsewhere.
func TestSharedUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		m := limit.New(&runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
			return nil, &retry.Failure{Reason: retry.Network, Err: errors.New("no such host")}
		}}, limit.Limits{RPM: 1, TPM: 70})
		limit.ShareAs(m, store, "m", "here")
		began := time.Now()
		for range 3 {
			_, _ = m.Generate(t.Context(), request("x"))
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("three calls that were not sent took %v", took)
		}
		text, _, err := store.Document(t.Context(), "limits", "m")
		want := fmt.Sprintf(`{"seconds":[{"second":%d,"requests":0,"tokens":0}],"busy":null}`, began.Unix())
		if diff := cmp.Diff(want, strings.ReplaceAll(text, `"busy":{}`, `"busy":null`)); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// A store that fails fails the call, which was not sent, and holds up nothing.
func TestSharedStoreFails(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := limit.New(runtimetest.Texts("a"), limit.Limits{MaxParallel: 1})
	limit.Share(m, store, "m")
	if resp, err := m.Generate(t.Context(), request("x")); err != nil || resp.Text != "a" {
		t.Fatalf("%v, %v", resp, err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = m.Generate(t.Context(), request("x"))
	if !errors.Is(err, checkpoint.ErrClosed) || !retry.FailureOf(err).Unsent() {
		t.Errorf("error %v, want one that says that the store is closed", err)
	}
	limit.Share(runtimetest.Texts("b"), store, "m") // has no limits: nothing to share
}
