package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// signalOf makes a signal of a kind.
func signalOf(kind, by string, data map[string]any) checkpoint.Signal {
	s := checkpoint.Signal{Kind: kind, By: by}
	if data != nil {
		s.Data = runtest.Must(json.Marshal(data))
	}
	return s
}

func answerOf(pause, by string, value any) checkpoint.Signal {
	return signalOf(checkpoint.SignalAnswer, by, map[string]any{"pause": pause, "value": value})
}

// carriedOut are the records of a run that carry out signals: the kind, who acted, and the signal.
func carriedOut(t *testing.T, store checkpoint.Store, runID string) (list []string) {
	t.Helper()
	_, recs, err := store.Load(t.Context(), runID, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		var data struct{ By, Signal, ID, Why string }
		_ = json.Unmarshal(rec.Data, &data)
		if data.Signal != "" {
			list = append(list, fmt.Sprintf("%s by %s: %s", rec.Kind, data.By, data.Signal))
		}
		if rec.Kind == "signal.dropped" {
			list = append(list, fmt.Sprintf("%s %s: %s", rec.Kind, data.ID, data.Why))
		}
	}
	return list
}

// open are the ids of the signals of a run that are not done.
func open(t *testing.T, store checkpoint.Store, runID string) (ids []string) {
	t.Helper()
	for _, s := range runtest.Must(store.(checkpoint.Signals).Signals(t.Context(), runID, true)) {
		ids = append(ids, s.ID)
	}
	return ids
}

// serve 12.5: what others ask of a run that is executed takes effect within a second. The record that carries it out
// names the signal and who asked.
func TestSignalsOfARunAtWork(t *testing.T) {
	const siblings = `channels: {orders: queue}
steps:
  work: {uses: test.work, with: {n: 1}}
  ask: {uses: human, with: {prompt: Go on?}}
  then: {uses: test.quick, with: {n: 2}, needs: [ask], rollback: {uses: test.quick, with: {n: 3}}}
`
	for _, tt := range []struct {
		name, steps string
		signals     []checkpoint.Signal // 1 s after the start, and after each other
		status      workflow.Status
		took        time.Duration
		calls       []string
		named       []string
		open        []string // in the end
	}{
		{"an answer", siblings, []checkpoint.Signal{answerOf("ask", "ada", map[string]any{"decision": "approve"})},
			workflow.StatusOK, 10 * time.Second, []string{"work1 at 0s", "quick2 at 1s"},
			[]string{"pause.answered by ada: answer:ask"}, nil},
		{"a take", siblings, []checkpoint.Signal{{ID: "t", Kind: checkpoint.SignalTake}},
			workflow.StatusPaused, 10 * time.Second, []string{"work1 at 0s"}, nil, nil},
		{"a cancellation", siblings, []checkpoint.Signal{signalOf(checkpoint.SignalCancel, "bob", map[string]any{"reason": "no"})},
			workflow.StatusCancelled, time.Second, []string{"work1 at 0s"}, []string{"run.cancelling by bob: c"}, nil},
		{"an answer and a cancellation", siblings, []checkpoint.Signal{answerOf("ask", "ada", map[string]any{"decision": "approve"}),
			signalOf(checkpoint.SignalCancel, "bob", nil)},
			workflow.StatusCancelled, 2 * time.Second, []string{"work1 at 0s", "quick2 at 1s", "quick3 at 2s"},
			[]string{"pause.answered by ada: answer:ask", "run.cancelling by bob: c"}, nil},
		{"a cancellation of an outside call", "steps:\n  work: {uses: test.outside, with: {n: 1}}\n",
			[]checkpoint.Signal{signalOf(checkpoint.SignalCancel, "bob", nil)},
			workflow.StatusPaused, time.Second, []string{"work1 at 0s"}, []string{"run.cancelling by bob: c"}, nil},
		{"a cancellation of an outside call by force", "steps:\n  work: {uses: test.outside, with: {n: 1}}\n",
			[]checkpoint.Signal{signalOf(checkpoint.SignalCancel, "bob", map[string]any{"force": true})},
			workflow.StatusCancelled, time.Second, []string{"work1 at 0s"}, []string{"run.cancelling by bob: c"}, nil},
		{"a value", `channels: {orders: queue}
steps:
  work: {uses: test.work, with: {n: 1}}
  get: {uses: receive, with: {channel: orders}}
  then: {uses: test.quick, with: {n: "${{ steps.get.output }}"}, needs: [get]}
`, []checkpoint.Signal{signalOf(checkpoint.SignalSend, "ada", map[string]any{"channel": "orders", "value": 7})},
			workflow.StatusOK, 10 * time.Second, []string{"work1 at 0s", "quick7 at 1s"}, []string{"value.sent by ada: v"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, log := &checkpoint.Memory{}, &runtest.Effects{}
				rt := runtest.Busy(store, log)
				began := time.Now()
				go func() {
					for _, s := range tt.signals {
						time.Sleep(time.Second)
						if s.ID == "" {
							s.ID = map[string]string{checkpoint.SignalCancel: "c", checkpoint.SignalSend: "v"}[s.Kind]
						}
						if err := workflow.Signal(t.Context(), "r1", s, store, nil); err != nil {
							t.Error(err)
						}
					}
				}()
				out, err := runtest.Load(t, []byte(runtest.Head+tt.steps)).Run(t.Context(), nil, rt)
				if took := time.Since(began); out.Status != tt.status || took < tt.took || took >= tt.took+time.Second {
					t.Errorf("%s after %v (%v), want %s after %v", out.Status, took, err, tt.status, tt.took)
				}
				if diff := cmp.Diff(tt.calls, log.Lines); diff != "" {
					t.Errorf("calls (-want +got)\n%s", diff)
				}
				if diff := cmp.Diff(tt.named, carriedOut(t, store, "r1")); diff != "" {
					t.Errorf("records (-want +got)\n%s", diff)
				}
				if diff := cmp.Diff(tt.open, open(t, store, "r1")); diff != "" {
					t.Errorf("open signals (-want +got)\n%s", diff)
				}
			})
		})
	}
}

