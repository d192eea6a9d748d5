package recipe

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// Limits of Load.
const (
	maxFiles     = 1000
	maxFileBytes = 1 << 20
	maxBytes     = 16 << 20 // of all files
	maxNesting   = 64       // of bodies, in files and in place
)

// Load reads a recipe with everything that it names: the recipes of its bodies, the texts of the
// form {file: path}, and the agents in the folder agents beside it. The result needs no
// more files. filename and all paths are slash-separated and below the root of fsys; a path in a recipe
// is relative to that recipe's folder.
//
// Errors are those of [Parse], of all files at once; the recipe is nil only if its file cannot be
// read. Positions have the names of fsys, or those that it gives as a [NamedFS].
func Load(fsys fs.FS, filename string) (*Recipe, error) {
	return (*Library)(nil).Load(fsys, filename)
}

func load(from files, filename string) (*Recipe, error) {
	l := &loader{files: from, sources: map[string][]byte{}, recipes: map[string]*Recipe{}, agents: map[string][]Agent{}}
	r := l.recipe(filename, diagnostics.Position{})
	if r == nil {
		return nil, l.Diagnostics.Err()
	}
	checkNesting(r, &l.Reader)
	r.Sources = make(map[string][]byte, len(l.sources))
	r.origin = &origin{main: filename, files: l.sources, names: map[string]string{}}
	for file, data := range l.sources {
		shown := l.shown(file)
		r.Sources[shown] = data
		if shown != file {
			r.origin.names[file] = shown
		}
	}
	return finish(r, append(l.found, l.Diagnostics...))
}

// loader follows the files that a recipe names; each is read once.
type loader struct {
	yamlnode.Reader // for what it finds itself
	files

	found   diagnostics.List // in the files
	sources map[string][]byte
	bytes   int                // of sources
	recipes map[string]*Recipe // those that are complete
	agents  map[string][]Agent // by folder
	chain   []string           // the files that are being loaded, from the outermost
}

// old reports whether the files are those of a journal, which an earlier version may have read.
func (l *loader) old() bool {
	_, ok := l.files.(stored)
	return ok
}

// recipe loads one recipe file that is named at from, which is zero for the outermost. It returns
// nil when the file was reported.
func (l *loader) recipe(file string, from diagnostics.Position) *Recipe {
	if r := l.recipes[file]; r != nil {
		return r
	}
	if at := slices.Index(l.chain, file); at >= 0 {
		l.Errorf(from, diagnostics.CodeRecursion, "", "a recipe that calls itself: %s",
			strings.Join(append(l.chain[at:], file), " → "))
		return nil
	}
	l.chain = append(l.chain, file)
	defer func() { l.chain = l.chain[:len(l.chain)-1] }()
	data, ok := l.readOnce(file, from)
	if !ok {
		return nil
	}
	w := read(l.shown(file), data, l.old())
	for _, body := range w.refs {
		if target, ok := l.find(file, body.Ref); ok {
			body.Recipe = l.recipe(target, body.Ref.Pos)
		}
	}
	l.texts(w, file)
	l.schemas(w, file)
	l.addAgents(w.recipe, file)
	w.linkTools()
	if !from.IsZero() && !w.recipe.Limits.Pos.IsZero() {
		w.Warnf(w.recipe.Limits.Pos, diagnostics.CodeInvalidValue, "move them to the recipe that is run",
			"the limits of a recipe that another one calls have no effect")
	}
	l.found = append(l.found, w.Diagnostics...)
	l.recipes[file] = w.recipe
	return w.recipe
}

// texts puts the contents of the files in the place of every {file: path} that w found.
func (l *loader) texts(w *walker, from string) {
	for _, v := range w.files {
		name := Name{Text: v.text("file"), Pos: v.get("file").Pos}
		target, ok := l.resolve(from, name)
		if !ok {
			continue
		}
		if data, ok := l.readText(target, name.Pos); ok {
			*v = Value{Pos: diagnostics.Position{File: l.shown(target), Line: 1, Column: 1}, Scalar: string(data)}
		}
	}
	for i := range w.recipe.Agents {
		a := &w.recipe.Agents[i]
		a.Instructions = a.Spec.text("instructions")
	}
}

// schemas reads the JSON Schemas that stand in files, in JSON or YAML. A recipe that was stored without such a file is
// of a time when none was read.
func (l *loader) schemas(w *walker, from string) {
	for _, out := range w.schemaFiles {
		name := Name{Text: out.Schema.text("file"), Pos: out.Schema.get("file").Pos}
		if s, ok := l.files.(stored); ok && s.files[path.Join(path.Dir(from), name.Text)] == nil {
			w.notLoaded(out)
			continue
		}
		target, ok := l.resolve(from, name)
		if !ok {
			continue
		}
		data, ok := l.readText(target, name.Pos)
		if !ok {
			continue
		}
		root, found := yamlnode.Parse(l.shown(target), data, &yamlnode.Options{OldJSON: l.old()})
		l.found = append(l.found, found...)
		switch {
		case root == nil:
		case root.Kind != yamlnode.Map:
			w.WrongType(root, "a JSON Schema")
		default:
			out.SchemaJSON, out.Schema = root.Decoded().(map[string]any), w.value(root)
			w.compile(root, out.SchemaJSON)
		}
	}
}

