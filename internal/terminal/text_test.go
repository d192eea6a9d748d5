package terminal

import (
	"strings"
	"testing"
)

// What an approver sees: trust 6.8.
func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"pay 5 \u202e001 euros":    `pay 5 \u202e001 euros`,
		"a\u200bb\u2060c\ufeffd":   `a\u200bb\u2060c\ufeffd`,
		"one\u2028two\u2029three":  `one\u2028two\u2029three`,
		"\u2066x\u2069\u061c":      `\u2066x\u2069\u061c`,
		"tag \U000e0041":           `tag \udb40\udc41`,
		"\u115f\u3164\ufe01\ufe0f": `\u115f\u3164\ufe01` + "\ufe0f",
		"\x1b[31mred\x9b":          "\ufffd[31mred\ufffd",
		"Grüße, 日本, שלום, 🔑\n\tx":  "Grüße, 日本, שלום, 🔑\n\tx",
	} {
		if got := Visible(strings.ReplaceAll(in, "\x9b", "\u009b")); got != want {
			t.Errorf("trust 6.8 %q is shown as %q, want %q", in, got, want)
		}
	}
}
