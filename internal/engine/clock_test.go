package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// sleeper is a runtime with a tool that takes the seconds in its argument s.
func sleeper() *runtime.Runtime {
	sleep := runtest.Tool("test.sleep", func(ctx context.Context, args map[string]any) (any, error) {
		s, _ := args["s"].(int64)
		select {
		case <-time.After(time.Duration(s) * time.Second):
			return s, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return &runtime.Runtime{Tools: []runtime.Tool{sleep}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
}

var approve = map[string]any{"decision": "approve"}

// Time counts while a run is worked on, in all its executions together, and not while it is paused.
func TestTimeOfAllLegs(t *testing.T) {
	for _, tt := range []struct {
		name, text, code string
		changed          string // in text, for the second execution
		restart          bool
		want             time.Duration // from the answer to the end
	}{
		{name: "the run's", code: "limits.wall_time", want: 4 * time.Second, text: `limits: {wall_time: 10s}
steps:
  one: {uses: test.sleep, with: {s: 6}}
  ask: {uses: human, needs: [one], with: {prompt: Go on}}
  two: {uses: test.sleep, needs: [ask], with: {s: 5}}
`},
		{name: "of a run that begins again", code: "limits.wall_time", restart: true, want: 4 * time.Second, text: `limits: {wall_time: 10s}
steps:
  one: {uses: test.sleep, with: {s: 6}}
  ask: {uses: human, needs: [one], with: {prompt: Go on}}
`},
		{name: "of a run with another definition", code: "limits.wall_time", changed: "s: 5", want: 4 * time.Second, text: `limits: {wall_time: 10s}
steps:
  one: {uses: test.sleep, with: {s: 6}}
  ask: {uses: human, needs: [one], with: {prompt: Go on}}
  two: {uses: test.sleep, needs: [ask], with: {s: 5}}
`},
		{name: "of a body", code: "step.timeout", want: 4 * time.Second, text: `steps:
  all:
    uses: recipe
    timeout: 10s
    with:
      steps:
        one: {uses: test.sleep, with: {s: 6}}
        ask: {uses: human, needs: [one], with: {prompt: Go on}}
        two: {uses: test.sleep, needs: [ask], on_indeterminate: continue, with: {s: 5}}
`},
		{name: "of a body that began later", code: "limits.wall_time", want: 8 * time.Second, text: `steps:
  before: {uses: test.sleep, with: {s: 4}}
  all:
    uses: recipe
    needs: [before]
    limits: {wall_time: 10s}
    with:
      steps:
        one: {uses: test.sleep, with: {s: 2}}
        ask: {uses: human, needs: [one], with: {prompt: Go on}}
        two: {uses: test.sleep, needs: [ask], with: {s: 9}}
`},
		{name: "enough", want: 4 * time.Second, text: `limits: {wall_time: 11s}
steps:
  one: {uses: test.sleep, with: {s: 6}}
  ask: {uses: human, needs: [one], with: {prompt: Go on}}
  two: {uses: test.sleep, needs: [ask], with: {s: 4}}
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := sleeper()
				if tt.restart {
					rt.Interrupt = resume.Restart
				}
				out, err := runtest.Load(t, []byte(runtest.Head+tt.text)).Run(t.Context(), nil, rt)
				if err != nil || out.Status != workflow.StatusPaused {
					t.Fatal(out.Status, err)
				}
				time.Sleep(time.Hour)
				var opts *workflow.ResumeOptions
				if tt.changed != "" {
					opts = &workflow.ResumeOptions{Workflow: runtest.Load(t, []byte(runtest.Head+strings.Replace(tt.text, tt.changed, "s: 7", 1))), AcceptChanged: true}
				}
				begin := time.Now()
				out, _ = workflow.Resume(t.Context(), out.Token, approve, rt, opts)
				if took := time.Since(begin); took != tt.want {
					t.Errorf("took %v, want %v", took, tt.want)
				}
				if e := out.Failure(); (e == nil) != (tt.code == "") || e != nil && e.Code != tt.code {
					t.Errorf("%s, %v; want code %q", out.Status, out.Err, tt.code)
				}
			})
		})
	}
}

// The time of a run that was cancelled counts, call under way and all; a call that is made again has its
// own timeout from the start.
func TestTimeOfInterruptedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := sleeper()
		wf := runtest.Load(t, []byte(runtest.Head+`limits: {wall_time: 30s}
steps:
  one: {uses: test.sleep, timeout: 9s, on_error: continue, with: {s: 8}}
  two: {uses: test.sleep, needs: [one], with: {s: 60}}
`))
		rt.Tools[0] = runtest.Idempotent{JSONTool: rt.Tools[0].(runtest.JSONTool)}
		id := ""
		for range 3 { // 5 s each
			ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, context.Canceled)
			var out *workflow.Outcome
			if id == "" {
				out, _ = wf.Run(ctx, nil, rt)
			} else {
				out, _ = wf.Recover(ctx, id, rt)
			}
			cancel()
			if id = out.RunID; out.Status != workflow.StatusCancelled || !errors.Is(out.Err, context.Canceled) {
				t.Fatal(out.Status, out.Err)
			}
			time.Sleep(time.Minute)
		}
		begin := time.Now()
		out, _ := wf.Recover(t.Context(), id, rt)
		if took := time.Since(begin); took != 15*time.Second || out.Failure() == nil || out.Failure().Code != "limits.wall_time" {
			t.Errorf("%s, %v after %v", out.Status, out.Err, took)
		}
		if out.Artefact["one"] != int64(8) {
			t.Errorf("artefact %v", out.Artefact)
		}
	})
}

func raise(wall string) any {
	return map[string]any{"decision": "raise", "form": map[string]any{"wall_time": wall}}
}

// With on_exceeded: pause, calls under way end, and those that would begin wait until there is more time: in
// every execution, for as long as they were worked on together.
func TestTimeIsRaised(t *testing.T) {
	for _, tt := range []struct{ name, limits, scope string }{
		{"the run's", "limits: {wall_time: 10s, on_exceeded: pause}\nsteps:\n  all:\n    uses: recipe\n", ""},
		{"a step's", "steps:\n  all:\n    uses: recipe\n    limits: {wall_time: 10s, on_exceeded: pause}\n", "all"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := sleeper()
				wf := runtest.Load(t, []byte(runtest.Head+tt.limits+`    with:
      steps:
        one: {uses: test.sleep, with: {s: 15}}
        two: {uses: test.sleep, needs: [one], with: {s: 16}}
        three: {uses: test.sleep, needs: [two], with: {s: 1}}
      output: ${{ steps.three.output }}
output: ${{ steps.all.output }}
`))
				out, _ := wf.Run(t.Context(), nil, rt)
				p := runtest.OnlyPause(t, out, "all/two", "limits.wall_time")
				want := map[string]any{"scope": tt.scope, "limits": map[string]any{"wall_time": "10s"}, "used": map[string]any{"wall_time": "15s"}}
				if diff := cmp.Diff(want, p.Show); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				time.Sleep(time.Hour)
				for _, little := range []any{raise("14s"), raise("soon"), raise(""), raise("-20s"),
					map[string]any{"decision": "raise", "form": map[string]any{"wall_time": 20}}, map[string]any{"decision": "raise"}} {
					if got, err := workflow.Resume(t.Context(), p.Token, little, rt, nil); err == nil || got.Failure().Code != "answer.unfit" {
						t.Errorf("%v: %v", little, err)
					}
				}
				out, _ = workflow.Resume(t.Context(), p.Token, raise("16s"), rt, nil)
				p = runtest.OnlyPause(t, out, "all/three", "limits.wall_time") // two has begun at 15 s
				time.Sleep(time.Hour)
				begin := time.Now()
				out, err := workflow.Resume(t.Context(), p.Token, raise("32s"), rt, nil) // three begins at 31 s
				if err != nil || out.Output != int64(1) || time.Since(begin) != time.Second {
					t.Errorf("%s, %v, output %v after %v", out.Status, err, out.Output, time.Since(begin))
				}
			})
		})
	}
}

// Each attempt of a call is one that begins; it continues with the next attempt.
func TestTimeOfAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := sleeper()
		attempts := 0
		rt.Tools = append(rt.Tools, runtest.Idempotent{JSONTool: runtest.JSONTool{Name: "test.flaky", F: func(context.Context, map[string]any) (any, error) {
			if attempts++; attempts < 3 {
				time.Sleep(6 * time.Second)
				return nil, &retry.Failure{Reason: retry.Network, Err: errors.New("gone")}
			}
			return attempts, nil
		}}})
		wf := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: test.flaky, limits: {wall_time: 10s, on_exceeded: pause}, retry: {max_attempts: 3}}
output: ${{ steps.a.output }}
`))
		out, _ := wf.Run(t.Context(), nil, rt)
		p := runtest.OnlyPause(t, out, "a", "limits.wall_time")
		if attempts != 2 {
			t.Errorf("%d attempts before the pause", attempts)
		}
		out, err := workflow.Resume(t.Context(), p.Token, raise("1m"), rt, nil)
		if err != nil || out.Output != int64(3) {
			t.Errorf("%s, %v, output %v", out.Status, err, out.Output)
		}
	})
}

// Whether a call had its effect is asked before there is more time for another one.
func TestTimeOfIndeterminateCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := sleeper()
		wf := runtest.Load(t, []byte(runtest.Head+`limits: {wall_time: 10s, on_exceeded: pause}
steps:
  a: {uses: test.sleep, with: {s: 20}}
output: ${{ steps.a.output }}
`))
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		out, _ := wf.Run(ctx, nil, rt)
		if out.Status != workflow.StatusCancelled {
			t.Fatal(out.Status, out.Err)
		}
		out, _ = wf.Recover(t.Context(), out.RunID, rt)
		p := runtest.OnlyPause(t, out, "a", "indeterminate")
		out, _ = wf.Resume(t.Context(), p.Token, map[string]any{"decision": "retry"}, rt)
		p = runtest.OnlyPause(t, out, "a", "limits.wall_time")
		out, err := wf.Resume(t.Context(), p.Token, raise("1m"), rt)
		if err != nil || out.Output != int64(20) {
			t.Errorf("%s, %v, output %v", out.Status, err, out.Output)
		}
	})
}

