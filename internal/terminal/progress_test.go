package terminal

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
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
	p := NewProgress(&b, Options{})
	for _, e := range []trace.Event{
		{Kind: trace.RunStart},
		began("fetch"), {Kind: trace.AdapterCall, Step: "fetch"}, ended("fetch", "succeeded", "", 1250),
		began("each"), began("each[0]"), began("each[0]/a"), ended("each[0]/a", "succeeded", "", 10), skipped("each[0]/b"),
		ended("each[0]", "succeeded", "", 61_000),
		began("each[1]"), began("each[1]/a"), ended("each[1]/a", "failed", "no luck\nat all", 10), ended("each[1]", "failed", "no luck\nat all", 10),
		began("each[2]"), began("each[2]/a"), ended("each[2]/a", "failed", "no luck\nat all", 10), ended("each[2]", "failed", "no luck\nat all", 10),
		began("each[3]"), began("each[3]/a"), ended("each[3]/a", "cancelled", "stop", 10), ended("each[3]", "cancelled", "stop", 10),
		ended("each", "failed", "no luck\nat all", 3_600_000),
		began("stopped"), ended("stopped", "cancelled", "context canceled", 10),
		began("long"), ended("long", "failed", "\x1b[2J"+strings.Repeat("é", 200), 0),
		skipped("last"), {Kind: trace.RunEnd},
	} {
		p.Emit(e)
	}
	p.Close()
	want := `✓ fetch  1.2s
✓ each[0]  1m1s
✗ each[1]/a  0.0s  failed: no luck
✗ each[1]  0.0s  failed
✗ each[2]/a  0.0s  failed: no luck
✗ each[2]  0.0s  failed
✗ each  1h0m0s  failed
✗ stopped  0.0s  cancelled
✗ long  0.0s  failed: �[2J` + strings.Repeat("é", 155) + `…
- last  skipped (when_false)
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// trust 3.3: a repeated call is shown, and that the connection was lost.
func TestProgressRetries(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, Options{})
	for _, reason := range []string{"rate_limit", "network"} {
		p.Emit(trace.Event{Kind: trace.AdapterRetry, Step: "ask", Data: trace.Data{{Key: "adapterKind", Value: "model"},
			{Key: "attempt", Value: int64(1)}, {Key: "delayMs", Value: int64(500)}, {Key: "maxAttempts", Value: int64(3)},
			{Key: "method", Value: "generate"}, {Key: "reason", Value: reason}}})
	}
	want := `↻ ask  model failed: rate_limit; retry 2/3 in 500ms
↻ ask  model failed: the connection failed or was lost; retry 2/3 in 500ms
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProgressVerbose(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, Options{Verbose: true})
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
		p := NewProgress(&frames, Options{Live: true, Color: true})
		p.Emit(began("first"))
		time.Sleep(150 * time.Millisecond)
		p.Emit(ended("first", "succeeded", "", 150))
		p.Emit(began("each"))
		p.Emit(began("each[0]"))
		p.Emit(began("each[0]/inside"))
		p.Emit(began("each[1]"))
		time.Sleep(time.Second / 10)
		p.Emit(skipped("last"))
		p.Close()
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
	p := &Progress{w: &b, Options: Options{Live: true}}
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
		"\x1b[1A", "⟨up 1⟩", "\x1b[2A", "⟨up 2⟩", "\x1b[3A", "⟨up 3⟩", "\x1b[4A", "⟨up 4⟩", "\x1b[0m", "⟨0⟩", "\x1b[2m", "⟨2⟩", "\x1b[32m", "⟨32⟩", "\x1b[33m", "⟨33⟩").Replace(string(p)))
	return len(p), nil
}

// liveFrames are frames that can be read while others are written.
type liveFrames struct {
	mu sync.Mutex
	frames
}

func (f *liveFrames) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frames.Write(p)
}

func (f *liveFrames) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frames[len(f.frames)-1]
}

