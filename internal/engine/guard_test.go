package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// badPort misbehaves in one way wherever it is called: "panics", "ends" its goroutine, or "hangs".
type badPort struct {
	how string
	checkpoint.Store
	on      string        // the method of the store that does; "": all others
	release chan struct{} // ends what hangs
}

func (p *badPort) be() {
	switch p.how {
	case "panics":
		panic("boom")
	case "ends":
		goruntime.Goexit()
	case "hangs":
		<-p.release
	}
}

func (p *badPort) Waiting(context.Context, string, string) ([]runtime.Note, error) {
	p.be()
	return nil, nil
}
func (p *badPort) Taken(context.Context, string, string, ...string) error { p.be(); return nil }
func (p *badPort) Approve(context.Context, runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
	p.be()
	return runtime.ApprovalDecision{Allow: true}, nil
}
func (p *badPort) Resolve(context.Context, resume.Request) (any, error) { p.be(); return nil, nil }
func (p *badPort) Secret(context.Context, string) (string, error)       { p.be(); return "", nil }
func (p *badPort) Warn(string, ...slog.Attr)                            { p.be() }
func (p *badPort) Put(context.Context, string, string) error            { p.be(); return nil }
func (p *badPort) Get(context.Context, string) (_ string, _ bool, _ error) {
	p.be()
	return "", false, nil
}
func (p *badPort) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	if p.on == "append" {
		p.be()
	}
	return p.Store.Append(ctx, l, after, recs...)
}
func (p *badPort) Create(ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record) (checkpoint.Lease, error) {
	if p.on == "create" {
		p.be()
	}
	return p.Store.Create(ctx, run, owner, ttl, recs...)
}
func (p *badPort) Load(ctx context.Context, runID string, from int64) (checkpoint.Summary, []checkpoint.Record, error) {
	if p.on == "load" {
		p.be()
	}
	return p.Store.Load(ctx, runID, from)
}
func (p *badPort) FindPause(ctx context.Context, runID string, hash []byte) (checkpoint.PauseInfo, error) {
	if p.on == "load" {
		p.be()
	}
	return p.Store.FindPause(ctx, runID, hash)
}
func (p *badPort) List(ctx context.Context, f checkpoint.Filter) ([]checkpoint.Summary, error) {
	if p.on == "load" {
		p.be()
	}
	return p.Store.List(ctx, f)
}

var _ agentloop.Archive = (*badPort)(nil)

// trust 1.11: whatever a port of a run does, the run has an outcome, with the port's own code.
func TestRunsAreGuardedFromPorts(t *testing.T) {
	for _, tt := range []struct {
		port string
		rt   func(*runtime.Runtime, *badPort)
		code map[string]string // by how the port is; "": the run is ok
	}{
		{"inbox", func(rt *runtime.Runtime, p *badPort) { rt.Inbox = p }, map[string]string{"panics": "inbox.failed", "ends": "inbox.failed", "hangs": "run.cancelled"}},
		{"approver", func(rt *runtime.Runtime, p *badPort) { rt.Approver = p }, map[string]string{"hangs": "run.cancelled"}},
		{"secrets", func(rt *runtime.Runtime, p *badPort) { rt.Secrets = p }, map[string]string{"panics": "secret.failed", "ends": "secret.failed", "hangs": "run.cancelled"}},
		{"reporter", func(rt *runtime.Runtime, p *badPort) { rt.Reporter = p }, map[string]string{}},
		{"create", func(rt *runtime.Runtime, p *badPort) { rt.Store = p }, map[string]string{"panics": "store.failed", "ends": "store.failed"}},
	} {
		for _, how := range []string{"panics", "ends", "hangs"} {
			if how == "hangs" && (tt.port == "create" || tt.port == "reporter") {
				continue // a write that was begun is waited for
			}
			t.Run(tt.port+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					rt := runtest.Approving(&runtest.Effects{})
					rt.Secrets, rt.Reporter = runtime.SecretMap{"KEY": "correct-horse"}, &runtest.Quiet{}
					bad := &badPort{how: how, Store: &checkpoint.Memory{}, on: tt.port, release: make(chan struct{})}
					defer close(bad.release)
					tt.rt(rt, bad)
					out, _ := runtest.Load(t, []byte(runtest.Head+`requires: {secrets: [KEY]}
steps:
  a: {uses: agent, with: {agent: {model: m, tools: [t.send], approval: always}, prompt: 't.send {"n":1}'}}
`)).Run(ctx, nil, rt)
					code := ""
					if e := out.Failure(); e != nil {
						code = e.Code
					}
					if code != tt.code[how] {
						t.Errorf("%s: %v, want the code %q", code, out.Err, tt.code[how])
					}
				})
			})
		}
	}
}

