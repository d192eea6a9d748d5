package yamlnode

import (
	"bytes"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
)

// cursor translates line and column of yaml.v3 into a place in the text and a position as editors
// count. The two differ: yaml.v3 also takes a lone carriage return, U+0085, U+2028 and U+2029 for
// line breaks. It only moves forwards, so that all positions of a file cost one pass over it.
type cursor struct {
	file         string
	text         []byte
	at           int // offset in text
	line, column int // as yaml.v3 counts, from 1
	lines, chars int // as editors count, from 1
}

// newCursor starts behind a byte order mark.
func newCursor(file string, text []byte) cursor {
	c := cursor{file: file, text: text, line: 1, column: 1, lines: 1, chars: 1}
	if bytes.HasPrefix(text, []byte("\uFEFF")) {
		c.at = len("\uFEFF")
	}
	return c
}

func (c *cursor) position() diagnostics.Position {
	return diagnostics.Position{File: c.file, Line: c.lines, Column: c.chars}
}

// rest returns the text from the cursor on.
func (c *cursor) rest() []byte { return c.text[c.at:] }

// seek moves to yaml.v3's line and column; it stays where it is when that is behind it.
func (c *cursor) seek(line, column int) {
	for c.at < len(c.text) && (c.line < line || c.line == line && c.column < column) {
		c.step()
	}
}

// seekByte moves to an offset in the text.
func (c *cursor) seekByte(at int) {
	for c.at < at {
		c.step()
	}
}

// step moves over one character.
func (c *cursor) step() {
	r, size := utf8.DecodeRune(c.text[c.at:])
	c.at += size
	c.column++
	c.chars++
	switch r {
	case '\r':
		if c.at < len(c.text) && c.text[c.at] == '\n' {
			return // one break with the \n that follows
		}
		c.line, c.column = c.line+1, 1
	case '\n':
		c.line, c.column = c.line+1, 1
		c.lines, c.chars = c.lines+1, 1
	case 0x85, 0x2028, 0x2029:
		c.line, c.column = c.line+1, 1
	}
}
