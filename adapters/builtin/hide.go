package builtin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

var errHidden = errors.New("the host keeps this file to itself")

// hidden are the folders of FileOptions.Hide, and the files in them.
type hidden struct {
	folders []string
	files   []fs.FileInfo
}

// hidden looks what is in the folders of opts.Hide now.
func (opts FileOptions) hidden() (h hidden) {
	h.folders = opts.Hide
	for _, folder := range opts.Hide {
		if to, err := filepath.EvalSymlinks(folder); err == nil {
			folder = to
		}
		_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it cannot be read, then
			}
			if info, err := os.Stat(path); err == nil && !info.IsDir() { // where a link leads to
				h.files = append(h.files, info)
			}
			return nil
		})
	}
	return h
}

// has reports whether a path in root is that of a hidden file, or below a hidden folder.
func (h hidden) has(root *os.Root, path string) bool {
	if info, err := root.Stat(path); err == nil &&
		slices.ContainsFunc(h.files, func(file fs.FileInfo) bool { return os.SameFile(info, file) }) {
		return true
	}
	return slices.ContainsFunc(h.folders, func(folder string) bool { return isOrBelow(root, path, folder) })
}
