package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// BenchmarkAppend is one small record after the other, each durable before the next, in turns with a
// commit of one row by the same driver. It reports medians and their ratio.
func BenchmarkAppend(b *testing.B) {
	m := newMedium(b)
	s := m.open()
	m.exec("CREATE TABLE SCHEMA.floor (run text, seq bigint, line bytea, PRIMARY KEY (run, seq))")
	line := note("hello").AppendLine(nil)
	l := m.create(s, "run")
	var floor, store []time.Duration
	for b.Loop() {
		n := int64(len(floor) + 1)
		begin := time.Now()
		if _, err := m.conn.Exec(b.Context(), "INSERT INTO "+m.name+".floor VALUES ($1, $2, $3)", "run", n, line); err != nil {
			b.Fatal(err)
		}
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
// before the next, and is released. The floor is as many commits of one row, one after the other.
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
	n := 0
	for b.Loop() {
		n++
		var all sync.WaitGroup
		for i := range runs {
			all.Go(func() {
				if err := run(b.Context(), fmt.Sprintf("run-%d-%d", n, i)); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
	}
	b.ReportMetric(float64(b.N*runs*steps)/b.Elapsed().Seconds(), "steps/s")
}

var _ checkpoint.Store = (*Store)(nil)