// A run that begins again continues with its time, and with the time that it was given.
func TestTimeOfRunThatBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := sleeper()
		rt.Interrupt = resume.Restart
		wf := runtest.Load(t, []byte(runtest.Head+`limits: {wall_time: 10s, on_exceeded: pause}
steps:
  one: {uses: test.sleep, with: {s: 15}}
  two: {uses: test.sleep, needs: [one], with: {s: 1}}
output: ${{ steps.two.output }}
`))
		out, _ := wf.Run(t.Context(), nil, rt)
		p := runtest.OnlyPause(t, out, "two", "limits.wall_time")
		out, _ = wf.Resume(t.Context(), p.Token, raise("20s"), rt) // one again, at 15 s
		p = runtest.OnlyPause(t, out, "two", "limits.wall_time")   // at 30 s
		out, _ = wf.Resume(t.Context(), p.Token, raise("40s"), rt) // again, at 30 s; two is at 45 s
		p = runtest.OnlyPause(t, out, "two", "limits.wall_time")
		out, err := wf.Resume(t.Context(), p.Token, raise("2m"), rt)
		if err != nil || out.Output != int64(1) {
			t.Errorf("%s, %v, output %v", out.Status, err, out.Output)
		}
	})
}

// The shorter of the host's and the recipe's time is reached first, and says whose it is.
func TestTimeOfHost(t *testing.T) {
	for _, tt := range []struct {
		recipe string
		budget runtime.Budget
		want   string
		after  time.Duration
	}{
		{"", runtime.Budget{WallTime: 10 * time.Second}, "the run timed out: limits.wall_time of the host is 10s", 10 * time.Second},
		{"limits: {wall_time: 20s}\n", runtime.Budget{WallTime: 10 * time.Second}, "the run timed out: limits.wall_time of the host is 10s", 10 * time.Second},
		{"limits: {wall_time: 5s}\n", runtime.Budget{WallTime: 10 * time.Second}, "the run timed out: limits.wall_time is 5s", 5 * time.Second},
		{"limits: {wall_time: 5s, on_exceeded: pause}\n", runtime.Budget{WallTime: 10 * time.Second}, "the run timed out: limits.wall_time of the host is 10s", 10 * time.Second},
		{"limits: {wall_time: 20s}\n", runtime.Budget{WallTime: 10 * time.Second, Pause: true}, "the run timed out: limits.wall_time is 20s", 20 * time.Second},
		{"", runtime.Budget{WallTime: 10 * time.Second, Pause: true}, `tool "test.sleep" is not called: limits.wall_time of the host is 10s, and it is over`, 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			rt := sleeper()
			rt.Budget = tt.budget
			begin := time.Now()
			out, err := runtest.Load(t, []byte(runtest.Head+tt.recipe+"steps:\n  a: {uses: test.sleep, with: {s: 30}}\n  b: {uses: test.sleep, needs: [a], with: {s: 1}}\n")).Run(t.Context(), nil, rt)
			got := fmt.Sprint(err)
			if out.Status == workflow.StatusPaused {
				got = runtest.OnlyPause(t, out, "b", "limits.wall_time").Prompt
			}
			if got != tt.want || time.Since(begin) != tt.after {
				t.Errorf("%q, %+v: got %q after %v", tt.recipe, tt.budget, got, time.Since(begin))
			}
		})
	}
}

