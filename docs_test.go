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

// Links of pages lead somewhere, and docs/README.md leads to every page.
func TestDocsLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]*)(#[^)]*)?\)`)
	linked := map[string][]string{} // by page
	for _, page := range docPages(t) {
		text := withoutBlocks(read(t, page))
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor := page, strings.TrimPrefix(m[2], "#")
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			linked[page] = append(linked[page], target)
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s: %v", page, err)
			} else if anchor != "" && (info.IsDir() || !slices.Contains(anchors(read(t, target)), anchor)) {
				t.Errorf("%s: %s has no heading for #%s", page, target, anchor)
			}
		}
	}
	for _, page := range docPages(t) {
		kind := strings.HasPrefix(page, "docs/kinds/")
		switch {
		case !kind && strings.HasPrefix(page, "docs/") && page != "docs/README.md" && !slices.Contains(linked["docs/README.md"], page):
			t.Errorf("docs/README.md does not link %s", page)
		case kind && !slices.Contains(linked["docs/control-flow.md"], page):
			t.Errorf("docs/control-flow.md does not link %s", page)
		}
	}
}

// docPages are the files of all pages.
func docPages(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		pages = append(pages, files...)
	}
	return pages
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// withoutBlocks returns a page with empty lines in the place of its fenced blocks.
func withoutBlocks(page string) string {
	var b strings.Builder
	in := false
	for line := range strings.Lines(page) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if in || fence {
			line = "\n"
		}
		in = in != fence
		b.WriteString(line)
	}
	return b.String()
}

// anchors are the names of a page's headings, as GitHub makes them.
func anchors(page string) (all []string) {
	for line := range strings.Lines(withoutBlocks(page)) {
		title := strings.TrimLeft(line, "#")
		if title == line {
			continue
		}
		title = regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		all = append(all, strings.ReplaceAll(title, " ", "-"))
	}
	return all
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
	goStandsIn(t, string(page), sources)
	_, drawing, _ := strings.Cut(sources, "// Phase is where a loop stands.\n//\n")
	drawing, _, _ = strings.Cut(drawing, "//\n")
	if drawing = strings.ReplaceAll(drawing, "//\t", ""); !strings.Contains(string(page), "```\n"+drawing+"```") {
		t.Errorf("it does not draw the loop as agents.Phase does:\n%s", drawing)
	}
}

// The Go of docs/serve.md stands in an example, which runs.
func TestServePage(t *testing.T) {
	goStandsIn(t, read(t, "docs/serve.md"), "\t"+strings.ReplaceAll(read(t, "worker/notify_example_test.go"), "\n", "\n\t"))
}

// goStandsIn reports the Go of a page that sources do not have, one tab deeper.
func goStandsIn(t *testing.T, page, sources string) {
	t.Helper()
	blocks := regexp.MustCompile("(?s)\n```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Error("it has no Go")
	}
	for _, b := range blocks {
		indented := strings.ReplaceAll("\t"+strings.TrimSpace(b[1]), "\n", "\n\t")
		if !strings.Contains(strings.ReplaceAll(sources, "\n\t\n", "\n\n"), strings.ReplaceAll(indented, "\n\t\n", "\n\n")) {
			t.Errorf("no example has\n%s", b[1])
		}
	}
}
