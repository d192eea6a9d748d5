package recipe

import (
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/yamlnode"
)

// Format rewrites a recipe in the canonical layout and keeps its comments. What it says does not
// change, and formatting it again changes nothing.
//
// The keys that the format itself defines come in a fixed order, unknown ones after them as they
// stand. Names and data of the author are never reordered: inputs, consts, steps, agents, what
// stands under with, schemas. There is one blank line between the blocks of the file and between
// steps; elsewhere blank lines stay, at most one in a row. Lists and mappings in brackets stay so
// where they fit into 80 columns and hold no comment. Quotes go where they are not needed; the
// lines of a text are never broken or joined.
//
// In a file that is no recipe, such as a braise.yaml, keys stay where they are. A file whose name ends in .json
// stays JSON: it is indented, and all else stays as it is.
//
// Only a file that is not YAML or JSON, or YAML beyond what recipes may use, is refused, with a
// [*diagnostics.Error]; unknown keys and other mistakes are not.
func Format(filename string, data []byte) ([]byte, error) {
	out, found := yamlnode.Format(filename, data, func(document *yamlnode.Node, path []string) yamlnode.Layout {
		l := layout(path)
		if !slices.ContainsFunc(document.Fields, ofRecipe) {
			l.Order = nil
		}
		return l
	})
	return out, found.Err()
}

// ofRecipe reports whether an entry at the top makes a file a recipe. A braise.yaml has keys of the same names, whose
// order is its author's.
func ofRecipe(f yamlnode.Field) bool {
	return slices.Contains([]string{"apiVersion", "name", "inputs", "steps"}, f.Key)
}

// stepOrder is how a step is read: what it is, when it runs, what it does, what its outcome means.
var stepOrder = strings.Fields("description tags uses needs trigger when foreach with output" +
	" on_error on_indeterminate retry timeout rollback idempotency_key priority limits")

// titleKeys is how many keys, at the top of the file, need no blank line between them.
const titleKeys = 5

// keyOrders holds the order of the keys of the format's own objects, by the path to them. "*" is
// any one key.
var keyOrders = []struct {
	path  []string
	order []string
}{
	{nil, topObject.known},
	{[]string{"requires"}, requiresObject.known},
	{[]string{"defaults"}, defaultsObject.known},
	{[]string{"limits"}, limitsObject.known},
	{[]string{"defaults", "retry"}, retriesObject.known},
	{[]string{"defaults", "retry", "*"}, retryObject.known},
	{[]string{"agents", "*"}, agentObject.known},
	{[]string{"tools", "*"}, toolObject.known},
	{[]string{"steps", "*"}, stepOrder},
	{[]string{"steps", "*", "foreach"}, foreachObject.known},
	{[]string{"steps", "*", "output"}, outputObject.known},
	{[]string{"steps", "*", "output", "check", "*"}, checkObject.known},
	{[]string{"steps", "*", "retry"}, retryObject.known},
	{[]string{"steps", "*", "limits"}, stepLimitsObject.known},
	{[]string{"steps", "*", "rollback"}, rollbackObject.known},
}

// layout is the layout of the mapping at path.
func layout(path []string) yamlnode.Layout {
	var l yamlnode.Layout
	switch {
	case len(path) == 0:
		l.Spaced, l.Tight = true, titleKeys
	case slices.Equal(path, []string{"steps"}):
		l.Spaced = true
	}
	same := func(want, key string) bool { return want == "*" || want == key }
	for _, o := range keyOrders {
		if slices.EqualFunc(o.path, path, same) {
			l.Order = o.order
		}
	}
	return l
}
