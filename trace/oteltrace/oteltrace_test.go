package oteltrace_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/trace/oteltrace"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// event makes an event ms after t0, its data given as key, value, …
func event(ms int, kind trace.Kind, step string, data ...any) trace.Event {
	e := trace.Event{At: t0.Add(time.Duration(ms) * time.Millisecond), Kind: kind, Step: step}
	for i := 0; i < len(data); i += 2 {
		e.Data = append(e.Data, trace.Attr{Key: data[i].(string), Value: data[i+1]})
	}
	return e
}

func usage(in, out int64) map[string]any {
	return map[string]any{"input_tokens": in, "output_tokens": out}
}

// triage is a run: a model sorts a ticket, its second answer is good; two claims of it are verified
// side by side, the second fails after a retry; a notice is not sent.
var triage = []trace.Event{
	event(0, trace.RunStart, "", "digest", "sha256:ab", "recipe", "triage", "version", "1.2.0"),
	event(1, trace.StepStart, "sort"),
	event(2, trace.AdapterCall, "sort", "kind", "model", "model", "gpt-5-mini", "name", "fast", "provider", "openai"),
	event(102, trace.ModelEnd, "sort", "finish", "stop", "model", "gpt-5-mini-2026", "usage", usage(100, 20)),
	event(103, trace.AdapterCall, "sort", "kind", "model", "model", "gpt-5-mini", "name", "fast", "provider", "openai"),
	event(203, trace.ModelEnd, "sort", "finish", "stop", "model", "gpt-5-mini-2026", "usage", map[string]any{
		"input_tokens": int64(150), "cached_tokens": int64(90), "cache_write_tokens": int64(40), "output_tokens": int64(30), "reasoning_tokens": int64(9)}),
	event(204, trace.StepEnd, "sort", "durationMs", int64(203), "status", "succeeded"),
	event(205, trace.StepStart, "verify"),
	event(205, trace.StepStart, "verify[0]"),
	event(206, trace.StepStart, "verify[0]/check"),
	event(206, trace.StepStart, "verify[1]"),
	event(207, trace.StepStart, "verify[1]/check"),
	event(207, trace.AdapterCall, "verify[0]/check", "kind", "tool", "name", "kb.search"),
	event(208, trace.AdapterCall, "verify[1]/check", "kind", "tool", "name", "kb.search"),
	event(210, "adapter.retry", "verify[1]/check", "adapterKind", "tool", "attempt", int64(1), "delayMs", int64(50), "maxAttempts", int64(2), "method", "call", "reason", "5xx"),
	event(257, trace.StepEnd, "verify[0]/check", "durationMs", int64(51), "status", "succeeded"),
	event(258, trace.StepEnd, "verify[0]", "durationMs", int64(53), "status", "succeeded"),
	event(260, trace.AdapterCall, "verify[1]/check", "kind", "tool", "name", "kb.search"),
	event(300, "adapter.retry.exhausted", "verify[1]/check", "adapterKind", "tool", "attempt", int64(2), "maxAttempts", int64(2), "method", "call", "reason", "5xx"),
	event(308, trace.StepEnd, "verify[1]/check", "code", "tool.failed", "durationMs", int64(101), "message", "kb is down", "status", "failed"),
	event(309, trace.StepEnd, "verify[1]", "code", "tool.failed", "durationMs", int64(103), "message", "kb is down", "status", "failed"),
	event(310, trace.StepEnd, "verify", "code", "tool.failed", "durationMs", int64(105), "message", "kb is down", "status", "failed"),
	event(311, trace.StepSkip, "send", "reason", "upstream"),
	event(312, trace.RunError, "", "code", "tool.failed", "message", "kb is down", "step", "verify[1]/check"),
	event(312, trace.RunEnd, "", "status", "error"),
}

// lab is a place for spans and metrics that can be looked at.
type lab struct {
	spans    *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
	reader   *sdkmetric.ManualReader
	*oteltrace.Exporter
}

func newLab(t *testing.T, content bool) lab {
	t.Helper()
	l := lab{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	l.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(l.spans))
	var err error
	l.Exporter, err = oteltrace.New(oteltrace.Options{
		Tracer: l.provider, Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(l.reader)), Content: content,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l lab) run(id string, events ...trace.Event) trace.Sink {
	sink := l.ForRun(id)
	for _, e := range events {
		sink.Emit(e)
	}
	return sink
}

// tree draws spans: name, milliseconds from t0, status, and below what else there is; children by
// start, then name.
func tree(spans tracetest.SpanStubs) string {
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int {
		return cmp.Or(a.StartTime.Compare(b.StartTime), strings.Compare(a.Name, b.Name))
	})
	known := map[api.SpanID]bool{}
	for _, s := range spans {
		known[s.SpanContext.SpanID()] = true
	}
	var b strings.Builder
	var draw func(parent api.SpanID, indent string)
	draw = func(parent api.SpanID, indent string) {
		for _, s := range spans {
			if p := s.Parent.SpanID(); p != parent && (parent.IsValid() || known[p]) {
				continue
			}
			fmt.Fprintf(&b, "%s%s (%s) %d-%d %s\n", indent, s.Name, s.SpanKind, s.StartTime.Sub(t0).Milliseconds(), s.EndTime.Sub(t0).Milliseconds(), s.Status.Code)
			if s.Status.Description != "" {
				fmt.Fprintf(&b, "%s  ! %s\n", indent, s.Status.Description)
			}
			for _, kv := range sorted(s.Attributes) {
				fmt.Fprintf(&b, "%s  . %s\n", indent, kv)
			}
			for _, e := range s.Events {
				fmt.Fprintf(&b, "%s  @ %d %s %s\n", indent, e.Time.Sub(t0).Milliseconds(), e.Name, strings.Join(sorted(e.Attributes), " "))
			}
			draw(s.SpanContext.SpanID(), indent+"    ")
		}
	}
	draw(api.SpanID{}, "")
	return b.String()
}