// serve 14.2: whoever claims a run takes its signals first. One that does not apply any more is dropped, and the journal
// says why.
func TestSignalsOfARunThatWaits(t *testing.T) {
	approve := map[string]any{"decision": "approve"}
	const steps = `channels: {orders: queue}
steps:
  ask: {uses: human, with: {prompt: Go on?}, rollback: {uses: test.quick, with: {n: 0}}}
  then: {uses: test.quick, with: {n: 1}, needs: [ask]}
  last: {uses: human, with: {prompt: Sure?}, needs: [then]}
`
	for _, tt := range []struct {
		name    string
		signals []checkpoint.Signal
		status  workflow.Status
		calls   int
		named   []string
		open    []string
	}{
		{"an answer", []checkpoint.Signal{answerOf("ask", "ada", approve)}, workflow.StatusPaused, 1,
			[]string{"pause.answered by ada: answer:ask"}, nil},
		{"a cancellation first", []checkpoint.Signal{answerOf("ask", "ada", approve), {ID: "c", Kind: checkpoint.SignalCancel}},
			workflow.StatusCancelled, 0, []string{"run.cancelling by : c",
				`signal.dropped answer:ask: pause "ask" no longer needs an answer: the run was cancelled`}, nil},
		{"two cancellations", []checkpoint.Signal{{ID: "c", Kind: checkpoint.SignalCancel, By: "ada"}, {ID: "d", Kind: checkpoint.SignalCancel}},
			workflow.StatusCancelled, 0, []string{"run.cancelling by ada: c", "signal.dropped d: the run was cancelled"}, nil},
		{"two values", []checkpoint.Signal{
			signalOf(checkpoint.SignalSend, "ada", map[string]any{"channel": "orders", "value": 1}),
			signalOf(checkpoint.SignalSend, "bob", map[string]any{"channel": "orders", "value": 2})},
			workflow.StatusPaused, 0, []string{"value.sent by ada: s0", "value.sent by bob: s1"}, nil},
		{"a take", []checkpoint.Signal{{ID: "t", Kind: checkpoint.SignalTake, By: "ada"}}, workflow.StatusPaused, 0,
			[]string{"run.execution by ada: t"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store, log := &checkpoint.Memory{}, &runtest.Effects{}
			rt := runtest.Busy(store, log)
			if out, err := runtest.Load(t, []byte(runtest.Head+steps)).Run(t.Context(), nil, rt); out.Status != workflow.StatusPaused {
				t.Fatal(out.Status, err)
			}
			for i, s := range tt.signals {
				if s.Kind == checkpoint.SignalSend {
					s.ID = fmt.Sprintf("s%d", i)
				}
				if err := workflow.Signal(t.Context(), "r1", s, store, nil); err != nil {
					t.Fatal(err)
				}
			}
			out, err := workflow.Recover(t.Context(), "r1", rt, nil)
			if out.Status != tt.status || len(log.Lines) != tt.calls {
				t.Errorf("%s, %d calls (%v), want %s, %d", out.Status, len(log.Lines), err, tt.status, tt.calls)
			}
			if diff := cmp.Diff(tt.named, carriedOut(t, store, "r1")); diff != "" {
				t.Errorf("records (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.open, open(t, store, "r1")); diff != "" {
				t.Errorf("open signals (-want +got)\n%s", diff)
			}
		})
	}
}

// A signal that comes just before a run ends is dropped, and the journal and the acts of the run say so: nobody looks for
// signals of a run that has ended.
func TestSignalBeforeTheEnd(t *testing.T) {
	store := &checkpoint.Memory{}
	rt := &runtime.Runtime{Store: store, NewRunID: func() string { return "r1" }, Tools: []runtime.Tool{
		runtimetest.NewTool("test.last", func(ctx context.Context, _ json.RawMessage) (any, error) {
			s := checkpoint.Signal{ID: "c", Kind: checkpoint.SignalCancel, By: "ada"}
			return 1, workflow.Signal(ctx, "r1", s, store, nil)
		})}}
	if out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  last: {uses: test.last}\n")).Run(t.Context(), nil, rt); out.Status != workflow.StatusOK {
		t.Fatal(out.Status, err)
	}
	if diff := cmp.Diff([]string{"signal.dropped c: the run has ended"}, carriedOut(t, store, "r1")); diff != "" {
		t.Errorf("records (-want +got)\n%s", diff)
	}
	if left := open(t, store, "r1"); left != nil {
		t.Errorf("signals %v are open", left)
	}
	acts := runtest.Must(history.Load(t.Context(), store, "r1")).Acts
	want := history.Act{What: "drop", By: "ada", Reason: "the run has ended"}
	if got := acts[len(acts)-1]; got.What != want.What || got.By != want.By || got.Reason != want.Reason || got.At.IsZero() {
		t.Errorf("the last act is %+v, want %+v", got, want)
	}
}

