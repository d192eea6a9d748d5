package builtin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/builtin"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"base/docs/a.md": "a", "base/docs/deep/er/b.md": "b", "base/docs/c.txt": "c", "base/docs/.hidden.md": "no", "base/docs/.git/d.md": "no",
		"base/docs/binary.md": "a\x00b", "base/docs/latin.md": "\xe9", "base/e.md": "e", "base/docs/empty.md": "", "base/large.txt": strings.Repeat("x", 101),
		"outside.md": "no",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files := builtin.Files(builtin.FileOptions{Base: filepath.Join(dir, "base"), MaxBytes: 100})
	walk := func(in, match string) ([]string, error) {
		var got []string
		err := files.Walk(t.Context(), in, match, func(name string, data []byte) error {
			got = append(got, name+"="+string(data))
			return nil
		})
		return got, err
	}
	for _, tt := range []struct {
		in, match string
		want      []string
		fails     string // the end of the error
	}{
		{in: "docs", match: "**/*.md", want: []string{"docs/a.md=a", "docs/deep/er/b.md=b", "docs/empty.md="}},
		{in: "./docs/", match: "*.md", want: []string{"docs/a.md=a", "docs/empty.md="}},
		{in: "docs", match: "**", want: []string{"docs/a.md=a", "docs/c.txt=c", "docs/deep/er/b.md=b", "docs/empty.md="}},
		{in: "docs", match: "deep/**/b.*", want: []string{"docs/deep/er/b.md=b"}},
		{in: "docs", match: "**/e?/*", want: []string{"docs/deep/er/b.md=b"}},
		{in: ".", match: "*.md", want: []string{"e.md=e"}},
		{in: "docs", match: "nothing"},
		{in: "none", match: "**", fails: `files in "none": no such file or directory`},
		{in: "../", match: "**", fails: "the path leaves the base folder\n  hint: paths are relative to tools.file.base in braise.yaml"},
		{in: "/etc", match: "**", fails: "the path leaves the base folder\n  hint: paths are relative to tools.file.base in braise.yaml"},
		{in: ".", match: "*.txt", fails: `file "large.txt": it has more than 100 bytes`},
		{in: ".", match: "[", fails: `match "[" is not a pattern of files: syntax error in pattern`},
	} {
		got, err := walk(tt.in, tt.match)
		if tt.fails != "" {
			if err == nil || !strings.HasSuffix(err.Error(), tt.fails) {
				t.Errorf("%s %s: %v", tt.in, tt.match, err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s %s: %v\n%s", tt.in, tt.match, err, diff)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "outside.md"), filepath.Join(dir, "base", "docs", "link.md")); err == nil {
		if got, err := walk("docs", "*.md"); err == nil {
			t.Errorf("a link that leads out was read: %v", got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := files.Walk(ctx, ".", "**", func(string, []byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Any regular file below the base is read as it is, and none outside of it.
func TestFilesRead(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	if err := os.MkdirAll(filepath.Join(base, "scans"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"base/scans/a.png": "\x89PNG\xff", "outside.png": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "outside.png"), filepath.Join(base, "link.png")); err != nil {
		t.Skip(err)
	}
	files := builtin.Files(builtin.FileOptions{Base: base, MaxBytes: 1})
	for _, tt := range []struct {
		name  string
		most  int64
		want  string
		fails bool
	}{
		{"scans/a.png", 5, "\x89PNG\xff", false},
		{"scans/a.png", 4, "", true},
		{"gone.png", 5, "", true},
		{"scans", 5, "", true},
		{"link.png", 5, "", true},
		{"../outside.png", 5, "", true},
		{filepath.Join(dir, "outside.png"), 5, "", true},
	} {
		got, err := files.Read(t.Context(), tt.name, tt.most)
		if string(got) != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
}
