package braise

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Links of one page to another lead somewhere, and the README has one to every page.
func TestDocsLinks(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`)
	linked := map[string]bool{}
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md", "CHANGELOG.md") {
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
