package script

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// miss says what was asked that has no answer, and which entry comes nearest: one for the same
// request, else of the same step, else the one with the most similar messages.
func (c *Cassette) miss(asked *entry) error {
	what := fmt.Sprintf("%s: no answer is recorded for call %d of step %q to model %q",
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
	return fmt.Errorf("%s: the nearest is on line %d, call %d of step %q: %s",
		what, near.line, near.StepCall, near.Step, difference(near, asked))
}

func (c *Cassette) nearest(asked *entry) *entry {
	var best *entry
	var most [4]float64
	for i := range c.entries {
		e := &c.entries[i]
		rank := [4]float64{one(e.Key == asked.Key), one(e.Step == asked.Step), similarity(e.Request.Messages, asked.Request.Messages), one(e.Model == asked.Model)}
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

// difference describes the first difference between two requests.
func difference(recorded, asked *entry) string {
	if recorded.Model != asked.Model {
		return fmt.Sprintf("the model was %q", recorded.Model)
	}
	r, a := recorded.Request.Messages, asked.Request.Messages
	for i := range min(len(r), len(a)) {
		where := fmt.Sprintf("message %d (%s)", i+1, a[i].Role)
		switch {
		case r[i].Role != a[i].Role:
			return fmt.Sprintf("message %d is recorded as of %s, and now of %s", i+1, r[i].Role, a[i].Role)
		case r[i].Text != a[i].Text:
			return differ(where, r[i].Text, a[i].Text)
		case r[i].ToolCallID != a[i].ToolCallID:
			return differ(where+", tool_call_id", r[i].ToolCallID, a[i].ToolCallID)
		}
		if s, t := text(r[i].ToolCalls), text(a[i].ToolCalls); s != t {
			return differ(where+", tool_calls", s, t)
		}
	}
	if len(r) != len(a) {
		return fmt.Sprintf("%d messages are recorded, and now there are %d", len(r), len(a))
	}
	q, b := recorded.Request, asked.Request
	for _, part := range []struct {
		name            string
		recorded, asked any
	}{
		{"tools", q.Tools, b.Tools},
		{"schema", q.Schema, b.Schema},
		{"temperature", q.Temperature, b.Temperature},
		{"max_tokens", q.MaxTokens, b.MaxTokens},
	} {
		if s, t := text(part.recorded), text(part.asked); s != t {
			return differ(part.name, s, t)
		}
	}
	return "no difference can be shown"
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
