package oteltrace

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	api "go.opentelemetry.io/otel/trace"

	"github.com/braise-run/braise/trace"
)

// run is the sink of one run. Its spans, each open from its own event on:
//
//	run.start ─▶ run ───────────────────────────────────────────────────────────▶ run.end
//	step.start ──▶ step, inside the nearest open step that its path is in ──────▶ step.end
//	agent.start ──▶ agent, inside its step, or inside the call of its parent that it is of ──▶ agent.end
//	model.start, tool.start ──▶ call of an agent ────────────────▶ model.end, tool.end
//	adapter.call ──▶ call ─┬─ adapter.retry, adapter.call: goes on ───────┐
//	                       └──────────────────────────────────────────────┴─────▶ model.end,
//	                                                          adapter.call or step.end of the step
//
// run.end ends whatever is open. Events of other kinds, and those after run.end, are ignored.
type run struct {
	to          *Exporter
	id          string
	traceparent atomic.Pointer[string]

	whole   span   // of the run; its Span is nil before the first event
	recipe  string // its name
	failure *failure
	steps   map[string]*step  // that are open, by path; nil after run.end
	agents  map[string]*agent // the same
}

// span is one that is open.
type span struct {
	api.Span
	ctx   context.Context // with the Span in it
	start time.Time
}

// step is the span of a step.
type step struct {
	span
	path string
	call *call // that is under way; nil: none
}

// call is the span of a call of a model or a tool: all attempts of it.
type call struct {
	span
	kind     string               // of the adapter: model, tool or retriever
	labels   []attribute.KeyValue // of its metrics
	attempts int
	retrying bool // the next adapter.call is one more attempt
}

// failure is how something went wrong.
type failure struct{ code, message, stack string }

// Traceparent returns the span of the run in the form of W3C's trace context; "" before run.start.
func (r *run) Traceparent() string {
	if text := r.traceparent.Load(); text != nil {
		return *text
	}
	return ""
}

// Detail implements trace.Detailed.
func (r *run) Detail() trace.Detail { return trace.Detail{Content: r.to.content} }

// Emit implements trace.Sink.
func (r *run) Emit(e trace.Event) {
	if r.steps == nil {
		return
	}
	e.Step = valid(e.Step)
	if r.whole.Span == nil {
		r.begin(e)
	}
	if r.agentEvent(e) {
		return
	}
	switch e.Kind {
	case trace.RunError:
		r.failure = &failure{code: cmp.Or(text(e, "code"), unknownError), message: text(e, "message")}
		if path := text(e, "step"); path != "" {
			r.whole.SetAttributes(attribute.String(braiseFailed, path))
		}
	case trace.RunCancelled:
		r.failure = &failure{code: cancelledError, message: text(e, "reason")}
	case trace.RunEnd:
		r.end(e)
	case trace.StepStart:
		r.beginStep(e)
	case trace.StepEnd:
		r.endStep(e)
	case trace.StepSkip:
		r.enclosing(e.Step).AddEvent(string(e.Kind), api.WithTimestamp(e.At), api.WithAttributes(
			attribute.String(braiseStep, e.Step), attribute.String(braiseReason, text(e, "reason"))))
	case trace.AdapterCall, trace.ModelEnd, trace.AdapterRetry, trace.RetriesOver,
		trace.AdapterFallback:
		if s := r.steps[e.Step]; s != nil {
			r.callEvent(s, e)
		}
	}
}

// begin opens the span of the run at its first event, which is run.start unless the run was odd.
func (r *run) begin(e trace.Event) {
	attrs := []attribute.KeyValue{attribute.String(genAIOperation, opRun), attribute.String(braiseRunID, r.id)}
	name := opRun
	var links []api.Link
	if e.Kind == trace.RunStart {
		r.recipe = text(e, "recipe")
		name += " " + r.recipe
		attrs = append(attrs, attribute.String(genAIWorkflow, r.recipe),
			attribute.String(braiseDigest, text(e, "digest")))
		if version := text(e, "version"); version != "" {
			attrs = append(attrs, attribute.String(braiseVersion, version))
		}
		if e.Data.Get("resume") == true {
			attrs = append(attrs, attribute.Bool(braiseResumed, true))
		}
		if e.Data.Get("recover") == true {
			attrs = append(attrs, attribute.Bool(braiseRecovered, true))
		}
		earlier := propagation.TraceContext{}.Extract(context.Background(),
			propagation.MapCarrier{"traceparent": text(e, "traceparent")})
		if sc := api.SpanContextFromContext(earlier); sc.IsValid() {
			links = append(links, api.Link{SpanContext: sc})
		}
	}
	r.whole = r.open(r.to.parent, name, e.At, api.SpanKindInternal, attrs, links...)
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(r.whole.ctx, carrier)
	if text := carrier["traceparent"]; text != "" {
		r.traceparent.Store(&text)
	}
}

func (r *run) open(
	parent context.Context, name string, at time.Time, kind api.SpanKind, attrs []attribute.KeyValue, links ...api.Link,
) span {
	ctx, s := r.to.tracer.Start(parent, name, api.WithTimestamp(at), api.WithSpanKind(kind),
		api.WithAttributes(attrs...), api.WithLinks(links...))
	return span{s, ctx, at}
}

