package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/trace"
)

func began(step string) trace.Event {
	return trace.Event{At: time.Now(), Kind: trace.StepStart, Step: step}
}

func ended(step, status, message string, ms int64) trace.Event {
	data := trace.Data{{Key: "durationMs", Value: ms}, {Key: "status", Value: status}}
	if message != "" {
		data = append(data, trace.Attr{Key: "message", Value: message})
	}
	return trace.Event{At: time.Now(), Kind: trace.StepEnd, Step: step, Data: data}
}

func skipped(step string) trace.Event {
	return trace.Event{At: time.Now(), Kind: trace.StepSkip, Step: step, Data: trace.Data{{Key: "reason", Value: "when_false"}}}
}

// Off a terminal there is a line for each step and item that has ended; what is inside bodies is
// shown when it fails, and its message once.
func TestProgressPlain(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b}
	for _, e := range []trace.Event{
		{Kind: trace.RunStart},
		began("fetch"), {Kind: trace.AdapterCall, Step: "fetch"}, ended("fetch", "succeeded", "", 1250),
		began("each"), began("each[0]"), began("each[0]/a"), ended("each[0]/a", "succeeded", "", 10), skipped("each[0]/b"),
		ended("each[0]", "succeeded", "", 61_000),
		began("each[1]"), began("each[1]/a"), ended("each[1]/a", "failed", "no luck\nat all", 10), ended("each[1]", "failed", "no luck\nat all", 10),
		began("each[2]"), began("each[2]/a"), ended("each[2]/a", "failed", "no luck\nat all", 10), ended("each[2]", "failed", "no luck\nat all", 10),
		began("each[3]"), began("each[3]/a"), ended("each[3]/a", "cancelled", "stop", 10), ended("each[3]", "cancelled", "stop", 10),
		ended("each", "failed", "no luck\nat all", 3_600_000),
		began("long"), ended("long", "failed", "\x1b[2J"+strings.Repeat("é", 200), 0),
		skipped("last"), {Kind: trace.RunEnd},
	} {
		p.Emit(e)
	}
	p.close()
	want := `✓ fetch  1.2s
✓ each[0]  1m1s
✗ each[1]/a  0.0s  failed: no luck
✗ each[1]  0.0s  failed
✗ each[2]/a  0.0s  failed: no luck
✗ each[2]  0.0s  failed
✗ each[3]  0.0s  cancelled: stop
✗ each  1h0m0s  failed: no luck
✗ long  0.0s  failed: �[2J` + strings.Repeat("é", 155) + `…
- last  skipped (when_false)
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// trust 3.3: a call that is made again is told of, and that the connection was lost.
func TestProgressRetries(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b}
	for _, reason := range []string{"rate_limit", "network"} {
		p.Emit(trace.Event{Kind: trace.AdapterRetry, Step: "ask", Data: trace.Data{{Key: "adapterKind", Value: "model"},
			{Key: "attempt", Value: int64(1)}, {Key: "delayMs", Value: int64(500)}, {Key: "maxAttempts", Value: int64(3)},
			{Key: "method", Value: "generate"}, {Key: "reason", Value: reason}}})
	}
	want := `↻ ask  the model is tried again in 500 ms, attempt 1 of 3 failed: rate_limit
↻ ask  the model is tried again in 500 ms, attempt 1 of 3 failed: the connection failed or was lost
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProgressVerbose(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b, verbose: true}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	p.Emit(trace.Event{At: at, Kind: trace.StepStart, Step: "a[0]/b"})
	p.Emit(trace.Event{At: at.Add(5 * time.Millisecond), Kind: trace.AdapterCall, Step: "a[0]/b", Data: trace.Data{{Key: "kind", Value: "tool"}}})
	want := "03:04:05.000 step.start a[0]/b\n03:04:05.005 adapter.call a[0]/b kind=tool\n"
	if got := b.String(); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// On a terminal the running steps stand below what has ended. Each frame is one write, and the
// last one leaves nothing of them.
func TestProgressLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var frames frames
		p := &progress{w: &frames, live: true, color: true, stop: make(chan struct{}), stopped: make(chan struct{})}
		go p.frames()
		p.Emit(began("first"))
		time.Sleep(150 * time.Millisecond)
		p.Emit(ended("first", "succeeded", "", 150))
		p.Emit(began("each"))
		p.Emit(began("each[0]"))
		p.Emit(began("each[0]/inside"))
		p.Emit(began("each[1]"))
		time.Sleep(time.Second / 10)
		p.Emit(skipped("last"))
		p.close()
		want := []string{
			"⟨cut⟩⟨33⟩•⟨0⟩   0.1s  first\n⟨wrap⟩",
			"⟨left⟩⟨up 1⟩⟨erase⟩⟨32⟩✓⟨0⟩ first  0.1s\n" +
				"⟨cut⟩⟨33⟩•⟨0⟩   0.1s  each[0]/inside\n⟨33⟩•⟨0⟩   0.1s  each[1]\n⟨wrap⟩",
			"⟨left⟩⟨up 2⟩⟨erase⟩⟨2⟩-⟨0⟩ last  skipped (when_false)\n⟨cut⟩⟨wrap⟩",
		}
		if diff := cmp.Diff(want, []string(frames)); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
	})
}

