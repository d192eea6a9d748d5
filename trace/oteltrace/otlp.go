package oteltrace

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/braise-run/braise/internal/otlp"
)

// OTLPOptions say which collector gets spans and metrics.
type OTLPOptions struct {
	// Endpoint is the collector's base URL, such as http://localhost:4318; required. Spans go to
	// its /v1/traces and metrics to its /v1/metrics, as protobuf over HTTP.
	Endpoint string
	Headers  map[string]string // of every request; nil: those of OTEL_EXPORTER_OTLP_HEADERS
	Content  bool              // see Options

	// Service is the attribute service.name of everything that is sent. "": what OTEL_SERVICE_NAME
	// or OTEL_RESOURCE_ATTRIBUTES say, else braise.
	Service string
	Version string // the attribute service.version; "": none
}

// headerName is a token of HTTP.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// Validate reports what is wrong with the options. The error holds nothing of them but the names
// of headers.
func (o OTLPOptions) Validate() error {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New(`otlp: the endpoint is not like "http://localhost:4318"`)
	}
	for name, value := range o.Headers {
		if !headerName.MatchString(name) {
			return fmt.Errorf("otlp: %q is not the name of a header", name)
		}
		if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return fmt.Errorf("otlp: the value of the header %q cannot be sent", name)
		}
	}
	return nil
}

// OTLP returns an Exporter that sends spans and metrics to a collector, from goroutines of its own,
// until [Exporter.Shutdown]. What it cannot send in time is dropped: a collector that is slow or
// down costs neither time nor more than a bounded amount of memory. OpenTelemetry's global
// providers, and the handler of its errors, are neither used nor changed. The error is that of
// [OTLPOptions.Validate], or names a variable OTEL_EXPORTER_OTLP_* that cannot be used.
func OTLP(opts OTLPOptions) (*Exporter, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	p := &pipeline{}
	p.alive, p.stop = context.WithCancel(context.Background())
	if err := p.start(opts); err != nil {
		p.stop()
		return nil, fmt.Errorf("otlp: %w", err)
	}
	e, err := New(Options{Tracer: p.traces, Meter: p.metrics, Content: opts.Content})
	if err != nil {
		return nil, errors.Join(err, p.shutdown(context.Background()))
	}
	e.pipeline = p
	return e, nil
}

const (
	flushTime = 2 * time.Second // how long Shutdown takes at most if ctx does not say

	// The queue of spans that wait to be sent, and how many go at once. With content they are
	// larger: collectors as a rule take requests of up to 20 MiB.
	queued, together                       = 8192, 512
	queuedWithContent, togetherWithContent = 2048, 64
)

// pipeline is the way to a collector.
type pipeline struct {
	traces  *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
	alive   context.Context // done when nothing more is to be sent
	stop    context.CancelFunc
	once    sync.Once

	mu  sync.Mutex
	err error // the last one of sending
}

func (p *pipeline) start(opts OTLPOptions) error {
	attrs := []attribute.KeyValue{}
	if opts.Service != "" {
		attrs = append(attrs, attribute.String(serviceName, valid(opts.Service)))
	}
	if opts.Version != "" {
		attrs = append(attrs, attribute.String(serviceVersion, valid(opts.Version)))
	}
	res, err := resource.New(p.alive, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String(serviceName, "braise")),
		resource.WithFromEnv(), resource.WithAttributes(attrs...)) // later ones count
	if err != nil {
		return err
	}
	base := strings.TrimRight(opts.Endpoint, "/")
	spans, err := otlp.NewSpans(base, opts.Headers)
	if err != nil {
		return err
	}
	metrics, err := otlp.NewMetrics(base, opts.Headers)
	if err != nil {
		return err
	}
	p.open(res, spans, metrics, opts.Content)
	return nil
}

// open makes the providers.
func (p *pipeline) open(res *resource.Resource, spans sdktrace.SpanExporter, metrics sdkmetric.Exporter, content bool) {
	queue, batch := queued, together
	if content {
		queue, batch = queuedWithContent, togetherWithContent
	}
	p.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(quietSpans{spans, p},
		sdktrace.WithMaxQueueSize(queue), sdktrace.WithMaxExportBatchSize(batch)))
	p.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(res),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(quietMetrics{metrics, p})))
}

// shutdown flushes and ends the providers. They get a context that does not end, with which they
// always clean up; when ctx is done, p.stop makes them quick.
func (p *pipeline) shutdown(ctx context.Context) error {
	var err error
	p.once.Do(func() {
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, flushTime)
			defer cancel()
		}
		defer context.AfterFunc(ctx, p.stop)()
		var spans, metrics error
		var both sync.WaitGroup
		both.Go(func() { spans = p.traces.Shutdown(context.Background()) })
		both.Go(func() { metrics = p.metrics.Shutdown(context.Background()) })
		both.Wait()
		p.stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		if err = errors.Join(p.err, spans, metrics); err != nil {
			err = fmt.Errorf("otlp: %w", err)
		}
	})
	return err
}

// send sends something with f, no longer than the pipeline is alive. Its error stays here: the SDK
// would give it to OpenTelemetry's global handler, which is the app's and prints.
func (p *pipeline) send(ctx context.Context, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.alive, cancel)()
	if err := f(ctx); err != nil {
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
	}
}

// quietSpans and quietMetrics are exporters that do not tell the SDK of their errors.
type quietSpans struct {
	sdktrace.SpanExporter
	p *pipeline
}

func (q quietSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	q.p.send(ctx, func(ctx context.Context) error { return q.SpanExporter.ExportSpans(ctx, spans) })
	return nil
}

type quietMetrics struct {
	sdkmetric.Exporter
	p *pipeline
}

func (q quietMetrics) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	q.p.send(ctx, func(ctx context.Context) error { return q.Exporter.Export(ctx, data) })
	return nil
}