// serve 12.5: of 100 answers at once to one pause one wins. The others name it.
func TestAnswersAtOnce(t *testing.T) {
	store := runtest.Must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), nil))
	defer store.Close()
	rt := runtest.Busy(store, &runtest.Effects{})
	if out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: human, with: {prompt: Go on?}}\n")).Run(t.Context(), nil, rt); out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	var won []string
	var lost []error
	var mutex sync.Mutex
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			by := fmt.Sprintf("p%d", i)
			err := workflow.Signal(t.Context(), "r1", answerOf("ask", by, map[string]any{"decision": "approve"}), store, nil)
			mutex.Lock()
			defer mutex.Unlock()
			if err == nil {
				won = append(won, by)
			} else {
				lost = append(lost, err)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("%d answers won", len(won))
	}
	late := func() error {
		return workflow.Signal(t.Context(), "r1", answerOf("ask", "late", map[string]any{"decision": "reject"}), store, nil)
	}
	lost = append(lost, late())
	if out, err := workflow.Recover(t.Context(), "r1", rt, nil); out.Status != workflow.StatusOK {
		t.Fatal(out.Status, err)
	}
	lost = append(lost, late()) // of a run that is over, too
	for _, err := range lost {
		want := fmt.Sprintf(`pause "ask" was answered by %q at 20`, won[0])
		if runtest.CodeOf(err) != "pause.answered" || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s…", runtest.CodeOf(err), err, want)
		}
	}
}

