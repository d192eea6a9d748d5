package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// views measures GET /runs/{id}: of a run that the server has not read before, or no longer has, and of one that it
// has.
func (b *bench) views() error {
	s, err := b.serve("views", map[string]string{"tiny": tiny}, "--no-work")
	if err != nil {
		return err
	}
	defer s.stop()
	if _, _, err := s.get(b.ctx, "/me"); err != nil { // the first request makes the routes
		return err
	}
	goals := map[int]string{200: "p99 ≤ 20 ms", 2000: "p99 ≤ 120 ms"}
	for _, steps := range viewed {
		var first, again times
		for i := range 5 * copies {
			took, _, err := s.get(b.ctx, "/runs/"+viewedID(steps, i%copies))
			if err != nil {
				return err
			}
			first = append(first, took)
		}
		for range 100 {
			took, _, err := s.get(b.ctx, "/runs/"+viewedID(steps, copies-1))
			if err != nil {
				return err
			}
			again = append(again, took)
		}
		b.table.add(fmt.Sprintf("view of %d steps", steps), goals[steps], fmt.Sprintf("%v; again: %v", first, again))
	}
	return nil
}

var drawLine = regexp.MustCompile(`BenchmarkDraw/(\d+)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op`)

// layout takes the figures of the benchmark of package drawing.
func layout(ctx context.Context, t *table) error {
	t.store = ""
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkDraw$", "-benchtime", "1s", "./internal/drawing")
	cmd.Dir, cmd.Stderr = "..", os.Stderr // the module of Braise
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the benchmark of drawings: %w\n%s", err, out)
	}
	goals := map[string]string{"50": "≤ 1 ms", "500": "≤ 10 ms", "5000": "≤ 150 ms"}
	for _, m := range drawLine.FindAllSubmatch(out, -1) {
		ns, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return err
		}
		t.add("layout of "+string(m[1])+" steps", goals[string(m[1])], milli(time.Duration(ns))+" (mean)")
	}
	return nil
}
