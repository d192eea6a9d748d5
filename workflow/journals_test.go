package workflow_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

var (
	writeJournals = flag.String("write-journals", "", "write the journals of this new folder of testdata/journals")
	updateWants   = flag.Bool("update-journal-wants", false, "rewrite what testdata/journals says that runs come to; the journals stay")
)

// editions are the folders of journals, by the versions that wrote them.
var editions = []string{"1", "2", "3", "4", "5", "7", "8", "9", "10", "11", "12", "13", "14", "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31"}

const (
	journalsDir  = "testdata/journals"
	databaseFile = "runs.sqlite.gz"
)

// journalCase is a folder with a recipe and journals of its runs. See the README beside the folders.
type journalCase struct {
	name, dir string
	rich      bool // the host, its ports and its models say all that they can; in the first edition they did not

	About    string
	Journals map[string]struct { // by name
		Written []journalLeg            // by which the journal came to be
		Resumed map[string][]journalLeg // from there, by name
	}
}

func journalCases(t *testing.T, edition string) (cases []*journalCase) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(journalsDir, edition, "*", "case.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", edition, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root, found := yamlnode.Parse(file, text, nil)
		if err := found.Err(); err != nil {
			t.Fatal(err)
		}
		line, err := value.JSON(root.Decoded())
		if err != nil {
			t.Fatal(err)
		}
		c := &journalCase{dir: filepath.Dir(file), rich: !strings.HasPrefix(edition, "1")}
		c.name = filepath.Base(c.dir)
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		cases = append(cases, c)
	}
	return cases
}

// runID is the id of the run that a journal is of; what is forked from it has a number behind that.
func (c *journalCase) runID(journal string) string { return c.name + "-" + journal }

func (c *journalCase) load(t *testing.T, file string) *workflow.Workflow {
	t.Helper()
	r, err := recipe.Load(os.DirFS(c.dir), file)
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wf
}

// Runs whose journals earlier versions wrote come to the same end as in these versions, from each store.
func TestJournalsOfEarlierVersions(t *testing.T) {
	if *writeJournals != "" {
		writeEdition(t, *writeJournals)
		testJournals(t, *writeJournals, shortened)
		return
	}
	for _, edition := range editions {
		testJournals(t, edition, shortened)
	}
}

