package builtin

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"syscall"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/runtime"
)

// FileOptions say what file.read and file.write may do.
type FileOptions struct {
	// Base is the folder that all paths are relative to and that none may leave, symbolic links
	// included. "": the working folder. file.write makes it when it is missing. The calls of an agent with a
	// [runtime.CallInfo.Cwd] have that folder below it instead.
	Base string
	// MaxBytes limits what one call reads or writes; more is an error. Defaults to 4 MiB.
	MaxBytes int64
	// Keep returns the files that file.write may not write to, and the folders below which it may not: those that say
	// what runs do, and those that keep them. The context is the call's. None need be there. nil: none but
	// braise.yaml and .git.
	Keep func(context.Context) []string
	// Hide are folders whose files are neither read nor written, by whatever name, such as one with secrets; steps that
	// index files pass over them. A folder need not be there. nil: none.
	Hide []string
}

type readArgs struct {
	Path string `json:"path"`
}

type readResult struct {
	Content string `json:"content"`
}

var readParameters = json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"type": "string", "description": "relative to the base folder"}
  }
}`)

// FileRead returns the tool file.read. Its result is {content}, the text of a regular file in
// UTF-8.
func FileRead(opts FileOptions) runtime.Tool {
	return tool[readArgs]{
		spec: runtime.ToolSpec{
			Name:        "file.read",
			Description: "Read a text file.",
			Parameters:  readParameters,
			Result:      "{content}",
			Effect:      runtime.ReadOnly,
		},
		call: func(ctx context.Context, in readArgs) (any, error) {
			content, err := opts.read(in.Path, cwdOf(ctx))
			if err != nil {
				return nil, refuse("read %q: %w", in.Path, plain(err))
			}
			return readResult{string(content)}, nil
		},
	}
}

func (opts FileOptions) read(path, cwd string) ([]byte, error) {
	content, err := opts.bytes(path, cwd)
	if err == nil && !utf8.Valid(content) {
		return nil, errors.New("not UTF-8 text\n  hint: a program run by exec.run can print it as base64")
	}
	return content, err
}

// bytes reads a regular file.
func (opts FileOptions) bytes(path, cwd string) ([]byte, error) {
	root, err := opts.open(path, cwd)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if opts.hidden().has(root, path) {
		return nil, errHidden
	}
	f, err := regular.OpenIn(root, path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit := or(opts.MaxBytes, DefaultMaxBytes)
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(content)) > limit:
		return nil, fmt.Errorf("larger than %d bytes", limit)
	}
	return content, nil
}

type writeArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Append  bool   `json:"append"`
}

type writeResult struct {
	Bytes int `json:"bytes"`
}

var writeParameters = json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["path", "content"],
  "properties": {
    "path": {"type": "string", "description": "relative to the base folder; missing folders are made"},
    "content": {"type": "string", "description": "the text"},
    "append": {"type": "boolean", "default": false, "description": "add to the end of the file"}
  }
}`)

// FileWrite returns the tool file.write. Its result is {bytes}, how many were written. A file is
// replaced as a whole (readers see the old or the new content, nothing between), except with
// append. Before the call returns, file and folder are on the disk. New files have mode 0644, less the umask. Only
// regular files are written to, through no symbolic link in the path's last element.
//
// The effect is idempotent; with append it is external.
func FileWrite(opts FileOptions) runtime.Tool {
	return tool[writeArgs]{
		spec: runtime.ToolSpec{
			Name:        "file.write",
			Description: "Write a text file.",
			Parameters:  writeParameters,
			Result:      "{bytes}",
			Effect:      runtime.Idempotent,
			EffectOf: effectOf(func(in writeArgs) runtime.Effect {
				if in.Append {
					return runtime.External
				}
				return runtime.Idempotent
			}),
		},
		call: func(ctx context.Context, in writeArgs) (any, error) {
			if err := opts.write(ctx, in); err != nil {
				return nil, refuse("write %q: %w", in.Path, plain(err))
			}
			return writeResult{len(in.Content)}, nil
		},
	}
}

