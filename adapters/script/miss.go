package script

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// miss says what was asked that has no answer, and which entry comes nearest: one for the same
// request, else of the same turn, else of the same step, else the one with the most similar messages.
func (c *Cassette) miss(asked *entry) error {
	what := fmt.Sprintf("%s: no answer is recorded for turn %d of step %q to model %q",
		cmp.Or(c.file, "cassette"), asked.StepCall, asked.Step, asked.Model)
	near := c.nearest(asked)
	switch {
	case near == nil:
		return fmt.Errorf("%s: the cassette is empty", what)
	case near.Key == asked.Key && near.Step == asked.Step:
		return fmt.Errorf("%s: the request is recorded on line %d, and this run has used all of its answers (%d)",
			what, near.line, len(c.byKey[place{near.Step, near.Key}]))
	case near.Key == asked.Key:
		return fmt.Errorf("%s: line %d has the request, but of step %q", what, near.line, near.Step)
	}
	what = fmt.Sprintf("%s: the nearest is on line %d, turn %d of step %q", what, near.line, near.StepCall, near.Step)
	switch list := differences(near, asked); len(list) {
	case 0:
		return fmt.Errorf("%s: no difference can be shown", what)
	case 1:
		return fmt.Errorf("%s: %s", what, list[0])
	default:
		return fmt.Errorf("%s:\n  - %s", what, strings.Join(list, "\n  - "))
	}
}

func (c *Cassette) nearest(asked *entry) *entry {
	var best *entry
	var most [5]float64
	for i := range c.entries {
		e := &c.entries[i]
		rank := [5]float64{
			one(e.Key == asked.Key),
			one(e.Step == asked.Step),
			one(e.Step == asked.Step && e.StepCall == asked.StepCall),
			similarity(e.Request.Messages, asked.Request.Messages),
			one(e.Model == asked.Model),
		}
		if best == nil || slices.Compare(rank[:], most[:]) > 0 {
			best, most = e, rank
		}
	}
	return best
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// similarity is the share of the texts that stands in both, at the beginning or the end of messages
// in the same place: 0 to 1.
func similarity(a, b []message) float64 {
	common, total := 0, 0
	for i := range max(len(a), len(b)) {
		var s, t string
		if i < len(a) {
			s = a[i].Text
		}
		if i < len(b) {
			t = b[i].Text
		}
		total += len(s) + len(t)
		head := prefix(s, t)
		s, t = s[head:], t[head:]
		tail := 0
		for tail < min(len(s), len(t)) && s[len(s)-1-tail] == t[len(t)-1-tail] {
			tail++
		}
		common += 2 * (head + tail)
	}
	if total == 0 {
		return 1
	}
	return float64(common) / float64(total)
}

// prefix is how many bytes a and b begin with in common, whole characters only.
func prefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	for n > 0 && (n < len(a) && !utf8.RuneStart(a[n]) || n < len(b) && !utf8.RuneStart(b[n])) {
		n--
	}
	return n
}

// differences describes what differs between two requests, in the order of the request.
func differences(recorded, asked *entry) (list []string) {
	if recorded.Model != asked.Model {
		list = append(list, fmt.Sprintf("the model was %q", recorded.Model))
	}
	list = append(list, messageDifferences(recorded.Request.Messages, asked.Request.Messages)...)
	q, b := recorded.Request, asked.Request
	list = append(list, toolDifferences(q.Tools, b.Tools)...)
	for _, part := range []struct {
		name            string
		recorded, asked any
	}{
		{"schema", q.Schema, b.Schema},
		{"temperature", q.Temperature, b.Temperature},
		{"max_tokens", q.MaxTokens, b.MaxTokens},
		{"the options", q.ModelOptions, b.ModelOptions},
	} {
		if s, t := text(part.recorded), text(part.asked); s != t {
			list = append(list, differ(part.name, s, t))
		}
	}
	return list
}