// testJournals resumes all runs of an edition. look chooses what of the lines about a case is compared with
// its want.txt.
func testJournals(t *testing.T, edition string, look func(lines []string) []string) {
	t.Helper()
	database := unpacked(t, filepath.Join(journalsDir, edition, databaseFile))
	for _, c := range journalCases(t, edition) {
		t.Run(edition+" "+c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, journal := range value.SortedKeys(c.Journals) {
				fromFolder := c.goOn(t, journal, func(t *testing.T) checkpoint.Store {
					dir := t.TempDir()
					if err := os.CopyFS(dir, os.DirFS(filepath.Join(c.dir, "store"))); err != nil {
						t.Fatal(err)
					}
					return openJournals(t, dir)
				})
				got = append(got, fromFolder...)
				if testing.Short() {
					continue // what the folder gives is what was written down
				}
				fromDatabase := c.goOn(t, journal, func(t *testing.T) checkpoint.Store {
					file := filepath.Join(t.TempDir(), "runs.sqlite")
					if err := os.WriteFile(file, database, 0o600); err != nil {
						t.Fatal(err)
					}
					return openDatabase(t, file)
				})
				if diff := cmp.Diff(fromFolder, fromDatabase); diff != "" {
					t.Errorf("%s: -from jsonl +from sqlite\n%s", journal, diff)
				}
			}
			got = look(got)
			wanted := filepath.Join(c.dir, "want.txt")
			if *updateWants {
				if err := os.WriteFile(wanted, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(wanted)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(strings.TrimSuffix(string(want), "\n"), "\n"), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// shortened leaves out most of a long line that is there a second time.
func shortened(lines []string) []string {
	const head = 60
	known := map[string]bool{}
	short := slices.Clone(lines)
	for i, line := range lines {
		if len(line) > head+8 && known[line] {
			short[i] = strings.ToValidUTF8(line[:head], "") + "… again"
		}
		known[line] = true
	}
	return short
}

// goOn resumes a run in each of the ways that a case has, and tells what it comes to. open returns a
// store with all journals of the case, as they were written.
func (c *journalCase) goOn(t *testing.T, journal string, open func(t *testing.T) checkpoint.Store) (told []string) {
	ways := c.Journals[journal].Resumed
	if len(ways) == 0 {
		t.Fatalf("no way to resume %s", journal)
	}
	for i, way := range value.SortedKeys(ways) {
		synctest.Test(t, func(t *testing.T) {
			store := open(t)
			defer store.Close()
			if i == 0 {
				told = append(told, "#### "+journal, "")
				told = append(told, c.past(t, store, journal)...)
			}
			told = append(told, "", "## "+journal+", "+way)
			p := &journalPlayer{journalCase: c, run: c.runID(journal), store: store}
			_, recs := p.journalOf(t, p.run)
			time.Sleep(time.Until(recs[len(recs)-1].At) + time.Minute)
			for _, leg := range ways[way] {
				told = append(told, p.play(t, leg)...)
			}
		})
	}
	return told
}

// past tells what a journal tells as it is.
func (c *journalCase) past(t *testing.T, store checkpoint.Store, journal string) (told []string) {
	t.Helper()
	sum, recs, err := store.Load(t.Context(), c.runID(journal), 0)
	if err != nil {
		t.Fatal(err)
	}
	past, err := history.Load(t.Context(), store, c.runID(journal))
	if err != nil {
		t.Fatal(err)
	}
	told = append(told, fmt.Sprintf("%d records, %s", len(recs), sum.Status))
	for _, s := range past.Steps {
		told = append(told, "step "+plainJSON(t, s))
	}
	for _, id := range value.SortedKeys(past.Opened) {
		told = append(told, "pause "+plainJSON(t, past.Opened[id]))
	}
	for _, e := range past.Events {
		told = append(told, toldEvent(t, e))
	}
	return told
}

func openJournals(t *testing.T, dir string) checkpoint.Store {
	t.Helper()
	store, err := jsonl.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func openDatabase(t *testing.T, file string) checkpoint.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), file, &sqlite.Options{Synchronous: "normal"})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// writeEdition lets the runs of a new folder of cases happen, and keeps their journals. It never touches a
// folder that has some: what an earlier version wrote can only be read.
func writeEdition(t *testing.T, edition string) {
	t.Helper()
	ledger.Owner = func() string { return "gone" }
	cases := journalCases(t, edition)
	packed, database := filepath.Join(journalsDir, edition, databaseFile), filepath.Join(t.TempDir(), "runs.sqlite")
	for _, c := range cases {
		for _, place := range []string{packed, filepath.Join(c.dir, "store")} {
			if _, err := os.Lstat(place); err == nil {
				t.Fatalf("%s is there: journals are written once", place)
			}
		}
	}
	for _, c := range cases {
		folder := filepath.Join(c.dir, "store")
		for _, journal := range value.SortedKeys(c.Journals) {
			synctest.Test(t, func(t *testing.T) {
				store := openJournals(t, folder)
				defer store.Close()
				p := &journalPlayer{journalCase: c, run: c.runID(journal), store: store, writing: true}
				for _, leg := range c.Journals[journal].Written {
					t.Logf("%s %s\n%s", c.name, journal, strings.Join(p.play(t, leg), "\n"))
				}
				if p.dies != "" && !p.dead {
					t.Errorf("%s %s: it did not die", c.name, journal)
				}
			})
		}
		synctest.Test(t, func(t *testing.T) { copyRuns(t, openJournals(t, folder), openDatabase(t, database)) })
		for _, empty := range []string{".lock", "documents/.lock", "documents"} { // whoever opens it makes them again
			if err := os.Remove(filepath.Join(folder, empty)); err != nil && empty == ".lock" {
				t.Error(err)
			}
		}
	}
	pack(t, database, packed)
	*updateWants = true
}

func pack(t *testing.T, file, packed string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(packed, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unpacked(t *testing.T, packed string) []byte {
	t.Helper()
	f, err := os.Open(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// copyRuns copies all runs from one store to another, and closes both.
func copyRuns(t *testing.T, from, to checkpoint.Store) {
	t.Helper()
	defer from.Close()
	defer to.Close()
	runs, err := from.List(t.Context(), checkpoint.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, sum := range slices.Backward(runs) {
		_, recs, err := from.Load(t.Context(), sum.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		run := sum.Run
		if run.Definition, err = from.Definition(t.Context(), run.Digest); err != nil {
			t.Fatal(err)
		}
		for i := range recs {
			recs[i].Seq = 0
		}
		if _, err := to.Create(t.Context(), run, "gone", 0, recs[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := files.Copy(t.Context(), from.(files.Store), to.(files.Store)); err != nil {
		t.Fatal(err)
	}
}

// neverWritten are kinds of records that no run has, and events that no agent of a recipe has.
var neverWritten = []string{
	"definition", "document", "batch", "lease", "summary", "signal", "signals.ended", // in files of stores, but in no journal
	"run.restarted",             // the cases have no resume adapter that restarts a run
	string(agents.LayersLoaded), // recipes have no layers
}

// Every kind of record and of agents' event that the sources have is in one of the journals.
func TestJournalsHaveEveryKind(t *testing.T) {
	has := map[string]bool{}
	for _, rec := range journalRecords(t) {
		has[string(rec.Kind)] = true
		var data struct{ Events []agents.Event }
		if rec.Kind != "agent.event" {
			continue
		}
		if err := json.Unmarshal(rec.Data, &data); err != nil {
			t.Fatal(err)
		}
		for _, e := range data.Events {
			has[string(e.Kind)] = true
		}
	}
	kinds := kindsInSources(t)
	if len(kinds) < 40 {
		t.Errorf("the sources have %d kinds only: %q", len(kinds), kinds)
	}
	for _, kind := range kinds {
		if never := slices.Contains(neverWritten, kind); has[kind] == never {
			t.Errorf("some journal has %s: %v, want %v", kind, has[kind], !never)
		}
	}
}

// kindsInSources are the constants of the types checkpoint.Kind and agents.Kind.
func kindsInSources(t *testing.T) (kinds []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !isJournalKind(file.Name.Name, spec.Type) {
				return true
			}
			for _, v := range spec.Values {
				if lit, ok := v.(*ast.BasicLit); ok {
					kind, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Error(err)
					}
					kinds = append(kinds, kind)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

func isJournalKind(pkg string, typ ast.Expr) bool {
	if sel, ok := typ.(*ast.SelectorExpr); ok && sel.Sel.Name == "Kind" {
		x, ok := sel.X.(*ast.Ident)
		return ok && (x.Name == "checkpoint" || x.Name == "agents")
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.Name == "Kind" && (pkg == "checkpoint" || pkg == "agents")
}

// toldEvent is an event as a line, without times.
func toldEvent(t *testing.T, e interface{ MarshalJSON() ([]byte, error) }) string {
	t.Helper()
	text, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	m := v.(map[string]any)
	kind, step, data := m["kind"], m["step"], m["data"]
	for _, key := range []string{"kind", "step", "at", "seq", "data"} {
		delete(m, key)
	}
	if len(m) > 0 {
		t.Errorf("an event has %v", m)
	}
	line := fmt.Sprint("trace ", kind)
	if step != nil {
		line += fmt.Sprint(" ", step)
	}
	if data != nil {
		line += " " + plainJSON(t, data)
	}
	return line
}

// plainJSON is a value as JSON, without what is different each time: times, tokens and their hashes, and how
// long something took.
func plainJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := value.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = value.JSON(plain("", decoded)); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func plain(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = plain(k, e)
		}
	case []any:
		for i, e := range v {
			v[i] = plain("", e)
		}
	case string:
		if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return "TIME"
		}
		switch key {
		case "token", "hash", "owner":
			return strings.ToUpper(key)
		}
	case int64, float64:
		switch key {
		case "durationMs", "worked":
			return "TIME"
		}
	}
	return v
}

// journalOf returns what the store has of a run.
func (p *journalPlayer) journalOf(t *testing.T, run string) (checkpoint.Summary, []checkpoint.Record) {
	t.Helper()
	sum, recs, err := p.store.Load(context.WithoutCancel(t.Context()), run, 0)
	if err != nil {
		t.Fatal(err)
	}
	return sum, recs
}

// known reports whether the store has a run.
func (p *journalPlayer) known(run string) bool {
	_, _, err := p.store.Load(context.Background(), run, math.MaxInt64)
	return err == nil
}
