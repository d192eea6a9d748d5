package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	at   = time.Date(2026, 3, 4, 5, 6, 7, 120_000_000, time.UTC)
	sent = trace.Event{Seq: 3, At: at, Kind: trace.StepEnd, Step: "verify[2]/check", Data: trace.Data{
		{Key: "durationMs", Value: int64(12)}, {Key: "status", Value: "succeeded"},
	}}
)

func TestEventJSON(t *testing.T) {
	tests := []struct {
		event trace.Event
		want  string
	}{
		{sent, `{"seq":3,"at":"2026-03-04T05:06:07.12Z","kind":"step.end","step":"verify[2]/check","data":{"durationMs":12,"status":"succeeded"}}`},
		{trace.Event{At: at.Truncate(time.Second), Kind: trace.RunSuccess}, `{"at":"2026-03-04T05:06:07Z","kind":"run.success"}`},
		{
			trace.Event{At: at.In(time.FixedZone("", 3600)), Kind: trace.RunStart, Data: trace.Data{
				{Key: "z", Value: map[string]any{"b": nil, "a": "<&>"}}, {Key: "a", Value: []any{1.5, true}},
			}},
			`{"at":"2026-03-04T05:06:07.12Z","kind":"run.start","data":{"a":[1.5,true],"z":{"a":"<&>","b":null}}}`,
		},
	}
	for _, tt := range tests {
		got, err := tt.event.MarshalJSON()
		if err != nil || string(got) != tt.want {
			t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
		}
		var back trace.Event
		if err := json.Unmarshal(got, &back); err != nil {
			t.Errorf("%s: %v", got, err)
		}
		again, err := back.MarshalJSON()
		if err != nil || string(again) != tt.want {
			t.Errorf("after a round trip %s, %v\nwant %s", again, err, tt.want)
		}
	}
	var back trace.Event
	if err := json.Unmarshal([]byte(tests[0].want), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, back); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
	for _, text := range []string{`[]`, `{}`, `{"at":"yesterday"}`, `{"at":1}`, `{"at":"2026-03-04T05:06:07Z","data":[]}`, `{"seq":"1"}`} {
		if err := json.Unmarshal([]byte(text), &back); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func TestLine(t *testing.T) {
	tests := []struct {
		event trace.Event
		want  string
	}{
		{sent, `step.end verify[2]/check status=succeeded`},
		{trace.Event{Seq: 1, At: at, Kind: trace.RunSuccess}, `run.success`},
		{
			trace.Event{Kind: trace.RunError, Data: trace.Data{
				{Key: "number", Value: int64(3)}, {Key: "text", Value: "3"}, {Key: "message", Value: `a "b"`},
				{Key: "code", Value: "expr.failed"}, {Key: "empty", Value: ""}, {Key: "equals", Value: "a=b"}, {Key: "nothing", Value: nil},
				{Key: "list", Value: []any{"x", int64(1)}}, {Key: "word", Value: "null"}, {Key: "foreign", Value: "é"},
			}},
			`run.error code=expr.failed empty="" equals="a=b" foreign="é" list=["x",1] message="a \"b\"" nothing=null number=3 text="3" word="null"`,
		},
	}
	for _, tt := range tests {
		if got := tt.event.Line(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestRecorder(t *testing.T) {
	var r trace.Recorder
	if got := r.Events(); got != nil {
		t.Errorf("before the first event: %v", got)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			r.Emit(sent)
		}
	}()
	for range 100 {
		r.Events()
	}
	<-done
	got := r.Events()
	if len(got) != 100 {
		t.Errorf("%d events, want 100", len(got))
	}
	got[0].Kind = "changed"
	if r.Events()[0].Kind != trace.StepEnd {
		t.Error("changing the list changed the record")
	}
}

var errDisk = errors.New("disk full")

// limited fails when n bytes are written.
type limited struct {
	n      int
	writes int
	got    strings.Builder
}

func (l *limited) Write(p []byte) (int, error) {
	l.writes++
	if l.n -= len(p); l.n < 0 {
		return 0, errDisk
	}
	return l.got.Write(p)
}

func TestJSONLStopsAtTheFirstError(t *testing.T) {
	line := `{"at":"2026-03-04T05:06:07.12Z","kind":"run.success"}` + "\n"
	w := &limited{n: 2*len(line) + 3}
	s := trace.NewJSONL(w)
	for i := range 5 {
		s.Emit(trace.Event{At: at, Kind: trace.RunSuccess})
		if i == 1 && s.Err() != nil {
			t.Errorf("after two lines: %v", s.Err())
		}
	}
	if !errors.Is(s.Err(), errDisk) {
		t.Errorf("got %v, want %v", s.Err(), errDisk)
	}
	if w.got.String() != line+line || w.writes != 3 {
		t.Errorf("%d writes:\n%s", w.writes, w.got.String())
	}
}

func TestSlog(t *testing.T) {
	var b bytes.Buffer
	s := trace.NewSlog(slog.New(slog.NewTextHandler(&b, nil)))
	s.Emit(sent)
	s.Emit(trace.Event{At: at, Kind: trace.StepEnd, Step: "a", Data: trace.Data{{Key: "status", Value: "failed"}}})
	s.Emit(trace.Event{At: at, Kind: trace.RunError, Data: trace.Data{{Key: "message", Value: "no luck"}}})
	want := `time=2026-03-04T05:06:07.120Z level=INFO msg=step.end step=verify[2]/check durationMs=12 status=succeeded
time=2026-03-04T05:06:07.120Z level=ERROR msg=step.end step=a status=failed
time=2026-03-04T05:06:07.120Z level=ERROR msg=run.error message="no luck"
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.Err() != nil {
		t.Errorf("error %v", s.Err())
	}

	s = trace.NewSlog(slog.New(slog.NewJSONHandler(&limited{}, nil)))
	s.Emit(sent)
	if !errors.Is(s.Err(), errDisk) {
		t.Errorf("got %v, want %v", s.Err(), errDisk)
	}
}
