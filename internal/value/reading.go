package value

import (
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// reading is a text with one kind of escapes undone.
type reading struct {
	text    string
	marks   []mark // where something was undone; nil: nowhere
	finders [2]*finder
}

// mark is a place where text[at:at+size] stands for width bytes from the byte from on.
type mark struct {
	at, from    uint32
	size, width uint8
}

// read undoes the escapes that begin with one of begins. undo appends what stands for the escape at the beginning of s
// and returns how long that is; 0: there is none.
func read(s, begins string, undo func(out []byte, s string) ([]byte, int)) reading {
	next := strings.IndexAny(s, begins)
	if next < 0 {
		return reading{}
	}
	var marks []mark
	out := make([]byte, 0, len(s))
	at := 0
	for next >= 0 {
		out, at = append(out, s[at:at+next]...), at+next
		before, n := len(out), 0
		if out, n = undo(out, s[at:]); n > 0 {
			marks = append(marks, mark{uint32(before), uint32(at), uint8(len(out) - before), uint8(n)})
			at += n
		} else {
			out = append(out, s[at])
			at++
		}
		next = strings.IndexAny(s[at:], begins)
	}
	if marks == nil {
		return reading{}
	}
	return reading{text: string(append(out, s[at:]...)), marks: marks}
}

// start returns where in the original what begins at text[at] begins.
func (r *reading) start(at int) int {
	m, inside := r.markOf(at)
	if inside {
		return int(m.from)
	}
	return at - int(m.at) - int(m.size) + int(m.from) + int(m.width)
}

// end returns where in the original what ends before text[at] ends.
func (r *reading) end(at int) int {
	if at == 0 {
		return 0
	}
	m, inside := r.markOf(at - 1)
	if inside {
		return int(m.from) + int(m.width)
	}
	return at - int(m.at) - int(m.size) + int(m.from) + int(m.width)
}

// markOf returns the last mark up to text[at], the zero one if there is none, and whether text[at] is of it.
func (r *reading) markOf(at int) (m mark, inside bool) {
	i, _ := slices.BinarySearchFunc(r.marks, at, func(m mark, at int) int {
		if int(m.at) <= at {
			return -1
		}
		return 1
	})
	if i == 0 {
		return mark{}, false
	}
	m = r.marks[i-1]
	return m, at < int(m.at)+int(m.size)
}

// undoPercent undoes the escapes of a URL.
func undoPercent(out []byte, s string) ([]byte, int) {
	if code, ok := hexNumber(s, 1, 2); ok {
		return append(out, byte(code)), 3
	}
	return out, 0
}

// undoBackslash undoes the escapes of JSON and of Go.
func undoBackslash(out []byte, s string) ([]byte, int) {
	if len(s) < 2 {
		return out, 0
	}
	if i := strings.IndexByte(`"\/'bfnrtav`, s[1]); i >= 0 {
		return append(out, "\"\\/'\b\f\n\r\t\a\v"[i]), 2
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
	code, ok := hexNumber(s, 2, digits)
	switch {
	case !ok:
		return out, 0
	case digits == 2:
		return append(out, byte(code)), 4
	case digits == 4 && utf16.IsSurrogate(code) && len(s) >= 12 && s[6:8] == `\u`:
		if low, ok := hexNumber(s, 8, 4); ok {
			return utf8.AppendRune(out, utf16.DecodeRune(code, low)), 12
		}
	}
	return utf8.AppendRune(out, code), 2 + digits
}

// hexNumber reads a number of so many digits; none is no number.
func hexNumber(s string, from, digits int) (rune, bool) {
	if digits == 0 || len(s) < from+digits {
		return 0, false
	}
	n, err := strconv.ParseUint(s[from:from+digits], 16, 32)
	return rune(n), err == nil
}

// undoEntity undoes the escapes of HTML.
func undoEntity(out []byte, s string) ([]byte, int) {
	s = s[:min(len(s), 40)] // no name is longer
	n := strings.IndexByte(s, ';') + 1
	text := html.UnescapeString(s[:n])
	if text == s[:n] {
		return out, 0
	}
	return append(out, text...), n
}

// undoBreak leaves out ends of lines, also those that are escaped, with the white space that the next line begins with.
func undoBreak(out []byte, s string) ([]byte, int) {
	const most = 200
	n := 0
	for n < min(len(s), most) {
		switch rest := s[n:]; {
		case rest[0] == '\n', rest[0] == '\r':
			n++
		case strings.HasPrefix(rest, `\n`), strings.HasPrefix(rest, `\r`):
			n += 2
		case n > 0 && (rest[0] == ' ' || rest[0] == '\t'):
			n++
		default:
			return out, n
		}
	}
	return out, n
}
