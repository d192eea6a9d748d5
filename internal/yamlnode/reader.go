package yamlnode

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
)

// MaxFindings is how many diagnostics a Reader keeps; of a file with more mistakes than that, the
// rest would help nobody.
const MaxFindings = 1000

// Reader reads typed values out of nodes and collects what is wrong. Its methods accept a nil
// node (a missing key) and an Invalid one, and return the zero value for both without
// a word. The zero Reader is ready to use.
type Reader struct {
	Diagnostics diagnostics.List
	// Hints say what to write instead: by key and what stands under it, as in "steps a list", or "KEY missing". Of keys
	// that are missing those of the document count.
	Hints map[string]string
}

// Errorf adds an error. hint may be "".
func (r *Reader) Errorf(pos diagnostics.Position, code diagnostics.Code, hint, format string, args ...any) {
	r.add(diagnostics.ErrorLevel, pos, code, hint, format, args)
}

// Warnf adds a warning. hint may be "".
func (r *Reader) Warnf(pos diagnostics.Position, code diagnostics.Code, hint, format string, args ...any) {
	r.add(diagnostics.Warn, pos, code, hint, format, args)
}

// Mildf adds a warning that strict mode leaves as it is.
func (r *Reader) Mildf(pos diagnostics.Position, code diagnostics.Code, hint, format string, args ...any) {
	before := len(r.Diagnostics)
	r.Warnf(pos, code, hint, format, args...)
	for i := range r.Diagnostics[before:] {
		r.Diagnostics[before+i].Mild = r.Diagnostics[before+i].Level == diagnostics.Warn
	}
}

func (r *Reader) add(
	level diagnostics.Level, pos diagnostics.Position, code diagnostics.Code, hint, format string, args []any,
) {
	switch {
	case r.Full():
		return
	case len(r.Diagnostics) == MaxFindings-1:
		level, code, hint = diagnostics.ErrorLevel, diagnostics.CodeTooLarge, ""
		format, args = "more than %d problems; the rest is not listed", []any{MaxFindings}
	}
	r.Diagnostics = append(r.Diagnostics, diagnostics.Diagnostic{
		Level: level, Kind: diagnostics.KindRecipe, Code: code,
		Message: fmt.Sprintf(format, args...), Hint: hint, Position: pos,
	})
}

// Full reports whether further diagnostics are dropped, so that a caller may stop looking for them.
func (r *Reader) Full() bool { return len(r.Diagnostics) >= MaxFindings }

// Object returns the values of a mapping by key, nil when n is not one. A key that is not in
// known is an error with a suggestion; "x-*" in known admits every key with that prefix.
// synonyms gives, for keys that people write by mistake, the right key, or a whole hint when it
// holds a space.
func (r *Reader) Object(n *Node, known []string, synonyms map[string]string) map[string]*Node {
	if !r.is(n, Map, "a mapping") {
		return nil
	}
	fields := make(map[string]*Node, len(n.Fields))
	for _, f := range n.Fields {
		if slices.Contains(known, f.Key) {
			fields[f.Key] = f.Value
		} else if !(strings.HasPrefix(f.Key, "x-") && slices.Contains(known, "x-*")) && !r.Full() {
			r.Errorf(f.Pos, diagnostics.CodeUnknownKey, keyHint(f.Key, known, synonyms), "unknown key %q", f.Key)
		}
	}
	return fields
}

func keyHint(key string, known []string, synonyms map[string]string) string {
	if hint, ok := synonyms[key]; ok {
		if strings.Contains(hint, " ") {
			return hint
		}
		return fmt.Sprintf("did you mean %q?", hint)
	}
	names := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return k == "x-*" })
	return diagnostics.DidYouMean(key, names)
}

// Require reports every one of the keys that is not in the mapping n, whose fields are given.
func (r *Reader) Require(n *Node, fields map[string]*Node, keys ...string) {
	for _, key := range keys {
		switch {
		case fields == nil || fields[key] != nil:
		case n.Key == "":
			r.Errorf(n.Pos, diagnostics.CodeMissingKey, r.Hints[key+" missing"], "the key %q is missing", key)
		default:
			r.Errorf(n.Pos, diagnostics.CodeMissingKey, "", "the key %q is missing from %q", key, n.Key)
		}
	}
}

// Map returns the fields of a mapping with free keys.
func (r *Reader) Map(n *Node) []Field {
	if !r.is(n, Map, "a mapping") {
		return nil
	}
	return n.Fields
}

