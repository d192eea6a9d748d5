package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/trace"
)

// progress shows a run on stderr as it happens: a line a step with its status and time. On a
// terminal the steps that run stay at the bottom, their clocks going; elsewhere each line is
// printed once, when its step has ended.
type progress struct {
	w       io.Writer
	live    bool
	color   bool
	verbose bool

	mutex   sync.Mutex
	running []line // in the order in which they began
	drawn   int    // lines at the bottom of the terminal that are ours
	ticker  chan struct{}
}

// line is a step that runs.
type line struct {
	step  string
	began time.Time
}

func (a *app) newProgress() *progress {
	p := &progress{w: a.stderr, live: isTerminal(a.stderr), color: a.colored(a.stderr), verbose: a.verbose, ticker: make(chan struct{})}
	if p.live {
		go p.tick()
	}
	return p
}

// tick redraws the clocks until close.
func (p *progress) tick() {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.mutex.Lock()
			p.draw(nil)
			p.mutex.Unlock()
		case <-p.ticker:
			return
		}
	}
}

// close takes the running lines off the terminal.
func (p *progress) close() {
	close(p.ticker)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.running = nil
	if p.live {
		p.draw(nil)
	}
	p.live = false
}

// Emit shows one event.
func (p *progress) Emit(e trace.Event) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var text string
	switch e.Kind {
	case trace.StepStart:
		p.running = append(p.running, line{e.Step, e.At})
	case trace.StepEnd:
		p.running = slices.DeleteFunc(p.running, func(l line) bool { return l.step == e.Step })
		text = p.ended(e)
	case trace.StepSkip:
		text = fmt.Sprintf("%s %s  skipped (%v)", p.paint("2", "-"), e.Step, e.Data.Get("reason"))
	}
	if p.verbose {
		text = e.At.Local().Format("15:04:05.000") + " " + e.Line()
	}
	if text != "" || p.live {
		p.draw([]byte(text))
	}
}

func (p *progress) ended(e trace.Event) string {
	mark, status := p.paint("32", "✓"), ""
	if s, _ := e.Data.Get("status").(string); s != "succeeded" {
		mark, status = p.paint("31", "✗"), "  "+s
		if m, _ := e.Data.Get("message").(string); m != "" {
			status += ": " + firstLine(m)
		}
	}
	ms, _ := e.Data.Get("durationMs").(int64)
	return fmt.Sprintf("%s %s  %s%s", mark, e.Step, took(time.Duration(ms)*time.Millisecond), status)
}

func firstLine(s string) string {
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

// maxRunning is how many running steps a terminal shows.
const maxRunning = 10

// draw prints a finished line, if any, and on a terminal the running steps below it.
func (p *progress) draw(done []byte) {
	var b bytes.Buffer
	if p.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", p.drawn) // up, and clear to the end
		p.drawn = 0
	}
	if len(done) > 0 {
		b.Write(done)
		b.WriteByte('\n')
	}
	if p.live {
		for i, l := range p.running {
			if i == maxRunning {
				fmt.Fprintf(&b, "  … and %d more\n", len(p.running)-maxRunning)
				p.drawn++
				break
			}
			fmt.Fprintf(&b, "%s %.60s  %s\n", p.paint("33", "•"), l.step, took(time.Since(l.began)))
			p.drawn++
		}
	}
	p.w.Write(b.Bytes())
}
