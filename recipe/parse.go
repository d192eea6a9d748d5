package recipe

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// maxDepth is how deep lists and mappings of a recipe file may be nested: enough for bodies within
// bodies as deep as the format allows, five mappings each at most, and for what stands in the
// innermost.
const maxDepth = 5*maxNesting + 64

// idHint says what ids of steps look like.
const idHint = "use up to 63 of a-z, 0-9 and _, beginning with a letter"

// What ids of steps and names of items look like.
var (
	stepID   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
	itemName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// Parse reads one recipe file. It does not open the files that the recipe names: a {file: …} stays
// as it is and [Body].Recipe is nil. Files that are not found, agents in agents/*.md and recipes
// that call themselves are therefore only seen by [Load].
//
// The error is a [*diagnostics.Error] that holds everything that is wrong, sorted, and also the
// warnings. The recipe then is what could be read, with the same diagnostics as its Diagnostics:
// compiling it finds the mistakes that only a compiler sees, and never succeeds. Warnings of a
// good recipe are in its Diagnostics.
func Parse(filename string, data []byte) (*Recipe, error) { return parse(filename, data, false) }

// parse is Parse. old says that an earlier version may have read the file.
func parse(filename string, data []byte, old bool) (*Recipe, error) {
	w := read(filename, data, old)
	w.linkTools()
	for _, out := range w.schemaFiles {
		w.notLoaded(out)
	}
	checkNesting(w.recipe, &w.Reader)
	w.recipe.Sources = map[string][]byte{filename: data}
	w.recipe.origin = &origin{main: filename, files: w.recipe.Sources, parsed: true}
	return finish(w.recipe, w.Diagnostics)
}

// finish returns the recipe with its warnings and its digest, or what is wrong with it.
func finish(r *Recipe, found diagnostics.List) (*Recipe, error) {
	found.Sort()
	r.Diagnostics = found
	if err := found.Err(); err != nil {
		return r, err
	}
	d := digests{}
	digest, err := d.recipe(r)
	if err != nil {
		return r, fmt.Errorf("recipe: what was read is not JSON: %w", err) // a mistake of this package
	}
	r.Digest = digest
	for sub, digest := range d {
		sub.Digest = digest
	}
	return r, nil
}

// walker turns the nodes of one file into a Recipe and collects what is wrong with them.
type walker struct {
	yamlnode.Reader
	recipe   *Recipe
	refs     []*Body  // bodies in other files
	files    []*Value // of the form {file: path}
	sends    []Name   // the channels of send steps
	receives []Name   // the channels of receive steps
	schemas  int      // the weight of the schemas so far
	misspelt int      // how many of their keywords are
	calls    []*Body  // of the recipe's tools

	schemaFiles []*Output // whose schema has the form {file: path}

}

// read reads a file alone as far as it can; the recipe is never nil.
func read(filename string, data []byte, old bool) *walker {
	w := &walker{Reader: yamlnode.Reader{Hints: hints}, recipe: &Recipe{File: filename}}
	root, found := yamlnode.Parse(filename, data, &yamlnode.Options{MaxDepth: maxDepth, OldJSON: old})
	w.Diagnostics = found
	if root != nil {
		w.top(root)
	}
	return w
}

func (w *walker) top(n *yamlnode.Node) {
	fields := w.object(n, topObject)
	w.word(fields, topObject, "apiVersion")
	r := w.recipe
	r.Name = w.Text(fields["name"])
	r.Version = w.String(fields["version"])
	r.Description = w.String(fields["description"])
	r.Tags = w.strings(fields["tags"])
	r.Requires = w.requires(fields["requires"])
	r.Inputs = w.inputs(fields["inputs"])
	r.Consts = w.values(fields["consts"])
	r.Defaults = w.defaults(fields["defaults"])
	if limits := w.bounds(fields["limits"], limitsObject); limits != nil {
		r.Limits = *limits
	}
	r.Channels = w.channels(fields["channels"])
	r.Agents = w.agents(fields["agents"])
	tools := w.Map(fields["tools"])
	w.declareTools(tools)
	w.tools(tools)
	w.notEmpty(fields["steps"])
	r.Steps = w.steps(fields["steps"], nil)
	w.notEmpty(fields["finally"])
	r.Finally = w.finally(fields["finally"])
	w.checkChannels()
	r.Output = w.value(fields["output"])
}

func (w *walker) requires(n *yamlnode.Node) Requires {
	fields := w.object(n, requiresObject)
	return Requires{
		Capabilities: w.names(fields["capabilities"]),
		Tools:        w.names(fields["tools"]),
		Secrets:      w.names(fields["secrets"]),
	}
}

func (w *walker) defaults(n *yamlnode.Node) Defaults {
	fields := w.object(n, defaultsObject)
	return Defaults{Model: w.Text(fields["model"]), Timeout: w.timeout(fields["timeout"]),
		Retry: w.retries(fields["retry"])}
}

// bounds reads the limits of a run or of a step.
func (w *walker) bounds(n *yamlnode.Node, o *object) *Limits {
	fields := w.object(n, o)
	if fields == nil {
		return nil
	}
	l := &Limits{
		Pos:         n.Pos,
		WallTime:    w.timeout(fields["wall_time"]),
		MaxParallel: w.positive(fields["max_parallel"]),
		Tokens:      w.positive(fields["tokens"]),
		CostUSD:     w.Amount(fields["cost_usd"]),
		ToolCalls:   w.positive(fields["tool_calls"]),
		Pause:       w.word(fields, o, "on_exceeded") == "pause",
	}
	if on := fields["on_exceeded"]; on != nil && fields["wall_time"] == nil && fields["tokens"] == nil &&
		fields["cost_usd"] == nil && fields["tool_calls"] == nil {
		w.Errorf(on.Pos, diagnostics.CodeInvalidValue,
			"give wall_time, tokens, cost_usd or tool_calls, or leave it out",
			"%q means nothing without a limit", on.Key)
	}
	return l
}

// object returns the fields of a mapping that the table describes, by key.
func (w *walker) object(n *yamlnode.Node, o *object) map[string]*yamlnode.Node {
	return w.fields(n, o, o.synonyms)
}

// fields are those of a mapping that the table describes, by key, with other hints for wrong keys.
func (w *walker) fields(n *yamlnode.Node, o *object, hints map[string]string) map[string]*yamlnode.Node {
	fields := w.Object(n, o.known, hints)
	if fields == nil {
		return nil
	}
	for _, key := range o.keys {
		if key.Required {
			w.Require(n, fields, key.Name)
		}
	}
	return fields
}

// word reads a string that must be one of those in the table.
func (w *walker) word(fields map[string]*yamlnode.Node, o *object, key string) string {
	return w.OneOf(fields[key], o.key(key).Allowed...)
}

func (w *walker) positive(n *yamlnode.Node) int { return w.Int(n, 1, math.MaxInt32) }

// names reads a list of strings, each with its place.
func (w *walker) names(n *yamlnode.Node) []Name {
	var names []Name
	for _, item := range w.items(n) {
		if text := w.Text(item); text != "" {
			names = append(names, Name{Text: text, Pos: item.Pos})
		}
	}
	return names
}

func (w *walker) strings(n *yamlnode.Node) []string {
	var list []string
	for _, name := range w.names(n) {
		list = append(list, name.Text)
	}
	return list
}

// items reads a list; a lone string is shown as the list that it should be.
func (w *walker) items(n *yamlnode.Node) []*yamlnode.Node {
	if n != nil && n.Kind == yamlnode.String {
		w.Errorf(n.Pos, diagnostics.CodeWrongType, fmt.Sprintf("write [%s]", n.Value),
			"%q must be a list, not a string", n.Key)
		return nil
	}
	return w.List(n)
}

// condition reads a bare expression.
func (w *walker) condition(n *yamlnode.Node) Condition {
	switch {
	case n == nil || n.Kind == yamlnode.Invalid:
		return Condition{}
	case n.Kind == yamlnode.Bool:
		return Condition{Text: fmt.Sprint(n.Value), Pos: n.Pos, Offset: n.Offset, Indent: n.Indent}
	case n.Kind != yamlnode.String && n.Kind != yamlnode.Null:
		w.WrongType(n, "an expression")
		return Condition{}
	}
	text, _ := n.Value.(string)
	switch {
	case strings.TrimSpace(text) == "":
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "write an expression, or leave the key out",
			"%q may not be empty", n.Key)
	case strings.HasPrefix(strings.TrimSpace(text), "${{"):
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "leave ${{ and }} out", "%q is a bare expression", n.Key)
	default:
		return Condition{Text: text, Pos: n.Pos, Offset: n.Offset, Indent: n.Indent}
	}
	return Condition{}
}

