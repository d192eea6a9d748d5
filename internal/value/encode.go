package value

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// JSON returns the canonical JSON text of v, see [AppendJSON].
func JSON(v any) ([]byte, error) { return AppendJSON(nil, v) }

// AppendJSON appends the canonical JSON text of v to dst: members sorted by the bytes of their
// names, no white space, <, > and & as they are, numbers in their shortest form (a float64 without
// a fraction looks like an integer), invalid UTF-8 as \ufffd. It is what encoding/json writes
// without HTML escaping, but for a negative zero, which is written 0, and for a float64 from 2^53 up: one that an
// int64 can hold is written with all digits, a larger one with an exponent, which no integer has. What is not decoded
// JSON is normalised first.
func AppendJSON(dst []byte, v any) ([]byte, error) { return appendValue(dst, v, 0) }

// Text returns v as it reads inside other text: a string as it is, nil as "", everything else as
// canonical JSON.
func Text(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	text, err := AppendJSON(nil, v)
	return string(text), err
}

// Size returns the length of v's canonical JSON, but looks no further once that is over limit: then
// it returns some number over limit. A list that holds the same list twice, and so on, can be of
// any length and yet take little memory; measure what strangers make before walking it.
func Size(v any, limit int) (int, error) {
	s := sizer{limit: limit}
	err := s.add(v, 0)
	return s.n, err
}

// Extent is how large a value is. The zero Extent says that it has not been measured: no value is so small.
type Extent struct {
	Bytes  int // of its canonical JSON, see [Size]
	Weight int // see [Weight]
}

// Take is Normalise, Size and Weight in one: it returns v as decoded JSON, and its extent. Of what is over
// limit it returns v as it is, some size over limit, and of its weight a part.
func Take(v any, limit int) (w any, e Extent, err error) {
	s := sizer{limit: limit}
	if !s.normal(v, 0) {
		if v, err = Normalise(v); err != nil {
			return nil, Extent{}, err
		}
		s = sizer{limit: limit}
		s.normal(v, 0)
	}
	return v, Extent{s.n, s.weight}, nil
}

type sizer struct {
	n, limit int
	weight   int // by normal
}

// normal is add for a value that is normal already; of others it returns false.
func (s *sizer) normal(v any, depth int) bool {
	if s.n > s.limit {
		return true
	}
	if depth > MaxDepth {
		return false
	}
	s.weight += weightOfValue
	switch v := v.(type) {
	case nil, bool:
	case string:
		s.weight += len(v)
	case int64:
		s.n += intLength(v)
		return true
	case json.Number:
		s.n += len(v)
		s.weight += len(v)
		return isBig(v)
	case []any:
		if v == nil {
			return false
		}
		s.n += 1 + max(1, len(v))
		s.weight += weightOfList
		for _, e := range v {
			if !s.normal(e, depth+1) {
				return false
			}
		}
		return true
	case map[string]any:
		if v == nil {
			return false
		}
		s.n += 1 + max(1, len(v)) + len(v)
		s.weight += weightOfObject + len(v)*weightOfMember
		if len(v) > smallObject {
			s.weight += len(v) * weightOfMore
		}
		for k, e := range v {
			s.weight += len(k)
			if s.addString(k); !s.normal(e, depth+1) {
				return false
			}
		}
		return true
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	default:
		return false
	}
	return s.add(v, depth) == nil
}

func (s *sizer) add(v any, depth int) error {
	if depth > MaxDepth {
		return errDeep
	}
	if s.n > s.limit {
		return nil
	}
	switch v := v.(type) {
	case nil:
		s.n += len("null")
	case bool:
		s.n += len("true")
		if !v {
			s.n++
		}
	case int64:
		s.n += intLength(v)
	case json.Number:
		if !isBig(v) {
			return s.addOther(v, depth)
		}
		s.n += len(v)
	case float64:
		var buf [32]byte
		text, err := appendFloat(buf[:0], v)
		s.n += len(text)
		return err
	case string:
		s.addString(v)
	case []any:
		s.n += 1 + max(1, len(v)) // brackets and commas
		for i, e := range v {
			if err := s.add(e, depth+1); err != nil {
				return at(strconv.Itoa(i), err)
			}
		}
	case map[string]any:
		s.n += 1 + max(1, len(v)) + len(v)
		for k, e := range v {
			s.addString(k)
			if err := s.add(e, depth+1); err != nil {
				return at(k, err)
			}
		}
	default:
		return s.addOther(v, depth)
	}
	return nil
}

// addOther counts what is not decoded JSON.
func (s *sizer) addOther(v any, depth int) error {
	w, _, err := normalise(v, depth) // it changes
	if err != nil {
		return err
	}
	return s.add(w, depth)
}

// addString counts a string. Only one with a byte that may need more room is encoded.
func (s *sizer) addString(v string) {
	s.n += len(v) + len(`""`)
	if s.n > s.limit {
		return
	}
	for i := range len(v) {
		if b := v[i]; b < ' ' || b == '"' || b == '\\' || b >= utf8.RuneSelf {
			s.n += len(AppendString(nil, v)) - len(v) - len(`""`)
			return
		}
	}
}

