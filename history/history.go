package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Source is what histories are read from. A [checkpoint.Store] is one, and so is a cluster that keeps runs itself: its
// methods do what those of a store do. If it is a [checkpoint.Watcher], changes are shown at once.
type Source interface {
	Load(ctx context.Context, runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error)
	Definition(ctx context.Context, digest string) (json.RawMessage, error)
	List(ctx context.Context, f checkpoint.Filter) ([]checkpoint.Summary, error)
}

// Status is the state of a run as shown to people.
type Status string

// The statuses of runs. A run that has not ended and does not wait is Running if a process holds it, else Interrupted.
const (
	Queued      Status = "queued"      // recorded, and no execution has begun
	Running     Status = "running"     // a process executes it
	Interrupted Status = "interrupted" // it has not ended and waits for nothing, but no process executes it
	Paused      Status = "paused"      // it waits for an answer, an event or a time
	OK          Status = "ok"
	Failed      Status = "error"
	Cancelled   Status = "cancelled"
)

// Statuses returns all statuses, those of runs that have not ended first.
func Statuses() []Status {
	return []Status{Queued, Running, Interrupted, Paused, OK, Failed, Cancelled}
}

// StatusOf returns the status of a run, given the summary that its store has.
func StatusOf(sum checkpoint.Summary) Status {
	if phase := sum.Phase(); phase != checkpoint.PhaseWaiting {
		return Status(phase)
	}
	return Paused
}

// phase is the phase of a run with this status.
func (s Status) phase() checkpoint.Phase {
	if s == Paused {
		return checkpoint.PhaseWaiting
	}
	return checkpoint.Phase(s)
}

// Info is the entry of a run in a list. Its JSON is what the command prints.
type Info struct {
	RunID     string    `json:"runId"`
	Recipe    string    `json:"recipe"` // its name
	Status    Status    `json:"status"`
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"` // zero: it has not ended
	Pauses    int       `json:"pauses"`           // number of pending pauses
	About
}

// About is what a run, and a list of runs, tells beside the state of the run.
type About struct {
	Queue  string            `json:"queue,omitempty"`  // whose workers take it; "": nobody takes it by itself
	Labels map[string]string `json:"labels,omitempty"` // nil: none
	By     string            `json:"by,omitempty"`     // who began it, as the host named them; "": not known
	// Error is why it failed, or, of a single run, that and why it was cancelled; zero: it was not, or it is not known.
	Error checkpoint.Failure `json:"error,omitzero"`
	Usage checkpoint.Usage   `json:"usage,omitzero"` // of models, when it last paused, or ended
}

func aboutOf(sum *checkpoint.Summary) About {
	return About{sum.Queue, sum.Labels, sum.By, sum.Error, sum.Usage}
}

// Filter selects the runs to list. The zero Filter selects all runs.
type Filter struct {
	Statuses []Status          // any of them; nil: any
	Recipe   string            // its name; "": any
	Queues   []string          // any of them, "" is none; nil: any
	Labels   map[string]string // all of them; nil: any
	Limit    int               // maximum number of runs, newest first; 0: no limit
}

// wanted is the filter as stores take it.
func (f *Filter) wanted() checkpoint.Filter {
	wanted := checkpoint.Filter{Recipe: f.Recipe, Queues: f.Queues, Labels: f.Labels, Limit: f.Limit}
	for _, status := range f.Statuses {
		wanted.Phases = append(wanted.Phases, status.phase())
	}
	return wanted
}

// List returns the runs that match a filter, newest first. Runs that cannot be read are omitted, and the error says
// what is wrong with them; the other runs are returned all the same. The list is never nil.
func List(ctx context.Context, store Source, f Filter) ([]Info, error) {
	sums, err := guard.List(ctx, store, f.wanted())
	list := []Info{}
	for _, sum := range sums {
		list = append(list, Info{sum.ID, sum.Recipe, StatusOf(sum), sum.StartedAt, sum.EndedAt, len(sum.Pauses),
			aboutOf(&sum)})
	}
	return list, err
}

// Find returns the id of the run that name denotes. name is an id, a unique prefix of one, or "last" for the run that
// was started last. The error is [checkpoint.ErrNotFound], or a *runtime.Error that lists the ambiguous runs. A run
// that cannot be read is found by its full id.
func Find(ctx context.Context, store Source, name string) (string, error) {
	_, _, err := guard.Load(ctx, store, name, math.MaxInt64)
	if !errors.Is(err, checkpoint.ErrNotFound) { // if it cannot be read, reading it will report that
		return name, nil
	}
	if name == "last" {
		list, listErr := guard.List(ctx, store, checkpoint.Filter{Limit: 1})
		if len(list) == 0 {
			return "", cmp.Or(listErr, err)
		}
		return list[0].ID, nil
	}
	if name == "" {
		return "", err
	}
	const shown = 5 // of the runs that a prefix may mean
	var ids []string
	// Runs that cannot be read do not hide the others.
	list, _ := guard.List(ctx, store, checkpoint.Filter{Prefix: name, Limit: shown + 1})
	for _, sum := range list {
		ids = append(ids, sum.ID)
	}
	many := strconv.Itoa(len(ids))
	switch len(ids) {
	case 0:
		return "", err
	case 1:
		return ids[0], nil
	case shown + 1:
		many = "more than " + strconv.Itoa(shown)
	}
	return "", &runtime.Error{Category: runtime.CategoryInfra, Code: "run.notFound",
		Err: fmt.Errorf("%s runs have ids that begin with %q\n  hint: give more of the id: %s",
			many, name, strings.Join(ids[:min(len(ids), shown)], ", "))}
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
	About
	// Steps are those of the plan, in its order, and in bodies that have begun those of each round; never nil. What is
	// in a foreach is counted, see [Step.Items].
	Steps []Step `json:"steps"`
	Acts  []Act  `json:"acts"` // in the order in which they happened; never nil
	// Executions of which the journal tells, in order, the present one included; journals of the earliest versions do
	// not tell of all. It is never nil.
	Executions []Execution `json:"executions"`
	// Opened has every pause that was ever opened, by id and without tokens, answered or not. If several pauses had
	// the same id, it has the last one. It is never nil.
	Opened map[string]resume.Pause `json:"-"`
	Events []trace.Event           `json:"-"`                // of all executions, numbered from 1; never nil
	Inputs map[string]any          `json:"inputs,omitempty"` // with defaults; nil: none, or not known
	Output any                     `json:"output,omitempty"` // of a run that is ok; nil: null, or not known
	// Diagnostics are what the journal tells of the run's own: a rollback that failed, an answer that was cut. Those of
	// its recipe and of the ports of a process are not here. With the code history.partial they say why the steps are
	// only those that have records: the recipe cannot be compiled, or the journal cannot be replayed, by this version.
	Diagnostics diagnostics.List `json:"diagnostics,omitempty"`
}

// Load reads a run. It compiles its recipe and replays its journal: who reads many, or one again and again, makes a
// [Reader]. The error is the store's: [checkpoint.ErrNotFound] if it does not have the run.
func Load(ctx context.Context, store Source, runID string) (*Run, error) {
	return (&Reader{Store: store}).Load(ctx, runID)
}

// Watch yields the events of a run as [Reader.Watch] does.
func Watch(ctx context.Context, store Source, runID string) iter.Seq2[trace.Event, error] {
	return (&Reader{Store: store}).Watch(ctx, runID)
}
