package command

import (
	"context"
	"math"
	"net/http"
	"sync"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// notifier returns what tells others of the runs of a store, as the configuration says; nil: nobody is told. url is
// where a server answers; "": messages have no links.
func (s *session) notifier(store checkpoint.Store, url string) (*worker.Notifier, error) {
	list, dir, err := s.host.Notify()
	if err != nil || len(list) == 0 || store == nil || s.dry {
		return nil, err
	}
	n := &worker.Notifier{Store: store, Client: &http.Client{Transport: builtin.Transport(s.host.AllowsPrivate())},
		Reporter: operator{s.app}}
	for _, c := range list {
		t := worker.Target{URL: c.URL, Secret: c.Secret, Exec: c.Exec, Dir: dir, On: c.On, Recipes: c.Recipes,
			Remind: c.Remind}
		if c.Link && url != "" {
			t.Link = func(ctx context.Context, runID, pause string) (string, error) {
				token, err := workflow.Mint(ctx, runID, pause, store)
				return url + "/#answer=" + token, err
			}
		}
		n.Targets = append(n.Targets, t)
	}
	return n, n.Check()
}

// serverURL is where a server answers by the configuration; "": it does not say.
func (s *session) serverURL() string {
	conf, err := s.host.Serve()
	if err != nil {
		return ""
	}
	return conf.URL
}

// telling has others told of the pauses of a run as soon as they open, and returns what tells them of how its
// executions ended.
func (s *session) telling(e *execution) (tell func(context.Context, *workflow.Outcome)) {
	n, err := s.notifier(e.rt.Store, s.serverURL())
	failed := func(out *workflow.Outcome, err error) {
		if err != nil {
			out.Diagnostics = append(out.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.Warn,
				Kind: diagnostics.KindAdapter, Code: diagnostics.CodeNotifyFailed,
				Message: "a notification failed: " + err.Error()})
		}
	}
	if n == nil || err != nil {
		return func(_ context.Context, out *workflow.Outcome) { failed(out, err) }
	}
	var turn sync.Mutex   // of a pause that is told as it opens
	over := false         // all are told at the end, and then the store is closed
	if !s.interactive() { // else who is asked may be at the terminal
		rt := *e.rt
		rt.OnPause = func(p resume.Pause) {
			turn.Lock()
			defer turn.Unlock()
			if over {
				return
			}
			runID, _, _ := resume.Parse(p.Token)
			sum, _, err := rt.Store.Load(context.Background(), runID, math.MaxInt64)
			if err == nil { // else, and after another error, they are told at the end
				_ = n.Tell(context.Background(), &workflow.Outcome{Status: workflow.StatusPaused, RunID: runID,
					Recipe: sum.Recipe, Pauses: []resume.Pause{p}})
			}
		}
		e.rt = &rt
	}
	return func(ctx context.Context, out *workflow.Outcome) {
		turn.Lock()
		over = true
		turn.Unlock()
		failed(out, n.Tell(context.WithoutCancel(ctx), out))
	}
}