// intLength is the number of characters of an integer.
func intLength(i int64) int {
	n := 1
	if i < 0 {
		n++
	}
	for i /= 10; i != 0; i /= 10 {
		n++
	}
	return n
}

func appendValue(dst []byte, v any, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return dst, errDeep
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case json.Number:
		if isBig(v) {
			return append(dst, v...), nil
		}
	case float64:
		return appendFloat(dst, v)
	case string:
		return AppendString(dst, v), nil
	case []any:
		return appendList(dst, v, depth)
	case map[string]any:
		return appendMap(dst, v, depth)
	}
	w, _, err := normalise(v, depth) // it is none of the above, so it changes
	if err != nil {
		return dst, err
	}
	return appendValue(dst, w, depth)
}

func appendList(dst []byte, v []any, depth int) ([]byte, error) {
	if v == nil {
		return append(dst, "null"...), nil
	}
	dst = append(dst, '[')
	var err error
	for i, e := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendValue(dst, e, depth+1); err != nil {
			return dst, at(strconv.Itoa(i), err)
		}
	}
	return append(dst, ']'), nil
}

func appendMap(dst []byte, v map[string]any, depth int) ([]byte, error) {
	if v == nil {
		return append(dst, "null"...), nil
	}
	var buf [16]string // keeps the keys of small maps off the heap
	keys := buf[:0]
	for k := range v {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	var err error
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, k), ':')
		if dst, err = appendValue(dst, v[k], depth+1); err != nil {
			return dst, at(k, err)
		}
	}
	return append(dst, '}'), nil
}

func appendFloat(dst []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, errNumber(f)
	}
	if f == 0 {
		return append(dst, '0'), nil // -0 too
	}
	// The form of ECMAScript's Number.toString, exponents without a leading zero, but for the large.
	format := byte('f')
	abs := math.Abs(f)
	if abs < 1e-6 || abs >= 1<<63 {
		format = 'e'
	}
	if abs >= 1<<53 && abs < 1<<63 { // zeros behind the shortest form would make another integer of it
		return strconv.AppendFloat(dst, f, 'f', 0, 64), nil
	}
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst, nil
}

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string in quotes.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0 // of what is still to be copied as it is
	for i := 0; i < len(s); {
		b := s[i]
		if b >= ' ' && b < utf8.RuneSelf && b != '"' && b != '\\' {
			i++
			continue
		}
		size := 1
		if b >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			// U+2028 and U+2029 end a line in JavaScript, so encoding/json escapes them.
			if r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u`...)
			for shift := 12; shift >= 0; shift -= 4 {
				dst = append(dst, hex[r>>shift&15])
			}
		} else {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, b)
		}
		i += size
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
}

// IsCanonical reports whether text is the canonical JSON of a value, see [AppendJSON], as far as that
// is plain to see: one with fractions, exponents, escapes or letters beyond ASCII may be, too.
func IsCanonical(text []byte) bool {
	rest, ok := afterCanonical(text, 0)
	return ok && len(rest) == 0
}

// afterCanonical returns what follows on the value that text begins with.
func afterCanonical(text []byte, depth int) (rest []byte, ok bool) {
	if len(text) == 0 || depth > MaxDepth {
		return nil, false
	}
	switch b := text[0]; b {
	case '{', '[':
		if len(text) > 1 && text[1] == b+2 { // the bracket that closes
			return text[2:], true
		}
		var last []byte
		for {
			text = text[1:] // behind the bracket, or a comma
			if b == '{' {
				key, rest, ok := plainString(text)
				if !ok || last != nil && bytes.Compare(last, key) >= 0 || len(rest) == 0 || rest[0] != ':' {
					return nil, false
				}
				last, text = key, rest[1:]
			}
			if text, ok = afterCanonical(text, depth+1); !ok || len(text) == 0 {
				return nil, false
			}
			switch text[0] {
			case ',':
			case b + 2:
				return text[1:], true
			default:
				return nil, false
			}
		}
	case '"':
		_, rest, ok = plainString(text)
		return rest, ok
	case 't', 'f', 'n':
		for _, word := range []string{"true", "false", "null"} {
			if rest, ok := bytes.CutPrefix(text, []byte(word)); ok {
				return rest, true
			}
		}
		return nil, false
	}
	digits := bytes.TrimPrefix(text, []byte("-"))
	n := 0
	for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
		n++
	}
	if n == 0 || n > 18 || digits[0] == '0' && (n > 1 || text[0] == '-') { // 18 digits fit in int64
		return nil, false
	}
	return digits[n:], true
}

// plainString returns the string, without escapes, that text begins with, and what follows on it.
func plainString(text []byte) (s, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return nil, nil, false
	}
	for i, b := range text[1:] {
		switch {
		case b == '"':
			return text[1 : i+1], text[i+2:], true
		case b < ' ' || b >= utf8.RuneSelf || b == '\\':
			return nil, nil, false
		}
	}
	return nil, nil, false
}
