package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Decode reads one JSON text. Integers that fit in int64 become int64 (-0 becomes 0), other integers a json.Number
// with their digits, other numbers float64; of members with one name the last counts; invalid UTF-8 and lone
// surrogates become U+FFFD. Anything but white space after the text is an error.
func Decode(data []byte) (any, error) { return decode(data, 0, false) }

// DecodeStrict is Decode, but two members of one name in an object are an error.
func DecodeStrict(data []byte) (any, error) { return decode(data, 0, true) }

func decode(data []byte, depth int, strict bool) (any, error) {
	d := decoder{data: data, strict: strict}
	return d.whole(depth)
}

// whole decodes all of the text.
func (d *decoder) whole(depth int) (any, error) {
	v, err := d.value(depth)
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// end reports what stands behind the value.
func (d *decoder) end() error {
	if d.space(); d.pos < len(d.data) {
		return d.unexpected("the end")
	}
	return nil
}

// decoder is a recursive descent over one text.
type decoder struct {
	data   []byte
	pos    int // of the next byte
	strict bool
}

// SyntaxError says what is wrong at which place of a JSON text.
type SyntaxError struct {
	Offset       int // in bytes
	Line, Column int // from 1; columns are characters
	Message      string
}

// Error names line and column.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// fail makes an error of the place that has been reached.
func (d *decoder) fail(format string, args ...any) error {
	before := d.data[:min(d.pos, len(d.data))]
	return &SyntaxError{
		Offset:  len(before),
		Line:    1 + bytes.Count(before, []byte("\n")),
		Column:  1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]),
		Message: fmt.Sprintf(format, args...),
	}
}

func (d *decoder) unexpected(want string) error {
	if d.pos >= len(d.data) {
		return d.fail("the JSON text ends where %s should be", want)
	}
	r, _ := utf8.DecodeRune(d.data[d.pos:])
	return d.fail("%q where %s should be", r, want)
}