// notLoaded warns of a schema in a file that is not read.
func (w *walker) notLoaded(out *Output) {
	f := out.Schema.get("file")
	w.Warnf(f.Pos, diagnostics.CodeFile, "read the recipe with recipe.Load",
		"the schema in %q is not loaded, and checks nothing", out.Schema.text("file"))
}

// addAgents adds the agents of the folder agents beside the recipe, and checks that the ids fit together. A file there
// that an agent of the recipe has for its instructions is no agent itself.
func (l *loader) addAgents(r *Recipe, file string) {
	declared := map[string]diagnostics.Position{}
	instructions := map[string]bool{}
	for _, a := range r.Agents {
		declared[a.ID] = a.Pos
		if v := a.Spec.get("instructions"); v != nil {
			instructions[v.Pos.File] = true
		}
	}
	for _, a := range l.agentsIn(path.Join(path.Dir(file), "agents")) {
		if instructions[a.File] {
			continue
		}
		if pos, ok := declared[a.ID]; ok {
			l.Errorf(pos, diagnostics.CodeDuplicateName, "", "the agent %q is defined here and in %s", a.ID, a.File)
			continue
		}
		declared[a.ID] = a.Pos
		r.Agents = append(r.Agents, a)
	}
	ids := slices.Sorted(maps.Keys(declared))
	for _, a := range r.Agents {
		for _, d := range a.Others() {
			if _, ok := declared[d.Text]; !ok && d.Text != "" {
				l.Errorf(d.Pos, diagnostics.CodeUnknownName, diagnostics.DidYouMean(d.Text, ids),
					"there is no agent %q", d.Text)
			}
		}
	}
}

// agentsIn reads the Markdown files below a folder, sorted by id; none when there is no such folder.
func (l *loader) agentsIn(dir string) []Agent {
	if agents, ok := l.agents[dir]; ok {
		return agents
	}
	var agents []Agent
	err := l.markdown(dir, func(file string) {
		if text, ok := l.readText(file, diagnostics.Position{}); ok {
			w, a := readAgent(strings.TrimSuffix(strings.TrimPrefix(file, dir+"/"), ".md"), l.shown(file), text)
			l.texts(w, dir) // relative to the folder of the recipe, too
			a.Instructions = cmp.Or(a.Spec.text("instructions"), a.Instructions)
			l.found = append(l.found, w.Diagnostics...)
			agents = append(agents, a)
		}
	})
	if err != nil {
		l.unreadable(dir, diagnostics.Position{File: l.shown(dir)}, err)
	}
	slices.SortStableFunc(agents, func(a, b Agent) int { return cmp.Compare(a.ID, b.ID) })
	l.agents[dir] = agents
	return agents
}

// resolve turns a path in the file from into one below the root.
func (l *loader) resolve(from string, name Name) (string, bool) {
	target := path.Join(path.Dir(from), name.Text)
	switch {
	case name.Text == "": // reported already
		return "", false
	case strings.Contains(name.Text, `\`):
		l.Errorf(name.Pos, diagnostics.CodeFile, "write / between folders", "%q holds a backslash", name.Text)
	case path.IsAbs(name.Text) || len(name.Text) > 1 && name.Text[1] == ':':
		l.Errorf(name.Pos, diagnostics.CodeFile, "write it relative to this file's folder",
			"%q is an absolute path", name.Text)
	case !fs.ValidPath(target) || mountOf(target) != mountOf(from):
		l.Errorf(name.Pos, diagnostics.CodeFile, "", "%q leaves the folder that recipes may read", name.Text)
	default:
		return target, true
	}
	return "", false
}

// readOnce reads a file that is named at pos.
func (l *loader) readOnce(file string, pos diagnostics.Position) ([]byte, bool) {
	if data, ok := l.sources[file]; ok {
		return data, true
	}
	if pos.IsZero() {
		pos.File = l.shown(file)
	}
	data, err := l.read(file)
	switch {
	case err != nil:
		l.unreadable(file, pos, err)
		return nil, false
	case len(data) > maxFileBytes:
		l.Errorf(pos, diagnostics.CodeTooLarge, "", "%q has more than %d bytes", file, maxFileBytes)
		return nil, false
	case len(l.sources) >= maxFiles || l.bytes+len(data) > maxBytes:
		l.Errorf(pos, diagnostics.CodeTooLarge, "",
			"more than %d files, or %d bytes in all of them", maxFiles, maxBytes)
		return nil, false
	}
	l.bytes += len(data)
	l.sources[file] = data
	return data, true
}

// readText reads a file that is not YAML.
func (l *loader) readText(file string, pos diagnostics.Position) ([]byte, bool) {
	data, ok := l.readOnce(file, pos)
	if ok && !utf8.Valid(data) {
		if pos.IsZero() {
			pos.File = l.shown(file)
		}
		l.Errorf(pos, diagnostics.CodeFile, "save it as UTF-8", "%q is not UTF-8 text", file)
		return nil, false
	}
	return data, ok
}

func (l *loader) unreadable(file string, pos diagnostics.Position, err error) {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	l.Errorf(pos, diagnostics.CodeFile, "", "%q cannot be read: %v", file, err)
}
