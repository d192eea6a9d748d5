package otlp_test

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	metricsv1 "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/braise-run/braise/internal/otlp"
)

var t0 = time.Unix(1_700_000_000, 7)

const n0 = 1_700_000_000_000_000_007 // t0 in nanoseconds

// request is what a collector was sent.
type request struct {
	path   string
	header http.Header
	body   []byte
	at     time.Time
}

// collector keeps what it is sent, and gives its answers in turn, the last one forever.
type collector struct {
	mu      sync.Mutex
	got     []request
	answers []http.HandlerFunc
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		in, _ = gzip.NewReader(r.Body)
	}
	body, err := io.ReadAll(in)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, request{r.URL.Path, r.Header, body, time.Now()})
	if len(c.answers) == 0 {
		return
	}
	c.answers[0](w, r)
	if len(c.answers) > 1 {
		c.answers = c.answers[1:]
	}
}

func refuse(code int, retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		http.Error(w, "not now", code)
	}
}

func accept(http.ResponseWriter, *http.Request) {}

// kept is an exporter that remembers the error of the one below.
type kept struct {
	*otlp.Spans
	err error
}

func (k *kept) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.err = k.Spans.ExportSpans(ctx, spans)
	return nil
}

// sendSpan sends one span to a collector and returns the error of that, or of the settings.
func sendSpan(t *testing.T, base string, headers map[string]string) error {
	t.Helper()
	spans, err := otlp.NewSpans(base, headers)
	if err != nil {
		return err
	}
	k := &kept{Spans: spans}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(k))
	_, span := provider.Tracer("test").Start(t.Context(), "work")
	span.End()
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	return k.err
}

// A collector reads of a span what was put into it.
func TestSpans(t *testing.T) {
	c := &collector{}
	srv := httptest.NewServer(c)
	defer srv.Close()
	spans, err := otlp.NewSpans(srv.URL+"/base", nil)
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithResource(
		resource.NewWithAttributes("https://schema.test/1", attribute.String("service.name", "s"))))
	far := api.NewSpanContext(api.SpanContextConfig{TraceID: api.TraceID{1}, SpanID: api.SpanID{2}, Remote: true, TraceFlags: api.FlagsSampled})
	near := api.NewSpanContext(api.SpanContextConfig{TraceID: api.TraceID{3}, SpanID: api.SpanID{4}})
	_, span := provider.Tracer("scope", api.WithInstrumentationVersion("v1"), api.WithSchemaURL("https://schema.test/2")).Start(
		api.ContextWithSpanContext(t.Context(), far), "work", api.WithTimestamp(t0), api.WithSpanKind(api.SpanKindClient),
		api.WithLinks(api.Link{SpanContext: near, Attributes: []attribute.KeyValue{attribute.Bool("l", true)}}),
		api.WithAttributes(attribute.Int64("i", -1), attribute.Float64("f", 1.5), attribute.StringSlice("ss", []string{"a", "b"}),
			attribute.BoolSlice("bs", []bool{true}), attribute.Int64Slice("is", []int64{2}), attribute.Float64Slice("fs", []float64{.5})))
	span.AddEvent("e", api.WithTimestamp(t0.Add(1)), api.WithAttributes(attribute.String("k", "v")))
	span.SetStatus(codes.Error, "broken")
	span.End(api.WithTimestamp(t0.Add(2)))

	if len(c.got) != 1 || c.got[0].path != "/base/v1/traces" || c.got[0].header.Get("Content-Type") != "application/x-protobuf" {
		t.Fatalf("the collector got %v", c.got)
	}
	got := &tracev1.ExportTraceServiceRequest{}
	if err := proto.Unmarshal(c.got[0].body, got); err != nil {
		t.Fatal(err)
	}
	str := func(s string) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
	}
	yes := &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}
	integer := func(i int64) *common.AnyValue { return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: i}} }
	float := func(f float64) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: f}}
	}
	list := func(values ...*common.AnyValue) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: values}}}
	}
	id := span.SpanContext().SpanID()
	want := &tracev1.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:  &resourcepb.Resource{Attributes: []*common.KeyValue{{Key: "service.name", Value: str("s")}}},
		SchemaUrl: "https://schema.test/1",
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope:     &common.InstrumentationScope{Name: "scope", Version: "v1"},
			SchemaUrl: "https://schema.test/2",
			Spans: []*tracepb.Span{{
				TraceId: append([]byte{1}, make([]byte, 15)...), SpanId: id[:], ParentSpanId: append([]byte{2}, make([]byte, 7)...),
				Flags: 0x301, Name: "work", Kind: tracepb.Span_SPAN_KIND_CLIENT, // sampled; the parent is known to be remote
				StartTimeUnixNano: n0, EndTimeUnixNano: n0 + 2,
				Attributes: []*common.KeyValue{{Key: "i", Value: integer(-1)}, {Key: "f", Value: float(1.5)}, {Key: "ss", Value: list(str("a"), str("b"))},
					{Key: "bs", Value: list(yes)}, {Key: "is", Value: list(integer(2))}, {Key: "fs", Value: list(float(.5))}},
				Events: []*tracepb.Span_Event{{Name: "e", TimeUnixNano: n0 + 1, Attributes: []*common.KeyValue{{Key: "k", Value: str("v")}}}},
				Links: []*tracepb.Span_Link{{TraceId: append([]byte{3}, make([]byte, 15)...), SpanId: append([]byte{4}, make([]byte, 7)...),
					Flags: 0x100, Attributes: []*common.KeyValue{{Key: "l", Value: yes}}}},
				Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "broken"},
			}},
		}},
	}}}
	if !proto.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

