package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/trace"
)

// thinking is a run of one call of a model.
var thinking = recipe{
	name: "thinking", text: "steps:\n  ask: {uses: model, with: {model: m, prompt: Think.}}\noutput: ${{ steps.ask.output.text }}\n",
}

const scripted = "models:\n  m: {provider: script, file: thought.yaml}\n"

// A server that executes nothing shows a call of a model while it is under way, and how long it took afterwards.
func TestCallSeenElsewhere(t *testing.T) {
	for _, place := range []string{"sqlite", "postgres"} {
		t.Run("serve 12.6/"+place, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, place, scripted)
			lasts := within(3*time.Second, 6*time.Second)
			f.write("thought.yaml", fmt.Sprintf("turns: [{delay: %v, text: Done.}]\n", lasts), 0o644)
			f.writeRecipe(&thinking)
			works, looks := f.serves("thinking.yaml"), f.serves("thinking.yaml", "--no-work")
			began := time.Now()
			looks.begins("thinking", "r")
			live := map[string]time.Time{} // when the first and the last event of the step came
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = looks.stream(context.WithoutCancel(t.Context()), "r", 0, func(m message) {
					var e trace.Event
					if json.Unmarshal([]byte(m.data), &e) == nil && e.Step == "ask" && live[string(e.Kind)].IsZero() {
						live[string(e.Kind)] = m.at
					}
				})
			}()
			seen := looks.awaits("r", "the call is seen", func(v view) bool {
				return v.Phase != "queued" && v.Steps[0].Status != "pending"
			})
			after := time.Since(began)
			if seen.Phase != "running" || seen.Steps[0].Status != "running" {
				t.Errorf("after %v: %+v", after, seen)
			}
			done := looks.ends("r")
			<-ended
			t.Logf("%s: seen after %v, took %v", place, after, done.Steps[0].EndedAt.Sub(done.Steps[0].StartedAt))
			f.took(done, works.looks("r"), lasts)
			if got := live["step.end"].Sub(live["step.start"]); (got - lasts).Abs() > lasts/3 {
				t.Errorf("the start of the step came %v before its end, want %v", got, lasts)
			}
			if late := live["step.start"].Sub(done.Steps[0].StartedAt); late > lasts/2 {
				t.Errorf("the start of the step came %v after it", late)
			}
		})
	}
}

// took checks how long the call took, as two servers have it.
func (f *fleet) took(a, b view, want time.Duration) {
	f.t.Helper()
	for _, v := range []view{a, b} {
		if got := v.Steps[0].EndedAt.Sub(v.Steps[0].StartedAt); (got - want).Abs() > 300*time.Millisecond {
			f.t.Errorf("the call took %v, want %v", got, want)
		}
	}
	if !a.Steps[0].StartedAt.Equal(b.Steps[0].StartedAt) || !a.Steps[0].EndedAt.Equal(b.Steps[0].EndedAt) {
		f.t.Errorf("two servers have %+v and %+v", a.Steps[0], b.Steps[0])
	}
}

// What somebody began in a terminal and stopped is left alone by a server on the same store, until somebody asks it to
// recover the run.
func TestStoppedRunIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "sqlite", scripted)
	f.write("thought.yaml", "turns: [{delay: 1m, text: Never.}]\n", 0o644)
	f.writeRecipe(&thinking)
	f.interrupt("stopped")
	f.write("thought.yaml", "turns: [{text: Done.}, {text: Done again.}]\n", 0o644)
	s := f.serves("thinking.yaml")
	before, _ := f.records("stopped")
	s.begins("thinking", "other")
	if v := s.ends("other"); v.Phase != "ok" {
		t.Errorf("%+v", v)
	}
	pause(within(3*time.Second, 10*time.Second)) // a worker looks every second
	after, _ := f.records("stopped")
	if v := s.looks("stopped"); v.Phase != "interrupted" || len(after) != len(before) {
		t.Errorf("serve 12.8: it is %s, and has %d records; it had %d", v.Phase, len(after), len(before))
	}
	s.must(202, "POST", "/api/v1/runs/stopped/recover", nil, nil)
	if v := s.ends("stopped"); v.Phase != "ok" || !strings.HasPrefix(fmt.Sprint(v.Output), "Done") {
		t.Errorf("serve 12.8: recovered: %+v", v)
	}
}

// interrupt begins a run in a terminal, and presses Ctrl-C in its call.
func (f *fleet) interrupt(id string) {
	f.t.Helper()
	cmd := exec.Command(f.braise, "run", "thinking.yaml", "--run-id", id, "--input", "run="+id, "--input", "url="+f.url,
		"--store", f.place.url, "--config", "braise.yaml", "--quiet")
	cmd.Dir = f.dir
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	for range 1000 { // until the call is under way
		_, recs, err := f.journal.Load(f.t.Context(), id, 0)
		if err == nil && recs[len(recs)-1].Path == "ask" {
			break
		}
		pause(10 * time.Millisecond)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
	run, err := history.Load(f.t.Context(), f.journal, id)
	if code := cmd.ProcessState.ExitCode(); code != 130 || err != nil || run.Status != history.Interrupted {
		f.t.Fatalf("after Ctrl-C: exit code %d, %v, %+v", code, err, run)
	}
}
