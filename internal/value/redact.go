package value

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Redacted stands where a secret stood.
const Redacted = "***"

// Redactor replaces secrets by [Redacted]: as they are, in base64 (also inside a longer base64
// text, at any alignment), escaped for a URL and as a JSON string. It is immutable and safe for
// concurrent use; a nil Redactor replaces nothing.
type Redactor struct {
	needles map[[2]byte][]needle // by their first two bytes
	first   [1 << 10]uint64      // the bit of first two bytes says whether needles has them
	digits  bool                 // a secret looks like an integer
	longest int                  // bytes of the longest needle
}

// needle is one form of a secret.
type needle struct {
	text string
	// before and after say how many more characters, if there, hold bits of the secret: a base64
	// text shares its outermost characters with what surrounds the secret.
	before, after int
}

// NewRedactor returns a Redactor of secrets, nil when there are none. A secret of less than two
// bytes is ignored; runtime refuses those under eight.
func NewRedactor(secrets []string) *Redactor {
	var r *Redactor
	for _, secret := range secrets {
		if len(secret) < 2 {
			continue
		}
		if r == nil {
			r = &Redactor{needles: map[[2]byte][]needle{}}
		}
		if i, err := strconv.ParseInt(secret, 10, 64); err == nil && strconv.FormatInt(i, 10) == secret {
			r.digits = true
		}
		for _, n := range forms(secret) {
			head := [2]byte{n.text[0], n.text[1]}
			if !slices.Contains(r.needles[head], n) {
				r.needles[head] = append(r.needles[head], n)
				r.first[int(head[0])<<2|int(head[1])>>6] |= 1 << (head[1] & 63)
				r.longest = max(r.longest, len(n.text))
			}
		}
	}
	return r
}

// forms lists the ways in which a secret may be written.
func forms(secret string) []needle {
	quoted := string(AppendString(nil, secret))
	quoted = quoted[1 : len(quoted)-1]
	html := strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(quoted)
	var out []needle
	for _, text := range []string{
		secret,
		quoted, html, strings.ReplaceAll(quoted, "/", `\/`),
		url.QueryEscape(secret), url.PathEscape(secret),
		lowerPercent(url.QueryEscape(secret)), lowerPercent(url.PathEscape(secret)),
		strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"),
	} {
		out = append(out, needle{text: text})
	}
	// In base64, six bits a character, a secret that begins at byte 0, 1 or 2 of a group of three
	// has one of three looks. Only the characters that are all its own are sought.
	for skip := range 3 {
		bits := 8 * (skip + len(secret))
		from, to := (8*skip+5)/6, bits/6
		if to-from < 4 {
			continue // too short to tell from other text
		}
		n := needle{before: min(skip, 1)}
		if bits%6 != 0 {
			n.after = 1
		}
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			n.text = enc.EncodeToString([]byte(strings.Repeat("\x00", skip) + secret))[from:to]
			out = append(out, n)
		}
	}
	return out
}

// lowerPercent writes the hex digits of a URL's escapes in lower case.
func lowerPercent(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i:], strings.ToLower(s[i:i+3]))
			i += 2
		}
	}
	return string(b)
}

// span is a part of a text that shows a secret.
type span struct{ from, to int }

// Text returns s with every secret replaced; s itself when it holds none. Where secrets overlap,
// all of them go.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	spans := r.find(s)
	if spans == nil {
		return s
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	end := 0
	for i, sp := range spans {
		if i == 0 || sp.from > end {
			b.WriteString(s[end:sp.from])
			b.WriteString(Redacted)
		}
		end = max(end, sp.to)
	}
	b.WriteString(s[end:])
	return b.String()
}

// Stream replaces secrets in a text that comes in pieces. It holds back the end of what it has
// seen, which may be the beginning of a secret.
type Stream struct {
	r    *Redactor
	held string
}

// Stream returns a new Stream; that of a nil Redactor holds nothing back.
func (r *Redactor) Stream() *Stream { return &Stream{r: r} }

// Next takes a piece and returns what is sure by now.
func (s *Stream) Next(piece string) string {
	if s.r == nil {
		return piece
	}
	s.held += piece
	cut := len(s.held) - s.r.longest - 1 // a needle also looks at the character before it
	if cut <= 0 {
		return ""
	}
	spans := s.r.find(s.held)
	for moved := true; moved; {
		moved = false
		for _, sp := range spans {
			if sp.from < cut && cut < sp.to {
				cut, moved = sp.from, true
			}
		}
	}
	for cut > 0 && !utf8.RuneStart(s.held[cut]) {
		cut--
	}
	sure := s.r.Text(s.held[:cut])
	s.held = s.held[cut:]
	return sure
}

