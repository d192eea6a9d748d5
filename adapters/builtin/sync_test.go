package builtin_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/builtin"
)

// file.write brings file and folder to the disk before it reports: trust 6.5.
func TestFileWriteSyncs(t *testing.T) {
	base := t.TempDir()
	var synced []string
	fails := ""
	defer builtin.OnSync(func(f *os.File) error {
		name, err := filepath.Rel(base, f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, ".braise-") {
			name = "the new content"
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			name += "/"
			if _, err := os.Stat(filepath.Join(base, "x")); err != nil && name == "./" {
				t.Errorf("trust 6.5: the folder is synced before the file is in its place")
			}
		}
		synced = append(synced, name)
		if name == fails {
			return errors.New("the disk is gone")
		}
		return nil
	})()
	write := builtin.FileWrite(builtin.FileOptions{Base: base})
	for _, tt := range []struct {
		args  args
		fails string
		want  []string
	}{
		{args{"path": "x", "content": "1"}, "", []string{"the new content", "./"}},
		{args{"path": "x", "content": "2"}, "", []string{"the new content", "./"}},
		{args{"path": "x", "content": "3", "append": true}, "", []string{"x", "./"}},
		{args{"path": "a/b/y", "content": "4"}, "", []string{"the new content", "a/b/", "a/", "./"}},
		{args{"path": "a/b/y", "content": "5"}, "", []string{"the new content", "a/b/"}},
		{args{"path": "x", "content": "6"}, "the new content", []string{"the new content"}},
		{args{"path": "x", "content": "7"}, "./", []string{"the new content", "./"}},
		{args{"path": "x", "content": "8", "append": true}, "x", []string{"x"}},
	} {
		synced, fails = nil, tt.fails
		_, err := call(t.Context(), t, write, tt.args)
		if tt.fails != "" {
			checkError(t, err, "the disk is gone")
		} else if err != nil {
			t.Errorf("trust 6.5 %v: %v", tt.args, err)
		}
		if diff := cmp.Diff(tt.want, synced); diff != "" {
			t.Errorf("trust 6.5 %v: synced (-want +got)\n%s", tt.args, diff)
		}
	}
}
