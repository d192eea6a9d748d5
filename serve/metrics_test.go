package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/trace/oteltrace"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// metered has a server's metrics.
func metered(m serve.Metrics) func(*serve.Server) {
	return func(s *serve.Server) { s.Metrics = &m }
}

// enqueue records a run that began some time ago.
func (l *lab) enqueue(id, queue string, ago time.Duration) {
	l.Helper()
	run := checkpoint.Run{ID: id, Recipe: "hello", Digest: "sha256:ab", StartedAt: time.Now().Add(-ago).UTC(), Queue: queue, Queued: true}
	if _, err := l.store.Create(l.Context(), run, "", 0); err != nil {
		l.Fatal(err)
	}
}

// samples are the numbers of a scrape, by name and labels; help and types are left out.
func samples(t testing.TB, text string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Errorf("not a sample: %q", line)
		}
		all[line[:i]] = v
	}
	return all
}

// scrape reads the metrics as a Prometheus server does.
func (l *lab) scrape() map[string]float64 {
	l.Helper()
	res := l.get("", "/metrics").is(200)
	if kind := res.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		l.Errorf("Content-Type is %q", kind)
	}
	return samples(l, res.text)
}

// some are the samples whose names begin so.
func some(all map[string]float64, names ...string) map[string]float64 {
	found := map[string]float64{}
	for name, v := range all {
		if slices.ContainsFunc(names, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			found[name] = v
		}
	}
	return found
}

// serve 7: what waits, by queue and kind. Three runs wait in a, the oldest for an hour; one in b, for a minute; none in the
// server's own queue; those of other queues are not told of.
func testMetricsOfTheStore(t *testing.T, l *lab) {
	l = labOf(t, l.store, func(s *serve.Server) {
		s.Metrics, s.Worker = &serve.Metrics{Queues: []string{"b", "a"}}, &worker.Worker{Queues: []string{"a", "default"}}
	})
	l.enqueue("a1", "a", time.Minute)
	l.enqueue("a2", "a", time.Hour)
	l.enqueue("a3", "a", time.Second)
	l.enqueue("b1", "b", time.Minute)
	l.enqueue("c1", "c", time.Hour)
	for range 2 {
		l.run(l.refund, map[string]any{"order": int64(1)})
	}
	all := l.scrape()
	want := map[string]float64{`braise_queue_runs{queue="a"}`: 3, `braise_queue_runs{queue="b"}`: 1, `braise_queue_runs{queue="default"}`: 0,
		`braise_queue_oldest_seconds{queue="default"}`: 0,
		`braise_pauses_open{kind="human"}`:             2, `braise_pauses_open{kind="external"}`: 0, `braise_pauses_open{kind="system"}`: 0,
		"braise_streams": 0, "braise_worker_executions": 0, "braise_notify_failed_total": 0}
	got := some(all, "braise_queue_runs", "braise_queue_oldest", "braise_pauses", "braise_streams", "braise_worker", "braise_notify")
	for queue, ago := range map[string]float64{"a": 3600, "b": 60} {
		name := fmt.Sprintf("braise_queue_oldest_seconds{queue=%q}", queue)
		if age := got[name]; age < ago || age > ago+30 {
			t.Errorf("%s is %v, want %v or a little more", name, age, ago)
		}
		delete(got, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got)\n%s", diff)
	}
}

