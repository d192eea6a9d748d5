package builtin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// configName is what a configuration is called where it is found by itself.
const configName = "braise.yaml"

// mayWrite refuses a path in root at which something stands that says what runs do, by whatever name: git's own files,
// a configuration, and what opts.Keep has.
func (opts FileOptions) mayWrite(ctx context.Context, root *os.Root, path string) error {
	for part := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if strings.EqualFold(part, ".git") {
			return errors.New("git's own files may not be written: they say which programs git runs")
		}
	}
	if strings.EqualFold(filepath.Base(path), configName) {
		return kept(configName)
	}
	if opts.hidden().has(root, path) {
		return errHidden
	}
	if opts.Keep == nil {
		return nil
	}
	for _, keep := range opts.Keep(ctx) {
		if isOrBelow(root, path, keep) {
			return kept(filepath.Base(keep))
		}
	}
	return nil
}

func kept(name string) error {
	return fmt.Errorf("%s may not be written: it says what runs do, or keeps them"+
		"\n  hint: give runs a folder of their own: tools: {file: {base: ./work}} in braise.yaml", name)
}

// sameFile reports whether a path in root is a file or a folder, or would be.
func sameFile(root *os.Root, path, file string) bool {
	if there, err := os.Stat(file); err == nil {
		if info, err := root.Stat(path); err == nil && os.SameFile(info, there) {
			return true
		}
	}
	folder, err := os.Stat(filepath.Dir(file))
	if err != nil || !strings.EqualFold(filepath.Base(path), filepath.Base(file)) {
		return false
	}
	info, err := root.Stat(filepath.Dir(path))
	return err == nil && os.SameFile(info, folder)
}

// isOrBelow reports whether a path in root is a file or a folder, or below it, or would be.
func isOrBelow(root *os.Root, path, kept string) bool {
	for path = filepath.Clean(path); ; path = filepath.Dir(path) {
		if sameFile(root, path, kept) {
			return true
		}
		if path == "." || path == filepath.Dir(path) {
			return false
		}
	}
}
