package builtin_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/builtin"
)

// The patterns of trust 6.8 are published.
func TestRefusedEnvIsPublished(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "### The environment of programs")
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	if diff := cmp.Diff(builtin.RefusedEnv(), strings.Fields(text)); diff != "" {
		t.Errorf("docs/reference/tools.md (-want +got)\n%s", diff)
	}
	if !slices.IsSorted(builtin.RefusedEnv()) {
		t.Error("the patterns are not sorted")
	}
}
