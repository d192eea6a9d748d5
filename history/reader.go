package history

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/trace"
)

// Reader reads runs of a store, and keeps what it read last: a few runs, until their journals grow, and a few compiled
// recipes. It is safe for concurrent use. It must not be copied after its first use.
type Reader struct {
	Store Source // not nil
	// Content adds an attribute "content" to events, as [trace.Detail] does for live ones: what goes into calls, and
	// what comes out; the end of a run that is ok has its output. A model.start of an agent has only the messages since
	// the last answer, without results of tools, which tool.end has; memory.load and retrieve have what was found, and
	// compact has the summary. Inputs of calls are those of the present generation.
	Content bool

	mu       sync.Mutex
	views    []*view // the oldest first
	programs program.Cache
}

// maxViews is how many runs a Reader keeps.
const maxViews = 16

// Load reads a run. The caller must not change it, as others may get the same. The error is the store's:
// [checkpoint.ErrNotFound] if it does not have the run.
func (r *Reader) Load(ctx context.Context, runID string) (*Run, error) {
	v, err := r.view(ctx, runID)
	if err != nil {
		return nil, err
	}
	return v.run, nil
}

// view returns the view of a run: the one that is kept, if the run stands where it stood then.
func (r *Reader) view(ctx context.Context, runID string) (*view, error) {
	if kept := r.kept(runID); kept != nil {
		sum, _, err := guard.Load(ctx, r.Store, runID, math.MaxInt64)
		if err != nil {
			return nil, err
		}
		if kept.seq == sum.Seq && kept.run.Status == StatusOf(sum) && kept.run.StartedAt.Equal(sum.StartedAt) {
			return kept, nil
		}
	}
	sum, recs, err := guard.Load(ctx, r.Store, runID, 0)
	if err != nil {
		return nil, err
	}
	v := r.read(ctx, sum, recs)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views = append(slices.DeleteFunc(r.views, func(v *view) bool { return v.run.RunID == runID }), v)
	if len(r.views) > maxViews {
		r.views = slices.Delete(r.views, 0, 1)
	}
	return v, nil
}

// kept returns the view that is kept of a run; nil: none is.
func (r *Reader) kept(runID string) *view {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.views {
		if v.run.RunID == runID {
			return v
		}
	}
	return nil
}

// read makes the view of a run.
func (r *Reader) read(ctx context.Context, sum checkpoint.Summary, recs []checkpoint.Record) *view {
	l := r.newLog(ctx)
	for _, rec := range recs {
		l.add(rec)
	}
	l.started("recover")
	status := StatusOf(sum)
	if status != Running {
		l.executions.end(sum.UpdatedAt)
	}
	run := &Run{RunID: sum.ID, Recipe: sum.Recipe, Status: status, Digest: sum.Digest, Parent: sum.Parent,
		About:     aboutOf(&sum),
		StartedAt: sum.StartedAt, UpdatedAt: sum.UpdatedAt, EndedAt: sum.EndedAt,
		Pauses: []resume.Pause{}, Opened: l.pauses, Acts: l.acts, Executions: l.executions.list, Events: l.events}
	for _, p := range sum.Pauses {
		if opened, ok := l.pauses[p.ID]; ok {
			run.Pauses = append(run.Pauses, opened)
		}
	}
	v := &view{run: run, seq: sum.Seq, log: l}
	v.replay(r.program(ctx))
	if r.Content {
		v.addContent(run.Events)
	}
	return v
}

// finder finds the program of a digest. text is its definition, nil if the store has it; rules are those of
// its run.
type finder func(digest string, text []byte, rules program.Rules) (*program.Program, error)

// program returns what finds programs.
func (r *Reader) program(ctx context.Context) finder {
	return func(digest string, text []byte, rules program.Rules) (*program.Program, error) {
		return r.programs.Of(digest, rules, func() (_ *recipe.Recipe, err error) {
			if text == nil {
				if text, err = guard.Definition(ctx, r.Store, digest); err != nil {
					return nil, err
				}
			}
			return recipe.FromDefinition(text)
		})
	}
}

