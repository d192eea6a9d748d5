package host_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metricsv1 "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/trace/oteltrace"
)

// collector is a server that takes spans and metrics by OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu        sync.Mutex
	spans     []*tracepb.Span
	metrics   map[string]bool // names
	resources map[string]string
	headers   []http.Header
}

func newCollector(t *testing.T) *collector {
	c := &collector{metrics: map[string]bool{}, resources: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers = append(c.headers, r.Header)
		switch r.URL.Path {
		case "/base/v1/traces":
			var req tracev1.ExportTraceServiceRequest
			if err := proto.Unmarshal(body, &req); err != nil {
				t.Error(err)
			}
			for _, rs := range req.ResourceSpans {
				c.resource(rs.Resource.Attributes)
				for _, ss := range rs.ScopeSpans {
					c.spans = append(c.spans, ss.Spans...)
				}
			}
		case "/base/v1/metrics":
			var req metricsv1.ExportMetricsServiceRequest
			if err := proto.Unmarshal(body, &req); err != nil {
				t.Error(err)
			}
			for _, rm := range req.ResourceMetrics {
				c.resource(rm.Resource.Attributes)
				for _, sm := range rm.ScopeMetrics {
					for _, m := range sm.Metrics {
						c.metrics[m.Name] = true
					}
				}
			}
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}))
	return c
}

func (c *collector) resource(attrs []*common.KeyValue) {
	for _, kv := range attrs {
		c.resources[kv.Key] = kv.Value.GetStringValue()
	}
}

// tree draws the names of the spans; children by start, then name.
func (c *collector) tree() string {
	slices.SortFunc(c.spans, func(a, b *tracepb.Span) int {
		return cmp.Or(cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano), strings.Compare(a.Name, b.Name))
	})
	var b strings.Builder
	var draw func(parent []byte, indent string)
	draw = func(parent []byte, indent string) {
		for _, s := range c.spans {
			if string(s.ParentSpanId) == string(parent) {
				fmt.Fprintln(&b, indent+s.Name)
				draw(s.SpanId, indent+"  ")
			}
		}
	}
	draw(nil, "")
	return b.String()
}

// run runs a recipe with three model calls, with a configuration that names the collector, and
// returns its id.
func (c *collector) run(t *testing.T, telemetry string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "canned.yaml"), "turns: [{text: not JSON}, {json: {kind: A}}, {text: done}]\n")
	config, err := host.ParseConfig("braise.yaml", []byte("models: {fast: {provider: script, file: canned.yaml}}\ntelemetry: "+telemetry),
		environ(map[string]string{"COLLECTOR": c.URL, "KEY": "hunter2hunter2"}))
	if err != nil {
		t.Fatal(err)
	}
	rt, err := config.Runtime(dir)
	if err != nil {
		t.Fatal(err)
	}
	exporter, err := config.Telemetry("1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	rt.Trace = append(rt.Trace, exporter)
	out, err := compileRecipe(t, `apiVersion: braise/v1
name: classify
steps:
  sort:
    uses: model
    with: {model: fast, prompt: "Which kind?"}
    output: {schema: {type: object, properties: {kind: {type: string}}, required: [kind]}}
  each:
    uses: set
    needs: [sort]
    foreach: {in: [1]}
    with: ${{ item }}
  last:
    uses: model
    needs: [each]
    with: {model: fast, prompt: "And now?"}
`).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	if err := exporter.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.RunID
}

// A run is at the collector in full when Shutdown is through.
func TestTelemetry(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c := newCollector(t)
	defer c.Close()
	runID := c.run(t, `{otlp: "${COLLECTOR}/base/", headers: {X-Api-Key: "${KEY}", X-Tenant: t1}, service_name: triage}`)
	c.mu.Lock()
	defer c.mu.Unlock()
	want := `invoke_workflow classify
  step sort
    chat fast
    chat fast
  step each
    step each[0]
  step last
    chat fast
`
	if diff := gocmp.Diff(want, c.tree()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	ids := map[string]bool{}
	for _, s := range c.spans {
		for _, kv := range s.Attributes {
			if strings.HasPrefix(kv.Key, "gen_ai.input") || strings.HasPrefix(kv.Key, "gen_ai.output") {
				t.Errorf("%s has %s, which is content", s.Name, kv.Key)
			}
			if kv.Key == "braise.run.id" {
				ids[kv.Value.GetStringValue()] = true
			}
		}
	}
	if len(ids) != 1 || !ids[runID] {
		t.Errorf("run ids %v, want %s", ids, runID)
	}
	for _, name := range []string{"gen_ai.client.operation.duration", "gen_ai.client.token.usage", "gen_ai.workflow.duration", "braise.step.duration"} {
		if !c.metrics[name] {
			t.Errorf("no metric %s in %v", name, c.metrics)
		}
	}
	if c.resources["service.name"] != "triage" || c.resources["service.version"] != "1.2.3" || c.resources["telemetry.sdk.language"] != "go" {
		t.Errorf("resource %v", c.resources)
	}
	for _, h := range c.headers {
		if h.Get("X-Api-Key") != "hunter2hunter2" || h.Get("X-Tenant") != "t1" || h.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("headers %v", h)
		}
	}
}

