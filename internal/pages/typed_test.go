package pages_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/npmtest"
)

var update = flag.Bool("update", false, "rewrite sessions of pages that show something else")

// The pages with sessions, each typed from its text alone.
func TestPages(t *testing.T) {
	for _, pattern := range []string{"start/*.md", "howto/*.md", "troubleshooting.md"} {
		pages, err := filepath.Glob("../../docs/" + pattern)
		if err != nil {
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
	s := newShell(t, arrange(t, page)...)
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

// arrange provides what a page takes from elsewhere, and returns the variables that say where it is.
func arrange(t *testing.T, page string) (env []string) {
	t.Helper()
	tools := t.TempDir()
	path := "PATH=" + tools + ":" + bin + ":" + os.Getenv("PATH")
	stand := func(program, script string) {
		if err := os.WriteFile(filepath.Join(tools, program), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	switch filepath.Base(page) {
	case "agent.md": // what npx -y would download is installed already
		server := npmtest.Program(t, "@modelcontextprotocol/server-filesystem", "2026.8.31", "mcp-server-filesystem")
		stand("npx", `shift 2; exec `+server+` "$@"`)
	case "go.md": // go get takes this checkout
		root, err := filepath.Abs("../..")
		if err != nil {
			t.Fatal(err)
		}
		real, err := exec.LookPath("go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"GOMODCACHE", "GOCACHE"} {
			value, err := exec.Command(real, "env", name).Output()
			if err != nil {
				t.Fatal(err)
			}
			env = append(env, name+"="+strings.TrimSpace(string(value)))
		}
		stand("go", strings.NewReplacer("GO", real, "ROOT", root).Replace(`[ "$1" = get ] || exec GO "$@"
sed 's|^module .*|module example.com/support|' ROOT/go.mod >go.mod && cp ROOT/go.sum . &&
GO mod edit -require=github.com/braise-run/braise@v0.0.0 -replace=github.com/braise-run/braise=ROOT`))
	}
	return append(env, path)
}
