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
//	recipe.yaml:4:5: error: unknown key "promt" [recipe.unknownKey]
//	  4 |     promt: Hello
//	    |     ^^^^^
//	  hint: did you mean "prompt"?
type Printer struct {
	Sources map[string][]byte // text of the files by name; nil: no lines are shown
	Color   bool              // ANSI colours

	lines map[string][]int // by file: where each line begins, and the end
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
	source, ok := p.text(pos)
	if !ok {
		return sourceLine{}, false
	}
	chars := []rune(visible(strings.TrimSuffix(source, "\r")))
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

// text returns the line of the source that a position is in. Where the lines of a file begin is
// looked up once.
func (p *Printer) text(pos Position) (string, bool) {
	source, ok := p.Sources[pos.File]
	if !ok || pos.Line <= 0 {
		return "", false
	}
	if p.lines[pos.File] == nil {
		if p.lines == nil {
			p.lines = map[string][]int{}
		}
		begins := []int{0}
		for i, b := range source {
			if b == '\n' {
				begins = append(begins, i+1)
			}
		}
		p.lines[pos.File] = append(begins, len(source)+1)
	}
	begins := p.lines[pos.File]
	if pos.Line >= len(begins) {
		return "", false
	}
	return string(source[begins[pos.Line-1] : begins[pos.Line]-1]), true
}

func isWord(r rune) bool {
	return r == '_' || r == '.' || r == '-' || r >= utf8.RuneSelf ||
		r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
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
