package terminal

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/trace"
)

// Options say how a [Progress] is shown.
type Options struct {
	Live    bool // on a terminal: answers appear as they come, and what is running stands below, redrawn
	Color   bool // ANSI colours
	Verbose bool // a line for every event instead
}

// Progress is a trace sink that shows a run to a person: a line with status and time for each step that has ended, and
// for each item of a foreach. Steps inside bodies get one only when they fail. Of an agent it shows what it does.
type Progress struct {
	w io.Writer
	Options
	stop    chan struct{} // closed to end the frames
	stopped chan struct{} // closed when they have ended

	mutex    sync.Mutex
	running  []runningStep    // in the order in which they began
	ended    bytes.Buffer     // live: lines for the next frame
	drawn    int              // live: lines of the last frame that the next one replaces
	held     bool             // live: a person is asked something, no frame is drawn
	failures []trace.Event    // those shown last, at most maxFailures
	loops    map[string]*loop // agents at work, by path
	segments []*segment       // live: the answers under way, in the order in which they began
	answer   string           // live: the last answer that was shown as a whole
}

// runningStep is a step, an item of a foreach or an agent that is at work.
type runningStep struct {
	path        string
	began       time.Time
	doing       string    // of an agent; of what counts down, what comes then
	until       time.Time // when that comes; zero, or past: nothing counts down
	items, done int       // of a foreach
}

// NewProgress returns a Progress that writes to w. Close ends it.
func NewProgress(w io.Writer, opts Options) *Progress {
	p := &Progress{w: w, Options: opts}
	if p.Live {
		p.stop, p.stopped = make(chan struct{}), make(chan struct{})
		go p.frames()
	}
	return p
}

// Close takes what is running off the terminal.
func (p *Progress) Close() {
	if !p.Live {
		return
	}
	close(p.stop)
	<-p.stopped
	p.mutex.Lock()
	p.running = nil
	p.breakLines()
	p.mutex.Unlock()
	p.frame()
}

// Hold takes what is running off the terminal while a person is asked something, and lets it come back.
func (p *Progress) Hold(on bool) {
	if !p.Live {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.held = on; on {
		p.breakLines()
		p.draw(nil)
	}
}

// Wait shows a countdown for a step until a time comes or ctx is done.
func (p *Progress) Wait(ctx context.Context, step string, until time.Time) {
	p.mutex.Lock()
	p.running = append(p.running, runningStep{path: step, began: time.Now(), doing: "wait is over", until: until})
	p.mutex.Unlock()
	select {
	case <-time.After(time.Until(until)):
	case <-ctx.Done():
	}
	p.mutex.Lock()
	p.finish(step)
	p.mutex.Unlock()
}

// Detail implements trace.Detailed. Answers come in pieces only where they are shown.
func (p *Progress) Detail() trace.Detail {
	return trace.Detail{Content: true, Deltas: p.Live || p.Verbose}
}

// Emit takes note of one event, and shows it unless a frame will.
func (p *Progress) Emit(e trace.Event) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var text string
	inBody := strings.Contains(e.Step, "/")
	streamed := false
	if e.Kind == trace.ModelEnd || e.Kind == trace.StepEnd || e.Kind == trace.AdapterRetry {
		streamed = p.endSegment(e)
	}
	switch e.Kind {
	case trace.StepStart:
		content, _ := e.Data.Get("content").(map[string]any)
		items, _ := content["items"].(int64)
		p.running = append(p.running, runningStep{path: e.Step, began: e.At, items: int(items)})
	case trace.StepEnd:
		p.finish(e.Step)
		p.countItem(e.Step)
		switch status, _ := e.Data.Get("status").(string); {
		case status == "cancelled" && strings.ContainsAny(e.Step, "/["): // its outer step says so
		case !inBody || status == "failed":
			text = p.end(e, status)
		}
	case trace.StepReplayed:
		p.countItem(e.Step)
	case trace.StepSkip:
		if !inBody {
			text = fmt.Sprintf("%s %s  skipped (%v)", p.paint("2", "-"), Visible(e.Step), e.Data.Get("reason"))
		}
	case trace.StepSaid:
		text = fmt.Sprintf("%s %s %s", p.paint("36", "»"), Visible(e.Step), Quoted(e.Data.Get("text")))
	case trace.ModelDelta:
		if !p.Verbose {
			p.delta(e)
			return
		}
	case trace.AdapterRetry:
		text = p.retry(e)
	case trace.Custom:
		p.waits(e)
		if text = p.loopEvent(e, streamed); e.Data.Get("name") == dryEvent {
			text = p.notMade(e)
		}
	default:
		text = p.loopEvent(e, streamed)
	}
	if p.Verbose {
		text = e.At.Local().Format("15:04:05.000") + " " + Visible(wholeLine(e))
	}
	switch {
	case text == "":
	case p.Live:
		fmt.Fprintln(&p.ended, text)
	default:
		fmt.Fprintln(p.w, text)
	}
}

