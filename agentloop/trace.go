package agentloop

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/trace"
)

// live is who is told of events as they happen.
type live struct {
	mu      sync.Mutex
	emit    func(e trace.Event, content any)
	content bool // is wanted
}

func (l *live) send(e trace.Event, content any) {
	if l.emit != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.emit(e, content)
	}
}

// tracer keeps the events and findings of a loop, or of one of its calls while those overlap, in
// the order in which they go into the outcome.
type tracer struct {
	live  *live
	list  []trace.Event
	found diagnostics.List
	attrs trace.Data // room for those of the next events
}

// emit tells of something that happened; data are names and values, in any order. content makes what
// the event is about, decoded JSON, if somebody wants it; nil: nothing.
func (t *tracer) emit(kind trace.Kind, path string, content func() any, data []any) {
	const several = 32 // one allocation for them
	if n := len(data) / 2; n > cap(t.attrs) {
		t.attrs = make(trace.Data, 0, max(several, n))
	}
	e := trace.Event{At: time.Now().UTC(), Kind: kind, Step: path, Data: slices.Clip(appendAttrs(t.attrs, data))}
	t.attrs = t.attrs[len(e.Data):len(e.Data)]
	var about any
	if content != nil && t.live.content {
		about = content()
	}
	t.add(e, about)
}

// appendAttrs adds names and values to an empty list, in the order of the names.
func appendAttrs(list trace.Data, data []any) trace.Data {
	for i := 0; i < len(data); i += 2 {
		v, err := value.Normalise(data[i+1])
		if err != nil {
			v = err.Error()
		}
		list = append(list, trace.Attr{Key: data[i].(string), Value: v})
	}
	slices.SortFunc(list, func(a, b trace.Attr) int { return strings.Compare(a.Key, b.Key) })
	return list
}

func (t *tracer) add(e trace.Event, content any) {
	t.list = append(t.list, e)
	t.live.send(e, content)
}

// outlet is a tracer for a call, until it is over: then what a call that was left behind says is
// dropped.
type outlet struct {
	mu sync.Mutex
	to *tracer // nil: it is over
}

func (t *tracer) outlet() *outlet { return &outlet{to: t} }

func (o *outlet) emit(e trace.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to != nil {
		o.to.add(e, nil)
	}
}

func (o *outlet) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = nil
}

// delta shows a piece of an answer; it is no part of the outcome's trace.
func (t *tracer) delta(path, text string) {
	t.live.send(trace.Event{At: time.Now().UTC(), Kind: trace.ModelDelta, Step: path, Data: trace.Data{{Key: "text", Value: text}}}, nil)
}

func (f *frame) emit(kind trace.Kind, data ...any) { f.trace.emit(kind, f.path, nil, data) }

func (f *frame) emitAbout(kind trace.Kind, content func() any, data ...any) {
	f.trace.emit(kind, f.path, content, data)
}

func (f *frame) warn(code diagnostics.Code, format string, args ...any) {
	f.trace.found = append(f.trace.found, diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: code,
		Message: fmt.Sprintf(format, args...), Step: f.path})
}
