package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// desk is a provider that answers in batches, and what it was asked.
type desk struct {
	mutex     sync.Mutex
	batches   []*deskBatch
	polls     int
	finds     int
	cancelled []string
	direct    int // calls of Generate

	over   bool                                           // its batches are
	answer func(req *runtime.Request) runtime.BatchAnswer // nil: the prompt; of nil, nothing
	submit func(n int) (taken bool, err error)            // nil: all are taken
	poll   func(n int) error                              // nil: none fails
	find   func(n int) error                              // likewise
}

type deskBatch struct {
	runtime.Batch
	id      string
	answers map[string]runtime.BatchAnswer // nil: nobody has asked yet
}

func (d *desk) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	d.direct++
	return nil, errors.New("asked directly")
}

func (d *desk) Submit(_ context.Context, b *runtime.Batch) (string, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	taken, err := true, error(nil)
	if d.submit != nil {
		taken, err = d.submit(len(d.batches) + 1)
	}
	if !taken {
		return "", err
	}
	made := &deskBatch{Batch: *b, id: fmt.Sprint("batch_", len(d.batches)+1)}
	d.batches = append(d.batches, made)
	return made.id, err
}

func (d *desk) Find(_ context.Context, b *runtime.Batch) (string, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.finds++
	if d.find != nil {
		if err := d.find(d.finds); err != nil {
			return "", err
		}
	}
	for _, made := range d.batches {
		if made.Key == b.Key {
			return made.id, nil
		}
	}
	return "", nil
}

func (d *desk) Poll(_ context.Context, id string) (*runtime.BatchState, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.polls++
	if d.poll != nil {
		if err := d.poll(d.polls); err != nil {
			return nil, err
		}
	}
	i := slices.IndexFunc(d.batches, func(b *deskBatch) bool { return b.id == id })
	b := d.batches[i]
	s := &runtime.BatchState{Over: d.over, Requests: len(b.IDs)}
	if !d.over {
		return s, nil
	}
	if s.Answers = b.answers; s.Answers != nil {
		return s, nil
	}
	s.Answers = map[string]runtime.BatchAnswer{}
	b.answers = s.Answers
	for n, req := range b.Requests {
		last := req.Messages[len(req.Messages)-1].Text
		a := saysLater("re: " + last)
		if d.answer != nil {
			a = d.answer(req)
		}
		if a != nil {
			s.Answers[b.IDs[n]] = a
		}
	}
	return s, nil
}

func (d *desk) Cancel(_ context.Context, id string) error {
	d.cancelled = append(d.cancelled, id)
	return nil
}

// sizes are how many requests each batch has.
func (d *desk) sizes() (list []int) {
	for _, b := range d.batches {
		list = append(list, len(b.IDs))
	}
	return list
}

// asksTwice reports an id of a request that was sent twice.
func (d *desk) asksTwice(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	for _, b := range d.batches {
		for _, id := range b.IDs {
			if seen[id] {
				t.Errorf("request %s was sent twice", id)
			}
			seen[id] = true
		}
	}
}

const askAll = `apiVersion: braise/v1
name: all
steps:
  each:
    foreach: {in: "${{ 1..N }}"}
    uses: model
    with: {model: m, prompt: "q ${{ item }}"}
output: "${{ map(steps.each.output, #.text) }}"
`

func manyOf(n int) string { return strings.ReplaceAll(askAll, "N", fmt.Sprint(n)) }

// later lets time pass, and sweeps; the only run in the store goes on.
func later(t *testing.T, rt *runtime.Runtime, d time.Duration) *workflow.Outcome {
	t.Helper()
	<-time.After(d)
	outs, err := workflow.Sweep(t.Context(), rt, nil)
	if err != nil || len(outs) != 1 {
		t.Fatalf("swept %d runs, %v", len(outs), err)
	}
	return outs[0]
}

