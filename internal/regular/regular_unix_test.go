//go:build unix

package regular_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/braise-run/braise/internal/regular"
)

// What is no regular file is refused, and not waited for: trust 6.10.
func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for name, target := range map[string]string{"to-pipe": "pipe", "to-file": "file", "to-device": "/dev/zero"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	fsys := regular.FS(root)
	for name, wrong := range map[string]string{ // "": none
		"file": "", "to-file": "", "pipe": "not a regular file", "to-pipe": "not a regular file", "socket": "", "folder": "a folder",
		"to-device": "not a regular file", "missing": "no such file",
	} {
		wants := map[string]string{"ReadFile": wrong, "FS": wrong}
		switch name {
		case "socket": // it cannot be opened at all
			wants = map[string]string{"ReadFile": "no such device", "FS": "no such device"}
		case "to-device":
			wants["FS"] = "escapes"
		case "folder":
			wants["FS"] = "is a directory"
		}
		got := map[string]func() ([]byte, error){
			"ReadFile": func() ([]byte, error) { return regular.ReadFile(filepath.Join(dir, name)) },
			"FS":       func() ([]byte, error) { return fs.ReadFile(fsys, name) },
		}
		for how, want := range wants {
			text, err := got[how]()
			if want == "" && (err != nil || string(text) != "text") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("trust 6.10 %s(%s) = %q, %v, want %q", how, name, text, err, want)
			}
		}
	}
	names, err := fs.Glob(fsys, "*")
	if err != nil || len(names) != 7 {
		t.Errorf("%q, %v", names, err)
	}
}