// trust 1.11: Resume, Answer, Recover, Send, Cancel, Fork and Sweep have an outcome, or an error, whatever the store and
// the resume adapter do.
func TestLegsAreGuardedFromPorts(t *testing.T) {
	legs := map[string]func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) error{
		"resume": func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Resume(ctx, out.Token, runtest.Yes, rt, nil)
			return err
		},
		"answer": func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Answer(ctx, out.RunID, "ask", runtest.Yes, rt, nil)
			return err
		},
		"recover": func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Recover(ctx, out.RunID, rt, nil)
			return err
		},
		"send": func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Send(ctx, out.RunID, "news", 1, rt, nil)
			return err
		},
		"cancel": func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Cancel(ctx, out.RunID, "", rt, nil)
			return err
		},
		"fork": func(ctx context.Context, out *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Fork(ctx, out.RunID, "ask", workflow.Edits{}, rt, nil)
			return err
		},
		"sweep": func(ctx context.Context, _ *workflow.Outcome, rt *runtime.Runtime) error {
			_, err := workflow.Sweep(ctx, rt, nil)
			return err
		},
	}
	for name, leg := range legs {
		for _, how := range []string{"panics", "ends"} {
			for _, on := range []string{"load", "append", "create", "resume"} {
				uses := map[string]string{"sweep": "load", "fork": "load create", "recover": "load append", "send": "load append", "cancel": "load append",
					"resume": "load append resume", "answer": "load append resume"}[name]
				t.Run(fmt.Sprint(name, " ", on, " ", how), func(t *testing.T) {
					store := &checkpoint.Memory{}
					rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": runtimetest.Texts("x")}, Store: store, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
					wf := runtest.Load(t, []byte(runtest.Head+`channels: {news: queue}
steps:
  ask: {uses: human, with: {prompt: Go on}}
  got: {uses: receive, needs: [ask], with: {channel: news}}
`))
					out, err := wf.Run(t.Context(), nil, rt)
					if err != nil {
						t.Fatal(err)
					}
					bad := &badPort{how: how, Store: store, on: on}
					if rt.Store = bad; on == "resume" {
						rt.Resume = bad
					}
					err = leg(t.Context(), out, rt)
					if strings.Contains(uses, on) && err == nil {
						t.Error("no error")
					}
				})
			}
		}
	}
}

// trust 1.11: an archive and the layers of a memory are diagnostics at most, each with its own code, whatever they do.
func TestAgentsAreGuardedFromArchivesAndLayers(t *testing.T) {
	for _, tt := range []struct {
		port, code string
		loop       func(l *agentloop.Loop, p *badPort)
	}{
		{"archive", "agent.compactFailed", func(l *agentloop.Loop, _ *badPort) {
			l.Compaction = &agentloop.Compaction{Model: "small", Due: func(p agentloop.Progress) bool { return p.StepsDone == 1 }}
		}},
		{"init of a layer", "agent.layerDisabled", func(l *agentloop.Loop, p *badPort) {
			l.Layers = []agentloop.Layer{{ID: "facts", Scope: "global", Init: func(context.Context, string) error { p.be(); return nil }}}
		}},
		{"recall of a layer", "agent.layerDisabled", func(l *agentloop.Loop, p *badPort) {
			l.Layers = []agentloop.Layer{{ID: "facts", Scope: "global", Recall: func(context.Context, string, string) (string, error) { p.be(); return "", nil }}}
		}},
		{"store of a layer", "agent.layerDisabled", func(l *agentloop.Loop, p *badPort) {
			l.Layers = []agentloop.Layer{{ID: "facts", Scope: "global", Store: func(context.Context, string, []runtime.Message) error { p.be(); return nil }}}
		}},
	} {
		for _, how := range []string{"panics", "ends", "hangs"} {
			t.Run(tt.port+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					bad := &badPort{how: how, release: make(chan struct{})}
					defer close(bad.release)
					loop := &agentloop.Loop{Name: "a", Model: "m", Tools: []string{"t.send"}}
					tt.loop(loop, bad)
					rt := runtest.Approving(&runtest.Effects{})
					rt.Models["small"], rt.Reporter = runtimetest.Texts("a summary"), &runtest.Quiet{}
					wf, err := workflow.Agent(loop, &workflow.AgentOptions{Archive: bad})
					if err != nil {
						t.Fatal(err)
					}
					out, _ := wf.Run(ctx, map[string]any{"prompt": `t.send {"n":1}`}, rt)
					switch e := out.Failure(); {
					case how == "hangs" && (e == nil || e.Code != "run.cancelled"):
						t.Errorf("trust 1.11: %s: %v, want that the run was cancelled", out.Status, out.Err)
					case how != "hangs" && (e != nil || !strings.Contains(fmt.Sprint(out.Diagnostics), tt.code)):
						t.Errorf("trust 1.11: %v, with %v, want the diagnostic %s", out.Err, out.Diagnostics, tt.code)
					}
				})
			})
		}
	}
}
