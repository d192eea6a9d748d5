package skills

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/runtime"
)

// InstructionsFile is the name of the files that [Instructions] finds.
const InstructionsFile = "AGENTS.md"

// MaxInstructions is how many bytes the files that Instructions finds may have together.
const MaxInstructions = 64 << 10

// Instructions returns an environment of agents that work in the folder dir: its instructions are the AGENTS.md
// of root, of dir and of all folders between, from root on, so that the nearest has the last word. root
// has to hold dir; "" is dir alone. dir "" is the working folder. It has no tools.
//
// Files are read when an agent begins. More than MaxInstructions, text that is not UTF-8 and links
// that lead out of root are errors.
func Instructions(dir, root string) runtime.Env { return env{dir, root} }

type env struct{ dir, root string }

func (env) Tools() []runtime.Tool { return nil }

func (e env) Instructions(ctx context.Context) (string, error) {
	root, folders, err := e.folders()
	if err != nil {
		return "", fmt.Errorf("instructions: %w", err)
	}
	files, err := os.OpenRoot(root) // which no link leads out of
	if err != nil {
		return "", fmt.Errorf("instructions: %w", err)
	}
	defer files.Close()
	var found []string
	total := 0
	for _, folder := range folders {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		name := path.Join(folder, InstructionsFile)
		text, err := readText(regular.FS(files), name, MaxInstructions)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if total += len(text); err == nil && total > MaxInstructions {
			err = fmt.Errorf("with those above it, it has more than %d bytes", MaxInstructions)
		}
		if err != nil {
			return "", fmt.Errorf("instructions: %s: %w", name, err)
		}
		if text := strings.TrimSpace(string(text)); text != "" {
			found = append(found, "From "+name+":\n\n"+text)
		}
	}
	return strings.Join(found, "\n\n"), nil
}

// folders returns the root, and the folders from there to dir, relative to it.
func (e env) folders() (root string, folders []string, err error) {
	dir, err := resolve(e.dir)
	if err != nil {
		return "", nil, err
	}
	if root, err = resolve(cmp.Or(e.root, e.dir)); err != nil {
		return "", nil, err
	}
	below, err := filepath.Rel(root, dir)
	if err != nil || !filepath.IsLocal(below) {
		return "", nil, fmt.Errorf("the folder %q is not in %q", e.dir, e.root)
	}
	folders, folder := []string{"."}, "."
	for part := range strings.SplitSeq(filepath.ToSlash(below), "/") {
		if folder = path.Join(folder, part); folder != "." {
			folders = append(folders, folder)
		}
	}
	return root, folders, nil
}

// resolve returns the absolute path of a folder, without links.
func resolve(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}
