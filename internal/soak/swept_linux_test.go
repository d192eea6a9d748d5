package soak

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/workflow"
)

// sweeper is a process that sweeps.
type sweeper struct {
	cmd  *exec.Cmd
	said said
}

// sweeps starts a process that sweeps the store.
func (f *fleet) sweeps() *sweeper {
	f.t.Helper()
	s := &sweeper{cmd: exec.Command(f.braise, "runs", "sweep", "--recover", "--watch", "--max-runs", "200", "--store", f.place.url,
		"--config", "braise.yaml", "--output", "jsonl")}
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = f.dir, &s.said, &s.said
	if err := s.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { s.cmd.Process.Kill() })
	return s
}

// stops ends it with SIGTERM. It returns false if the process had not begun to listen for signals, and so to work.
func (s *sweeper) stops(t *testing.T) bool {
	t.Helper()
	s.cmd.Process.Signal(syscall.SIGTERM)
	err := s.cmd.Wait()
	if s.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() && s.said.String() == "" {
		return false
	}
	if err != nil || strings.Contains(s.said.String(), "cancelled") {
		t.Errorf("SIGTERM: %v: %s", err, last(s.said.String(), 1000))
	}
	return true
}

// Two sweeps restart one after the other, twice, while their runs make calls of three seconds. Nobody is asked anything,
// and each run ends.
func TestSweepsRestart(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"sqlite", "postgres"} {
		t.Run("serve 12.4/"+place, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, place, "")
			slow := slow()
			f.writeRecipe(&slow)
			ids := make([]string, within(30, 200))
			for i := range ids {
				ids[i] = fmt.Sprintf("%s-%d", place, i)
			}
			f.queue(&slow, ids)
			both := []*sweeper{f.sweeps(), f.sweeps()}
			if !f.await(time.Minute, func() bool { return f.requested() >= len(ids)/2 }) {
				t.Errorf("the runs do not begin")
			}
			restarts, asked := 0, 0
			for range 2 {
				for i := range both {
					if both[i].stops(t) {
						restarts++
					}
					both[i] = f.sweeps()
				}
			}
			for _, id := range ids {
				run := f.settled(id)
				if run == nil || run.Status != history.OK || run.Output != "did c" {
					t.Errorf("run %s: %+v", id, run)
					continue
				}
				for _, path := range []string{"a", "b", "c"} {
					if n := count(f.effects(id), path); n != 1 {
						t.Errorf("run %s: %s happened %d times", id, path, n)
					}
				}
				recs, _ := f.records(id)
				for _, rec := range recs {
					if rec.Kind == checkpoint.PauseOpened {
						asked++
					}
				}
			}
			for _, s := range both {
				s.stops(t)
			}
			if t.Logf("%s: %d runs, %d restarts, %d questions", place, len(ids), restarts, asked); asked > 0 || restarts == 0 {
				t.Errorf("%d restarts, %d questions", restarts, asked)
			}
		})
	}
}

// queue records runs.
func (f *fleet) queue(r *recipe, ids []string) {
	f.t.Helper()
	ctx := f.t.Context()
	h, err := host.Open(ctx, &host.Options{Config: f.dir + "/braise.yaml", Store: f.place.url, Warn: func(string) {}})
	if err != nil {
		f.t.Fatal(err)
	}
	defer h.Close()
	wf, err := h.Load(ctx, f.dir+"/"+r.name+".yaml")
	if err != nil {
		f.t.Fatal(err)
	}
	rt, err := h.Runtime(ctx, wf)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, id := range ids {
		if _, err := wf.Enqueue(ctx, map[string]any{"run": id, "url": f.url}, rt, &workflow.EnqueueOptions{RunID: id, Queue: "default"}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// settled waits until a run has ended or asks something; nil: it does neither.
func (f *fleet) settled(id string) *history.Run {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		run, err := history.Load(ctx, f.journal, id)
		if err == nil && (run.Status == history.OK || run.Status == history.Failed || run.Status == history.Cancelled || run.Status == history.Paused) {
			return run
		}
		pause(100 * time.Millisecond)
	}
	return nil
}

// Three shells answer a pause a hundred times. One answer counts, and the exit code of the others is 7: they say who was
// first, and when. So it is for a run that waits, and for one at work.
func TestAnswersFromShells(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"sqlite", "postgres"} {
		for _, atWork := range []bool{false, true} {
			t.Run(fmt.Sprintf("serve 12.5/%s/at work %v", place, atWork), func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, place, "")
				f.writeRecipe(&question)
				text := "steps:\n  ask: {uses: human, with: {prompt: \"Now?\", decisions: [approve, reject]}}\n  then: {needs: [ask], " + request("then", "") + "}\n"
				f.writeRecipe(&recipe{name: "ask", text: text})
				name := map[bool]string{false: "ask", true: "question"}[atWork]
				begin := exec.Command(f.braise, "run", name+".yaml", "--run-id", "r", "--input", "run=r", "--input", "url="+f.url, "--no-interactive",
					"--store", f.place.url, "--config", "braise.yaml", "--quiet")
				begin.Dir = f.dir
				if err := begin.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { begin.Process.Kill(); begin.Wait() })
				for range 600 {
					if run, err := history.Load(t.Context(), f.journal, "r"); err == nil && len(run.Pauses) > 0 {
						break
					}
					pause(50 * time.Millisecond)
				}
				if !atWork {
					begin.Wait()
				}
				codes := map[int]int{}
				var texts []string
				var mu sync.Mutex
				var shells sync.WaitGroup
				for shell := range 3 {
					shells.Go(func() {
						for i := shell; i < 100; i += 3 {
							cmd := exec.Command(f.braise, "runs", "answer", "r", "ask", "--decision", []string{"approve", "reject"}[i%2],
								"--store", f.place.url, "--config", "braise.yaml", "--quiet", "--no-interactive")
							var stderr bytes.Buffer
							cmd.Dir, cmd.Stderr = f.dir, &stderr
							_ = cmd.Run()
							mu.Lock()
							codes[cmd.ProcessState.ExitCode()]++
							texts = append(texts, fmt.Sprintf("%d: %s", cmd.ProcessState.ExitCode(), stderr.String()))
							mu.Unlock()
						}
					})
				}
				shells.Wait()
				recs, _ := f.records("r")
				var by, at string
				for _, rec := range recs {
					if rec.Kind == checkpoint.PauseAnswered {
						by, at = string(rec.Data), rec.At.UTC().Format("15:04")
					}
				}
				if codes[0] != 1 || codes[7] != 99 || count(f.effects("r"), "then") > 1 {
					t.Errorf("exit codes %v, %d effects; the answer %s", codes, count(f.effects("r"), "then"), by)
				}
				for _, text := range texts {
					if strings.HasPrefix(text, "7: ") && (!strings.Contains(text, `pause "ask" was answered by "`) || !strings.Contains(text, at)) {
						t.Errorf("%s", text)
					}
				}
				t.Logf("%s, at work %v: exit codes %v", place, atWork, codes)
			})
		}
	}
}
