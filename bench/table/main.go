// Command table reads what several rounds of the benchmarks printed and writes the medians into a
// Markdown file, between its lines <!-- results --> and <!-- end of results -->.
package main

import (
	"bufio"
	"fmt"
	"log"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// results are what all rounds measured.
type results struct {
	rounds int
	load   []string // average of each round's last minute
	cpu    string
	commit string                          // of Braise, when the benchmarks were built
	units  map[string]map[string][]float64 // by benchmark, by unit: a figure for each round
	names  []string                        // of the benchmarks, in order
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: table FILE.md <what the benchmarks printed")
	}
	r, err := read(bufio.NewScanner(os.Stdin))
	if err != nil {
		log.Fatal(err)
	}
	if err := write(os.Args[1], r.markdown()); err != nil {
		log.Fatal(err)
	}
}

var (
	roundLine = regexp.MustCompile(`^round: .* load: ([^ ]+)`)
	benchLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)
)

func read(s *bufio.Scanner) (*results, error) {
	r := &results{units: map[string]map[string][]float64{}}
	for s.Scan() {
		if m := roundLine.FindStringSubmatch(s.Text()); m != nil {
			r.rounds++
			r.load = append(r.load, m[1])
		}
		if cpu, ok := strings.CutPrefix(s.Text(), "cpu: "); ok {
			r.cpu = cpu
		}
		if commit, ok := strings.CutPrefix(s.Text(), "commit: "); ok {
			r.commit = commit
		}
		m := benchLine.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		name, words := m[1], strings.Fields(m[2])
		if r.units[name] == nil {
			r.units[name] = map[string][]float64{}
			r.names = append(r.names, name)
		}
		for i := 0; i+1 < len(words); i += 2 {
			f, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			r.units[name][words[i+1]] = append(r.units[name][words[i+1]], f)
		}
	}
	if len(r.names) == 0 {
		return nil, fmt.Errorf("no benchmark in the input")
	}
	return r, s.Err()
}

// median of one benchmark's figures; ok is false when there are none.
func (r *results) median(name, unit string) (m float64, ok bool) {
	return median(r.units[name][unit])
}

// ratio is the median of the rounds' ratios.
func (r *results) ratio(name, to, unit string) (m float64, ok bool) {
	a, b := r.units[name][unit], r.units[to][unit]
	var ratios []float64
	for i := range min(len(a), len(b)) {
		ratios = append(ratios, a[i]/b[i])
	}
	return median(ratios)
}

func median(list []float64) (m float64, ok bool) {
	if len(list) == 0 {
		return 0, false
	}
	list = slices.Sorted(slices.Values(list))
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2, true
}

// tables are what is printed: the columns, the unit of their figures, and what columns say of it.
var tables = []struct {
	workloads   []string
	unit, title string
}{
	{[]string{"W1", "W2", "W3", "W8"}, "ns/op", ""},
	{[]string{"W4Chain/compile", "W4Chain/run", "W4Layered/compile", "W4Layered/run"}, "ns/op", ""},
	{[]string{"W5"}, "ns/op", ""},
	{[]string{"W6/sqlite-full", "W6/sqlite-normal", "W6/postgres", "W6/jsonl", "W7"}, "ns/op", ""},
	{[]string{"W8Durable/sqlite-full", "W8Durable/sqlite-normal", "W8Durable/postgres"}, "steps/s", ", steps/s"},
	{[]string{"LastChunk/memory", "LastChunk/sqlite-full", "LastChunk/sqlite-normal", "LastChunk/postgres"}, "ns/op", ""},
	{[]string{"Fan"}, "ns/op", ""},
	{[]string{"Fan"}, "cpu-ns/op", ", of the processor"},
	{[]string{"Deltas/openai", "Deltas/anthropic", "Turns/openai", "Turns/anthropic"}, "ns/op", ""},
	{[]string{"Paused/memory", "Paused/sqlite"}, "ns/op", ", all listed"},
}

