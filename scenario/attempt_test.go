package scenario

import (
	"os"
	"testing"
)

// Whatever the random part of their names is, the folders of attempts have names of one length.
func TestTempDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	length := 0
	for range 300 {
		dir, err := tempDir()
		if err != nil {
			t.Fatal(err)
		}
		if length == 0 {
			length = len(dir)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 || len(dir) != length {
			t.Fatalf("%s: %v, %v, want %d bytes", dir, info, err, length)
		}
	}
}
