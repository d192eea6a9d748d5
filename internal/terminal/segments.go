package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/braise-run/braise/trace"
)

// segment is an answer that is shown as it comes.
type segment struct {
	path  string          // whose
	line  string          // the end of it, which is no whole line yet
	text  strings.Builder // all of it, at most maxAnswer bytes
	named bool            // it is one of several, so its lines say whose they are
	begun bool            // there is more of it than space
	json  bool            // it looks like JSON, which is shown when it is whole

	thought bool // the line is of what the model thinks
}

// maxAnswer is the length up to which Showed remembers an answer.
const maxAnswer = 1 << 20

// Showed reports whether a text is the last answer that was shown as a whole.
func (p *Progress) Showed(text string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	text = strings.TrimSuffix(text, "\n")
	return text != "" && text == p.answer && len(text) < maxAnswer
}

// delta takes a piece of an answer. What the model thinks is dimmed, and ends with a line.
func (p *Progress) delta(e trace.Event) {
	if tool, ok := e.Data.Get("tool").(string); ok {
		if l := p.loops[e.Step]; l != nil {
			p.doing(e.Step, fmt.Sprintf("step %d, calls %s", l.step, brief(tool)))
		}
		return
	}
	s := p.segment(e.Step)
	if s == nil {
		s = &segment{path: e.Step, named: p.parallel() || strings.Contains(e.Step, "[")}
		p.segments = append(p.segments, s)
		for _, other := range p.segments {
			other.named = other.named || len(p.segments) > 1
		}
	}
	text, _ := e.Data.Get("text").(string)
	thought, isThought := e.Data.Get("thinking").(string)
	if isThought != s.thought {
		p.breakLine(s)
		s.line, s.thought = "", isThought
	}
	if isThought {
		p.addLines(s, thought)
		return
	}
	s.text.WriteString(text[:min(len(text), maxAnswer-s.text.Len())])
	if begin := strings.TrimSpace(text); !s.begun && begin != "" {
		s.begun, s.json = true, begin[0] == '{' || begin[0] == '['
	}
	if s.json {
		s.line = "… " + Grouped(int64(s.text.Len())) + " bytes of JSON"
		return
	}
	p.addLines(s, text)
}

// addLines adds to what is shown of a segment: whole lines stay.
func (p *Progress) addLines(s *segment, text string) {
	lines := strings.SplitAfter(s.line+Visible(text), "\n")
	for _, line := range lines[:len(lines)-1] {
		p.ended.WriteString(p.quoted(s, line))
	}
	s.line = lines[len(lines)-1]
}

// parallel reports whether several steps are at work side by side.
func (p *Progress) parallel() bool {
	n := 0
	for _, s := range innermost(p.running) {
		if s.items == 0 {
			n++
		}
	}
	return n > 1
}

// segment returns the answer of a step that is under way; nil if there is none.
func (p *Progress) segment(path string) *segment {
	if i := slices.IndexFunc(p.segments, func(s *segment) bool { return s.path == path }); i >= 0 {
		return p.segments[i]
	}
	return nil
}

// endSegment ends the answer of an event's step; false if none is under way.
func (p *Progress) endSegment(e trace.Event) bool {
	s := p.segment(e.Step)
	if s == nil {
		return false
	}
	whole := e.Kind == trace.ModelEnd && e.Data.Get("error") == nil
	if s.thought {
		p.breakLine(s)
		s.thought = false
	}
	switch {
	case s.json && whole:
		for line := range strings.Lines(structured(s.text.String())) {
			p.ended.WriteString(p.quoted(s, line))
		}
		p.ended.WriteString("\n")
		p.answer = ""
	case whole:
		p.breakLine(s)
		p.answer = strings.TrimSuffix(s.text.String(), "\n")
	default:
		p.breakLine(s)
	}
	p.segments = slices.DeleteFunc(p.segments, func(other *segment) bool { return other == s })
	return true
}

// breakLines ends the lines of all answers under way, before they leave the frame.
func (p *Progress) breakLines() {
	for _, s := range p.segments {
		p.breakLine(s)
	}
}

func (p *Progress) breakLine(s *segment) {
	if s.line != "" && (s.thought || !s.json) {
		fmt.Fprintln(&p.ended, p.quoted(s, s.line))
		s.line = ""
	}
}

// quoted is a line of an answer.
func (p *Progress) quoted(s *segment, line string) string {
	in := "  "
	if l := p.loops[s.path]; l != nil {
		in += strings.Repeat("  ", l.depth)
	}
	if s.named {
		in += tail(Visible(s.path)) + " "
	}
	if s.thought {
		text := strings.TrimSuffix(line, "\n")
		return in + p.paint("2", "┊ "+text) + line[len(text):]
	}
	return in + p.paint("2", "│") + " " + line
}

// maxMembers is how many members or items of a structured answer are shown.
const maxMembers = 20

// structured words an answer that looks like JSON, without the last line's end: a line for each member or item, in
// their order. What is not JSON after all stays as it is.
func structured(text string) string {
	if len(text) == maxAnswer {
		return "… an answer of more than " + Grouped(maxAnswer) + " bytes"
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var lines []string
	left := 0
	open, err := dec.Token()
	for ; err == nil && dec.More(); left++ {
		line := "-"
		if open == json.Delim('{') {
			var key json.Token
			if key, err = dec.Token(); err != nil {
				break
			}
			line = brief(key) + ":"
		}
		var v json.RawMessage
		if err = dec.Decode(&v); err == nil && len(lines) < maxMembers {
			lines = append(lines, strings.TrimSpace(line+" "+briefJSON(v)))
		}
	}
	if err == nil {
		_, err = dec.Token()
	}
	if _, more := dec.Token(); err != nil || more != io.EOF || left == 0 {
		return Visible(strings.TrimSpace(text))
	}
	if left -= len(lines); left > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", left))
	}
	return strings.Join(lines, "\n")
}

// briefJSON is a value on one line: a text without its quotes, anything else as JSON.
func briefJSON(text json.RawMessage) string {
	var s string
	if json.Unmarshal(text, &s) == nil {
		return brief(s)
	}
	return brief(string(text))
}
