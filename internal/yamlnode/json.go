package yamlnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
)

// isJSON reports whether a file holds JSON, which its name says. YAML has no surrogate pairs and no tabs that indent,
// so not every JSON text is YAML.
func isJSON(filename string) bool { return strings.EqualFold(path.Ext(filename), ".json") }

// errLimit ends the reading of a text that is over a limit, which has been reported.
var errLimit = errors.New("over a limit")

// json reads a JSON text; nil after a syntax error or above a limit.
func (c *converter) json() *Node {
	r := jsonReader{converter: c, Scanner: value.NewScanner(c.text, c.cursor.at)}
	root, err := r.value("", 1)
	if err == nil {
		err = r.End()
	}
	if err == nil {
		return root
	}
	if bad, ok := errors.AsType[*value.SyntaxError](err); ok {
		c.cursor.seekByte(bad.Offset)
		c.Errorf(c.cursor.position(), diagnostics.CodeSyntax, jsonHint(c.text, bad), "not valid JSON: %s", bad.Message)
	}
	return nil
}

// jsonReader makes nodes of a JSON text.
type jsonReader struct {
	*converter
	*value.Scanner
}

// value reads the value that stands under key, at the given depth of nesting.
func (r *jsonReader) value(key string, depth int) (*Node, error) {
	first := r.Peek()
	r.cursor.seekByte(r.Scanner.Offset())
	n := &Node{Pos: r.cursor.position(), Key: key, Offset: -1}
	if r.nodes++; r.nodes > r.limits.MaxNodes {
		r.Errorf(n.Pos, diagnostics.CodeTooLarge, "", "more than %d values", r.limits.MaxNodes)
		return nil, errLimit
	}
	switch first {
	case '[':
		n.Kind = List
		return n, r.parts(n, ']', depth, func() error {
			item, err := r.value("", depth+1)
			n.Items = append(n.Items, item)
			return err
		})
	case '{':
		n.Kind = Map
		seen := map[string]*seenKey{}
		return n, r.parts(n, '}', depth, func() error { return r.member(n, seen, depth) })
	}
	return n, r.scalar(n)
}

// parts reads what is in the brackets of n.
func (r *jsonReader) parts(n *Node, closing byte, depth int, read func() error) error {
	r.Enter()
	for first := true; ; first = false {
		more, err := r.Next(closing, first)
		if !more {
			return err
		}
		if depth > r.limits.MaxDepth {
			r.Errorf(n.Pos, diagnostics.CodeTooLarge, "", "nested more than %d levels deep", r.limits.MaxDepth)
			return errLimit
		}
		if err := read(); err != nil {
			return err
		}
	}
}

// member reads a member of the object n.
func (r *jsonReader) member(n *Node, seen map[string]*seenKey, depth int) error {
	start, key, err := r.Member()
	if err != nil {
		return err
	}
	r.cursor.seekByte(start)
	pos := r.cursor.position()
	v, err := r.value(key, depth+1)
	switch {
	case err != nil:
	case seen[key] != nil:
		r.duplicate(key, pos, seen[key])
	default:
		seen[key] = &seenKey{pos: pos}
		n.Fields = append(n.Fields, Field{Key: key, Pos: pos, Value: v})
	}
	return err
}

// scalar gives n the value that begins at the cursor, and says where in the text it stands.
func (r *jsonReader) scalar(n *Node) (err error) {
	if n.Value, err = r.Scalar(); err != nil {
		return err
	}
	n.Offset, n.Plain = 0, true
	switch v := n.Value.(type) {
	case nil:
		n.Kind = Null
	case bool:
		n.Kind = Bool
	case float64:
		n.Kind = Float
	case string:
		n.Kind, n.Plain, n.Offset = String, false, -1
		if written := r.text[r.cursor.at+1 : r.Scanner.Offset()-1]; string(written) == v {
			n.Offset = 1
		}
	default:
		n.Kind = Int
	}
	return nil
}

// jsonHint says what to do about an error in a text that should be JSON.
func jsonHint(text []byte, bad *value.SyntaxError) string {
	rest := text[bad.Offset:]
	before := bytes.TrimRight(bytes.TrimPrefix(text[:bad.Offset], []byte("\uFEFF")), " \t\r\n")
	next, _ := utf8.DecodeRune(rest)
	begins := func(signs ...string) bool {
		for _, sign := range signs {
			if bytes.HasPrefix(rest, []byte(sign)) {
				return true
			}
		}
		return false
	}
	switch {
	case len(rest) == 0:
		return "the file is cut off, or a quote or a bracket is not closed"
	case begins("#", "//", "/*"):
		return "JSON has no comments; let the name of a file in YAML end in .yaml"
	case len(before) == 0:
		return "let the name of a file in YAML end in .yaml"
	case begins("]", "}") && before[len(before)-1] == ',':
		return "remove the comma before it"
	case begins(`\`):
		return `write a backslash that stands for itself as \\`
	case next < ' ':
		return `write a line break as \n and a tab as \t`
	case strings.Contains(bad.Message, "digits") || strings.Contains(bad.Message, "out of range"):
		return "quote it if it is meant as text"
	case begins("+", ".") || unicode.IsDigit(next) && before[len(before)-1] == '0' && text[bad.Offset-1] == '0':
		return "a number begins with a digit or a minus, and 0 has no digit behind it"
	case begins("'") || unicode.IsLetter(next):
		return "write names and texts in double quotes, and other words as true, false or null"
	}
	return "a comma, a colon, a quote or a bracket is missing before it"
}

// indentJSON is the canonical layout of a JSON text that has been read: nothing but white space changes.
func indentJSON(text []byte) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(text), "", "  "); err != nil {
		panic("yamlnode: what was read is no JSON: " + err.Error())
	}
	return append(out.Bytes(), '\n')
}

// notUTF8 returns the offset of the first byte that is not UTF-8, else -1.
func notUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for i := 0; ; {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
}
