package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// badStore misbehaves in one of its methods.
type badStore struct {
	badPort
	good *checkpoint.Memory
	hits atomic.Int64
}

func (s *badStore) in(method string) {
	if method == s.on {
		s.hits.Add(1)
		s.be()
	}
}

func (s *badStore) Create(ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record) (checkpoint.Lease, error) {
	s.in("Create")
	return s.good.Create(ctx, run, owner, ttl, recs...)
}
func (s *badStore) Claim(ctx context.Context, runID, owner string, ttl time.Duration) (checkpoint.Lease, error) {
	s.in("Claim")
	return s.good.Claim(ctx, runID, owner, ttl)
}
func (s *badStore) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	s.in("Renew")
	return s.good.Renew(ctx, l, ttl)
}
func (s *badStore) Release(ctx context.Context, l checkpoint.Lease) error {
	s.in("Release")
	return s.good.Release(ctx, l)
}
func (s *badStore) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	s.in("Append")
	return s.good.Append(ctx, l, after, recs...)
}
func (s *badStore) AnswerPause(ctx context.Context, l checkpoint.Lease, after int64, hash []byte, recs ...checkpoint.Record) error {
	s.in("AnswerPause")
	return s.good.AnswerPause(ctx, l, after, hash, recs...)
}
func (s *badStore) FindPause(ctx context.Context, runID string, hash []byte) (checkpoint.PauseInfo, error) {
	s.in("FindPause")
	return s.good.FindPause(ctx, runID, hash)
}
func (s *badStore) Load(ctx context.Context, runID string, from int64) (checkpoint.Summary, []checkpoint.Record, error) {
	s.in("Load")
	return s.good.Load(ctx, runID, from)
}
func (s *badStore) Definition(ctx context.Context, digest string) (json.RawMessage, error) {
	s.in("Definition")
	return s.good.Definition(ctx, digest)
}
func (s *badStore) List(ctx context.Context, f checkpoint.Filter) ([]checkpoint.Summary, error) {
	s.in("List")
	return s.good.List(ctx, f)
}
func (s *badStore) PutSignal(ctx context.Context, runID string, signal checkpoint.Signal) error {
	s.in("PutSignal")
	return s.good.PutSignal(ctx, runID, signal)
}
func (s *badStore) Signals(ctx context.Context, runID string, open bool) ([]checkpoint.Signal, error) {
	s.in("Signals")
	return s.good.Signals(ctx, runID, open)
}
func (s *badStore) EndSignals(ctx context.Context, l checkpoint.Lease, ids ...string) error {
	s.in("EndSignals")
	return s.good.EndSignals(ctx, l, ids...)
}
func (s *badStore) Now(ctx context.Context) (time.Time, error) {
	s.in("Now")
	return time.Now(), nil
}