// Rest returns what was held back; the text is over.
func (s *Stream) Rest() string {
	rest := s.r.Text(s.held)
	s.held = ""
	return rest
}

// find returns where secrets are; nil when there are none.
func (r *Redactor) find(s string) []span {
	var spans []span
	for i := 0; i+1 < len(s); i++ {
		if r.first[int(s[i])<<2|int(s[i+1])>>6]&(1<<(s[i+1]&63)) == 0 {
			continue
		}
		for _, n := range r.needles[[2]byte{s[i], s[i+1]}] {
			if strings.HasPrefix(s[i:], n.text) {
				spans = append(spans, n.widen(s, span{i, i + len(n.text)}))
			}
		}
	}
	return spans
}

// widen takes in the characters of a base64 text that hold bits of the secret and of others.
func (n needle) widen(s string, sp span) span {
	for range n.before {
		if sp.from > 0 && isBase64(s[sp.from-1]) {
			sp.from--
		}
	}
	for range n.after {
		if sp.to < len(s) && isBase64(s[sp.to]) {
			sp.to++
		}
	}
	return sp
}

func isBase64(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("+/-_", b) >= 0
}

// Value returns the decoded JSON v with every secret replaced in strings, in names of members and
// in integers (which become strings). What holds none is returned as it is, uncopied.
func (r *Redactor) Value(v any) any {
	if r == nil {
		return v
	}
	if w, changed := r.value(v); changed {
		return w
	}
	return v
}

// value reports whether v has to change, and if so to what.
func (r *Redactor) value(v any) (w any, changed bool) {
	switch v := v.(type) {
	case string:
		if s := r.Text(v); s != v {
			return s, true
		}
	case int64:
		if r.digits {
			text := strconv.FormatInt(v, 10)
			if s := r.Text(text); s != text {
				return s, true
			}
		}
	case []any:
		var out []any
		for i, e := range v {
			if w, changed := r.value(e); changed {
				if out == nil {
					out = slices.Clone(v)
				}
				out[i] = w
			}
		}
		return out, out != nil
	case map[string]any:
		for k, e := range v {
			if _, changed := r.value(e); changed || r.find(k) != nil {
				return r.object(v), true
			}
		}
	}
	return nil, false
}

// object copies a map that shows a secret. Names that become the same are numbered, in the order of
// the names as they were.
func (r *Redactor) object(v map[string]any) map[string]any {
	out := make(map[string]any, len(v))
	for _, k := range slices.Sorted(maps.Keys(v)) {
		name := r.Text(k)
		key := name
		for n := 2; ; n++ {
			if _, taken := out[key]; !taken {
				break
			}
			key = name + strconv.Itoa(n)
		}
		out[key] = r.Value(v[k])
	}
	return out
}

// Error returns err when neither its message nor that of any cause shows a secret. Otherwise it
// returns an error with the redacted message, which does not unwrap, so that whoever prints the
// chain sees no secret. errors.Is and errors.As still reach the causes; what errors.As hands out
// is the cause as it was, fit for decisions but not for printing.
func (r *Redactor) Error(err error) error {
	if r == nil || err == nil || !r.shows(err) {
		return err
	}
	return &redactedError{r.Text(err.Error()), err}
}

func (r *Redactor) shows(err error) bool {
	if err == nil {
		return false
	}
	if r.find(err.Error()) != nil {
		return true
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return r.shows(err.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(err.Unwrap(), r.shows)
	}
	return false
}

type redactedError struct {
	message string
	err     error
}

func (e *redactedError) Error() string        { return e.message }
func (e *redactedError) GoString() string     { return strconv.Quote(e.message) } // for %#v
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *redactedError) As(target any) bool   { return errors.As(e.err, target) }

type redactorKey struct{}

// WithRedactor returns a context that RedactorOf finds r in; ctx itself for a nil r.
func WithRedactor(ctx context.Context, r *Redactor) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, redactorKey{}, r)
}

// RedactorOf returns the Redactor of a context; nil if it has none.
func RedactorOf(ctx context.Context) *Redactor {
	r, _ := ctx.Value(redactorKey{}).(*Redactor)
	return r
}
