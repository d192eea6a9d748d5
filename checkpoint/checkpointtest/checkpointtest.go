// Package checkpointtest is the test suite that every [checkpoint.Store] must pass.
//
// No test waits for a lease to expire: a lease with a ttl of 0 has expired.
package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/checkpoint"
)

// Options let the suite reach behind a store. Each nil field leaves out what needs it.
type Options struct {
	// Reopen opens the medium of s a second time, as another process would, and closes that at
	// the test's end. nil: the store is not shared.
	Reopen func(t *testing.T, s checkpoint.Store) checkpoint.Store
	// Edit replaces the lines in which the records of a run are kept, in their order, by what edit
	// makes of them.
	Edit func(t *testing.T, s checkpoint.Store, runID string, edit func(lines []string) []string)
	// EditDefinition replaces the line in which a definition is kept.
	EditDefinition func(t *testing.T, s checkpoint.Store, digest string, edit func(line string) string)
	// EditDocument replaces the line in which a document is kept.
	EditDocument func(t *testing.T, s checkpoint.Store, collection, name string, edit func(line string) string)
	// EditSignal replaces the line in which a signal of a run is kept: the one with that id or, when there is none,
	// the second.
	EditSignal func(t *testing.T, s checkpoint.Store, runID, id string, edit func(line string) string)
	// Tear leaves the last write to a journal as a crash in the middle of it would; the store is a
	// checkpoint.Repairer then. nil: the medium does not let that happen.
	Tear func(t *testing.T, s checkpoint.Store, runID string)
	// Break makes writes fail until mend is called.
	Break func(t *testing.T, s checkpoint.Store) (mend func())
	// Cut makes the store lose its connection at the next thing that it sends: before that arrives, or, when answer is
	// true, before the answer does. The next connection works. nil: the store has no connection.
	Cut func(t *testing.T, s checkpoint.Store, answer bool)
	// EditLease replaces the lease of a run. nil: the leases are counted by a server's clock.
	EditLease func(t *testing.T, s checkpoint.Store, runID string, edit func(checkpoint.Lease) checkpoint.Lease)
	// Remembered returns of how many runs the store remembers where they end. nil: of none.
	Remembered func(s checkpoint.Store) int
	// Size returns how many bytes the medium takes.
	Size func(t *testing.T, s checkpoint.Store) int64
}

// Run tests the stores that open returns, each of them empty. The suite closes them.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Store, opts Options) {
	for _, tt := range []struct {
		name string
		test func(h *harness)
	}{
		{"create", testCreate},
		{"create refuses", testCreateRefuses},
		{"bytes stay as they are", testBytes},
		{"append", testAppend},
		{"append is atomic", testAtomic},
		{"appends at once", testAppendsAtOnce},
		{"runs at once", testRunsAtOnce},
		{"load what is new", testLoadAfter},
		{"definitions", testDefinitions},
		{"leases", testLeases},
		{"fences", testFences},
		{"owners that are gone", testGoneOwner},
		{"claims at once", testClaimsAtOnce},
		{"trust 6.1: a wall clock that is set", testWallClock},
		{"trust 6.1: leases of other clocks", testOtherClocks},
		{"trust 6.5: lost connections", testCut},
		{"trust 6.10: paused runs are forgotten", testForgets},
		{"pauses", testPauses},
		{"tokens", testTokens},
		{"answers at once", testAnswersAtOnce},
		{"answers by many owners", testAnswersByMany},
		{"list", testList},
		{"serve 2: filters", testFilter},
		{"serve 2: counts", testCount},
		{"serve 2: pages", testPages},
		{"data-sets 2: samples", testSample},
		{"serve 2: what runs say of themselves", testKept},
		{"serve 2: labels that nobody takes", testBadLabels},
		{"serve 2: inbox", testInbox},
		{"serve 2: damaged inbox", testDamagedInbox},
		{"serve 2: signals", testSignals},
		{"serve 2: signals that nobody takes", testSignalsRefused},
		{"serve 2: signals at once", testSignalsAtOnce},
		{"serve 2: damaged signal", testDamagedSignal},
		{"serve 14.2: answered pauses", testAnswered},
		{"serve 2: watch", testWatch},
		{"serve 2: the end of a watch", testWatchEnds},
		{"serve 2: a slow watcher", testSlowWatcher},
		{"delete", testDelete},
		{"prune", testPrune},
		{"contexts", testContexts},
		{"close", testClose},
		{"reopen", testReopen},
		{"two stores", testTwoStores},
		{"damage", testDamage},
		{"damaged definition", testDamagedDefinition},
		{"torn write", testTorn},
		{"broken medium", testBroken},
		{"growth", testGrowth},
		{"documents", testDocuments},
		{"collections", testCollections},
		{"odd documents", testOddDocuments},
		{"documents at once", testDocumentsAtOnce},
		{"documents stay", testDocumentsStay},
		{"damaged document", testDamagedDocument},
		{"swap", testSwap},
		{"swaps at once", testSwapsAtOnce},
		{"swaps cut", testSwapsCut},
		{"swaps refused", testSwapsRefused},
		{"broken medium of documents", testBrokenDocuments},
		{"files", testFiles},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, before) })
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			tt.test(&harness{T: t, ctx: t.Context(), s: s, opts: opts})
		})
	}
}