// A collector reads the figures of histograms, and since when they count.
func TestMetrics(t *testing.T) {
	for preference, want := range map[string]metricspb.AggregationTemporality{
		"":          metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
		"DELTA":     metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
		"lowmemory": metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", preference)
		c := &collector{}
		srv := httptest.NewServer(c)
		exporter, err := otlp.NewMetrics(srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
		seconds, err := provider.Meter("scope").Float64Histogram("d", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(1, 2))
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := provider.Meter("scope").Int64Histogram("n", metric.WithDescription("how many"), metric.WithExplicitBucketBoundaries(10))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []float64{.5, 1.5, 3.5} {
			seconds.Record(t.Context(), s, metric.WithAttributes(attribute.String("k", "v")))
		}
		tokens.Record(t.Context(), 7)
		if err := provider.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		srv.Close()
		if len(c.got) != 1 || c.got[0].path != "/v1/metrics" {
			t.Fatalf("the collector got %v", c.got)
		}
		got := &metricsv1.ExportMetricsServiceRequest{}
		if err := proto.Unmarshal(c.got[0].body, got); err != nil {
			t.Fatal(err)
		}
		metrics := got.ResourceMetrics[0].ScopeMetrics[0].Metrics
		for _, m := range metrics {
			p := m.GetHistogram().DataPoints[0]
			if p.StartTimeUnixNano == 0 || p.TimeUnixNano < p.StartTimeUnixNano {
				t.Errorf("%s counts from %d to %d", m.Name, p.StartTimeUnixNano, p.TimeUnixNano)
			}
			p.StartTimeUnixNano, p.TimeUnixNano = 0, 0
		}
		point := func(p *metricspb.HistogramDataPoint) *metricspb.Metric_Histogram {
			return &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
				AggregationTemporality: want, DataPoints: []*metricspb.HistogramDataPoint{p}}}
		}
		v := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: "v"}}
		for i, want := range []*metricspb.Metric{
			{Name: "d", Unit: "s", Data: point(&metricspb.HistogramDataPoint{
				Attributes: []*common.KeyValue{{Key: "k", Value: v}}, Count: 3, Sum: proto.Float64(5.5),
				Min: proto.Float64(.5), Max: proto.Float64(3.5), ExplicitBounds: []float64{1, 2}, BucketCounts: []uint64{1, 1, 1}})},
			{Name: "n", Description: "how many", Data: point(&metricspb.HistogramDataPoint{
				Count: 1, Sum: proto.Float64(7), Min: proto.Float64(7), Max: proto.Float64(7),
				ExplicitBounds: []float64{10}, BucketCounts: []uint64{1, 0}})},
		} {
			if !proto.Equal(metrics[i], want) {
				t.Errorf("%q: got\n%v\nwant\n%v", preference, metrics[i], want)
			}
		}
	}
}

