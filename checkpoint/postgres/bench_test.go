package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// floor returns what commits one row with the same driver.
func (m *medium) floor() func(seq int64) {
	m.exec("CREATE TABLE SCHEMA.floor (run text, seq bigint, line bytea, PRIMARY KEY (run, seq))")
	line := note("hello").AppendLine(nil)
	return func(seq int64) { m.exec("INSERT INTO SCHEMA.floor VALUES ($1, $2, $3)", "run", seq, line) }
}

// BenchmarkAppend is one small record after the other, each durable before the next, in turns with a
// commit of one row by the same driver. It reports medians and their ratio.
func BenchmarkAppend(b *testing.B) {
	m := newMedium(b)
	s := m.open()
	commit := m.floor()
	l := m.create(s, "run")
	var floor, store []time.Duration
	for b.Loop() {
		n := int64(len(floor) + 1)
		begin := time.Now()
		commit(n)
		middle := time.Now()
		if err := s.Append(b.Context(), l, n, note("hello")); err != nil {
			b.Fatal(err)
		}
		floor, store = append(floor, middle.Sub(begin)), append(store, time.Since(middle))
	}
	slices.Sort(floor)
	slices.Sort(store)
	f, s50 := floor[len(floor)/2], store[len(store)/2]
	b.ReportMetric(float64(f.Microseconds()), "floor-µs")
	b.ReportMetric(float64(s50.Microseconds()), "store-µs")
	b.ReportMetric(float64(s50)/float64(f), "ratio")
}

// BenchmarkRuns is 1,000 runs at once: each is created, gets ten records one after the other, each durable
// before the next, and is released. Beside it, commits of one row, one after the other.
func BenchmarkRuns(b *testing.B) {
	const runs, steps = 1000, 10
	m := newMedium(b)
	s := m.open()
	run := func(ctx context.Context, id string) error {
		r := makeRun(id)
		l, err := s.Create(ctx, r, "me", long)
		for i := range steps {
			if err == nil {
				err = s.Append(ctx, l, int64(i+1), note("hello"))
			}
		}
		if err == nil {
			err = s.Release(ctx, l)
		}
		return err
	}
	commit := m.floor()
	var floor, store time.Duration
	n := 0
	for b.Loop() {
		n++
		begin := time.Now()
		for i := range runs {
			commit(int64(n*runs + i))
		}
		middle := time.Now()
		var all sync.WaitGroup
		for i := range runs {
			all.Go(func() {
				if err := run(b.Context(), fmt.Sprintf("run-%d-%d", n, i)); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		floor, store = floor+middle.Sub(begin), store+time.Since(middle)
	}
	b.ReportMetric(float64(n*runs)/floor.Seconds(), "floor-commits/s")
	b.ReportMetric(float64(n*runs*steps)/store.Seconds(), "steps/s")
}

// BenchmarkCreate creates runs, 64 at a time: one is an operation.
func BenchmarkCreate(b *testing.B) {
	const atOnce = 64
	m := newMedium(b)
	s := m.open()
	n := make(chan int, atOnce)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := range n {
				run := makeRun(fmt.Sprintf("run-%08d", i))
				run.StartedAt = start.Add(time.Duration(i) * time.Millisecond)
				if _, err := s.Create(b.Context(), run, "me", long); err != nil {
					b.Error(err)
				}
			}
		})
	}
	i := 0
	for b.Loop() {
		n <- i
		i++
	}
	close(n)
	all.Wait()
}

// BenchmarkStores is 64 writers that append in four stores, as four processes would: one record is an operation.
func BenchmarkStores(b *testing.B) {
	const stores, atOnce = 4, 64
	m := newMedium(b)
	n := make(chan int, atOnce)
	var all sync.WaitGroup
	var open []*Store
	for range stores {
		open = append(open, m.open())
	}
	for i := range atOnce {
		s := open[i%stores]
		l := m.create(s, fmt.Sprint("run-", i))
		all.Go(func() {
			after := int64(1)
			for range n {
				if err := s.Append(b.Context(), l, after, note("hello")); err != nil {
					b.Error(err)
				}
				after++
			}
		})
	}
	for b.Loop() {
		n <- 1
	}
	close(n)
	all.Wait()
}
