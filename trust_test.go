package braise_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each rule that docs/security.md lists is named by a test, "trust 8.4", and tests name no other of its section.
func TestRulesHaveTests(t *testing.T) {
	page, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n## Rules\n")
	if !found {
		t.Fatal("docs/security.md has no rules")
	}
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^- (\d+\.\d+) \S`).FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	if len(listed) == 0 {
		t.Fatal("the list of rules is empty")
	}
	section, _, _ := strings.Cut(listed[0], ".")
	named := map[string]bool{}
	mention := regexp.MustCompile(`[Tt]rust (\d+\.\d+(?:(?:, | and )\d+\.\d+)*)`)
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "trust_test.go" ||
			!strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".txtar") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range mention.FindAllStringSubmatch(string(text), -1) {
			for _, rule := range regexp.MustCompile(`\d+\.\d+`).FindAllString(m[1], -1) {
				if strings.HasPrefix(rule, section+".") {
					named[rule] = true
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var tested []string
	for rule := range named {
		tested = append(tested, rule)
	}
	slices.Sort(tested)
	slices.Sort(listed)
	if diff := cmp.Diff(listed, tested); diff != "" {
		t.Errorf("rules that are listed, and that tests name (-listed +tests)\n%s", diff)
	}
}
