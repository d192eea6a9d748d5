package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/trace"
)

// progress shows a run on stderr: a line with status and time for each step that has ended, and
// for each item of a foreach. The steps inside bodies get one only when they fail. Of an agent it says
// what it does. On a terminal answers are shown as they come, and what is running stands below, redrawn
// with its time.
type progress struct {
	w       io.Writer
	live    bool // w is a terminal
	color   bool
	verbose bool          // a line for every event instead
	stop    chan struct{} // closed to end the frames
	stopped chan struct{} // closed when they have ended

	mutex   sync.Mutex
	running []runningStep    // in the order in which they began
	ended   bytes.Buffer     // live: lines for the next frame
	drawn   int              // live: lines of the last frame that the next one replaces
	held    bool             // live: somebody is asked something, no frame is drawn
	failed  trace.Event      // the failure shown last
	loops   map[string]*loop // agents at work, by path
	segment segment          // live: the answer under way
}

type runningStep struct {
	path  string
	began time.Time
	doing string // of an agent
}

// A terminal gets a frame every frameTime, of at most maxRunning running steps.
const (
	frameTime  = 100 * time.Millisecond
	maxRunning = 8
)

func (a *app) newProgress() *progress {
	p := &progress{w: a.stderr, color: a.colored(a.stderr), verbose: a.verbose,
		live: isTerminal(a.stderr) && os.Getenv("TERM") != "dumb"}
	if p.live {
		p.stop, p.stopped = make(chan struct{}), make(chan struct{})
		go p.frames()
	}
	return p
}

func (p *progress) frames() {
	defer close(p.stopped)
	t := time.NewTicker(frameTime)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.frame()
		case <-p.stop:
			return
		}
	}
}

// close takes what is running off the terminal.
func (p *progress) close() {
	if !p.live {
		return
	}
	close(p.stop)
	<-p.stopped
	p.mutex.Lock()
	p.running = nil
	p.breakSegment()
	p.mutex.Unlock()
	p.frame()
}

// hold takes what is running off the terminal while somebody is asked something, and lets it come back.
func (p *progress) hold(on bool) {
	if !p.live {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.held = on; on {
		p.breakSegment()
		p.draw(nil)
	}
}

// Detail implements trace.Detailed. Answers come in pieces only where they are shown.
func (p *progress) Detail() trace.Detail {
	return trace.Detail{Content: true, Deltas: p.live || p.verbose}
}

// Emit takes note of one event, and shows it unless a frame will.
func (p *progress) Emit(e trace.Event) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var text string
	inBody := strings.Contains(e.Step, "/")
	switch e.Kind {
	case trace.StepStart:
		p.running = append(p.running, runningStep{path: e.Step, began: e.At})
	case trace.StepEnd:
		p.running = slices.DeleteFunc(p.running, func(s runningStep) bool { return s.path == e.Step })
		if status, _ := e.Data.Get("status").(string); !inBody || status == "failed" {
			text = p.end(e, status)
		}
	case trace.StepSkip:
		if !inBody {
			text = fmt.Sprintf("%s %s  skipped (%v)", p.paint("2", "-"), e.Step, e.Data.Get("reason"))
		}
	case trace.ModelDelta:
		if !p.verbose {
			p.delta(e)
			return
		}
	default:
		if text = p.loopEvent(e); text == "" && e.Kind == trace.AdapterRetry { // of a step
			text = p.paint("33", "↻") + " " + visible(e.Step) + "  " + retryText(e)
		}
	}
	if p.verbose {
		text = e.At.Local().Format("15:04:05.000") + " " + wholeLine(e)
	}
	over := p.segment.path == e.Step &&
		(e.Kind == trace.ModelEnd || e.Kind == trace.StepEnd || e.Kind == trace.AdapterRetry)
	if over || text != "" {
		p.breakSegment()
	}
	if over {
		p.segment.path = ""
	}
	switch {
	case text == "":
	case p.live:
		fmt.Fprintln(&p.ended, text)
	default:
		fmt.Fprintln(p.w, text)
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

// end words the end of a step. A composite fails with the message of what failed in it, which is
// not said again.
func (p *progress) end(e trace.Event, status string) string {
	ms, _ := e.Data.Get("durationMs").(int64)
	text := fmt.Sprintf("%s  %s", e.Step, took(time.Duration(ms)*time.Millisecond))
	if status == "succeeded" {
		return p.paint("32", "✓") + " " + text
	}
	text = p.paint("31", "✗") + " " + text + "  " + status
	message, _ := e.Data.Get("message").(string)
	said := strings.HasPrefix(p.failed.Step, e.Step) && p.failed.Data.Get("message") == message
	p.failed = e
	if message == "" || said {
		return text
	}
	return text + ": " + cut(visible(message))
}

// cut shortens a message to the first line of at most 160 characters.
func cut(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	if chars := []rune(first); len(chars) > 160 {
		return string(chars[:159]) + "…"
	}
	return first
}

func took(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func (p *progress) paint(code, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Control sequences of terminals.
const (
	cursorUp   = "\r\x1b[%dA" // and to the left: a key pressed may have moved it
	eraseBelow = "\x1b[J"
	wrapOff    = "\x1b[?7l" // the terminal cuts lines at its width, which may change at any time
	wrapOn     = "\x1b[?7h"
)

// frame replaces the last frame on the terminal, in one write: lines of steps that have ended
// since, which stay, and below them what is running.
func (p *progress) frame() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.held {
		p.draw(innermost(p.running))
	}
}

// draw puts what has ended, the answer under way and steps in the place of the last frame.
func (p *progress) draw(steps []runningStep) {
	if p.ended.Len() == 0 && len(steps) == 0 && p.drawn == 0 && p.segment.line == "" {
		return
	}
	var b bytes.Buffer
	if p.drawn > 0 {
		fmt.Fprintf(&b, cursorUp+eraseBelow, p.drawn)
	}
	p.ended.WriteTo(&b)
	p.drawn = 0
	b.WriteString(wrapOff)
	if p.segment.line != "" {
		fmt.Fprintln(&b, p.quoted(tail(p.segment.line)))
		p.drawn++
	}
	for i, s := range steps {
		p.drawn++
		if i == maxRunning {
			fmt.Fprintf(&b, "  … and %d more\n", len(steps)-maxRunning)
			break
		}
		line := fmt.Sprintf("%s %6s  %s  %s",
			p.paint("33", "•"), took(time.Since(s.began)), tail(visible(s.path)), s.doing)
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	b.WriteString(wrapOn)
	p.w.Write(b.Bytes())
}

// tail shortens a path to its end, so that it fits common terminals. Narrower ones cut it.
func tail(path string) string {
	if chars := []rune(path); len(chars) > 64 {
		return "…" + string(chars[len(chars)-63:])
	}
	return path
}

// innermost leaves out steps and items of which a part is in the list.
func innermost(steps []runningStep) []runningStep {
	outer := map[string]bool{}
	for _, s := range steps {
		for i, c := range s.path {
			if c == '/' || c == '[' || c == '#' {
				outer[s.path[:i]] = true
			}
		}
	}
	var list []runningStep
	for _, s := range steps {
		if !outer[s.path] {
			list = append(list, s)
		}
	}
	return list
}