func (opts FileOptions) write(ctx context.Context, in writeArgs) error {
	if limit := or(opts.MaxBytes, DefaultMaxBytes); int64(len(in.Content)) > limit {
		return fmt.Errorf("the content is larger than %d bytes", limit)
	}
	cwd := cwdOf(ctx)
	if err := opts.makeFolders(cwd); err != nil {
		return err
	}
	root, err := opts.open(in.Path, cwd)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := opts.mayWrite(ctx, root, in.Path); err != nil {
		return err
	}
	folder, made := filepath.Dir(in.Path), false
	mode := fs.FileMode(0o644) // of a new file
	switch info, err := root.Lstat(in.Path); {
	case errors.Is(err, fs.ErrNotExist):
		_, err := root.Stat(folder)
		made = errors.Is(err, fs.ErrNotExist)
		if err := root.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return regular.Check(info)
	default:
		mode = info.Mode().Perm()
	}

	if in.Append {
		f, err := regular.OpenIn(root, in.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
		if err != nil {
			return err
		}
		if err := fill(f, in.Content); err != nil {
			return err
		}
		return syncFolders(root, folder, made)
	}
	temp := filepath.Join(folder, ".braise-"+rand.Text())
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = fill(f, in.Content)
	if err == nil && mode != 0o644 {
		err = root.Chmod(temp, mode) // what the process takes from new files is not taken from this one
	}
	if err == nil {
		err = root.Rename(temp, in.Path)
	}
	if err != nil {
		_ = root.Remove(temp) // the first error says more
		return err
	}
	return syncFolders(root, folder, made)
}

// makeFolders makes the base folder, and cwd below it.
func (opts FileOptions) makeFolders(cwd string) error {
	base := cmp.Or(opts.Base, ".")
	if err := os.MkdirAll(base, 0o755); err != nil || cwd == "" {
		return err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Stat(cwd); !errors.Is(err, fs.ErrNotExist) {
		return nil // open says what is wrong with it
	}
	if err := root.MkdirAll(cwd, 0o755); err != nil {
		return fmt.Errorf("the agent's folder %q: %w", cwd, plain(err))
	}
	return syncFolders(root, filepath.Dir(filepath.Clean(cwd)), true)
}

// fill writes content to the end of f, brings it to the disk and closes f.
func fill(f *os.File, content string) error {
	_, err := f.WriteString(content)
	if err == nil {
		err = syncFile(f)
	}
	return errors.Join(err, f.Close())
}

// syncFile is a variable for tests, which cannot cut the power.
var syncFile = (*os.File).Sync

// syncFolders brings the entries of a folder to the disk, and those of the folders around it where they may be new.
func syncFolders(root *os.Root, folder string, upwards bool) error {
	if goruntime.GOOS == "windows" {
		return nil // it cannot sync a folder
	}
	f, err := root.OpenFile(folder, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(syncFile(f), f.Close()); err != nil || !upwards || folder == "." {
		return err
	}
	return syncFolders(root, filepath.Dir(folder), true)
}

// cwdOf returns the folder of the agent that makes a call, below that of the tool; "" is that one.
func cwdOf(ctx context.Context) string {
	info, _ := runtime.CallOf(ctx)
	return info.Cwd
}

// open opens the base folder, or cwd below it, for a path that is inside as far as its spelling goes; os.Root sees
// to it that links do not lead out.
func (opts FileOptions) open(path, cwd string) (*os.Root, error) {
	if !filepath.IsLocal(path) {
		return nil, errors.New("the path leaves the base folder" +
			"\n  hint: paths are relative to tools.file.base in braise.yaml")
	}
	root, err := os.OpenRoot(cmp.Or(opts.Base, "."))
	if err != nil {
		return nil, fmt.Errorf("the base folder: %w", err)
	}
	if cwd == "" {
		return root, nil
	}
	defer root.Close()
	below, err := root.OpenRoot(cwd)
	if err != nil {
		return nil, fmt.Errorf("the agent's folder %q: %w", cwd, plain(err))
	}
	return below, nil
}

// plain takes the path off an error: the message has it, as the recipe spells it.
func plain(err error) error {
	if pathErr, ok := err.(*fs.PathError); ok {
		return pathErr.Err
	}
	return err
}
