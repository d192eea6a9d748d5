package yamlnode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/braise-run/braise/diagnostics"
)

// hintQuote is the advice for expressions that YAML takes for something else.
const hintQuote = "quote this expression"

// converter turns the nodes of yaml.v3 into ours. Nodes come in the order of the text, so the
// cursor passes over the text once.
type converter struct {
	Reader
	limits Options
	text   []byte
	cursor cursor
	nodes  int
}

// document reads the only document of the text; nil after a syntax error.
func (c *converter) document() *Node {
	c.text = hideDirective(c.text)
	documents := newDocuments(c.text)
	first, err := documents.next()
	switch {
	case errors.Is(err, io.EOF):
		c.Errorf(c.cursor.position(), diagnostics.CodeSyntax, "", "the document is empty")
		return nil
	case err != nil:
		c.syntaxError(err)
		return nil
	}
	root := c.node(first.Content[0], "", 1)
	second, err := documents.next()
	switch {
	case errors.Is(err, io.EOF):
	case err != nil:
		c.syntaxError(err)
	default:
		c.cursor.seek(second.Line, second.Column)
		c.Errorf(c.cursor.position(), diagnostics.CodeYAMLFeature, "put it into a file of its own",
			"a second document is not allowed")
	}
	return root
}

// node converts y, which stands under key, at the given depth of nesting.
func (c *converter) node(y *yaml.Node, key string, depth int) *Node {
	c.cursor.seek(y.Line, y.Column)
	n := &Node{Pos: c.cursor.position(), Key: key, Kind: Invalid, Offset: -1}
	if !c.withinLimits(n.Pos, y, depth) {
		return n
	}
	rest := c.cursor.rest()
	if y.Kind == yaml.AliasNode {
		c.Errorf(n.Pos, diagnostics.CodeYAMLFeature, aliasHint(y.Value), "aliases are not allowed: %q", "*"+y.Value)
		return n
	}
	if y.Anchor != "" {
		c.Errorf(n.Pos, diagnostics.CodeYAMLFeature, "write the value out where it is needed",
			"anchors are not allowed: %q", "&"+y.Anchor)
	}
	// A bare "!" leaves no trace in the node, only in the text.
	tagged := y.Style&yaml.TaggedStyle != 0 || bytes.HasPrefix(rest, []byte("!"))
	if tagged {
		tag, hint := tagText(y.Tag, rest), hintQuote
		if strings.HasPrefix(tag, "!!") {
			hint = "leave the tag out"
		}
		c.Errorf(n.Pos, diagnostics.CodeYAMLFeature, hint, "tags are not allowed: %q", tag)
	}
	switch {
	case y.Kind == yaml.SequenceNode:
		c.list(n, y, depth)
	case y.Kind == yaml.MappingNode:
		c.mapping(n, y, depth)
	case !tagged:
		c.scalar(n, y)
	}
	return n
}

// withinLimits counts the node and reports the first one that is too many, or nested too deeply.
func (c *converter) withinLimits(pos diagnostics.Position, y *yaml.Node, depth int) bool {
	c.nodes++
	switch {
	case c.nodes == c.limits.MaxNodes+1:
		c.Errorf(pos, diagnostics.CodeTooLarge, "", "more than %d values", c.limits.MaxNodes)
	case c.nodes > c.limits.MaxNodes:
	case depth > c.limits.MaxDepth && len(y.Content) > 0:
		c.Errorf(pos, diagnostics.CodeTooLarge, "", "nested more than %d levels deep", c.limits.MaxDepth)
	default:
		return true
	}
	return false
}

func (c *converter) list(n *Node, y *yaml.Node, depth int) {
	n.Kind = List
	n.Items = make([]*Node, len(y.Content))
	for i, item := range y.Content {
		n.Items[i] = c.node(item, "", depth+1)
	}
}

func (c *converter) mapping(n *Node, y *yaml.Node, depth int) {
	n.Kind = Map
	n.Fields = make([]Field, 0, len(y.Content)/2)
	first := make(map[string]*seenKey, len(y.Content)/2)
	for i := 0; i < len(y.Content); i += 2 {
		key, pos, ok := c.key(y.Content[i])
		value := c.node(y.Content[i+1], key, depth+1)
		if !ok {
			continue
		}
		if seen := first[key]; seen != nil {
			c.duplicate(key, pos, seen)
			continue
		}
		first[key] = &seenKey{pos: pos}
		n.Fields = append(n.Fields, Field{Key: key, Pos: pos, Value: value})
	}
}

