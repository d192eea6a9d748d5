package diagnostics

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Printer prints findings for people: the position and the message, the line of text with a caret
// under the place, and the hint.
//
//	recipe.yaml:4:5: unknown key "promt" [recipe.unknownKey]
//	  4 |     promt: Hello
//	    |     ^^^^^
//	  hint: did you mean "prompt"?
type Printer struct {
	Sources map[string][]byte // text of the files by name; nil: no lines are shown
	Color   bool              // ANSI colours
}

// Print writes the list to w, in the list's order.
func (p *Printer) Print(w io.Writer, list List) error {
	var b bytes.Buffer
	for _, d := range list {
		p.print(&b, d)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (p *Printer) print(b *bytes.Buffer, d Diagnostic) {
	if !d.Position.IsZero() {
		b.WriteString(p.paint("1", d.Position.String()) + ": ")
	}
	word := p.paint("1;31", "error: ")
	if d.Level == Warn {
		word = p.paint("1;33", "warning: ")
	}
	fmt.Fprintf(b, "%s%s %s\n", word, visible(d.Message), p.paint("2", "["+string(d.Code)+"]"))
	if line, ok := p.line(d.Position); ok {
		number := fmt.Sprint(d.Position.Line)
		fmt.Fprintf(b, "  %s | %s\n", number, line.text)
		if line.mark != "" {
			fmt.Fprintf(b, "  %s | %s\n", strings.Repeat(" ", len(number)), p.paint("1;31", line.mark))
		}
	}
	if d.Hint != "" {
		b.WriteString("  " + p.paint("36", "hint: ") + visible(d.Hint) + "\n")
	}
}

func (p *Printer) paint(code, text string) string {
	if !p.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// sourceLine is a line of text and the carets under it.
type sourceLine struct{ text, mark string }

// maxLine is how many characters of a long line are shown.
const maxLine = 120

func (p *Printer) line(pos Position) (sourceLine, bool) {
	source, ok := p.Sources[pos.File]
	if !ok || pos.Line <= 0 {
		return sourceLine{}, false
	}
	for range pos.Line - 1 {
		i := bytes.IndexByte(source, '\n')
		if i < 0 {
			return sourceLine{}, false
		}
		source = source[i+1:]
	}
	if i := bytes.IndexByte(source, '\n'); i >= 0 {
		source = source[:i]
	}
	chars := []rune(visible(strings.TrimSuffix(string(source), "\r")))
	column := pos.Column - 1
	if column > len(chars) {
		column = len(chars)
	}
	from := 0
	if len(chars) > maxLine {
		from = max(0, min(column-maxLine/2, len(chars)-maxLine))
		chars = chars[from : from+maxLine]
		column -= from
	}
	line := sourceLine{text: string(chars)}
	if column >= 0 {
		width := 0
		for column+width < len(chars) && isWord(chars[column+width]) {
			width++
		}
		line.mark = strings.Repeat(" ", column) + strings.Repeat("^", max(1, width))
	}
	return line, true
}

func isWord(r rune) bool {
	return r == '_' || r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= utf8.RuneSelf
}

// visible replaces control characters, which could play tricks on a terminal, tabs by a space.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0:
			return utf8.RuneError
		}
		return r
	}, s)
}
