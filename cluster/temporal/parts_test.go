package temporal

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	flow "github.com/braise-run/braise/workflow"
)

// Parts that do not continue what is here are refused; the first one begins anew; the oldest values make room.
func TestParts(t *testing.T) {
	var p parts
	now := time.Now()
	if p.fits("a", 2) {
		t.Error("a second part without the first fits")
	}
	p.add("a", 0, []byte(`"x`), now)
	p.add("b", 0, []byte(`[1,`), now)
	p.add("a", 2, []byte(`y"`), now)
	p.add("b", 0, []byte(`[2,`), now)
	p.add("b", 3, []byte(`3]`), now)
	if p.fits("a", 2) || !p.fits("a", 4) || !p.fits("a", 0) || p.fits("c", 1) {
		t.Error("what fits is wrong")
	}
	for _, tt := range []struct {
		id, want string
		size     int
	}{{"a", "xy", 4}, {"b", "[2 3]", 5}, {"a", "", 5}, {"c", "", 3}} {
		s := &said{ID: tt.id, Size: tt.size}
		if err := p.whole(s); (err == nil) != (tt.want != "") || err == nil && fmt.Sprint(s.Value.V) != tt.want {
			t.Errorf("%s of %d bytes: %v, %v", tt.id, tt.size, s.Value.V, err)
		}
	}
	p.drop("a")
	for i := range 18 {
		p.add(fmt.Sprint("m", i), 0, make([]byte, 1<<20), now)
	}
	if p.of("a") != nil || p.of("b") != nil || p.of("m1") != nil || p.of("m2") == nil || p.of("m17") == nil || len(p) != 16 {
		t.Errorf("%d values are kept", len(p))
	}
}

// Few values come at a time, so that they do not push each other out; one whose sender is gone holds nobody up.
func TestPartsAtOnce(t *testing.T) {
	var p parts
	now := time.Now()
	for i := range maxAtOnce {
		if id := fmt.Sprint("v", i); !p.admits(id, 0, now) {
			t.Errorf("%s is refused", id)
		} else {
			p.add(id, 0, []byte("12"), now.Add(time.Duration(i)*time.Second))
		}
	}
	if p.admits("more", 0, now.Add(5*time.Second)) || !p.admits("v0", 2, now) || !p.admits("v0", 0, now) || p.admits("v0", 3, now) {
		t.Error("what is admitted is wrong")
	}
	if !p.admits("more", 0, now.Add(uploadTime)) {
		t.Error("v0 is not given up")
	}
}

// collects takes n values from a channel, one after the other; its output is how they begin.
func collects(n int) string {
	return head + fmt.Sprintf(`channels: {c: queue}
steps:
  all:
    uses: loop
    with:
      max_iterations: %d
      steps: {get: {uses: receive, with: {channel: c}}}
      output: "${{ string(last ?? '') + steps.get.output[0:6] }}"
output: "${{ steps.all.output }}"
`, n)
}

// Many values at a time, small ones and some of a whole MiB, come to a run that continues in one execution after the other,
// and loses one of its workers. It takes each of them once.
func TestServerLargeValues(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	e := &Engine{Client: c}
	rt := demoRuntime(t, &effects{})
	working(t, c, rt, nil)
	leaves := working(t, c, rt, nil)
	const n = 24
	id, err := e.Start(t.Context(), compiled(t, collects(n)), nil, &Options{MaxEvents: 40})
	if err != nil {
		t.Fatal(err)
	}
	for wave := range 3 {
		if wave == 1 {
			leaves()
		}
		var all sync.WaitGroup
		for i := wave * n / 3; i < (wave+1)*n/3; i++ {
			all.Go(func() {
				text := fmt.Sprintf("mark%02d", i)
				if i%3 > 0 {
					text += strings.Repeat("é<\"", i*8_000) // as JSON up to 920,000 bytes
				}
				if _, err := e.Send(t.Context(), id, "c", text, ""); err != nil {
					t.Errorf("value %d: %.200v", i, err)
				}
			})
		}
		all.Wait()
	}
	out, err := e.Wait(t.Context(), id)
	if err != nil || out.Status != flow.StatusOK {
		t.Fatal(err)
	}
	taken := fmt.Sprint(out.Output)
	for i := range n {
		if mark := fmt.Sprintf("mark%02d", i); strings.Count(taken, mark) != 1 {
			t.Errorf("%s was taken %d times", mark, strings.Count(taken, mark))
		}
	}
	executions := executionsOf(t, c, id)
	t.Logf("%d executions: %v", len(executions), executions)
	if len(executions) < 2 {
		t.Error("the run did not continue in another execution")
	}
}

// The largest value is taken, twelve at a time; as an answer too.
func TestServerLargestValues(t *testing.T) {
	c := servertest.Start(t).Client(client.Options{Logger: quiet{}})
	e := &Engine{Client: c}
	working(t, c, demoRuntime(t, &effects{}), nil)
	const n = 12
	text := strings.Repeat("0123456789abcdef", maxValue>>4)[2:] // with its quotes as JSON: the most
	id, err := e.Start(t.Context(), compiled(t, collects(n)), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if _, err := e.Send(t.Context(), id, "c", text, ""); err != nil {
				t.Errorf("%.200v", err)
			}
		})
	}
	all.Wait()
	if out, err := e.Wait(t.Context(), id); err != nil || strings.Count(fmt.Sprint(out.Output), text[:6]) != n {
		t.Errorf("%.200v", err)
	}

	id, err = e.Start(t.Context(), compiled(t, head+"steps: {ask: {uses: human, with: {prompt: \"Text?\", answer: {type: string}}}}\n"+
		"output: \"${{ len(steps.ask.output) }}\"\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Wait(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Answer(t.Context(), id, "ask", []any{text[2:]}, ""); codeOf(err) != "answer.unfit" {
		t.Errorf("a large answer that does not fit: %.200v", err)
	}
	out, err := e.Answer(t.Context(), id, "ask", text, "")
	if err != nil || fmt.Sprint(out.Output) != fmt.Sprint(len(text)) {
		t.Errorf("%.200v", err)
	}
	if _, err := e.Answer(t.Context(), id, "ask", text, ""); codeOf(err) != "pause.answered" {
		t.Errorf("a second answer: %.200v", err)
	}
	if _, err := e.Answer(t.Context(), id, "ask", text+"x", ""); codeOf(err) != "cluster.tooLarge" {
		t.Errorf("one byte more: %.200v", err)
	}
}
