package command

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	tracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipes"
)

// shipped writes a shipped recipe into a new folder, with a store and more lines in its braise.yaml, and returns the
// arguments that run it.
func shipped(t *testing.T, name, config string) []string {
	t.Helper()
	files, err := fs.Sub(recipes.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "braise.yaml")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config += fmt.Sprintf("\nstore: %q\n", "sqlite:"+filepath.Join(dir, "runs.db"))
	if err := os.WriteFile(path, append(old, config...), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"run", filepath.Join(dir, "recipe.yaml"), "--config", path}
}

// result is how a command line ended.
type result struct {
	Code   int
	Stdout string
}

// command runs a command line in this process.
func command(args ...string) (got result, stderr string) {
	var stdout, said bytes.Buffer
	code, err := (&app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &said}).execute(args)
	if err != nil {
		fmt.Fprintln(&said, err)
	}
	return result{code, stdout.String()}, said.String()
}

// spans are what a collector was sent.
type spans struct {
	mutex sync.Mutex
	list  []*tracepb.Span
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/traces" {
		return
	}
	var req tracev1.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, &req)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest) // which the command tells of
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, rs := range req.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			s.list = append(s.list, ss.Spans...)
		}
	}
}

// tree draws the spans below a parent: name, kind and the attributes that are asked for. Siblings
// are sorted, as their times may be equal.
func (s *spans) tree(parent []byte, indent string, attributes ...string) string {
	var branches []string
	for _, span := range s.list {
		if !bytes.Equal(span.ParentSpanId, parent) {
			continue
		}
		line := indent + span.Name + " " + strings.ToLower(strings.TrimPrefix(span.Kind.String(), "SPAN_KIND_"))
		for _, name := range attributes {
			for _, kv := range span.Attributes {
				if kv.Key == name {
					line += fmt.Sprintf(" %s=%s", name, kv.Value.GetStringValue())
				}
			}
		}
		branches = append(branches, line+"\n"+s.tree(span.SpanId, indent+"  ", attributes...))
	}
	slices.Sort(branches)
	return strings.Join(branches, "")
}

// A run of a shipped recipe is at the collector when the command ends, as one trace, and what the
// ticket says is not in it.
func TestTelemetryOfARun(t *testing.T) {
	var got spans
	srv := httptest.NewServer(&got)
	defer srv.Close()
	end, stderr := command(shipped(t, "triage", "telemetry: {otlp: "+srv.URL+"}\n")...)
	if end.Code != host.ExitOK || strings.Contains(stderr, "telemetry") {
		t.Fatalf("exit %d\n%s", end.Code, stderr)
	}
	got.mutex.Lock()
	defer got.mutex.Unlock()
	const want = `invoke_workflow triage internal gen_ai.operation.name=invoke_workflow gen_ai.workflow.name=triage
  step article internal braise.step.path=article
    execute_tool file.read internal gen_ai.operation.name=execute_tool gen_ai.tool.name=file.read braise.step.path=article
  step classify internal braise.step.path=classify
    chat fast client gen_ai.operation.name=chat gen_ai.request.model=fast gen_ai.provider.name=unknown braise.step.path=classify
  step draft internal braise.step.path=draft
    chat fast client gen_ai.operation.name=chat gen_ai.request.model=fast gen_ai.provider.name=unknown braise.step.path=draft
  step file internal braise.step.path=file
    execute_tool file.read internal gen_ai.operation.name=execute_tool gen_ai.tool.name=file.read braise.step.path=file
  step objections internal braise.step.path=objections
  step text internal braise.step.path=text
`
	tree := got.tree(nil, "", "gen_ai.operation.name", "gen_ai.workflow.name", "gen_ai.request.model", "gen_ai.provider.name", "gen_ai.tool.name", "braise.step.path")
	if diff := cmp.Diff(want, tree); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, span := range got.list {
		if !bytes.Equal(span.TraceId, got.list[0].TraceId) {
			t.Errorf("%s is of another trace", span.Name)
		}
		if text := span.String(); strings.Contains(text, "charged") || strings.Contains(text, "tickets/") {
			t.Errorf("content is sent: %s", text)
		}
	}
}

// A collector that is down, or takes forever, changes neither result nor exit code; one line says so.
func TestTelemetryWithoutACollector(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	over := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "line one\nline two\n"+strings.Repeat("x", 100_000), http.StatusUnauthorized)
	}))
	t.Cleanup(func() { // after the subtests
		close(over)
		hanging.Close()
		refusing.Close()
	})
	for _, tt := range []struct {
		name, url, says string
	}{
		{"down", gone.URL, "connection refused"},
		{"hangs", hanging.URL, "context canceled"},
		{"refuses", refusing.URL, "401 Unauthorized"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, flags := range [][]string{{}, {"--input", "ticket_id=T-9999"}, {"--quiet"}} { // the second run fails
				want, before := command(slices.Concat(shipped(t, "triage", ""), flags)...)
				got, after := command(slices.Concat(shipped(t, "triage", "telemetry: {otlp: "+tt.url+"}\n"), flags)...)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%q (-without telemetry +with):\n%s", flags, diff)
				}
				lines := 1
				if slices.Contains(flags, "--quiet") {
					lines = 0
				}
				if n := strings.Count(after, "\n") - strings.Count(before, "\n"); n != lines || strings.Count(after, "braise: warning: telemetry: ") != lines {
					t.Errorf("%q: %d more lines on stderr, want %d about telemetry:\n%s", flags, n, lines, after)
				}
				if lines == 1 && !strings.Contains(after, tt.says) {
					t.Errorf("%q: stderr lacks %q:\n%s", flags, tt.says, after)
				}
			}
		})
	}
}
