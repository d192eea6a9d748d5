package serve_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/trace/oteltrace"
	"github.com/braise-run/braise/worker"
)

// A Prometheus server reads what an app's worker and API do, and how its runs went.
func ExampleMetrics() {
	dir, _ := os.MkdirTemp("", "braise")
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(context.Background(), filepath.Join(dir, "runs.db"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	runs, registry, err := oteltrace.Prometheus()
	if err != nil {
		fmt.Println(err)
		return
	}
	w := &worker.Worker{Queues: []string{"default"}, Runtime: &runtime.Runtime{Store: store, Trace: []trace.Sink{runs}}}
	server := &serve.Server{Store: store, Metrics: &serve.Metrics{More: registry}, Worker: w} // with its Access

	scrape := httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil)
	scrape.RemoteAddr = "127.0.0.1:50000" // no token is needed on this machine
	answer := httptest.NewRecorder()
	server.Handler().ServeHTTP(answer, scrape)
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			fmt.Print(line)
		}
	}
	// Output:
	// braise_notify_failed_total 0
	// braise_pauses_open{kind="external"} 0
	// braise_pauses_open{kind="human"} 0
	// braise_pauses_open{kind="system"} 0
	// braise_queue_oldest_seconds{queue="default"} 0
	// braise_queue_runs{queue="default"} 0
	// braise_streams 0
	// braise_worker_executions 0
}
