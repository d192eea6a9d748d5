package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// viewers measures how long an event takes from its record to those who view the run. Another process than the server's
// executes the runs: this one.
func (b *bench) viewers() error {
	if err := b.view("one run", 1, b.options.viewers, 50, 200*time.Millisecond); err != nil {
		return err
	}
	return b.view(fmt.Sprintf("%d runs", b.options.viewers), b.options.viewers, 1, 10, time.Second)
}

// view executes runs of a chain, of which a step ends every so often, with viewers for each.
func (b *bench) view(what string, runs, each, steps int, every time.Duration) error {
	s, err := b.serve("viewers of "+what, map[string]string{"tiny": tiny}, "--no-work")
	if err != nil {
		return err
	}
	defer s.stop()
	store, err := b.media.open(b.ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	wf, err := compile(chain("paced", steps))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	from := time.Now().Add(5 * time.Second)
	executed := make(chan error, runs)
	begun := make(chan string, runs)
	for i := range runs {
		id := fmt.Sprintf("viewed-%d-%d-%03d", runs, from.UnixNano(), i)
		tool := &pace{from.Add(every * time.Duration(i) / time.Duration(runs)), every}
		go func() { executed <- run(ctx, wf, store, id, tool) }()
		go func() { begun <- await(ctx, store, id) }()
	}
	var list []*viewer
	for range runs {
		if id := <-begun; id != "" {
			for range each {
				list = append(list, &viewer{run: id})
			}
		}
	}
	var wg sync.WaitGroup
	for _, v := range list {
		wg.Go(func() { v.err = v.watch(ctx, s) })
	}
	time.Sleep(time.Until(from) - 500*time.Millisecond)
	if err := s.mark(); err != nil {
		return err
	}
	time.Sleep(time.Until(from.Add(every * time.Duration(steps-1))))
	cores, err := s.cores()
	if err != nil {
		return err
	}
	wg.Wait()
	for range runs {
		err = errors.Join(err, <-executed)
	}
	if err != nil {
		return err
	}
	return b.note(what, s, list, from, cores)
}

// note adds what the viewers saw to the table.
func (b *bench) note(what string, s *server, list []*viewer, from time.Time, cores float64) error {
	var all times
	events := 0
	lost := failures{}
	last := map[string]int64{} // number of events, by run
	for _, v := range list {
		if v.err != nil {
			lost.add(v.err)
		} else if n, ok := last[v.run]; ok && n != v.last {
			lost.add(fmt.Errorf("one viewer has seen %d events of run %s, another %d", n, v.run, v.last))
		}
		last[v.run] = v.last
		for i, e := range v.seen {
			events++
			if e.at.After(from.Add(-time.Second)) { // before, viewers come, and get what was recorded earlier
				all = append(all, v.seen[i].delay)
			}
		}
	}
	megabytes, err := s.memory()
	if err != nil {
		return err
	}
	kept := "nothing lost"
	if lost.n > 0 {
		kept = fmt.Sprintf("**%d viewers lost something**: %v", lost.n, lost.first)
	}
	figure := fmt.Sprintf("%v; %s of %d events; %.2f cores, %.0f MB", all, kept, events, cores, megabytes)
	log.Printf("  %s: %s", what, figure)
	b.table.add(fmt.Sprintf("%d viewers of %s", len(list), what), "p99 ≤ 300 ms, nothing lost, ≤ 0.6 cores, ≤ 128 MB", figure)
	return nil
}

// await waits until a run is in the store and returns its id; "": it did not come.
func await(ctx context.Context, s checkpoint.Store, id string) string {
	for ctx.Err() == nil {
		if _, _, err := s.Load(ctx, id, 1<<40); err == nil {
			return id
		}
		time.Sleep(50 * time.Millisecond)
	}
	return ""
}

// viewer is somebody who has a stream open.
type viewer struct {
	run  string
	seen []sight
	last int64 // number of the last event
	err  error
}

// sight is an event that came.
type sight struct {
	at    time.Time // when it was recorded
	delay time.Duration
}

// watch reads the stream of a run to its end. The error says what is missing.
func (v *viewer) watch(ctx context.Context, s *server) error {
	r, err := s.request(ctx, http.MethodGet, "/runs/"+v.run+"/events", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	lines := bufio.NewScanner(resp.Body)
	for kind := ""; lines.Scan(); {
		line := lines.Bytes()
		switch {
		case len(line) == 0:
			kind = ""
		case bytes.HasPrefix(line, []byte("event: ")):
			if kind = string(line[7:]); kind == "end" {
				return nil
			}
			return fmt.Errorf("run %s: %s", v.run, kind)
		case bytes.HasPrefix(line, []byte("id: ")):
			n, err := strconv.ParseInt(string(line[4:]), 10, 64)
			if err != nil || n != v.last+1 {
				return fmt.Errorf("run %s: event %s follows on %d", v.run, line[4:], v.last)
			}
			v.last = n
		case bytes.HasPrefix(line, []byte("data: ")):
			if err := v.see(line); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("run %s: the stream ended after event %d: %w", v.run, v.last, lines.Err())
}

// see notes an event.
func (v *viewer) see(line []byte) error {
	now := time.Now()
	_, rest, _ := bytes.Cut(line, []byte(`"at":"`))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return fmt.Errorf("run %s: %w", v.run, err)
	}
	v.seen = append(v.seen, sight{at, now.Sub(at)})
	return nil
}