// seenKey is where a key stood first, and whether that place has been reported.
type seenKey struct {
	pos      diagnostics.Position
	reported bool
}

// duplicate reports a repeated key at both of its places; the first value is kept.
func (c *converter) duplicate(key string, pos diagnostics.Position, first *seenKey) {
	if !first.reported {
		first.reported = true
		c.Errorf(first.pos, diagnostics.CodeDuplicateKey, "", "key %q appears twice, again on line %d", key, pos.Line)
	}
	c.Errorf(pos, diagnostics.CodeDuplicateKey, "", "key %q appears twice, first on line %d", key, first.pos.Line)
}

// key reads the key of a field; false when it was reported.
func (c *converter) key(y *yaml.Node) (string, diagnostics.Position, bool) {
	c.cursor.seek(y.Line, y.Column)
	pos := c.cursor.position()
	rest := c.cursor.rest()
	if y.Kind != yaml.ScalarNode || y.Anchor != "" || y.Style&yaml.TaggedStyle != 0 ||
		bytes.HasPrefix(rest, []byte("!")) {
		if !c.Full() {
			c.Errorf(pos, diagnostics.CodeYAMLFeature, hintFor(c.text, pos.Line),
				"a key must be a string without anchors, aliases and tags")
		}
		return "", pos, false
	}
	if y.Style != 0 {
		return y.Value, pos, true
	}
	if y.Value == "<<" {
		c.Errorf(pos, diagnostics.CodeYAMLFeature, "write the keys out", "merge keys are not allowed: %q", "<<")
		return "", pos, false
	}
	if kind, _ := resolve(y.Value); kind != String {
		c.Errorf(pos, diagnostics.CodeWrongType, fmt.Sprintf("quote it: %q", y.Value),
			"a key must be a string: %q", y.Value)
		return "", pos, false
	}
	return y.Value, pos, true
}

// scalar gives n its value and says where in the text the value stands.
func (c *converter) scalar(n *Node, y *yaml.Node) {
	rest := c.cursor.rest()
	value := []byte(y.Value)
	switch y.Style {
	case 0:
		n.Plain = len(value) > 0 && bytes.HasPrefix(rest, value)
		if n.Plain {
			n.Offset = 0
		}
		n.Kind, n.Value = resolve(y.Value)
		if n.Kind == Invalid {
			c.Errorf(n.Pos, diagnostics.CodeInvalidValue, "quote it if it is meant as text",
				"%s is not a number that JSON can hold", y.Value)
		}
		return
	case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle:
		if len(rest) > len(value)+1 && bytes.HasPrefix(rest[1:], value) && rest[len(value)+1] == rest[0] {
			n.Offset = 1
		}
	case yaml.LiteralStyle:
		n.Indent = blockIndent(rest, y.Value)
	}
	n.Kind, n.Value = String, y.Value
}

// blockIndent returns how far the lines of a literal block scalar are indented; 0 where its first
// lines do not read as its value does.
func blockIndent(rest []byte, value string) int {
	_, body, _ := bytes.Cut(rest, []byte("\n")) // after the | and what belongs to it
	for len(value) > 0 && value[0] == '\n' {
		blank, below, _ := bytes.Cut(body, []byte("\n"))
		if len(bytes.TrimSpace(blank)) > 0 {
			return 0
		}
		value, body = value[1:], below
	}
	first, _, _ := strings.Cut(value, "\n")
	indent := 0
	for indent < len(body) && body[indent] == ' ' {
		indent++
	}
	indent -= len(first) - len(strings.TrimLeft(first, " "))
	if indent <= 0 || first == "" || !bytes.HasPrefix(body[indent:], []byte(first)) {
		return 0
	}
	return indent
}

// tagText is the tag as written, or just "!".
func tagText(tag string, rest []byte) string {
	if bytes.HasPrefix(rest, []byte("!")) {
		if end := bytes.IndexAny(rest, " \t\r\n,[]{}"); end > 0 {
			return string(rest[:end])
		}
		return string(rest)
	}
	return tag
}

func aliasHint(name string) string {
	return fmt.Sprintf("write the value out, or quote it if it is meant as text: %q", "*"+strings.TrimSpace(name))
}
