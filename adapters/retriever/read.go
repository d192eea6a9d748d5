package retriever

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/braise-run/braise/internal/passages"
	"github.com/braise-run/braise/internal/regular"
)

// read cuts all text files of the folder into passages, in the order of their paths.
func (x *Index) read(ctx context.Context) ([]passage, error) {
	root, err := os.OpenRoot(x.dir) // which no link leads out of
	if err != nil {
		return nil, bare(err)
	}
	defer root.Close()
	var list []passage
	files, left := 0, x.opts.MaxBytes
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%q: %w", name, bare(err))
		case ctx.Err() != nil:
			return ctx.Err()
		case name != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		text, err := x.file(root, name)
		if err != nil {
			return fmt.Errorf("%q: %w", name, bare(err))
		}
		if text == "" {
			return nil
		}
		if files++; files > x.opts.MaxFiles {
			return fmt.Errorf("there are more than %d files", x.opts.MaxFiles)
		}
		if left -= int64(len(text)); left < 0 {
			return fmt.Errorf("the files have more than %d bytes together", x.opts.MaxBytes)
		}
		cut, err := passages.Of(name, []byte(text), passages.Options{})
		if err != nil { // it is only named like one
			cut, err = passages.Of(name, []byte(text), passages.Options{Type: passages.Text})
		}
		for _, p := range cut {
			list = append(list, passage{name, p})
		}
		return err
	})
	return list, err
}

// sniffed is how much of a file shows whether it is text, before its size matters.
const sniffed = 8 << 10

// file returns the text of a file; "" for what is no text file.
func (x *Index) file(root *os.Root, name string) (string, error) {
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	f, err := regular.OpenIn(root, name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, sniffed))
	if err != nil || !passages.IsText(data, len(data) == sniffed) {
		return "", err
	}
	rest, err := io.ReadAll(io.LimitReader(f, x.opts.MaxFileBytes+1))
	if data = append(data, rest...); err != nil {
		return "", err
	}
	if int64(len(data)) > x.opts.MaxFileBytes {
		return "", fmt.Errorf("it has more than %d bytes", x.opts.MaxFileBytes)
	}
	if !passages.IsText(data, false) {
		return "", nil
	}
	return string(bytes.TrimPrefix(data, []byte("\uFEFF"))), nil
}

// bare is an error without its path, which the one around it names.
func bare(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}