// A terminal shows some of many running steps, and the end of long paths.
func TestProgressManyRunning(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b, live: true}
	p.frame()
	if b.Len() > 0 {
		t.Errorf("a frame of nothing: %q", b.String())
	}
	p.Emit(began(strings.Repeat("outer/", 20) + "inner"))
	for i := range 9 {
		p.Emit(began(fmt.Sprintf("each[%d]", i)))
	}
	p.frame()
	lines := strings.Split(b.String(), "\n")
	if want := "  0.0s  …" + strings.Repeat("outer/", 20)[120-58:] + "inner"; !strings.HasSuffix(lines[0], want) {
		t.Errorf("got %q, want the end %q", lines[0], want)
	}
	if want := "  … and 2 more"; len(lines) != 10 || lines[8] != want {
		t.Errorf("got %q, want 10 lines with %q", lines, want)
	}
}

// frames keeps what is written, control sequences spelt out.
type frames []string

func (f *frames) Write(p []byte) (int, error) {
	*f = append(*f, strings.NewReplacer("\r", "⟨left⟩", "\x1b[?7l", "⟨cut⟩", "\x1b[?7h", "⟨wrap⟩", "\x1b[J", "⟨erase⟩",
		"\x1b[1A", "⟨up 1⟩", "\x1b[2A", "⟨up 2⟩", "\x1b[3A", "⟨up 3⟩", "\x1b[0m", "⟨0⟩", "\x1b[2m", "⟨2⟩", "\x1b[32m", "⟨32⟩", "\x1b[33m", "⟨33⟩").Replace(string(p)))
	return len(p), nil
}

// On a terminal an answer is shown as it comes: whole lines stay, the rest is part of the frame until it is whole,
// or something else has to be said. One answer at a time: of others the end is shown.
func TestProgressSegments(t *testing.T) {
	var frames frames
	p := &progress{w: &frames, live: true}
	delta := func(step, text string) trace.Event {
		return trace.Event{Kind: trace.ModelDelta, Step: step, Data: trace.Data{{Key: "text", Value: text}}}
	}
	starts := func(step string, depth int64) trace.Event {
		return trace.Event{At: time.Now(), Kind: trace.AgentStart, Step: step, Data: trace.Data{{Key: "agent", Value: "a"}, {Key: "depth", Value: depth}, {Key: "model", Value: "m"}}}
	}
	asks := func(step string) trace.Event {
		return trace.Event{Kind: trace.ModelStart, Step: step, Data: trace.Data{{Key: "step", Value: int64(1)}}}
	}
	says := func(step, text string) trace.Event {
		return trace.Event{Kind: trace.ModelEnd, Step: step, Data: trace.Data{{Key: "content", Value: map[string]any{"text": text}},
			{Key: "finish", Value: "stop"}, {Key: "usage", Value: map[string]any{"input_tokens": int64(3), "output_tokens": int64(2)}}}}
	}
	show := func(events ...trace.Event) {
		for _, e := range events {
			p.Emit(e)
		}
		p.frame()
	}
	show(starts("x/sub#1", 1), asks("x/sub#1"), delta("x/sub#1", "one\ntwo \x1b[2J"), delta("y", "unseen"))
	show(delta("x/sub#1", "and"), starts("y", 0), asks("y"))
	show(delta("x/sub#1", " three"), says("y", "four\nfive"), delta("y", "unseen"))
	show(says("x/sub#1", "one …"), delta("y", "six"))
	p.running = nil
	show(says("y", "six"))
	want := []string{
		"    x/sub#1  agent a, model m\n    │ one\n" +
			"⟨cut⟩    │ two �[2J\n•   0.0s  x/sub#1  step 1\n⟨wrap⟩",
		"⟨left⟩⟨up 2⟩⟨erase⟩    │ two �[2Jand\n  y  agent a, model m\n" +
			"⟨cut⟩•   0.0s  x/sub#1  step 1\n•   0.0s  y  step 1\n⟨wrap⟩",
		"⟨left⟩⟨up 2⟩⟨erase⟩    │  three\n  y  step 1: tokens 3 in, 2 out, 5 in all: four five\n" +
			"⟨cut⟩•   0.0s  x/sub#1  step 1\n•   0.0s  y  step 1\n⟨wrap⟩",
		"⟨left⟩⟨up 2⟩⟨erase⟩    x/sub#1  step 1: tokens 3 in, 2 out, 5 in all\n" +
			"⟨cut⟩  │ six\n•   0.0s  x/sub#1  step 1\n•   0.0s  y  step 1\n⟨wrap⟩",
		"⟨left⟩⟨up 3⟩⟨erase⟩  │ six\n  y  step 1: tokens 3 in, 2 out, 10 in all\n⟨cut⟩⟨wrap⟩",
	}
	if diff := cmp.Diff(want, []string(frames)); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}
