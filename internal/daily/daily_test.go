package daily_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/internal/daily"
	"github.com/braise-run/braise/runtime"
)

func limits(t *testing.T, b runtime.Budget, store checkpoint.Store, labels map[string]string) *daily.Limits {
	t.Helper()
	l, err := daily.For(&b, store, labels)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// sums are those of the days that a store has.
func sums(t *testing.T, store *checkpoint.Memory) map[string]string {
	t.Helper()
	got := map[string]string{}
	names, err := store.Collections(t.Context(), "cost/")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		all, err := store.Documents(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			got[name+" "+d.Name] = d.Text
		}
	}
	return got
}

// What a call may cost is reserved by all limits or by none, and becomes what it did cost, on the day on which it began.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is 2000-01-01
		store := &checkpoint.Memory{}
		b := runtime.Budget{CostUSDPerDay: 0.0001, PerLabel: map[string]float64{"tenant": 0.00004, "team": 1}} // 100, 40
		acme := limits(t, b, store, map[string]string{"tenant": "a c/m=e", "other": "x"})
		plain := limits(t, b, store, nil)
		reserve := func(l *daily.Limits, cost int64, want string) daily.Reservation {
			t.Helper()
			r, err := l.Reserve(t.Context(), `model "fast"`, cost)
			e, limited := errors.AsType[*runtime.Error](err)
			switch {
			case want == "" && err != nil:
				t.Error(err)
			case want != "" && (!limited || e.Code != "limit.day" || e.Category != runtime.CategoryLimit || !strings.Contains(err.Error(), want)):
				t.Errorf("%v, want %s", err, want)
			}
			return r
		}
		settle := func(l *daily.Limits, r daily.Reservation, cost int64) {
			t.Helper()
			if err := l.Settle(t.Context(), r, cost); err != nil {
				t.Error(err)
			}
		}
		first := reserve(acme, 30, "")
		reserve(acme, 11, "limits.per_label.tenant is 0.00004, of which 0.00003 are used or reserved on 2000-01-01 (UTC) "+
			"by runs with the label tenant=a c/m=e")
		second := reserve(plain, 70, "") // what the refused one had reserved is given back
		reserve(plain, 1, `model "fast" is not called: it may cost $0.000001, and limits.cost_usd_per_day is 0.0001, of `+
			"which 0.0001 are used or reserved on 2000-01-01 (UTC) by all runs")
		settle(acme, first, 10)
		time.Sleep(23*time.Hour + 59*time.Minute)
		third := reserve(acme, 20, "")
		time.Sleep(time.Hour) // the next day
		settle(plain, second, 90)
		settle(acme, third, 20)
		settle(acme, reserve(acme, 0, ""), 5) // of a retriever that nobody knew to ask a model
		want := map[string]string{
			"cost/2000-01-01 all":                      "120", // it was more than reserved
			"cost/2000-01-01 label tenant=a+c%2Fm%3De": "30",
			"cost/2000-01-02 all":                      "5",
			"cost/2000-01-02 label tenant=a+c%2Fm%3De": "5",
		}
		if diff := cmp.Diff(want, sums(t, store)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		time.Sleep(24 * time.Hour)
		settle(plain, reserve(plain, 7, ""), 7)
		delete(want, "cost/2000-01-01 all")
		delete(want, "cost/2000-01-01 label tenant=a+c%2Fm%3De")
		want["cost/2000-01-03 all"] = "7"
		if diff := cmp.Diff(want, sums(t, store)); diff != "" {
			t.Errorf("two days later (-want +got)\n%s", diff)
		}
	})
}

// ends is a store in which the caller's context ends once the sum of a label is read.
type ends struct {
	*checkpoint.Memory
	cancel func()
}

func (s ends) Document(ctx context.Context, collection, name string) (string, bool, error) {
	if strings.HasPrefix(name, "label ") {
		s.cancel()
	}
	return s.Memory.Document(ctx, collection, name)
}

// What one limit has reserved is given back when the caller's context ends before the next one has.
func TestReserveCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := ends{&checkpoint.Memory{}, cancel}
	b := runtime.Budget{CostUSDPerDay: 1, PerLabel: map[string]float64{"a": 1}}
	if _, err := limits(t, b, store, map[string]string{"a": "b"}).Reserve(ctx, "it", 7); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for name, sum := range sums(t, store.Memory) {
		if sum != "0" {
			t.Errorf("%s is %s", name, sum)
		}
	}
}

func TestFor(t *testing.T) {
	for _, tt := range []struct {
		name  string
		b     runtime.Budget
		store checkpoint.Store
		code  string
		none  bool
	}{
		{"no limits", runtime.Budget{CostUSD: 1}, nil, "", true},
		{"no store", runtime.Budget{CostUSDPerDay: 1}, nil, "limit.noStore", true},
		{"a store without documents", runtime.Budget{PerLabel: map[string]float64{"a": 1}}, struct{ checkpoint.Store }{}, "limit.noStore", true},
		{"a limit", runtime.Budget{CostUSDPerDay: 1}, &checkpoint.Memory{}, "", false},
		{"a limit of a label that the run does not have", runtime.Budget{PerLabel: map[string]float64{"a": 1}}, &checkpoint.Memory{}, "", true},
	} {
		l, err := daily.For(&tt.b, tt.store, nil)
		e, _ := errors.AsType[*runtime.Error](err)
		if (l == nil) != tt.none || (e == nil) != (tt.code == "") || e != nil && e.Code != tt.code {
			t.Errorf("%s: %v, %v", tt.name, l, err)
		}
	}
	// A sum that somebody else has put there.
	store := &checkpoint.Memory{}
	day := time.Now().UTC().Format(time.DateOnly)
	for _, of := range []string{day, time.Now().UTC().Add(time.Minute).Format(time.DateOnly)} { // around midnight
		if err := store.PutDocument(t.Context(), "cost/"+of, checkpoint.Document{Name: "all", Text: "much"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := limits(t, runtime.Budget{CostUSDPerDay: 1}, store, nil).Reserve(t.Context(), "it", 1)
	if !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Error(err)
	}
}

// Processes that reach the limit at once do not exceed it: each has a store of its own on the same files.
func TestAtOnce(t *testing.T) {
	daily.Apart(t)
	dir := t.TempDir()
	for name, open := range map[string]func() (checkpoint.Store, error){
		"sqlite": func() (checkpoint.Store, error) { return sqlite.Open(t.Context(), filepath.Join(dir, "runs.db"), nil) },
		"jsonl":  func() (checkpoint.Store, error) { return jsonl.Open(filepath.Join(dir, "runs")) },
	} {
		t.Run(name, func(t *testing.T) {
			const limit, each = 20, 3
			day := time.Now().UTC().Day()
			var made atomic.Int64
			var all sync.WaitGroup
			for range 3 {
				store, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				l := limits(t, runtime.Budget{CostUSDPerDay: 1e9, PerLabel: map[string]float64{"a": limit / 1e6}}, store, map[string]string{"a": "b"})
				for range 4 {
					all.Go(func() {
						_, err := l.Reserve(t.Context(), "it", each)
						if e, ok := errors.AsType[*runtime.Error](err); err == nil {
							made.Add(1)
						} else if !ok || e.Code != "limit.day" {
							t.Error(err)
						}
					})
				}
			}
			all.Wait()
			if made.Load() != limit/each && time.Now().UTC().Day() == day {
				t.Errorf("%d calls are made, want %d", made.Load(), limit/each)
			}
		})
	}
}
