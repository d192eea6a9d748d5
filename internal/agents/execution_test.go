package agents_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// sent makes a job what another process gets: its JSON.
func sent(_ *agents.Execution, j *agents.Job) error {
	text, err := json.Marshal(j)
	if err == nil {
		*j = agents.Job{}
		err = json.Unmarshal(text, j)
	}
	return err
}

func last(jobs int) int { return jobs - 1 }

// Any driver, and any order in which calls end, leads to the same result.
func TestExecutionByHand(t *testing.T) {
	whole := newScene(1)
	res, _ := whole.drive(t, nil)
	want := outcome(t, res)
	for concurrency, most := range map[int]int{1: 1, 2: 2, 8: 4} { // of five calls in a round a person answers one
		for name, pick := range map[string]func(int) int{"first": func(int) int { return 0 }, "last": last} {
			s, told, atOnce := newScene(concurrency), 0, 0
			s.in = input{Call: sent, Emit: func(trace.Event, any) { told++ }, Pick: func(jobs int) int {
				atOnce = max(atOnce, jobs)
				return pick(jobs)
			}}
			got, _ := s.drive(t, nil)
			name = fmt.Sprintf("concurrency %d, %s", concurrency, name)
			same(t, name, outcome(t, got), want)
			same(t, name+": trace", lines(s.trace), lines(whole.trace))
			same(t, name+": events told", told, len(s.trace))
			same(t, name+": calls at once", atOnce, most)
		}
	}
}

// A journal that takes no more ends the loop, wherever that happens; with a journal that does it goes on.
func TestJournalFailsAnywhere(t *testing.T) {
	whole := newScene(1)
	res, j := whole.drive(t, nil)
	want := outcome(t, res)
	for n := range j.events {
		for _, concurrency := range []int{1, 8} {
			s := newScene(concurrency)
			s.quiet = true
			first := after(t, nil)
			first.fail = func(e agents.Event) error {
				if e.Seq > int64(n) {
					return errors.New("disk full")
				}
				return nil
			}
			_, err := run(t, s.loop, input{Journal: first, Pick: rand.IntN}, s.host)
			if _, paused := errors.AsType[*agents.PauseError](err); !paused {
				failed(t, err, runtime.CategoryInfra, "store.failed", "disk full")
			}
			res, _ := s.drive(t, first.events)
			same(t, fmt.Sprintf("fails after event %d, concurrency %d", n, concurrency), outcome(t, res), want)
			if t.Failed() {
				return
			}
		}
	}
}
