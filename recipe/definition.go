package recipe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// definitionFormat is the version of what Definition writes.
const definitionFormat = 1

// maxDefinition limits a definition in bytes: escaped, all but strange texts are less than twice as
// long as they were.
const maxDefinition = 2*maxBytes + 1<<20

// origin is what a recipe was read from.
type origin struct {
	main   string            // a key of files
	files  map[string][]byte // by path
	names  map[string]string // what positions call files, where that is not their path
	parsed bool              // by Parse: main is any name, and no other file was opened
	inGo   map[string]string // see Recipe.AgentsInGo; only of a definition
}

// Files are the names of the files that the recipe was read from, as positions have them, sorted; nil of one that was
// built in Go.
func (r *Recipe) Files() (names []string) {
	if r.origin == nil {
		return nil
	}
	for _, file := range value.SortedKeys(r.origin.files) {
		names = append(names, cmp.Or(r.origin.names[file], file))
	}
	return names
}

// definition is the JSON of a definition.
type definition struct {
	Format int               `json:"format"`
	Main   string            `json:"main"`
	Files  map[string]string `json:"files"`
	Names  map[string]string `json:"names"`
	Parsed bool              `json:"parsed"`
	Agents map[string]string `json:"agents"` // in Go
}

// Definition returns what [FromDefinition] makes the recipe of again: a canonical JSON object with
// the text of every file that was read. It is nil for a recipe that was built in Go and for one
// that another one calls; an error for one that was read with errors, and for a text so full of
// control characters that it takes more than 33 MiB of JSON.
//
// Recipes whose texts differ only in what Digest leaves out have one Digest and different
// definitions.
func (r *Recipe) Definition() (json.RawMessage, error) {
	o := r.origin
	if o == nil {
		return nil, nil
	}
	if err := r.Diagnostics.Err(); err != nil {
		return nil, fmt.Errorf("a recipe with errors has no definition: %w", err)
	}
	object := map[string]any{"format": int64(definitionFormat), "main": o.main}
	files := make(map[string]any, len(o.files))
	for file, data := range o.files {
		files[file] = string(data)
	}
	object["files"] = files
	if len(o.names) > 0 {
		names := make(map[string]any, len(o.names))
		for file, shown := range o.names {
			names[file] = shown
		}
		object["names"] = names
	}
	if o.parsed {
		object["parsed"] = true
	}
	if len(r.inGo) > 0 {
		object["agents"] = inGoEssence(r.inGo)
	}
	text, err := value.JSON(object)
	if err == nil && len(text) > maxDefinition {
		err = fmt.Errorf("the definition of recipe %q has more than %d bytes", r.Name, maxDefinition)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// FromDefinition makes a recipe of what [Recipe.Definition] returned, and opens no file: a recipe
// with the same Digest, whose positions name the same files. What Load refuses is refused here too,
// with its error.
func FromDefinition(data []byte) (*Recipe, error) {
	o, err := readOrigin(data)
	if err != nil {
		return nil, fmt.Errorf("the definition of a recipe is damaged: %w", err)
	}
	var r *Recipe
	if o.parsed {
		r, err = parse(o.main, o.files[o.main], true)
	} else {
		r, err = load(stored{o}, o.main)
	}
	if err != nil {
		return nil, err
	}
	if len(o.inGo) > 0 {
		return r.WithAgentsInGo(o.inGo)
	}
	return r, nil
}

// readOrigin reads and checks the JSON of a definition. How large the files are is left to load.
func readOrigin(data []byte) (*origin, error) {
	if len(data) > maxDefinition {
		return nil, fmt.Errorf("it has more than %d bytes", maxDefinition)
	}
	var d definition
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("there is something after it")
	}
	o := &origin{main: d.Main, files: make(map[string][]byte, len(d.Files)), names: d.Names, parsed: d.Parsed,
		inGo: d.Agents}
	for file, text := range d.Files {
		if !d.Parsed && !fs.ValidPath(file) {
			return nil, fmt.Errorf("%q is not the path of a file", file)
		}
		o.files[file] = []byte(text)
	}
	for file, shown := range d.Names {
		if o.files[file] == nil || shown == "" {
			return nil, fmt.Errorf("it calls the file %q %q", file, shown)
		}
	}
	switch {
	case d.Format != definitionFormat:
		return nil, fmt.Errorf("its format is %d, this version knows %d", d.Format, definitionFormat)
	case o.files[o.main] == nil:
		return nil, fmt.Errorf("it lacks its file %q", o.main)
	case o.parsed && len(o.files) > 1:
		return nil, errors.New("one file was parsed, but it has more")
	}
	return o, nil
}

// stored is the origin of a recipe as files.
type stored struct{ *origin }

func (s stored) read(name string) ([]byte, error) {
	data, ok := s.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return data, nil
}

func (s stored) has(name string) bool { return s.files[name] != nil }

// roots is the number of the last root from which a file was read. What was looked for in others was not there.
func (s stored) roots() int {
	last := 0
	for name := range s.files {
		if n, err := strconv.Atoi(strings.TrimPrefix(mountOf(name), rootsMark)); err == nil {
			last = max(last, n)
		}
	}
	return last
}

func (s stored) shipped() []string { return nil }

func (s stored) markdown(dir string, f func(name string)) error {
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if strings.HasPrefix(name, dir+"/") && path.Ext(name) == ".md" {
			f(name)
		}
	}
	return nil
}

func (s stored) shown(name string) string {
	if shown, ok := s.names[name]; ok {
		return shown
	}
	return name
}
