// Package oteltrace turns the events of runs into OpenTelemetry spans and metrics: a span for each
// run, step, agent, model call and tool call, and metrics of durations and tokens. docs/telemetry.md lists the
// names.
package oteltrace

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	api "go.opentelemetry.io/otel/trace"

	"github.com/braise-run/braise/trace"
)

// Options say where spans and metrics go, and what is in them.
type Options struct {
	Tracer api.TracerProvider   // nil: the global one, as it is at this moment
	Meter  metric.MeterProvider // nil: the global one, as it is at this moment

	// Content adds what goes into and comes out of models and tools, and the messages of errors,
	// which may quote it. Secrets are redacted before. An attribute that would be longer than
	// 64 KiB is left out, and an event on the span says so.
	Content bool
}

// Exporter is a [trace.Sink] for the runs of a [runtime.Runtime], many at once. Make it with [New] or
// [OTLP]; it is safe for concurrent use.
//
// [runtime.Runtime]: https://pkg.go.dev/github.com/braise-run/braise/runtime#Runtime
type Exporter struct {
	tracer   api.Tracer
	meters   meters
	content  bool
	parent   context.Context // of the spans of runs; never done
	pipeline *pipeline       // nil: the providers belong to somebody else
}

// New returns an Exporter to the providers of an app. It starts nothing, and the app shuts its
// providers down itself. The error is that of a MeterProvider that refuses an instrument.
func New(opts Options) (*Exporter, error) {
	if opts.Tracer == nil {
		opts.Tracer = otel.GetTracerProvider()
	}
	if opts.Meter == nil {
		opts.Meter = otel.GetMeterProvider()
	}
	m, err := newMeters(opts.Meter.Meter(scope, metric.WithSchemaURL(schemaURL)))
	if err != nil {
		return nil, err
	}
	return &Exporter{
		tracer: opts.Tracer.Tracer(scope, api.WithSchemaURL(schemaURL)),
		meters: m, content: opts.Content, parent: context.Background(),
	}, nil
}

// Within returns an Exporter to the same place whose runs are children of the span in ctx, if there
// is one. It is for the copy of a Runtime that a request's run gets; that ctx ends does not matter.
func (e *Exporter) Within(ctx context.Context) *Exporter {
	inner := *e
	inner.parent = context.WithoutCancel(ctx)
	return &inner
}

// ForRun returns the sink of one run. It also has the method Traceparent() string: the span of the
// run as a W3C traceparent, "" until the sink has taken run.start; safe for concurrent use. A later
// execution of the run whose run.start has this text as attribute "traceparent" is linked to the span. It is a
// [trace.Spans]: in the context of a call, its span is the current one, and so is its traceparent.
func (e *Exporter) ForRun(runID string) trace.Sink {
	return &run{to: e, id: valid(runID), steps: map[string]*step{}, agents: map[string]*agent{}}
}

// Emit does nothing: a run emits to what [Exporter.ForRun] returns.
func (e *Exporter) Emit(trace.Event) {}

// Shutdown sends what an Exporter made by [OTLP] still holds, and ends it; later events are lost. It
// returns when ctx is done, after 2 seconds if ctx has no deadline. The error says what could not
// be sent since the beginning. Of an Exporter made by [New] it does nothing. Only the first call
// counts.
func (e *Exporter) Shutdown(ctx context.Context) error {
	if e.pipeline == nil {
		return nil
	}
	return e.pipeline.shutdown(ctx)
}

// meters are the instruments.
type meters struct {
	tokens                                  metric.Int64Histogram
	models, tools, agents, steps, wholeRuns metric.Float64Histogram
}

func newMeters(m metric.Meter) (meters, error) {
	var problems []error
	seconds := func(name, description string, buckets []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(buckets...))
		problems = append(problems, err)
		return h
	}
	tokens, err := m.Int64Histogram(metricTokens, metric.WithUnit("{token}"),
		metric.WithDescription("Tokens that a model call took and gave."),
		metric.WithExplicitBucketBoundaries(tokenBuckets...))
	problems = append(problems, err)
	all := meters{
		tokens: tokens,
		models: seconds(metricModelDuration, "How long model calls take, retries included.", callBuckets),
		tools:  seconds(metricToolDuration, "How long tool calls take, retries included.", callBuckets),
		agents: seconds(metricAgentDuration,
			"How long agents are at work, from start or resumption to end or pause.", callBuckets),
		steps: seconds(metricStepDuration, "How long steps take.", callBuckets),
		wholeRuns: seconds(metricRunDuration,
			"How long runs take, from start or resumption to end or pause.", workflowBuckets),
	}
	return all, errors.Join(problems...)
}