// watchTime is how often Watch looks for more in a store that is no checkpoint.Watcher, or cannot be watched.
const watchTime = 500 * time.Millisecond

// Watch yields the events of a run as [Reader.Load] returns them: first those already recorded, then new ones as they
// are recorded, until the run has ended. A paused run has not ended. An error, of the store or the context, is the last
// value. A store that is no checkpoint.Watcher is read every half a second.
func (r *Reader) Watch(ctx context.Context, runID string) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		for events, err := range r.Tail(runID).Watch(ctx) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil && !yield(trace.Event{}, err) {
				return
			}
		}
	}
}

// changes returns a channel that has a value when a run may have changed, until ctx ends.
func (r *Reader) changes(ctx context.Context, runID string) <-chan struct{} {
	wake := make(chan struct{}, 1)
	tell := func(which string) {
		if which != "" && which != runID {
			return
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	go func() {
		if w, ok := r.Store.(checkpoint.Watcher); ok {
			_ = guard.Watched(w).Watch(ctx, tell) // a store that is closed, or cannot be watched, is read as others are
		}
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(watchTime):
				tell("")
			}
		}
	}()
	return wake
}

// Step returns all that is known of a step, an item of a foreach or a step in a body, by its path. The error is
// [checkpoint.ErrNotFound] if the run has no such step, or that of Load.
func (r *Reader) Step(ctx context.Context, runID, path string) (*Detail, error) {
	v, err := r.view(ctx, runID)
	if err != nil {
		return nil, err
	}
	return v.detail(path)
}

// Steps returns what [Reader.Step] does of many steps at once, but for what is inside of them, in the order of the
// paths. Without paths these are the steps that [Reader.Load] lists.
func (r *Reader) Steps(ctx context.Context, runID string, paths ...string) ([]Detail, error) {
	v, err := r.view(ctx, runID)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		for i := range v.run.Steps {
			paths = append(paths, v.run.Steps[i].Step)
		}
	}
	return v.details(paths)
}

// Paths returns the paths of the steps that use one of the kinds, in plan order, those in items and rounds too. Of a
// foreach these are the items. Bodies that have not begun have none.
func (r *Reader) Paths(ctx context.Context, runID string, kinds ...string) ([]string, error) {
	v, err := r.view(ctx, runID)
	if err != nil {
		return nil, err
	}
	return v.paths(kinds), nil
}

// ItemsOptions select items of a foreach. The zero ItemsOptions selects the first 100.
type ItemsOptions struct {
	Status string // "": any
	From   int    // the number of the first, from 0
	Limit  int    // how many at most; 0: 100
}

// Items returns items of the foreach with a path, in order. The errors are those of Step.
func (r *Reader) Items(ctx context.Context, runID, path string, o *ItemsOptions) ([]Step, error) {
	v, err := r.view(ctx, runID)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &ItemsOptions{}
	}
	limit := o.Limit
	if limit <= 0 {
		limit = 100
	}
	return v.items(path, o.Status, o.From, limit)
}

// newLog returns a log. It takes the names of tools and models from the recipe in the store.
func (r *Reader) newLog(ctx context.Context) *journalLog {
	load := func(digest string) *recipe.Recipe {
		p, err := r.program(ctx)(digest, nil, program.Now)
		if err == nil {
			return p.Recipe
		}
		text, err := guard.Definition(ctx, r.Store, digest)
		if err != nil {
			return nil // the events then have less detail
		}
		of, _ := recipe.FromDefinition(text)
		return of
	}
	l := newLog(load)
	l.content = r.Content
	return l
}

// notThere is the error for a step that a run does not have.
func notThere(runID, path string) error {
	return fmt.Errorf("run %q has no step %q that has begun: %w", runID, path, checkpoint.ErrNotFound)
}
