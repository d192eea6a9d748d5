package builtin_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/braise-run/braise/adapters/builtin"
)

// trust 8.6: what says what runs do, or keeps them, is not written to, by whatever name.
func TestFileWriteKeeps(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	for _, name := range []string{"base/conf/in-use.yaml", "base/agents/critic.md", "base/runs/one.jsonl", "base/other.txt", "outside.yaml"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"alias": "conf", "store": "runs"} { // folders by other names
		if err := os.Symlink(to, filepath.Join(base, name)); err != nil {
			t.Skip(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "outside.yaml"), filepath.Join(base, "hard.yaml")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(base, filepath.Join(dir, "by-link")); err != nil { // the host may name files by links as well
		t.Skip(err)
	}
	keep := []string{filepath.Join(dir, "by-link", "conf", "in-use.yaml"), filepath.Join(base, "agents", "critic.md"),
		filepath.Join(base, "runs"), filepath.Join(dir, "outside.yaml"), filepath.Join(base, "runs.db-wal"), filepath.Join(base, "soon")}
	tool := builtin.FileWrite(builtin.FileOptions{Base: base, Keep: func(context.Context) []string { return keep }})
	for _, path := range []string{
		"conf/in-use.yaml", "conf/../conf/./in-use.yaml", "alias/in-use.yaml", "conf/IN-USE.yaml",
		"agents/critic.md", "agents/Critic.MD", "runs/one.jsonl", "runs/new.jsonl", "runs/deep/new", "store/one.jsonl",
		"hard.yaml", "runs.db-wal", "RUNS.db-wal", "soon", "soon/new.md", "Soon/deep/new.md",
		"braise.yaml", "deep/Braise.YAML",
	} {
		for _, add := range []bool{false, true} {
			_, err := call(t.Context(), t, tool, args{"path": path, "content": "new", "append": add})
			checkError(t, err, `write "`+path+`": `, "may not be written")
		}
	}
	for _, path := range []string{"other.txt", "conf/other.yaml", "agents/new.md", "runs.db", "braise.yml.txt", "deep/er/x"} {
		if _, err := call(t.Context(), t, tool, args{"path": path, "content": "new"}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, name := range []string{"base/conf/in-use.yaml", "base/agents/critic.md", "base/runs/one.jsonl", "outside.yaml"} {
		if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != "old" {
			t.Errorf("%s holds %q, %v", name, content, err)
		}
	}
	if _, err := os.Stat(filepath.Join(base, "braise.yaml")); err == nil {
		t.Error("there is a braise.yaml")
	}
}