// Signal refuses what the journal tells cannot apply, and leaves nothing.
func TestSignalRefuses(t *testing.T) {
	approve := map[string]any{"decision": "approve"}
	with := func(s checkpoint.Signal, name string, v any) checkpoint.Signal {
		var data map[string]any
		_ = json.Unmarshal(s.Data, &data)
		data[name] = v
		return signalOf(s.Kind, s.By, data)
	}
	for _, tt := range []struct {
		name, run string
		signal    checkpoint.Signal
		code      string
	}{
		{"no run", "other", checkpoint.Signal{Kind: checkpoint.SignalTake}, "run.notFound"},
		{"an unknown kind", "r1", checkpoint.Signal{Kind: "cancle"}, "signal.invalid"},
		{"no data", "r1", checkpoint.Signal{Kind: checkpoint.SignalAnswer}, "signal.invalid"},
		{"data that is no object", "r1", checkpoint.Signal{Kind: checkpoint.SignalTake, Data: []byte("[]")}, "signal.invalid"},
		{"an unknown member", "r1", with(answerOf("ask", "ada", approve), "now", true), "signal.invalid"},
		{"a member of another type", "r1", with(answerOf("ask", "ada", approve), "force", "yes"), "signal.invalid"},
		{"no such pause", "r1", answerOf("asked", "ada", approve), "resume.invalidToken"},
		{"a pause that was answered", "r1", answerOf("first", "ada", approve), "pause.answered"},
		{"an answer that does not fit", "r1", answerOf("ask", "ada", map[string]any{"decision": "perhaps"}), "answer.unfit"},
		{"another question", "r1", with(answerOf("ask", "ada", approve), "question", "0123"), "resume.questionChanged"},
		{"no such channel", "r1", signalOf(checkpoint.SignalSend, "ada", map[string]any{"channel": "order", "value": 1}), "channel.unknown"},
		{"a note where there is no agent", "r1", signalOf(checkpoint.SignalTell, "ada", map[string]any{"text": "Hurry."}), "signal.invalid"},
		{"an id that was used", "r1", checkpoint.Signal{ID: "t1", Kind: checkpoint.SignalTake}, "signal.exists"},
		{"an id that is none", "r1", checkpoint.Signal{ID: strings.Repeat("x", 1001), Kind: checkpoint.SignalTake}, "signal.invalid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &checkpoint.Memory{}
			rt := runtest.Busy(store, &runtest.Effects{})
			out, err := runtest.Load(t, []byte(runtest.Head+`channels: {orders: queue}
steps:
  first: {uses: human, with: {prompt: Begin?}}
  ask: {uses: human, with: {prompt: Go on?}, needs: [first]}
`)).Run(t.Context(), nil, rt)
			if err == nil {
				_, err = workflow.Resume(t.Context(), out.Token, approve, rt, nil)
			}
			if err == nil {
				err = workflow.Signal(t.Context(), "r1", checkpoint.Signal{ID: "t1", Kind: checkpoint.SignalTake}, store, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			err = workflow.Signal(t.Context(), tt.run, tt.signal, store, nil)
			if runtest.CodeOf(err) != tt.code {
				t.Errorf("%s (%v), want %s", runtest.CodeOf(err), err, tt.code)
			}
			if left := open(t, store, "r1"); !slices.Equal(left, []string{"t1"}) {
				t.Errorf("left signals %q", left)
			}
		})
	}
}

// serve 12.5: an answer and a cancellation by another process, with a store of its own on the same file, take effect
// within 6 s, although the run is held. In Go such a run stays busy.
func TestSignalsOfAnotherProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.db")
	here, there := runtest.Must(sqlite.Open(t.Context(), file, nil)), runtest.Must(sqlite.Open(t.Context(), file, nil))
	defer here.Close()
	defer there.Close()
	rt := runtest.Busy(here, &runtest.Effects{})
	asked, answered := make(chan struct{}), make(chan struct{})
	rt.OnPause = func(resume.Pause) { close(asked) }
	rt.Tools = append(rt.Tools, runtest.Idempotent{JSONTool: runtest.JSONTool{Name: "test.answered", F: func(ctx context.Context, _ map[string]any) (any, error) {
		close(answered)
		<-ctx.Done()
		return nil, ctx.Err()
	}}})
	ended := make(chan *workflow.Outcome)
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  work: {uses: test.work}
  ask: {uses: human, with: {prompt: Go on?}}
  then: {uses: test.answered, needs: [ask]}
`))
	go func() {
		out, _ := wf.Run(context.WithoutCancel(t.Context()), nil, rt)
		ended <- out
	}()
	<-asked
	approve := map[string]any{"decision": "approve"}
	if out, err := workflow.Answer(t.Context(), "r1", "ask", approve, &runtime.Runtime{Store: there, Resume: resume.PassThrough{}}, nil); out.Failure().Code != "run.busy" {
		t.Error(err)
	}
	began := time.Now()
	if err := workflow.Signal(t.Context(), "r1", answerOf("ask", "ada", approve), there, nil); err != nil {
		t.Fatal(err)
	}
	<-answered
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the answer took %v", took)
	}
	began = time.Now()
	if err := workflow.Signal(t.Context(), "r1", signalOf(checkpoint.SignalCancel, "ada", nil), there, nil); err != nil {
		t.Fatal(err)
	}
	out := <-ended
	if took := time.Since(began); took > time.Minute || out.Status != workflow.StatusCancelled {
		t.Errorf("%s after %v: %v", out.Status, took, out.Err)
	}
	sum, _, err := there.Load(t.Context(), "r1", 0)
	if err != nil || sum.Status != checkpoint.Cancelled {
		t.Error(sum.Status, err)
	}
}

// A signal that does not apply is dropped, and another one may take its place. After the run has begun again, a pause
// of the same name has an answer of its own.
func TestSignalsDropped(t *testing.T) {
	store := &checkpoint.Memory{}
	rt := runtest.Busy(store, &runtest.Effects{})
	if out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: human, with: {prompt: Go on?}}\n")).Run(t.Context(), nil, rt); err != nil {
		t.Fatal(out.Status, err)
	}
	pause := checkpoint.Pause{ID: "ask"}
	for _, s := range []checkpoint.Signal{
		{ID: pause.AnswerID(), Kind: checkpoint.SignalAnswer, Data: []byte(`{"pause":"ask","value":{"decision":"perhaps"}}`), At: time.Now()},
		{ID: "s", Kind: checkpoint.SignalSend, Data: []byte(`{"channel":"none","value":1}`), At: time.Now()},
		{ID: "k", Kind: "later", At: time.Now()},
	} {
		if err := store.PutSignal(t.Context(), "r1", s); err != nil {
			t.Fatal(err)
		}
	}
	reject := map[string]any{"decision": "reject"}
	if err := workflow.Signal(t.Context(), "r1", answerOf("ask", "ada", reject), store, nil); runtest.CodeOf(err) != "pause.answered" {
		t.Error(err)
	}
	if _, err := workflow.Answer(t.Context(), "r1", "ask", reject, rt, nil); runtest.CodeOf(err) != "pause.answered" {
		t.Error(err)
	}
	if out, err := workflow.Recover(t.Context(), "r1", rt, nil); out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	want := []string{
		"signal.dropped answer:ask: the answer to human pause \"ask\" of step \"ask\": unknown decision \"perhaps\"\n  hint: it is \"approve\" or \"reject\"",
		"signal.dropped s: there is no channel \"none\"",
		"signal.dropped k: this version does not know signals of the kind \"later\"",
	}
	if diff := cmp.Diff(want, carriedOut(t, store, "r1")); diff != "" || len(open(t, store, "r1")) > 0 {
		t.Errorf("open %q, records (-want +got)\n%s", open(t, store, "r1"), diff)
	}
	if err := workflow.Signal(t.Context(), "r1", answerOf("ask", "ada", reject), store, nil); err != nil {
		t.Fatal(err)
	}
	if out, err := workflow.Recover(t.Context(), "r1", rt, nil); out.Status != workflow.StatusOK {
		t.Fatal(out.Status, err)
	}
	if got := carriedOut(t, store, "r1")[3:]; !slices.Equal(got, []string{"pause.answered by ada: answer:ask~2"}) {
		t.Errorf("%q", got)
	}
}

// serve 15.1: who leaves a signal can wait until the run has taken it, and learns what came of it.
func TestSignalWaits(t *testing.T) {
	const steps = `channels: {orders: queue}
steps:
  work: {uses: test.work, with: {n: 1}}
  ask: {uses: human, with: {prompt: Go on?}}
`
	approve := answerOf("ask", "ada", map[string]any{"decision": "approve"})
	value := signalOf(checkpoint.SignalSend, "ada", map[string]any{"channel": "orders", "value": 1})
	for _, tt := range []struct {
		name    string
		before  []checkpoint.Signal // left just before; then somebody recovers the run
		signal  checkpoint.Signal
		wait    time.Duration
		after   time.Duration // the start of the run, when the signal is left
		code    string
		message string
		took    time.Duration // at most
	}{
		{"an answer", nil, approve, 10 * time.Second, time.Second, "", "", time.Second},
		{"a value", nil, value, 10 * time.Second, time.Second, "", "", time.Second},
		{"a cancellation", nil, signalOf(checkpoint.SignalCancel, "ada", nil), 10 * time.Second, time.Second, "", "", time.Second},
		{"no wait", nil, approve, 0, time.Second, "", "", 0},
		{"a take", nil, signalOf(checkpoint.SignalTake, "ada", nil), 10 * time.Second, time.Second, "", "", 0},
		{"nobody works on the run", nil, value, 2 * time.Second, time.Minute, "signal.open",
			`the signal "send" is left for run "r1", which has not taken it yet`, 2 * time.Second},
		{"the pause closes meanwhile", []checkpoint.Signal{signalOf(checkpoint.SignalCancel, "bob", nil)}, approve, 10 * time.Second,
			time.Minute, "signal.dropped", `the signal "answer" did not apply: pause "ask" no longer needs an answer: the run was cancelled`,
			time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &checkpoint.Memory{}
				rt := runtest.Busy(store, &runtest.Effects{})
				var running sync.WaitGroup
				running.Go(func() { runtest.Load(t, []byte(runtest.Head+steps)).Run(t.Context(), nil, rt) })
				time.Sleep(tt.after)
				for _, s := range tt.before {
					if err := workflow.Signal(t.Context(), "r1", s, store, nil); err != nil {
						t.Fatal(err)
					}
				}
				if tt.before != nil {
					running.Go(func() {
						time.Sleep(500 * time.Millisecond)
						workflow.Recover(t.Context(), "r1", rt, nil)
					})
				}
				began := time.Now()
				err := workflow.Signal(t.Context(), "r1", tt.signal, store, &workflow.SignalOptions{Wait: tt.wait})
				if took := time.Since(began); took > tt.took {
					t.Errorf("it took %v", took)
				}
				if tt.code == "" && err != nil || tt.code != "" && (runtest.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.message)) {
					t.Errorf("error %v, want %s", err, tt.code)
				}
				running.Wait()
			})
		})
	}
}

// serve 14.1: an answer and a take are open until the run waits for a person, or ends; a timer is no person.
func TestSignalsStayOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		rt := runtest.Busy(store, &runtest.Effects{})
		if out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  ask: {uses: human, with: {prompt: Go on?}}
  rest: {uses: wait, needs: [ask], with: {duration: 2s}}
  last: {uses: human, needs: [rest], with: {prompt: Sure?}}
`)).Run(t.Context(), nil, rt); err != nil {
			t.Fatal(out.Status, err)
		}
		for _, s := range []checkpoint.Signal{answerOf("ask", "ada", map[string]any{"decision": "approve"}), {ID: "t", Kind: checkpoint.SignalTake}} {
			if err := workflow.Signal(t.Context(), "r1", s, store, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range []struct {
			after time.Duration
			want  []string
		}{{0, []string{"answer:ask", "t"}}, {2 * time.Second, nil}} {
			time.Sleep(tt.after)
			outs, err := workflow.Sweep(t.Context(), rt, nil)
			if got := open(t, store, "r1"); len(outs) != 1 || err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%d runs, %v; %q are open, want %q", len(outs), err, got, tt.want)
			}
			if outs, err = workflow.Sweep(t.Context(), rt, nil); len(outs) != 0 || err != nil {
				t.Errorf("the next sweep took %d runs: %v", len(outs), err)
			}
		}
	})
}

