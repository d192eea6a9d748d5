//go:build unix

package pages_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// block is a fenced block of a page.
type block struct {
	language string
	file     string // the file that the block is, or changes; ""
	text     string
	line     int // of its first line, from 1
}

var fileName = regexp.MustCompile("`([^` ]+)`:$")

// blocks returns the fenced blocks of a page.
func blocks(page string) (all []block) {
	above, in := "", false
	for i, line := range strings.SplitAfter(page, "\n") {
		bare := strings.TrimSuffix(line, "\n")
		fence := strings.HasPrefix(bare, "```")
		switch {
		case fence && !in:
			b := block{language: strings.TrimPrefix(bare, "```"), line: i + 2}
			if m := fileName.FindStringSubmatch(above); m != nil {
				b.file = m[1]
			}
			all, in = append(all, b), true
		case fence:
			above, in = "", false
		case in:
			all[len(all)-1].text += line
		case bare != "":
			above = bare
		}
	}
	return all
}

// write makes the file of a block, or changes it.
func (b *block) write(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, b.file)
	text := b.text
	if b.language == "diff" {
		old, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var from, to strings.Builder
		for line := range strings.Lines(b.text) {
			switch rest := line[1:]; line[0] {
			case '-':
				from.WriteString(rest)
			case '+':
				to.WriteString(rest)
			default:
				from.WriteString(rest)
				to.WriteString(rest)
			}
		}
		if n := strings.Count(string(old), from.String()); n != 1 {
			t.Fatalf("line %d: %s has %d times\n%s", b.line, b.file, n, &from)
		}
		text = strings.Replace(string(old), from.String(), to.String(), 1)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// whole is what a whole recipe has.
var whole = regexp.MustCompile(`(?ms)^apiVersion:.*^steps:`)

// Whole recipes of pages that have no sessions compile.
func TestRecipesOfPages(t *testing.T) {
	found := 0
	for _, name := range pageNames(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks(string(text)) {
			if b.language != "yaml" || !whole.MatchString(b.text) || b.file != "" {
				continue
			}
			found++
			r, err := recipe.Parse(name, []byte(b.text))
			if err == nil {
				_, err = workflow.Compile(r, nil)
			}
			if err != nil {
				t.Errorf("%s:%d: %v", name, b.line, err)
			}
		}
	}
	if found == 0 {
		t.Error("no page has a whole recipe")
	}
}

// The plan in docs/concepts.md is that of the recipe in the tutorial which it names.
func TestPlanOfConcepts(t *testing.T) {
	concepts, err := os.ReadFile("../../docs/concepts.md")
	if err != nil {
		t.Fatal(err)
	}
	tutorial, err := os.ReadFile("../../docs/start/approval-and-crash.md")
	if err != nil {
		t.Fatal(err)
	}
	r, err := recipe.Parse("recipe.yaml", []byte(blocks(string(tutorial))[0].text))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "```mermaid\n" + wf.Plan().Mermaid() + "```"; !strings.Contains(string(concepts), want) {
		t.Errorf("it does not have\n%s", want)
	}
}

// pageNames are the files of all pages.
func pageNames(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../docs/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, files...)
	}
	return names
}
