package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
)

// slowly answers in batches that take a while.
type slowly struct {
	sent  time.Time
	takes time.Duration
	asked int
	ids   []string
	polls []time.Duration // after it was sent
}

func (s *slowly) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	panic("asked at once")
}

func (s *slowly) Submit(_ context.Context, b *runtime.Batch) (string, error) {
	s.sent, s.ids = time.Now(), b.IDs
	s.asked += len(b.IDs)
	return "b", nil
}

func (s *slowly) Find(context.Context, *runtime.Batch) (string, error) { panic("nothing is lost") }
func (s *slowly) Cancel(context.Context, string) error                 { panic("everything is waited for") }

func (s *slowly) Poll(context.Context, string) (*runtime.BatchState, error) {
	s.polls = append(s.polls, time.Since(s.sent))
	state := &runtime.BatchState{Over: time.Since(s.sent) >= s.takes, Answers: map[string]runtime.BatchAnswer{}}
	for _, id := range s.ids {
		state.Answers[id] = func(context.Context, *runtime.Request) (*runtime.Response, error) {
			return &runtime.Response{Text: "done"}, nil
		}
	}
	return state, nil
}

// A worker looks at the batches of its runs, less and less often, and tells nobody of the pauses.
func TestWorkerLooksAtBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, m := &checkpoint.Memory{}, &slowly{takes: 2 * time.Hour}
		w := &worker.Worker{Runtime: &runtime.Runtime{Store: store, Models: map[string]runtime.Model{"m": m}}, Queues: []string{"q"}}
		stop := working(t, w)
		run := enqueue(t, store, `
apiVersion: braise/v1
name: asks
steps:
  each: {uses: model, foreach: {in: [1, 2, 3]}, with: {model: m, prompt: "${{ item }}"}}
`, "q")
		time.Sleep(time.Hour)
		if got := phase(t, store, run); got != checkpoint.PhaseWaiting {
			t.Errorf("after an hour it is %s", got)
		}
		time.Sleep(2 * time.Hour)
		if got := phase(t, store, run); got != checkpoint.PhaseOK {
			t.Errorf("in the end it is %s", got)
		}
		stop()
		if n := len(m.polls); m.asked != 3 || n < 8 || n > 25 {
			t.Errorf("%d requests, looked at after %v", m.asked, m.polls)
		}
		for i, at := range m.polls[1:] {
			if wait := at - m.polls[i]; wait < 59*time.Second || wait > 16*time.Minute {
				t.Errorf("looked at after %v", m.polls)
				break
			}
		}
		_, recs, err := store.Load(t.Context(), run, 0)
		if err != nil || len(recs) > 7*len(m.polls)+20 {
			t.Errorf("%d records, %v", len(recs), err)
		}
	})
}
