package yamlnode

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	goccy "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"github.com/braise-run/braise/diagnostics"
)

var (
	syntaxMessage = regexp.MustCompile(`(?s)^yaml: (?:line ([0-9]+): )?(.*)$`)
	unknownAnchor = regexp.MustCompile(`(?s)^unknown anchor '(.*)' referenced$`)
)

// syntaxError reports an error of yaml.v3, whose line is often that of an enclosing structure. A
// second parser may know the place better; it is asked for nothing else.
func (c *converter) syntaxError(err error) {
	pos := diagnostics.Position{File: c.cursor.file, Line: 1}
	message := err.Error()
	if m := syntaxMessage.FindStringSubmatch(message); m != nil {
		message = m[2]
		if line, _ := strconv.Atoi(m[1]); line > 0 {
			pos.Line = line
		}
	}
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		c.cursor = newCursor(c.cursor.file, c.text)
		c.cursor.seekByte(max(0, bytes.Index(c.text, []byte("*"+m[1]))))
		c.Errorf(c.cursor.position(), diagnostics.CodeYAMLFeature, aliasHint(m[1]),
			"aliases are not allowed: %q", "*"+m[1])
		return
	}
	if strings.HasPrefix(message, "exceeded max depth") {
		c.Errorf(pos, diagnostics.CodeTooLarge, "", "nested more than %d levels deep", c.limits.MaxDepth)
		return
	}
	if line, column, better := secondLook(c.text); line > 0 {
		pos.Line, pos.Column, message = line, column, better
	}
	message = strings.Join(strings.Fields(message), " ") // one line
	hint := hintFor(c.text, pos.Line)
	switch line := lineOf(c.text, pos.Line); {
	case hint != "":
	case strings.HasPrefix(line, "%"):
		hint = "the only directive that may stand here is %YAML 1.2, with --- on the next line"
	case strings.Contains(indentation(line), "\t"):
		message, hint = "a tab indents this line", "YAML does not allow tabs; indent with spaces"
	case strings.Contains(message, "mapping value") && deeper(line, lineOf(c.text, pos.Line+1)):
		hint = fmt.Sprintf("line %d is indented deeper than line %d, which has a value: indent them alike",
			pos.Line+1, pos.Line)
	case strings.Contains(message, "mapping value") && strings.Count(line+" ", ": ") > 1:
		hint = `quote text that holds ": ", or write it on lines of its own below a |`
	}
	c.Errorf(pos, diagnostics.CodeSyntax, hint, "not valid YAML: %s", message)
}

// secondLook asks goccy/go-yaml where the error is; line 0 when it does not know. Its time and its
// stack grow with the square of the size on hostile text, hence the limits.
func secondLook(text []byte) (line, column int, message string) {
	const maxBytes, maxNesting = 32 << 10, 500
	if len(text) > maxBytes {
		return 0, 0, ""
	}
	for _, nesting := range []string{"[", "{", "- -"} {
		if bytes.Count(text, []byte(nesting)) > maxNesting {
			return 0, 0, ""
		}
	}
	defer func() {
		if recover() != nil {
			line = 0
		}
	}()
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) // which it counts twice in a quoted text
	_, err := parser.ParseBytes(text, 0)
	var at goccy.Error
	if !errors.As(err, &at) || at.GetToken() == nil || at.GetToken().Position == nil {
		return 0, 0, ""
	}
	p := at.GetToken().Position
	if p.Line > 1+bytes.Count(text, []byte("\n"))+bytes.Count(text, []byte("\r")) { // it has lost its place
		return 0, 0, ""
	}
	return p.Line, p.Column, at.GetMessage()
}

// hintFor is the hint for an error on a line that holds an expression; else "".
func hintFor(text []byte, line int) string {
	for _, sign := range []string{"{{", "when", "until"} {
		if strings.Contains(lineOf(text, line), sign) {
			return hintQuote
		}
	}
	return ""
}

// lineOf is a line of a text.
func lineOf(text []byte, line int) string {
	for range line - 1 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	text, _, _ = bytes.Cut(text, []byte("\n"))
	return string(text)
}

// deeper reports whether a line, with something in it, is indented deeper than the one before it.
func deeper(before, line string) bool {
	return strings.TrimSpace(line) != "" && len(indentation(line)) > len(indentation(before))
}

// indentation is the white space that a line begins with.
func indentation(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }
