package yamlnode

import (
	"bytes"
	"reflect"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
)

// Layout says how Format writes one mapping. The zero Layout keeps the order of the keys and the
// blank lines between them.
type Layout struct {
	Order  []string // keys that come first, in this order; the others follow as they stand
	Spaced bool     // a blank line between entries; else only where there is one already
	Tight  int      // with Spaced: no blank line is added between the first Tight keys of Order
}

// Format rewrites a document in the canonical layout: two spaces of indentation, one space before
// a comment, collections in brackets only where they fit into 80 columns and hold no comment,
// quotes only where they are needed, keys in the order of layout, which is asked for every mapping
// of the document by the path of keys to it ("[]" for an item of a list).
//
// Every comment stays beside what it stood beside. Formatting twice changes nothing more, and the
// document says the same as before: this is checked, and a text for which it would not hold is
// refused with an error. A document that [Parse] refuses is refused with the same diagnostics.
//
// A JSON file stays JSON: it is indented by two spaces, and all else stays as it is.
func Format(
	filename string, data []byte, layout func(document *Node, path []string) Layout,
) ([]byte, diagnostics.List) {
	// 1. One kind of line break, no byte order mark.
	text := bytes.TrimPrefix(data, []byte("\uFEFF"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	// 2. The values, and where they stand.
	node, found := Parse(filename, text, nil)
	if found.HasErrors() {
		return nil, found
	}
	var r Reader
	if node.Kind != List && node.Kind != Map {
		r.WrongType(node, "a mapping")
		return nil, r.Diagnostics
	}
	// 3. Print them.
	var out []byte
	if isJSON(filename) {
		out = indentJSON(text)
	} else if out = printYAML(&r, filename, text, node, layout); out == nil {
		return nil, r.Diagnostics
	}
	// 4. The same values as before.
	again, found := Parse(filename, out, nil)
	if len(found) > 0 && found[0].Code == diagnostics.CodeTooLarge { // lists take more room than brackets
		return nil, found
	}
	if found.HasErrors() || !reflect.DeepEqual(node.Decoded(), again.Decoded()) {
		r.Errorf(node.Pos, diagnostics.CodeSyntax, "", "cannot be formatted without changing what it says")
		return nil, r.Diagnostics
	}
	return out, nil
}

// printYAML prints a document in the canonical layout; nil when it has reported why it cannot.
func printYAML(
	r *Reader, filename string, text []byte, node *Node, layout func(document *Node, path []string) Layout,
) []byte {
	text = hideDirective(text)
	if at := bytes.IndexAny(text, "\u0085\u2028\u2029"); at >= 0 {
		c := newCursor(filename, text)
		c.seekByte(at)
		r.Errorf(c.position(), diagnostics.CodeSyntax, "write it as an escape in double quotes",
			"an invisible line break")
		return nil
	}
	// 1. What stands between the values: comments and blank lines.
	root := readComments(filename, string(text), node)
	// 2. Order and print.
	arrange(root.value, nil, func(path []string) Layout { return layout(node, path) })
	var p printer
	p.document(root)
	return []byte(p.String())
}

// entry is a field of a mapping or an item of a list, with its comments. A comment's text begins
// with "#"; the text "" is a blank line.
type entry struct {
	name  string // the key; "" for an item
	key   string // the key as it stands in the file; "" for an item
	head  []string
	line  []string // comments on the same line; no blank lines
	value *item
	foot  []string
}

// item is a value with the comments inside it.
type item struct {
	node  *Node
	empty bool // null, written as nothing

	text  string   // of a scalar other than a block scalar, as it stands in the file
	block byte     // '|' or '>' of a block scalar, else 0
	lines []string // of a block scalar, without indentation and trailing blank lines

	collection bool
	flow       bool // in brackets
	column     int  // of the entries of a collection that is not in brackets; from 1
	entries    []*entry
	foot       []string
	commented  bool // holds a comment
	layout     Layout
}

// arrange puts the entries of v and of all that is inside in order.
func arrange(v *item, path []string, layout func([]string) Layout) {
	if v.node.Kind == Map {
		v.layout = layout(path)
		slices.SortStableFunc(v.entries, func(a, b *entry) int { return v.rank(a) - v.rank(b) })
	}
	v.commented = len(v.foot) > 0
	for _, e := range v.entries {
		name := e.name
		if v.node.Kind == List {
			name = "[]"
		}
		arrange(e.value, append(path[:len(path):len(path)], name), layout)
		blank := func(s string) bool { return s == "" }
		v.commented = v.commented || e.value.commented || len(e.line)+len(e.foot) > 0 ||
			len(slices.DeleteFunc(slices.Clone(e.head), blank)) > 0
	}
}

// rank is the place of e in the layout's order; the same for all that are not in it.
func (v *item) rank(e *entry) int {
	if i := slices.Index(v.layout.Order, e.name); i >= 0 {
		return i
	}
	return len(v.layout.Order)
}

// spaced reports whether the layout wants a blank line between two entries.
func (v *item) spaced(a, b *entry) bool {
	return v.layout.Spaced && (v.rank(a) >= v.layout.Tight || v.rank(b) >= v.layout.Tight)
}

// trailingBreaks counts the line breaks at the end of a block scalar's value.
func (v *item) trailingBreaks() int {
	s := v.node.Value.(string)
	return len(s) - len(strings.TrimRight(s, "\n"))
}
