package serve

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/clock"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/worker"
)

// Metrics says what GET /metrics of a [Server] tells in the format of Prometheus, besides what the server knows itself.
// The zero Metrics adds nothing. docs/telemetry.md lists the names. No label is the id of a run, nor comes from inputs.
type Metrics struct {
	Notifier *worker.Notifier // of this process; nil: there is none, and nothing failed
	// Queues are more queues whose runs are counted. nil: only those of Server.Worker, and the queue of the server.
	Queues []string
	// More has further metrics, such as the registry of oteltrace.Prometheus. nil: there are none.
	More prometheus.Gatherer
}

// The limits of a scrape.
const (
	scrapeTime   = 2 * time.Second // for all questions to the store
	scrapePause  = 5 * time.Second // between questions to the store; until then the old answers count
	mostScrapes  = 4               // at a time
	mostCounted  = 10_000          // queued runs in a queue
	mostPauses   = 1000            // pending pauses of a kind
	unknownRoute = "other"
)

// requestBuckets are in seconds. Requests that wait for a run may take a minute.
var requestBuckets = []float64{0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60}

// meter measures the requests of an api and serves its metrics. A nil meter measures nothing.
type meter struct {
	http.Handler
	requests *prometheus.HistogramVec
}

// newMeter returns nil if the server has no metrics.
func newMeter(a *api) *meter {
	m := a.Metrics
	if m == nil {
		return nil
	}
	requests := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "braise_http_seconds",
		Help: "How long requests take, streams aside.", Buckets: requestBuckets}, []string{"route", "method", "status"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(requests, newStoreMetrics(a),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "braise_streams", Help: "Open streams of events."},
			func() float64 { return float64(len(a.room)) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "braise_worker_executions",
			Help: "Executions under way in this process."},
			func() float64 {
				if a.Worker == nil {
					return 0
				}
				return float64(a.Worker.State().Executions)
			}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "braise_notify_failed_total",
			Help: "Messages that were not accepted, each attempt counted."},
			func() float64 {
				if m.Notifier == nil {
					return 0
				}
				return float64(m.Notifier.Failed())
			}))
	all := prometheus.Gatherers{registry}
	if m.More != nil {
		all = append(all, m.More)
	}
	return &meter{requests: requests, Handler: promhttp.HandlerFor(all, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(a.logger().Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError, // the rest is still of use
		MaxRequestsInFlight: mostScrapes,
	})}
}

// measure begins to measure a request for a route, which is the pattern of the mux, or "". The request is answered by
// the writer that it returns; then done is called.
func (m *meter) measure(w http.ResponseWriter, pattern string) (measured http.ResponseWriter, done func()) {
	if m == nil {
		return w, func() {}
	}
	since, seen := time.Now(), &seenWriter{ResponseWriter: w}
	return seen, func() {
		if seen.status == 0 || seen.Header().Get("Content-Type") == "text/event-stream" {
			return // nobody waited for an answer any more, or a viewer looked on for as long as it liked
		}
		method, route := unknownRoute, unknownRoute // whatever else is asked for: anybody can make up names
		if pattern != "" {
			method, route, _ = strings.Cut(pattern, " ")
		}
		class := strconv.Itoa(seen.status/100) + "xx"
		m.requests.WithLabelValues(route, method, class).Observe(time.Since(since).Seconds())
	}
}

// seenWriter remembers the status.
type seenWriter struct {
	http.ResponseWriter
	status int // 0: nothing is written
}

// WriteHeader implements http.ResponseWriter.
func (s *seenWriter) WriteHeader(status int) {
	if s.status == 0 && status >= 200 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (s *seenWriter) Write(p []byte) (int, error) {
	s.status = cmp.Or(s.status, http.StatusOK)
	return s.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (s *seenWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// storeMetrics are about the runs of a store. It is a prometheus.Collector.
type storeMetrics struct {
	store  store
	clock  checkpoint.Store // that tells the time
	queues []string

	runs, oldest, pauses *prometheus.Desc

	mu    sync.Mutex
	asked time.Time // zero: never
	last  []prometheus.Metric
}

func newStoreMetrics(a *api) *storeMetrics {
	queues := append([]string{a.queue}, a.Metrics.Queues...)
	if w := a.Worker; w != nil {
		queues = append(queues, w.Queues...)
	}
	slices.Sort(queues)
	return &storeMetrics{store: a.store, clock: a.Store, queues: slices.Compact(queues),
		runs: prometheus.NewDesc("braise_queue_runs",
			"Queued runs, 10000 at most.", []string{"queue"}, nil),
		oldest: prometheus.NewDesc("braise_queue_oldest_seconds",
			"How long the oldest queued run has waited; 0 if there is none.", []string{"queue"}, nil),
		pauses: prometheus.NewDesc("braise_pauses_open",
			"Pauses without an answer, 1000 at most.", []string{"kind"}, nil)}
}

// Describe implements prometheus.Collector.
func (s *storeMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.runs, s.oldest, s.pauses} {
		to <- d
	}
}

// Collect implements prometheus.Collector. Scrapes at a time share the answers of the store, as those shortly after do.
func (s *storeMetrics) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.IsZero() || time.Since(s.asked) >= scrapePause {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
		defer cancel()
		s.last = s.ask(ctx)
		s.asked = time.Now()
	}
	for _, m := range s.last {
		to <- m
	}
}

// ask asks the store. What it does not say is an error in place of the metric.
func (s *storeMetrics) ask(ctx context.Context) (all []prometheus.Metric) {
	add := func(of *prometheus.Desc, v float64, label string, err error) {
		m := prometheus.NewInvalidMetric(of, err)
		if err == nil {
			m = prometheus.MustNewConstMetric(of, prometheus.GaugeValue, v, label)
		}
		all = append(all, m)
	}
	now, _ := clock.Of(ctx, s.clock)
	for _, queue := range s.queues {
		f := checkpoint.Filter{Phases: []checkpoint.Phase{checkpoint.PhaseQueued}, Queues: []string{queue}}
		n, err := s.store.Count(ctx, f, mostCounted)
		add(s.runs, float64(n[checkpoint.PhaseQueued]), queue, err)
		f.Oldest, f.Limit = true, 1
		first, err := s.store.List(ctx, f)
		age := 0.0
		if len(first) > 0 {
			age, err = max(0, now.Sub(first[0].StartedAt).Seconds()), nil // whatever is wrong with other runs
		}
		add(s.oldest, age, queue, err)
	}
	for _, kind := range []resume.Kind{resume.Human, resume.External, resume.System} {
		open, err := s.store.Pauses(ctx, checkpoint.PauseFilter{Kind: string(kind), Limit: mostPauses})
		if len(open) > 0 {
			err = nil // the same
		}
		add(s.pauses, float64(len(open)), string(kind), err)
	}
	return all
}