func sorted(attrs []attribute.KeyValue) []string {
	var list []string
	for _, kv := range attrs {
		list = append(list, string(kv.Key)+"="+kv.Value.Emit())
	}
	slices.Sort(list)
	return list
}

func TestTree(t *testing.T) {
	l := newLab(t, false)
	l.run("run-1", triage...)
	got := tree(l.spans.GetSpans())
	want := `invoke_workflow triage (internal) 0-312 Error
  ! tool.failed
  . braise.recipe.digest=sha256:ab
  . braise.recipe.version=1.2.0
  . braise.run.failed_step=verify[1]/check
  . braise.run.id=run-1
  . braise.run.status=error
  . error.type=tool.failed
  . gen_ai.operation.name=invoke_workflow
  . gen_ai.workflow.name=triage
  @ 311 step.skip braise.step.path=send braise.step.reason=upstream
    step sort (internal) 1-204 Unset
      . braise.run.id=run-1
      . braise.step.path=sort
      . braise.step.status=succeeded
        chat gpt-5-mini (client) 2-102 Unset
          . braise.model=fast
          . braise.run.id=run-1
          . braise.step.path=sort
          . gen_ai.operation.name=chat
          . gen_ai.provider.name=openai
          . gen_ai.request.model=gpt-5-mini
          . gen_ai.response.finish_reasons=["stop"]
          . gen_ai.response.model=gpt-5-mini-2026
          . gen_ai.usage.input_tokens=100
          . gen_ai.usage.output_tokens=20
        chat gpt-5-mini (client) 103-203 Unset
          . braise.model=fast
          . braise.run.id=run-1
          . braise.step.path=sort
          . gen_ai.operation.name=chat
          . gen_ai.provider.name=openai
          . gen_ai.request.model=gpt-5-mini
          . gen_ai.response.finish_reasons=["stop"]
          . gen_ai.response.model=gpt-5-mini-2026
          . gen_ai.usage.cache_creation.input_tokens=40
          . gen_ai.usage.cache_read.input_tokens=90
          . gen_ai.usage.input_tokens=150
          . gen_ai.usage.output_tokens=30
    step verify (internal) 205-310 Error
      ! tool.failed
      . braise.run.id=run-1
      . braise.step.path=verify
      . braise.step.status=failed
      . error.type=tool.failed
        step verify[0] (internal) 205-258 Unset
          . braise.run.id=run-1
          . braise.step.path=verify[0]
          . braise.step.status=succeeded
            step verify[0]/check (internal) 206-257 Unset
              . braise.run.id=run-1
              . braise.step.path=verify[0]/check
              . braise.step.status=succeeded
                execute_tool kb.search (internal) 207-257 Unset
                  . braise.run.id=run-1
                  . braise.step.path=verify[0]/check
                  . gen_ai.operation.name=execute_tool
                  . gen_ai.tool.name=kb.search
        step verify[1] (internal) 206-309 Error
          ! tool.failed
          . braise.run.id=run-1
          . braise.step.path=verify[1]
          . braise.step.status=failed
          . error.type=tool.failed
            step verify[1]/check (internal) 207-308 Error
              ! tool.failed
              . braise.run.id=run-1
              . braise.step.path=verify[1]/check
              . braise.step.status=failed
              . error.type=tool.failed
                execute_tool kb.search (internal) 208-308 Error
                  ! tool.failed
                  . braise.call.attempts=2
                  . braise.run.id=run-1
                  . braise.step.path=verify[1]/check
                  . error.type=tool.failed
                  . gen_ai.operation.name=execute_tool
                  . gen_ai.tool.name=kb.search
                  @ 210 adapter.retry braise.retry.attempt=1 braise.retry.delay_ms=50 braise.retry.max_attempts=2 braise.retry.method=call braise.retry.reason=5xx
                  @ 300 adapter.retry.exhausted braise.retry.attempt=2 braise.retry.max_attempts=2 braise.retry.method=call braise.retry.reason=5xx
`
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, s := range l.spans.GetSpans() {
		if s.InstrumentationScope.Name != "github.com/braise-run/braise/trace/oteltrace" || s.InstrumentationScope.SchemaURL != "https://opentelemetry.io/schemas/1.41.0" {
			t.Errorf("%s: scope %+v", s.Name, s.InstrumentationScope)
		}
	}
}

