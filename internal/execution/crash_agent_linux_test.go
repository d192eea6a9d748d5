package execution_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/workflow"
)

func (w *world) agentJob(t *testing.T, scene string, split bool) agentJob {
	t.Helper()
	job := agentJob{Scene: scene, Split: split, crashJob: crashJob{Store: w.kind, Place: w.place}}
	job.Run = "r" + strings.ToLower(rand.Text())
	job.Dir = filepath.Join(w.dir, job.Run)
	if err := os.Mkdir(job.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return job
}

func startAgents(t *testing.T, job agentJob, at string) *started {
	t.Helper()
	return startTest(t, "TestAgentCrashChild", agentCrashVar, job, at, "")
}

// agentsOf lets a process do the rest of a run, and returns what it came to.
func (w *world) agentsOf(t *testing.T, job agentJob, p *started) (agentRun, agentResult) {
	t.Helper()
	_ = p.Wait()
	var got agentResult
	if err := json.Unmarshal(p.out.Bytes(), &got); err != nil || !p.ProcessState.Success() {
		t.Fatalf("%v, %v\n%s%s", p.ProcessState, err, &p.out, &p.err)
	}
	return agentRunOf(t, job.Run, &workflow.Outcome{Status: got.Status, Output: got.Output, Artefact: got.Artefact}, w.records(t, job.Run), effectsIn(job.Dir), got.Memory), got
}

// killedAgent kills a process at each point in turn, and lets another one do the rest, which comes to what an
// undisturbed run does.
func (w *world) killedAgent(t *testing.T, job agentJob, want agentRun, snapshots map[string]string, points ...string) {
	t.Helper()
	for _, at := range points {
		if p := startAgents(t, job, at); !p.killed() {
			t.Fatalf("%s was not reached (%v)\n%s%s", at, p.ProcessState, &p.out, &p.err)
		}
	}
	got, result := w.agentsOf(t, job, startAgents(t, job, ""))
	if job.Scene == "report" { // a call may not have been made, of which the model knows
		want.Loops, got.Loops, want.Done = nil, nil, maps.Clone(want.Done)
		maps.DeleteFunc(want.Done, func(what, effect string) bool { return got.Done[what] == "" && effect == "external" && what != "after" })
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("killed at %s (-want +got)\n%s", points, diff)
	}
	for path, snapshot := range result.Snapshots {
		if job.Scene != "report" && snapshot != snapshots[path] {
			t.Errorf("killed at %s: snapshot of %s\nwant %s\ngot  %s", points, path, snapshots[path], snapshot)
		}
	}
}

// usual are the boundaries, from the second time on, that are not of agents: TestKilledAnywhere walks them.
var usual = regexp.MustCompile("^(append.after|end|release|token|claim|create|replay).*:([2-9]|..)$")

// A process is killed at every boundary of a run with agents, and after every event of theirs, and another one goes
// on; some of those are killed, too. To save time, runs of other scenes and in other stores are killed at some.
func TestAgentsKilledAnywhere(t *testing.T) {
	hit := map[string]bool{}
	for _, tt := range []struct {
		scene, store string
		split        bool
		every        int // point
	}{
		{"one", "jsonl", true, 1}, {"eight", "sqlite", true, 5}, {"eight", "postgres", false, 5}, {"bodies", "postgres", false, 4}, {"bodies", "jsonl", true, 6}, {"report", "sqlite", false, 2},
		{"refused", "jsonl", true, 2}, {"compact", "jsonl", true, 1},
		{"handoff", "jsonl", true, 1},
	} {
		t.Run(fmt.Sprint(tt.scene, " ", tt.store), func(t *testing.T) {
			if testing.Short() && tt.store != "jsonl" {
				t.Skip("only one store in a short test")
			}
			w := newWorld(t, tt.store)
			job := w.agentJob(t, tt.scene, tt.split)
			want, whole := w.agentsOf(t, job, startAgents(t, job, ""))
			if want.Status != workflow.StatusOK {
				t.Fatalf("the undisturbed run ended %s: %s", want.Status, whole.Code)
			}
			points := slices.DeleteFunc(slices.Clone(some(whole.Hits)), usual.MatchString)
			every := tt.every
			if testing.Short() {
				every = 10
			}
			part := seedtest.Part(t, every)
			for i, at := range points {
				if i%every != part {
					continue
				}
				name, _, _ := strings.Cut(at, ":")
				deaths := []string{at}
				if tt.scene == "one" && name == "model.before" { // the call is made again, and again
					hit["agent model.again"] = true
					deaths = append(deaths, "agent model.again:1", "model.after:1")
				}
				hit[name] = true
				t.Run(at, func(t *testing.T) {
					t.Parallel()
					job := w.agentJob(t, tt.scene, tt.split)
					job.Last = i/tt.every%2 == 1
					w.killedAgent(t, job, want, whole.Snapshots, deaths...)
				})
			}
		})
	}
	if testing.Short() {
		return // there was no process for each event
	}
	text, err := os.ReadFile("../agents/event.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`Kind = "([\w.]+)"`).FindAllStringSubmatch(string(text), -1) {
		// Recipes have no layers.
		if kind := agents.Kind(m[1]); !hit[eventPoint(kind)] && kind != agents.LayersLoaded {
			t.Errorf("no process died after the event %s", kind)
		}
	}
}

// A process with an agent is stopped for longer than its lease, and another one does the rest. Woken again, the first
// writes nothing, calls nothing that has effects, and says so.
func TestAgentsStoppedPastTheirLease(t *testing.T) {
	w := newWorld(t, "sqlite")
	first := w.agentJob(t, "one", false)
	want, whole := w.agentsOf(t, first, startAgents(t, first, ""))
	points := slices.DeleteFunc(whole.Hits, func(at string) bool {
		return !strings.HasPrefix(at, "append.before") && !strings.HasPrefix(at, "answer.before")
	})
	for i, at := range points {
		if i%5 != 1 {
			continue
		}
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			job := w.agentJob(t, "one", false)
			job.Lease = time.Millisecond
			stopped := startTest(t, "TestAgentCrashChild", agentCrashVar, job, at, "stop")
			stopped.stops(t)
			job.Lease = 0
			got, _ := w.agentsOf(t, job, startAgents(t, job, ""))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			recs, did := w.records(t, job.Run), external(job.Dir)
			if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			_ = stopped.Wait()
			var late agentResult
			if err := json.Unmarshal(stopped.out.Bytes(), &late); err != nil || late.Code != "run.fenced" {
				t.Errorf("the process that was stopped ended with %s %q, want run.fenced (%v)\n%s%s", late.Status, late.Code, err, &stopped.out, &stopped.err)
			}
			if diff := cmp.Diff(recs, w.records(t, job.Run)); diff != "" {
				t.Errorf("journal (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(did, external(job.Dir)); diff != "" {
				t.Errorf("external effects (-want +got)\n%s", diff)
			}
		})
	}
}
