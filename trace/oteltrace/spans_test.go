package oteltrace_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	api "go.opentelemetry.io/otel/trace"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// asksOnce is a model that calls a tool of a Go program once.
type asksOnce struct{ *testing.T }

func (m asksOnce) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	if trace.Traceparent(ctx) == "" {
		m.Error("a call of a model has no span in its context")
	}
	if len(req.Messages) > 2 {
		return &runtime.Response{Text: "done"}, nil
	}
	return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: "1", Name: "app.look", Arguments: []byte(`{}`)}}}, nil
}

// What a tool does with its context is in the span of the call, and http.request tells the server of it, unless the recipe has a
// header of its own.
func TestSpansInCalls(t *testing.T) {
	l := newLab(t, false)
	var mu sync.Mutex
	got := map[string]string{} // traceparent by path
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path] = r.Header.Get("Traceparent")
		_, _ = io.WriteString(w, "ok")
	}))
	defer server.Close()
	r, err := recipe.Parse("spans.yaml", fmt.Appendf(nil, `apiVersion: braise/v1
name: spans
agents: {looker: {model: m, tools: [app.look]}}
steps:
  go: {uses: agent, with: {agent: looker, prompt: go}}
  look: {uses: app.look, foreach: {in: [1, 2]}, with: {}}
  get: {uses: http.request, with: {url: %[1]q}}
  mine: {uses: http.request, with: {url: %[2]q, headers: {traceparent: mine}}}
`, server.URL+"/get", server.URL+"/mine"))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	look := runtime.NewTool(runtime.ToolSpec{Name: "app.look", Effect: runtime.ReadOnly}, func(ctx context.Context, _ struct{}) (string, error) {
		_, span := l.provider.Tracer("app").Start(ctx, "child")
		span.End()
		if want := api.SpanContextFromContext(ctx).SpanID().String(); !strings.Contains(trace.Traceparent(ctx), want) {
			t.Errorf("traceparent %q of span %s", trace.Traceparent(ctx), want)
		}
		return "seen", nil
	})
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": asksOnce{t}}, Trace: []trace.Sink{l.Exporter},
		Tools: []runtime.Tool{look, builtin.HTTPRequest(builtin.HTTPOptions{AllowPrivate: true})}}
	if _, err := wf.Run(t.Context(), nil, rt); err != nil {
		t.Fatal(err)
	}

	names, parents := map[api.SpanID]string{}, map[string]string{}
	for _, s := range l.spans.GetSpans() {
		names[s.SpanContext.SpanID()] = s.Name
	}
	children := 0
	for _, s := range l.spans.GetSpans() {
		if s.Name == "child" {
			children++
			if parent := names[s.Parent.SpanID()]; parent != "execute_tool app.look" {
				t.Errorf("a span of a tool is in %q", parent)
			}
		}
		if s.Name == "execute_tool http.request" {
			parents[names[s.Parent.SpanID()]] = fmt.Sprintf("00-%s-%s-01", s.SpanContext.TraceID(), s.SpanContext.SpanID())
		}
	}
	if children != 3 {
		t.Errorf("%d spans of tools, want 3", children)
	}
	if diff := gocmp.Diff(map[string]string{"/get": parents["step get"], "/mine": "mine"}, got); diff != "" {
		t.Errorf("traceparents (-want +got):\n%s", diff)
	}
}