func TestTelemetryContent(t *testing.T) {
	c := newCollector(t)
	defer c.Close()
	c.run(t, `{otlp: "${COLLECTOR}/base", content: true}`)
	c.mu.Lock()
	defer c.mu.Unlock()
	got := map[string]bool{}
	for _, s := range c.spans {
		for _, kv := range s.Attributes {
			if kv.Key == "gen_ai.input.messages" || kv.Key == "gen_ai.output.messages" {
				got[kv.Value.GetStringValue()] = true
			}
		}
	}
	for _, want := range []string{
		`[{"parts":[{"content":"And now?","type":"text"}],"role":"user"}]`,
		`[{"finish_reason":"stop","parts":[{"content":"done","type":"text"}],"role":"assistant"}]`,
	} {
		if !got[want] {
			t.Errorf("no %s in %v", want, got)
		}
	}
}

// OTEL_* variables count where the configuration sets nothing; it alone sets where to send.
func TestTelemetryEnvironment(t *testing.T) {
	c := newCollector(t)
	defer c.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=t2")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://localhost:1")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.version=2")
	for _, tt := range []struct{ text, variable, want string }{
		{"", "", "braise"},
		{"", "from-variable", "from-variable"},
		{", service_name: from-file", "from-variable", "from-file"},
	} {
		t.Setenv("OTEL_SERVICE_NAME", tt.variable)
		config, err := host.ParseConfig("braise.yaml", []byte(`telemetry: {otlp: "`+c.URL+`/base"`+tt.text+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		exporter, err := config.Telemetry("")
		if err != nil {
			t.Fatal(err)
		}
		rt, err := config.Runtime("")
		if err != nil {
			t.Fatal(err)
		}
		rt.Trace = append(rt.Trace, exporter)
		if _, err := compileRecipe(t, "apiVersion: braise/v1\nname: r\nsteps: {a: {uses: set, with: 1}}\n").Run(t.Context(), nil, rt); err != nil {
			t.Fatal(err)
		}
		if err := exporter.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		if c.resources["service.name"] != tt.want || c.resources["service.version"] != "2" || c.resources["deployment.environment.name"] != "test" {
			t.Errorf("%q, %q: resource %v", tt.text, tt.variable, c.resources)
		}
		if h := c.headers[len(c.headers)-1]; h.Get("X-Tenant") != "t2" {
			t.Errorf("headers %v", h)
		}
		c.mu.Unlock()
	}
}

func TestNoTelemetry(t *testing.T) {
	for _, c := range []*host.Config{nil, {}} {
		if exporter, err := c.Telemetry(""); exporter != nil || err != nil {
			t.Errorf("got %v, %v, want none", exporter, err)
		}
	}
}

func TestParseTelemetry(t *testing.T) {
	env := environ(map[string]string{"URL": "https://collector.test", "KEY": "hunter2hunter2", "LINES": "hunter2\nhunter2"})
	const endpoint = `the endpoint is not like "http://localhost:4318"`
	for _, tt := range []struct {
		text string
		want *oteltrace.OTLPOptions
		errs []string // position, message
	}{
		{"{}", nil, nil},
		{`telemetry: {otlp: "http://localhost:4318"}`, &oteltrace.OTLPOptions{Endpoint: "http://localhost:4318"}, nil},
		{`telemetry: {otlp: "${URL}/v", content: true, headers: {Authorization: "Bearer ${KEY}", X-A: b}, service_name: s}`, &oteltrace.OTLPOptions{
			Endpoint: "https://collector.test/v", Content: true, Headers: map[string]string{"Authorization": "Bearer hunter2hunter2", "X-A": "b"}, Service: "s",
		}, nil},
		{`telemetry: {}`, nil, []string{`1:12 the key "otlp" is missing from "telemetry"`}},
		{`telemetry: on`, nil, []string{`1:12 "telemetry" must be a mapping, not a string`}},
		{"telemetry:\n  otpl: x\n  otlp: localhost:4318\n  content: 1\n  service_name: \"\"\n", nil, []string{
			`2:3 unknown key "otpl"`, "3:9 " + endpoint, `4:12 "content" must be a boolean, not an integer`, `5:17 "service_name" may not be empty`}},
		{`telemetry: {otlp: "${KEY}", headers: {x-api-key: hunter2, X Y: z, X-Z: "${LINES}", X-N: 1}}`, nil, []string{
			`1:19 ` + endpoint, `1:50 the secret "x-api-key" may not stand in the file`, `1:64 "X Y" is not the name of a header`,
			`1:89 "X-N" must be a string, not an integer`}},
	} {
		c, err := host.ParseConfig("b.yaml", []byte(tt.text), env)
		var got []string
		if list, ok := errors.AsType[*diagnostics.Error](err); ok {
			for _, d := range list.List {
				got = append(got, fmt.Sprintf("%d:%d %s", d.Position.Line, d.Position.Column, d.Message))
			}
		} else if diff := gocmp.Diff(tt.want, c.OTLP); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s", tt.text, diff)
		}
		if diff := gocmp.Diff(tt.errs, got); diff != "" {
			t.Errorf("%s\ndiagnostics (-want +got):\n%s", tt.text, diff)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2hunter2") {
			t.Errorf("the error holds a variable's value: %v", err)
		}
	}
}
