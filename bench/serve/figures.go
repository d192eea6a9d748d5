package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// times are how long something took, each time.
type times []time.Duration

// at is the time that a share of them does not exceed; 0 if there are none.
func (t times) at(share float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// String is the median and the 99th percentile.
func (t times) String() string {
	return fmt.Sprintf("%s / %s", milli(t.at(0.50)), milli(t.at(0.99)))
}

// milli is a time in milliseconds with two or three digits.
func milli(d time.Duration) string {
	switch ms := float64(d) / 1e6; {
	case ms >= 100:
		return fmt.Sprintf("%.0f", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f", ms)
	default:
		return fmt.Sprintf("%.2f", ms)
	}
}

// table is the outcome.
type table struct {
	stores []string
	store  string // that is measured now
	rows   []*row
}

// row is one thing that was measured, a cell for each store; a cell of the store "" is for all.
type row struct {
	what, goal string
	cells      map[string]string
}

// add adds a figure of the store that is measured now.
func (t *table) add(what, goal, figure string) {
	i := slices.IndexFunc(t.rows, func(r *row) bool { return r.what == what })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, &row{what: what, goal: goal, cells: map[string]string{}})
	}
	t.rows[i].cells[t.store] = figure
}

var titles = map[string]string{"sqlite": "SQLite", "postgres": "Postgres"}

func (t *table) markdown(o options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s Times are p50 / p99 in ms.\n\n| | goal |", machine())
	for _, s := range t.stores {
		b.WriteString(" " + titles[s] + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(t.stores)) + "\n")
	for _, r := range t.rows {
		fmt.Fprintf(&b, "| %s | %s |", r.what, r.goal)
		for _, s := range t.stores {
			cell, ok := r.cells[s]
			if !ok {
				cell = r.cells[""]
			}
			if cell == "" {
				cell = "–"
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteByte('\n')
	}
	if o.seconds != 60 || o.runs != 100_000 || o.viewers != 500 || o.rate != 1000 {
		fmt.Fprintf(&b, "\nA smaller load than that of the goals: %d runs, %d starts/s for %d s, %d viewers.\n", o.runs, o.rate, o.seconds, o.viewers)
	}
	return b.String()
}
