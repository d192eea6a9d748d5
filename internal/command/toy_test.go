package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// toy is an engine for tests: toy://local/?dir=DIR keeps runs in a store in a folder. Its workers execute them; who
// starts, answers or cancels them only leaves that in the store. With &away=true it no longer answers who waits for a run.
type toy struct{}

func (toy) Scheme() string { return "toy" }

func (toy) Open(ctx context.Context, u *url.URL, dir string) (Cluster, error) {
	at := u.Query().Get("dir")
	if at == "" {
		return nil, BadURL("toy: the URL lacks dir=")
	}
	if !filepath.IsAbs(at) {
		at = filepath.Join(dir, at)
	}
	if _, err := os.Stat(at); err != nil {
		return nil, &runtime.Error{Category: runtime.CategoryInfra, Code: "cluster.unavailable", Err: err}
	}
	store, err := host.OpenStore(ctx, "sqlite:"+filepath.Join(at, "toy.db"), "")
	if err != nil {
		return nil, err
	}
	return &toys{store, u.Query().Has("away")}, nil
}

// toys is an open toy.
type toys struct {
	store checkpoint.Store
	away  bool
}

const toyQueue = "toy"

func (c *toys) Runs() history.Source { return c.store }
func (c *toys) Close() error         { return c.store.Close() }

func (c *toys) runtime() *runtime.Runtime {
	return &runtime.Runtime{Store: c.store, Resume: resume.PassThrough{}}
}

func (c *toys) Start(
	ctx context.Context, wf *workflow.Workflow, inputs map[string]any, o StartOptions,
) (string, error) {
	return wf.Enqueue(ctx, inputs, c.runtime(), &workflow.EnqueueOptions{RunID: o.RunID, Queue: toyQueue, By: o.By.Name})
}

func (c *toys) Wait(ctx context.Context, runID string) (*workflow.Outcome, error) {
	if c.away {
		return nil, &runtime.Error{Category: runtime.CategoryInfra, Code: "cluster.unavailable", Err: errors.New("it is away")}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		sum, _, err := c.store.Load(ctx, runID, 0)
		if err != nil {
			return nil, err
		}
		open, err := c.store.(checkpoint.Signals).Signals(ctx, runID, true)
		if err != nil {
			return nil, err
		}
		waits := sum.Phase() == checkpoint.PhaseWaiting &&
			slices.ContainsFunc(sum.Pauses, func(p checkpoint.Pause) bool { return p.DueAt.IsZero() })
		if len(open) == 0 && (sum.Status.Ended() || waits) {
			out, err := workflow.Recover(ctx, runID, c.runtime(), nil)
			if e := out.Failure(); e == nil || e.Code != "run.busy" { // its worker has not let go of it yet
				return out, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

func (c *toys) Pause(ctx context.Context, token string) (runID, pause string, err error) {
	runID, hash, err := resume.Parse(token)
	if err != nil {
		return "", "", err
	}
	info, err := c.store.FindPause(ctx, runID, hash)
	if err != nil {
		return "", "", err
	}
	p, err := resume.Opened(info.Opened)
	return runID, p.ID, err
}

func (c *toys) Resume(ctx context.Context, token string, answer any, by Person) (*workflow.Outcome, error) {
	runID, pause, err := c.Pause(ctx, token)
	if err != nil {
		return nil, err
	}
	return c.tell(ctx, runID, checkpoint.SignalAnswer, map[string]any{"pause": pause, "value": answer}, by, true)
}

func (c *toys) Answer(ctx context.Context, runID, pause string, answer any, by Person) (*workflow.Outcome, error) {
	return c.tell(ctx, runID, checkpoint.SignalAnswer, map[string]any{"pause": pause, "value": answer}, by, false)
}

func (c *toys) Send(ctx context.Context, runID, channel string, v any, by Person) (*workflow.Outcome, error) {
	return c.tell(ctx, runID, checkpoint.SignalSend, map[string]any{"channel": channel, "value": v}, by, false)
}

func (c *toys) Cancel(ctx context.Context, runID, reason string, by Person) (*workflow.Outcome, error) {
	return c.tell(ctx, runID, checkpoint.SignalCancel, map[string]any{"reason": reason}, by, false)
}

// tell leaves a signal for the worker, and waits.
func (c *toys) tell(
	ctx context.Context, runID, kind string, said map[string]any, by Person, vouched bool,
) (*workflow.Outcome, error) {
	data, err := value.JSON(said)
	if err != nil {
		return nil, err
	}
	err = workflow.Signal(ctx, runID, checkpoint.Signal{Kind: kind, Data: data, By: by.Name}, c.store,
		&workflow.SignalOptions{Groups: by.Groups, Vouched: vouched})
	if err != nil {
		return nil, err
	}
	return c.Wait(ctx, runID)
}

func (c *toys) Notes(ctx context.Context, runID string) ([]string, error) {
	sum, _, err := c.store.Load(ctx, runID, 0)
	if err != nil || sum.Phase() != checkpoint.PhaseQueued {
		return nil, err
	}
	return []string{"no worker has taken the run"}, nil
}

func (c *toys) Work(ctx context.Context, rt *runtime.Runtime, o WorkOptions) error {
	if o.OnlyCalls {
		return errors.New("toys are taken by whole workers")
	}
	own := *rt
	own.Store, own.Resume = c.store, resume.PassThrough{}
	w := &worker.Worker{Runtime: &own, Queues: []string{toyQueue}, MaxRuns: cmp.Or(o.MaxCalls, 4), Drain: o.Drain}
	if err := w.Check(); err != nil {
		return fmt.Errorf("toy: %w", err)
	}
	return w.Run(ctx)
}
