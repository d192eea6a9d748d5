package recipe

import (
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// layers is a recipe file laid over those that it extends, before it is read.
type layers struct {
	root  *yamlnode.Node      // nil: it is no YAML
	files []string            // the file itself, then what it extends, what that extends, and so on
	steps map[string][]string // by id, the files that say what a step is, as positions name them, the last one first
}

// layers reads a file that is named at from, with those that it extends.
func (l *loader) layers(file string, from diagnostics.Position) (*layers, bool) {
	data, ok := l.readOnce(file, from)
	if !ok {
		return nil, false
	}
	root, found := yamlnode.Parse(l.shown(file), data, &yamlnode.Options{MaxDepth: maxDepth})
	l.found = append(l.found, found...)
	t := &layers{root: root, files: []string{file}, steps: map[string][]string{}}
	for _, f := range t.section("steps") {
		t.steps[f.Key] = []string{l.shown(file)}
	}
	extends := t.field("extends")
	if extends == nil || extends.Kind != yamlnode.String || extends.Value == "" || isTemplate(extends) {
		return t, true // what is wrong with it is reported when it is read
	}
	name := Name{Text: extends.Value.(string), Pos: extends.Pos}
	target, ok := l.find(file, name)
	if !ok {
		return t, true
	}
	if at := slices.Index(l.chain, target); at >= 0 {
		l.Errorf(name.Pos, diagnostics.CodeRecursion, "", "a recipe that extends itself: %s",
			strings.Join(append(slices.Clone(l.chain[at:]), target), " → "))
		return t, true
	}
	l.chain = append(l.chain, target)
	base, ok := l.layers(target, name.Pos)
	l.chain = l.chain[:len(l.chain)-1]
	if ok && base.root != nil && base.root.Kind != yamlnode.Map {
		l.Errorf(base.root.Pos, diagnostics.CodeWrongType, "", "a recipe must be a mapping")
		return t, true
	}
	if ok && base.root != nil {
		l.over(t, base)
	}
	return t, true
}

// walk reads what the layers make together.
func (l *loader) walk(t *layers) *walker {
	w := &walker{Reader: yamlnode.Reader{Hints: hints}, recipe: &Recipe{File: l.shown(t.files[0])},
		layers: make(map[string]string, len(t.files))}
	for _, file := range slices.Backward(t.files) {
		w.layers[l.shown(file)] = file
	}
	if t.root == nil {
		return w
	}
	w.top(t.root)
	for i := range w.recipe.Steps {
		s := &w.recipe.Steps[i]
		if from := t.steps[s.ID]; len(from) > 1 || len(from) == 1 && from[0] != w.recipe.File {
			s.Files = from
		}
	}
	return w
}

// fileOf returns the file that a position is in, of those that the recipe is made of; otherwise other.
func (w *walker) fileOf(pos diagnostics.Position, other string) string {
	if file, ok := w.layers[pos.File]; ok {
		return file
	}
	return other
}

func (t *layers) field(key string) *yamlnode.Node {
	if t.root != nil {
		for _, f := range t.root.Fields {
			if f.Key == key {
				return f.Value
			}
		}
	}
	return nil
}

// section returns the entries of a mapping at the top of the file.
func (t *layers) section(key string) []yamlnode.Field {
	if n := t.field(key); n != nil {
		return n.Fields
	}
	return nil
}

// Keys of a recipe that are its own, and those whose entries are laid over one by one. Of the others the last one
// counts.
var (
	ownKeys = []string{"apiVersion", "name", "version", "description", "tags", "extends"}
	byEntry = []string{"requires", "inputs", "consts", "defaults", "limits", "channels", "tools", "finally"}
)

// over lays t over base:
//
//   - of inputs, consts and other mappings of names, entry by entry
//   - of agents and steps, key by key; of steps also the keys of with. A step with uses is a new one
//   - null removes an entry or a key, also at the top, but for steps
//   - whatever else t says replaces what base says
func (l *loader) over(t, base *layers) {
	steps := make(map[string][]string, len(base.steps))
	for id, files := range base.steps {
		steps[id] = files
	}
	root := *t.root
	root.Fields = slices.DeleteFunc(slices.Clone(base.root.Fields),
		func(f yamlnode.Field) bool { return slices.Contains(ownKeys, f.Key) || strings.HasPrefix(f.Key, "x-") })
	for _, f := range t.root.Fields {
		i := slices.IndexFunc(root.Fields, func(b yamlnode.Field) bool { return b.Key == f.Key })
		switch {
		case i < 0 && f.Key != "steps":
			root.Fields = append(root.Fields, f)
		case f.Key == "steps":
			below := &yamlnode.Node{Kind: yamlnode.Map}
			if i >= 0 {
				below = root.Fields[i].Value
				root.Fields = slices.Delete(root.Fields, i, i+1)
			}
			merged := l.stepsOver(f.Value, below, steps, t.steps)
			root.Fields = append(root.Fields, yamlnode.Field{Key: f.Key, Pos: f.Pos, Value: merged})
		case f.Value.Kind == yamlnode.Null:
			root.Fields = slices.Delete(root.Fields, i, i+1)
		case slices.Contains(byEntry, f.Key):
			root.Fields[i].Value = entriesOver(f.Value, root.Fields[i].Value, replaced)
		case f.Key == "agents":
			root.Fields[i].Value = entriesOver(f.Value, root.Fields[i].Value,
				func(n, below *yamlnode.Node) *yamlnode.Node { return entriesOver(n, below, replaced) })
		default:
			root.Fields[i] = f
		}
	}
	t.root, t.files, t.steps = &root, append(t.files, base.files...), steps
}

// stepsOver is over for steps. known has the files of each step of the base, own those of the others; it becomes that
// of the result.
func (l *loader) stepsOver(n, base *yamlnode.Node, known, own map[string][]string) *yamlnode.Node {
	if n.Kind == yamlnode.Map && base.Kind == yamlnode.Map {
		var ids []string
		for _, f := range base.Fields {
			ids = append(ids, f.Key)
		}
		mine := *n
		mine.Fields = slices.DeleteFunc(slices.Clone(n.Fields), func(f yamlnode.Field) bool {
			wrong := f.Value.Kind == yamlnode.Null && !slices.Contains(ids, f.Key)
			if wrong {
				l.Errorf(f.Pos, diagnostics.CodeUnknownName, diagnostics.DidYouMean(f.Key, ids),
					"there is no step %q to remove", f.Key)
			}
			return wrong
		})
		n = &mine
	}
	for id, files := range own {
		known[id] = append(slices.Clone(files), known[id]...)
	}
	return entriesOver(n, base, func(n, below *yamlnode.Node) *yamlnode.Node {
		if n.Kind != yamlnode.Map {
			return n
		}
		for _, f := range n.Fields {
			if f.Key == "uses" && f.Value.Kind != yamlnode.Null {
				known[n.Key] = own[n.Key]
				return n
			}
		}
		return entriesOver(n, below, func(n, below *yamlnode.Node) *yamlnode.Node {
			if n.Key == "with" {
				return entriesOver(n, below, replaced)
			}
			return n
		})
	})
}

func replaced(n, _ *yamlnode.Node) *yamlnode.Node { return n }

// entriesOver lays a mapping over another: entries of n that base has too go through each, and null removes them.
// Anything but two mappings is n.
func entriesOver(n, base *yamlnode.Node, each func(n, base *yamlnode.Node) *yamlnode.Node) *yamlnode.Node {
	if n.Kind != yamlnode.Map || base.Kind != yamlnode.Map {
		return n
	}
	merged := *n
	merged.Fields = slices.Clone(base.Fields)
	at := make(map[string]int, len(base.Fields))
	for i, f := range base.Fields {
		at[f.Key] = i
	}
	removed := map[string]bool{}
	for _, f := range n.Fields {
		i, ok := at[f.Key]
		switch {
		case !ok:
			merged.Fields = append(merged.Fields, f)
		case f.Value.Kind == yamlnode.Null:
			removed[f.Key] = true
		default:
			merged.Fields[i] = yamlnode.Field{Key: f.Key, Pos: f.Pos, Value: each(f.Value, base.Fields[i].Value)}
		}
	}
	merged.Fields = slices.DeleteFunc(merged.Fields, func(f yamlnode.Field) bool { return removed[f.Key] })
	return &merged
}