// messageDifferences compares what is left of two conversations without what they begin and end with in
// common, message by message.
func messageDifferences(r, a []message) (list []string) {
	head := 0
	for head < min(len(r), len(a)) && text(r[head]) == text(a[head]) {
		head++
	}
	tail := 0
	for tail < min(len(r), len(a))-head && text(r[len(r)-1-tail]) == text(a[len(a)-1-tail]) {
		tail++
	}
	r, a = r[:len(r)-tail], a[:len(a)-tail]
	for i := head; i < max(len(r), len(a)); i++ {
		switch {
		case i >= len(r):
			list = append(list, fmt.Sprintf("message %d (%s) is new: %s", i+1, a[i].Role, excerpt(a[i].summary(), 0)))
		case i >= len(a):
			list = append(list, fmt.Sprintf("message %d (%s) is recorded, but missing now: %s",
				i+1, r[i].Role, excerpt(r[i].summary(), 0)))
		case text(r[i]) != text(a[i]):
			list = append(list, messageDifference(i, r[i], a[i]))
		}
	}
	return list
}

func messageDifference(i int, r, a message) string {
	where := fmt.Sprintf("message %d (%s)", i+1, a.Role)
	switch {
	case r.Role != a.Role && r.summary() == a.summary():
		return fmt.Sprintf("message %d is recorded as of %s, and now of %s", i+1, r.Role, a.Role)
	case r.Role != a.Role:
		return fmt.Sprintf("message %d is recorded as of %s, %s, and now of %s, %s",
			i+1, r.Role, excerpt(r.summary(), 0), a.Role, excerpt(a.summary(), 0))
	case r.Text != a.Text:
		return differ(where, r.Text, a.Text)
	case text(r.Files) != text(a.Files):
		return differ(where+", files", text(r.Files), text(a.Files))
	case r.ToolCallID != a.ToolCallID:
		return differ(where+", tool_call_id", r.ToolCallID, a.ToolCallID)
	}
	return differ(where+", tool_calls", text(r.ToolCalls), text(a.ToolCalls))
}

// summary is what a message says, or else calls.
func (m *message) summary() string {
	if m.Text == "" && m.ToolCalls != nil {
		return text(m.ToolCalls)
	}
	return m.Text
}

// toolDifferences compares two lists of tools by name.
func toolDifferences(r, a []tool) (list []string) {
	if text(r) == text(a) {
		return nil
	}
	find := func(tools []tool, name string) *tool {
		if i := slices.IndexFunc(tools, func(t tool) bool { return t.Name == name }); i >= 0 {
			return &tools[i]
		}
		return nil
	}
	for i := range r {
		was, is := &r[i], find(a, r[i].Name)
		switch {
		case is == nil:
			list = append(list, fmt.Sprintf("tool %q was offered, and is not now", was.Name))
		case was.Description != is.Description:
			list = append(list, differ(fmt.Sprintf("tool %q, description", was.Name), was.Description, is.Description))
		case text(was.Parameters) != text(is.Parameters):
			list = append(list,
				differ(fmt.Sprintf("tool %q, parameters", was.Name), text(was.Parameters), text(is.Parameters)))
		}
	}
	for _, t := range a {
		if find(r, t.Name) == nil {
			list = append(list, fmt.Sprintf("tool %q is offered, and was not", t.Name))
		}
	}
	return list
}

// text is v as JSON; both sides have been encoded before.
func text(v any) string {
	encoded, _ := canonical(v)
	return string(encoded)
}

// differ shows two texts around the first character in which they differ.
func differ(where, recorded, asked string) string {
	n := prefix(recorded, asked)
	return fmt.Sprintf("%s differs at character %d: recorded %s, now %s",
		where, utf8.RuneCountInString(recorded[:n])+1, excerpt(recorded, n), excerpt(asked, n))
}

// excerpt quotes a window of s around a byte.
func excerpt(s string, at int) string {
	const before, after = 20, 40
	head, tail := []rune(s[:at]), []rune(s[at:])
	var b strings.Builder
	if len(head) > before {
		b.WriteString("…")
		head = head[len(head)-before:]
	}
	b.WriteString(string(head))
	b.WriteString(string(tail[:min(after, len(tail))]))
	if len(tail) > after {
		b.WriteString("…")
	}
	return fmt.Sprintf("%q", b.String())
}
