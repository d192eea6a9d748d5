package engine_test

import (
	"errors"
	"flag"
	"math"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/resume"
)

// told is a journal, and an engine that can be told it.
type told struct {
	name   string
	events []journal.Event
	run    *engine.Run
}

// mixed are scenarios with much of what runs can have.
var mixed = []string{
	"foreach_order", "foreach_nested", "fork_example", "loop_example", "pause_human", "pause_foreach", "channel_pause",
	"channel_queue", "channel_topic", "agent_approval", "agent_example_delegates", "agent_budget_raise",
	"agent_retry_pause", "budget_wall_time_raise", "budget_pause", "kinds_example_say", "rollback_order", "rollback_fails", "nested_rollback", "nested_all",
}

// journals plays scenarios, and returns the journal of each leg.
func journals(t *testing.T) (list []told) {
	for _, name := range mixed {
		files, err := filepath.Glob("../../testdata/scenarios/" + name + "*.txtar")
		if err != nil || len(files) == 0 {
			t.Errorf("no scenario %s: %v", name, err)
		}
		for _, file := range files {
			synctest.Test(t, func(t *testing.T) {
				y := newToy(t, 1)
				y.Ended = func(r *local.Run) {
					if events, err := r.Events(); err != nil {
						t.Error(err)
					} else if y.Runs < 4 {
						list = append(list, told{name + " " + r.ID, events, r.Engine})
					}
				}
				play(t, y, file, true)
			})
		}
	}
	return list
}

// Events in any order, legal or not, never make the engine panic. One that it refuses has changed nothing.
func TestIllegalEvents(t *testing.T) {
	list := journals(t)
	var all []journal.Event
	for i := range list {
		all = append(all, list[i].events...)
	}
	refused, taken, spoilt := 0, 0, 0
	most := flag.Lookup("rapid.checks")
	if was := most.Value.String(); was == most.DefValue && !testing.Short() {
		defer func() { _ = most.Value.Set(was) }()
		_ = most.Value.Set("10000")
	}
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SampledFrom(list).Draw(t, "run")
		run := from.run.Blank()
		at := rapid.IntRange(0, len(from.events)).Draw(t, "told")
		for i := range from.events[:at] {
			if err := run.Apply(&from.events[i]); err != nil {
				t.Fatalf("%s: event %d of its own: %v", from.name, i, err)
			}
		}
		for range rapid.IntRange(1, 6).Draw(t, "more") {
			e := drawEvent(t, from.events, all)
			before, ahead := run.State(), run.MustDecide(&e)
			err := run.Apply(&e)
			switch {
			case err == nil:
				taken++
			case ahead:
				spoilt++
				return
			default:
				refused++
				if diff := engine.Differ(before, run.State()); diff != "" {
					t.Fatalf("%s: %#v was refused (%v), and changed\n%s", from.name, e, err, diff)
				}
			}
		}
		run.Settle()
	})
	t.Logf("%d events refused, %d taken, %d after which a run is of no use", refused, taken, spoilt)
}

// drawEvent draws an event: of the run itself at any time, of another one, or one that is made up of both.
func drawEvent(t *rapid.T, own, all []journal.Event) journal.Event {
	e := rapid.SampledFrom(own).Draw(t, "own")
	if rapid.IntRange(0, 3).Draw(t, "strange") == 0 {
		e = rapid.SampledFrom(all).Draw(t, "event")
	}
	if rapid.Bool().Draw(t, "changed") {
		e.What = drawWhat(t, own, all)
	}
	switch rapid.IntRange(0, 5).Draw(t, "elsewhere") {
	case 0:
		e.Path = "nowhere"
	case 1, 2:
		e.Path = rapid.SampledFrom(own).Draw(t, "place").Path
	}
	switch rapid.IntRange(0, 9).Draw(t, "when") {
	case 0:
		e.After = math.MaxInt64
	case 1:
		e.After = math.MinInt64
	case 2, 3, 4:
		e.After = rapid.Int64Range(-1, 40).Draw(t, "after")
	}
	if rapid.IntRange(0, 9).Draw(t, "resumed") == 0 {
		e.Begins = &journal.Execution{Worked: time.Duration(rapid.Int64().Draw(t, "worked")),
			Parallel: rapid.IntRange(0, 9).Draw(t, "parallel")}
	}
	return e
}

