package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// BenchmarkAppend is one small record after the other, each durable before the next; beside it, what
// a commit of one row costs with the same driver.
func BenchmarkAppend(b *testing.B) {
	m := newMedium(b)
	s := m.open()
	ctx := b.Context()
	b.Run("floor", func(b *testing.B) {
		m.exec("CREATE TABLE IF NOT EXISTS SCHEMA.floor (run text, seq bigint, line bytea, PRIMARY KEY (run, seq))")
		line := note("hello").AppendLine(nil)
		run := fmt.Sprint(time.Now().UnixNano())
		n := 0
		for b.Loop() {
			n++
			if _, err := m.conn.Exec(ctx, "INSERT INTO "+m.name+".floor VALUES ($1, $2, $3)", run, n, line); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("store", func(b *testing.B) {
		l := m.create(s, fmt.Sprint("run-", time.Now().UnixNano()))
		after := int64(1)
		for b.Loop() {
			if err := s.Append(ctx, l, after, note("hello")); err != nil {
				b.Fatal(err)
			}
			after++
		}
	})
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