// models.md 2, batch: true. The calls of a foreach are one batch, whatever max_parallel says. The run waits for it in
// pauses, is looked at from time to time with few records, and goes on when it is over.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		d := &desk{}
		rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": d}, Store: &checkpoint.Memory{}}
		out, err := runtest.Load(t, []byte(manyOf(n))).Run(t.Context(), nil, rt)
		if err != nil || out.Status != workflow.StatusPaused || len(out.Pauses) != n {
			t.Fatalf("%s with %d pauses, %v", out.Status, len(out.Pauses), err)
		}
		if diff := cmp.Diff([]int{n}, d.sizes()); diff != "" {
			t.Fatalf("batches (-want +got):\n%s", diff)
		}
		for i, p := range out.Pauses {
			if p.Kind != "external" || p.Reason != "model.batch" || p.Token != "" || p.RetryAt.IsZero() != (i > 0) {
				t.Fatalf("pause %d is %+v", i, p)
			}
		}
		before := len(runtest.RecordsIn(t.Context(), rt.Store, out.RunID))
		for range 3 {
			out = later(t, rt, 15*time.Minute)
			if out.Status != workflow.StatusPaused {
				t.Fatalf("%s, %v", out.Status, out.Err)
			}
		}
		if grown := len(runtest.RecordsIn(t.Context(), rt.Store, out.RunID)) - before; grown > 3*5 || d.polls != 3 {
			t.Errorf("%d records of %d looks", grown, d.polls)
		}
		d.over = true
		out = later(t, rt, 15*time.Minute)
		if out.Status != workflow.StatusOK {
			t.Fatalf("%s, %v", out.Status, out.Err)
		}
		list := out.Output.([]any)
		if len(list) != n || list[0] != "re: q 1" || list[n-1] != fmt.Sprint("re: q ", n) {
			t.Errorf("output %v", list)
		}
		if u := out.Usage; u.Calls != n || u.InputTokens != 10*n || u.OutputTokens != 5*n {
			t.Errorf("usage %+v", u)
		}
		if d.direct > 0 || d.polls != 4 || d.finds > 0 || d.cancelled != nil {
			t.Errorf("%d calls, %d polls, %d finds, cancelled %v", d.direct, d.polls, d.finds, d.cancelled)
		}
	})
}

// refusedWith is a failure of a batch that may be sent again.
func refusedWith(status int) error {
	return &retry.Failure{Reason: retry.ReasonOfStatus(status), Status: status, Sent: true, Err: fmt.Errorf("status %d", status)}
}

const askBoth = `apiVersion: braise/v1
name: both
steps:
  a: {uses: model, with: {model: m, prompt: first}}
  b: {uses: model, with: {model: m, prompt: second}}
`

// failure is what a request came to.
func failure(reason retry.Reason, status int, text string) runtime.BatchAnswer {
	return func(context.Context, *runtime.Request) (*runtime.Response, error) {
		return nil, &retry.Failure{Reason: reason, Status: status, Sent: true, Err: errors.New(text)}
	}
}

// saysLater is an answer with this text.
func saysLater(text string) runtime.BatchAnswer {
	return func(context.Context, *runtime.Request) (*runtime.Response, error) {
		return &runtime.Response{Text: text, Finish: runtime.FinishStop,
			Usage: runtime.Usage{InputTokens: 10, OutputTokens: 5}}, nil
	}
}

