package otlp

import (
	"context"
	"fmt"
	"strings"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// Metrics is an exporter of histograms.
type Metrics struct {
	client      *client
	temporality sdkmetric.TemporalitySelector
}

// NewMetrics returns an exporter that sends to the path /v1/metrics below base; see NewSpans. The environment also sets
// whether each message holds everything since the beginning, the default, or since the last one.
func NewMetrics(base string, headers map[string]string) (*Metrics, error) {
	s, err := environment("METRICS")
	if err != nil {
		return nil, err
	}
	if headers != nil {
		s.headers = headers
	}
	m := &Metrics{newClient(base+"/v1/metrics", s), sdkmetric.CumulativeTemporalitySelector}
	switch name, value := variable("METRICS", "TEMPORALITY_PREFERENCE"); strings.ToLower(value) {
	case "", "cumulative":
	case "delta":
		m.temporality = sdkmetric.DeltaTemporalitySelector
	case "lowmemory":
		m.temporality = sdkmetric.LowMemoryTemporalitySelector
	default:
		return nil, fmt.Errorf(`%s: %q is none of "cumulative", "delta" and "lowmemory"`, name, value)
	}
	return m, nil
}

// Temporality returns how the figures of an instrument count.
func (m *Metrics) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return m.temporality(k)
}

// Aggregation returns that an instrument is summed up as it wants to be.
func (m *Metrics) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

// Export sends histograms; anything else is an error.
func (m *Metrics) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	message := &metricspb.ResourceMetrics{Resource: resourceOf(data.Resource), SchemaUrl: data.Resource.SchemaURL()}
	for _, from := range data.ScopeMetrics {
		scope := &metricspb.ScopeMetrics{Scope: scopeOf(from.Scope), SchemaUrl: from.Scope.SchemaURL}
		for _, f := range from.Metrics {
			metric := &metricspb.Metric{Name: f.Name, Description: f.Description, Unit: f.Unit}
			switch h := f.Data.(type) {
			case metricdata.Histogram[int64]:
				metric.Data = histogram(h)
			case metricdata.Histogram[float64]:
				metric.Data = histogram(h)
			default:
				return fmt.Errorf("the metric %q is not a histogram but a %T", f.Name, f.Data)
			}
			scope.Metrics = append(scope.Metrics, metric)
		}
		message.ScopeMetrics = append(message.ScopeMetrics, scope)
	}
	// MetricsData has the field of a collector's ExportMetricsServiceRequest, and no other.
	return m.client.send(ctx, &metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{message}})
}

// ForceFlush does nothing: an exporter holds nothing back.
func (m *Metrics) ForceFlush(context.Context) error { return nil }

// Shutdown closes idle connections.
func (m *Metrics) Shutdown(context.Context) error {
	m.client.http.CloseIdleConnections()
	return nil
}

func histogram[N int64 | float64](h metricdata.Histogram[N]) *metricspb.Metric_Histogram {
	const cumulative = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	message := &metricspb.Histogram{AggregationTemporality: cumulative}
	if h.Temporality == metricdata.DeltaTemporality {
		message.AggregationTemporality = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	for _, p := range h.DataPoints {
		sum := float64(p.Sum)
		message.DataPoints = append(message.DataPoints, &metricspb.HistogramDataPoint{
			Attributes:        keyValues(p.Attributes.ToSlice()),
			StartTimeUnixNano: nanoseconds(p.StartTime), TimeUnixNano: nanoseconds(p.Time),
			Count: p.Count, Sum: &sum, Min: extremum(p.Min), Max: extremum(p.Max),
			BucketCounts: p.BucketCounts, ExplicitBounds: p.Bounds, Exemplars: exemplars(p.Exemplars),
		})
	}
	return &metricspb.Metric_Histogram{Histogram: message}
}

// extremum returns nil where there is none.
func extremum[N int64 | float64](e metricdata.Extrema[N]) *float64 {
	v, ok := e.Value()
	if !ok {
		return nil
	}
	f := float64(v)
	return &f
}

func exemplars[N int64 | float64](list []metricdata.Exemplar[N]) []*metricspb.Exemplar {
	messages := make([]*metricspb.Exemplar, len(list))
	for i, e := range list {
		messages[i] = &metricspb.Exemplar{
			FilteredAttributes: keyValues(e.FilteredAttributes), TimeUnixNano: nanoseconds(e.Time),
			SpanId: e.SpanID, TraceId: e.TraceID,
			Value: &metricspb.Exemplar_AsDouble{AsDouble: float64(e.Value)},
		}
	}
	return messages
}
