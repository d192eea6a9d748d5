package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/value"
)

// sorted returns d in the order of its keys, itself if it is in order.
func (d Data) sorted() Data {
	byKey := func(a, b Attr) int { return strings.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(d, byKey) {
		d = slices.Clone(d)
		slices.SortStableFunc(d, byKey)
	}
	return d
}

func (d Data) appendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, '{')
	var err error
	for i, a := range d.sorted() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(value.AppendString(dst, a.Key), ':')
		if dst, err = value.AppendJSON(dst, a.Value); err != nil {
			return dst, fmt.Errorf("%s: %w", a.Key, err)
		}
	}
	return append(dst, '}'), nil
}

// MarshalJSON writes an object, {} for none.
func (d Data) MarshalJSON() ([]byte, error) { return d.appendJSON(nil) }

// appendJSON appends one line without its end.
func (e Event) appendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, '{')
	if e.Seq != 0 {
		dst = append(dst, `"seq":`...)
		dst = strconv.AppendInt(dst, e.Seq, 10)
		dst = append(dst, ',')
	}
	dst = append(dst, `"at":"`...)
	dst = e.At.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, '"')
	if e.Run != "" {
		dst = append(dst, `,"run":`...)
		dst = value.AppendString(dst, e.Run)
	}
	dst = append(dst, `,"kind":`...)
	dst = value.AppendString(dst, string(e.Kind))
	if e.Step != "" {
		dst = append(dst, `,"step":`...)
		dst = value.AppendString(dst, e.Step)
	}
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		var err error
		if dst, err = e.Data.appendJSON(dst); err != nil {
			return dst, fmt.Errorf("event %s: data: %w", e.Kind, err)
		}
	}
	return append(dst, '}'), nil
}

// MarshalJSON writes {"seq","at","run","kind","step","data"}: seq, run and step are left out when zero, data
// when nil; at is RFC 3339 in UTC with as many digits of a second as it takes.
func (e Event) MarshalJSON() ([]byte, error) { return e.appendJSON(nil) }

// UnmarshalJSON reads what MarshalJSON writes. Members that it does not know are ignored.
func (e *Event) UnmarshalJSON(text []byte) error {
	v, err := value.Decode(text)
	if err != nil {
		return err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("an event is an object, not %s", value.TypeName(v))
	}
	var out Event
	var at, kind string
	var data map[string]any
	for _, err := range []error{
		member(m, "seq", &out.Seq), member(m, "at", &at), member(m, "run", &out.Run), member(m, "kind", &kind),
		member(m, "step", &out.Step), member(m, "data", &data),
	} {
		if err != nil {
			return err
		}
	}
	out.Kind = Kind(kind)
	if out.At, err = time.Parse(time.RFC3339Nano, at); err != nil {
		return fmt.Errorf("event: at: %w", err)
	}
	out.At = out.At.UTC()
	if data != nil {
		out.Data = make(Data, 0, len(data))
		for k, v := range data {
			out.Data = append(out.Data, Attr{k, v})
		}
		out.Data = out.Data.sorted()
	}
	*e = out
	return nil
}

// member reads a member of an event, if it exists.
func member[T any](m map[string]any, name string, to *T) error {
	v, ok := m[name]
	if !ok {
		return nil
	}
	if *to, ok = v.(T); !ok {
		return fmt.Errorf("event: %s: unexpectedly %s", name, value.TypeName(v))
	}
	return nil
}

// Line prints the event without what differs from run to run, for comparing traces: kind, step,
// then key=value in the order of the keys. Seq, At, Run and the attribute durationMs are left out.
// Strings that cannot be mistaken stand as they are, everything else as canonical JSON.
func (e Event) Line() string {
	var b strings.Builder
	b.WriteString(string(e.Kind))
	if e.Step != "" {
		b.WriteString(" " + plain(e.Step))
	}
	for _, a := range e.Data.sorted() {
		if a.Key != "durationMs" {
			b.WriteString(" " + plain(a.Key) + "=" + plain(a.Value))
		}
	}
	return b.String()
}

func plain(v any) string {
	text, err := value.JSON(v)
	if err != nil {
		return "?"
	}
	if s, ok := v.(string); ok && s != "" && !strings.ContainsFunc(s, needsQuotes) {
		if _, err := value.Decode([]byte(s)); err != nil { // "3" and "null" keep their quotes
			return s
		}
	}
	return string(text)
}

func needsQuotes(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"'=\`, r)
}
