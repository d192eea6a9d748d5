package diagnostics

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/value"
)

// Printer prints diagnostics for people: the position and the message, the line of text with a caret
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

// maxShown is how many diagnostics are shown.
const maxShown = 100

// Print writes the list to w, in the list's order. Beyond 100 diagnostics it only counts the rest; errors
// are shown before warnings.
func (p *Printer) Print(w io.Writer, list List) error {
	var b bytes.Buffer
	shown, rest := list.firstOf(maxShown)
	for _, d := range shown {
		p.print(&b, d)
	}
	if rest > 0 {
		b.WriteString(more(rest) + "\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// firstOf returns at most so many diagnostics, in their order, and how many it leaves out: warnings first.
func (l List) firstOf(most int) (first List, rest int) {
	if len(l) <= most {
		return l, 0
	}
	warnings := most
	for _, d := range l {
		if d.Level == ErrorLevel && warnings > 0 {
			warnings--
		}
	}
	for _, d := range l {
		if d.Level != ErrorLevel {
			if warnings--; warnings < 0 {
				continue
			}
		}
		if first = append(first, d); len(first) == most {
			break
		}
	}
	return first, len(l) - len(first)
}

// more says how many diagnostics are not shown: "… and 19,900 more".
func more(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return "… and " + digits + " more"
}

func (p *Printer) print(b *bytes.Buffer, d Diagnostic) {
	if !d.Position.IsZero() {
		b.WriteString(p.paint("1", visible(d.Position.String())) + ": ")
	}
	word := p.paint("1;31", "error: ")
	if d.Level == Warn {
		word = p.paint("1;33", "warning: ")
	}
	fmt.Fprintf(b, "%s%s %s\n", word, visible(onOneLine(d.Message)), p.paint("2", "["+string(d.Code)+"]"))
	if line, ok := p.line(d.Position); ok {
		number := fmt.Sprint(d.Position.Line)
		fmt.Fprintf(b, "  %s | %s\n", number, line.text)
		if line.mark != "" {
			fmt.Fprintf(b, "  %s | %s\n", strings.Repeat(" ", len(number)), p.paint("1;31", line.mark))
		}
	}
	if d.Hint != "" {
		b.WriteString("  " + p.paint("36", "hint: ") + visible(onOneLine(d.Hint)) + "\n")
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
	source, column := window(strings.TrimSuffix(source, "\r"), pos.Column-1)
	chars := []rune(visible(source))
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

// window returns the part of a long line that is shown, and the place of the column in it; -1 stays -1.
func window(line string, column int) (string, int) {
	length := utf8.RuneCountInString(line)
	if column = min(column, length); length <= maxLine {
		return line, column
	}
	from := max(0, min(column-maxLine/2, length-maxLine))
	line = line[runeOffset(line, from):]
	return line[:runeOffset(line, maxLine)], max(-1, column-from)
}

// runeOffset is the offset of the n-th character.
func runeOffset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
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

// onOneLine joins the lines of a message. A semicolon stands where one ends without a sign.
func onOneLine(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if before := b.String(); line != "" && before != "" {
			if !strings.ContainsAny(before[len(before)-1:], ".,:;!?") {
				b.WriteByte(';')
			}
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	return b.String()
}

// visible replaces characters that could play tricks on a terminal or would not be seen, one by one, tabs by a space.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < 0x20 || value.IsUnseen(r):
			return utf8.RuneError
		}
		return r
	}, s)
}
