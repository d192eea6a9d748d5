package terminal

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"
)

// A terminal gets a frame every frameTime, of at most maxRunning running steps and as many answers under way.
const (
	frameTime  = 100 * time.Millisecond
	maxRunning = 8
)

// Control sequences of terminals.
const (
	cursorUp   = "\r\x1b[%dA" // and to the left: a key pressed may have moved it
	eraseBelow = "\x1b[J"
	wrapOff    = "\x1b[?7l" // the terminal cuts lines at its width, which may change at any time
	wrapOn     = "\x1b[?7h"
)

func (p *Progress) frames() {
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

// frame replaces the last frame on the terminal, in one write: lines of steps that have ended
// since, which stay, and below them what is running.
func (p *Progress) frame() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.held {
		p.draw(innermost(p.running))
	}
}

// draw puts what has ended, the answers under way and steps in the place of the last frame.
func (p *Progress) draw(steps []runningStep) {
	var lines []string
	for _, s := range p.segments {
		if s.line != "" && len(lines) < maxRunning {
			lines = append(lines, p.quoted(s, tail(s.line)))
		}
	}
	if p.ended.Len() == 0 && len(steps) == 0 && p.drawn == 0 && lines == nil {
		return
	}
	for i, s := range steps {
		if i == maxRunning {
			lines = append(lines, fmt.Sprintf("  … and %d more", len(steps)-maxRunning))
			break
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %6s  %s  %s",
			p.paint("33", "•"), Took(time.Since(s.began)), tail(Visible(s.path)), s.state()), " "))
	}
	var b bytes.Buffer
	if p.drawn > 0 {
		fmt.Fprintf(&b, cursorUp+eraseBelow, p.drawn)
	}
	p.ended.WriteTo(&b)
	b.WriteString(wrapOff)
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	b.WriteString(wrapOn)
	p.drawn = len(lines)
	p.w.Write(b.Bytes())
}

// state says what a step is at.
func (s *runningStep) state() string {
	switch left := time.Until(s.until); {
	case left > 0:
		return fmt.Sprintf("%s in %v", s.doing, time.Duration(math.Ceil(left.Seconds()))*time.Second)
	case !s.until.IsZero():
		return ""
	case s.items > 0:
		return fmt.Sprintf("%d/%d", s.done, s.items)
	}
	return s.doing
}

// tail shortens a path to its end, so that it fits common terminals. Narrower ones cut it.
func tail(path string) string {
	if chars := []rune(path); len(chars) > 64 {
		return "…" + string(chars[len(chars)-63:])
	}
	return path
}

// innermost leaves out steps and items that have a part in the list. A foreach stays: it has a count.
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
		if !outer[s.path] || s.items > 0 {
			list = append(list, s)
		}
	}
	return list
}

func (p *Progress) paint(code, text string) string {
	if !p.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
