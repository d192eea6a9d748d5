// Package regular opens files that are regular files, and refuses folders, devices, pipes and sockets: to read one may
// wait forever, or never end. It does not wait for the other side of a pipe to find out.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"
)

// Open opens the file at path for reading. The error is a *fs.PathError.
func Open(path string) (*os.File, error) {
	return OpenFile(path, os.O_RDONLY, 0)
}

// OpenFile opens the file at path, as [os.OpenFile] does. The error is a *fs.PathError.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	return checked(os.OpenFile(path, flag|syscall.O_NONBLOCK, perm))
}

// ReadFile reads the file at path. The error is a *fs.PathError.
func ReadFile(path string) ([]byte, error) { return ReadFileUpTo(path, math.MaxInt64) }

// ReadFileUpTo reads the file at path, if it has at most so many bytes. The error is a *fs.PathError.
func ReadFileUpTo(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d bytes", most)}
	}
	return io.ReadAll(f)
}

// OpenIn opens a file of a folder with flag, as [os.Root.OpenFile] does. The error is a *fs.PathError.
func OpenIn(root *os.Root, name string, flag int) (*os.File, error) {
	return checked(root.OpenFile(name, flag|syscall.O_NONBLOCK, 0o644))
}

func checked(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		if err = Check(info); err == nil {
			return f, nil
		}
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: err}
	}
	f.Close()
	return nil, err
}

// Check says what is no regular file; nil for one.
func Check(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return errors.New("a folder, not a regular file")
	case mode&fs.ModeSymlink != 0:
		return errors.New("a symbolic link, not a regular file")
	}
	return errors.New("a device or a pipe, not a regular file")
}

// FS returns the files of a folder: folders, and what else is a regular file.
func FS(root *os.Root) fs.FS { return files{root.FS(), root} }

type files struct {
	fs.FS
	root *os.Root
}

// Open implements fs.FS.
func (f files) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if info, err := f.root.Stat(name); err == nil && info.IsDir() {
		return f.FS.Open(name)
	}
	file, err := OpenIn(f.root, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// ReadDir implements fs.ReadDirFS.
func (f files) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(f.FS, name) }

// Stat implements fs.StatFS.
func (f files) Stat(name string) (fs.FileInfo, error) { return fs.Stat(f.FS, name) }
