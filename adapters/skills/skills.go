// Package skills loads the skills of agents from folders, by the Agent Skills convention: each skill
// is a folder with a SKILL.md. See docs/skills.md.
//
// It reads files only when an agent that lists skills runs, and then only the SKILL.md of these skills.
// It never executes anything.
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
	"regexp"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/runtime"
)

// File is the name of the file that makes a folder a skill.
const File = "SKILL.md"

// MaxBytes is how large a SKILL.md may be.
const MaxBytes = 1 << 20

// Folder is a runtime.SkillLoader of the skills in one folder: its folders with a SKILL.md. The zero Folder is the
// working folder.
type Folder struct {
	// Scope says whose skills these are: "admin", "repo", "system" or "user". It is noted with each
	// skill; "": nothing is.
	Scope string

	fsys fs.FS  // nil: dir
	dir  string // "": the working folder
}

// Dir returns the skills in a folder. It does no I/O. Symbolic links that lead out of the folder are
// refused. The Path of a skill begins with dir.
func Dir(dir string) Folder { return Folder{dir: dir} }

// FS returns the skills in a file system, such as an embed.FS.
func FS(fsys fs.FS) Folder { return Folder{fsys: fsys} }

// Folders is a runtime.SkillLoader of the skills in several folders. Where two have a skill of one name, the
// first counts.
type Folders []Folder

// skillName matches the names of skills. None has more than maxName bytes.
var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

const maxName = 64

// scopes are those that a Folder may have.
var scopes = []string{"", "admin", "repo", "system", "user"}

// open returns the files of f and where they are, for people.
func (f Folder) open() (fsys fs.FS, where string, done func() error, err error) {
	if !slices.Contains(scopes, f.Scope) {
		return nil, "", nil, fmt.Errorf("skills: unknown scope %q\n  hint: it is admin, repo, system or user", f.Scope)
	}
	if f.fsys != nil {
		return f.fsys, "", func() error { return nil }, nil
	}
	where = filepath.ToSlash(filepath.Clean(f.dir))
	root, err := os.OpenRoot(cmp.Or(f.dir, ".")) // which no link leads out of
	if err != nil {
		return nil, "", nil, fmt.Errorf("skills: the folder %q cannot be opened: %w", where, cause(err))
	}
	return regular.FS(root), where, root.Close, nil
}

// cause is an error without the path, which messages have already.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Names returns the names of the skills in a folder, sorted. It reads none of them: Load may still refuse one.
func (f Folder) Names() ([]string, error) {
	fsys, _, done, err := f.open()
	if err != nil {
		return nil, err
	}
	defer done()
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("skills: the folder cannot be read: %w", cause(err))
	}
	var names []string
	for _, e := range entries {
		if info, err := fs.Stat(fsys, path.Join(e.Name(), File)); err == nil && !info.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Load implements runtime.SkillLoader. The error names the first skill that does not exist, or is
// a *diagnostics.Error with all that is wrong in one SKILL.md.
func (f Folder) Load(ctx context.Context, names []string) ([]runtime.Skill, error) {
	return Folders{f}.Load(ctx, names)
}

// Load implements runtime.SkillLoader, see [Folder.Load].
func (all Folders) Load(ctx context.Context, names []string) ([]runtime.Skill, error) {
	var loaded []runtime.Skill
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		skill, err := all.find(name)
		if err != nil {
			return nil, err
		}
		loaded = append(loaded, skill)
	}
	return loaded, nil
}

func (all Folders) find(want string) (runtime.Skill, error) {
	if len(want) > maxName || !skillName.MatchString(want) {
		return runtime.Skill{}, fmt.Errorf("skills: %.70q is not the name of a skill\n  hint: %s", want, nameHint)
	}
	for _, f := range all {
		skill, err := f.load(want)
		if !errors.Is(err, errNone) {
			return skill, err
		}
	}
	var known []string
	for _, f := range all {
		names, err := f.Names()
		if err != nil {
			return runtime.Skill{}, err
		}
		known = append(known, names...)
	}
	message := fmt.Sprintf("skills: there is no skill %q", want)
	if hint := diagnostics.DidYouMean(want, known); hint != "" {
		message += "\n  hint: " + hint
	}
	return runtime.Skill{}, errors.New(message)
}

// errNone says that a folder has no such skill.
var errNone = errors.New("no such skill")

func (f Folder) load(name string) (runtime.Skill, error) {
	fsys, where, done, err := f.open()
	if err != nil {
		return runtime.Skill{}, err
	}
	defer done()
	if _, err := fs.Stat(fsys, name); errors.Is(err, fs.ErrNotExist) {
		return runtime.Skill{}, errNone
	}
	inside := path.Join(name, File)
	shown := path.Join(where, inside)
	data, err := readText(fsys, inside, MaxBytes)
	if err != nil {
		return runtime.Skill{}, fmt.Errorf("skills: %s: %w", shown, err)
	}
	return parse(runtime.Skill{Scope: f.Scope, Name: name, Path: shown}, data)
}
