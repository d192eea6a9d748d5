package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// tiny is a recipe that does next to nothing.
const tiny = `apiVersion: braise/v1
name: tiny
inputs:
  n: {type: integer, default: 0}
steps:
  sum: {uses: set, with: "${{ inputs.n + 1 }}"}
output: ${{ steps.sum.output }}
`

// starts measures how long it takes to start runs, without and with a worker in the same process.
func (b *bench) starts() error {
	if err := b.startOn("without a worker", "--no-work"); err != nil {
		return err
	}
	if err := b.media.renew(b.ctx); err != nil {
		return err
	}
	if err := b.startOn("with a worker in the process"); err != nil {
		return err
	}
	return b.media.renew(b.ctx)
}

// startOn starts runs at a fixed rate, whether earlier ones are answered or not. A start's time counts from when it was to
// be sent, so a server that stops for a while is slow for all that should have been sent meanwhile.
func (b *bench) startOn(what string, args ...string) error {
	s, err := b.serve("starts "+what, map[string]string{"tiny": tiny}, args...)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := b.ready(s); err != nil {
		return err
	}
	n := b.seconds * b.rate
	took := make(times, n)
	ids := make([]string, n)
	var failed failures
	begin := time.Now().Add(100 * time.Millisecond)
	var wg sync.WaitGroup
	for i := range n {
		intended := begin.Add(time.Duration(i) * time.Second / time.Duration(b.rate))
		if wait := time.Until(intended); wait > 0 {
			time.Sleep(wait)
		}
		wg.Go(func() {
			var err error
			if ids[i], err = b.startRun(s, i); err != nil {
				failed.add(err)
			}
			took[i] = time.Since(intended)
		})
	}
	wg.Wait()
	all := time.Since(begin)
	cores, err := s.cores()
	if err != nil {
		return err
	}
	megabytes, err := s.memory()
	if err != nil {
		return err
	}
	distinct := map[string]bool{}
	for _, id := range ids {
		distinct[id] = true
	}
	delete(distinct, "")
	figure := fmt.Sprintf("%.0f/s, %v; %.2f cores, %.0f MB", float64(len(distinct))/all.Seconds(), took, cores, megabytes)
	if failed.n > 0 {
		figure += fmt.Sprintf("; %d refused: %v", failed.n, failed.first)
	}
	if len(args) == 0 {
		executed, err := b.executed(len(distinct), begin)
		if err != nil {
			return err
		}
		figure += executed
	}
	log.Printf("  %s: %s", what, figure)
	b.table.add("starts, "+what, fmt.Sprintf("%d/s for %d s, p99 ≤ 50 ms", b.rate, b.seconds), figure)
	return nil
}

// ready warms up: connections, and the server's caches.
func (b *bench) ready(s *server) error {
	var wg sync.WaitGroup
	var failed failures
	for range 32 {
		wg.Go(func() {
			if _, _, err := s.get(b.ctx, "/recipes"); err != nil {
				failed.add(err)
			}
		})
	}
	wg.Wait()
	if failed.first != nil {
		return failed.first
	}
	return s.mark()
}

func (b *bench) startRun(s *server, i int) (string, error) {
	status, text, err := s.do(b.ctx, http.MethodPost, "/recipes/tiny/runs", fmt.Appendf(nil, `{"inputs":{"n":%d}}`, i))
	if err != nil {
		return "", err
	}
	if status != http.StatusAccepted {
		return "", fmt.Errorf("status %d: %.200s", status, text)
	}
	var got struct{ RunID string }
	return got.RunID, json.Unmarshal(text, &got)
}

// executed waits until all runs have ended, and says how many had when the last was started.
func (b *bench) executed(n int, begin time.Time) (string, error) {
	s, err := b.media.open(b.ctx)
	if err != nil {
		return "", err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	count := func() (int, error) {
		n, err := s.(checkpoint.Querier).Count(ctx, checkpoint.Filter{Queues: []string{queue}, Phases: []checkpoint.Phase{checkpoint.PhaseOK}}, 0)
		return n[checkpoint.PhaseOK], err
	}
	first, err := count()
	seconds := time.Since(begin).Seconds()
	for done := first; err == nil && done < n; {
		select {
		case <-ctx.Done():
			return fmt.Sprintf("; %.0f/s executed, %d of %d are left", float64(first)/seconds, n-done, n), b.ctx.Err()
		case <-time.After(200 * time.Millisecond):
			now, failed := count()
			if done = max(done, now); ctx.Err() == nil {
				err = failed
			}
		}
	}
	return fmt.Sprintf("; %.0f/s executed, all %.1f s after the first start", float64(first)/seconds, time.Since(begin).Seconds()), err
}

// failures counts what went wrong. The zero failures is none.
type failures struct {
	mu    sync.Mutex
	n     int
	first error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; f.first == nil {
		f.first = err
	}
}