// drawWhat draws what happened.
func drawWhat(t *rapid.T, own, all []journal.Event) journal.What {
	failure := &machine.Failure{Category: "tool", Code: "x", Err: errors.New("x")}
	pauses := []string{"", "nothing"}
	for i := range own {
		if what, ok := own[i].What.(journal.PauseOpened); ok {
			pauses = append(pauses, what.Pause.ID)
		}
	}
	pause := rapid.SampledFrom(pauses).Draw(t, "pause")
	path := rapid.SampledFrom(own).Draw(t, "step").Path
	decision := rapid.SampledFrom([]string{"retry", "result", "fail", "raise", "approve"}).Draw(t, "decision")
	answer := map[string]any{"decision": decision, "form": map[string]any{"tokens": int64(500)}}
	opened := resume.Pause{ID: pause, Step: path, Kind: resume.System, Reason: journal.Indeterminate}
	return rapid.SampledFrom([]journal.What{
		nil, journal.Created{}, journal.Begun{Parallel: 3}, journal.Breakpoints{Steps: []string{path}}, journal.Execution{Owner: "x", Worked: 1, Parallel: 2}, journal.CallBegun{Ordinal: 1}, journal.CallFiles{Files: []journal.File{{Path: "x"}}}, journal.CallEnded{Output: "x"},
		journal.CallEnded{Failure: failure, Unknown: true, Why: "x"}, journal.CallGiven{Output: "x"},
		journal.TimerDue{}, journal.TimerDue{Timer: machine.Grace}, journal.TimerDue{Timer: 200},
		journal.WaitOver{Output: "x"}, journal.WaitOver{Failure: failure}, journal.Said{Text: "x"}, journal.StepDenied{}, journal.StepDenied{Failure: failure}, journal.AgentEvents{Waits: true},
		journal.AgentEvents{Events: []agents.Event{{Seq: 7, Kind: agents.ModelEnded}}},
		journal.AgentEvents{Calls: []journal.Drawn{{Model: "fast", N: -1}, {Model: "fast", N: 9}},
			Used: journal.Amount{Tokens: 9}},
		journal.PauseOpened{Pause: resume.Pause{ID: pause, Step: path, Kind: resume.System, Reason: journal.Breakpoint}},
		journal.PauseOpened{Pause: opened}, journal.PauseOpened{Pause: opened,
			Agent: &journal.AgentPause{Step: path, Pause: "x", Place: "y"}},
		journal.PauseAnswered{Pause: pause, Next: resume.Answered, Answer: answer},
		journal.PauseAnswered{Pause: pause, Next: resume.Answered, Answer: "x", Kept: true},
		journal.PauseAnswered{Pause: pause, Next: resume.Answered, Answer: answer, Generation: 2},
		journal.PauseAnswered{Pause: pause, Next: resume.Answered, Answer: answer, Restart: true}, journal.Restarted{Generation: 2},
		journal.PauseAnswered{Pause: pause, Next: resume.GoOn}, journal.PauseAnswered{Pause: pause, Next: resume.Failed},
		journal.PauseAnswered{Pause: pause, Next: resume.Wait}, journal.PauseClosed{Pause: pause},
		journal.TokenMinted{Pause: pause}, journal.ValueSent{Channel: "orders", Value: 1},
		journal.ValueSent{Channel: "mail", Value: 1},
		journal.RollbackBegun{}, journal.RollbackEnded{}, journal.RollbackEnded{Error: "x"},
		journal.Redefined{Generation: 7, Unknown: []journal.UnknownCall{{Step: path}}}, journal.Cancelled{Reason: "x"},
		journal.Stopped{}, journal.Paused{}, journal.Ended{},
		rapid.SampledFrom(all).Draw(t, "what").What,
	}).Draw(t, "made up")
}
