// Package history tells from journals what runs are and did: their status, steps, agents, pauses and events, of runs
// that have ended and of those that go on. It executes nothing and needs no lease.
//
// A journal does not have everything that an outcome has: steps that only compute leave no record, and of the models of
// agents only what they answered is there.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Status is what a run is at, as people see it.
type Status string

// The statuses of runs. A store does not tell Running from Interrupted: whether somebody holds the run does.
const (
	Running     Status = "running"     // somebody works on it
	Interrupted Status = "interrupted" // nobody does, though it has not ended and waits for nothing
	Paused      Status = "paused"      // it waits for an answer, an event or a time
	OK          Status = "ok"
	Failed      Status = "error"
	Cancelled   Status = "cancelled"
)

// Statuses returns all statuses, those of runs that have not ended first.
func Statuses() []Status { return []Status{Running, Interrupted, Paused, OK, Failed, Cancelled} }

// StatusOf returns the status of a run by what its store knows of it.
func StatusOf(sum checkpoint.Summary) Status {
	if sum.Status == checkpoint.Running && !sum.Held {
		return Interrupted
	}
	return Status(sum.Status)
}

// Info is what a list says of a run. Its JSON is what the command prints.
type Info struct {
	RunID     string    `json:"runId"`
	Recipe    string    `json:"recipe"` // its name
	Status    Status    `json:"status"`
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"` // zero: it has not ended
	Pauses    int       `json:"pauses"`           // that are open
}

// Filter says which runs to list. The zero Filter lets all through.
type Filter struct {
	Status Status // "": any
	Recipe string // its name; "": any
	Limit  int    // so many of the newest; 0: no limit
}

// List returns the runs that a filter lets through, the newest first. Runs that cannot be read do not hide the others:
// they are left out, and the error says what is wrong with them. The list is never nil.
func List(ctx context.Context, store checkpoint.Store, f Filter) ([]Info, error) {
	wanted := checkpoint.Filter{Status: checkpoint.Status(f.Status), Recipe: f.Recipe, Limit: f.Limit}
	if f.Status == Running || f.Status == Interrupted { // the store does not tell them apart
		wanted.Status, wanted.Limit = checkpoint.Running, 0
	}
	sums, err := store.List(ctx, wanted)
	list := []Info{}
	for _, sum := range sums {
		status := StatusOf(sum)
		if (f.Status == "" || f.Status == status) && (f.Limit == 0 || len(list) < f.Limit) {
			list = append(list, Info{sum.ID, sum.Recipe, status, sum.StartedAt, sum.EndedAt, len(sum.Pauses)})
		}
	}
	return list, err
}

