//go:build unix

package builtin_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/braise-run/braise/adapters/builtin"
)

// folder makes a base folder beside a secret that lies outside of it.
func folder(t *testing.T) (base string) {
	t.Helper()
	top := t.TempDir()
	base = filepath.Join(top, "base")
	for _, err := range []error{
		os.Mkdir(base, 0o755),
		os.Mkdir(filepath.Join(base, "sub"), 0o755),
		os.WriteFile(filepath.Join(top, "secret"), []byte("secret"), 0o644),
		os.WriteFile(filepath.Join(base, "note"), []byte("grüße"), 0o644),
		os.WriteFile(filepath.Join(base, "binary"), []byte{0xff, 0xfe}, 0o644),
		os.Symlink("note", filepath.Join(base, "inside")),
		os.Symlink("../secret", filepath.Join(base, "outside")),
		os.Symlink(filepath.Join(base, "note"), filepath.Join(base, "absolute")),
		os.Symlink("..", filepath.Join(base, "up")),
		syscall.Mkfifo(filepath.Join(base, "pipe"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return base
}

func TestFileRead(t *testing.T) {
	tool := builtin.FileRead(builtin.FileOptions{Base: folder(t), MaxBytes: 7})
	for _, path := range []string{"note", "inside", "sub/../note", "./note"} {
		if got, err := call(t.Context(), t, tool, args{"path": path}); err != nil || got["content"] != "grüße" {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
}

func TestFileReadRefuses(t *testing.T) {
	base := folder(t)
	tool := builtin.FileRead(builtin.FileOptions{Base: base, MaxBytes: 6})
	for _, tt := range []struct{ path, want string }{
		{"../secret", "leaves the base folder"},
		{"sub/../../secret", "leaves the base folder"},
		{filepath.Join(base, "note"), "leaves the base folder"},
		{"", "leaves the base folder"},
		{"outside", "escapes"},
		{"absolute", "escapes"},
		{"up/secret", "escapes"},
		{"sub", "a folder, not a regular file"},
		{".", "a folder"},
		{"pipe", "a device or a pipe, not a regular file"},
		{"missing", "no such file"},
		{"binary", "not UTF-8 text"},
		{"note", "larger than 6 bytes"},
	} {
		_, err := call(t.Context(), t, tool, args{"path": tt.path})
		checkError(t, err, `read "`+tt.path+`": `, tt.want)
	}
}

func TestFileReadOfAMissingBase(t *testing.T) {
	tool := builtin.FileRead(builtin.FileOptions{Base: filepath.Join(t.TempDir(), "nowhere")})
	_, err := call(t.Context(), t, tool, args{"path": "note"})
	checkError(t, err, "the base folder", "nowhere", "no such file")
}

func TestFileWrite(t *testing.T) {
	base := filepath.Join(t.TempDir(), "not", "yet")
	tool := builtin.FileWrite(builtin.FileOptions{Base: base})
	for _, tt := range []struct {
		args  args
		bytes float64
		want  string
	}{
		{args{"path": "a/b/c.txt", "content": "grüße"}, 7, "grüße"},
		{args{"path": "a/b/c.txt", "content": "new"}, 3, "new"},
		{args{"path": "a/b/c.txt", "content": "er", "append": true}, 2, "newer"},
		{args{"path": "log", "content": "1", "append": true}, 1, "1"},
		{args{"path": "log", "content": "2", "append": true}, 1, "12"},
		{args{"path": "log", "content": ""}, 0, ""},
	} {
		got, err := call(t.Context(), t, tool, tt.args)
		if err != nil || got["bytes"] != tt.bytes {
			t.Errorf("%v gave %v, %v", tt.args, got, err)
		}
		path := filepath.Join(base, tt.args["path"].(string))
		if content, err := os.ReadFile(path); err != nil || string(content) != tt.want {
			t.Errorf("after %v the file holds %q, %v", tt.args, content, err)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".braise-*")); left != nil {
			t.Errorf("after %v there is %v", tt.args, left)
		}
	}
	if info, err := os.Stat(filepath.Join(base, "log")); err != nil || info.Mode().Perm()&0o111 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A file that is replaced keeps its mode: trust 8.6.
func TestFileWriteKeepsModes(t *testing.T) {
	base := folder(t)
	tool := builtin.FileWrite(builtin.FileOptions{Base: base})
	for name, mode := range map[string]os.FileMode{"run.sh": 0o755, "private": 0o600, "shared": 0o666, "sub/read-only": 0o444} {
		path := filepath.Join(base, name)
		if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := call(t.Context(), t, tool, args{"path": name, "content": "new"}); err != nil {
			t.Fatal(err)
		}
		content, _ := os.ReadFile(path)
		if info, err := os.Stat(path); err != nil || info.Mode() != mode || string(content) != "new" {
			t.Errorf("%s: %q with mode %v, %v, want %v", name, content, info.Mode(), err, mode)
		}
	}
}

func TestFileWriteRefuses(t *testing.T) {
	base := folder(t)
	tool := builtin.FileWrite(builtin.FileOptions{Base: base, MaxBytes: 10})
	for _, tt := range []struct{ path, want string }{
		{"../new", "leaves the base folder"},
		{"/tmp/new", "leaves the base folder"},
		{"up/new", "escapes"},
		{"up/new/er", "escapes"},
		{"outside", "a symbolic link"},
		{"inside", "a symbolic link"},
		{"sub", "a folder"},
		{".", "a folder"},
		{"pipe", "a pipe"},
		{"note/below", "not a directory"},
		{".git/config", "git's own files"}, // trust 8.6
		{"sub/.Git/hooks/post-commit", "git's own files"},
		{".git", "git's own files"},
	} {
		for _, add := range []bool{false, true} {
			_, err := call(t.Context(), t, tool, args{"path": tt.path, "content": "new", "append": add})
			checkError(t, err, `write "`+tt.path+`": `, tt.want)
		}
	}
	_, err := call(t.Context(), t, tool, args{"path": "big", "content": strings.Repeat("x", 11)})
	checkError(t, err, "larger than 10 bytes")

	for _, name := range []string{"secret", "base/note"} {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(base), name))
		if err != nil || string(content) == "new" {
			t.Errorf("%s holds %q, %v", name, content, err)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(base), "new")); err == nil {
		t.Error("a file was made outside of the base folder")
	}
}
