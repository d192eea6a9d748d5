package past

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// Past is what the journal of a run says. Nobody changes it.
type Past struct {
	Run         string          // its id
	Events      []journal.Event // all of them
	Begun       journal.Begun
	Breakpoints []string          // as of [journal.Breakpoints]; nil: none
	Definition  Definition        // the present one
	Generation  int               // how often the run has started from its first step
	Worked      time.Duration     // until the last event, see Clock
	Traceparent string            // the span of the first execution for which a sink made one; "": none
	Signals     map[string]bool   // that were carried out, or dropped, by id
	Tools       map[string]string // fingerprints of tools that may change, as the run first saw them; nil: none

	// Last are the events of the last generation, as far as the present definition applies. What the run did in its
	// finally is left out.
	Last []journal.Event
	// Undone are the paths of the steps whose rollback has begun in it: nothing may depend on them any more.
	Undone []string
	// Closing is what decided the end of the run, a [journal.Cancelled] or a [journal.FinallyBegun]; nil: nothing has.
	Closing journal.What
}

// Definition is a definition of a run: that of its start, or of a change.
type Definition struct {
	From   int // the index of the event from which it applies
	Digest string
	Rules  journal.Rules

	recipe any // decoded JSON; nil: the store has it
}

// Recipe returns the recipe of the definition as JSON; nil: the store has it, by the digest.
func (d *Definition) Recipe() (json.RawMessage, error) {
	if d.recipe == nil {
		return nil, nil
	}
	return value.JSON(d.recipe)
}

// Read reads the whole journal of a run. The error says that the journal is not one of a run.
func Read(run string, events []journal.Event) (*Past, error) {
	p := &Past{Run: run, Events: events, Generation: 1, Signals: Signals(events)}
	var clock Clock
	if len(events) > 0 {
		clock.Since = events[0].At
	}
	begun, end := false, len(events) // end is where the finally begins
	last := 0
	restart := func(i, generation int) {
		p.Generation = max(p.Generation, generation)
		if end == len(events) {
			last, p.Undone = i+1, nil
		}
	}
	for i := range events {
		e := &events[i]
		clock.Read(e)
		if x := e.Execution(); x != nil {
			p.sawTools(x.Tools)
		}
		switch what := e.What.(type) {
		case journal.Created:
			p.Definition.Digest = what.Digest
		case journal.Begun:
			if !begun {
				begun, p.Begun, p.Definition.Rules = true, what, what.Rules
			}
		case journal.Breakpoints:
			p.Breakpoints = what.Steps
		case journal.Traced:
			if p.Traceparent == "" {
				p.Traceparent = what.Traceparent
			}
		case journal.Redefined:
			p.Generation = max(p.Generation, what.Generation)
			p.Definition = Definition{From: i, Digest: what.Digest, Rules: what.Rules, recipe: what.Definition}
			last, end, p.Undone, p.Closing = i, len(events), nil, nil
		case journal.PauseAnswered:
			if what.Generation > 0 {
				restart(i, what.Generation)
			}
		case journal.Restarted:
			restart(i, what.Generation)
		case journal.RollbackBegun, journal.RollbackEnded:
			if end == len(events) {
				p.Undone = append(p.Undone, strings.TrimSuffix(e.Path, RollbackMark))
			}
		case journal.Cancelled:
			p.closes(what)
		case journal.FinallyBegun:
			p.closes(what)
			end = min(end, i)
		}
	}
	if !begun {
		return nil, fmt.Errorf("run %q: %w: it has no inputs", run, checkpoint.ErrCorrupt)
	}
	p.Worked = clock.At(events[len(events)-1].At)
	p.Last = events[last:end]
	return p, nil
}

// closes notes what decided the end of the run.
func (p *Past) closes(what journal.What) {
	if p.Closing == nil {
		p.Closing = what
	}
}

// sawTools notes tools as an execution saw them.
func (p *Past) sawTools(tools map[string]string) {
	if p.Tools == nil && len(tools) > 0 {
		p.Tools = map[string]string{}
	}
	for _, name := range value.SortedKeys(tools) {
		if _, known := p.Tools[name]; !known {
			p.Tools[name] = tools[name]
		}
	}
}

// Before are the events of earlier definitions.
func (p *Past) Before() []journal.Event { return p.Events[:p.Definition.From] }

// Present are the events of the present definition.
func (p *Past) Present() []journal.Event { return p.Events[p.Definition.From:] }

// Steps returns the steps in the last generation, with the digests of the recipe that they ran.
func (p *Past) Steps(digests map[string]string) map[string]string {
	recorded := maps.Clone(digests) // steps without a record share the fate of their parents
	for i := range p.Last {
		if path := p.Last[i].Path; path != "" {
			recorded[path] = digests[resume.DefinitionPath(path)]
		}
	}
	return recorded
}

// Clock is how long a run has been worked on. It stands still while the run is paused or interrupted.
//
// A journal has it in the times of its records, and in each [journal.Execution].
type Clock struct {
	Used  time.Duration // at since
	Since time.Time
}

// At returns the clock at a time of the present execution.
func (c *Clock) At(now time.Time) time.Duration { return c.Used + max(0, now.Sub(c.Since)) }

// Read reads the next event.
func (c *Clock) Read(e *journal.Event) {
	if x := e.Execution(); x != nil {
		c.Used, c.Since = x.Worked, e.At
	}
}