// serve 7: requests by route, method and class of status. Names that a client makes up are no labels, and streams, which last as
// long as a viewer likes, are counted apart.
func TestMetricsOfRequests(t *testing.T) {
	l := newLab(t, metered(serve.Metrics{}))
	id := l.run(l.hello, map[string]any{"who": "ada"})
	l.get(reader, "/api/v1/runs").is(200)
	l.get(reader, "/api/v1/runs?limit=1").is(200)
	l.get(reader, "/api/v1/runs?canary=1").is(400)
	l.get("", "/api/v1/runs").is(401)
	l.get(reader, "/api/v1/runs/"+id+"/events").is(200)
	l.get(reader, "/canary").is(404)
	l.send("CANARY", "/api/v1/runs", request{}).is(405)
	l.post("", "/api/v1/login", `{"token": "`+strings.Repeat("a", 2<<20)+`"}`).is(413)
	waiting := l.run(l.refund, map[string]any{"order": int64(1)})
	v := l.watch(reader, "/api/v1/runs/"+waiting+"/events", nil)
	all := l.scrape()
	want := map[string]float64{
		`braise_http_seconds_count{method="GET",route="/api/v1/runs",status="2xx"}`:             2,
		`braise_http_seconds_count{method="GET",route="/api/v1/runs",status="4xx"}`:             2,
		`braise_http_seconds_count{method="GET",route="/api/v1/runs/{id}/events",status="2xx"}`: 1,
		`braise_http_seconds_count{method="POST",route="/api/v1/login",status="4xx"}`:           1,
		`braise_http_seconds_count{method="other",route="other",status="4xx"}`:                  2,
	}
	if diff := cmp.Diff(want, some(all, "braise_http_seconds_count")); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
	if n := all[`braise_http_seconds_bucket{method="GET",route="/api/v1/runs",status="2xx",le="60"}`]; n != 2 {
		t.Errorf("%v requests of up to a minute, want 2", n)
	}
	if n := all["braise_streams"]; n != 1 {
		t.Errorf("%v streams, want 1", n)
	}
	v.close()
	for deadline := time.Now().Add(10 * time.Second); l.scrape()["braise_streams"] != 0; {
		if time.Now().After(deadline) {
			t.Fatal("the stream is still counted")
		}
	}
}

// slow is a tool that works until it may end.
type slow struct{ begun, end chan struct{} }

func (slow) Spec() runtime.ToolSpec {
	return runtime.ToolSpec{Name: "demo.slow", Effect: runtime.ReadOnly}
}

func (s slow) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	close(s.begun)
	<-s.end
	return json.RawMessage(`"done"`), nil
}

// serve 7: what this process works on, what it could not send, and the runs' own metrics. No label has the id of a run, an
// input or a secret, whatever they are used for.
func TestMetricsOfAProcess(t *testing.T) {
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	defer refuse.Close()
	l := newLab(t, nil)
	exporter, registry, err := oteltrace.Prometheus()
	if err != nil {
		t.Fatal(err)
	}
	tool := slow{make(chan struct{}), make(chan struct{})}
	l.rt.Trace, l.rt.Tools = []trace.Sink{exporter}, []runtime.Tool{tool}
	l.rt.Secrets = runtime.SecretMap{"key": hidden}
	n := &worker.Notifier{Store: l.store, Targets: []worker.Target{{URL: refuse.URL, Secret: operator, On: []string{"paused"}}}}
	w := &worker.Worker{Runtime: l.rt, Queues: []string{"default"}}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { _ = w.Run(ctx) })
	l = labOf(t, l.store, func(s *serve.Server) {
		s.Metrics, s.Worker = &serve.Metrics{Notifier: n, More: registry}, w
	})

	busy := compile(t, `{apiVersion: braise/v1, name: busy, inputs: {who: string}, steps: {a: {uses: demo.slow}}}`)
	rt := runtime.Runtime{Store: l.store, Tools: []runtime.Tool{tool}, Secrets: runtime.SecretMap{"key": hidden}}
	id, err := busy.Enqueue(t.Context(), map[string]any{"who": "canary-input"}, &rt, &workflow.EnqueueOptions{Queue: "default",
		RunID: "canary-run", Labels: map[string]string{"canary-key": "canary-label"}, By: "canary-by"})
	if err != nil {
		t.Fatal(err)
	}
	<-tool.begun
	if got := l.scrape()["braise_worker_executions"]; got != 1 {
		t.Errorf("%v executions, want 1", got)
	}
	close(tool.end)
	l.until(func() bool {
		s, _, err := l.store.Load(t.Context(), id, 0)
		return err == nil && s.Status == checkpoint.OK
	})
	wrong := compile(t, `{apiVersion: braise/v1, name: wrong, inputs: {who: string}, steps: {
		each: {uses: set, foreach: {in: "${{ [inputs.who, inputs.who] }}"}, with: {v: "${{ item }}"}},
		echo: {uses: demo.echo, with: {Text: "${{ secrets.key }} ${{ inputs.who }}"}, on_error: continue},
		m: {uses: model, needs: [each], with: {model: "${{ inputs.who }}", prompt: hi}}}}`)
	out, _ := wrong.Run(t.Context(), map[string]any{"who": "canary-input"}, l.with(exporter))
	if out.Status != workflow.StatusError {
		t.Fatalf("it ended with %s", out.Status)
	}

	all.Go(func() { _ = n.Run(ctx) })
	l.run(l.refund, map[string]any{"order": int64(1)})
	for deadline := time.Now().Add(20 * time.Second); n.Failed() == 0; l.scrape() {
		if time.Now().After(deadline) {
			t.Fatal("no message failed")
		}
	}
	text := l.get("", "/metrics").is(200).text
	if got := samples(t, text); got["braise_notify_failed_total"] < 1 || got["braise_worker_executions"] != 0 ||
		got[`gen_ai_workflow_duration_seconds_count{braise_run_status="ok",gen_ai_workflow_name="busy"}`] != 1 ||
		got[`gen_ai_execute_tool_duration_seconds_count{error_type="tool.failed",gen_ai_operation_name="execute_tool",gen_ai_tool_name="demo.echo"}`] != 1 {
		t.Errorf("metrics %s", text)
	}
	for _, secret := range []string{"canary", hidden, operator, out.RunID} {
		if strings.Contains(text, secret) {
			t.Errorf("a scrape has %s:\n%s", secret, text)
		}
	}
}