// A request that is refused for the moment is repeated, not before the collector wants it; any other is not.
func TestRetries(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect is followed") }))
	defer elsewhere.Close()
	for _, tt := range []struct {
		name     string
		answers  []http.HandlerFunc
		requests int
		least    time.Duration // between the first and the second
		want     string
	}{
		{"429, 503", []http.HandlerFunc{refuse(429, "2"), refuse(503, ""), accept}, 3, 2 * time.Second, ""},
		{"too late", []http.HandlerFunc{refuse(503, "61"), accept}, 1, 0, `POST URL/v1/traces: 503 Service Unavailable: "not now"`},
		{"400", []http.HandlerFunc{refuse(400, "1"), accept}, 1, 0, `POST URL/v1/traces: 400 Bad Request: "not now"`},
		{"redirect", []http.HandlerFunc{http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect).ServeHTTP}, 1, 0,
			"POST URL/v1/traces: 307 Temporary Redirect"},
		{"partly", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			body, err := proto.Marshal(&tracev1.ExportTraceServiceResponse{
				PartialSuccess: &tracev1.ExportTracePartialSuccess{RejectedSpans: 300, ErrorMessage: "too old"}})
			if err != nil {
				t.Error(err)
			}
			w.Write(body)
		}}, 1, 0, `the collector rejected 300 items: "too old"`},
		{"warning", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte("\x0a\x05\x12\x03bye")) // the message of a partial success, of no item
		}}, 1, 0, `the collector warns: "bye"`},
		{"JSON", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) }}, 1, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &collector{answers: tt.answers}
			srv := httptest.NewServer(c)
			defer srv.Close()
			got := ""
			if err := sendSpan(t, srv.URL, nil); err != nil {
				got = strings.ReplaceAll(err.Error(), srv.URL, "URL")
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if len(c.got) != tt.requests {
				t.Fatalf("%d requests, want %d", len(c.got), tt.requests)
			}
			if tt.least > 0 && c.got[1].at.Sub(c.got[0].at) < tt.least {
				t.Errorf("repeated after %v, want %v", c.got[1].at.Sub(c.got[0].at), tt.least)
			}
		})
	}
}

// The variables of the environment hold, those of the signal first; one that makes no sense is an error.
func TestEnvironment(t *testing.T) {
	c := &collector{}
	srv := httptest.NewTLSServer(c)
	defer srv.Close()
	dir := t.TempDir()
	authority, empty := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "empty.pem")
	for file, text := range map[string][]byte{
		authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), empty: nil} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		env     string // NAME=value; …
		headers map[string]string
		header  string // of the request
		want    string // in the error
	}{
		{"HEADERS=x-a=1, x-b=a%2Cb", nil, "X-B: a,b", ""},
		{"HEADERS=x-a=1; TRACES_HEADERS=x-a=2", nil, "X-A: 2", ""},
		{"HEADERS=x-a=1", map[string]string{"x-b": "c"}, "X-B: c", ""},
		{"COMPRESSION=gzip", nil, "Content-Encoding: gzip", ""},
		{"COMPRESSION=gzip; TRACES_COMPRESSION=none", nil, "Content-Encoding: ", ""},
		{"HEADERS=hunter2", nil, "", "OTEL_EXPORTER_OTLP_HEADERS: entry 1 is not like name=value, with other characters as %XX"},
		{"TRACES_HEADERS=a=1,b=%zz", nil, "", "OTEL_EXPORTER_OTLP_TRACES_HEADERS: entry 2 is not like name=value, with other characters as %XX"},
		{"TIMEOUT=10s", nil, "", `OTEL_EXPORTER_OTLP_TIMEOUT: "10s" is not a number of milliseconds`},
		{"COMPRESSION=zstd", nil, "", `OTEL_EXPORTER_OTLP_COMPRESSION: "zstd" is neither "gzip" nor "none"`},
		{"CERTIFICATE=" + empty, nil, "", "OTEL_EXPORTER_OTLP_CERTIFICATE: " + empty + " holds no certificate in PEM"},
		{"TRACES_CERTIFICATE=/none", nil, "", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: open /none: "},
		{"CLIENT_CERTIFICATE=" + authority, nil, "", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: open : "},
		{"CERTIFICATE=", nil, "", "certificate signed by unknown authority"},
	} {
		t.Run(tt.env, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", authority)
			for pair := range strings.SplitSeq(tt.env, "; ") {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			}
			err := sendSpan(t, srv.URL, tt.headers)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			last := c.got[len(c.got)-1]
			name, want, _ := strings.Cut(tt.header, ": ")
			if got := last.header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
			if err := proto.Unmarshal(last.body, &tracev1.ExportTraceServiceRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A collector that does not answer in the time of OTEL_EXPORTER_OTLP_TIMEOUT is given up.
func TestTimeout(t *testing.T) {
	over := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer srv.Close()
	defer close(over)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "10")
	if err := sendSpan(t, srv.URL, nil); err == nil || !strings.Contains(err.Error(), "Client.Timeout exceeded") {
		t.Errorf("got %v, want that the time is over", err)
	}
}
