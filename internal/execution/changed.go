package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// program is the program of the run. If the caller gives a definition that differs from the run's, it
// must accept the change explicitly.
func (x *resumption) program() (*program.Program, error) {
	now := &x.past.Definition
	text, err := now.Recipe()
	if err != nil {
		return nil, err
	}
	digest, rules := now.Digest, now.Rules
	p := x.o.Program
	if p != nil && p.Digest == digest {
		return p.Under(program.Rules(rules))
	}
	if p != nil && !x.o.AcceptChanged {
		return nil, changed("run %q has another definition of recipe %q (%s, not %s)",
			x.runID, x.summary.Recipe, digest, p.Digest)
	}
	if p != nil && !x.ended {
		if x.old, err = readRecipe(x.ctx, x.ledger.Store, digest, text); err != nil {
			return nil, invalid(err)
		}
		kept := program.Now // but it goes on skipping as it did
		kept.Skips = rules.Skips
		return p.Under(kept)
	}
	p, err = Stored(x.ctx, x.ledger.Store, digest, text, program.Rules(rules), x.o.Programs)
	if err == nil && p.InGo() {
		err = &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.needsWorkflow",
			Err: fmt.Errorf("run %q has an agent written in Go, which the store does not have"+
				"\n  hint: give the Workflow that was compiled with it", x.runID)}
	}
	return p, err
}

// readRecipe reads the recipe with a digest. text is its definition; nil: the store has it.
func readRecipe(
	ctx context.Context, store checkpoint.Store, digest string, text json.RawMessage,
) (r *recipe.Recipe, err error) {
	if text == nil {
		text, err = guard.Store(ctx, func(ctx context.Context) (json.RawMessage, error) {
			return store.Definition(ctx, digest)
		})
		if err != nil {
			return nil, err
		}
	}
	if r, err = recipe.FromDefinition(text); err != nil {
		if _, ok := errors.AsType[*diagnostics.Error](err); !ok {
			err = fmt.Errorf("%w: definition %s: %w", checkpoint.ErrCorrupt, digest, err)
		}
		return nil, err
	}
	return r, nil
}

// invalid makes recipe.invalid of the error for a recipe that this version refuses; another err stays as it is.
func invalid(err error) error {
	if _, ok := errors.AsType[*diagnostics.Error](err); !ok {
		return err
	}
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "recipe.invalid",
		Err: fmt.Errorf("this version cannot compile the recipe of the run: %w"+
			"\n  hint: the version that began the run can", err)}
}

// Stored returns the program of a recipe that runs began with, for runs under these rules; c may have it. text is as
// for readRecipe. The error is recipe.invalid if this version cannot compile the recipe, else the store's.
func Stored(
	ctx context.Context, store checkpoint.Store, digest string, text json.RawMessage, rules program.Rules,
	c *program.Cache,
) (*program.Program, error) {
	p, err := c.Of(digest, rules, func() (*recipe.Recipe, error) { return readRecipe(ctx, store, digest, text) })
	return p, invalid(err)
}

// changed is the error for a run that has another definition.
func changed(format string, args ...any) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.definitionChanged",
		Err: fmt.Errorf(format, args...)}
}

// unchanged refuses an act that cannot be combined with a change of the run's definition.
func (x *resumption) unchanged(p *program.Program, hint string) error {
	if x.old == nil {
		return nil
	}
	return changed("run %q began with another definition of recipe %q%s", x.runID, p.Recipe.Name,
		program.HintLine(hint))
}

