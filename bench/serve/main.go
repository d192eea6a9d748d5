// Command serve measures the server, which is the built command in a process of its own, over HTTP on loopback. It
// prints a table in Markdown: what was to be reached, and what was measured on each store.
//
// It needs the built command (-braise). Stores with many runs take a minute to fill, so they are kept: on SQLite as a
// file in -cache, on Postgres as a database beside the one of BRAISE_TEST_POSTGRES (else of 127.0.0.1:5432). What is
// measured works on copies.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// options say what to measure.
type options struct {
	braise   string
	cache    string
	profiles string // "": none
	stores   []string
	only     []string // nil: everything
	runs     int
	seconds  int // of each load of starts
	rate     int // starts a second
	viewers  int
}

func main() {
	log.SetFlags(log.Ltime)
	o := options{}
	stores := flag.String("stores", "sqlite,postgres", "the stores, with commas between")
	only := flag.String("only", "", "what to measure, of lists, starts, viewers, views, layout, page; with commas between (default all)")
	readme := flag.String("readme", "", "the file into which the table of everything is written, between its lines <!-- serve --> and <!-- end of serve -->")
	flag.StringVar(&o.braise, "braise", "", "the built command")
	flag.StringVar(&o.cache, "cache", filepath.Join(os.TempDir(), "braise-load"), "where filled stores are kept")
	flag.StringVar(&o.profiles, "profiles", "", "the folder for CPU profiles of the server, which must be built with the overlay of bench/serve/profile")
	flag.IntVar(&o.runs, "runs", 100_000, "how many runs a filled store has")
	flag.IntVar(&o.seconds, "seconds", 60, "how long runs are started")
	flag.IntVar(&o.rate, "rate", 1000, "how many runs are started in a second")
	flag.IntVar(&o.viewers, "viewers", 500, "how many streams are open")
	flag.Parse()
	o.stores = strings.Split(*stores, ",")
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	t, err := measure(ctx, o)
	if err != nil {
		log.Fatal(err)
	}
	text := t.markdown(o)
	fmt.Print(text)
	if *readme != "" && o.only == nil && len(o.stores) == 2 {
		if err := writeInto(*readme, text); err != nil {
			log.Fatal(err)
		}
	}
}

// parts are what is measured on each store, in the order of the table.
var parts = []part{
	{"lists", (*bench).lists},
	{"starts", (*bench).starts},
	{"viewers", (*bench).viewers},
	{"views", (*bench).views},
}

// part is what is measured on a store.
type part struct {
	name string
	do   func(*bench) error
}

// bench measures on one store.
type bench struct {
	options
	ctx   context.Context
	media medium
	table *table
}

// measure measures everything on every store.
func measure(ctx context.Context, o options) (*table, error) {
	t := &table{stores: o.stores}
	wanted := func(name string) bool { return o.only == nil || slices.Contains(o.only, name) }
	stores := o.stores
	if !slices.ContainsFunc(parts, func(p part) bool { return wanted(p.name) }) {
		stores = nil
	}
	for _, name := range stores {
		m, err := openMedium(ctx, name, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		b := &bench{options: o, ctx: ctx, media: m, table: t}
		t.store = name
		for _, part := range parts {
			if !wanted(part.name) {
				continue
			}
			begin := time.Now()
			if err := part.do(b); err != nil {
				return nil, fmt.Errorf("%s on %s: %w", part.name, name, err)
			}
			log.Printf("%s on %s took %v", part.name, name, time.Since(begin).Round(time.Second))
		}
		if err := m.remove(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, part := range []struct {
		name string
		do   func(context.Context, *table) error
	}{{"layout", layout}, {"page", page}} {
		if wanted(part.name) {
			if err := part.do(ctx, t); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// writeInto replaces what is between two lines of a file.
func writeInto(path, text string) error {
	const begin, end = "<!-- serve -->", "<!-- end of serve -->"
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(old), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %s and %s", path, begin, end)
	}
	return os.WriteFile(path, []byte(head+begin+"\n\n"+text+"\n"+end+tail), 0o644)
}

// machine says where the figures come from.
func machine() string {
	load, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(load), " ")
	commit, _ := exec.Command("git", "describe", "--always", "--dirty").Output()
	return fmt.Sprintf("Measured on %s at commit %s, %d cores, %s %s/%s; the load average of the last minute was %s, the load itself included.",
		time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)), runtime.NumCPU(), runtime.Version(),
		runtime.GOOS, runtime.GOARCH, average)
}
