package braise

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/resume"
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

// The key in docs/durability.md is what the code makes of the same call.
func TestDocumentedKey(t *testing.T) {
	page, err := os.ReadFile("docs/durability.md")
	if err != nil {
		t.Fatal(err)
	}
	if key := resume.Key("r", 1, "send", 2, ""); !strings.Contains(string(page), "    "+key+"\n") {
		t.Errorf("docs/durability.md does not have the key %s", key)
	}
}

// Each promise of docs/security.md names the tests that hold it, which exist.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, f := range goFiles(t) {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
				tests[f.pkg()+"."+fn.Name.Name] = true
			}
		}
	}
	named := 0
	for _, m := range regexp.MustCompile("`([a-z/]+\\.Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1) {
		if named++; !tests[m[1]] {
			t.Errorf("docs/security.md names %s, which is no test", m[1])
		}
	}
	for line := range strings.Lines(string(page)) {
		row := strings.HasPrefix(line, "| ") && strings.Count(line, " | ") == 1
		if row && !strings.Contains(line, ".Test") && line != "| promise | tested by |\n" {
			t.Errorf("docs/security.md has a promise without a test: %s", line)
		}
	}
	if named == 0 {
		t.Error("docs/security.md names no test")
	}
}

// The Go of docs/agents.md stands in examples, which run; its picture of the loop is that of the sources. Its YAML is
// that of scenarios, which a test of package workflow sees to.
func TestAgentsPage(t *testing.T) {
	page, err := os.ReadFile("docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := ""
	for _, file := range []string{"workflow/agent_example_test.go", "workflow/example_test.go", "internal/agents/state.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources += string(text)
	}
	blocks := regexp.MustCompile("(?s)\n```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) == 0 {
		t.Error("it has no Go")
	}
	for _, b := range blocks {
		indented := strings.ReplaceAll("\t"+strings.TrimSpace(b[1]), "\n", "\n\t")
		if !strings.Contains(sources, strings.ReplaceAll(indented, "\n\t\n", "\n\n")) {
			t.Errorf("no example has\n%s", b[1])
		}
	}
	_, drawing, _ := strings.Cut(sources, "// Phase is where a loop stands.\n//\n")
	drawing, _, _ = strings.Cut(drawing, "//\n")
	if drawing = strings.ReplaceAll(drawing, "//\t", ""); !strings.Contains(string(page), "```\n"+drawing+"```") {
		t.Errorf("it does not draw the loop as agents.Phase does:\n%s", drawing)
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
