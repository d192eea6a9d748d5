// Package history reads the journals of runs: their status, steps, agents, pauses and events. It works for runs that
// have ended and for runs in progress. It executes nothing and needs no lease.
//
// A journal has less than an outcome: steps that only compute leave no record, and of the models that agents call it
// has only the answers.
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

// Status is the state of a run as shown to people.
type Status string

// The statuses of runs. A run that has not ended and does not wait is Running if a process holds it, else Interrupted.
const (
	Running     Status = "running"     // a process executes it
	Interrupted Status = "interrupted" // it has not ended and waits for nothing, but no process executes it
	Paused      Status = "paused"      // it waits for an answer, an event or a time
	OK          Status = "ok"
	Failed      Status = "error"
	Cancelled   Status = "cancelled"
)

// Statuses returns all statuses, those of runs that have not ended first.
func Statuses() []Status { return []Status{Running, Interrupted, Paused, OK, Failed, Cancelled} }

// StatusOf returns the status of a run, given the summary that its store has.
func StatusOf(sum checkpoint.Summary) Status {
	if sum.Status == checkpoint.Running && !sum.Held {
		return Interrupted
	}
	return Status(sum.Status)
}

// Info is the entry of a run in a list. Its JSON is what the command prints.
type Info struct {
	RunID     string    `json:"runId"`
	Recipe    string    `json:"recipe"` // its name
	Status    Status    `json:"status"`
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"` // zero: it has not ended
	Pauses    int       `json:"pauses"`           // number of pending pauses
}

// Filter selects the runs to list. The zero Filter selects all runs.
type Filter struct {
	Status Status // "": any
	Recipe string // its name; "": any
	Limit  int    // maximum number of runs, newest first; 0: no limit
}

// List returns the runs that match a filter, newest first. Runs that cannot be read are omitted, and the error says
// what is wrong with them; the other runs are returned all the same. The list is never nil.
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

// Find returns the id of the run that name denotes. name is an id, a unique prefix of one, or "last" for the run that
// was started last. The error is [checkpoint.ErrNotFound], or a *runtime.Error that lists the ambiguous runs. A run
// that cannot be read is found by its full id.
func Find(ctx context.Context, store checkpoint.Store, name string) (string, error) {
	_, _, err := store.Load(ctx, name, math.MaxInt64)
	if !errors.Is(err, checkpoint.ErrNotFound) { // if it cannot be read, reading it will report that
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

// Run is the content of the journal of a run, over all its executions. Its JSON is what the command prints.
type Run struct {
	RunID     string         `json:"runId"`
	Recipe    string         `json:"recipe"` // its name
	Status    Status         `json:"status"`
	StartedAt time.Time      `json:"startedAt"`
	EndedAt   time.Time      `json:"endedAt,omitzero"` // zero: it has not ended
	Pauses    []resume.Pause `json:"pauses"`           // pending pauses, without tokens; never nil
	Digest    string         `json:"digest"`           // of the recipe that it began with
	Parent    string         `json:"parent,omitempty"` // the run that it was forked from; "": none
	UpdatedAt time.Time      `json:"updatedAt"`        // when the last record was written
	Steps     []Step         `json:"steps"`            // in the order in which they began; never nil
	Acts      []Act          `json:"acts"`             // in the order in which they happened; never nil
	// Opened has every pause that was ever opened, by id and without tokens, answered or not. If several pauses had
	// the same id, it has the last one. It is never nil.
	Opened map[string]resume.Pause `json:"-"`
	Events []trace.Event           `json:"-"` // of all executions, numbered from 1; never nil
}

// Load reads the journal of a run. The error is the store's: [checkpoint.ErrNotFound] if it does not have the run.
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

// Watch yields the events of a run as [Load] returns them: first those already recorded, then new ones as they are
// recorded, until the run has ended. A paused run has not ended. An error, of the store or the context, is the last
// value. Events that another process records arrive within half a second.
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

// newReader returns a reader. It takes the names of tools and models from the recipe in the store.
func newReader(ctx context.Context, store checkpoint.Store) *reader {
	return &reader{events: []trace.Event{}, steps: []Step{}, acts: []Act{}, pauses: map[string]resume.Pause{},
		index: map[string]int{}, began: map[string]time.Time{}, agents: map[string]*agent{},
		said: journal.Settlements{},
		load: func(digest string) *recipe.Recipe {
			text, err := store.Definition(ctx, digest)
			if err != nil {
				return nil // the events then have less detail
			}
			r, _ := recipe.FromDefinition(text)
			return r
		}}
}
