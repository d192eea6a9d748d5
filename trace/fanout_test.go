package trace_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/trace"
)

// sinkFunc is a Sink.
type sinkFunc func(trace.Event)

func (f sinkFunc) Emit(e trace.Event) { f(e) }

// failing reports an error at the end.
type failing struct{ trace.Recorder }

func (*failing) Err() error { return errDisk }

func describe(failures []trace.Failure) []string {
	var out []string
	for _, f := range failures {
		out = append(out, fmt.Sprintf("%d: %v", f.Index, f.Err))
	}
	return out
}

func event(i int) trace.Event {
	return trace.Event{Kind: trace.StepStart, Data: trace.Data{{Key: "list", Value: []any{int64(i)}}}}
}

func TestFanoutNil(t *testing.T) {
	f := trace.NewFanout(nil, "run")
	if f != nil {
		t.Fatal("a Fanout of no sinks is not nil")
	}
	f.Emit(sent, nil)
	if got := f.Close(time.Hour); got != nil {
		t.Errorf("failures %v", got)
	}
}

// Sinks that panic, fail, leave or change what they get disturb nobody else, and each is reported
// once.
func TestFanoutIsolation(t *testing.T) {
	var before, after trace.Recorder
	fail := &failing{}
	calls := 0
	vandal := sinkFunc(func(e trace.Event) {
		e.Data[0].Value.([]any)[0] = "changed"
		e.Data[0].Key = "changed"
	})
	f := trace.NewFanout([]trace.Sink{
		&before,
		sinkFunc(func(trace.Event) { calls++; panic("boom") }),
		vandal,
		fail,
		sinkFunc(func(trace.Event) { runtime.Goexit() }),
		nil,
		&after,
	}, "run")
	var want []trace.Event
	for i := range 10 {
		want = append(want, event(i))
		f.Emit(event(i), nil)
	}
	shared := event(10)
	want = append(want, event(10))
	f.Emit(shared, nil)
	failures := f.Close(time.Minute)
	wantFailures := []string{
		"1: trace sink trace_test.sinkFunc panicked: boom",
		"3: trace sink *trace_test.failing: disk full",
		"4: trace sink trace_test.sinkFunc ended its goroutine",
		"5: trace sink <nil> panicked: runtime error: invalid memory address or nil pointer dereference",
	}
	if diff := cmp.Diff(wantFailures, describe(failures)); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if !errors.Is(failures[1].Err, errDisk) {
		t.Error("the sink's own error is not reached")
	}
	if calls != 1 {
		t.Errorf("after its panic a sink got %d more events", calls-1)
	}
	for i := range want {
		want[i].Run = "run" // trust 5.6
	}
	for _, r := range []*trace.Recorder{&before, &after, &fail.Recorder} {
		if diff := cmp.Diff(want, r.Events()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(event(10), shared); diff != "" {
		t.Errorf("the caller's event was changed:\n%s", diff)
	}
	f.Emit(sent, nil)
	if n := len(after.Events()); n != 11 {
		t.Errorf("after Close: %d events", n)
	}
}

// Emit does not wait for a slow sink; Close waits for as long as it is told to, in all. A sink
// that is left behind gets nothing more.
func TestFanoutSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		got := map[string]int{}
		slow := func(name string, d time.Duration) trace.Sink {
			return sinkFunc(func(trace.Event) {
				time.Sleep(d)
				mu.Lock()
				defer mu.Unlock()
				got[name]++
			})
		}
		f := trace.NewFanout([]trace.Sink{slow("far", 10*time.Second), slow("near", 100*time.Millisecond), slow("far too", time.Minute)}, "run")
		start := time.Now()
		for i := range 10 {
			f.Emit(event(i), nil)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("emitting took %v", d)
		}
		failures := f.Close(2 * time.Second)
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("closing took %v, want 2s", d)
		}
		want := []string{
			"0: trace sink trace_test.sinkFunc did not finish within 2s",
			"2: trace sink trace_test.sinkFunc did not finish within 2s",
		}
		if diff := cmp.Diff(want, describe(failures)); diff != "" {
			t.Errorf("failures (-want +got):\n%s", diff)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff(map[string]int{"far": 1, "near": 10, "far too": 1}, got); diff != "" {
			t.Errorf("events taken (-want +got):\n%s", diff)
		}
	})
}