// with returns the runtime with a sink, a secret and a tool that tells what it gets, and fails.
func (l *lab) with(sink trace.Sink) *runtime.Runtime {
	rt := *l.rt
	rt.Trace, rt.Secrets = []trace.Sink{sink}, runtime.SecretMap{"key": hidden}
	rt.Tools = []runtime.Tool{runtime.NewTool(runtime.ToolSpec{Name: "demo.echo"},
		func(_ context.Context, in struct{ Text string }) (string, error) { return in.Text, errors.New(in.Text) })}
	return &rt
}

// serve 5: metrics are for who may read, and for this machine.
func TestWhoMayReadMetrics(t *testing.T) {
	l := newLab(t, metered(serve.Metrics{}))
	forwarded := http.Header{"X-Forwarded-For": {"10.0.0.7"}}
	l.send("GET", "/metrics", request{}).is(200)
	l.send("GET", "/metrics", request{header: forwarded}).fails(401, "access.token", "log in")
	l.send("GET", "/metrics", request{header: forwarded, token: starter}).fails(403, "access.role", "read")
	l.send("GET", "/metrics", request{header: forwarded, token: reader}).is(200)
	res, err := http.Get(newLab(t, nil).http.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 404 {
		t.Errorf("a server without metrics: status %d, want 404", res.StatusCode)
	}
}

// asked counts the questions to a store, which may fail or hang.
type asked struct {
	*jsonl.Store
	counts atomic.Int64
	err    error
	hang   bool
}

func (a *asked) Count(ctx context.Context, f checkpoint.Filter, most int) (map[checkpoint.Phase]int, error) {
	a.counts.Add(1)
	if a.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.Store.Count(ctx, f, most)
}

// A store that takes long to count what is queued holds no start up for more than a second, and no other start at all.
func TestStartsDoNotWaitForACount(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	synctest.Test(t, func(t *testing.T) {
		store, err := jsonl.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		a := &asked{Store: store, hang: true}
		s := &serve.Server{Store: a, Runtime: &runtime.Runtime{}, MaxQueued: 1000, Logger: slog.New(slog.DiscardHandler),
			Access: serve.Access{Tokens: []serve.Token{{Name: "stella", Secret: starter, Roles: []serve.Role{serve.Start}}}}}
		wf := compile(t, hello)
		s.Recipes = func() []serve.Recipe { return []serve.Recipe{{Name: "hello", Workflow: wf}} }
		h := s.Handler()
		var starts sync.WaitGroup
		var mu sync.Mutex
		took := map[time.Duration]int{}
		begin := time.Now()
		for range 20 {
			starts.Go(func() {
				r := httptest.NewRequest("POST", "http://127.0.0.1/api/v1/recipes/hello/runs", strings.NewReader(`{"inputs": {"who": "Ada"}}`))
				r.Header.Set("Authorization", "Bearer "+starter)
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != http.StatusAccepted {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				mu.Lock()
				defer mu.Unlock()
				took[time.Since(begin)]++
			})
		}
		starts.Wait()
		if took[0] != 19 || took[time.Second] != 1 || a.counts.Load() != 1 {
			t.Errorf("how long starts took: %v, with %d counts", took, a.counts.Load())
		}
	})
}

// bubble serves a store without a network, for synctest.
func bubble(t *testing.T, a *asked) (h http.Handler, scrape func() map[string]float64, log *strings.Builder) {
	t.Helper()
	log = &strings.Builder{}
	h = (&serve.Server{Store: a, Metrics: &serve.Metrics{}, Logger: slog.New(slog.NewTextHandler(log, nil))}).Handler()
	return h, func() map[string]float64 {
		r := httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil)
		r.RemoteAddr = "127.0.0.1:4711"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		text, _ := io.ReadAll(w.Body)
		if w.Code != 200 || strings.Contains(string(text), "dsn-canary") {
			t.Errorf("%d %s", w.Code, text)
		}
		return samples(t, string(text))
	}, log
}

// Scrapes ask the store every 5 seconds at most, also if many come at once.
func TestScrapesAreCheap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	synctest.Test(t, func(t *testing.T) {
		store, err := jsonl.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		a := &asked{Store: store}
		_, scrape, _ := bubble(t, a)
		l := &lab{TB: t, store: store}
		l.enqueue("r1", "default", 0)
		const runs, oldest = `braise_queue_runs{queue="default"}`, `braise_queue_oldest_seconds{queue="default"}`
		check := func(wantRuns, wantAge float64, questions int64) {
			t.Helper()
			if got := scrape(); got[runs] != wantRuns || got[oldest] != wantAge || a.counts.Load() != questions {
				t.Errorf("%v runs, the oldest of %v s, by %d questions; want %v, %v, %d", got[runs], got[oldest], a.counts.Load(), wantRuns, wantAge, questions)
			}
		}
		time.Sleep(10 * time.Second)
		check(1, 10, 1)
		l.enqueue("r2", "default", 0)
		time.Sleep(5*time.Second - 1)
		check(1, 10, 1)
		time.Sleep(time.Nanosecond)
		var scrapes sync.WaitGroup
		for range 4 {
			scrapes.Go(func() { check(2, 15, 2) })
		}
		scrapes.Wait()
	})
}

// A store that fails, or does not answer within 2 seconds, costs its own metrics only. The log says why, the scrape does not.
func TestScrapesOfAStoreThatFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		hang bool
		want string
		took time.Duration
	}{
		{"fails", errors.New("no route to dsn-canary"), false, "no route to dsn-canary", 0},
		{"hangs", nil, true, "context deadline exceeded", 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "runs")
			synctest.Test(t, func(t *testing.T) {
				store, err := jsonl.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				_, scrape, log := bubble(t, &asked{Store: store, err: tt.err, hang: tt.hang})
				since := time.Now()
				got := scrape()
				if took := time.Since(since); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				if _, ok := got["braise_streams"]; !ok || len(some(got, "braise_queue_runs")) != 0 {
					t.Errorf("metrics %v", got)
				}
				if !strings.Contains(log.String(), tt.want) {
					t.Errorf("the log lacks %q: %s", tt.want, log)
				}
				if scrape(); time.Since(since) != tt.took {
					t.Error("the store was asked again at once")
				}
			})
		})
	}
}
