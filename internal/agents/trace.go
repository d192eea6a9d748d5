package agents

import (
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/trace"
)

// tracer keeps the events and diagnostics of a loop, or of one of its calls while those overlap, in
// the order in which they go into the outcome.
type tracer struct {
	list  []trace.Event
	found diagnostics.List
}

// emit reports something that happened; data are names and values, in any order. content makes what
// the event is about, decoded JSON, if a sink wants it; nil: nothing.
func (x *Execution) emit(to *tracer, kind trace.Kind, path string, content func() any, data []any) {
	const several = 32 // one allocation for them
	if n := len(data) / 2; n > cap(x.attrs) {
		x.attrs = make(trace.Data, 0, max(several, n))
	}
	e := item{to: to, tell: trace.Event{Kind: kind, Step: path, Data: slices.Clip(AppendAttrs(x.attrs, data))}}
	x.attrs = x.attrs[len(e.tell.Data):len(e.tell.Data)]
	if content != nil && x.terms.Content {
		e.content = content()
	}
	x.queue = append(x.queue, e)
}

// AppendAttrs adds names and values, one after the other, to an empty list, and sorts it by name.
func AppendAttrs(list trace.Data, data []any) trace.Data {
	for i := 0; i < len(data); i += 2 {
		v, err := value.Normalise(data[i+1])
		if err != nil {
			v = err.Error()
		}
		list = append(list, trace.Attr{Key: data[i].(string), Value: v})
	}
	slices.SortStableFunc(list, func(a, b trace.Attr) int { return strings.Compare(a.Key, b.Key) })
	return list
}

func (f *frame) emit(kind trace.Kind, data ...any) {
	f.execution.emit(f.trace, kind, f.path, nil, data)
}

func (f *frame) emitAbout(kind trace.Kind, content func() any, data ...any) {
	f.execution.emit(f.trace, kind, f.path, content, data)
}

func (f *frame) warn(code diagnostics.Code, format string, args ...any) {
	kind := diagnostics.KindContract
	if code == diagnostics.CodeSkillMismatch {
		kind = diagnostics.KindResume
	}
	f.trace.found = append(f.trace.found, diagnostics.Diagnostic{
		Level: diagnostics.Warn, Kind: kind, Code: code, Message: fmt.Sprintf(format, args...), Step: f.path})
}

func (t *thread) emit(kind trace.Kind, data ...any) {
	t.execution.emit(t.trace, kind, t.path, nil, data)
}

func (t *thread) emitAbout(kind trace.Kind, content func() any, data ...any) {
	t.execution.emit(t.trace, kind, t.path, content, data)
}

// known is an attribute, unless it is not known.
func known(key, text string) []any {
	if text == "" {
		return nil
	}
	return []any{key, text}
}
