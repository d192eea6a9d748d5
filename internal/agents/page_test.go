package agents_test

import (
	"os"
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/agents"
)

// The programs of trust 6.8 are published.
func TestProgramsThatRunOthersArePublished(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "### Programs that run others")
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	same(t, "docs/reference/tools.md", strings.Fields(text), agents.ProgramsThatRunOthers())
}
