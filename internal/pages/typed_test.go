package pages_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite sessions of pages that show something else")

// The pages with sessions, each typed from its text alone.
func TestPages(t *testing.T) {
	for _, pattern := range []string{"start/*.md", "howto/*.md", "troubleshooting.md"} {
		pages, err := filepath.Glob("../../docs/" + pattern)
		if err != nil || len(pages) == 0 {
			t.Fatal(pattern, err)
		}
		for _, page := range pages {
			t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
				t.Parallel()
				typePage(t, page)
			})
		}
	}
}

// typePage types a page, and fails where it shows something else.
func typePage(t *testing.T, page string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t, environment(t, page)...)
	lines := strings.SplitAfter(string(text), "\n")
	commands := 0
	for _, b := range blocks(string(text)) {
		switch {
		case b.file != "":
			b.write(t, s.dir)
		case b.language == "console":
			for _, c := range sessions(b) {
				commands++
				output, code := s.run(t, c.command)
				good := fits(c.shown, output)
				if c.shown == "" {
					good = code == 0
				}
				if good {
					continue
				}
				if *update {
					lines[c.line-1] = "$ " + strings.ReplaceAll(c.command, "\n", "\n> ") + "\n" + mask(output)
					for i := range strings.Count(c.command, "\n") + strings.Count(c.shown, "\n") {
						lines[c.line+i] = ""
					}
					continue
				}
				t.Errorf("%s:%d: $ %s\nexit code %d, shown\n%s\nappears\n%s", page, c.line, c.command, code, c.shown, output)
			}
		case b.language == "diff", b.language == "txtar", b.language == "yaml" && strings.HasPrefix(b.text, "apiVersion:"):
			t.Errorf("%s:%d: no line above names the file", page, b.line)
		}
	}
	if commands == 0 {
		t.Errorf("%s has no session", page)
	}
	if now := strings.Join(lines, ""); *update && now != string(text) {
		if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// environment is what a page finds that no page can bring along.
func environment(t *testing.T, page string) []string {
	t.Helper()
	return nil
}