// dryEvent is what package dry tells of a call that it does not make.
const dryEvent = "dry_run"

// notMade words it.
func (p *Progress) notMade(e trace.Event) string {
	data, _ := e.Data.Get("data").(map[string]any)
	text := fmt.Sprintf("%s %s  not called: %s", p.paint("33", "○"), Visible(e.Step), Visible(fmt.Sprint(data["call"])))
	if args := data["arguments"]; args != nil {
		text += " " + brief(args)
	}
	return text + fmt.Sprintf(" (answer: %v)", data["answer"])
}

// finish takes a step off the list of what is running.
func (p *Progress) finish(path string) {
	p.running = slices.DeleteFunc(p.running, func(s runningStep) bool { return s.path == path })
}

// step returns a running step; nil if it is not running.
func (p *Progress) step(path string) *runningStep {
	for i := range p.running {
		if p.running[i].path == path {
			return &p.running[i]
		}
	}
	return nil
}

// countItem counts an item of a foreach that has ended.
func (p *Progress) countItem(path string) {
	if i := strings.LastIndexByte(path, '['); i >= 0 && strings.HasSuffix(path, "]") {
		if each := p.step(path[:i]); each != nil {
			each.done++
		}
	}
}

// wholeLine is an event on a line, its content last and cut.
func wholeLine(e trace.Event) string {
	content := e.Data.Get("content")
	if content == nil {
		return e.Line()
	}
	e.Data = slices.DeleteFunc(slices.Clone(e.Data), func(a trace.Attr) bool { return a.Key == "content" })
	return e.Line() + " content=" + brief(content)
}

// end words the end of a step. A composite fails with the message of what failed in it, which is not repeated.
func (p *Progress) end(e trace.Event, status string) string {
	ms, _ := e.Data.Get("durationMs").(int64)
	text := fmt.Sprintf("%s  %s", Visible(e.Step), Took(time.Duration(ms)*time.Millisecond))
	if status == "succeeded" {
		return p.paint("32", "✓") + " " + text
	}
	text = p.paint("31", "✗") + " " + text + "  " + status
	if status == "cancelled" { // what ended it says why
		return text
	}
	message, _ := e.Data.Get("message").(string)
	said := false
	if n := len(p.failures); n > 0 {
		last := p.failures[n-1]
		said = strings.HasPrefix(last.Step, e.Step) && last.Data.Get("message") == message
	}
	p.failures = append(p.failures[max(0, len(p.failures)-maxFailures+1):], e)
	if message == "" || said {
		return text
	}
	return text + ": " + Cut(Visible(message))
}

// maxFailures is how many failures Failed remembers: those that are still in sight.
const maxFailures = 8

// Failed reports whether the failure of a step was among the last that were shown on a terminal, with all that its
// message says but for a hint.
func (p *Progress) Failed(step, message string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	first, hint, _ := strings.Cut(Visible(message), "\n")
	if !p.Live || p.Verbose || first != Cut(first) || hint != "" && !strings.HasPrefix(hint, "  hint: ") {
		return false
	}
	return slices.ContainsFunc(p.failures, func(e trace.Event) bool {
		said, _ := e.Data.Get("message").(string)
		said, _, _ = strings.Cut(Visible(said), "\n")
		return e.Step == step && said == first
	})
}

// waits shows that the call of a step waits for the limit of a model, until it is sent. Of an agent it is told
// afterwards.
func (p *Progress) waits(e trace.Event) {
	s := p.step(e.Step)
	if s == nil || p.loops[e.Step] != nil {
		return
	}
	data, _ := e.Data.Get("data").(map[string]any)
	switch e.Data.Get("name") {
	case "model.wait":
		s.until, s.doing = time.Time{}, fmt.Sprintf("waits for %s of %s", brief(data["limit"]), brief(data["model"]))
	case "model.waited":
		s.doing = ""
	}
}

// retry words that a call has failed and is made again, and counts down to it.
func (p *Progress) retry(e trace.Event) string {
	get := func(key string) string { return brief(e.Data.Get(key)) }
	attempt, _ := e.Data.Get("attempt").(int64)
	ms, _ := e.Data.Get("delayMs").(int64)
	delay, again := time.Duration(ms)*time.Millisecond, fmt.Sprintf("retry %d/%s", attempt+1, get("maxAttempts"))
	if s := p.step(e.Step); s != nil {
		s.doing, s.until = again, e.At.Add(delay)
	}
	reason := get("reason")
	if reason == "network" {
		reason = "the connection failed or was lost"
	}
	indent := ""
	if l := p.loops[e.Step]; l != nil {
		indent = strings.Repeat("  ", l.depth+1)
	}
	return fmt.Sprintf("%s%s %s  %s failed: %s; %s in %v",
		indent, p.paint("33", "↻"), Visible(e.Step), get("adapterKind"), reason, again, delay)
}
