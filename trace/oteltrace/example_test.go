package oteltrace_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/trace/oteltrace"
)

// An app gives the Exporter its own providers, and the Exporter to runtime.Runtime.Trace.
func ExampleNew() {
	spans := tracetest.NewInMemoryExporter() // in an app: the exporter that it has
	e, err := oteltrace.New(oteltrace.Options{
		Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
		Meter:  noop.NewMeterProvider(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	run := e.ForRun("0198c5b0-5b1e-7cc0-8000-000000000000") // what a run does with the sinks of its Runtime
	run.Emit(trace.Event{Kind: trace.RunStart, Data: trace.Data{{Key: "recipe", Value: "triage"}}})
	run.Emit(trace.Event{Kind: trace.StepStart, Step: "sort"})
	run.Emit(trace.Event{Kind: trace.AdapterCall, Step: "sort", Data: trace.Data{{Key: "kind", Value: "model"}, {Key: "name", Value: "fast"}}})
	run.Emit(trace.Event{Kind: trace.ModelEnd, Step: "sort"})
	run.Emit(trace.Event{Kind: trace.StepEnd, Step: "sort", Data: trace.Data{{Key: "status", Value: "succeeded"}}})
	run.Emit(trace.Event{Kind: trace.RunEnd, Data: trace.Data{{Key: "status", Value: "ok"}}})

	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// chat fast
	// step sort
	// invoke_workflow triage
}

// A Prometheus server reads the metrics of runs from the handler of the registry.
func ExamplePrometheus() {
	e, registry, err := oteltrace.Prometheus()
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{}) // for GET /metrics; or give registry to serve.Metrics

	run := e.ForRun("0198c5b0-5b1e-7cc0-8000-000000000000") // what a run does with the sinks of its Runtime
	run.Emit(trace.Event{Kind: trace.RunStart, Data: trace.Data{{Key: "recipe", Value: "triage"}}})
	run.Emit(trace.Event{Kind: trace.RunEnd, Data: trace.Data{{Key: "status", Value: "ok"}}})

	scrape := httptest.NewRecorder()
	handler.ServeHTTP(scrape, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(scrape.Body.String()) {
		if strings.Contains(line, "_count") {
			fmt.Print(line)
		}
	}
	// Output:
	// gen_ai_workflow_duration_seconds_count{braise_run_status="ok",gen_ai_workflow_name="triage"} 1
}