// goals are what Braise is meant to reach, as the project's plan has it, and the figure that says
// whether it does.
var goals = []struct {
	workload, goal string
	measured       func(*results) string
}{
	{"W1", "at least 1.1 × as fast as the best peer", bestOf("W1")},
	{"W1", "at most 6 allocations a step", func(r *results) string {
		n, _ := r.median("W1/braise", "allocs/op")
		return fmt.Sprintf("%.1f", n/100)
	}},
	{"W2", "at least 0.9 × as fast as the best peer that carries values", bestOf("W2", "go-taskflow")},
	{"W3", "at least 1.1 × as fast as the best peer", bestOf("W3")},
	{"W4", "chain from a `Recipe`: compile at most 150 ms", timeOf("W4Chain/compile/braise")},
	{"W4", "chain from YAML: read and compile at most 1.5 s", timeOf("W4YAML/braise")},
	{"W4", "chain from YAML: at most 300 MB", func(r *results) string {
		n, _ := r.median("W4YAML/braise", "B/op")
		return fmt.Sprintf("%.0f MB allocated in all", n/1e6)
	}},
	{"W4", "chain: run at most 10 ms", timeOf("W4Chain/run/braise")},
	{"W4", "layered: compile at most 4 s", timeOf("W4Layered/compile/braise")},
	{"W4", "layered: run at most 50 ms", timeOf("W4Layered/run/braise")},
	{"W5", "at least 0.75 × as fast as the best peer", bestOf("W5")},
	{"Pauses", "one of 4,000 open pauses answered: at most 50 ms", timeOf("Pauses/memory")},
	{"Paused", "a store in memory: at most 4 KB a run", sizeOf("Paused/memory/braise")},
	{"Paused", "SQLite: at most 4 KB a run in a process that lists them", sizeOf("Paused/sqlite/braise")},
	{"Paused", "SQLite, the newest 50 of them: at most 20 ms", figureOf("Paused/sqlite/braise", "page-ns")},
	{"LastChunk", "in memory: at most 1 ms", timeOf("LastChunk/memory/braise")},
	{"LastChunk", "SQLite, FULL: at most 1 ms", timeOf("LastChunk/sqlite-full/braise")},
	{"LastChunk", "Postgres: at most 1 ms", timeOf("LastChunk/postgres/braise")},
	{"Deltas", "chat completions: at most 25 ms", timeOf("Deltas/openai/braise")},
	{"Deltas", "Anthropic: at most 25 ms", timeOf("Deltas/anthropic/braise")},
	{"Turns", "chat completions: at most 1 ms", timeOf("Turns/openai/braise")},
	{"Turns", "Anthropic: at most 1 ms", timeOf("Turns/anthropic/braise")},
	{"W6", "SQLite, FULL: at least 1.3 × as fast as DBOS", timesOf("ns/op", "W6/sqlite-full/dbos", "W6/sqlite-full/braise")},
	{"W6", "SQLite, NORMAL: at least 1.3 × as fast as DBOS", timesOf("ns/op", "W6/sqlite-normal/dbos", "W6/sqlite-normal/braise")},
	{"W6", "Postgres: at least 1.3 × as fast as DBOS", timesOf("ns/op", "W6/postgres/dbos", "W6/postgres/braise")},
	{"W6", "SQLite, FULL: at most 1.3 × the floor, 20 ms", floorOf("W6/sqlite-full/braise")},
	{"W6", "SQLite, NORMAL: at most 1.3 × the floor, 4 ms", floorOf("W6/sqlite-normal/braise")},
	{"W6", "Postgres: at most 1.3 × the floor, 33 ms", floorOf("W6/postgres/braise")},
	{"W6", "JSONL: at most 1.3 × the floor", floorOf("W6/jsonl/braise")},
	{"W6", "a chain that only computes: one commit", func(r *results) string {
		return fmt.Sprintf("%s for the journal, %s for its lease", r.count("W6Journal/braise-pure", "commits"), r.count("W6Journal/braise-pure", "lease-writes"))
	}},
	{"W6", "journal: at most 400 bytes a step beyond its output", func(r *results) string {
		return r.count("W6Journal/braise", "B/step") + " bytes"
	}},
	{"W7", "NORMAL, after a pause: at least 1.5 × as fast as DBOS", timesOf("ns/op", "W7/dbos", "W7/braise-normal")},
	{"W7", "NORMAL, after the death of the process: at least 1.5 × as fast as DBOS",
		timesOf("ns/op", "W7/dbos", "W7/braise-recover-normal")},
	{"W8", "in memory: at least 0.75 × as fast as the best peer", bestOf("W8")},
	{"W8", "on SQLite, FULL: at least 4 × the steps/s of DBOS",
		timesOf("steps/s", "W8Durable/sqlite-full/braise", "W8Durable/sqlite-full/dbos")},
	{"W8", "on SQLite, NORMAL: at least 4 × the steps/s of DBOS",
		timesOf("steps/s", "W8Durable/sqlite-normal/braise", "W8Durable/sqlite-normal/dbos")},
	{"W8", "on Postgres: at least 4 × the steps/s of DBOS",
		timesOf("steps/s", "W8Durable/postgres/braise", "W8Durable/postgres/dbos")},
}

// timesOf is how many times as much the first has of the unit as the second.
func timesOf(unit, name, to string) func(*results) string {
	return func(r *results) string {
		m, ok := r.ratio(name, to, unit)
		if !ok {
			return "–"
		}
		return factor(m)
	}
}

// bestOf is how fast Braise is beside the best peer, and that peer's name. Floors are no peers.
func bestOf(workload string, except ...string) func(*results) string {
	return func(r *results) string {
		best, name := math.Inf(1), ""
		for _, engine := range r.engines([]string{workload}) {
			if engine == "braise" || strings.HasPrefix(engine, "floor-") || slices.Contains(except, engine) {
				continue
			}
			if m, ok := r.ratio(workload+"/"+engine, workload+"/braise", "ns/op"); ok && m < best {
				best, name = m, engine
			}
		}
		if name == "" {
			return "–"
		}
		return factor(best) + ", " + name
	}
}

