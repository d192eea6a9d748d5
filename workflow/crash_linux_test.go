package workflow_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/workflow"
)

// What an undisturbed run comes to.
var (
	crashOutput   = []any{"first", "second", "approve", map[string]any{"did": "send"}}
	crashArtefact = map[string]any{
		"charge": did("charge"), "look": did("look"), "book": did("book"),
		"draft": map[string]any{"text": "first"}, "check": map[string]any{"text": "second"},
		"each": []any{did("each[0]"), did("each[1]"), did("each[2]")},
		"left": did("left"), "on": did("on"), "right": did("right"),
		"approve": map[string]any{"decision": "approve", "form": nil}, "send": did("send"),
	}
	crashEffects = map[string]string{
		"charge": "external", "book": "idempotent", "each[0]": "external", "each[1]": "external", "each[2]": "external",
		"left": "external", "on": "external", "right": "idempotent", "send": "external",
	}
	// What must be in the journal before a step is called.
	crashOrder = map[string][]string{
		"look": {"charge"}, "book": {"charge", "look"}, "draft": {"book"}, "each[0]": {"draft"}, "each[1]": {"draft"}, "each[2]": {"draft"},
		"left": {"each[0]", "each[1]", "each[2]"}, "right": {"each[0]", "each[1]", "each[2]"}, "on": {"left"}, "check": {"on", "right"}, "send": {"check"},
	}
)

func did(path string) any { return map[string]any{"did": path} }

// world is a store, in which each run has an effect log of its own.
type world struct {
	kind, place string
	store       checkpoint.Store
	dir         string
	psql        func(sql string) []string // of postgres
}

// newWorld opens an empty store; without a server, it skips the test.
func newWorld(t *testing.T, kind string) *world {
	t.Helper()
	w := &world{kind: kind, dir: t.TempDir()}
	w.place = filepath.Join(w.dir, "store")
	if kind == "postgres" {
		w.usePostgres(t)
	}
	var err error
	if w.store, err = openWorld(kind, w.place); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.store.Close() })
	return w
}