// end closes the run, and first what is still open in it: steps that were paused, or cut off.
func (r *run) end(e trace.Event) {
	status := text(e, "status")
	left, cut := "cancelled", &failure{code: cancelledError}
	if status == "paused" {
		left, cut = "paused", nil
	}
	r.closeAgents("", e.At, left, cut)
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(r.steps))) { // inner ones first
		r.closeStep(r.steps[path], e.At, left, cut)
	}
	r.steps = nil
	if r.failure == nil && status != "ok" && status != "paused" {
		r.failure = &failure{code: unknownError}
	}
	r.whole.SetAttributes(attribute.String(braiseRunStatus, status))
	r.close(r.whole, e.At, r.failure, r.to.meters.wholeRuns, r.labels(attribute.String(braiseRunStatus, status)))
}

// labels returns attributes for a metric, with the recipe's name.
func (r *run) labels(attrs ...attribute.KeyValue) []attribute.KeyValue {
	if r.recipe != "" {
		attrs = append(attrs, attribute.String(genAIWorkflow, r.recipe))
	}
	return attrs
}

// close ends a span and records how long it was open.
func (r *run) close(s span, at time.Time, f *failure, seconds metric.Float64Histogram, labels []attribute.KeyValue) {
	if f != nil {
		labels = append(labels, attribute.String(errorType, f.code))
		r.fail(s, at, f)
	}
	s.End(api.WithTimestamp(at))
	seconds.Record(s.ctx, max(0, at.Sub(s.start).Seconds()), metric.WithAttributes(labels...))
}

// fail says on a span how it went wrong. Messages may quote what a model or a tool said, so they
// count as content.
func (r *run) fail(s span, at time.Time, f *failure) {
	description := f.code
	if r.to.content && f.message != "" {
		description = f.message
	}
	s.SetStatus(codes.Error, description)
	s.SetAttributes(attribute.String(errorType, f.code))
	if f.stack != "" {
		attrs := []attribute.KeyValue{
			attribute.String(exceptionType, f.code), attribute.String(exceptionStack, f.stack),
		}
		if r.to.content {
			attrs = append(attrs, attribute.String(exceptionMessage, f.message))
		}
		s.AddEvent(exceptionEvent, api.WithTimestamp(at), api.WithAttributes(attrs...))
	}
}

// Within implements [trace.Spans].
func (r *run) Within(ctx context.Context, path string, number int) context.Context {
	at := r.enclosing(path)
	if a := r.agents[path]; a != nil {
		at = a.span
		if s := a.tools[int64(number)]; s != nil {
			at = s.call.span
		} else if number == 0 && a.model.call != nil {
			at = a.model.call.span
		}
	} else if s := r.steps[path]; s != nil {
		at = s.span
		if s.call != nil {
			at = s.call.span
		}
	}
	if at.Span == nil { // the run has no event yet, or none any more
		return ctx
	}
	ctx = api.ContextWithSpan(ctx, at.Span)
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if text := carrier["traceparent"]; text != "" {
		ctx = trace.WithTraceparent(ctx, text)
	}
	return ctx
}

// enclosing returns the innermost open span that a path is in: verify[2] for verify[2]/check, verify
// for verify[2], the run for verify.
func (r *run) enclosing(path string) span {
	for i := strings.LastIndexAny(path, "/[#!"); i >= 0; i = strings.LastIndexAny(path, "/[#!") {
		path = path[:i]
		if s := r.steps[path]; s != nil {
			return s.span
		}
	}
	return r.whole
}

func (r *run) beginStep(e trace.Event) {
	if r.steps[e.Step] == nil {
		attrs := []attribute.KeyValue{attribute.String(braiseStep, e.Step), attribute.String(braiseRunID, r.id)}
		s := r.open(r.enclosing(e.Step).ctx, opStep+" "+e.Step, e.At, api.SpanKindInternal, attrs)
		r.steps[e.Step] = &step{path: e.Step, span: s}
	}
}

func (r *run) endStep(e trace.Event) {
	s := r.steps[e.Step]
	if s == nil {
		return
	}
	delete(r.steps, e.Step)
	var f *failure
	switch text(e, "status") {
	case "failed":
		f = &failure{cmp.Or(text(e, "code"), unknownError), text(e, "message"), text(e, "stack")}
	case "cancelled":
		f = &failure{code: cancelledError, message: text(e, "message")}
	}
	if s.call != nil && s.call.kind == kindRetriever && f == nil {
		r.show(s.call.span, e.At, genAIDocuments, documents(e.Data.Get("content")))
	}
	if s.call != nil && s.call.kind == kindTool && f == nil {
		r.show(s.call.span, e.At, genAIResult, e.Data.Get("content"))
	}
	r.closeAgents(e.Step, e.At, text(e, "status"), f) // that were left behind
	r.closeStep(s, e.At, text(e, "status"), f)
}

// closeStep ends the span of a step and that of its call.
func (r *run) closeStep(s *step, at time.Time, status string, f *failure) {
	r.closeCall(s, at, f)
	s.SetAttributes(attribute.String(braiseStatus, status))
	path := numbers.ReplaceAllString(s.path, "$1")
	r.close(s.span, at, f, r.to.meters.steps,
		r.labels(attribute.String(braiseStep, path), attribute.String(braiseStatus, status)))
}

// numbers are those of items and rounds in a path, which metrics cannot tell apart.
var numbers = regexp.MustCompile(`([\[#])[0-9]+`)

// text returns a value of an event that is a string, else "".
func text(e trace.Event, key string) string {
	s, _ := e.Data.Get(key).(string)
	return valid(s)
}

// valid makes a text one that protobuf takes: a single one that is not UTF-8 costs all spans that
// are sent with it.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