// A new token of a pause answers it, as the old one does. The time in which the run waits does not count.
func TestMint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		rt := runtest.Busy(store, &runtest.Effects{})
		wf := runtest.Load(t, []byte(runtest.Head+`limits: {wall_time: 1h}
steps:
  ask: {uses: human, with: {prompt: Go on?}}
  then: {uses: test.quick, needs: [ask]}
`))
		out, err := wf.Run(t.Context(), nil, rt)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		token, err := workflow.Mint(t.Context(), "r1", "ask", store)
		if err != nil || token == out.Token || !strings.HasPrefix(token, "r1.") {
			t.Fatal(token, err)
		}
		if _, err := workflow.Mint(t.Context(), "r1", "asked", store); runtest.CodeOf(err) != "resume.invalidToken" {
			t.Error(err)
		}
		if _, err := workflow.Mint(t.Context(), "r2", "ask", store); runtest.CodeOf(err) != "run.notFound" {
			t.Error(err)
		}
		if out, err = workflow.Resume(t.Context(), token, map[string]any{"decision": "approve"}, rt, nil); out.Status != workflow.StatusOK {
			t.Error(out.Status, err)
		}
	})
	t.Run("of a run that is held", func(t *testing.T) {
		store := &checkpoint.Memory{}
		rt := runtest.Busy(store, &runtest.Effects{})
		out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: human, with: {prompt: Go on?}}\n")).Run(t.Context(), nil, rt)
		if err == nil {
			_, err = store.Claim(t.Context(), out.RunID, "another", time.Minute)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := workflow.Mint(t.Context(), out.RunID, "ask", store); runtest.CodeOf(err) != "run.busy" {
			t.Error(err)
		}
	})
}