// Find returns the id of the run that a name stands for: its id, a prefix that no other id has, or last for the run
// that was started last. The error is [checkpoint.ErrNotFound], or a *runtime.Error that names the runs in question. A
// run that cannot be read is found by its id.
func Find(ctx context.Context, store checkpoint.Store, name string) (string, error) {
	_, _, err := store.Load(ctx, name, math.MaxInt64)
	if !errors.Is(err, checkpoint.ErrNotFound) { // if it cannot be read, whoever reads it says so
		return name, nil
	}
	if name == "last" {
		list, listErr := store.List(ctx, checkpoint.Filter{Limit: 1})
		if len(list) == 0 {
			return "", cmp.Or(listErr, err)
		}
		return list[0].ID, nil
	}
	var ids []string
	list, _ := store.List(ctx, checkpoint.Filter{}) // runs that cannot be read do not hide the others
	for _, sum := range list {
		if name != "" && strings.HasPrefix(sum.ID, name) {
			ids = append(ids, sum.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", err
	case 1:
		return ids[0], nil
	}
	return "", &runtime.Error{Category: runtime.CategoryInfra, Code: "run.notFound",
		Err: fmt.Errorf("run %q: the ids of %d runs begin so\n  hint: give more of the id: %s",
			name, len(ids), strings.Join(ids[:min(len(ids), 5)], ", "))}
}

// Run is what the journal of a run tells, over all its executions. Its JSON is what the command prints.
type Run struct {
	RunID     string         `json:"runId"`
	Recipe    string         `json:"recipe"` // its name
	Status    Status         `json:"status"`
	StartedAt time.Time      `json:"startedAt"`
	EndedAt   time.Time      `json:"endedAt,omitzero"` // zero: it has not ended
	Pauses    []resume.Pause `json:"pauses"`           // that are open, without tokens; never nil
	Digest    string         `json:"digest"`           // of the recipe that it began with
	Parent    string         `json:"parent,omitempty"` // the run that it was forked from; "": none
	UpdatedAt time.Time      `json:"updatedAt"`        // when the last record was written
	Steps     []Step         `json:"steps"`            // in the order in which they began; never nil
	Acts      []Act          `json:"acts"`             // what people did, in their order; never nil
	// Opened has every pause that was ever opened, answered or not, without tokens: by id, the last of several with the
	// same one. Never nil.
	Opened map[string]resume.Pause `json:"-"`
	Events []trace.Event           `json:"-"` // of all executions, numbered from 1; never nil
}

// Load reads the journal of a run. The error is the store's: [checkpoint.ErrNotFound] for a run that it does not have.
func Load(ctx context.Context, store checkpoint.Store, runID string) (*Run, error) {
	sum, recs, err := store.Load(ctx, runID, 0)
	if err != nil {
		return nil, err
	}
	r := newReader(ctx, store)
	for _, rec := range recs {
		r.add(rec)
	}
	run := &Run{RunID: sum.ID, Recipe: sum.Recipe, Status: StatusOf(sum), Digest: sum.Digest, Parent: sum.Parent,
		StartedAt: sum.StartedAt, UpdatedAt: sum.UpdatedAt, EndedAt: sum.EndedAt,
		Pauses: []resume.Pause{}, Opened: r.pauses, Steps: r.steps, Acts: r.acts,
		Events: r.events}
	for _, p := range sum.Pauses {
		if opened, ok := r.pauses[p.ID]; ok {
			run.Pauses = append(run.Pauses, opened)
		}
	}
	return run, nil
}

// watchTime is how often Watch looks for more.
const watchTime = 500 * time.Millisecond

// Watch returns the events of a run as [Load] has them, those that are there already first, then the others as they are
// recorded, until the run has ended for good. A run that pauses has not. An error is the last thing that comes: the
// store's, or the context's. What another process records is seen within half a second.
func Watch(ctx context.Context, store checkpoint.Store, runID string) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		r := newReader(ctx, store)
		for seq := int64(0); ; {
			sum, recs, err := store.Load(ctx, runID, seq)
			if err != nil {
				yield(trace.Event{}, err)
				return
			}
			told := len(r.events)
			for _, rec := range recs {
				r.add(rec)
			}
			seq += int64(len(recs))
			for _, e := range r.events[told:] {
				if !yield(e, nil) {
					return
				}
			}
			if sum.Status.Ended() {
				return
			}
			select {
			case <-ctx.Done():
				yield(trace.Event{}, context.Cause(ctx))
				return
			case <-time.After(watchTime):
			}
		}
	}
}

// newReader returns a reader that takes the names of tools and models from the recipe that the store has.
func newReader(ctx context.Context, store checkpoint.Store) *reader {
	return &reader{events: []trace.Event{}, steps: []Step{}, acts: []Act{}, pauses: map[string]resume.Pause{},
		index: map[string]int{}, began: map[string]time.Time{}, agents: map[string]*agent{},
		said: journal.Settlements{},
		load: func(digest string) *recipe.Recipe {
			text, err := store.Definition(ctx, digest)
			if err != nil {
				return nil // less is told then
			}
			r, _ := recipe.FromDefinition(text)
			return r
		}}
}
