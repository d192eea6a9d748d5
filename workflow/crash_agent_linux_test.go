package workflow_test

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
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// agentRun is what a run with agents has come to, as far as it is the same however it came there.
type agentRun struct {
	Status workflow.Status
	Code   string
	Output any
	Steps  map[string]any
	Loops  map[string]any // by path
	Memory []runtime.Message
	Done   map[string]string // effects, by what they are of: external or idempotent
}

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

// agentsOf lets a process do the rest of a run, and returns what it came to. It checks what holds of every run: no
// external effect happened twice, and each call has one key.
func (w *world) agentsOf(t *testing.T, job agentJob, p *started) (agentRun, agentResult) {
	t.Helper()
	_ = p.Wait()
	var got agentResult
	if err := json.Unmarshal(p.out.Bytes(), &got); err != nil || !p.ProcessState.Success() {
		t.Fatalf("%v, %v\n%s%s", p.ProcessState, err, &p.out, &p.err)
	}
	run := agentRun{got.Status, got.Code, got.Output, got.Artefact, map[string]any{}, got.Memory, map[string]string{}}
	events := map[string][]agentloop.Event{}
	for _, rec := range w.records(t, job.Run) {
		events[rec.Path] = append(events[rec.Path], agentEvents(rec)...)
	}
	keys := map[string]bool{"": true}
	for path, list := range events {
		if len(list) == 0 {
			continue
		}
		state, err := agentloop.Fold(list)
		if err != nil {
			t.Fatal(err)
		}
		loopsOf(path, &state, run.Loops)
		keysOf(path, &state, func(path string, n int) { keys[resume.Key(job.Run, 1, path, n, "")] = true })
	}
	times, key := map[string]int{}, map[string]string{}
	for _, e := range effectsIn(job.Dir) {
		if e.What != "external" && e.What != "idempotent" {
			continue
		}
		run.Done[e.Path] = e.What
		if times[e.Path]++; e.What == "external" && times[e.Path] > 1 {
			t.Errorf("the external effect of %s happened %d times", e.Path, times[e.Path])
		}
		if times[e.Path] > 1 && key[e.Path] != e.Key || !keys[e.Key] && e.Key != resume.Key(job.Run, 1, e.Path, 1, "") {
			t.Errorf("%s was called with the key %s, which is another call's or none", e.Path, e.Key)
		}
		key[e.Path] = e.Key
	}
	return run, got
}

// loopsOf adds what a loop and its children said, did and used, and how they ended.
func loopsOf(path string, s *agentloop.State, into map[string]any) {
	var calls []any
	for _, c := range s.Calls {
		calls = append(calls, []any{c.Name, string(c.Arguments), c.Effect, c.Allowed, c.Result, c.Code})
	}
	into[path] = map[string]any{"messages": s.Messages, "calls": calls, "usage": s.Usage, "steps": s.Steps, "stop": s.Stop, "grants": s.Grants, "phase": s.Phase,
		"guide": s.Guide, "skills": s.Skills, "found": s.Found, "taken": s.Taken, "subagents": s.Subagents, "saved": s.Saved}
	for name, child := range s.Children {
		loopsOf(path+"/"+name, child, into)
	}
}

// keysOf tells of the calls of a loop and its children.
func keysOf(path string, s *agentloop.State, call func(path string, n int)) {
	for n := range s.Calls {
		call(path, n+1)
	}
	for name, child := range s.Children {
		keysOf(path+"/"+name, child, call)
	}
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
		{"one", "jsonl", true, 1}, {"four", "sqlite", true, 5}, {"four", "postgres", false, 5}, {"bodies", "postgres", false, 4}, {"bodies", "jsonl", true, 6}, {"report", "sqlite", false, 2},
	} {
		t.Run(fmt.Sprint(tt.scene, " ", tt.store), func(t *testing.T) {
			if testing.Short() && tt.store != "jsonl" {
				t.Skip("only one store in a short test")
			}
			w := newWorld(t, tt.store)
			job := w.agentJob(t, tt.scene, tt.split)
			want, whole := w.agentsOf(t, job, startAgents(t, job, ""))
			if want.Status != workflow.StatusOK {
				t.Fatalf("the undisturbed run ended %s %s", want.Status, want.Code)
			}
			points := slices.DeleteFunc(slices.Clone(some(whole.Hits)), usual.MatchString)
			for i, at := range points {
				if i%tt.every != 0 {
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
	text, err := os.ReadFile("../agentloop/event.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`Kind = "([\w.]+)"`).FindAllStringSubmatch(string(text), -1) {
		// Recipes have no layers and do not compact.
		if kind := agentloop.Kind(m[1]); !hit[eventPoint(kind)] && kind != agentloop.LayersLoaded && kind != agentloop.Compacted {
			t.Errorf("no process died after the event %s", kind)
		}
	}
}
