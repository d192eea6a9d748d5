package braise

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Links of one page to another lead somewhere. The README has one to every page, but for those of kinds,
// which control-flow.md links.
func TestDocsLinks(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := filepath.Glob("docs/kinds/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`)
	linked := map[string]bool{}
	for _, page := range append(slices.Concat(pages, kinds), "README.md", "CONTRIBUTING.md", "CHANGELOG.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, anchor := filepath.Join(filepath.Dir(page), m[1]), strings.TrimPrefix(m[2], "#")
			linked[page+" "+target] = true
			body, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s: %v", page, err)
			}
			if anchor != "" && !hasHeading(string(body), anchor) {
				t.Errorf("%s: %s has no heading for #%s", page, target, anchor)
			}
		}
	}
	for _, page := range pages {
		if !linked["README.md "+page] {
			t.Errorf("README.md does not link %s", page)
		}
	}
	for _, page := range kinds {
		if !linked["docs/control-flow.md "+page] {
			t.Errorf("docs/control-flow.md does not link %s", page)
		}
	}
}

// hasHeading reports whether a heading has the anchor: its text in lower case, with hyphens for spaces.
func hasHeading(text, anchor string) bool {
	for line := range strings.Lines(text) {
		title := strings.TrimLeft(line, "#")
		if title != line && strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-") == anchor {
			return true
		}
	}
	return false
}