// usePostgres makes a place of a schema of its own, which psql removes in the end.
func (w *world) usePostgres(t *testing.T) {
	t.Helper()
	server := os.Getenv("BRAISE_TEST_POSTGRES")
	if server == "" {
		server = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
	}
	w.psql = func(sql string) []string {
		return []string{"psql", server, "-v", "ON_ERROR_STOP=1", "-qtAc", sql}
	}
	if out, err := w.sql("SELECT 1"); err != nil {
		message := fmt.Sprintf("NO POSTGRES SERVER OR NO PSQL, CRASHES WITH IT ARE NOT TESTED (set BRAISE_TEST_POSTGRES): %v %s", err, out)
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	name := "crash_" + strings.ToLower(rand.Text())
	w.place = withQuery(t, server, "schema", name)
	t.Cleanup(func() {
		if out, err := w.sql("SET client_min_messages = error; DROP SCHEMA IF EXISTS " + name + " CASCADE"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

func (w *world) sql(sql string) (string, error) {
	args := w.psql(sql)
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	return string(out), err
}

func withQuery(t *testing.T, address, name, val string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, val)
	u.RawQuery = q.Encode()
	return u.String()
}

// job is for a new run in the store.
func (w *world) job(t *testing.T) crashJob {
	t.Helper()
	job := crashJob{Store: w.kind, Place: w.place, Run: "r" + strings.ToLower(rand.Text())}
	job.Dir = filepath.Join(w.dir, job.Run)
	if err := os.Mkdir(job.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return job
}

// records returns the journal; none is empty.
func (w *world) records(t *testing.T, run string) []checkpoint.Record {
	t.Helper()
	_, recs, err := w.store.Load(t.Context(), run, 0)
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatal(err)
	}
	return recs
}

// recorded counts the calls that have a result in the journal, by path.
func (w *world) recorded(t *testing.T, run string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, rec := range w.records(t, run) {
		if rec.Kind == "call.ended" || rec.Kind == checkpoint.PauseAnswered && strings.Contains(string(rec.Data), `"decision":"result"`) {
			n[rec.Path]++
		}
	}
	return n
}

// calls counts the lines of the effect log, by path.
func calls(dir string) map[string]int {
	n := map[string]int{}
	for _, e := range effectsIn(dir) {
		n[e.Path]++
	}
	return n
}

// external returns the external effects.
func external(dir string) []effect {
	return slices.DeleteFunc(effectsIn(dir), func(e effect) bool { return e.What != "external" })
}

// recover lets a new process do the rest. It checks that no step was called before what it follows from was in the
// journal, that no recorded step is called again, and all that check does.
func (w *world) recover(t *testing.T, job crashJob) crashResult {
	t.Helper()
	ended, before := w.recorded(t, job.Run), calls(job.Dir)
	for path := range before {
		for _, earlier := range crashOrder[path] {
			if ended[earlier] == 0 {
				t.Errorf("%s was called before the result of %s was in the journal", path, earlier)
			}
		}
	}
	result := startChild(t, job, "", "").result(t)
	w.check(t, job, result)
	for path, after := range calls(job.Dir) {
		if ended[path] > 0 && after > before[path] {
			t.Errorf("%s had a result, and was called again", path)
		}
	}
	return result
}

// check compares a run that came to its end with an undisturbed one.
func (w *world) check(t *testing.T, job crashJob, got crashResult) {
	t.Helper()
	if got.Status != workflow.StatusOK {
		t.Errorf("status %s (%s), want ok", got.Status, got.Code)
	}
	if diff := cmp.Diff(crashOutput, got.Output); diff != "" {
		t.Errorf("output (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(crashArtefact, got.Artefact); diff != "" {
		t.Errorf("artefact (-want +got)\n%s", diff)
	}
	done := map[string]string{}
	for _, e := range effectsIn(job.Dir) {
		if e.What == "read" || e.What == "model" {
			continue
		}
		if want := resume.Key(job.Run, 1, e.Path, 1, ""); e.Key != want {
			t.Errorf("%s was called with the key %s, want %s", e.Path, e.Key, want)
		}
		if done[e.Path] != "" && e.What == "external" {
			t.Errorf("the external effect of %s happened twice", e.Path)
		}
		done[e.Path] = e.What
	}
	if diff := cmp.Diff(crashEffects, done); diff != "" {
		t.Errorf("effects (-want +got)\n%s", diff)
	}
	for path, n := range w.recorded(t, job.Run) {
		if n != 1 {
			t.Errorf("%s has %d results in the journal", path, n)
		}
	}
	answers := 0
	for _, rec := range w.records(t, job.Run) {
		if rec.Kind == checkpoint.PauseAnswered && rec.Path == "approve" {
			answers++
		}
	}
	if answers != 1 {
		t.Errorf("the journal has %d answers of the person, want 1", answers)
	}
}

var durable = []string{"jsonl", "sqlite", "postgres"}

// points runs undisturbed, checks that every boundary is reached, and returns each time as name:n.
func (w *world) points(t *testing.T) []string {
	t.Helper()
	job := w.job(t)
	result := startChild(t, job, "", "").result(t)
	w.check(t, job, result)
	text, err := os.ReadFile("failpoint.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`= "(\w+\.\w+)"`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
		n := 0
		for _, hit := range result.Hits {
			if strings.HasPrefix(hit, m[1]+":") {
				n++
			}
		}
		t.Logf("%-15s %2d", m[1], n)
		if n == 0 {
			t.Errorf("%s is never reached", m[1])
		}
	}
	for _, hit := range result.Hits {
		if name, _, _ := strings.Cut(hit, ":"); !slices.Contains(names, name) {
			t.Errorf("%s is not in the list of boundaries", name)
		}
	}
	return result.Hits
}

// some returns all points, and in a short test the first and last times of each name.
func some(points []string) []string {
	if !testing.Short() {
		return points
	}
	last := map[string]string{}
	for _, p := range points {
		name, _, _ := strings.Cut(p, ":")
		last[name] = p
	}
	return slices.DeleteFunc(slices.Clone(points), func(p string) bool {
		name, n, _ := strings.Cut(p, ":")
		return n != "1" && last[name] != p
	})
}

// A process is killed at each boundary, each time that it comes to it, and another one goes on; with one store
// that one is killed too, and a third goes on.
func TestKilledAnywhere(t *testing.T) {
	for _, kind := range durable {
		t.Run(kind, func(t *testing.T) {
			if testing.Short() && kind != "jsonl" {
				t.Skip("only one store in a short test")
			}
			w := newWorld(t, kind)
			for i, at := range some(w.points(t)) {
				t.Run(at, func(t *testing.T) {
					t.Parallel()
					job := w.job(t)
					kill(t, job, at)
					hits := w.recover(t, job).Hits
					if kind != "jsonl" || len(hits) == 0 { // of a run that had ended
						return
					}
					then := hits[i*7%len(hits)]
					if strings.HasPrefix(at, "tool.after") {
						then = "answer.after:1" // by which somebody has said what became of the call
					}
					job = w.job(t)
					kill(t, job, at)
					// It is not reached when a call that was under way at the first death got further this time.
					if p := startChild(t, job, then, ""); p.killed() {
						w.recover(t, job)
					} else {
						w.check(t, job, p.read(t))
					}
				})
			}
		})
	}
}

// The same where each record has a write of its own. How many there are is a matter of luck, so the points are
// counted over all names, up to the first that is not reached.
func TestKilledBetweenLateRecords(t *testing.T) {
	w := newWorld(t, "jsonl")
	step := 1
	if testing.Short() {
		step = 7
	}
	for n := 1; ; n += step {
		job := w.job(t)
		job.Late = true
		p := startChild(t, job, fmt.Sprintf("any:%d", n), "")
		if !p.killed() {
			if n < len(crashArtefact) {
				t.Fatalf("only %d points\n%s", n, &p.err)
			}
			return
		}
		w.recover(t, job)
		if t.Failed() {
			t.Fatalf("killed at point %d", n)
		}
	}
}

// A token that was given out before a crash is as good as ever, unless the answer is in the journal; then all
// tokens of the pause are worth nothing.
func TestTokensAfterCrash(t *testing.T) {
	for _, kind := range durable {
		t.Run(kind, func(t *testing.T) {
			if testing.Short() && kind != "jsonl" {
				t.Skip("only one store in a short test")
			}
			w := newWorld(t, kind)
			points := w.points(t)
			for _, at := range some(points[slices.Index(points, "pause.noted:1"):]) {
				t.Run(at, func(t *testing.T) {
					t.Parallel()
					job := w.job(t)
					kill(t, job, at)
					job.Tokens = readLines[string](filepath.Join(job.Dir, "tokens"))
					answered := slices.ContainsFunc(w.records(t, job.Run), func(rec checkpoint.Record) bool { return rec.Kind == checkpoint.PauseAnswered })
					want := slices.Repeat([]string{"resume.invalidToken"}, len(job.Tokens))
					if len(want) > 0 && !answered {
						want[0] = ""
					}
					if diff := cmp.Diff(want, w.recover(t, job).Tried, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("what became of the tokens, answered before: %t (-want +got)\n%s", answered, diff)
					}
				})
			}
		})
	}
}

// A process is stopped for longer than its lease, and another one does the rest. Woken again, the first cannot
// write any more, does nothing else, and says so.
func TestStoppedPastItsLease(t *testing.T) {
	for _, kind := range durable {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, kind)
			points := slices.DeleteFunc(w.points(t), func(p string) bool {
				return !regexp.MustCompile("^(append|answer).before:").MatchString(p)
			})
			for _, at := range some(points) {
				t.Run(at, func(t *testing.T) {
					t.Parallel()
					job := w.job(t)
					job.Lease = time.Millisecond
					stopped := startChild(t, job, at, "stop")
					stopped.stops(t)
					job.Lease = 0
					w.recover(t, job)
					recs, did := w.records(t, job.Run), external(job.Dir)
					if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
						t.Fatal(err)
					}
					got := stopped.result(t) // a call that was under way may have come to its end
					if got.Code != "run.fenced" {
						t.Errorf("the process that was stopped ended with %s %q, want run.fenced", got.Status, got.Code)
					}
					if diff := cmp.Diff(recs, w.records(t, job.Run)); diff != "" {
						t.Errorf("journal (-want +got)\n%s", diff)
					}
					if diff := cmp.Diff(did, external(job.Dir)); diff != "" {
						t.Errorf("external effects (-want +got)\n%s", diff)
					}
				})
			}
		})
	}
}

// The server ends the connections of a run under way. It goes on, or it ends in store.failed and another
// process goes on.
func TestConnectionsCut(t *testing.T) {
	if testing.Short() {
		t.Skip("not in a short test")
	}
	w := newWorld(t, "postgres")
	for _, at := range w.points(t) {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			job := w.job(t)
			job.Place = withQuery(t, w.place, "application_name", job.Run)
			job.Psql = w.psql("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = '" + job.Run + "'")
			switch got := startChild(t, job, at, "cut").result(t); got.Code {
			case "":
				w.check(t, job, got)
			case "store.failed":
				w.recover(t, job)
			default:
				t.Errorf("the run ended with %s", got.Code)
			}
		})
	}
}
