package temporal

import (
	"time"

	"github.com/braise-run/braise/checkpoint"
	flow "github.com/braise-run/braise/workflow"
)

// Options are the options of one run; nil is their zero value.
type Options struct {
	ID string `json:"-"` // of the run: at most 128 letters, digits, and -_. inside. "": a UUIDv7
	By string `json:"-"` // who starts the run; "": not known
	// Queues are other task queues for the calls of tools and models, by name. nil: all calls are made by the workers of
	// the engine's queue.
	Queues map[string]string `json:"queues,omitempty"`
	// LocalReads has calls of read_only tools made by the worker that drives the run, in the task that decides on them:
	// they leave one event each, and no other worker can make them. Those that Queues names go there nevertheless.
	LocalReads bool `json:"localReads,omitempty"`
	// MaxEvents is how many events one execution of the workflow may have before the next one continues, at least 10. 0: 10,240. The
	// server may suggest to continue earlier.
	MaxEvents int `json:"maxEvents,omitempty"`
}

// minEvents is the least that an execution needs to get anywhere.
const minEvents = 10

// check refuses options that no run can have.
func (o *Options) check(id string, wf *flow.Workflow) error {
	if o.MaxEvents < 0 || o.MaxEvents > 0 && o.MaxEvents < minEvents {
		return clusterError("runtime.invalid", "Options.MaxEvents is %d: it must be 0, or %d or more", o.MaxEvents, minEvents)
	}
	run := checkpoint.Run{ID: id, Recipe: wf.Name(), Digest: wf.Recipe().Digest, StartedAt: time.Now(), By: o.By}
	if err := run.Check(); err != nil {
		return clusterError("runtime.invalid", "%w", err)
	}
	return nil
}
