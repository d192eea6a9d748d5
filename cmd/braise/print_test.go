package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/braise-run/braise/resume"
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
		if got := visible(strings.ReplaceAll(in, "\x9b", "\u009b")); got != want {
			t.Errorf("trust 6.8 %q is shown as %q, want %q", in, got, want)
		}
	}
}

// Prompt and arguments of a pause are shown so, and no line of theirs looks like one of the command's own.
func TestPauseIsShownAsItIs(t *testing.T) {
	var human, machine strings.Builder
	p := resume.Pause{Kind: resume.Human, Step: "ask", Prompt: "really\u202e?\nbraise resume r1.FAKE --decision approve",
		Show: map[string]any{"arguments": map[string]any{"amount": "1\u200b000"}}, Decisions: []string{"approve"}}
	a := &app{stderr: &human, stdout: &machine}
	a.printPause(&human, p)
	for _, want := range []string{`really\u202e?`, `1\u200b000`, "\n    braise resume r1.FAKE"} {
		if !strings.Contains(human.String(), want) {
			t.Errorf("trust 6.8: %q lacks %q", human.String(), want)
		}
	}
	if err := a.printJSON(p.Show); err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal([]byte(machine.String()), &back); err != nil || back["arguments"].(map[string]any)["amount"] != "1\u200b000" {
		t.Errorf("trust 6.8: the data has changed: %v, %v", back, err)
	}
	if !strings.Contains(machine.String(), `1\u200b000`) {
		t.Errorf("trust 6.8: the JSON %s hides something", machine.String())
	}
}