// Close hands on everything that is queued.
func TestFanoutFlush(t *testing.T) {
	var b strings.Builder
	f := trace.NewFanout([]trace.Sink{trace.NewJSONL(&b)}, "run")
	for i := range 1000 {
		f.Emit(event(i), nil)
	}
	if failures := f.Close(time.Minute); failures != nil {
		t.Errorf("failures %v", failures)
	}
	if n := strings.Count(b.String(), "\n"); n != 1000 {
		t.Errorf("%d lines, want 1000", n)
	}
}

func BenchmarkFanoutEmit(b *testing.B) {
	b.ReportAllocs()
	f := trace.NewFanout([]trace.Sink{sinkFunc(func(trace.Event) {})}, "run")
	for b.Loop() {
		f.Emit(sent, nil)
	}
	f.Close(time.Minute)
}

// detailed is a Recorder that wants details, and tells its run.
type detailed struct {
	trace.Recorder
	detail trace.Detail
}

func (d *detailed) Detail() trace.Detail { return d.detail }

// perRun makes a Recorder for each run.
type perRun struct{ runs map[string]*trace.Recorder }

func (p perRun) Emit(trace.Event) { panic("not for one run") }

func (p perRun) ForRun(runID string) trace.Sink {
	p.runs[runID] = new(trace.Recorder)
	return p.runs[runID]
}

type panicsAtOnce struct{ trace.Recorder }

func (*panicsAtOnce) Detail() trace.Detail { panic("boom") }

func TestFanoutDetails(t *testing.T) {
	plain, content, deltas := new(trace.Recorder), &detailed{detail: trace.Detail{Content: true}}, &detailed{detail: trace.Detail{Deltas: true}}
	runs := perRun{map[string]*trace.Recorder{}}
	f := trace.NewFanout([]trace.Sink{plain, content, deltas, runs, new(panicsAtOnce)}, "r1")
	if got, want := f.Wants(), (trace.Detail{Content: true, Deltas: true}); got != want {
		t.Errorf("wants %+v, want %+v", got, want)
	}
	call := trace.Event{Kind: trace.AdapterCall, Step: "a", Data: trace.Data{{Key: "kind", Value: "tool"}, {Key: "name", Value: "x.y"}}}
	full := call
	full.Data = trace.Data{{Key: "content", Value: map[string]any{"n": int64(1)}}, {Key: "kind", Value: "tool"}, {Key: "name", Value: "x.y"}}
	piece := trace.Event{Kind: trace.ModelDelta, Step: "b", Data: trace.Data{{Key: "text", Value: "Hel"}}}
	f.Emit(call, map[string]any{"n": int64(1)})
	f.Emit(piece, nil)
	if diff := cmp.Diff([]string{"4: trace sink *trace_test.panicsAtOnce panicked: boom"}, describe(f.Close(time.Minute))); diff != "" {
		t.Errorf("failures (-want +got)\n%s", diff)
	}
	for _, tt := range []struct {
		name string
		got  []trace.Event
		want []trace.Event
	}{
		{"plain", plain.Events(), []trace.Event{call}},
		{"content", content.Events(), []trace.Event{full}},
		{"deltas", deltas.Events(), []trace.Event{call, piece}},
		{"of one run", runs.runs["r1"].Events(), []trace.Event{call}},
	} {
		for i := range tt.want {
			tt.want[i].Run = "r1" // trust 5.6
		}
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.name, diff)
		}
	}
	if got := (*trace.Fanout)(nil).Wants(); got != (trace.Detail{}) {
		t.Errorf("no sinks want %+v", got)
	}
}