func TestRetrieval(t *testing.T) {
	l := newLab(t, true)
	l.run("run-1",
		event(0, trace.RunStart, "", "digest", "d", "recipe", "answer"),
		event(1, trace.StepStart, "docs"),
		event(2, trace.AdapterCall, "docs", "kind", "retriever", "name", "retriever", "content", map[string]any{"query": "why?", "top_k": int64(2)}),
		event(5, trace.StepEnd, "docs", "status", "succeeded", "content", map[string]any{"documents": []any{map[string]any{"id": "a#1", "score": 1.5, "text": "so"}}}),
		event(6, trace.RunSuccess, ""),
		event(6, trace.RunEnd, "", "status", "ok"))
	want := `retrieval (client) 2-5 Unset
  . braise.run.id=run-1
  . braise.step.path=docs
  . gen_ai.operation.name=retrieval
  . gen_ai.provider.name=unknown
  . gen_ai.retrieval.documents=[{"id":"a#1","score":1.5}]
  . gen_ai.retrieval.query.text=why?
`
	var spans tracetest.SpanStubs
	for _, s := range l.spans.GetSpans() {
		if s.Name == "retrieval" {
			spans = append(spans, s)
		}
	}
	if diff := gocmp.Diff(want, tree(spans)); diff != "" {
		t.Errorf("span (-want +got):\n%s", diff)
	}
	if got := metrics(t, l.reader); !slices.Contains(got, "gen_ai.client.operation.duration s gen_ai.operation.name=retrieval gen_ai.provider.name=unknown: 1 0.003") {
		t.Errorf("metrics %q", got)
	}
}

func TestMetrics(t *testing.T) {
	l := newLab(t, false)
	l.run("run-1", triage...)
	l.run("run-2",
		event(0, trace.RunStart, "", "digest", "d", "recipe", "triage"),
		event(0, trace.StepStart, "ask"),
		event(1000, trace.AdapterCall, "ask", "kind", "model", "name", "local"),
		event(3000, trace.ModelEnd, "ask", "usage", usage(0, 0)), // the endpoint does not count
		event(4000, trace.StepEnd, "ask", "status", "succeeded"),
		event(5000, trace.RunSuccess, ""),
		event(5000, trace.RunEnd, "", "status", "ok"))
	got := metrics(t, l.reader)
	want := []string{ // unit, attributes, count, sum
		"braise.step.duration s braise.step.path=ask braise.step.status=succeeded gen_ai.workflow.name=triage: 1 4",
		"braise.step.duration s braise.step.path=sort braise.step.status=succeeded gen_ai.workflow.name=triage: 1 0.203",
		"braise.step.duration s braise.step.path=verify braise.step.status=failed error.type=tool.failed gen_ai.workflow.name=triage: 1 0.105",
		"braise.step.duration s braise.step.path=verify[] braise.step.status=failed error.type=tool.failed gen_ai.workflow.name=triage: 1 0.103",
		"braise.step.duration s braise.step.path=verify[] braise.step.status=succeeded gen_ai.workflow.name=triage: 1 0.053",
		"braise.step.duration s braise.step.path=verify[]/check braise.step.status=failed error.type=tool.failed gen_ai.workflow.name=triage: 1 0.101",
		"braise.step.duration s braise.step.path=verify[]/check braise.step.status=succeeded gen_ai.workflow.name=triage: 1 0.051",
		"gen_ai.client.operation.duration s gen_ai.operation.name=chat gen_ai.provider.name=openai gen_ai.request.model=gpt-5-mini gen_ai.response.model=gpt-5-mini-2026: 2 0.2",
		"gen_ai.client.operation.duration s gen_ai.operation.name=chat gen_ai.provider.name=unknown gen_ai.request.model=local: 1 2",
		"gen_ai.client.token.usage {token} gen_ai.operation.name=chat gen_ai.provider.name=openai gen_ai.request.model=gpt-5-mini gen_ai.response.model=gpt-5-mini-2026 gen_ai.token.type=input: 2 250",
		"gen_ai.client.token.usage {token} gen_ai.operation.name=chat gen_ai.provider.name=openai gen_ai.request.model=gpt-5-mini gen_ai.response.model=gpt-5-mini-2026 gen_ai.token.type=output: 2 50",
		"gen_ai.execute_tool.duration s error.type=tool.failed gen_ai.operation.name=execute_tool gen_ai.tool.name=kb.search: 1 0.1",
		"gen_ai.execute_tool.duration s gen_ai.operation.name=execute_tool gen_ai.tool.name=kb.search: 1 0.05",
		"gen_ai.workflow.duration s braise.run.status=error error.type=tool.failed gen_ai.workflow.name=triage: 1 0.312",
		"gen_ai.workflow.duration s braise.run.status=ok gen_ai.workflow.name=triage: 1 5",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// metrics lists the points of all histograms.
func metrics(t *testing.T, reader *sdkmetric.ManualReader) []string {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var list []string
	add := func(m metricdata.Metrics, attrs attribute.Set, count uint64, sum float64) {
		list = append(list, fmt.Sprintf("%s %s %s: %d %.6g", m.Name, m.Unit, strings.Join(sorted(attrs.ToSlice()), " "), count, sum))
	}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					add(m, p.Attributes, p.Count, float64(p.Sum))
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(m, p.Attributes, p.Count, p.Sum)
				}
			default:
				t.Errorf("%s is a %T, want a histogram", m.Name, data)
			}
		}
	}
	slices.Sort(list)
	return list
}

func TestBuckets(t *testing.T) {
	l := newLab(t, false)
	l.run("run-1", triage...)
	var all metricdata.ResourceMetrics
	if err := l.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string][]float64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[int64]:
			got[m.Name] = data.DataPoints[0].Bounds
		case metricdata.Histogram[float64]:
			got[m.Name] = data.DataPoints[0].Bounds
		}
	}
	powers := func(first, factor float64, n int) (list []float64) {
		for range n {
			list = append(list, first)
			first *= factor
		}
		return list
	}
	calls := powers(0.01, 2, 14) // to 81.92
	want := map[string][]float64{
		"gen_ai.client.token.usage":        powers(1, 4, 14), // to 67108864
		"gen_ai.client.operation.duration": calls,
		"gen_ai.execute_tool.duration":     calls,
		"braise.step.duration":             calls,
		"gen_ai.workflow.duration":         {1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("buckets (-want +got):\n%s", diff)
	}
}