// values reads a mapping of names to any values.
func (w *walker) values(n *yamlnode.Node) []Field {
	w.Map(n)
	if v := w.value(n); v != nil {
		return v.Map
	}
	return nil
}

// value copies a node as it is; nil for nil.
func (w *walker) value(n *yamlnode.Node) *Value {
	if n == nil {
		return nil
	}
	v := &Value{Pos: n.Pos, Offset: n.Offset, Indent: n.Indent, Scalar: n.Value,
		IsList: n.Kind == yamlnode.List, IsMap: n.Kind == yamlnode.Map}
	for _, item := range n.Items {
		v.List = append(v.List, w.value(item))
	}
	v.Map = slices.Grow(v.Map, len(n.Fields))
	for _, f := range n.Fields {
		v.Map = append(v.Map, Field{Key: f.Key, Pos: f.Pos, Value: w.value(f.Value)})
	}
	return v
}

// Field returns the entry of a mapping under a key; nil when v is nil, no mapping, or has no such
// key.
func (v *Value) Field(key string) *Field {
	if v == nil {
		return nil
	}
	for i := range v.Map {
		if v.Map[i].Key == key {
			return &v.Map[i]
		}
	}
	return nil
}

// get returns the value under a key, as Field does.
func (v *Value) get(key string) *Value {
	if f := v.Field(key); f != nil {
		return f.Value
	}
	return nil
}
