package expr

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// pattern is a regular expression and the size of its program.
type pattern struct {
	*regexp.Regexp
	size   int
	source string // in a form that can stand in another one
}

func compilePattern(source string) (*pattern, error) {
	if len(source) > maxPattern {
		return nil, fmt.Errorf("a regular expression of %d bytes is over the limit of %d", len(source), maxPattern)
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		var e *syntax.Error
		errors.As(err, &e)
		return nil, fmt.Errorf("%q is not a regular expression: %s", shorten(source), e.Code)
	}
	again := parsed.String()
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxInstructions {
		return nil, fmt.Errorf("the regular expression %q is too complex", shorten(source))
	}
	re, err := regexp.Compile(source)
	return &pattern{re, len(program.Inst), again}, err
}

// patternOf is the regular expression of that source, paid for unless it is the last one that was used.
func (s *state) patternOf(source string) *pattern {
	if s.compiled == nil || s.pattern != source {
		s.spend(1000 + 1000*len(source))
		re, err := compilePattern(source)
		check(err)
		s.pattern, s.compiled = source, re
	}
	return s.compiled
}

func matches(s *state, op string, a, b any) any {
	_, source, ok := strings2(op, a, b)
	if !ok {
		return false
	}
	return s.match(s.patternOf(source), a)
}

// match pays for the worst case, in which every instruction looks at every byte.
func (s *state) match(re *pattern, v any) any {
	subject, _, ok := strings2("matches", v, "")
	if !ok {
		return false
	}
	s.spend(re.size * (1 + len(subject)) / 8)
	return re.MatchString(subject)
}

// metered gives a text to a regular expression, which pays for each character that it looks at.
type metered struct {
	s    *state
	text string
	cost int // of a character
}

// ReadRune returns the next character.
func (m *metered) ReadRune() (rune, int, error) {
	if m.text == "" {
		return 0, 0, io.EOF
	}
	m.s.spend(m.cost)
	r, n := utf8.DecodeRuneInString(m.text)
	m.text = m.text[n:]
	return r, n, nil
}

// find visits the matches of re in a text, from left to right, until yield wants no more. They are those of
// regexp.FindAllStringSubmatchIndex, which would look at the rest of the text for each of them without paying.
func (s *state) find(re *pattern, text string, yield func(match []int) bool) {
	s.spend(2000 + 2000*len(re.source))
	first := regexp.MustCompile("(" + re.source + ")")
	var next *regexp.Regexp // the same, behind a character
	for at, end := 0, -1; at <= len(text); {
		here, from := first, 0
		if at > 0 {
			if next == nil {
				next = regexp.MustCompile(`\A(?s:.)(?s:.*?)(` + re.source + ")")
			}
			_, before := utf8.DecodeLastRuneInString(text[:at])
			here, from = next, at-before
		}
		s.spend(4 + re.NumSubexp())
		match := here.FindReaderSubmatchIndex(&metered{s, text[from:], 1 + re.size/4})
		if match == nil {
			return
		}
		match = match[2:] // the whole match is the first group
		for i := range match {
			if match[i] >= 0 {
				match[i] += from
			}
		}
		if wanted := match[1] > at || match[0] != end; wanted && !yield(match) { // else empty, behind the last one
			return
		}
		end = match[1]
		if match[1] == at {
			_, width := utf8.DecodeRuneInString(text[at:])
			at += max(1, width)
		} else {
			at = match[1]
		}
	}
}

// replaceAll puts a text, in which $1 is the first group, in the place of each match.
func replaceAll(s *state, a []any) any {
	text, re, with := a[0].(string), s.patternOf(a[1].(string)), a[2].(string)
	groups := strings.Count(with, "$")
	var out []byte
	done := 0
	s.find(re, text, func(match []int) bool {
		if len(with)+groups*(match[1]-match[0]) > 4*maxString {
			check(errTooLong)
		}
		out = append(out, text[done:match[0]]...)
		s.spend(len(with) / 4)
		out = re.ExpandString(out, with, text, match)
		done = match[1]
		if len(out) > maxString {
			check(errTooLong)
		}
		return true
	})
	out = append(out, text[done:]...)
	return s.made(string(out))
}

// merge is a map with the entries of both; where both have a key, the second one counts.
func merge(s *state, a []any) any {
	x, y := a[0].(map[string]any), a[1].(map[string]any)
	s.alloc(48 + 48*(len(x)+len(y)))
	out := make(map[string]any, len(x)+len(y))
	maps.Copy(out, x)
	maps.Copy(out, y)
	return out
}