// Wherever a process dies, another one goes on: with the pauses, the limits that were raised, and the time.
func TestTimeAfterEachWrite(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`limits: {wall_time: 10s, on_exceeded: pause}
steps:
  one: {uses: test.sleep, with: {s: 6}}
  all:
    uses: loop
    needs: [one]
    limits: {wall_time: 5s, on_exceeded: pause}
    with:
      steps:
        nap: {uses: test.sleep, with: {s: 4}}
        note: {uses: set, needs: [nap], with: "${{ iteration }}"}
      output: ${{ steps.note.output }}
      max_iterations: 4
  ask: {uses: human, needs: [all], with: {prompt: Go on}}
  last: {uses: test.sleep, needs: [ask], with: {s: 1}}
output: ${{ steps.all.output.last }}
`))
	died := false
	for after := 0; after == 0 || died; after++ {
		synctest.Test(t, func(t *testing.T) {
			died = false
			memory, rt := &checkpoint.Memory{}, sleeper()
			rt.Reporter, rt.NewRunID = &runtest.Quiet{}, func() string { return "r1" }
			rt.Store = &runtest.Dead{Store: memory, After: after}
			out, err := wf.Run(t.Context(), nil, rt)
			asked := map[string]int{}
			for n := 0; n < 40 && (err != nil || out.Status == workflow.StatusPaused); n++ {
				time.Sleep(time.Hour) // which does not count
				if err != nil {
					if out.Failure().Code != "store.failed" || died {
						t.Fatal(err)
					}
					died, rt.Store = true, memory
					out, err = wf.Recover(t.Context(), "r1", rt)
					continue
				}
				p, answer := out.Pauses[0], any(approve)
				switch p.Reason {
				case "indeterminate":
					answer = map[string]any{"decision": "retry"}
				case "limits.wall_time":
					scope := p.Show.(map[string]any)["scope"].(string)
					asked[scope]++
					answer = raise("1h")
					if scope == "all" && asked[scope] == 1 {
						answer = raise("10s") // enough for the third round, which begins at 8 s
					}
				}
				out, err = workflow.Answer(t.Context(), "r1", p.ID, answer, rt, &workflow.ResumeOptions{Workflow: wf})
			}
			if err != nil || out.Output != int64(4) {
				t.Errorf("after %d writes: %s, %v, output %v", after, out.Status, err, out.Output)
			}
			// Undisturbed: the run is at 10 s after one round, and the loop at 8 s after two, and at 12 s after three.
			if !died {
				if diff := cmp.Diff(map[string]int{"": 1, "all": 2}, asked); diff != "" || after < 10 {
					t.Errorf("after %d writes: asked for more (-want +got)\n%s", after, diff)
				}
			}
		})
	}
}
