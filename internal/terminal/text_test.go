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

// Text of others cannot look like a line of the command's own: trust 8.15.
func TestQuoted(t *testing.T) {
	for _, tt := range []struct {
		in   any
		want string
	}{
		{"one line\n", " one line"},
		{"", " "},
		{"Which?\n    braise resume r1.FAKE", "\n    │ Which?\n    │     braise resume r1.FAKE"},
		{"a\r\x1b[2Kb", " a\ufffd\ufffd[2Kb"},
		{map[string]any{"a": 1}, ` {"a":1}`},
	} {
		if got := Quoted(tt.in); got != tt.want {
			t.Errorf("%q is shown as %q, want %q", tt.in, got, tt.want)
		}
	}
	for in, want := range map[string]string{
		"it failed": "it failed",
		"it failed\n  hint: write it so\n    braise resume r1.FAKE": "it failed\n  hint: write it so\n    │     braise resume r1.FAKE",
		"braise\n\tbraise\nbraises\n - c\x1b":                       "braise\n    │ \tbraise\nbraises\n - c\ufffd",
	} {
		if got := Message(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

func TestDollars(t *testing.T) {
	for in, want := range map[float64]string{
		0: "$0.00", 1e-6: "$0.000001", 5.7e-05: "$0.000057", 6e-05: "$0.00006", 0.00123: "$0.0012", 0.00499: "$0.005",
		0.005: "$0.01", 0.254: "$0.25", 12: "$12.00", 1234567.891: "$1234567.89",
	} {
		if got := Dollars(in); got != want {
			t.Errorf("%v is shown as %s, want %s", in, got, want)
		}
	}
}
