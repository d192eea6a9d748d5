package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// shown are the rows about the page: the benchmark of serve/page, the units of its figures, and how the row words them.
var shown = []struct {
	what, goal, bench string
	units             []string
	words             string
	sqlite            bool // the runs are in a store of SQLite; else there is none
}{
	{"trace of 100,000 events: first picture", "≤ 150 ms", "Trace", []string{"ms/first-picture"}, "%s", true},
	{"trace of 100,000 events: scrolling", "p95 ≤ 34 ms a frame", "Trace", []string{"ms/frame-p95"}, "p95 %s", true},
	{"trace of 100,000 events: a filter", "≤ 100 ms", "Trace", []string{"ms/filter"}, "%s", true},
	{"first picture of Runs, with 100,000 runs", "≤ 400 ms", "Runs", []string{"first-ms", "again-ms"},
		"%s; with the files in the browser's cache: %s", true},
	{"event to pixel, the server executes the run", "p95 ≤ 400 ms", "Events/same", []string{"p50-ms", "p95-ms"}, "%s, p95 %s", true},
	{"event to pixel, another one does", "p95 ≤ 1 s", "Events/other", []string{"p50-ms", "p95-ms"}, "%s, p95 %s", true},
	{"graph of 5,000 steps panned, at readable size", "p95 ≤ 34 ms a frame", "Pan", []string{"near-p50-ms", "near-p95-ms"}, "%s, p95 %s", false},
	{"graph of 5,000 steps panned, all of it", "p95 ≤ 34 ms a frame", "Pan", []string{"far-p50-ms", "far-p95-ms"}, "%s, p95 %s", false},
}

var benchLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// page takes the figures of the benchmarks of the page, in Chromium: each the median of three rounds.
func page(ctx context.Context, t *table) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark(Trace|Runs|Events|Pan)$",
		"-benchtime", "1x", "-count", "3", "-timeout", "30m", "./serve/page")
	cmd.Dir, cmd.Stderr = "..", os.Stderr     // the module of Braise
	cmd.Env = append(os.Environ(), "CI=true") // without Chromium it fails
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the benchmarks of the page: %w\n%s", err, out)
	}
	figures := map[string][]float64{} // by benchmark and unit
	for _, m := range benchLine.FindAllStringSubmatch(string(out), -1) {
		fields := strings.Fields(m[2])
		for i := 0; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("the benchmarks of the page: %q: %w", m[0], err)
			}
			name := m[1] + " " + fields[i+1]
			figures[name] = append(figures[name], v)
		}
	}
	for _, row := range shown {
		var texts []any
		for _, unit := range row.units {
			all := slices.Sorted(slices.Values(figures[row.bench+" "+unit]))
			if len(all) == 0 {
				return fmt.Errorf("the benchmarks of the page: %s has no figure %s\n%s", row.bench, unit, out)
			}
			texts = append(texts, fmt.Sprintf("%.0f", all[len(all)/2]))
		}
		t.store = ""
		if row.sqlite {
			t.store = "sqlite"
		}
		t.add(row.what, row.goal, fmt.Sprintf(row.words, texts...))
	}
	return nil
}