// What may go wrong with a batch and its requests, until the run is over or nothing changes any more in a day.
func TestBatchGoesWrong(t *testing.T) {
	lost := &retry.Failure{Reason: retry.Network, Sent: true, Err: errors.New("the connection was lost")}
	once := func(err runtime.BatchAnswer) func(*runtime.Request) runtime.BatchAnswer {
		seen := map[string]bool{}
		return func(req *runtime.Request) runtime.BatchAnswer {
			text := req.Messages[0].Text
			if text == "second" && !seen[text] {
				seen[text] = true
				return err
			}
			return saysLater("re: " + text)
		}
	}
	const ok = workflow.StatusOK
	for _, tt := range []struct {
		name   string
		desk   *desk
		of     string // of each step
		status workflow.Status
		code   string
		words  string // in the error
		sizes  []int
		finds  int
	}{
		{name: "a request expires", desk: &desk{answer: once(failure(retry.ServerError, 0, "expired"))}, of: ", retry: {max_attempts: 2}", status: ok, sizes: []int{2, 1}},
		{name: "and again", desk: &desk{answer: func(*runtime.Request) runtime.BatchAnswer { return failure(retry.ServerError, 0, "expired") }},
			of: ", retry: {max_attempts: 3}", status: workflow.StatusError, code: "model.failed", words: "expired", sizes: []int{2, 2, 2}},
		{name: "nothing is tried again", desk: &desk{answer: once(failure(retry.ServerError, 0, "expired"))}, status: workflow.StatusError, code: "model.failed", words: "expired", sizes: []int{2}},
		{name: "a request is refused", desk: &desk{answer: once(failure("", 400, "too long"))}, of: ", retry: {max_attempts: 2}", status: workflow.StatusError, code: "model.failed", words: "too long", sizes: []int{2}},
		{name: "an answer is missing", desk: &desk{answer: once(nil)}, of: ", retry: {max_attempts: 2}", status: ok, sizes: []int{2, 1}},
		{name: "the batch is refused", desk: &desk{submit: func(int) (bool, error) { return false, refusedWith(400) }}, of: ", retry: {max_attempts: 2}", status: workflow.StatusError, code: "model.failed", words: "status 400"},
		{name: "the key is refused", desk: &desk{submit: func(int) (bool, error) { return false, refusedWith(401) }}, status: workflow.StatusError, code: "model.failed", words: "status 401"},
		{name: "too many batches", desk: &desk{submit: refusedFirst(refusedWith(429))}, of: ", retry: {max_attempts: 2, backoff: 1s, jitter: full}", status: ok, sizes: []int{2}},
		{name: "the connection is lost, taken", desk: &desk{submit: func(int) (bool, error) { return true, lost }}, status: ok, sizes: []int{2}, finds: 1},
		{name: "the connection is lost, not taken", desk: &desk{submit: refusedFirst(lost)}, status: ok, sizes: []int{2}, finds: 1},
		{name: "it cannot be looked for at first", desk: &desk{submit: func(int) (bool, error) { return true, lost }, find: func(n int) error {
			if n < 3 {
				return refusedWith(503)
			}
			return nil
		}}, status: ok, sizes: []int{2}, finds: 3},
		{name: "a server that fails may have taken it", desk: &desk{submit: func(int) (bool, error) { return true, refusedWith(502) }}, status: ok, sizes: []int{2}, finds: 1},
		{name: "the provider fails for a while", desk: &desk{poll: func(n int) error {
			if n < 4 {
				return refusedWith(503)
			}
			return nil
		}}, status: ok, sizes: []int{2}},
		{name: "the batch is gone", desk: &desk{poll: func(int) error { return refusedWith(404) }}, of: ", retry: {max_attempts: 2}", status: workflow.StatusError, code: "model.failed", words: "status 404", sizes: []int{2}},
		{name: "the key is no longer taken", desk: &desk{poll: func(int) error { return refusedWith(401) }}, status: workflow.StatusPaused, words: "status 401", sizes: []int{2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := tt.desk
				d.over = true
				rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": d}, Store: &checkpoint.Memory{}}
				text := strings.ReplaceAll(askBoth, "}}\n", "}"+tt.of+"}\n")
				out, _ := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
				for began := time.Now(); out.Status == workflow.StatusPaused && time.Since(began) < 24*time.Hour; {
					out = later(t, rt, 15*time.Minute)
				}
				words := ""
				if out.Err != nil {
					words = out.Err.Error()
				} else if out.Pauses != nil {
					words = out.Pauses[0].Prompt
				}
				if out.Status != tt.status || runtest.ErrorCode(out) != tt.code || !strings.Contains(words, tt.words) {
					t.Errorf("%s %s %q", out.Status, runtest.ErrorCode(out), words)
				}
				if out.Status == ok {
					want := map[string]any{"a": map[string]any{"text": "re: first"}, "b": map[string]any{"text": "re: second"}}
					if diff := cmp.Diff(want, out.Artefact); diff != "" {
						t.Errorf("artefact (-want +got):\n%s", diff)
					}
				}
				if diff := cmp.Diff(tt.sizes, d.sizes()); diff != "" || d.finds != tt.finds {
					t.Errorf("%d finds; batches (-want +got):\n%s", d.finds, diff)
				}
				d.asksTwice(t)
			})
		})
	}
}

// refusedFirst refuses the first batch.
func refusedFirst(err error) func(int) (bool, error) {
	n := 0
	return func(int) (bool, error) {
		if n++; n == 1 {
			return false, err
		}
		return true, nil
	}
}