func sizeOf(name string) func(*results) string {
	return func(r *results) string { return r.count(name, "B/run") + " bytes" }
}

func timeOf(name string) func(*results) string { return figureOf(name, "ns/op") }

// figureOf is a time.
func figureOf(name, unit string) func(*results) string {
	return func(r *results) string {
		m, ok := r.median(name, unit)
		if !ok {
			return "–"
		}
		return duration(m)
	}
}

// floorOf is the ratio to the floor that the benchmark took turns with, and the time.
func floorOf(name string) func(*results) string {
	return func(r *results) string {
		times, ok := r.median(name, "x-floor")
		if !ok {
			return "–"
		}
		return factor(times) + ", " + timeOf(name)(r)
	}
}

// count prints a figure without digits behind the point.
func (r *results) count(name, unit string) string {
	m, ok := r.median(name, unit)
	if !ok {
		return "–"
	}
	text := fmt.Sprintf("%.0f", m)
	if len(text) > 3 {
		text = text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}

// markdown prints what was measured where, a table of times with their ratios to Braise's for each
// group of workloads, and the goals.
func (r *results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d rounds on %s, %s, %d cores, %s %s/%s; the load average before each round was %s. In brackets: the ratio to Braise.\n\n",
		r.rounds, time.Now().UTC().Format(time.DateOnly), r.cpu, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(r.load, ", "))
	fmt.Fprintf(&b, "Versions: Braise %s, %s.\n", r.commit, strings.Join(peers(), ", "))
	for _, t := range tables {
		columns := slices.Clone(t.workloads)
		for i := range columns {
			columns[i] += t.title
		}
		fmt.Fprintf(&b, "\n| | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---:|", len(columns)))
		for _, engine := range r.engines(t.workloads) {
			fmt.Fprintf(&b, "| %s |", engine)
			for _, w := range t.workloads {
				fmt.Fprintf(&b, " %s |", r.cell(w, engine, t.unit))
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n| | goal | measured |\n|---|---|---:|\n")
	for _, g := range goals {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", g.workload, g.goal, g.measured(r))
	}
	return b.String()
}

// engines lists who did any of the workloads, in the order of the benchmarks.
func (r *results) engines(workloads []string) []string {
	var engines []string
	for _, name := range r.names {
		for _, w := range workloads {
			if engine, ok := strings.CutPrefix(name, w+"/"); ok && !slices.Contains(engines, engine) {
				engines = append(engines, engine)
			}
		}
	}
	return engines
}

func (r *results) cell(workload, engine, unit string) string {
	name := workload + "/" + engine
	m, ok := r.median(name, unit)
	if !ok {
		return "–"
	}
	text := duration(m)
	if !strings.HasSuffix(unit, "ns/op") {
		text = r.count(name, unit)
	}
	if times, ok := r.ratio(name, workload+"/braise", unit); ok && engine != "braise" {
		text += " (" + factor(times) + ")"
	}
	return text
}

// factor prints a ratio with two digits.
func factor(f float64) string {
	switch {
	case f < 0.01:
		return "under 0.01 ×"
	case f < 1:
		return fmt.Sprintf("%.2f ×", f)
	case f < 10:
		return fmt.Sprintf("%.1f ×", f)
	}
	return fmt.Sprintf("%.0f ×", f)
}

// duration prints nanoseconds with three digits.
func duration(ns float64) string {
	for _, u := range []struct {
		name string
		ns   float64
	}{{"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}} {
		if ns >= u.ns {
			digits := 2
			for n := ns / u.ns; n >= 10 && digits > 0; n /= 10 {
				digits--
			}
			return fmt.Sprintf("%.*f %s", digits, ns/u.ns, u.name)
		}
	}
	return fmt.Sprintf("%.0f ns", ns)
}

// peers lists their modules and versions. sonic counts: eino's older choice does not build with
// every Go.
func peers() []string {
	const format = `{{if or (eq .Path "github.com/bytedance/sonic") (not (or .Main .Indirect .Replace))}}{{.Path}} {{.Version}}{{end}}`
	out, err := exec.Command("go", "list", "-m", "-f", format, "all").Output()
	if err != nil {
		return []string{"peers unknown: " + err.Error()}
	}
	var list []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// write puts the text between the marks of a file.
func write(name, text string) error {
	const from, to = "<!-- results -->\n", "<!-- end of results -->\n"
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(page), from)
	_, tail, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q", name, strings.TrimSpace(from), strings.TrimSpace(to))
	}
	return os.WriteFile(name, []byte(head+from+"\n"+text+"\n"+to+tail), 0o644)
}
