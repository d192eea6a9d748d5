package value

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Redacted stands where a secret stood.
const Redacted = "***"

// Redactor replaces secrets by [Redacted], in all the forms in which programs and services write them:
//
//   - as they are, without the white space around them, with line ends of either kind or on one line, and each line of
//     8 bytes and more of a secret of several lines, white space around it aside
//   - escaped for a URL, for JSON and Go, or for HTML, in whole or in part
//   - in base64, also inside a longer base64 text at any alignment, and in hex, both also broken into lines of any
//     length
//   - as a list of bytes: in decimal, with spaces or commas between them, and in hex with colons
//   - of a secret that is a number: in every form in which that number is written with 8 bytes and more, and as a value
//
// It is immutable and safe for concurrent use; a nil Redactor replaces nothing. The time that it takes grows with the
// length of a text; without secrets it costs nothing.
type Redactor struct {
	plain, coded finder    // forms that may be escaped, and forms that may be broken into lines
	numbers      []float64 // that secrets are
	longest      int       // bytes of the longest form
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
			r = &Redactor{}
		}
		for _, text := range variants(secret) {
			r.addNumber(text)
			r.plain.add(needle{text: text})
			r.plain.add(needle{text: strings.ReplaceAll(text, " ", "+")}) // in a URL
			for _, n := range codes(text) {
				r.coded.add(n)
			}
		}
	}
	if r != nil {
		r.longest = max(r.plain.longest, r.coded.longest)
	}
	return r
}

// Text returns s with every secret replaced; s itself when it holds none. Where secrets overlap,
// all of them go.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	ways := r.readings(s)
	spans := ways.find()
	if spans == nil {
		return s
	}
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

// Middle is Text for a piece of a longer text: where its beginning or its end was cut off, what may be a part of a
// secret is left out too.
func (r *Redactor) Middle(s string, noBeginning, noEnd bool) string {
	if r == nil || !noBeginning && !noEnd {
		return r.Text(s)
	}
	ways := r.readings(s)
	spans := ways.find()
	from, to := 0, len(s)
	for i := range ways.n {
		rd := &ways.all[i]
		if noBeginning {
			from = max(from, rd.end(min(len(rd.text), r.longest)))
		}
		if noEnd {
			to = min(to, rd.start(max(0, len(rd.text)-r.longest)))
		}
	}
	for _, sp := range spans {
		if sp.from < from && from < sp.to {
			from = sp.to
		}
	}
	for _, sp := range slices.Backward(spans) {
		if sp.from < to && to < sp.to {
			to = sp.from
		}
	}
	if from >= to {
		return ""
	}
	return strings.ToValidUTF8(r.Text(s[from:to]), "")
}

// Stream replaces secrets in a text that comes in pieces. It holds back the end of what it has
// seen, which may be the beginning of a secret.
type Stream struct {
	r    *Redactor
	held string
}

// maxStretch is how many times longer than it is a Stream expects a secret to be written.
const maxStretch = 8

// Stream returns a new Stream; that of a nil Redactor holds nothing back.
func (r *Redactor) Stream() *Stream { return &Stream{r: r} }

// Next takes a piece and returns what is sure by now.
func (s *Stream) Next(piece string) string {
	if s.r == nil {
		return piece
	}
	s.held += piece
	ways := s.r.readings(s.held)
	cut := len(s.held)
	for i := range ways.n { // a needle also looks at the character before it
		rd := &ways.all[i]
		cut = min(cut, rd.start(max(0, len(rd.text)-s.r.longest-1)))
	}
	cut = max(cut, len(s.held)-maxStretch*(s.r.longest+1))
	if cut <= 0 {
		return ""
	}
	for cut > 0 && !utf8.RuneStart(s.held[cut]) {
		cut--
	}
	for _, sp := range slices.Backward(ways.find()) { // last: what was cut off of a secret would not be found
		if sp.from < cut && cut < sp.to {
			cut = sp.from
		}
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

// shows reports whether a text shows a secret.
func (r *Redactor) shows(s string) bool {
	ways := r.readings(s)
	return ways.find() != nil
}

// Value returns the decoded JSON v with every secret replaced in strings, in names of members and
// in numbers and lists of bytes (which become strings). What holds none is returned as it is, uncopied.
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
		if len(r.numbers) > 0 {
			return r.number(float64(v), strconv.FormatInt(v, 10))
		}
	case json.Number:
		if s := r.Text(string(v)); s != string(v) {
			return s, true
		}
	case float64:
		if len(r.numbers) > 0 {
			return r.number(v, strconv.FormatFloat(v, 'f', -1, 64))
		}
	case []any:
		if r.showsBytes(v) {
			return Redacted, true
		}
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
			if _, changed := r.value(e); changed || r.shows(k) {
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
// returns an error with the redacted message, which does not unwrap, so that printing the
// chain shows no secret. errors.Is and errors.As still reach the causes; what errors.As hands out
// is the cause as it was, fit for decisions but not for printing.
func (r *Redactor) Error(err error) error {
	if r == nil || err == nil || !r.inChain(err) {
		return err
	}
	return &redactedError{r.Text(err.Error()), err}
}

func (r *Redactor) inChain(err error) bool {
	if err == nil {
		return false
	}
	if r.shows(err.Error()) {
		return true
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return r.inChain(err.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(err.Unwrap(), r.inChain)
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