// content is a run whose events have content.
var content = []trace.Event{
	event(0, trace.RunStart, "", "digest", "d", "recipe", "r"),
	event(1, trace.StepStart, "ask"),
	event(2, trace.AdapterCall, "ask", "content", map[string]any{
		"messages": []any{
			map[string]any{"role": "system", "text": "Be <brief>."},
			map[string]any{"role": "assistant", "text": "", "tool_calls": []any{map[string]any{"id": "c1", "name": "kb.search", "arguments": map[string]any{"q": "refund"}}}},
			map[string]any{"role": "tool", "text": "30 days", "tool_call_id": "c1"},
		},
		"tools": []any{map[string]any{"name": "kb.search", "description": "finds", "parameters": map[string]any{"type": "object"}, "effect": "read_only"}},
	}, "kind", "model", "name", "fast"),
	event(3, trace.ModelEnd, "ask", "content", map[string]any{
		"text": "One more.", "tool_calls": []any{map[string]any{"id": "c2", "name": "kb.search", "arguments": map[string]any{}}},
	}, "finish", "tool_calls", "usage", usage(1, 1)),
	event(4, trace.AdapterCall, "ask", "content", map[string]any{"messages": []any{map[string]any{"role": "user", "text": strings.Repeat("x", 70_000)}}}, "kind", "model", "name", "fast"),
	event(5, trace.ModelEnd, "ask", "content", map[string]any{"text": "Bye."}, "usage", usage(1, 1)),
	event(6, trace.StepEnd, "ask", "status", "succeeded"),
	event(7, trace.StepStart, "look"),
	event(8, trace.AdapterCall, "look", "content", map[string]any{"q": "refund"}, "kind", "tool", "name", "kb.search"),
	event(9, trace.StepEnd, "look", "content", map[string]any{"hits": []any{int64(1), nil}}, "status", "succeeded"),
	event(10, trace.StepStart, "fall"),
	event(11, trace.StepEnd, "fall", "code", "step.panic", "message", "boom at kim@example.test", "stack", "main.go:1", "status", "failed"),
	event(12, trace.RunError, "", "code", "step.panic", "message", "boom at kim@example.test", "step", "fall"),
	event(12, trace.RunEnd, "", "status", "error"),
}

