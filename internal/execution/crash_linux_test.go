package execution_test

import (
	"crypto/rand"
	"fmt"
	"maps"
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
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/workflow"
)

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
func (w *world) job(t *testing.T, recipe *crashRecipe) crashJob {
	t.Helper()
	job := crashJob{Recipe: recipe.name, Store: w.kind, Place: w.place, Run: "r" + strings.ToLower(rand.Text())}
	job.Dir = filepath.Join(w.dir, job.Run)
	if err := os.Mkdir(job.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return job
}

// records returns the journal; none is empty.
func (w *world) records(t *testing.T, run string) []checkpoint.Record {
	t.Helper()
	return runtest.RecordsIn(t.Context(), w.store, run)
}

// deed is one call in the world: a step of one beginning of the run.
type deed struct {
	path       string
	generation int
}

func (d deed) String() string {
	if d.generation == 1 {
		return d.path
	}
	return fmt.Sprintf("%s of generation %d", d.path, d.generation)
}

// isResult reports whether a record has the result of a call, of a rollback or of a wait.
func isResult(rec checkpoint.Record) bool {
	switch rec.Kind {
	case "call.ended", "rollback.ended", "wait.over":
		return true
	}
	return rec.Kind == checkpoint.PauseAnswered && strings.Contains(string(rec.Data), `"decision":"result"`)
}

// byGeneration visits the records with the generation that each belongs to.
func byGeneration(recs []checkpoint.Record, visit func(rec checkpoint.Record, d deed)) {
	generation := 1
	for _, rec := range recs {
		visit(rec, deed{rec.Path, generation})
		if rec.Kind == checkpoint.PauseAnswered && strings.Contains(string(rec.Data), `"generation":`) {
			generation++
		}
	}
}

// recorded counts the calls that have a result in the journal.
func recorded(recs []checkpoint.Record) map[deed]int {
	n := map[deed]int{}
	byGeneration(recs, func(rec checkpoint.Record, d deed) {
		if isResult(rec) {
			n[d]++
		}
	})
	return n
}

// calls counts the lines of the effect log. A line without a key is of the only generation.
func calls(log []effect, run string) map[deed]int {
	n := map[deed]int{}
	for _, e := range log {
		n[e.deed(run)]++
	}
	return n
}

// deed finds out by its key which call had the effect; 0 is no generation.
func (e effect) deed(run string) deed {
	if e.Key == "" {
		return deed{e.Path, 1}
	}
	for g := 1; g < 50; g++ {
		if e.Key == resume.Key(run, g, e.Path, 1, "") {
			return deed{e.Path, g}
		}
	}
	return deed{e.Path, 0}
}

// standing counts by path how often each step was done and not undone. A rollback of which the journal says
// that it is not repeated counts as done.
func standing(recs []checkpoint.Record, log []effect, run string) map[string]int {
	undone := map[deed]bool{}
	byGeneration(recs, func(rec checkpoint.Record, d deed) {
		if rec.Kind == "rollback.ended" {
			undone[d] = true
		}
	})
	n := map[string]int{}
	for d := range calls(log, run) {
		if strings.HasSuffix(d.path, "!rollback") {
			undone[d] = true
		} else {
			n[d.path]++
		}
	}
	for d := range undone {
		n[strings.TrimSuffix(d.path, "!rollback")]--
	}
	return n
}

// external returns the external effects.
func external(dir string) []effect {
	return slices.DeleteFunc(effectsIn(dir), func(e effect) bool { return e.What != "external" })
}

// recover lets a new process do the rest. It checks that no step was called before what it follows from was in
// the journal, that no recorded step is called again, nor one that had lost a race, and all that check does.
func (w *world) recover(t *testing.T, job crashJob) crashResult {
	t.Helper()
	recs := w.records(t, job.Run)
	ended, before := recorded(recs), calls(effectsIn(job.Dir), job.Run)
	for d := range before {
		for _, path := range crashRecipeNamed(job.Recipe).order[d.path] {
			if earlier := (deed{path, d.generation}); ended[earlier] == 0 {
				t.Errorf("%s was called before the result of %s was in the journal", d, earlier)
			}
		}
	}
	result := startChild(t, job, "", "").result(t)
	w.check(t, job, result)
	for d, after := range calls(effectsIn(job.Dir), job.Run) {
		if ended[d] > 0 && after > before[d] {
			t.Errorf("%s had a result, and was called again", d)
		}
	}
	for race, won := range winners(recs, func(string, checkpoint.Record) {}) {
		_, winner := branchOf(won)
		for d, after := range calls(effectsIn(job.Dir), job.Run) {
			if r, branch := branchOf(d.path); r == race && branch != winner && after > before[d] {
				t.Errorf("%s had won, and %s was called", won, d)
			}
		}
	}
	return result
}

// check compares a run that came to its end with an undisturbed one.
func (w *world) check(t *testing.T, job crashJob, got crashResult) {
	t.Helper()
	recipe, recs, log := crashRecipeNamed(job.Recipe), w.records(t, job.Run), effectsIn(job.Dir)
	want := recipe.want(t, recs, log)
	status := workflow.StatusOK
	switch {
	case recipe.cancels != "":
		status = workflow.StatusCancelled
	case recipe.code != "":
		status = workflow.StatusError
	}
	if got.Status != status || got.Code != recipe.code {
		t.Errorf("status %s (%s), want %s (%s)", got.Status, got.Code, status, recipe.code)
	}
	if diff := cmp.Diff(want.output, got.Output); diff != "" {
		t.Errorf("output (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(want.artefact, got.Artefact); diff != "" {
		t.Errorf("artefact (-want +got)\n%s", diff)
	}
	w.checkEffects(t, job, want, recs, log)
	for d, n := range recorded(recs) {
		if n != 1 {
			t.Errorf("%s has %d results in the journal", d, n)
		}
	}
	answers := map[string]int{}
	for _, rec := range recs {
		text := string(rec.Data)
		if acts := rec.Kind == "run.input" || strings.Contains(text, `"next":"answered"`) && !strings.Contains(text, `"kept":true`); acts && !strings.Contains(text, `"by":"ada"`) {
			t.Errorf("record %d does not say who did it: %s", rec.Seq, text)
		}
		if rec.Kind == checkpoint.PauseAnswered && !isResult(rec) && !strings.Contains(text, `"decision":"retry"`) && !strings.Contains(text, `"kept":true`) {
			answers[rec.Path]++
		}
	}
	for _, step := range want.answers {
		if answers[step] == 0 {
			t.Errorf("the journal has no answer to %s", step)
		}
	}
	for step, n := range answers {
		if n > 1 {
			t.Errorf("the journal has %d answers to %s, want 1", n, step)
		}
	}
}

// checkEffects checks that all that had to happen did, nothing else, and each external effect once. A
// rollback may be missing if the journal says that it is not repeated.
func (w *world) checkEffects(t *testing.T, job crashJob, want crashWant, recs []checkpoint.Record, log []effect) {
	t.Helper()
	done, known := map[string]string{}, map[deed]bool{}
	for _, e := range log {
		if e.What == "read" || e.What == "model" {
			continue
		}
		d := e.deed(job.Run)
		if d.generation == 0 {
			t.Errorf("%s was called with the key %s of no step", e.Path, e.Key)
		}
		if known[d] && e.What == "external" {
			t.Errorf("the external effect of %s happened twice", d)
		}
		known[d], done[e.Path] = true, e.What
	}
	for _, rec := range recs {
		if rec.Kind == "rollback.ended" && strings.Contains(string(rec.Data), "not known whether it had its effect") && done[rec.Path] == "" {
			done[rec.Path] = want.may[rec.Path] + want.effects[rec.Path] // it is in one of them
		}
	}
	for path, what := range want.may {
		if done[path] == what && want.effects[path] == "" {
			delete(done, path)
		}
	}
	if diff := cmp.Diff(want.effects, done); diff != "" {
		t.Errorf("effects (-want +got)\n%s", diff)
	}
	for path, n := range standing(recs, log, job.Run) {
		stands := 1
		if _, undone := want.effects[path+"!rollback"]; undone && crashRecipeNamed(job.Recipe).code != "" {
			stands = 0
		}
		if what := want.effects[path]; what != "" && n != stands {
			t.Errorf("%s was done and not undone %d times, want %d", path, n, stands)
		}
	}
}

var durable = []string{"jsonl", "sqlite", "postgres"}

// points runs undisturbed, checks that every boundary is reached, and returns each time as name:n.
func (w *world) points(t *testing.T, recipe *crashRecipe) []string {
	t.Helper()
	var result crashResult
	for i := range 2 { // on a busy machine calls that end together may have a write each: of two runs the shorter counts
		job := w.job(t, recipe)
		r := startChild(t, job, "", "").result(t)
		if w.check(t, job, r); i == 0 || len(r.Hits) < len(result.Hits) {
			result = r
		}
	}
	text, err := os.ReadFile("../failpoint/failpoint.go")
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
		if n == 0 && (recipe == crashCalls && m[1] != "signal.taken" || recipe == crashSignals && m[1] == "signal.taken") {
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

// A process is killed at each boundary, each time that it comes to it, and another one goes on. To save time that
// is so with sqlite; with jsonl and postgres it is killed at every ninth, and in a short test at every twentieth, from one
// on that the seed decides. With jsonl the other one is killed too, and a third goes on.
func TestKilledAnywhere(t *testing.T) {
	for _, recipe := range crashRecipes {
		for _, kind := range durable {
			t.Run(recipe.name+"/"+kind, func(t *testing.T) {
				if testing.Short() && kind != "sqlite" {
					t.Skip("only one store in a short test")
				}
				w := newWorld(t, kind)
				points := some(w.points(t, recipe))
				every := 1
				switch {
				case testing.Short():
					every = 20
				case kind != "sqlite":
					every = 9
				}
				part := seedtest.Part(t, every)
				for i, at := range points {
					if i%every != part {
						continue
					}
					t.Run(at, func(t *testing.T) {
						t.Parallel()
						w.killAndRecover(t, recipe, at, i)
						if kind == "jsonl" {
							w.killTwice(t, recipe, points, i)
						}
					})
				}
			})
		}
	}
}

// killAndRecover lets one process die, and another one do the rest; a run whose number of writes is a matter of
// luck may end before. Each i has another order of answers.
func (w *world) killAndRecover(t *testing.T, recipe *crashRecipe, at string, i int) {
	t.Helper()
	job := w.job(t, recipe)
	if p := startChild(t, job, at, ""); !p.killed() {
		if !recipe.loose {
			t.Fatalf("%s was not reached (%v)\n%s%s", at, p.ProcessState, &p.out, &p.err)
		}
		w.check(t, job, p.read(t))
		return
	}
	job.Seed = uint64(i)
	w.recover(t, job)
}

// killTwice lets two processes die one after the other.
func (w *world) killTwice(t *testing.T, recipe *crashRecipe, points []string, i int) {
	t.Helper()
	at, then := points[i], points[i*7%len(points)]
	if strings.HasPrefix(at, "tool.after") {
		then = "answer.after:1" // by which somebody has said what became of the call
	}
	job := w.job(t, recipe)
	for _, point := range []string{at, then} {
		// It is not reached when a call that was under way at the first death got further this time.
		if p := startChild(t, job, point, ""); !p.killed() {
			w.check(t, job, p.read(t))
			return
		}
		job.Seed = uint64(i)
	}
	w.recover(t, job)
}

// Pauses in the branches of a fork inside a foreach are answered in every order, each by a process of its own, of
// which one is killed on the way. What is pending for the answer goes on, and nothing else.
func TestKilledWhileSiblingsWait(t *testing.T) {
	follows := map[string][]string{
		"each[0]/left/ask": {"each[0]/left/l2"}, "each[0]/right/gate": {"each[0]/right/gate", "each[0]/right/r2"},
		"each[1]/left/ask": {"each[1]/left/l2"}, "each[1]/right/gate": {"each[1]/right/gate", "each[1]/right/r2"},
	}
	steps := slices.Sorted(maps.Keys(follows))
	at := []string{"claim.after:2", "replay.after:2", "answer.before:1", "answer.after:1", "tool.before:1", "tool.after:1", "append.after:1"}
	for i, order := range permutations(steps) {
		kind := durable[i%len(durable)]
		t.Run(fmt.Sprint(kind, " ", order), func(t *testing.T) {
			if testing.Short() && kind != "jsonl" {
				t.Skip("only one store in a short test")
			}
			t.Parallel()
			w := newWorld(t, kind)
			job := w.job(t, crashItems)
			effects, open := []string{"each[0]/left/l", "each[1]/left/l"}, steps
			// leg lets a process answer some pauses, and checks what it did.
			leg := func(turns ...string) (got crashResult) {
				t.Helper()
				job.Turns = append([]string{}, turns...)
				got = startChild(t, job, "", "").result(t)
				if diff := cmp.Diff(open, got.Pauses, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("pauses after %s (-want +got)\n%s", turns, diff)
				}
				var did []string
				for _, e := range effectsIn(job.Dir) {
					did = append(did, e.Path)
				}
				slices.Sort(did)
				if diff := cmp.Diff(slices.Sorted(slices.Values(effects)), did); diff != "" {
					t.Errorf("effects after %s (-want +got)\n%s", turns, diff)
				}
				return got
			}
			got := leg()
			for k, step := range order {
				if k == i/len(durable)%len(order) {
					job.Turns = []string{step}
					kill(t, job, at[i%len(at)])
				}
				effects = append(effects, follows[step]...)
				open = slices.DeleteFunc(slices.Clone(open), func(s string) bool { return s == step })
				got = leg(step)
			}
			w.check(t, job, got)
		})
	}
}

// permutations returns every order of a list.
func permutations(list []string) (all [][]string) {
	if len(list) == 0 {
		return [][]string{nil}
	}
	for i, first := range list {
		for _, rest := range permutations(slices.Concat(list[:i], list[i+1:])) {
			all = append(all, append([]string{first}, rest...))
		}
	}
	return all
}

// The same where each record has a write of its own. How many there are is a matter of luck, so the points are
// counted over all names.
func TestKilledBetweenLateRecords(t *testing.T) {
	for _, recipe := range []*crashRecipe{crashCalls, crashRaces} {
		t.Run(recipe.name, func(t *testing.T) {
			w := newWorld(t, "jsonl")
			job := w.job(t, recipe)
			job.Late = true
			result := startChild(t, job, "", "").result(t)
			w.check(t, job, result)
			step := 3
			if testing.Short() {
				step = 11
			}
			for n := 1 + seedtest.Part(t, step); n <= len(result.Hits); n += step {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					t.Parallel()
					job := w.job(t, recipe)
					job.Late = true
					if p := startChild(t, job, fmt.Sprintf("any:%d", n), ""); p.killed() {
						w.recover(t, job)
					} else {
						w.check(t, job, p.read(t))
					}
				})
			}
		})
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
			points := w.points(t, crashQuestion)
			for _, at := range some(points[slices.Index(points, "pause.noted:1"):]) {
				t.Run(at, func(t *testing.T) {
					t.Parallel()
					job := w.job(t, crashQuestion)
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
	for _, tt := range []struct {
		kind   string
		recipe *crashRecipe
	}{{"jsonl", crashCalls}, {"sqlite", crashCalls}, {"postgres", crashCalls}, {"sqlite", crashRollbacks}} {
		t.Run(tt.recipe.name+"/"+tt.kind, func(t *testing.T) {
			w := newWorld(t, tt.kind)
			points := slices.DeleteFunc(w.points(t, tt.recipe), func(p string) bool {
				return !regexp.MustCompile("^(append|answer).before:").MatchString(p)
			})
			for _, at := range some(points) {
				t.Run(at, func(t *testing.T) {
					t.Parallel()
					job := w.job(t, tt.recipe)
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

// trust 6.5: the server ends the connections of a run under way, wherever it is. The run goes on.
func TestConnectionsCut(t *testing.T) {
	if testing.Short() {
		t.Skip("not in a short test")
	}
	w := newWorld(t, "postgres")
	for _, at := range w.points(t, crashCalls) {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			job := w.job(t, crashCalls)
			job.Place = withQuery(t, w.place, "application_name", job.Run)
			job.Psql = w.psql("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = '" + job.Run + "'")
			got := startChild(t, job, at, "cut").result(t)
			if got.Code != "" {
				t.Fatalf("the run ended with %s: no result that the process knows may be lost", got.Code)
			}
			w.check(t, job, got)
		})
	}
}
