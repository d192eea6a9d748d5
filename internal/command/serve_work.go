package command

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// start records runs of a recipe that is served.
func (s *server) start(name string) worker.Start {
	return func(ctx context.Context, inputs map[string]any, opts *workflow.EnqueueOptions) (string, error) {
		r, ok := s.recipes.Find(name)
		if !ok || r.Workflow == nil {
			return "", &runtime.Error{Category: runtime.CategoryConfig, Code: "recipe.unknown",
				Err: fmt.Errorf("no recipe %q is served, or it has errors", name)}
		}
		rt := s.host.Assume(r.Workflow.Recipe())
		rt.Store, opts.Complete = s.store, s.api.Works(opts.Queue)
		return r.Workflow.Enqueue(ctx, inputs, rt, opts)
	}
}

// schedules are the schedules of the configuration.
func (s *server) schedules() []worker.Schedule { return s.schedulesOf("") }

// schedulesOf are the schedules that begin runs of a recipe; "": of all.
func (s *server) schedulesOf(recipe string) []worker.Schedule {
	var list []worker.Schedule
	for _, c := range s.conf.Schedules {
		if recipe != "" && c.Recipe != recipe {
			continue
		}
		list = append(list, worker.Schedule{Name: c.Name, Start: s.start(c.Recipe), Inputs: c.Inputs, Cron: c.Cron,
			Zone: c.Zone, Queue: c.Queue, Labels: c.Labels, Last: c.Last})
	}
	return list
}

// triggersOf are the names of the triggers that begin runs of a recipe.
func (s *server) triggersOf(recipe string) []string {
	var names []string
	for _, c := range s.conf.Triggers {
		if c.Recipe == recipe {
			names = append(names, c.Name)
		}
	}
	return names
}

// triggers are the triggers of the configuration.
func (s *server) triggers() ([]*worker.Trigger, error) {
	var list []*worker.Trigger
	for _, c := range s.conf.Triggers {
		queue := c.Queue
		if queue == "" {
			queue = s.conf.Queues[0]
		}
		t, err := worker.NewTrigger(worker.TriggerConfig{Name: c.Name, Start: s.start(c.Recipe), Queue: queue,
			Labels: c.Labels, Signature: c.Signature, Secret: c.Secret, Inputs: c.Inputs, Key: c.Key,
			Positions: c.Positions, Store: s.store})
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// prepareNotify makes what tells others of pauses and ends.
func (s *server) prepareNotify(url string) error {
	n, err := s.notifier(s.store, url)
	if n == nil || err != nil {
		return err
	}
	s.notify, s.api.Metrics.Notifier = n, n
	if s.worker != nil {
		s.worker.Ended = n.Ended
	}
	return nil
}