// serve 14.3: a run whose last three executions recorded nothing is left alone by those who say so, until somebody
// recovers it, or leaves a signal.
func TestPoisonousRuns(t *testing.T) {
	for _, tt := range []struct {
		name  string
		begun []string // who began the last executions; "signal": a signal
		asked bool     // there is a signal
		code  string
	}{
		{name: "two", begun: []string{"", ""}},
		{name: "three", begun: []string{"", "", ""}, code: "run.poison"},
		{name: "one of them by hand", begun: []string{"", "", "ada", ""}},
		{name: "one of them by a signal", begun: []string{"", "", "signal", ""}},
		{name: "three after a person's", begun: []string{"ada", "", "", ""}, code: "run.poison"},
		{name: "three, and a signal", begun: []string{"", "", ""}, asked: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &checkpoint.Memory{}
			rt := runtest.Busy(store, &runtest.Effects{})
			id := runtest.Must(runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.quick}\n")).Enqueue(t.Context(), nil, rt, nil))
			lease := runtest.Must(store.Claim(t.Context(), id, "gone", time.Minute))
			for i, by := range tt.begun {
				data := map[string]any{"owner": "gone", "worked": 0, "by": by}
				if by == "signal" {
					data = map[string]any{"owner": "gone", "worked": 0, "signal": "t"}
				}
				rec := runtest.Must(checkpoint.NewRecord(time.Now(), checkpoint.RunExecution, "", data))
				if err := store.Append(t.Context(), lease, int64(i+2), rec); err != nil {
					t.Fatal(err)
				}
			}
			if err := store.Release(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
			if tt.asked {
				if err := workflow.Signal(t.Context(), id, checkpoint.Signal{Kind: checkpoint.SignalTake}, store, nil); err != nil {
					t.Fatal(err)
				}
			}
			_, before, _ := store.Load(t.Context(), id, 0)
			_, err := workflow.Recover(t.Context(), id, rt, &workflow.ResumeOptions{Unattended: true})
			if runtest.CodeOf(err) != tt.code {
				t.Errorf("%v, want %s", err, tt.code)
			}
			if _, after, _ := store.Load(t.Context(), id, 0); tt.code != "" && len(after) != len(before) {
				t.Errorf("%d records more", len(after)-len(before))
			}
			if out, err := workflow.Recover(t.Context(), id, rt, &workflow.ResumeOptions{By: "ada"}); out.Status != workflow.StatusOK {
				t.Error(out.Status, err)
			}
		})
	}
}

