package workflow_test

import (
	"strings"
	"testing"
)

// The version that wrote these journals would have resumed them in a wrong way: it forgot what calls had cost
// that paused, and forks made calls again of which a person had said what became of them. What is right was worked
// out by hand: the status, the output and the calls.
func TestJournalsOfRepairedVersions(t *testing.T) {
	testJournals(t, "1-repaired", endsOnly)
}

// endsOnly leaves of the lines what runs came to, and what was called.
func endsOnly(lines []string) (kept []string) {
	for _, line := range lines {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "#", words[0] == "##", words[0] == "status", words[0] == "output":
			kept = append(kept, line)
		case words[0] == "call" && words[1] == "model":
			kept = append(kept, strings.Join(words[:3], " "))
		case words[0] == "call":
			kept = append(kept, strings.Join(words[:2], " "))
		}
	}
	return kept
}