// space skips white space and returns the byte after it, 0 at the end.
func (d *decoder) space() byte {
	for ; d.pos < len(d.data); d.pos++ {
		switch b := d.data[d.pos]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

func (d *decoder) value(depth int) (any, error) {
	if depth > MaxDepth {
		return nil, errDeep
	}
	switch b := d.space(); {
	case b == '{':
		return d.object(depth)
	case b == '[':
		return d.list(depth)
	case b == '"':
		return d.string()
	case b == '-' || b >= '0' && b <= '9':
		return d.number()
	case b == 't' && d.literal("true"):
		return true, nil
	case b == 'f' && d.literal("false"):
		return false, nil
	case b == 'n' && d.literal("null"):
		return nil, nil
	}
	return nil, d.unexpected("a value")
}

func (d *decoder) literal(word string) bool {
	if !bytes.HasPrefix(d.data[d.pos:], []byte(word)) {
		return false
	}
	d.pos += len(word)
	return true
}

// next moves to the next part of a list or an object, or behind the byte that closes it; then it is false.
func (d *decoder) next(closing byte, first bool) (bool, error) {
	switch b := d.space(); {
	case b == closing:
		d.pos++
		return false, nil
	case first:
		return true, nil
	case b == ',':
		d.pos++
		return true, nil
	}
	return false, d.unexpected(fmt.Sprintf(`"," or "%c"`, closing))
}

func (d *decoder) list(depth int) (any, error) {
	d.pos++
	out := []any{}
	for {
		more, err := d.next(']', len(out) == 0)
		if !more {
			return out, err
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, at(strconv.Itoa(len(out)), err)
		}
		out = append(out, v)
	}
}

func (d *decoder) object(depth int) (any, error) {
	d.pos++
	out := map[string]any{}
	for {
		more, err := d.next('}', len(out) == 0)
		if !more {
			return out, err
		}
		start, key, err := d.member()
		if err != nil {
			return nil, err
		}
		if _, twice := out[key]; twice && d.strict {
			d.pos = start
			return nil, at(key, d.fail("member %q appears twice", key))
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, at(key, err)
		}
		out[key] = v
	}
}

// member reads the name of a member, which begins at start, and the colon.
func (d *decoder) member() (start int, name string, err error) {
	if d.space() != '"' {
		return 0, "", d.unexpected("a member's name in quotes")
	}
	start = d.pos
	if name, err = d.string(); err != nil {
		return 0, "", err
	}
	if d.space() != ':' {
		return 0, "", d.unexpected(`":"`)
	}
	d.pos++
	return start, name, nil
}

// number reads what RFC 8259 calls a number.
func (d *decoder) number() (any, error) {
	start, integer := d.pos, true
	if d.peek() == '-' {
		d.pos++
	}
	if d.peek() == '0' {
		d.pos++
	} else if !d.digits() {
		return nil, d.unexpected("a digit")
	}
	if d.peek() == '.' {
		integer = false
		d.pos++
		if !d.digits() {
			return nil, d.unexpected("a digit")
		}
	}
	if b := d.peek(); b == 'e' || b == 'E' {
		integer = false
		d.pos++
		if b := d.peek(); b == '+' || b == '-' {
			d.pos++
		}
		if !d.digits() {
			return nil, d.unexpected("a digit")
		}
	}
	text := d.data[start:d.pos]
	if integer {
		if i, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return i, nil
		}
		if len(text) > MaxDigits {
			d.pos = start
			return nil, d.fail("an integer may have at most %d digits", MaxDigits)
		}
		return json.Number(text), nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		d.pos = start
		return nil, d.fail("the number is out of range (at most %g)", math.MaxFloat64)
	}
	return f, nil
}

// peek returns the next byte, 0 at the end.
func (d *decoder) peek() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

func (d *decoder) digits() bool {
	start := d.pos
	for b := d.peek(); b >= '0' && b <= '9'; b = d.peek() {
		d.pos++
	}
	return d.pos > start
}

func (d *decoder) string() (string, error) {
	d.pos++
	// Most strings hold no escape: find the end, copy once.
	for i := d.pos; i < len(d.data); i++ {
		switch b := d.data[i]; {
		case b == '"':
			text := d.data[d.pos:i]
			if !utf8.Valid(text) {
				return d.unquote()
			}
			d.pos = i + 1
			return string(text), nil
		case b == '\\' || b < ' ':
			return d.unquote()
		}
	}
	d.pos = len(d.data)
	return "", d.unexpected("the closing quote of a string")
}

// unquote reads the rest of a string that is more than plain text.
func (d *decoder) unquote() (string, error) {
	var out []byte
	for d.pos < len(d.data) {
		switch b := d.data[d.pos]; {
		case b == '"':
			d.pos++
			return string(out), nil
		case b < ' ':
			return "", d.fail("control character %q in a string, write it as an escape", b)
		case b == '\\':
			r, err := d.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		default:
			r, size := utf8.DecodeRune(d.data[d.pos:])
			d.pos += size
			out = utf8.AppendRune(out, r)
		}
	}
	return "", d.unexpected("the closing quote of a string")
}

var errEscape = errors.New("no such escape")

// escape reads one escape sequence, or two that are a surrogate pair.
func (d *decoder) escape() (rune, error) {
	r, err := d.escapeUnit()
	if err != nil {
		return 0, d.fail(`%v: use \" \\ \/ \b \f \n \r \t or \u and four hex digits`, err)
	}
	if utf16.IsSurrogate(r) {
		after := d.pos
		if low, err := d.escapeUnit(); err == nil && utf16.DecodeRune(r, low) != utf8.RuneError {
			return utf16.DecodeRune(r, low), nil
		}
		d.pos = after // a lone surrogate; what follows it stands for itself
		return utf8.RuneError, nil
	}
	return r, nil
}

func (d *decoder) escapeUnit() (rune, error) {
	if d.pos+1 >= len(d.data) || d.data[d.pos] != '\\' {
		return 0, errEscape
	}
	r, size := rune(d.data[d.pos+1]), 2
	switch r {
	case '"', '\\', '/':
	case 'b':
		r = '\b'
	case 'f':
		r = '\f'
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 't':
		r = '\t'
	case 'u':
		size = 6
		if d.pos+size > len(d.data) {
			return 0, errEscape
		}
		r = 0
		for _, b := range d.data[d.pos+2 : d.pos+size] {
			digit := strings.IndexByte(hex, b|0x20) // lower case; digits have the bit already
			if digit < 0 || b < '0' {
				return 0, errEscape
			}
			r = r<<4 | rune(digit)
		}
	default:
		return 0, errEscape
	}
	d.pos += size
	return r, nil
}