// harness is one test with its store.
type harness struct {
	*testing.T
	ctx  context.Context
	s    checkpoint.Store
	opts Options
}

// start is when the runs of the suite start.
var start = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

const (
	digest     = "sha256:0123456789abcdef"
	definition = `{"steps":[]}`
	long       = time.Hour // of a lease that does not run out in a test
)

// makeRun returns a run that starts some minutes after start.
func makeRun(id string, minutes int) checkpoint.Run {
	return checkpoint.Run{ID: id, Recipe: "greet", Digest: digest, Definition: []byte(definition),
		StartedAt: start.Add(time.Duration(minutes) * time.Minute)}
}

// rec returns a record that happened some seconds after start. data are names and values.
func rec(seconds int, kind checkpoint.Kind, path string, data ...any) checkpoint.Record {
	var m map[string]any
	for i := 0; i < len(data); i += 2 {
		if m == nil {
			m = map[string]any{}
		}
		if at, ok := data[i+1].(time.Time); ok {
			data[i+1] = at.UTC().Format(time.RFC3339Nano)
		}
		m[data[i].(string)] = data[i+1]
	}
	r, err := checkpoint.NewRecord(start.Add(time.Duration(seconds)*time.Second), kind, path, m)
	if err != nil {
		panic(err)
	}
	return r
}

// note returns an opaque record.
func note(text string) checkpoint.Record { return rec(1, "step.end", "greet", "text", text) }

// create begins a run with a lease that has run out already, but holds.
func (h *harness) create(id string, recs ...checkpoint.Record) checkpoint.Lease {
	h.Helper()
	l, err := h.s.Create(h.ctx, makeRun(id, 0), "first", 0, recs...)
	h.want("Create", err, nil)
	return l
}

func (h *harness) claim(id string, ttl time.Duration) checkpoint.Lease {
	h.Helper()
	l, err := h.s.Claim(h.ctx, id, "second", ttl)
	h.want("Claim", err, nil)
	return l
}

func (h *harness) append(l checkpoint.Lease, after int64, recs ...checkpoint.Record) {
	h.Helper()
	h.want("Append", h.s.Append(h.ctx, l, after, recs...), nil)
}

func (h *harness) load(id string) (checkpoint.Summary, []checkpoint.Record) {
	h.Helper()
	sum, recs, err := h.s.Load(h.ctx, id, 0)
	h.want("Load", err, nil)
	alone, _, err := h.s.Load(h.ctx, id, math.MaxInt64)
	h.want("Load", err, nil)
	h.same("summary alone", alone, sum)
	return sum, recs
}

// want stops the test unless err is the wanted one.
func (h *harness) want(what string, err, want error) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// same stops the test unless got is what was wanted.
func (h *harness) same(what string, got, want any) {
	h.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		h.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// shows stops the test unless a run's journal, its first record aside, is the given one; it also
// has to be numbered without a gap.
func (h *harness) shows(id string, want ...checkpoint.Record) {
	h.Helper()
	_, recs := h.load(id)
	var got []string
	for i, r := range recs {
		if r.Seq != int64(i+1) {
			h.Fatalf("record %d has seq %d", i+1, r.Seq)
		}
		if i > 0 {
			got = append(got, line(r))
		}
	}
	var lines []string
	for i, r := range want {
		r.Seq = int64(i + 2)
		lines = append(lines, line(r))
	}
	h.same("journal", got, lines)
}

// line is the record in a form that is easy to compare.
func line(r checkpoint.Record) string {
	return fmt.Sprintf("%d %s %s %s %s", r.Seq, r.At.Format(time.RFC3339Nano), r.Kind, r.Path, r.Data)
}

// atOnce calls f n times at the same time and returns the errors of those calls that failed.
func atOnce(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			errs[i] = f(i)
		})
	}
	close(begin)
	wg.Wait()
	var failed []error
	for _, err := range errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// oneWon stops the test unless all but one of n calls failed, with one of the wanted errors.
func (h *harness) oneWon(n int, failed []error, want ...error) {
	h.Helper()
	if len(failed) != n-1 {
		h.Fatalf("%d of %d calls succeeded, want 1; the others failed with %v", n-len(failed), n, failed)
	}
next:
	for _, err := range failed {
		for _, w := range want {
			if errors.Is(err, w) {
				continue next
			}
		}
		h.Fatalf("a call failed with %v, want one of %v", err, want)
	}
}
