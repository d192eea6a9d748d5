package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A character beyond the first 65,536 is two escapes in JSON, \ud83d\ude00, and some endpoints end a piece of an answer
// between them. A half that a piece begins or ends with is kept until the other one comes: in the three bytes that
// UTF-8 would have for it, where the decoder puts U+FFFD, which has three as well.
const (
	halfBytes   = 3
	escapeBytes = len(`\ud83d`)
)

// unquoted decodes a string, and keeps halves at its ends. It is false for JSON that is neither a string nor null.
func unquoted(data []byte) ([]byte, bool) {
	if n := len(data); n > 1 && data[0] == '"' && bytes.IndexByte(data, '\\') < 0 && utf8.Valid(data) {
		return bytes.Clone(data[1 : n-1]), true // as nearly all pieces are
	}
	var decoded string
	if json.Unmarshal(data, &decoded) != nil {
		return nil, false
	}
	s := []byte(decoded)
	if data = bytes.TrimSpace(data); len(data) < len(`""`)+escapeBytes {
		return s, true
	}
	begin, end := data[1:1+escapeBytes], data[len(data)-1-escapeBytes:len(data)-1]
	if r := escaped(begin); 0xdc00 <= r && r <= 0xdfff {
		putHalf(s, r)
	}
	before := data[:len(data)-1-escapeBytes]
	slashes := len(before) - len(bytes.TrimRight(before, `\`))
	if r := escaped(end); 0xd800 <= r && r <= 0xdbff && slashes%2 == 0 {
		putHalf(s[len(s)-halfBytes:], r)
	}
	return s, true
}

// escaped is the unit of UTF-16 that an escape stands for; 0 for other text.
func escaped(text []byte) rune {
	digits, ok := bytes.CutPrefix(text, []byte(`\u`))
	unit, err := strconv.ParseUint(string(digits), 16, 16)
	if !ok || err != nil {
		return 0
	}
	return rune(unit)
}

func putHalf(s []byte, r rune) {
	s[0], s[1], s[2] = 0xe0|byte(r>>12), 0x80|byte(r>>6)&0xbf, 0x80|byte(r)&0xbf
}

// halfIn is the half in three bytes; 0: there is none.
func halfIn(s []byte) rune {
	if len(s) < halfBytes || s[0] != 0xed || s[1] < 0xa0 {
		return 0
	}
	return rune(s[0]&0xf)<<12 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f)
}

// withPiece appends a piece to a text. Two halves that meet become the character.
func withPiece(s, piece []byte) []byte {
	whole := s[:max(0, len(s)-halfBytes)]
	r := utf16.DecodeRune(halfIn(s[len(whole):]), halfIn(piece[:min(halfBytes, len(piece))]))
	if r == utf8.RuneError {
		return append(s, piece...)
	}
	return append(utf8.AppendRune(whole, r), piece[halfBytes:]...)
}

// withoutHalves is a text in which halves that nothing has come to are U+FFFD.
func withoutHalves(s []byte) []byte { return bytes.ToValidUTF8(s, []byte("\ufffd")) }
