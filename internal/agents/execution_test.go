package agents_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// toy drives an Execution without a goroutine, a clock or a journal. Of the calls under way, pick says which one ends next.
type toy struct {
	t      *testing.T
	state  agents.State
	events []agents.Event
	told   []trace.Event
	most   int // calls that were under way at once
	pick   func(jobs int) int
}

func (y *toy) drive(s *scene, answers []agents.Answer) (*agents.Ran, error) {
	offer := &agents.Offer{Models: map[string]agents.ModelOffer{"m": {}, "c": {}}, Limits: s.host.Limits.WithDefaults()}
	for _, tool := range s.host.Tools {
		offer.Host = append(offer.Host, tool.Spec())
	}
	execution, err := agents.Begin(s.loop, &y.state, agents.Terms{Prompt: "do it", RunID: "run1", Path: "step", Answers: answers}, offer)
	if err != nil {
		y.t.Fatal(err)
	}
	execution.Now = time.Unix(1, 0).UTC()
	var jobs []*agents.Job
	for {
		a := execution.Next()
		switch {
		case a.Over:
			return execution.Ran(), execution.Err()
		case a.Record != nil:
			if err := y.state.Apply(a.Record); err != nil {
				y.t.Fatal(err)
			}
			y.events = append(y.events, *a.Record)
		case a.Tell != nil:
			y.told = append(y.told, *a.Tell)
		case a.Job != nil:
			jobs = append(jobs, a.Job)
			y.most = max(y.most, len(jobs))
		case len(jobs) == 0:
			y.t.Fatal("the Execution waits for nothing")
		default:
			i := y.pick(len(jobs))
			j := jobs[i]
			jobs = append(jobs[:i], jobs[i+1:]...)
			execution.Done(j, y.make(s, j))
		}
	}
}

// make makes a call as another process would: from its JSON.
func (y *toy) make(s *scene, j *agents.Job) (r agents.Reply) {
	text, err := json.Marshal(j)
	if err != nil {
		y.t.Fatal(err)
	}
	var sent agents.Job
	if err := json.Unmarshal(text, &sent); err != nil {
		y.t.Fatal(err)
	}
	switch sent.Op {
	case agents.CallModel:
		r.Response, r.Err = s.host.Models[sent.Name].Generate(y.t.Context(), sent.Request)
	case agents.CallTool:
		ctx := &resume.CallContext{Context: y.t.Context(), RunID: "run1", Generation: 1, Path: sent.Path, Ordinal: sent.Call}
		for _, tool := range s.host.Tools {
			if tool.Spec().Name == sent.Name {
				r.Output, r.Err = tool.Call(ctx, sent.Arguments)
			}
		}
	default:
		y.t.Fatalf("call of %q", sent.Op)
	}
	return r
}

// Any driver, and any order in which calls end, leads to the same result as Run.
func TestExecutionByHand(t *testing.T) {
	whole := newScene(1)
	res, _ := whole.drive(t, nil)
	want := outcome(t, res)
	for concurrency, most := range map[int]int{1: 1, 2: 2, 8: 4} { // of five calls in a round a person answers one
		for name, pick := range map[string]func(int) int{"first": func(int) int { return 0 }, "last": func(n int) int { return n - 1 }} {
			y, s := &toy{t: t, pick: pick}, newScene(concurrency)
			var answers []agents.Answer
			var got *agents.Ran
			var kept []trace.Event
			for executions := 0; got == nil; executions++ {
				if executions > 5 {
					t.Fatal("it does not end")
				}
				res, err := y.drive(s, answers)
				kept = append(kept, res.Trace...)
				p, paused := errors.AsType[*agents.PauseError](err)
				if !paused {
					if got = res; err != nil {
						t.Fatal(err)
					}
					break
				}
				answers = nil
				for _, p := range p.Pauses {
					v := object{"answer": "42"}
					if p.For == agents.ForApproval {
						v = object{"decision": "approve", "form": object{"scope": "session"}}
					}
					answers = append(answers, agents.Answer{Pause: p.ID, Value: v})
				}
			}
			name = fmt.Sprintf("concurrency %d, %s", concurrency, name)
			fold, err := agents.Fold(y.events)
			if err != nil {
				t.Fatal(err)
			}
			same(t, name+": state", canonical(t, y.state), canonical(t, fold))
			same(t, name, outcome(t, got), want)
			same(t, name+": trace", lines(kept), lines(whole.trace))
			same(t, name+": events told", len(y.told), len(kept))
			same(t, name+": calls at once", y.most, most)
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
			_, err := run(t, s.loop, input{Journal: first}, s.host)
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
