package expr

import (
	"encoding/base64"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/value"
)

func rounding(f func(float64) float64) *function {
	return takes(number).gives(number, func(_ *state, a []any) any {
		if i, ok := a[0].(int64); ok {
			return i
		}
		return number64(f(float(a[0])))
	})
}

func toFloat(v any) float64 {
	str, ok := v.(string)
	if !ok {
		return float(v)
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(str), 64)
	if err != nil {
		fail("%q is not a number", shorten(str))
	}
	return f
}

func toInteger(v any) any {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		i, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil {
			fail("%q is not an integer", shorten(v))
		}
		return i
	}
	f := math.Trunc(float(v))
	if f < math.MinInt64 || f >= -math.MinInt64 {
		fail("%v does not fit in 64 bits", v)
	}
	return int64(f)
}

func trimming(f func(s, cut string) string, absent string) *function {
	return takes(text).optional(text).gives(text, func(_ *state, a []any) any {
		cut := absent
		if len(a) > 1 {
			cut = a[1].(string)
		}
		return f(a[0].(string), cut)
	})
}

func splitting(f func(s, sep string, n int) []string) func(*state, []any) any {
	return func(s *state, a []any) any {
		str, n := a[0].(string), -1
		if len(a) > 2 {
			n = integer("the number of parts", a[2])
		}
		s.spend(len(str) / 4)
		parts := f(str, a[1].(string), n)
		out := s.newList(2 * len(parts))
		for _, part := range parts {
			out = append(out, part)
		}
		return out
	}
}

func replace(s *state, a []any) any {
	str, from, to, n := a[0].(string), a[1].(string), a[2].(string), -1
	if len(a) > 3 {
		n = integer("the number of replacements", a[3])
	}
	count := strings.Count(str, from)
	if n >= 0 {
		count = min(count, n)
	}
	s.spend(count)
	s.newString(max(0, len(str)+count*(len(to)-len(from))))
	return strings.Replace(str, from, to, n)
}

func repeat(s *state, a []any) any {
	str, n := a[0].(string), integer("the number of repetitions", a[1])
	if n < 0 {
		fail("the number of repetitions must not be negative")
	}
	if str == "" {
		return ""
	}
	s.newString(len(str) * min(n, maxString+1))
	return strings.Repeat(str, n)
}

func join(s *state, a []any) any {
	glue := ""
	if len(a) > 1 {
		glue = a[1].(string)
	}
	items := a[0].([]any)
	s.alloc(16 * len(items))
	parts := make([]string, len(items))
	size := 0
	for i, item := range items {
		parts[i] = s.text(item)
		if size += len(parts[i]) + len(glue); size > maxString+len(glue) {
			break
		}
	}
	s.newString(max(0, size-len(glue)))
	return strings.Join(parts, glue)
}

// positions counts in characters.
func positions(f func(s, sub string) int) func(*state, []any) any {
	return func(_ *state, a []any) any {
		str := a[0].(string)
		i := f(str, a[1].(string))
		if i > 0 {
			i = utf8.RuneCountInString(str[:i])
		}
		return int64(i)
	}
}

// made is f as a function of strings of limited size.
func made(f func(string) string) func(*state, []any) any {
	return func(s *state, a []any) any { return s.made(f(a[0].(string))) }
}

// comparing is f as a function of two strings.
func comparing(f func(s, part string) bool) func(*state, []any) any {
	return func(_ *state, a []any) any { return f(a[0].(string), a[1].(string)) }
}

func fromJSON(s *state, a []any) any {
	str := a[0].(string)
	s.spend(len(str))
	s.alloc(16 * len(str))
	v, err := value.Decode([]byte(str))
	if err != nil {
		_, cause := value.Place(err)
		fail("the text is not JSON: %w", cause)
	}
	return v
}

// fromCSV reads RFC 4180. The first row names the members of all others, whose values are texts.
func fromCSV(s *state, a []any) any {
	str := a[0].(string)
	s.spend(len(str))
	s.alloc(len(str))
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(str, "\ufeff")))
	header, err := r.Read()
	s.alloc(64 * len(header))
	names, rows := make(map[string]bool, len(header)), []any{}
	for _, name := range header {
		if names[name] {
			fail("the text is not CSV with a header: two columns are named %q", name)
		}
		names[name] = true
	}
	for err == nil {
		var fields []string
		if fields, err = r.Read(); err == nil {
			s.alloc(64 * (1 + len(fields)))
			row := make(map[string]any, len(fields))
			for i, name := range header {
				row[name] = fields[i]
			}
			rows = append(rows, row)
		}
	}
	if !errors.Is(err, io.EOF) {
		fail("the text is not CSV: %w", err)
	}
	return rows
}

func fromBase64(s *state, a []any) any {
	data, err := base64.StdEncoding.DecodeString(a[0].(string))
	if err != nil {
		fail("the text is not base64")
	}
	if !utf8.Valid(data) {
		fail("the base64 text does not hold a string: it is not UTF-8")
	}
	return s.made(string(data))
}
