package otlp

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Spans is an exporter of the spans of one tracer.
type Spans struct{ client *client }

// NewSpans returns an exporter that sends to the path /v1/traces below base. Nil headers are those of the environment,
// which also sets timeout, compression and certificates; a setting that cannot be used is an error.
func NewSpans(base string, headers map[string]string) (*Spans, error) {
	s, err := environment("TRACES")
	if err != nil {
		return nil, err
	}
	if headers != nil {
		s.headers = headers
	}
	return &Spans{newClient(base+"/v1/traces", s)}, nil
}

// ExportSpans sends spans.
func (s *Spans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	// TracesData has the field of a collector's ExportTraceServiceRequest, and no other.
	scope := spans[0].InstrumentationScope()
	message := &tracepb.ScopeSpans{Scope: scopeOf(scope), SchemaUrl: scope.SchemaURL}
	for _, span := range spans {
		message.Spans = append(message.Spans, spanOf(span))
	}
	return s.client.send(ctx, &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   resourceOf(spans[0].Resource()),
		SchemaUrl:  spans[0].Resource().SchemaURL(),
		ScopeSpans: []*tracepb.ScopeSpans{message},
	}}})
}

// Shutdown closes idle connections.
func (s *Spans) Shutdown(context.Context) error {
	s.client.http.CloseIdleConnections()
	return nil
}

func spanOf(s sdktrace.ReadOnlySpan) *tracepb.Span {
	self, parent := s.SpanContext(), s.Parent()
	trace, id := self.TraceID(), self.SpanID()
	span := &tracepb.Span{
		TraceId: trace[:], SpanId: id[:], TraceState: self.TraceState().String(), Flags: flags(self, parent),
		Name: s.Name(), Kind: kinds[s.SpanKind()], Attributes: keyValues(s.Attributes()),
		StartTimeUnixNano: nanoseconds(s.StartTime()), EndTimeUnixNano: nanoseconds(s.EndTime()),
		Status:                 &tracepb.Status{Code: statuses[s.Status().Code], Message: s.Status().Description},
		DroppedAttributesCount: uint32(s.DroppedAttributes()),
		DroppedEventsCount:     uint32(s.DroppedEvents()),
		DroppedLinksCount:      uint32(s.DroppedLinks()),
	}
	if id := parent.SpanID(); id.IsValid() {
		span.ParentSpanId = id[:]
	}
	for _, e := range s.Events() {
		span.Events = append(span.Events, &tracepb.Span_Event{
			Name: e.Name, TimeUnixNano: nanoseconds(e.Time), Attributes: keyValues(e.Attributes),
			DroppedAttributesCount: uint32(e.DroppedAttributeCount),
		})
	}
	for _, l := range s.Links() {
		trace, id := l.SpanContext.TraceID(), l.SpanContext.SpanID()
		span.Links = append(span.Links, &tracepb.Span_Link{
			TraceId: trace[:], SpanId: id[:], TraceState: l.SpanContext.TraceState().String(),
			Flags: flags(l.SpanContext, l.SpanContext), Attributes: keyValues(l.Attributes),
			DroppedAttributesCount: uint32(l.DroppedAttributeCount),
		})
	}
	return span
}

// kinds and statuses are those that package oteltrace uses.
var kinds = map[api.SpanKind]tracepb.Span_SpanKind{
	api.SpanKindInternal: tracepb.Span_SPAN_KIND_INTERNAL,
	api.SpanKindClient:   tracepb.Span_SPAN_KIND_CLIENT,
}

var statuses = map[codes.Code]tracepb.Status_StatusCode{
	codes.Ok:    tracepb.Status_STATUS_CODE_OK,
	codes.Error: tracepb.Status_STATUS_CODE_ERROR,
}

// flags are the W3C flags of self, and whether other is of another process.
func flags(self, other api.SpanContext) uint32 {
	f := uint32(self.TraceFlags()) | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if other.IsRemote() {
		f |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return f
}

func nanoseconds(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

func resourceOf(r *resource.Resource) *resourcepb.Resource {
	return &resourcepb.Resource{Attributes: keyValues(r.Attributes())}
}

func scopeOf(s instrumentation.Scope) *common.InstrumentationScope {
	return &common.InstrumentationScope{Name: s.Name, Version: s.Version, Attributes: keyValues(s.Attributes.ToSlice())}
}

func keyValues(attrs []attribute.KeyValue) []*common.KeyValue {
	list := make([]*common.KeyValue, len(attrs))
	for i, kv := range attrs {
		list[i] = &common.KeyValue{Key: string(kv.Key), Value: anyValue(kv.Value.AsInterface())}
	}
	return list
}

// anyValue makes a message of what attribute.Value holds.
func anyValue(v any) *common.AnyValue {
	switch v := v.(type) {
	case bool:
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: v}}
	case int64:
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: v}}
	case float64:
		return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: v}}
	case string:
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}}
	case []bool:
		return anyValues(v)
	case []int64:
		return anyValues(v)
	case []float64:
		return anyValues(v)
	case []string:
		return anyValues(v)
	}
	return &common.AnyValue{}
}

func anyValues[T any](list []T) *common.AnyValue {
	values := make([]*common.AnyValue, len(list))
	for i, v := range list {
		values[i] = anyValue(v)
	}
	return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: values}}}
}