// serve 14.10: a note reaches an agent at work between two of its steps, and once more before its answer counts. It is
// recorded before the model sees it, once, and taken as often as max_steps allows.
func TestTell(t *testing.T) {
	note := func(step, text string) checkpoint.Signal {
		data := map[string]any{"text": text}
		if step != "" {
			data["step"] = step
		}
		return signalOf(checkpoint.SignalTell, "ada", data)
	}
	for _, tt := range []struct {
		name     string
		signals  []checkpoint.Signal // 1 s after the start: the model answers after 2
		maxSteps int
		output   string   // how the model was asked last
		named    []string // signals that were dropped
		open     []string
	}{
		{"a note", []checkpoint.Signal{note("ask", "Hurry.")}, 5, "Write. | Hurry.", nil, nil},
		{"two, to whoever is at work", []checkpoint.Signal{note("", "Hurry."), note("", "Please.")}, 5, "Write. | Hurry. | Please.", nil, nil},
		{"no step is left", []checkpoint.Signal{note("ask", "Hurry.")}, 1, "Write.",
			[]string{"signal.dropped s0: no agent has taken the note: the run has ended"}, nil},
		{"the agent has ended", []checkpoint.Signal{note("before", "Hurry.")}, 5, "Write.", []string{`signal.dropped s0: step "before" has ended`}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &checkpoint.Memory{}
				rt := runtest.Busy(store, &runtest.Effects{})
				rt.Models = map[string]runtime.Model{"m": &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
					var asked []string
					for _, m := range req.Messages {
						if m.Role == runtime.User {
							asked = append(asked, m.Text)
						}
					}
					if asked[0] == "Write." {
						time.Sleep(2 * time.Second)
					}
					return &runtime.Response{Text: strings.Join(asked, " | ")}, nil
				}}}
				go func() {
					time.Sleep(time.Second)
					for i, s := range tt.signals {
						s.ID = fmt.Sprintf("s%d", i)
						if err := workflow.Signal(t.Context(), "r1", s, store, nil); err != nil {
							t.Error(err)
						}
					}
				}()
				out, err := runtest.Load(t, []byte(runtest.Head+fmt.Sprintf(`steps:
  before: {uses: agent, with: {agent: {model: m}, prompt: Begin.}}
  ask: {uses: agent, needs: [before], with: {agent: {model: m, max_steps: %d}, prompt: Write.}}
output: ${{ steps.ask.output.text }}
`, tt.maxSteps))).Run(t.Context(), nil, rt)
				if err != nil || out.Output != tt.output {
					t.Errorf("%q (%v), want %q", out.Output, err, tt.output)
				}
				if diff := cmp.Diff(tt.named, carriedOut(t, store, "r1")); diff != "" {
					t.Errorf("records (-want +got)\n%s", diff)
				}
				if diff := cmp.Diff(tt.open, open(t, store, "r1")); diff != "" {
					t.Errorf("open signals (-want +got)\n%s", diff)
				}
			})
		})
	}
}

// A run that restarts with each answer takes one by signal in the same way: it was rolled back, and begins again.
func TestSignalRestarts(t *testing.T) {
	store, log := &checkpoint.Memory{}, &runtest.Effects{}
	rt := runtest.Busy(store, log)
	rt.Interrupt = resume.Restart
	if out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  first: {uses: test.quick, with: {n: 1}, rollback: {uses: test.quick, with: {n: 2}}}
  ask: {uses: human, needs: [first], with: {prompt: Go on?}}
`)).Run(t.Context(), nil, rt); out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	if err := workflow.Signal(t.Context(), "r1", answerOf("ask", "ada", map[string]any{"decision": "approve"}), store, nil); err != nil {
		t.Fatal(err)
	}
	out, err := workflow.Recover(t.Context(), "r1", rt, nil)
	if out.Status != workflow.StatusOK {
		t.Error(out.Status, err)
	}
	if diff := cmp.Diff([]string{"quick1 at 0s", "quick2 at 0s", "quick1 at 0s"}, log.Lines); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	if left := open(t, store, "r1"); len(left) > 0 {
		t.Errorf("open: %q", left)
	}
}
