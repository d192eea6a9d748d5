package oteltrace_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/braise-run/braise/trace/oteltrace"
)

func TestOTLPOptions(t *testing.T) {
	const endpoint = `otlp: the endpoint is not like "http://localhost:4318"`
	for _, tt := range []struct {
		opts oteltrace.OTLPOptions
		want string
	}{
		{oteltrace.OTLPOptions{Endpoint: "http://localhost:4318"}, ""},
		{oteltrace.OTLPOptions{Endpoint: "https://collector.test/base/", Headers: map[string]string{"X-Key": "a\tb ü"}}, ""},
		{oteltrace.OTLPOptions{}, endpoint},
		{oteltrace.OTLPOptions{Endpoint: "localhost:4318"}, endpoint},
		{oteltrace.OTLPOptions{Endpoint: "grpc://localhost:4317"}, endpoint},
		{oteltrace.OTLPOptions{Endpoint: "http://:4318"}, endpoint},
		{oteltrace.OTLPOptions{Endpoint: "http://me:hunter2@localhost"}, endpoint},
		{oteltrace.OTLPOptions{Endpoint: "http://localhost/?key=hunter2"}, endpoint},
		{oteltrace.OTLPOptions{Endpoint: "http://localhost/#a"}, endpoint},
		{oteltrace.OTLPOptions{Endpoint: "http://local host"}, endpoint},
		{oteltrace.OTLPOptions{Endpoint: "http://localhost", Headers: map[string]string{"X Key": "v"}}, `otlp: "X Key" is not the name of a header`},
		{oteltrace.OTLPOptions{Endpoint: "http://localhost", Headers: map[string]string{"X-Key": "hunter2\n"}}, `otlp: the value of the header "X-Key" cannot be sent`},
	} {
		got := ""
		if err := tt.opts.Validate(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.opts, got, tt.want)
		}
		if tt.want != "" {
			if e, err := oteltrace.OTLP(tt.opts); err == nil || e != nil {
				t.Errorf("%+v: OTLP takes it", tt.opts)
			}
		}
	}
}

// A collector that is missing, or refuses, is reported at the end, and nothing keeps running.
func TestOTLPFailing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "who are you?", http.StatusUnauthorized)
	}))
	defer refusing.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for url, want := range map[string]string{refusing.URL: "401", gone.URL: "refused"} {
		e, err := oteltrace.OTLP(oteltrace.OTLPOptions{Endpoint: url, Content: true})
		if err != nil {
			t.Fatal(err)
		}
		sink := e.ForRun("run-1")
		for _, ev := range triage {
			sink.Emit(ev)
		}
		if err := e.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Shutdown: %v, want an error with %q", err, want)
		}
	}
}

// A request that hangs is broken off.
func TestOTLPHanging(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // until then the server does not see that the client has gone
		cancel()
		<-r.Context().Done()
	}))
	defer hanging.Close() // waits for the handlers
	e, err := oteltrace.OTLP(oteltrace.OTLPOptions{Endpoint: hanging.URL})
	if err != nil {
		t.Fatal(err)
	}
	sink := e.ForRun("run-1")
	for _, ev := range triage {
		sink.Emit(ev)
	}
	if err := e.Shutdown(ctx); err == nil {
		t.Error("Shutdown says that all was sent")
	}
}

// A program without providers of its own sends to a collector.
func ExampleOTLP() {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	e, err := oteltrace.OTLP(oteltrace.OTLPOptions{Endpoint: collector.URL, Service: "triage"})
	if err != nil {
		fmt.Println(err)
		return
	}
	// rt := &runtime.Runtime{Trace: []trace.Sink{e}}, and some runs with it; then
	fmt.Println(e.Shutdown(context.Background()))
	// Output:
	// <nil>
}