// redefine resumes a run under another definition. Steps that changed, and all steps that depend on them, run again;
// the others keep their results. The answer, nil if there is none, is for the step that asked, if the run reaches it
// again. Everything is one write.
func (x *resumption) redefine(p *program.Program, r *local.Run, inputs map[string]any, given *answer) error {
	if err := x.goesOn(); err != nil {
		return err
	}
	was, err := x.old.StepDigests()
	if err != nil {
		return err
	}
	now, err := p.Recipe.StepDigests()
	if err != nil {
		return err
	}
	stands := standing(p, now, x.past.Steps(was), x.past.Undone)
	closing, kept := x.closing(given, r.Began())
	var hash []byte
	if given != nil {
		if hash = given.hash; kept == nil {
			return given.gone()
		}
	}
	what := journal.Redefined{Digest: p.Digest, Generation: x.past.Generation + 1, Kept: kept,
		Rules: journal.Rules(p.Rules())}
	if what.Unknown, err = x.past.Unknown(stands, false,
		func(pause string) bool { return x.isOpen(pause) && !given.to(pause) }); err != nil {
		return err
	}
	text, err := p.Definition()
	if err == nil && text != nil {
		what.Definition, err = value.Decode(text)
	}
	if err != nil {
		return err
	}
	r.Engine.Redefine(inputs, x.past, stands, closing, what)
	if err := x.write(r, hash); err != nil {
		return err
	}
	r.Hold()
	return nil
}

// goesOn refuses another definition for a run whose end is decided.
func (x *resumption) goesOn() error {
	left := ""
	switch x.past.Closing.(type) {
	case journal.Cancelled:
		left = "was cancelled, and only its rollbacks and its finally are left"
	case journal.FinallyBegun:
		left = "has ended but for its finally"
	default:
		return nil
	}
	return changed("run %q %s, which its own definition has\n  hint: resume it without the new one", x.runID, left)
}

// closing returns the events that end the pending pauses of a run whose definition changes. The answered pause comes
// first; its answer is kept for the new definition.
func (x *resumption) closing(given *answer, at time.Time) (events []journal.Event, kept []journal.KeptAnswer) {
	for i := range x.past.Last {
		opened, ok := x.past.Last[i].What.(journal.PauseOpened)
		if !ok || !x.isOpen(opened.Pause.ID) {
			continue
		}
		p := &opened.Pause
		if !given.to(p.ID) {
			events = append(events, journal.Event{At: at, Path: p.Step, What: journal.PauseClosed{Pause: p.ID}})
			continue
		}
		k := journal.KeptAnswer{Step: p.Step, Kind: p.Kind, Reason: p.Reason, Answer: given.value,
			Question: past.QuestionIn(p)}
		if opened.Agent != nil {
			k.About, k.Question = past.AboutOf(p), ""
		}
		kept = append(kept, k)
		answered := journal.PauseAnswered{Pause: p.ID, Next: resume.Answered, Answer: given.value}
		events = slices.Insert(events, 0, journal.Event{At: at, Path: p.Step, By: x.by(), What: answered})
	}
	return events, kept
}

// isOpen reports whether a pause is pending.
func (x *resumption) isOpen(pause string) bool {
	return slices.ContainsFunc(x.summary.Pauses, func(p checkpoint.Pause) bool { return p.ID == pause })
}

// standing decides which recorded steps a fork or a changed definition keeps: those that say the same now, with all
// that they follow from, and are not undone. digests are those of p, again has more steps that run again.
func standing(
	p *program.Program, digests, recorded map[string]string, undone []string, again ...string,
) map[string]bool {
	return resume.Decide(stepsOf(p, digests), recorded, slices.Concat(undone, again)...)
}

// stepsOf returns the steps of a program in the form that resume.Decide takes.
func stepsOf(p *program.Program, digests map[string]string) []resume.Step {
	var list []resume.Step
	received := program.AfterSends(p.Recipe)
	var add func(steps []program.PlanStep)
	add = func(steps []program.PlanStep) {
		for _, s := range steps {
			after := make([]string, len(s.Needs))
			for i, need := range s.Needs {
				after[i] = need.Step
			}
			list = append(list, resume.Step{Path: s.ID, Digest: digests[s.ID], After: append(after, received[s.ID]...)})
			add(s.Body)
			if s.Waits {
				wait, after := s.ID+"/"+recipe.WaitID, make([]string, len(s.Body))
				for i, inside := range s.Body {
					after[i] = inside.ID
				}
				list = append(list, resume.Step{Path: wait, Digest: digests[wait], After: after})
			}
		}
	}
	add(p.Steps)
	return list
}