// On a terminal answers are shown as they come: whole lines stay, the rest is part of the frame until it is whole.
// Lines of answers that come side by side say whose they are.
func TestProgressSegments(t *testing.T) {
	var frames frames
	p := &Progress{w: &frames, Options: Options{Live: true}}
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
	show(starts("x/sub#1", 1), asks("x/sub#1"), delta("x/sub#1", "one\ntwo \x1b[2J"), delta("y", "four"))
	show(delta("x/sub#1", "and"), starts("y", 0), asks("y"))
	show(delta("x/sub#1", " three"), says("y", "four"), delta("y", "five, "))
	show(says("x/sub#1", "one …"), delta("y", "six"))
	p.running = nil
	show(says("y", "six"))
	want := []string{
		"    x/sub#1  agent a, model m\n    │ one\n" +
			"⟨cut⟩    x/sub#1 │ two �[2J\n  y │ four\n•   0.0s  x/sub#1  step 1\n⟨wrap⟩",
		"⟨left⟩⟨up 3⟩⟨erase⟩  y  agent a, model m\n" +
			"⟨cut⟩    x/sub#1 │ two �[2Jand\n  y │ four\n•   0.0s  x/sub#1  step 1\n•   0.0s  y  step 1\n⟨wrap⟩",
		"⟨left⟩⟨up 4⟩⟨erase⟩  y │ four\n  y  step 1: tokens 3 in, 2 out (5 so far)\n" +
			"⟨cut⟩    x/sub#1 │ two �[2Jand three\n  y │ five, \n•   0.0s  x/sub#1  step 1\n•   0.0s  y  step 1\n⟨wrap⟩",
		"⟨left⟩⟨up 4⟩⟨erase⟩    x/sub#1 │ two �[2Jand three\n    x/sub#1  step 1: tokens 3 in, 2 out (5 so far)\n" +
			"⟨cut⟩  y │ five, six\n•   0.0s  x/sub#1  step 1\n•   0.0s  y  step 1\n⟨wrap⟩",
		"⟨left⟩⟨up 3⟩⟨erase⟩  y │ five, six\n  y  step 1: tokens 3 in, 2 out (10 so far)\n⟨cut⟩⟨wrap⟩",
	}
	if diff := cmp.Diff(want, []string(frames)); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

// What a model thinks stands dimmed before its answer and is no part of it; a call is told while it comes.
func TestProgressThinking(t *testing.T) {
	var b bytes.Buffer
	p := &Progress{w: &b, Options: Options{Live: true, Color: true}}
	delta := func(key, text string) {
		p.Emit(trace.Event{Kind: trace.ModelDelta, Step: "a", Data: trace.Data{{Key: key, Value: text}}})
	}
	p.Emit(trace.Event{At: time.Now(), Kind: trace.AgentStart, Step: "a", Data: trace.Data{{Key: "agent", Value: "a"}, {Key: "depth", Value: int64(0)}}})
	p.Emit(trace.Event{Kind: trace.ModelStart, Step: "a", Data: trace.Data{{Key: "step", Value: int64(1)}}})
	delta("thinking", "Hm.\nIs \x1b[2J")
	delta("thinking", "it?")
	delta("text", `{"is": 1`)
	delta("thinking", "Yes.")
	p.frame()
	const dim, plain = "\x1b[2m", "\x1b[0m"
	thought := func(text string) string { return "  " + dim + "┊ " + text + plain + "\n" }
	running := "\x1b[33m•\x1b[0m   0.0s  a  step 1\n"
	want := "  " + dim + "a" + plain + "  agent a\n" + thought("Hm.") + thought("Is �[2Jit?") + "\x1b[?7l" + thought("Yes.") + running + "\x1b[?7h"
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
	b.Reset()
	delta("text", "}")
	delta("tool", "crm.lookup")
	p.frame()
	want = "\r\x1b[2A\x1b[J" + thought("Yes.") + "\x1b[?7l  " + dim + "│" + plain + " … 9 bytes of JSON\n" +
		"\x1b[33m•\x1b[0m   0.0s  a  step 1, calls crm.lookup\n\x1b[?7h"
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
	b.Reset()
	delta("thinking", "So.")
	p.Emit(trace.Event{Kind: trace.ModelEnd, Step: "a"})
	p.running = nil
	p.frame()
	if want := "\r\x1b[2A\x1b[J" + thought("So.") + "  " + dim + "│" + plain + " is: 1\n"; !strings.HasPrefix(b.String(), want) {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}

// An answer that looks like JSON is counted while it comes. When it is whole, its members stand on lines of their own.
func TestProgressStructured(t *testing.T) {
	for _, tt := range []struct{ answer, want string }{
		{"{\"verdict\": \"good\\nenough\", \"score\": 4.50,\n \"list\": [1, {\"a\": null}]}\n",
			"  │ verdict: good enough\n  │ score: 4.50\n  │ list: [1, {\"a\": null}]\n"},
		{`["a", 2]`, "  │ - a\n  │ - 2\n"},
		{" {\"x\u202e\":\"\\u001b[2J\"}", "  │ x\\u202e: �[2J\n"},
		{"{}", "  │ {}\n"},
		{"{name} is\nno JSON", "  │ {name} is\n  │ no JSON\n"},
		{`{"a": 1} and more`, "  │ {\"a\": 1} and more\n"},
		{`{"a": `, "  │ {\"a\":\n"},
		{"[" + strings.Repeat("0,", 24) + "0]", strings.Repeat("  │ - 0\n", 20) + "  │ … and 5 more\n"},
		{`["` + strings.Repeat("x", maxAnswer) + `"]`, "  │ … an answer of more than 1,048,576 bytes\n"},
	} {
		var b bytes.Buffer
		p := &Progress{w: &b, Options: Options{Live: true}}
		half := len(tt.answer) / 2
		for _, piece := range []string{tt.answer[:half], tt.answer[half:]} {
			p.Emit(trace.Event{Kind: trace.ModelDelta, Step: "a", Data: trace.Data{{Key: "text", Value: piece}}})
		}
		p.frame()
		if want := fmt.Sprintf("\x1b[?7l  │ … %s bytes of JSON\n\x1b[?7h", Grouped(int64(min(len(tt.answer), maxAnswer)))); b.String() != want {
			t.Errorf("while %.30q comes: %q, want %q", tt.answer, b.String(), want)
		}
		b.Reset()
		p.Emit(trace.Event{Kind: trace.ModelEnd, Step: "a"})
		p.frame()
		if want := "\r\x1b[1A\x1b[J" + tt.want + "\x1b[?7l\x1b[?7h"; b.String() != want {
			t.Errorf("%.30q: %q, want %q", tt.answer, b.String(), want)
		}
		if p.Showed(tt.answer) {
			t.Errorf("%.30q was not shown as it is", tt.answer)
		}
	}
	var b bytes.Buffer // the call failed on the way
	p := &Progress{w: &b, Options: Options{Live: true}}
	p.Emit(trace.Event{Kind: trace.ModelDelta, Step: "a", Data: trace.Data{{Key: "text", Value: `{"a": `}}})
	p.Emit(trace.Event{Kind: trace.AdapterRetry, Step: "a"})
	if strings.Contains(p.ended.String(), "│") {
		t.Errorf("half of an answer is shown: %q", p.ended.String())
	}
}

// A failure that stands on a line of its own, with all that it says, is known.
func TestProgressFailed(t *testing.T) {
	p := &Progress{w: io.Discard, Options: Options{Live: true}}
	long := strings.Repeat("x", 161)
	p.Emit(ended("old", "failed", "long ago", 0))
	for i := range 4 {
		p.Emit(ended(fmt.Sprint("s", i), "failed", "no", 0))
	}
	for _, e := range []trace.Event{ended("each[1]/a", "failed", "no luck\n  hint: try", 0), ended("each", "failed", "no luck\n  hint: try", 0),
		ended("long", "failed", long, 0), ended("more", "failed", "one\ntwo", 0), ended("off", "cancelled", "stop", 0)} {
		p.Emit(e)
	}
	for _, tt := range []struct {
		step, message string
		want          bool
	}{
		{"each[1]/a", "no luck\n  hint: try", true}, {"s0", "no", true}, {"s0", "other", false}, {"each[1]", "no luck", false},
		{"old", "long ago", false}, {"long", long, false}, {"more", "one\ntwo", false}, {"off", "stop", false}, {"", "", false},
	} {
		if got := p.Failed(tt.step, tt.message); got != tt.want {
			t.Errorf("%s, %.20q: %v", tt.step, tt.message, got)
		}
	}
	if p.Verbose = true; p.Failed("s0", "no") {
		t.Error("among all events a failure is not in sight")
	}
	if p.Options = (Options{}); p.Failed("s0", "no") {
		t.Error("it is not on a terminal")
	}
}

// The last answer that was shown as a whole is known, so that it need not be printed again.
func TestProgressShowed(t *testing.T) {
	for _, tt := range []struct {
		streamed, output string
		want             bool
	}{
		{"one\ntwo", "one\ntwo", true},
		{"one\n", "one", true},
		{"one", "two", false},
		{"", "", false},
		{"\x1b[2J", "\x1b[2J", true}, // both are shown, not obeyed
	} {
		p := &Progress{w: io.Discard, Options: Options{Live: true}}
		for _, piece := range strings.SplitAfter(tt.streamed, "o") {
			p.Emit(trace.Event{Kind: trace.ModelDelta, Step: "a", Data: trace.Data{{Key: "text", Value: piece}}})
		}
		if p.Showed(tt.output) {
			t.Errorf("%q is under way", tt.streamed)
		}
		p.Emit(trace.Event{Kind: trace.ModelEnd, Step: "a"})
		if got := p.Showed(tt.output); got != tt.want {
			t.Errorf("streamed %q, output %q: %v", tt.streamed, tt.output, got)
		}
	}
}

// On a terminal a retry and a wait count down, and a foreach counts its items.
func TestProgressCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var frames liveFrames
		p := NewProgress(&frames, Options{Live: true})
		each := began("each")
		each.Data = trace.Data{{Key: "content", Value: map[string]any{"items": int64(120)}}}
		p.Emit(each)
		p.Emit(trace.Event{Kind: trace.StepReplayed, Step: "each[0]"})
		p.Emit(began("each[1]"))
		p.Emit(ended("each[1]", "succeeded", "", 0))
		p.Emit(began("each[2]"))
		p.Emit(trace.Event{At: time.Now(), Kind: trace.AdapterRetry, Step: "each[2]", Data: trace.Data{{Key: "adapterKind", Value: "model"},
			{Key: "attempt", Value: int64(1)}, {Key: "delayMs", Value: int64(2000)}, {Key: "maxAttempts", Value: int64(3)}, {Key: "reason", Value: "5xx"}}})
		last := func(after time.Duration) string {
			time.Sleep(after)
			synctest.Wait()
			return frames.last()
		}
		if got, want := last(150*time.Millisecond), "⟨cut⟩•   0.1s  each  2/120\n•   0.1s  each[2]  retry 2/3 in 2s\n⟨wrap⟩"; !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want the end %q", got, want)
		}
		if got, want := last(time.Second), "each[2]  retry 2/3 in 1s\n⟨wrap⟩"; !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want the end %q", got, want)
		}
		if got, want := last(time.Second), "each[2]\n⟨wrap⟩"; !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want the end %q", got, want)
		}
		custom := func(name string) trace.Event {
			return trace.Event{At: time.Now(), Kind: trace.Custom, Step: "each[2]", Data: trace.Data{{Key: "name", Value: name},
				{Key: "data", Value: map[string]any{"limit": "rpm", "model": "fast", "ahead": int64(3)}}}}
		}
		p.Emit(custom("model.wait"))
		if got, want := last(time.Second), "each[2]  waits for rpm of fast\n⟨wrap⟩"; !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want the end %q", got, want)
		}
		p.Emit(custom("model.waited"))
		if got, want := last(time.Second), "each[2]\n⟨wrap⟩"; !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want the end %q", got, want)
		}
		p.Emit(ended("each[2]", "succeeded", "", 0))
		p.Emit(ended("each", "succeeded", "", 0))
		go p.Wait(t.Context(), "nap", time.Now().Add(20*time.Second))
		if got, want := last(5*time.Second), "⟨cut⟩•   5.0s  nap  wait is over in 16s\n⟨wrap⟩"; !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want the end %q", got, want)
		}
		if got, want := last(16*time.Second), "⟨erase⟩⟨cut⟩⟨wrap⟩"; !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want the end %q", got, want)
		}
		p.Close()
	})
}
