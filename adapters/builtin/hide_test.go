package builtin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/builtin"
)

// What is hidden is neither read nor written nor indexed, by whatever name.
func TestFilesAreHidden(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	for _, name := range []string{"base/secrets/..v1/TOKEN", "base/secrets/plain", "base/real.txt", "base/free.txt", "base/sub/free.txt"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text of "+filepath.Base(name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"base/secrets/..data": "..v1", "base/secrets/TOKEN": "..data/TOKEN", "base/secrets/far": "../real.txt",
		"base/alias": "secrets", "base/link.txt": "secrets/plain", "by-link": "base/secrets",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	if err := os.Link(filepath.Join(base, "secrets", "plain"), filepath.Join(base, "hard.txt")); err != nil {
		t.Skip(err)
	}
	for _, hide := range []string{filepath.Join(base, "secrets"), filepath.Join(dir, "by-link")} {
		opts := builtin.FileOptions{Base: base, Hide: []string{filepath.Join(dir, "gone"), hide}}
		read, write := builtin.FileRead(opts), builtin.FileWrite(opts)
		for _, path := range []string{"secrets/TOKEN", "secrets/plain", "secrets/..data/TOKEN", "secrets/..v1/TOKEN", "sub/../secrets/plain",
			"alias/plain", "link.txt", "hard.txt", "real.txt", "secrets/new", "alias/new"} {
			_, err := call(t.Context(), t, read, args{"path": path})
			checkError(t, err, `read "`+path+`": the host keeps this file to itself`)
			_, err = call(t.Context(), t, write, args{"path": path, "content": "new"})
			checkError(t, err, `write "`+path+`": the host keeps this file to itself`)
		}
		if _, err := call(t.Context(), t, read, args{"path": "sub/free.txt"}); err != nil {
			t.Error(err)
		}
		if _, err := call(t.Context(), t, write, args{"path": "sub/new.txt", "content": "text of new.txt"}); err != nil {
			t.Error(err)
		}
		files := builtin.Files(opts)
		if _, err := files.Read(t.Context(), "secrets/plain", 100); err == nil {
			t.Error("a hidden file was read")
		}
		var got []string
		err := files.Walk(t.Context(), ".", "**", func(name string, _ []byte) error {
			got = append(got, name)
			return nil
		})
		if diff := cmp.Diff("free.txt sub/free.txt sub/new.txt", strings.Join(got, " ")); diff != "" || err != nil {
			t.Errorf("a walk: %v (-want +got):\n%s", err, diff)
		}
	}
}
