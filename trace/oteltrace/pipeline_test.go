package oteltrace

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/braise-run/braise/trace"
)

// stuckSpans and stuckMetrics are exporters to a collector that takes everything and answers nothing.
type stuckSpans struct{ sdktrace.SpanExporter }

func (stuckSpans) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return fmt.Errorf("no answer to spans: %w", ctx.Err())
}
func (stuckSpans) Shutdown(context.Context) error { return nil }

type stuckMetrics struct{ sdkmetric.Exporter }

func (stuckMetrics) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}
func (stuckMetrics) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}
func (stuckMetrics) Export(ctx context.Context, _ *metricdata.ResourceMetrics) error {
	<-ctx.Done()
	return fmt.Errorf("no answer to metrics: %w", ctx.Err())
}
func (stuckMetrics) ForceFlush(context.Context) error { return nil }
func (stuckMetrics) Shutdown(context.Context) error   { return nil }

// A collector that answers nothing costs runs no time, and the end two seconds; then nothing is left
// running, which the bubble checks. OpenTelemetry's error handler hears nothing of it.
func TestStuckCollector(t *testing.T) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { t.Errorf("OpenTelemetry was told: %v", err) }))
	for _, tt := range []struct {
		name string
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want time.Duration
	}{
		{"no deadline", func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }, 2 * time.Second},
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 5*time.Second)
		}, 5 * time.Second},
		{"ended", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pipeline{}
				p.alive, p.stop = context.WithCancel(context.Background())
				p.open(resource.Empty(), stuckSpans{}, stuckMetrics{}, false)
				e, err := New(Options{Tracer: p.traces, Meter: p.metrics})
				if err != nil {
					t.Fatal(err)
				}
				e.pipeline = p
				start := time.Now()
				for i := range 2 * queued {
					sink := e.ForRun(fmt.Sprint(i))
					sink.Emit(trace.Event{At: start, Kind: trace.RunStart})
					sink.Emit(trace.Event{At: start, Kind: trace.RunEnd})
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("the runs took %v", took)
				}
				time.Sleep(70 * time.Second) // spans and metrics are under way
				ctx, cancel := tt.ctx(context.Background())
				defer cancel()
				start = time.Now()
				err = e.Shutdown(ctx)
				if took := time.Since(start); took != tt.want {
					t.Errorf("Shutdown took %v, want %v", took, tt.want)
				}
				if err == nil || !strings.HasPrefix(err.Error(), "otlp: no answer to ") {
					t.Errorf("got %v, want what could not be sent", err)
				}
				if err := e.Shutdown(ctx); err != nil {
					t.Errorf("second Shutdown: %v", err)
				}
				sink := e.ForRun("late")
				sink.Emit(trace.Event{At: start, Kind: trace.RunStart})
				sink.Emit(trace.Event{At: start, Kind: trace.RunEnd})
			})
		})
	}
}
