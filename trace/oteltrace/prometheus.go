package oteltrace

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	reader "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/trace/noop"
)

// maxSeries is how many combinations of labels an instrument has at most. Later ones are counted together, under the
// label otel_metric_overflow, so that memory is bounded whatever models and providers name.
const maxSeries = 2000

// Prometheus returns an Exporter whose metrics a Prometheus server reads, and the registry that has them. It makes no
// spans. An app gives the registry to promhttp.HandlerFor, or registers it with a registry of its own. There is nothing
// to shut down. The error is one of OpenTelemetry's, and means a mistake in this package.
func Prometheus() (*Exporter, *prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	metrics, err := reader.New(reader.WithRegisterer(registry), reader.WithoutScopeInfo(), reader.WithoutTargetInfo())
	if err != nil {
		return nil, nil, err
	}
	e, err := New(Options{Tracer: noop.NewTracerProvider(), Meter: sdkmetric.NewMeterProvider(
		sdkmetric.WithReader(metrics), sdkmetric.WithCardinalityLimit(maxSeries),
		sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter))})
	if err != nil {
		return nil, nil, errors.Join(err, metrics.Shutdown(context.Background()))
	}
	return e, registry, nil
}
