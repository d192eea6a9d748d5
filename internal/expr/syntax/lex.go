package syntax

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	end kind = iota
	name
	number
	quoted
	bytes
	operator
	bracket
)

// token is a word of the text.
type token struct {
	kind     kind
	value    string // of a string: what it means
	at       int    // in characters
	from, to int    // in bytes
}

func (t token) is(k kind, value string) bool { return t.kind == k && t.value == value }

// lexer reads one token after the other.
type lexer struct {
	text    string // valid UTF-8
	pos, at int    // of the next character, in bytes and in characters
}

const eof rune = -1

func (l *lexer) peek() rune {
	if l.pos == len(l.text) {
		return eof
	}
	r, _ := utf8.DecodeRuneInString(l.text[l.pos:])
	return r
}

func (l *lexer) next() rune {
	r := l.peek()
	if r != eof {
		l.pos += utf8.RuneLen(r)
		l.at++
	}
	return r
}

// accept takes the next character if it is one of these.
func (l *lexer) accept(set string) bool {
	r := l.peek()
	ok := r != eof && strings.ContainsRune(set, r)
	if ok {
		l.next()
	}
	return ok
}

func (l *lexer) acceptAll(set string) {
	for l.accept(set) {
	}
}

func isWord(r rune) bool { return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// words are the operators that look like names.
var words = map[string]bool{"in": true, "or": true, "and": true, "not": true, "matches": true, "contains": true,
	"startsWith": true, "endsWith": true, "let": true, "if": true, "else": true}

// token reads the next token. The end has the place of the last character.
func (l *lexer) token() token {
	pointer := l.pos > 0 && l.text[l.pos-1] == '#'
	if !pointer || !isWord(l.peek()) {
		pointer = false
		l.skip()
	}
	t := token{kind: operator, at: l.at, from: l.pos}
	switch r := l.peek(); {
	case r == eof:
		t.kind, t.at = end, max(l.at-1, 0)
	case pointer: // the name in #name may be any
		t.kind = name
		l.word()
	case '0' <= r && r <= '9', r == '.' && l.digitAfterDot():
		t.kind = number
		l.number()
	case r == '"' || r == '\'':
		t.kind, t.value = quoted, l.quoted(true)
	case r == '`':
		t.kind, t.value = quoted, l.raw()
	case (r == 'b' || r == 'B') && strings.IndexAny(l.text[l.pos+1:], `"'`) == 0:
		l.next()
		l.quoted(false)
		t.kind = bytes
	case isWord(r):
		if l.word(); !words[l.text[t.from:l.pos]] {
			t.kind = name
		}
	default:
		t.kind = l.sign()
	}
	if t.to = l.pos; t.kind != quoted {
		t.value = l.text[t.from:t.to]
	}
	return t
}

// skip passes over spaces and comments.
func (l *lexer) skip() {
	for {
		rest := l.text[l.pos:]
		switch {
		case unicode.IsSpace(l.peek()):
			l.next()
		case strings.HasPrefix(rest, "//"):
			for r := l.next(); r != eof && r != '\n'; r = l.next() {
			}
		case strings.HasPrefix(rest, "/*"):
			comment, _, closed := strings.Cut(rest[2:], "*/")
			if !closed {
				l.pos, l.at = len(l.text), l.at+utf8.RuneCountInString(rest)
				fail(l.at, "", "a comment has no end")
			}
			l.pos += len(comment) + 4
			l.at += utf8.RuneCountInString(comment) + 4
		default:
			return
		}
	}
}

func (l *lexer) word() {
	for isWord(l.peek()) {
		l.next()
	}
}

// sign reads an operator of one or two characters, or a bracket.
func (l *lexer) sign() kind {
	switch r := l.next(); {
	case strings.ContainsRune("([{)]}", r):
		return bracket
	case strings.ContainsRune(",;%+-^/", r):
	case strings.ContainsRune("|:#.", r):
		l.accept(string(r))
	case r == '?':
		l.accept(".?")
	case strings.ContainsRune("&!=*<>", r):
		l.accept("&=*")
	default:
		fail(l.at-1, "", "unexpected character %#U", r)
	}
	return operator
}

func (l *lexer) digitAfterDot() bool {
	rest := l.text[l.pos+1:]
	return rest != "" && '0' <= rest[0] && rest[0] <= '9'
}

// number reads what may be a number.
func (l *lexer) number() {
	from := l.pos
	digits := "0123456789_"
	l.accept(".") // .5, which takes no second point
	if l.accept("0") {
		switch {
		case l.accept("xX"):
			digits = "0123456789abcdefABCDEF_"
		case l.accept("oO"):
			digits = "01234567_"
		case l.accept("bB"):
			digits = "01_"
		}
	}
	l.acceptAll(digits)
	if strings.HasPrefix(l.text[l.pos:], "..") { // 1..3
		return
	}
	if l.accept(".") {
		l.acceptAll(digits)
	}
	if l.accept("eE") {
		l.accept("+-")
		l.acceptAll(digits)
	}
	if isWord(l.peek()) {
		l.next()
		fail(l.at-1, "", "%q is not a number", l.text[from:l.pos])
	}
}

// quoted reads a string in quotes, in which \u and \U may be escapes. A carriage return is a line break.
func (l *lexer) quoted(unicodes bool) string {
	quote := l.next()
	var b strings.Builder
	for {
		switch r := l.next(); r {
		case quote:
			return b.String()
		case eof, '\n':
			l.open(r)
		case '\\':
			b.WriteRune(l.escape(quote, unicodes))
		case '\r':
			b.WriteByte('\n')
		default:
			b.WriteRune(r)
		}
	}
}

// open reports a string that has not been closed when r was read.
func (l *lexer) open(r rune) {
	hint := ""
	if strings.Contains(l.text, "\n") {
		hint = `no string holds a line break; in YAML's double quotes \n makes one: write \\n`
	}
	at := l.at
	if r != eof {
		at--
	}
	fail(at, hint, "a string has no closing quote")
}

// raw reads a string in backquotes. Two backquotes in it are one.
func (l *lexer) raw() string {
	l.next()
	var b strings.Builder
	for {
		switch r := l.next(); {
		case r == eof:
			l.open(r)
		case r == '`' && !l.accept("`"):
			return b.String()
		default:
			b.WriteRune(r)
		}
	}
}

const escapes = "abfnrtv\\"

// escape reads what follows a backslash.
func (l *lexer) escape(quote rune, unicodes bool) rune {
	at := l.at
	r := l.next()
	if r == quote {
		return r
	}
	if i := strings.IndexRune(escapes, r); i >= 0 {
		return rune("\a\b\f\n\r\t\v\\"[i])
	}
	base, least, most := rune(16), 0, 0
	switch {
	case '0' <= r && r <= '3':
		l.pos, l.at = l.pos-1, l.at-1
		base, least, most = 8, 3, 3
	case r == 'x':
		least, most = 2, 2
	case (r == 'u' || r == 'U') && !unicodes:
	case r == 'u' && l.accept("{"):
		least, most = 1, 6
	case r == 'u':
		least, most = 4, 4
	case r == 'U':
		least, most = 8, 8
	}
	v, n := rune(0), 0
	for ; n < most; n++ {
		d := digit(l.peek())
		if d >= base {
			break
		}
		v = v*base + d
		l.next()
	}
	if n < max(least, 1) || v < 0 || v > unicode.MaxRune || least == 1 && !l.accept("}") {
		fail(at, "for a backslash write two of them, or put the string into `backquotes`", "unknown escape in a string")
	}
	return v
}

func digit(r rune) rune {
	switch {
	case '0' <= r && r <= '9':
		return r - '0'
	case 'a' <= r && r <= 'f':
		return r - 'a' + 10
	case 'A' <= r && r <= 'F':
		return r - 'A' + 10
	}
	return 16
}

// Error is why a text is not an expression.
type Error struct {
	At            int // in characters
	Message, Hint string
	TooLarge      bool // there are too many parts
}

func fail(at int, hint, format string, args ...any) {
	panic(&Error{At: at, Message: fmt.Sprintf(format, args...), Hint: hint})
}
