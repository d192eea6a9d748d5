package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/braise-run/braise/checkpoint"
)

// noList is a store that cannot be listed.
type noList struct{ *checkpoint.Memory }

func (noList) List(context.Context, checkpoint.Filter) ([]checkpoint.Summary, error) {
	return nil, errors.New("it is away")
}

// Of many runs that write, only those that have signals are woken; of few, and where the store cannot tell, each is.
func TestSignalsWake(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	memory := func(m *checkpoint.Memory) checkpoint.Store { return m }
	for _, tt := range []struct {
		name                   string
		runs                   int
		store                  func(*checkpoint.Memory) checkpoint.Store
		before, writes, signal []int // who is woken: at first, when all write, when run 3 has a signal
	}{
		{"many runs", fewRuns + 1, memory, []int{1}, nil, []int{3}},
		{"the store cannot tell", fewRuns + 1, func(m *checkpoint.Memory) checkpoint.Store { return noList{m} },
			[]int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3, 4}, []int{3}},
		{"few runs", fewRuns, memory, []int{0, 1, 2, 3}, []int{0, 1, 2, 3}, []int{3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &checkpoint.Memory{}
				store := tt.store(m)
				var leases []checkpoint.Lease
				for i := range tt.runs + 1 { // the last one is none of those that tt is about
					run := checkpoint.Run{ID: fmt.Sprint("run-", i), Digest: "d", StartedAt: time.Now()}
					l, err := m.Create(t.Context(), run, "me", time.Hour)
					if err != nil {
						t.Fatal(err)
					}
					leases = append(leases, l)
				}
				signal := func(run int, id string) {
					s := checkpoint.Signal{ID: id, Kind: checkpoint.SignalCancel, At: time.Now()}
					if err := m.PutSignal(t.Context(), leases[run].RunID, s); err != nil {
						t.Fatal(err)
					}
				}
				signal(1, "early")
				rec := checkpoint.Record{At: time.Now(), Kind: "note", Data: []byte("{}")}
				write := func(l checkpoint.Lease, after int64) {
					if err := m.Append(t.Context(), l, after, rec); err != nil {
						t.Fatal(err)
					}
				}
				another := leases[tt.runs]
				leases = leases[:tt.runs]
				ends := []func(){subscribe(store, another.RunID, make(chan struct{}, 1))}
				time.Sleep(2 * LookEvery)
				write(another, 1)
				synctest.Wait() // it was looked for: the next look comes when time goes on, and is for all that follows
				wakes := make([]chan struct{}, tt.runs)
				for i, l := range leases {
					wakes[i] = make(chan struct{}, 1)
					ends = append(ends, subscribe(store, l.RunID, wakes[i]))
				}
				woken := func(what string, want []int) {
					t.Helper()
					time.Sleep(2 * LookEvery)
					synctest.Wait()
					var got []int
					for i, wake := range wakes {
						select {
						case <-wake:
							got = append(got, i)
						default:
						}
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s: woken %v, want %v", what, got, want)
					}
				}
				woken("at first", tt.before)
				if err := m.EndSignals(t.Context(), leases[1], "early"); err != nil {
					t.Fatal(err)
				}
				write(another, 2)
				synctest.Wait()
				for _, l := range leases {
					write(l, 1)
				}
				woken("all write", tt.writes)
				signal(3, "late")
				woken("a signal", tt.signal)
				for _, end := range ends {
					end()
				}
			})
		})
	}
}
