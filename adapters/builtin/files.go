package builtin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/braise-run/braise/internal/passages"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/runtime"
)

// The most that one walk over files reads.
const (
	MaxWalkFiles = 20_000
	MaxWalkBytes = 64 << 20 // of all files together
)

// Files returns the files below a base folder. A link to a file that leaves the base folder is an error. Steps that
// index files get all text files, in UTF-8: hidden files and folders, binary files and links to folders are left out,
// one file may have FileOptions.MaxBytes, and all together MaxWalkBytes.
func Files(opts FileOptions) runtime.Files { return folder(opts) }

type folder FileOptions

// Walk implements runtime.Files.
func (f folder) Walk(
	ctx context.Context, in, match string, visit func(name string, data []byte) error,
) error {
	in, opts := filepath.ToSlash(filepath.Clean(cmp.Or(in, "."))), FileOptions(f)
	if _, err := path.Match(match, ""); err != nil {
		return refuse("match %q is not a pattern of files: %w", match, err)
	}
	root, err := opts.open(in, "")
	if err != nil {
		return refuse("files in %q: %w", in, plain(err))
	}
	defer root.Close()
	files, left, hidden := 0, int64(MaxWalkBytes), opts.hidden()
	return fs.WalkDir(root.FS(), in, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return refuse("files in %q: %w", in, plain(err))
		case ctx.Err() != nil:
			return ctx.Err()
		case name != in && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		below := strings.TrimPrefix(name, strings.TrimPrefix(in+"/", "./"))
		if !matches(strings.Split(match, "/"), strings.Split(below, "/")) {
			return nil
		}
		if hidden.has(root, name) {
			return nil
		}
		data, err := opts.text(root, name)
		if err != nil {
			return refuse("file %q: %w", name, plain(err))
		}
		if data == nil {
			return nil
		}
		if files++; files > MaxWalkFiles {
			return refuse("there are more than %d files in %q", MaxWalkFiles, in)
		}
		if left -= int64(len(data)); left < 0 {
			return refuse("the files in %q have more than %d bytes together", in, MaxWalkBytes)
		}
		return visit(name, data)
	})
}

// Read implements runtime.Files.
func (f folder) Read(_ context.Context, name string, most int64) ([]byte, error) {
	opts := FileOptions(f)
	opts.MaxBytes = most
	data, err := opts.bytes(filepath.FromSlash(name), "")
	return data, plain(err)
}

// text reads a file; nil: it is no text file.
func (opts FileOptions) text(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	f, err := regular.OpenIn(root, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const sniffed = 8 << 10 // shows whether it is text, before its size matters
	data, err := io.ReadAll(io.LimitReader(f, sniffed))
	if err != nil || !passages.IsText(data, len(data) == sniffed) {
		return nil, err
	}
	limit := or(opts.MaxBytes, DefaultMaxBytes)
	rest, err := io.ReadAll(io.LimitReader(f, limit+1))
	if data = append(data, rest...); err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it has more than %d bytes", limit)
	}
	if !passages.IsText(data, false) {
		return nil, nil
	}
	return data, nil
}

// matches reports whether a pattern fits a path, both in parts.
func matches(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		return matches(pattern[1:], name) || len(name) > 0 && matches(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	ok, _ := path.Match(pattern[0], name[0]) // it was checked
	return ok && matches(pattern[1:], name[1:])
}
