// Package terminal is what people see of runs on a terminal: progress, and text that is not ours made safe to print.
package terminal

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/braise-run/braise/internal/value"
)

// Visible replaces control characters, which could play tricks on a terminal, in text that is not ours, and shows what
// would not be seen.
func Visible(s string) string {
	return EscapeUnseen(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s))
}

// EscapeUnseen writes unseen characters as JSON may: \u202e.
func EscapeUnseen(s string) string {
	if !strings.ContainsFunc(s, value.IsUnseen) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !value.IsUnseen(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Cut shortens a message to the first line of at most 160 characters.
func Cut(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	if chars := []rune(first); len(chars) > 160 {
		return string(chars[:159]) + "…"
	}
	return first
}

// Took is a duration for people: 4.0s, 1m20s.
func Took(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// brief is a value on one line of at most 160 characters.
func brief(v any) string {
	if v == nil {
		return ""
	}
	text, err := value.Text(v)
	if err != nil {
		text = err.Error()
	}
	const enough = 4096 // bytes, to find them in
	return Cut(Visible(strings.Join(strings.Fields(strings.ToValidUTF8(text[:min(len(text), enough)], "")), " ")))
}

// Grouped is a number with commas: 2,310.
func Grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Dollars is an amount of money for people: $1.25, and with two digits that count where cents would hide it, $0.00006.
func Dollars(usd float64) string {
	if usd == 0 || usd >= 0.005 {
		return "$" + strconv.FormatFloat(usd, 'f', 2, 64)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(usd, 'g', 2, 64), 64) // of what FormatFloat wrote
	return "$" + strconv.FormatFloat(rounded, 'f', -1, 64)
}

// LocalTime is a time for people; "-" when there is none.
func LocalTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// Quoted is a value for people that stands behind a word of ours: a space and its text. One of several lines begins on
// a line of its own, and each of its lines stands behind a bar, so that none can look like one of ours.
func Quoted(v any) string {
	text, err := value.Text(v)
	if err != nil {
		text = err.Error()
	}
	text = Visible(strings.TrimRight(text, "\n"))
	if !strings.Contains(text, "\n") {
		return " " + text
	}
	return bar + strings.ReplaceAll(text, "\n", bar)
}

const bar = "\n    │ "

// commands finds lines that look like a command to copy, but for the first line.
var commands = regexp.MustCompile(`\n[ \t]*braise\b`)

// Message is an error of ours, which may quote others: lines that look like a command to copy stand behind a bar.
func Message(text string) string {
	return commands.ReplaceAllStringFunc(Visible(text), func(s string) string { return bar + s[1:] })
}