// trust 8.13: whatever any method of a store does, each way to execute a run returns, with the caller's context or after a
// minute, and what could not be done is an error.
func TestStoresAreGuarded(t *testing.T) {
	legs := []struct {
		name, uses string // the methods that it calls; of those with "?" it survives a failure
		leg        func(ctx context.Context, wf *workflow.Workflow, out *workflow.Outcome, rt *runtime.Runtime) error
	}{
		{"run", "Create Signals? Now?", func(ctx context.Context, wf *workflow.Workflow, _ *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := wf.Run(ctx, nil, rt)
			return err
		}},
		{"resume", "FindPause Load Claim Definition AnswerPause Append Release? Signals Now?", func(ctx context.Context, _ *workflow.Workflow, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Resume(ctx, out.Token, runtest.Yes, rt, nil)
			return err
		}},
		{"answer", "Load Claim Definition Append Release? Signals Now?", func(ctx context.Context, _ *workflow.Workflow, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Answer(ctx, out.RunID, "ask", runtest.Yes, rt, nil)
			return err
		}},
		{"recover", "Load Claim Definition Append Release? Signals Now?", func(ctx context.Context, _ *workflow.Workflow, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Recover(ctx, out.RunID, rt, nil)
			return err
		}},
		{"send", "Load Claim Definition Append Release? Signals Now?", func(ctx context.Context, _ *workflow.Workflow, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Send(ctx, out.RunID, "news", 1, rt, nil)
			return err
		}},
		{"cancel", "Load Claim Definition Append Release? Signals Now?", func(ctx context.Context, _ *workflow.Workflow, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Cancel(ctx, out.RunID, "", rt, nil)
			return err
		}},
		{"fork", "Load Definition Create Append Release? Signals? Now?", func(ctx context.Context, _ *workflow.Workflow, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Fork(ctx, out.RunID, "ask", workflow.Edits{}, rt, nil)
			return err
		}},
		{"sweep", "List Now?", func(ctx context.Context, _ *workflow.Workflow, _ *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Sweep(ctx, rt, nil)
			return err
		}},
	}
	for _, tt := range legs {
		for _, method := range []string{"Create", "Claim", "Renew", "Release", "Append", "AnswerPause", "FindPause", "Load", "Definition", "List",
			"PutSignal", "Signals", "EndSignals", "Now"} {
			for _, how := range []string{"panics", "ends", "hangs"} {
				t.Run(tt.name+" "+method+" "+how, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						good := &checkpoint.Memory{}
						rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": runtimetest.Texts("x", "x", "x")}, Store: good, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
						wf := runtest.Load(t, []byte(runtest.Head+`channels: {news: queue}
steps:
  say: {uses: model, with: {model: m, prompt: hi}}
  ask: {uses: human, needs: [say], with: {prompt: Go on}}
  got: {uses: receive, needs: [ask], with: {channel: news}}
`))
						out, err := wf.Run(t.Context(), nil, rt)
						if err != nil {
							t.Fatal(err)
						}
						bad := &badStore{badPort: badPort{how: how, on: method, release: make(chan struct{})}, good: good}
						defer close(bad.release)
						rt.Store = bad
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						returned := false
						began := time.Now()
						over := make(chan struct{})
						go func() {
							defer close(over)
							err = tt.leg(ctx, wf, out, rt)
							returned = true
						}()
						<-over
						took := time.Since(began)
						must := slices.Contains(strings.Fields(tt.uses), method)
						uses := must || slices.Contains(strings.Fields(tt.uses), method+"?")
						switch hits := bad.hits.Load(); {
						case !returned:
							t.Error("it ended the goroutine of its caller")
						case took > 5*time.Minute:
							t.Errorf("it took %s", took)
						case uses != (hits > 0):
							t.Errorf("%d calls of the method, want some: %t", hits, uses)
						case must && err == nil:
							t.Error("no error")
						}
					})
				})
			}
		}
	}
}

// hangingCache is a cache that hangs in one of its methods, whatever its context says.
type hangingCache struct {
	checkpoint.Cache
	in      string
	release chan struct{}
}

func (c *hangingCache) at(method string) {
	if method == c.in {
		<-c.release
	}
}
func (c *hangingCache) Get(ctx context.Context, key string) ([]byte, bool, error) {
	c.at("Get")
	return c.Cache.Get(ctx, key)
}
func (c *hangingCache) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	c.at("Set")
	return c.Cache.Set(ctx, key, val, ttl)
}
func (c *hangingCache) Delete(ctx context.Context, key string) (bool, error) {
	c.at("Delete")
	return c.Cache.Delete(ctx, key)
}

// A store or a cache that hangs ends an execution with an error that says so, after a minute, also if the caller's context
// has no end.
func TestHangingStoreEndsAnExecution(t *testing.T) {
	for _, tt := range []struct {
		leg, method string
		cache       bool
	}{
		{"run", "Create", false},
		{"resume", "FindPause", false},
		{"resume", "Load", false},
		{"resume", "Claim", false},
		{"resume", "Definition", false},
		{"resume", "AnswerPause", false},
		{"resume", "Append", false},
		{"run", "Set", true},
		{"resume", "Get", true},
		{"resume", "Set", true},
		{"resume", "Delete", true},
	} {
		t.Run(tt.leg+" "+tt.method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				good, kept := &checkpoint.Memory{}, &checkpoint.MemoryCache{}
				rt := &runtime.Runtime{Store: good, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
				if tt.cache {
					rt.Store, rt.Cache = nil, kept
				}
				wf := runtest.Load(t, []byte(runtest.Head+`steps:
  ask: {uses: human, with: {prompt: Go on}}
  more: {uses: human, needs: [ask], with: {prompt: And on}}
`))
				out, err := wf.Run(t.Context(), nil, rt)
				if err != nil {
					t.Fatal(err)
				}
				release := make(chan struct{})
				defer synctest.Wait()
				defer close(release)
				if tt.cache {
					rt.Cache = &hangingCache{kept, tt.method, release}
				} else {
					rt.Store = &badStore{badPort: badPort{how: "hangs", on: tt.method, release: release}, good: good}
				}
				began := time.Now()
				if tt.leg == "run" {
					_, err = wf.Run(t.Context(), nil, rt)
				} else {
					_, err = workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, nil)
				}
				if took := time.Since(began); took < time.Minute || took > 3*time.Minute {
					t.Errorf("it took %v", took)
				}
				if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != "store.failed" ||
					!strings.Contains(err.Error(), "ignored its context and was left behind") {
					t.Error(err)
				}
			})
		})
	}
}
