package trace_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/trace"
)

// spanner is a sink that makes a traceparent of the events that it has taken.
type spanner struct {
	seen string
	slow chan struct{} // it answers once this is closed; nil: at once
}

func (s *spanner) Emit(e trace.Event) { s.seen += string(e.Kind) + " " }

func (s *spanner) Within(ctx context.Context, step string, call int) context.Context {
	if s.slow != nil {
		<-s.slow
	}
	if step == "panic" {
		panic("no")
	}
	return trace.WithTraceparent(ctx, s.seen+step)
}

// A sink is asked behind the events before the call. One that is too slow, or gone, holds nothing up.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(f *trace.Fanout, step string) string { return trace.Traceparent(f.Within(t.Context(), step, 0)) }
		if got := ask(nil, "a"); got != "" {
			t.Errorf("no sinks: %q", got)
		}
		f := trace.NewFanout([]trace.Sink{&trace.Recorder{}, &spanner{}}, "run")
		f.Emit(trace.Event{Kind: trace.StepStart}, nil)
		f.Emit(trace.Event{Kind: trace.AdapterCall}, nil)
		if got, want := ask(f, "a"), "step.start adapter.call a"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := ask(f, "panic"); got != "" {
			t.Errorf("of a sink that panics: %q", got)
		}
		began := time.Now()
		if got := ask(f, "a"); got != "" || time.Since(began) > 0 {
			t.Errorf("of a sink that has panicked: %q, after %v", got, time.Since(began))
		}
		if failed := f.Close(time.Second); len(failed) != 1 {
			t.Errorf("failures %v, want one", failed)
		}

		answers := make(chan struct{})
		slow := trace.NewFanout([]trace.Sink{&spanner{slow: answers}}, "run")
		began = time.Now()
		if got := ask(slow, "a"); got != "" || time.Since(began) != time.Second {
			t.Errorf("of a slow sink: %q, after %v", got, time.Since(began))
		}
		if got := ask(slow, "b"); got != "" || time.Since(began) != time.Second {
			t.Errorf("of a sink that has not caught up: %q, after %v", got, time.Since(began))
		}
		close(answers)
		synctest.Wait()
		if got := ask(slow, "c"); got != "c" {
			t.Errorf("of a sink that has caught up: %q", got)
		}
		if failed := slow.Close(time.Minute); failed != nil {
			t.Errorf("of a sink that answered late: failures %v", failed)
		}
	})
}
