package trace_test

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/braise-run/braise/trace"
)

// events is what a run would emit.
var events = []trace.Event{
	{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Kind: trace.StepStart, Step: "greet"},
	{At: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), Kind: trace.StepEnd, Step: "greet", Data: trace.Data{
		{Key: "durationMs", Value: int64(1000)}, {Key: "status", Value: "succeeded"},
	}},
}

func ExampleRecorder() {
	var r trace.Recorder
	for _, e := range events {
		r.Emit(e)
	}
	for _, e := range r.Events() {
		fmt.Println(e.Line())
	}
	// Output:
	// step.start greet
	// step.end greet status=succeeded
}

func ExampleJSONL() {
	s := trace.NewJSONL(os.Stdout)
	for _, e := range events {
		s.Emit(e)
	}
	if err := s.Err(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"at":"2026-01-02T03:04:05Z","kind":"step.start","step":"greet"}
	// {"at":"2026-01-02T03:04:06Z","kind":"step.end","step":"greet","data":{"durationMs":1000,"status":"succeeded"}}
}

func ExampleSlog() {
	s := trace.NewSlog(slog.New(slog.NewTextHandler(os.Stdout, nil)))
	for _, e := range events {
		s.Emit(e)
	}
	// Output:
	// time=2026-01-02T03:04:05.000Z level=INFO msg=step.start step=greet
	// time=2026-01-02T03:04:06.000Z level=INFO msg=step.end step=greet durationMs=1000 status=succeeded
}

// A run does this with the sinks of its Runtime.
func ExampleFanout() {
	var r trace.Recorder
	f := trace.NewFanout([]trace.Sink{&r, panicking{}}, "run")
	for _, e := range events {
		f.Emit(e, nil)
	}
	for _, failure := range f.Close(time.Second) {
		fmt.Println(failure.Index, failure.Err)
	}
	fmt.Println(len(r.Events()), "events recorded")
	// Output:
	// 1 trace sink trace_test.panicking panicked: out of paper
	// 2 events recorded
}

type panicking struct{}

func (panicking) Emit(trace.Event) { panic("out of paper") }
