// Package yamlnode reads strict YAML, and JSON, into a small tree of nodes with exact positions.
//
// [Parse] accepts the YAML 1.2 core schema with string keys and nothing else: no aliases, anchors,
// merge keys, tags or second documents. [Reader] reads typed values out of the nodes. Both report
// everything that is wrong instead of stopping at the first diagnostic. A file whose name ends in .json
// is JSON, and internal/value decides what that is.
//
// gopkg.in/yaml.v3 decides what is YAML. It is imported in two files and none of its types leave
// the package.
package yamlnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
)

// Kind is the type of a node's value.
type Kind int

// The kinds of nodes. The zero Kind is Null.
const (
	Null Kind = iota
	Bool
	Int
	Float
	String
	List
	Map
	// Invalid stands where something was already reported; readers pass over it in silence.
	Invalid
)

// String names the kind with its article, as messages use it.
func (k Kind) String() string {
	names := [...]string{"null", "a boolean", "an integer", "a number", "a string", "a list", "a mapping", "invalid"}
	return names[k]
}

// Node is one value of the document. Nodes are not changed after Parse.
type Node struct {
	Pos   diagnostics.Position
	Key   string // the key that it stands under; "" for the document and for items of lists
	Kind  Kind
	Value any // nil, bool, int64, float64 or string; nil for lists and mappings
	// Offset is the distance in columns from Pos to the first character of a scalar's text, where
	// the text stands on one line just as it reads: 0 for a plain scalar, 1 for a quoted one
	// without escapes. It is -1 where that cannot be said.
	Offset int
	// Indent is how many columns stand before each line of a literal block scalar, whose text
	// begins on the line after Pos. 0: it is no such scalar, or that cannot be said.
	Indent int
	Plain  bool // an unquoted scalar on a single line
	Items  []*Node
	Fields []Field // in the order of the file; no key twice
}

// Field is one entry of a mapping.
type Field struct {
	Key   string
	Pos   diagnostics.Position // of the key
	Value *Node                // never nil
}

// Child returns the value of a key of a mapping; nil: there is none, or n is nil or no mapping.
func (n *Node) Child(key string) *Node {
	if n == nil {
		return nil
	}
	for _, f := range n.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// Decoded returns the value as decoded JSON: nil, bool, int64, float64, string, []any,
// map[string]any. Every call builds a new value. A nil node is nil.
func (n *Node) Decoded() any {
	switch {
	case n == nil:
		return nil
	case n.Kind == List:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = item.Decoded()
		}
		return list
	case n.Kind == Map:
		object := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			object[f.Key] = f.Value.Decoded()
		}
		return object
	}
	return n.Value
}

// Options limit what Parse reads. Zero fields mean the defaults.
type Options struct {
	MaxBytes int // defaults to 1 MiB
	MaxDepth int // of nested lists and mappings; defaults to 100
	MaxNodes int // values in the document; defaults to 200,000
	// OldJSON reads a .json file that is not JSON as YAML. Journals of earlier versions, which read all files as YAML,
	// may hold one.
	OldJSON bool
}

func (o *Options) withDefaults() Options {
	var filled Options
	if o != nil {
		filled = *o
	}
	for _, f := range []struct {
		field *int
		value int
	}{{&filled.MaxBytes, 1 << 20}, {&filled.MaxDepth, 100}, {&filled.MaxNodes, 200_000}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return filled
}

// Parse reads one document: JSON if filename ends in .json, otherwise YAML. The list is sorted and
// holds errors only. The node is nil when there is no tree at all (a syntax error, or over a cap);
// otherwise it holds all that could be read, with nodes of kind Invalid in place of what was
// reported. Nil opts mean the defaults.
func Parse(filename string, data []byte, opts *Options) (*Node, diagnostics.List) {
	c := &converter{limits: opts.withDefaults(), text: data, cursor: newCursor(filename, data)}
	start := diagnostics.Position{File: filename, Line: 1, Column: 1}
	if len(data) > c.limits.MaxBytes {
		c.Errorf(start, diagnostics.CodeTooLarge, "",
			"the file has %d bytes; at most %d are allowed", len(data), c.limits.MaxBytes)
		return nil, c.Diagnostics
	}
	read, bad := c.document, badCharacter
	if isJSON(filename) && !(c.limits.OldJSON && !json.Valid(data)) {
		read, bad = c.json, notUTF8
	}
	if at := bad(data); at >= 0 {
		c.cursor.seekByte(at)
		c.Errorf(c.cursor.position(), diagnostics.CodeSyntax, "save the file as UTF-8 text without control characters",
			"%s", describeBad(data[at:]))
		return nil, c.Diagnostics
	}
	root := read()
	c.Diagnostics.Sort()
	return root, c.Diagnostics
}

// badCharacter returns the offset of the first byte that is not UTF-8 or not printable as YAML
// defines it, or of a second byte order mark at the beginning, else -1.
func badCharacter(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r >= 0x20 && r <= 0x7E, r == '\t', r == '\n', r == '\r', r == 0x85:
		case r < 0xA0, r >= 0xFFFE && r <= 0xFFFF, r == utf8.RuneError && size == 1:
			return i
		case i == size && r == 0xFEFF && bytes.HasPrefix(data, []byte("\uFEFF")):
			return i
		}
		i += size
	}
	return -1
}

func describeBad(data []byte) string {
	r, size := utf8.DecodeRune(data)
	if r == utf8.RuneError && size == 1 {
		return fmt.Sprintf("byte 0x%02X is not valid UTF-8", data[0])
	}
	if r == 0xFEFF {
		return "a second byte order mark, U+FEFF, is not allowed"
	}
	return fmt.Sprintf("control character U+%04X is not allowed", r)
}
