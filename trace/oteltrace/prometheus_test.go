package oteltrace_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/trace/oteltrace"
)

// scraped is an exporter that a Prometheus server reads.
type scraped struct {
	testing.TB
	lab
	url string
}

func newScraped(t *testing.T) scraped {
	t.Helper()
	e, registry, err := oteltrace.Prometheus()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return scraped{t, lab{Exporter: e}, server.URL}
}

// text returns the lines of a scrape, those about buckets aside.
func (s scraped) text() (all string, short []string) {
	s.Helper()
	res, err := http.Get(s.url)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		s.Fatalf("%d %v %s", res.StatusCode, err, text)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		if !strings.Contains(line, "_bucket{") && !strings.HasPrefix(line, "# HELP") {
			short = append(short, line)
		}
	}
	return string(text), short
}

// serve 7: the metrics of runs in the names of Prometheus, and buckets in seconds.
func TestPrometheus(t *testing.T) {
	s := newScraped(t)
	s.run("run-1", triage...)
	all, got := s.text()
	const model = `gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="gpt-5-mini",gen_ai_response_model="gpt-5-mini-2026"`
	step := func(path, status, failed, seconds string) []string {
		labels := fmt.Sprintf(`{braise_step_path=%q,braise_step_status=%q%s,gen_ai_workflow_name="triage"}`, path, status, failed)
		return []string{"braise_step_duration_seconds_sum" + labels + " " + seconds, "braise_step_duration_seconds_count" + labels + " 1"}
	}
	const failed = `,error_type="tool.failed"`
	var want []string
	want = append(want, "# TYPE braise_step_duration_seconds histogram")
	want = append(want, step("sort", "succeeded", "", "0.203")...)
	want = append(want, step("verify", "failed", failed, "0.105")...)
	want = append(want, step("verify[]", "failed", failed, "0.103")...)
	want = append(want, step("verify[]", "succeeded", "", "0.053")...)
	want = append(want, step("verify[]/check", "failed", failed, "0.101")...)
	want = append(want, step("verify[]/check", "succeeded", "", "0.051")...)
	want = append(want,
		"# TYPE gen_ai_client_operation_duration_seconds histogram",
		"gen_ai_client_operation_duration_seconds_sum{"+model+"} 0.2",
		"gen_ai_client_operation_duration_seconds_count{"+model+"} 2",
		"# TYPE gen_ai_client_token_usage histogram",
		"gen_ai_client_token_usage_sum{"+model+`,gen_ai_token_type="input"} 250`,
		"gen_ai_client_token_usage_count{"+model+`,gen_ai_token_type="input"} 2`,
		"gen_ai_client_token_usage_sum{"+model+`,gen_ai_token_type="output"} 50`,
		"gen_ai_client_token_usage_count{"+model+`,gen_ai_token_type="output"} 2`,
		"# TYPE gen_ai_execute_tool_duration_seconds histogram",
		`gen_ai_execute_tool_duration_seconds_sum{error_type="tool.failed",gen_ai_operation_name="execute_tool",gen_ai_tool_name="kb.search"} 0.1`,
		`gen_ai_execute_tool_duration_seconds_count{error_type="tool.failed",gen_ai_operation_name="execute_tool",gen_ai_tool_name="kb.search"} 1`,
		`gen_ai_execute_tool_duration_seconds_sum{gen_ai_operation_name="execute_tool",gen_ai_tool_name="kb.search"} 0.05`,
		`gen_ai_execute_tool_duration_seconds_count{gen_ai_operation_name="execute_tool",gen_ai_tool_name="kb.search"} 1`,
		"# TYPE gen_ai_workflow_duration_seconds histogram",
		`gen_ai_workflow_duration_seconds_sum{braise_run_status="error",error_type="tool.failed",gen_ai_workflow_name="triage"} 0.312`,
		`gen_ai_workflow_duration_seconds_count{braise_run_status="error",error_type="tool.failed",gen_ai_workflow_name="triage"} 1`)
	slices.Sort(want)
	slices.Sort(got)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got)\n%s", diff)
	}
	for _, want := range []string{ // 0.312 s is within the first bucket of runs
		`gen_ai_workflow_duration_seconds_bucket{braise_run_status="error",error_type="tool.failed",gen_ai_workflow_name="triage",le="1"} 1`,
		`gen_ai_execute_tool_duration_seconds_bucket{gen_ai_operation_name="execute_tool",gen_ai_tool_name="kb.search",le="0.04"} 0`,
		`gen_ai_execute_tool_duration_seconds_bucket{gen_ai_operation_name="execute_tool",gen_ai_tool_name="kb.search",le="0.08"} 1`,
	} {
		if !strings.Contains(all, want+"\n") {
			t.Errorf("it lacks %s", want)
		}
	}
}

// serve 7: neither the id of a run nor what a model makes up is a label: tools that there are not have one name.
func TestPrometheusLabels(t *testing.T) {
	s := newScraped(t)
	for i := range 3 {
		made := fmt.Sprintf("canary-%d", i)
		s.run("canary-run",
			event(0, trace.RunStart, "", "recipe", "desk", "digest", "d"),
			event(1, trace.StepStart, "ask"),
			event(2, trace.AgentStart, "ask", "agent", "clerk", "depth", int64(0), "model", "fast"),
			event(3, trace.ToolStart, "ask", "call", int64(1), "content", map[string]any{"q": "canary-argument"}, "tool", made),
			event(4, trace.ToolEnd, "ask", "call", int64(1), "error", "tool.unknown", "tool", made),
			event(5, trace.ToolStart, "ask", "call", int64(2), "tool", made+"-more"),
			event(6, trace.ToolEnd, "ask", "call", int64(2), "error", "tool.limit", "tool", made+"-more"),
			event(7, trace.AgentEnd, "ask", "stopReason", "answer"),
			event(8, trace.StepEnd, "ask", "status", "succeeded"),
			event(9, trace.RunEnd, "", "status", "ok"))
	}
	all, got := s.text()
	if strings.Contains(all, "canary") {
		t.Errorf("a label was made up:\n%s", all)
	}
	for _, code := range []string{"tool.unknown", "tool.limit"} {
		want := fmt.Sprintf(`gen_ai_execute_tool_duration_seconds_count{error_type=%q,gen_ai_operation_name="execute_tool",gen_ai_tool_name="_OTHER"} 3`, code)
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("it lacks %s\n%s", want, strings.Join(got, "\n"))
		}
	}
}

// A provider that calls its model something else in each answer fills no memory.
func TestPrometheusBounds(t *testing.T) {
	s := newScraped(t)
	for i := range 2500 {
		s.run("run-1",
			event(0, trace.RunStart, "", "recipe", "desk", "digest", "d"),
			event(1, trace.StepStart, "ask"),
			event(2, trace.AdapterCall, "ask", "kind", "model", "name", "fast"),
			event(3, trace.ModelEnd, "ask", "model", fmt.Sprint("model-", i)),
			event(4, trace.RunEnd, "", "status", "ok"))
	}
	all, _ := s.text()
	if n := strings.Count(all, "gen_ai_client_operation_duration_seconds_count{"); n != 2000 {
		t.Errorf("%d combinations of labels, want 2000", n)
	}
	if want := `gen_ai_client_operation_duration_seconds_count{otel_metric_overflow="true"} 501`; !strings.Contains(all, want) {
		t.Errorf("it lacks %s", want)
	}
}
