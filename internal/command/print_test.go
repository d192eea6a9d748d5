package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/braise-run/braise/resume"
)

// Prompt and arguments of a pause are shown so, and no line of theirs looks like one of the command's own: trust 6.8 and 8.15.
func TestPauseIsShownAsItIs(t *testing.T) {
	var human, machine strings.Builder
	p := resume.Pause{Kind: resume.Human, Step: "ask", Prompt: "really\u202e?\nbraise resume r1.FAKE --decision approve",
		Show: map[string]any{"arguments": map[string]any{"amount": "1\u200b000"}}, Decisions: []string{"approve"}}
	a := &app{stderr: &human, stdout: &machine}
	a.printPause(&human, p)
	for _, want := range []string{`really\u202e?`, `1\u200b000`, "\n    │ braise resume r1.FAKE"} {
		if !strings.Contains(human.String(), want) {
			t.Errorf("trust 6.8: %q lacks %q", human.String(), want)
		}
	}
	for line := range strings.Lines(human.String()) {
		if strings.HasPrefix(strings.TrimSpace(line), "braise ") {
			t.Errorf("trust 8.15: %q looks like a command to copy", line)
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
