package main

import (
	"context"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/braise-run/braise/cluster/temporal"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/command"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// cluster is an open namespace of a Temporal server.
type cluster struct {
	engine *temporal.Engine
	client client.Client
	conf   client.Options
	calls  map[string]string // where those of tools and models are made, see temporal.Options
	reads  bool              // calls that only read stay with the worker that drives the run
}

// by is the engine for what somebody asks.
func (c *cluster) by(p command.Person) *temporal.Engine {
	e := *c.engine
	e.Groups = p.Groups
	return &e
}

func (c *cluster) Runs() history.Source { return &temporal.Source{Engine: c.engine} }

func (c *cluster) Close() error {
	c.client.Close()
	return nil
}

func (c *cluster) Start(
	ctx context.Context, wf *workflow.Workflow, inputs map[string]any, o command.StartOptions,
) (string, error) {
	return c.engine.Start(ctx, wf, inputs, &temporal.Options{ID: o.RunID, By: o.By.Name, Queues: c.calls,
		LocalReads: c.reads})
}

func (c *cluster) Wait(ctx context.Context, id string) (*workflow.Outcome, error) {
	return c.engine.Wait(ctx, id)
}

func (c *cluster) Pause(ctx context.Context, token string) (id, pause string, err error) {
	return c.engine.Pause(ctx, token)
}

func (c *cluster) Resume(ctx context.Context, token string, v any, p command.Person) (*workflow.Outcome, error) {
	return c.by(p).Resume(ctx, token, v, p.Name)
}

func (c *cluster) Answer(
	ctx context.Context, id, pause string, v any, p command.Person,
) (*workflow.Outcome, error) {
	return c.by(p).Answer(ctx, id, pause, v, p.Name)
}

func (c *cluster) Send(
	ctx context.Context, id, channel string, v any, p command.Person,
) (*workflow.Outcome, error) {
	return c.by(p).Send(ctx, id, channel, v, p.Name)
}

func (c *cluster) Cancel(ctx context.Context, id, reason string, p command.Person) (*workflow.Outcome, error) {
	return c.engine.Cancel(ctx, id, reason, p.Name)
}

func (c *cluster) Notes(ctx context.Context, id string) ([]string, error) {
	return c.engine.Notes(ctx, id)
}

func (c *cluster) Work(ctx context.Context, rt *runtime.Runtime, o command.WorkOptions) error {
	conf := c.conf
	if o.Log != nil {
		conf.Logger = log.NewStructuredLogger(o.Log)
	}
	told, err := client.NewClientFromExistingWithContext(ctx, c.client, conf)
	if err != nil {
		return err
	}
	defer told.Close()
	w, err := temporal.NewWorker(told, rt, &temporal.WorkerOptions{TaskQueue: c.engine.TaskQueue,
		OnlyCalls: o.OnlyCalls, Drain: o.Drain, MaxCalls: o.MaxCalls, Build: o.Build, SearchAttributes: o.Searched})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