// List returns the items of a list.
func (r *Reader) List(n *Node) []*Node {
	if !r.is(n, List, "a list") {
		return nil
	}
	return n.Items
}

// String reads a string.
func (r *Reader) String(n *Node) string {
	if !r.is(n, String, "a string") {
		return ""
	}
	return n.Value.(string)
}

// Text reads a string that is not empty.
func (r *Reader) Text(n *Node) string {
	s := r.String(n)
	if s == "" && n != nil && n.Kind == String {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%smay not be empty", label(n))
	}
	return s
}

// Bool reads a boolean.
func (r *Reader) Bool(n *Node) bool {
	if !r.is(n, Bool, "a boolean") {
		return false
	}
	return n.Value.(bool)
}

// Int reads an integer between least and most.
func (r *Reader) Int(n *Node, least, most int) int {
	if !r.is(n, Int, "an integer") {
		return 0
	}
	i, ok := n.Value.(int64)
	if !ok || i < int64(least) || i > int64(most) {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%smust be between %d and %d", label(n), least, most)
		return 0
	}
	return int(i)
}

// Float reads a number, written as an integer or with a fraction.
func (r *Reader) Float(n *Node) float64 {
	if n != nil && n.Kind == Int {
		f, _ := strconv.ParseFloat(fmt.Sprint(n.Value), 64)
		return f
	}
	if !r.is(n, Float, "a number") {
		return 0
	}
	return n.Value.(float64)
}

// Amount reads a number that is more than 0, for a limit that may be left out.
func (r *Reader) Amount(n *Node) float64 {
	found := len(r.Diagnostics)
	f := r.Float(n)
	if n != nil && n.Kind != Invalid && !(f > 0 && f <= math.MaxFloat64) && len(r.Diagnostics) == found {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "leave it out for no limit", "%smust be more than 0", label(n))
		return 0
	}
	return f
}

// Duration reads a Go duration such as "90s" that is not negative.
func (r *Reader) Duration(n *Node) time.Duration {
	if n != nil && (n.Kind == Int || n.Kind == Float) {
		r.Errorf(n.Pos, diagnostics.CodeWrongType, fmt.Sprintf("give it a unit: %vs", n.Value),
			"%smust be a duration, not %s", label(n), n.Kind)
		return 0
	}
	text := r.Text(n)
	if text == "" {
		return 0
	}
	d, err := value.Duration(text)
	switch {
	case err != nil && strings.Trim(text, "0123456789") == "":
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, fmt.Sprintf("give it a unit: %ss", text),
			"%q is not a duration", text)
	case err != nil:
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "durations look like 500ms, 30s, 5m, 2h, 1d",
			"%q is not a duration", text)
	case d < 0:
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%smay not be negative", label(n))
		return 0
	}
	return d
}

// Strings reads a list of strings that are not empty.
func (r *Reader) Strings(n *Node) []string {
	var list []string
	for _, item := range r.List(n) {
		list = append(list, r.Text(item))
	}
	return list
}

// OneOf reads a string that must be one of the allowed ones.
func (r *Reader) OneOf(n *Node, allowed ...string) string {
	s := r.String(n)
	if n == nil || n.Kind != String || slices.Contains(allowed, s) {
		return s
	}
	hint := "allowed: " + strings.Join(allowed, ", ")
	if near := diagnostics.Suggest(s, allowed); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	r.Errorf(n.Pos, diagnostics.CodeInvalidValue, hint, "%smay not be %q", label(n), s)
	return ""
}

// is reports whether n has the kind, and says so when it has another.
func (r *Reader) is(n *Node, kind Kind, want string) bool {
	switch {
	case n == nil || n.Kind == Invalid:
		return false
	case n.Kind != kind:
		r.WrongType(n, want)
		return false
	}
	return true
}

// WrongType reports that n is not what it should be; want is a noun with its article.
func (r *Reader) WrongType(n *Node, want string) {
	hint := r.Hints[n.Key+" "+n.Kind.String()]
	if want == "a string" && n.Plain {
		hint = "quote it"
	}
	r.Errorf(n.Pos, diagnostics.CodeWrongType, hint, "%smust be %s, not %s", label(n), want, n.Kind)
}

// label begins a message about n with the key that it stands under.
func label(n *Node) string {
	if n.Key == "" {
		return "this "
	}
	return fmt.Sprintf("%q ", n.Key)
}