func TestContent(t *testing.T) {
	l := newLab(t, true)
	sink := l.run("run-1", content...)
	if got := sink.(trace.Detailed).Detail(); got != (trace.Detail{Content: true}) {
		t.Errorf("asks for %+v, want content only", got)
	}
	got := contents(l)
	want := map[string]string{
		"chat fast at 2 gen_ai.input.messages": `[{"parts":[{"content":"Be <brief>.","type":"text"}],"role":"system"},` +
			`{"parts":[{"arguments":{"q":"refund"},"id":"c1","name":"kb.search","type":"tool_call"}],"role":"assistant"},` +
			`{"parts":[{"id":"c1","response":"30 days","type":"tool_call_response"}],"role":"tool"}]`,
		"chat fast at 2 gen_ai.tool.definitions": `[{"description":"finds","name":"kb.search","parameters":{"type":"object"},"type":"function"}]`,
		"chat fast at 2 gen_ai.output.messages": `[{"finish_reason":"tool_call","parts":[{"content":"One more.","type":"text"},` +
			`{"arguments":{},"id":"c2","name":"kb.search","type":"tool_call"}],"role":"assistant"}]`,
		// [{"parts":[{"content":"…","type":"text"}],"role":"user"}] is 56 bytes and the text
		"chat fast at 4 @":                                       "braise.content.left_out[braise.content.attribute=gen_ai.input.messages braise.content.bytes=70056]",
		"chat fast at 4 gen_ai.output.messages":                  `[{"finish_reason":"stop","parts":[{"content":"Bye.","type":"text"}],"role":"assistant"}]`,
		"execute_tool kb.search at 8 gen_ai.tool.call.arguments": `{"q":"refund"}`,
		"execute_tool kb.search at 8 gen_ai.tool.call.result":    `{"hits":[1,null]}`,
		"step fall at 10 !":                                      "boom at kim@example.test",
		"step fall at 10 @":                                      "exception[exception.message=boom at kim@example.test exception.stacktrace=main.go:1 exception.type=step.panic]",
		"invoke_workflow r at 0 !":                               "boom at kim@example.test",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

// contents are the attributes and events of spans that are content, and what is said of failures.
func contents(l lab) map[string]string {
	got := map[string]string{}
	for _, s := range l.spans.GetSpans() {
		at := fmt.Sprintf("%s at %d", s.Name, s.StartTime.Sub(t0).Milliseconds())
		for _, kv := range s.Attributes {
			if key := string(kv.Key); strings.HasPrefix(key, "gen_ai.input.") || strings.HasPrefix(key, "gen_ai.output.") || strings.HasPrefix(key, "gen_ai.tool.") && key != "gen_ai.tool.name" {
				got[at+" "+key] = kv.Value.AsString()
			}
		}
		for _, e := range s.Events {
			if e.Name == "adapter.retry" {
				continue
			}
			got[at+" @"] = fmt.Sprint(e.Name, sorted(e.Attributes))
		}
		if s.Status.Code == codes.Error {
			got[at+" !"] = s.Status.Description
		}
	}
	return got
}

// Without content nothing of it leaves, even if an event has it because another sink wanted it.
func TestNoContent(t *testing.T) {
	l := newLab(t, false)
	sink := l.run("run-1", content...)
	if got := sink.(trace.Detailed).Detail(); got != (trace.Detail{}) {
		t.Errorf("asks for %+v, want nothing", got)
	}
	got := tree(l.spans.GetSpans())
	for _, secret := range []string{"brief", "refund", "30 days", "One more", "hits", "boom", "kim@", "xxx"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q is in the spans:\n%s", secret, got)
		}
	}
	if !strings.Contains(got, "@ 11 exception exception.stacktrace=main.go:1 exception.type=step.panic\n") {
		t.Errorf("the stack of the panic is not in the spans:\n%s", got)
	}
}

// outline is the tree without attributes.
func outline(spans tracetest.SpanStubs) string {
	var b strings.Builder
	for line := range strings.Lines(tree(spans)) {
		if word := strings.TrimLeft(line, " "); word[0] != '.' {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestOddRuns(t *testing.T) {
	start := event(0, trace.RunStart, "", "digest", "d", "recipe", "r")
	tests := []struct {
		name   string
		events []trace.Event
		want   string
	}{
		{"cancelled in the middle", []trace.Event{
			start,
			event(1, trace.StepStart, "a"), event(2, trace.StepStart, "a[10]"), event(3, trace.StepStart, "a[10]/b"),
			event(4, trace.AdapterCall, "a[10]/b", "kind", "tool", "name", "t"),
			event(5, trace.RunCancelled, "", "reason", "context canceled"),
			event(9, trace.RunEnd, "", "status", "cancelled"),
		}, `invoke_workflow r (internal) 0-9 Error
  ! cancelled
    step a (internal) 1-9 Error
      ! cancelled
        step a[10] (internal) 2-9 Error
          ! cancelled
            step a[10]/b (internal) 3-9 Error
              ! cancelled
                execute_tool t (internal) 4-9 Error
                  ! cancelled
`},
		{"cancelled step", []trace.Event{
			start, event(1, trace.StepStart, "a"), event(2, trace.StepEnd, "a", "status", "cancelled"), event(3, trace.RunEnd, "", "status", "ok"),
		}, `invoke_workflow r (internal) 0-3 Unset
    step a (internal) 1-2 Error
      ! cancelled
`},
		{"paused", []trace.Event{
			start, event(1, trace.StepStart, "approve"), event(2, "step.waiting", "approve", "pauseKind", "human"),
			event(3, "run.paused", "", "pauseKind", "human", "step", "approve"), event(4, trace.RunEnd, "", "status", "paused"),
		}, `invoke_workflow r (internal) 0-4 Unset
    step approve (internal) 1-4 Unset
`},
		{"rounds, branches, cases and rollbacks", []trace.Event{
			start,
			event(1, trace.StepStart, "send"), event(2, trace.StepEnd, "send", "status", "succeeded"),
			event(3, trace.StepStart, "draft"), event(4, trace.StepStart, "draft#3/score"), event(5, trace.StepEnd, "draft#3/score", "status", "succeeded"), event(6, trace.StepEnd, "draft", "status", "succeeded"),
			event(7, trace.StepStart, "both"), event(8, trace.StepStart, "both/left/ask"), event(9, trace.StepEnd, "both/left/ask", "status", "succeeded"), event(10, trace.StepEnd, "both", "status", "succeeded"),
			event(11, trace.StepStart, "send!rollback"), event(12, trace.StepEnd, "send!rollback", "status", "succeeded"),
			event(13, trace.RunEnd, "", "status", "ok"),
		}, `invoke_workflow r (internal) 0-13 Unset
    step send (internal) 1-2 Unset
    step draft (internal) 3-6 Unset
        step draft#3/score (internal) 4-5 Unset
    step both (internal) 7-10 Unset
        step both/left/ask (internal) 8-9 Unset
    step send!rollback (internal) 11-12 Unset
`},
		{"events that do not fit", []trace.Event{
			start,
			event(1, trace.StepEnd, "never", "status", "succeeded"),
			event(1, trace.AdapterCall, "never", "kind", "tool", "name", "t"),
			event(2, trace.StepStart, "a"), event(3, trace.StepStart, "a"),
			event(3, trace.ModelEnd, "a", "usage", usage(1, 1)), event(3, "adapter.retry", "a"),
			event(4, "agent.turn", "a", "n", int64(1)), event(4, trace.ModelDelta, "a", "text", "x"),
			event(5, trace.AdapterCall, "a", "kind", int64(3), "name", nil), event(6, trace.AdapterCall, "a"),
			event(7, trace.ModelEnd, "a", "usage", "many", "content", "c", "finish", true),
			event(8, trace.StepEnd, "a", "status", "failed"),
			event(9, trace.RunError, ""), event(9, trace.RunEnd, "", "status", "error"),
			event(10, trace.RunEnd, "", "status", "ok"), event(11, trace.RunStart, "", "recipe", "again"), event(12, trace.StepStart, "a"),
		}, `invoke_workflow r (internal) 0-9 Error
  ! _OTHER
    step a (internal) 2-8 Error
      ! _OTHER
        chat  (client) 5-6 Unset
        chat  (client) 6-7 Unset
`},
		{"no start", []trace.Event{event(5, trace.RunError, "", "code", "c"), event(6, trace.RunEnd, "", "status", "error")},
			"invoke_workflow (internal) 5-6 Error\n  ! c\n"},
		{"no end", []trace.Event{start, event(1, trace.StepStart, "a")}, ""},
		{"clock that goes back", []trace.Event{event(9, trace.RunStart, "", "recipe", "r"), event(3, trace.RunEnd, "", "status", "ok")},
			"invoke_workflow r (internal) 9-3 Unset\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, false)
			l.run("run-1", tt.events...)
			if diff := gocmp.Diff(tt.want, outline(l.spans.GetSpans())); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

// Runs that share an Exporter do not mix, nor do they wait for each other.
func TestRunsSideBySide(t *testing.T) {
	l := newLab(t, false)
	const n = 20
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			f := trace.NewFanout([]trace.Sink{l}, fmt.Sprint("run-", i))
			for _, e := range triage {
				f.Emit(e, nil)
			}
			if failures := f.Close(time.Minute); failures != nil {
				t.Error(failures)
			}
		})
	}
	all.Wait()
	traces, runs := map[api.TraceID]int{}, map[string]int{}
	for _, s := range l.spans.GetSpans() {
		traces[s.SpanContext.TraceID()]++
		for _, kv := range s.Attributes {
			if kv.Key == "braise.run.id" {
				runs[s.SpanContext.TraceID().String()+kv.Value.AsString()]++
			}
		}
	}
	if len(traces) != n || len(runs) != n {
		t.Errorf("%d traces of %d runs, want %d", len(traces), len(runs), n)
	}
	for id, spans := range runs {
		if spans != 11 { // see TestTree
			t.Errorf("%s: %d spans, want 11", id, spans)
		}
	}
}

func TestParentAndLink(t *testing.T) {
	l := newLab(t, false)
	start := func(data ...any) trace.Event {
		return event(0, trace.RunStart, "", append([]any{"digest", "d", "recipe", "r"}, data...)...)
	}
	end := event(1, trace.RunEnd, "", "status", "paused")
	first := l.ForRun("run-1").(interface {
		trace.Sink
		Traceparent() string
	})
	if got := first.Traceparent(); got != "" {
		t.Errorf("before run.start: traceparent %q", got)
	}
	first.Emit(start())
	first.Emit(end)
	one := l.spans.GetSpans()[0]
	want := fmt.Sprintf("00-%s-%s-01", one.SpanContext.TraceID(), one.SpanContext.SpanID())
	if got := first.Traceparent(); got != want {
		t.Errorf("traceparent %q, want %q", got, want)
	}
	if one.Parent.IsValid() || one.Links != nil {
		t.Errorf("first execution: parent %v, links %v, want none", one.Parent, one.Links)
	}

	l.spans.Reset()
	l.run("run-1", start("resume", true, "traceparent", want), end)
	l.run("run-1", start("recover", true, "traceparent", "nonsense"), end)
	two, three := l.spans.GetSpans()[0], l.spans.GetSpans()[1]
	if two.SpanContext.TraceID() == one.SpanContext.TraceID() || two.Parent.IsValid() {
		t.Error("the second execution is in the trace of the first")
	}
	if len(two.Links) != 1 || two.Links[0].SpanContext.SpanID() != one.SpanContext.SpanID() || two.Links[0].SpanContext.TraceID() != one.SpanContext.TraceID() {
		t.Errorf("second execution: links %v, want one to the first", two.Links)
	}
	if !slices.Contains(sorted(two.Attributes), "braise.run.resumed=true") {
		t.Errorf("second execution: %v", sorted(two.Attributes))
	}
	if len(three.Links) != 0 || !slices.Contains(sorted(three.Attributes), "braise.run.recovered=true") {
		t.Errorf("third execution: links %v, %v", three.Links, sorted(three.Attributes))
	}

	l.spans.Reset()
	ctx, cancel := context.WithCancel(t.Context())
	ctx, request := l.provider.Tracer("app").Start(ctx, "request")
	cancel()
	inner := l.Within(ctx).ForRun("run-2")
	inner.Emit(start())
	inner.Emit(end)
	if got := l.spans.GetSpans()[0]; got.Parent.SpanID() != request.SpanContext().SpanID() || got.SpanContext.TraceID() != request.SpanContext().TraceID() {
		t.Errorf("the run's parent is %v, want the request", got.Parent)
	}
	l.spans.Reset()
	l.run("run-3", start(), end)
	if got := l.spans.GetSpans()[0]; got.Parent.IsValid() {
		t.Errorf("Within changed its receiver: parent %v", got.Parent)
	}
}

// With the global providers as they come, nothing happens.
func TestGlobalProviders(t *testing.T) {
	e, err := oteltrace.New(oteltrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.Emit(triage[0])
	sink := e.ForRun("run-1")
	for _, ev := range triage {
		sink.Emit(ev)
	}
	if got := sink.(interface{ Traceparent() string }).Traceparent(); got != "" {
		t.Errorf("traceparent %q, want none", got)
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func FuzzEmit(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add("step.start\nadapter.call\nadapter.retry\nadapter.call\nmodel.end\nstep.end\nrun.end", "a[1]/b", "failed", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("run.start\nstep.start\nrun.cancelled\nrun.end\nstep.start", "!#[", "cancelled", "\xff")
	f.Add("step.start\nadapter.call\nadapter.retry\nstep.skip\nstep.end\nrun.error\nrun.end", "\xff/", "failed", "\xff")
	f.Fuzz(func(t *testing.T, kinds, path, status, odd string) {
		spans := tracetest.NewInMemoryExporter()
		e, err := oteltrace.New(oteltrace.Options{
			Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), Meter: noop.NewMeterProvider(), Content: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		sink := e.ForRun(odd)
		for i, kind := range strings.Split(kinds, "\n") {
			sink.Emit(event(i, trace.Kind(kind), path, "code", odd, "content", odd, "kind", status, "message", odd, "name", odd,
				"reason", odd, "recipe", odd, "stack", odd, "status", status, "traceparent", odd, "usage", odd))
		}
		if got := tree(spans.GetSpans()); !utf8.ValidString(got) { // protobuf takes nothing else
			t.Errorf("not UTF-8: %q", got)
		}
	})
}

// desk is an execution of a run with an agent: it asks a delegate, which asks its model twice, and calls a tool that fails; another
// call waits for an approval.
var desk = []trace.Event{
	event(0, trace.RunStart, "", "digest", "sha256:ab", "recipe", "desk"),
	event(1, trace.StepStart, "ask"),
	event(2, "agent.start", "ask", "agent", "clerk", "depth", int64(0), "model", "fast"),
	event(3, "model.start", "ask", "content", map[string]any{"messages": []any{map[string]any{"role": "user", "text": "hi"}}}, "messages", int64(1), "model", "fast",
		"provider", "openai", "providerModel", "gpt-5-mini", "step", int64(1)),
	event(4, "adapter.retry", "ask", "adapterKind", "model", "attempt", int64(1), "delayMs", int64(5), "maxAttempts", int64(2), "method", "generate", "reason", "5xx"),
	event(10, trace.ModelEnd, "ask", "finish", "tool_calls", "model", "gpt-5-mini-2026", "usage", usage(10, 5)),
	event(11, "tool.calls.begin", "ask", "tools", []any{"delegate_dig", "kb.find", "kb.put"}),
	event(12, "tool.start", "ask", "call", int64(1), "content", map[string]any{"task": "dig"}, "tool", "delegate_dig"),
	event(12, "delegate.start", "ask", "agent", "dig", "call", int64(1), "depth", int64(1)),
	event(13, "agent.start", "ask/dig#1", "agent", "dig", "depth", int64(1), "model", "fast"),
	event(14, "model.start", "ask/dig#1", "messages", int64(1), "model", "fast", "step", int64(1)),
	event(18, "agent.error", "ask/dig#1", "message", "no luck", "what", "model"),
	event(18, trace.ModelEnd, "ask/dig#1", "error", "model.failed"),
	event(19, "agent.error", "ask/dig#1", "code", "model.failed", "message", "no luck"),
	event(20, "agent.end", "ask/dig#1", "stopReason", "error"),
	event(20, "agent.error", "ask", "call", int64(1), "message", "no luck", "what", "delegate"),
	event(20, "delegate.end", "ask", "agent", "dig", "call", int64(1), "depth", int64(1)),
	event(21, "agent.error", "ask", "call", int64(1), "message", "no luck", "tool", "delegate_dig", "what", "tool"),
	event(21, "tool.end", "ask", "call", int64(1), "error", "delegate.failed", "tool", "delegate_dig"),
	event(22, "tool.start", "ask", "call", int64(2), "tool", "kb.find"),
	event(23, "adapter.retry", "ask", "adapterKind", "tool", "attempt", int64(1), "delayMs", int64(1), "maxAttempts", int64(2), "method", "call", "reason", "5xx"),
	event(25, "tool.end", "ask", "call", int64(2), "content", "found", "tool", "kb.find"),
	event(25, "agent.handoff", "ask", "call", int64(2), "from", "clerk", "to", "boss"),
	event(26, "tool.start", "ask", "call", int64(3), "tool", "kb.put"),
	event(27, "permission.request", "ask", "call", int64(3), "tool", "kb.put"),
	event(28, "agent.end", "ask", "stopReason", "paused"),
	event(29, trace.RunEnd, "", "status", "paused"),
}

func TestAgents(t *testing.T) {
	l := newLab(t, false)
	l.run("run-1", desk...)
	l.run("run-1",
		event(30, trace.RunStart, "", "digest", "sha256:ab", "recipe", "desk", "resume", true),
		event(31, trace.StepStart, "ask"),
		event(32, "agent.start", "ask", "agent", "clerk", "depth", int64(0), "model", "fast", "resume", true),
		event(33, "permission.response", "ask", "allow", true, "call", int64(3), "scope", "once", "tool", "kb.put"),
		event(35, "tool.end", "ask", "call", int64(3), "tool", "kb.put"),
		event(36, "agent.error", "ask", "code", "agent.maxSteps", "message", "enough"),
		event(37, "agent.end", "ask", "stopReason", "error"),
		event(38, trace.StepEnd, "ask", "code", "agent.maxSteps", "durationMs", int64(7), "message", "enough", "status", "failed"),
		event(39, trace.RunError, "", "code", "agent.maxSteps", "message", "enough", "step", "ask"),
		event(39, trace.RunEnd, "", "status", "error"),
	)
	want := `invoke_workflow desk (internal) 0-29 Unset
  . braise.run.status=paused
  . gen_ai.workflow.name=desk
    step ask (internal) 1-29 Unset
      . braise.step.path=ask
      . braise.step.status=paused
        invoke_agent clerk (internal) 2-28 Unset
          . braise.agent.stop_reason=paused
          . braise.model=fast
          . braise.step.path=ask
          . gen_ai.agent.name=clerk
          @ 25 agent.handoff braise.handoff.from=clerk braise.handoff.to=boss
            chat gpt-5-mini (client) 3-10 Unset
              . braise.call.attempts=2
              . braise.model=fast
              . braise.step.path=ask
              . gen_ai.provider.name=openai
              . gen_ai.request.model=gpt-5-mini
              . gen_ai.response.finish_reasons=["tool_calls"]
              . gen_ai.response.model=gpt-5-mini-2026
              . gen_ai.usage.input_tokens=10
              . gen_ai.usage.output_tokens=5
              @ 4 adapter.retry braise.retry.attempt=1 braise.retry.delay_ms=5 braise.retry.max_attempts=2 braise.retry.method=generate braise.retry.reason=5xx
            execute_tool delegate_dig (internal) 12-21 Error
              ! delegate.failed
              . braise.step.path=ask
              . error.type=delegate.failed
              . gen_ai.tool.name=delegate_dig
                invoke_agent dig (internal) 13-20 Error
                  ! model.failed
                  . braise.agent.stop_reason=error
                  . braise.model=fast
                  . braise.step.path=ask/dig#1
                  . error.type=model.failed
                  . gen_ai.agent.name=dig
                    chat fast (client) 14-18 Error
                      ! model.failed
                      . braise.model=fast
                      . braise.step.path=ask/dig#1
                      . error.type=model.failed
                      . gen_ai.provider.name=unknown
                      . gen_ai.request.model=fast
            execute_tool kb.find (internal) 22-25 Unset
              . braise.call.attempts=2
              . braise.step.path=ask
              . gen_ai.tool.name=kb.find
              @ 23 adapter.retry braise.retry.attempt=1 braise.retry.delay_ms=1 braise.retry.max_attempts=2 braise.retry.method=call braise.retry.reason=5xx
            execute_tool kb.put (internal) 26-28 Unset
              . braise.step.path=ask
              . gen_ai.tool.name=kb.put
invoke_workflow desk (internal) 30-39 Error
  ! agent.maxSteps
  . braise.run.failed_step=ask
  . braise.run.resumed=true
  . braise.run.status=error
  . error.type=agent.maxSteps
  . gen_ai.workflow.name=desk
    step ask (internal) 31-38 Error
      ! agent.maxSteps
      . braise.step.path=ask
      . braise.step.status=failed
      . error.type=agent.maxSteps
        invoke_agent clerk (internal) 32-37 Error
          ! agent.maxSteps
          . braise.agent.stop_reason=error
          . braise.model=fast
          . braise.step.path=ask
          . error.type=agent.maxSteps
          . gen_ai.agent.name=clerk
            execute_tool kb.put (internal) 33-35 Unset
              . braise.step.path=ask
              . gen_ai.tool.name=kb.put
`
	if diff := gocmp.Diff(want, brief(tree(l.spans.GetSpans()))); diff != "" {
		t.Errorf("spans (-want +got)\n%s", diff)
	}
}

func TestContentOfAgents(t *testing.T) {
	l := newLab(t, true)
	l.run("run-1", desk...)
	want := map[string]string{
		"chat gpt-5-mini at 3 gen_ai.input.messages":                 `[{"parts":[{"content":"hi","type":"text"}],"role":"user"}]`,
		"execute_tool delegate_dig at 12 gen_ai.tool.call.arguments": `{"task":"dig"}`,
		"execute_tool delegate_dig at 12 !":                          "no luck",
		"invoke_agent clerk at 2 @":                                  "agent.handoff[braise.handoff.from=clerk braise.handoff.to=boss]",
		"invoke_agent dig at 13 !":                                   "no luck",
		"chat fast at 14 !":                                          "no luck",
		"execute_tool kb.find at 22 gen_ai.tool.call.result":         `"found"`,
	}
	if diff := gocmp.Diff(want, contents(l)); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

func TestMetricsOfAgents(t *testing.T) {
	l := newLab(t, false)
	l.run("run-1", desk...)
	var got []string
	for _, m := range metrics(t, l.reader) {
		if strings.HasPrefix(m, "gen_ai.client.") || strings.HasPrefix(m, "gen_ai.invoke_agent.") {
			got = append(got, m)
		}
	}
	const openai = "gen_ai.operation.name=chat gen_ai.provider.name=openai gen_ai.request.model=gpt-5-mini gen_ai.response.model=gpt-5-mini-2026"
	want := []string{
		"gen_ai.client.operation.duration s error.type=model.failed gen_ai.operation.name=chat gen_ai.provider.name=unknown gen_ai.request.model=fast: 1 0.004",
		"gen_ai.client.operation.duration s " + openai + ": 1 0.007",
		"gen_ai.client.token.usage {token} " + openai + " gen_ai.token.type=input: 1 10",
		"gen_ai.client.token.usage {token} " + openai + " gen_ai.token.type=output: 1 5",
		"gen_ai.invoke_agent.duration s error.type=model.failed gen_ai.agent.name=dig gen_ai.operation.name=invoke_agent: 1 0.007",
		"gen_ai.invoke_agent.duration s gen_ai.agent.name=clerk gen_ai.operation.name=invoke_agent: 1 0.026",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// brief leaves out what all spans have.
func brief(tree string) string {
	var kept []string
	for line := range strings.Lines(tree) {
		if !strings.Contains(line, ". braise.run.id=") && !strings.Contains(line, ". braise.recipe.digest=") && !strings.Contains(line, ". gen_ai.operation.name=") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
