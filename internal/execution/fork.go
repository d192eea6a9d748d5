package execution

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Fork starts a run from the record of another run before a step. inputs, and outputs by path, replace those of the
// other run; nil: they are the same.
func Fork(
	ctx context.Context, runID, atStep string, inputs, outputs map[string]any, rt *runtime.Runtime, o Options,
) *local.End {
	x := newResumption(ctx, runID, "", rt, o)
	return x.opened(func() (*local.End, error) {
		f, err := x.fork(atStep, inputs, outputs, Queued{})
		if err != nil {
			return nil, err
		}
		return local.Drive(x.ctx, f.spec, f.begin), nil
	})
}

// forked is a run that begins as a fork of the one of x.
type forked struct {
	x       *resumption
	spec    *local.Spec
	atStep  string
	given   map[string]any // inputs; nil: those of the other run
	outputs map[string]any
	digests map[string]string // of the steps of the program
	was     map[string]string // of the steps of the other run
	q       Queued
}

// fork returns the new run. The run that it is forked from need not be held.
func (x *resumption) fork(atStep string, given, outputs map[string]any, q Queued) (*forked, error) {
	if err := x.load(); err != nil {
		return nil, err
	}
	if x.summary.Status == checkpoint.Queued {
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "fork.queued",
			Err: fmt.Errorf("run %q waits in a queue, and nothing of it has run\n  hint: start another run", x.runID)}
	}
	p, err := x.program()
	if err != nil {
		return nil, err
	}
	digests, was, err := x.digests(p)
	if err != nil {
		return nil, err
	}
	if err := CheckFork(p, atStep, given, outputs); err != nil {
		return nil, err
	}
	s := specOf(p, x.rt, x.by())
	s.Breakpoints = x.past.Breakpoints // what they hold up decides what else the other run does
	return &forked{x, s, atStep, given, outputs, digests, was, q}, nil
}

// begin checks the run and starts it.
func (f *forked) begin(r *local.Run) error {
	given := f.given
	if given == nil {
		given = f.x.past.Begun.Inputs
	}
	inputs, err := open(r, f.spec, f.q.RunID, given)
	if err != nil {
		return err
	}
	r.Start()
	if f.given != nil {
		return ledger.Error(f.anew(r, inputs))
	}
	return ledger.Error(f.share(r, inputs))
}

// anew begins a fork with other inputs: it shares nothing.
func (f *forked) anew(r *local.Run, inputs map[string]any) error {
	if err := f.q.complete(r, nil); err != nil {
		return err
	}
	unknown, err := f.x.past.Unknown(nil, true, f.x.isOpen)
	if err == nil {
		err = begin(r, f.spec, inputs, f.q.run(f.x.runID), unknown)
	}
	if err != nil || f.x.rt.NewRunID == nil || f.q.Is {
		return err
	}
	return r.Flush()
}

// share begins a fork that shares what stands of the other run.
func (f *forked) share(r *local.Run, inputs map[string]any) error {
	x, p := f.x, f.spec.Program
	outputs, err := fitting(p, x.past.Last, f.outputs, f.q.Dry)
	if err != nil {
		return err
	}
	// Steps that the fork neither names nor runs again because of those.
	elsewhere := standing(p, f.digests, x.past.Steps(f.digests), nil, f.atStep)
	maps.DeleteFunc(elsewhere, func(path string, _ bool) bool { return slices.Contains(x.past.Undone, path) })
	unknown, err := x.past.Unknown(elsewhere, true, x.isOpen)
	if err == nil {
		err = begin(r, f.spec, inputs, f.q.run(x.runID), unknown)
	}
	if err != nil {
		return err
	}
	if err := r.Caller.Content.Share(r.Context(), past.Files(x.past.Last)); err != nil {
		return err
	}
	stands := standing(p, f.digests, x.past.Steps(f.was), x.past.Undone, f.atStep)
	for path := range outputs {
		stands[path] = true
	}
	if unused := r.Engine.Share(x.past.Last, stands, outputs, 0); unused != nil {
		return computedAgain(unused[0], "it has no output to replace in the other run, or runs again as it waits"+
			" for a step that does\n  hint: leave the output out, or fork at a step after it")
	}
	if f.q.Is {
		return f.q.complete(r, r.Engine.View().Ended())
	}
	return r.Flush()
}

// digests returns the digests of the steps of a program, and of the recipe of the run until now.
func (x *resumption) digests(p *program.Program) (now, was map[string]string, err error) {
	if now, err = p.Recipe.StepDigests(); err != nil || x.old == nil {
		return now, now, err
	}
	was, err = x.old.StepDigests()
	return now, was, err
}

// fitting returns the outputs of a fork, those that replace answers in the form in which they are recorded. The error
// says that a pause of events would not have taken one. any: an output that is nil stands for any.
func fitting(
	p *program.Program, events []journal.Event, outputs map[string]any, any bool,
) (map[string]any, error) {
	steps := map[string]*program.PlanStep{}
	indexSteps(steps, p.Steps)
	fit, pauses := maps.Clone(outputs), map[string]resume.Pause{}
	for i := range events {
		path := events[i].Path
		switch what := events[i].What.(type) {
		case journal.PauseOpened:
			pauses[what.Pause.ID] = what.Pause
		case journal.PauseAnswered:
			p := pauses[what.Pause]
			given, edited := outputs[path]
			step := steps[resume.DefinitionPath(path)]
			if !edited || step == nil || step.Uses != "human" && step.Uses != "wait" || p.Kind == resume.System ||
				any && given == nil {
				continue
			}
			v, err := p.Check(given)
			if err != nil {
				return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "answer.unfit", Step: path, Err: err}
			}
			fit[path] = v
		}
	}
	return fit, nil
}

// computedAgain is the error for an output of a fork that the step does not take.
func computedAgain(path, why string) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "fork.computed", Step: path, Err: errors.New(why)}
}

// CheckFork returns why a fork with other inputs and outputs cannot begin, whatever has happened in the run; nil: it
// can.
func CheckFork(p *program.Program, atStep string, inputs, outputs map[string]any) error {
	steps := map[string]*program.PlanStep{}
	indexSteps(steps, p.Steps)
	for _, path := range slices.Concat([]string{atStep}, slices.Sorted(maps.Keys(outputs))) {
		step := steps[resume.DefinitionPath(path)]
		if step == nil {
			return &runtime.Error{Category: runtime.CategoryConfig, Code: "fork.unknownStep",
				Err: unknownStep(p, path, steps)}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(outputs)) {
		why := ""
		if inputs != nil {
			why = "with other inputs every step runs again\n  hint: leave inputs or outputs out"
		} else if kind := steps[resume.DefinitionPath(path)].Uses; slices.Contains(computed, kind) {
			why = fmt.Sprintf("a step of kind %s computes its output in the fork, too"+
				"\n  hint: give the outputs of the calls and answers that it computes with", kind)
		} else if each := unnumbered(steps, path); each != "" {
			why = fmt.Sprintf("the path is that of several steps, as %q has items or rounds"+
				"\n  hint: give the output of each, by its path: %[1]s[0] is an item, %[1]s#1 a round", each)
		}
		if why != "" {
			return computedAgain(path, why)
		}
	}
	return nil
}

// unknownStep is the error for the path of a step that a program does not have.
func unknownStep(p *program.Program, path string, steps map[string]*program.PlanStep) error {
	known := slices.Sorted(maps.Keys(steps))
	return fmt.Errorf("recipe %q has no step %q%s", p.Recipe.Name, path,
		program.HintLine(diagnostics.DidYouMean(resume.DefinitionPath(path), known)))
}

// unnumbered returns the foreach or loop of which a path has no item or round; "": none.
func unnumbered(steps map[string]*program.PlanStep, path string) string {
	for end := range len(path) + 1 {
		if end < len(path) && path[end] != '/' {
			continue
		}
		step := steps[resume.DefinitionPath(path[:end])]
		switch name := path[strings.LastIndexByte(path[:end], '/')+1 : end]; {
		case step == nil: // a branch or a case
		case step.Foreach && !strings.Contains(name, "["), step.Uses == "loop" && !strings.Contains(name, "#"):
			return step.ID
		}
	}
	return ""
}

func indexSteps(index map[string]*program.PlanStep, steps []program.PlanStep) {
	for i := range steps {
		index[steps[i].ID] = &steps[i]
		indexSteps(index, steps[i].Body)
	}
}

// computed are the kinds of steps whose output no record has: a fork computes it.
var computed = []string{"set", "recipe", "loop", "fork", "switch", "fail", "send", "receive"}

// Again returns the steps that a fork runs again of a run in which all succeeded, in plan order. The arguments are
// those of Fork. The result is nil if the fork would refuse one of the steps.
func Again(p *program.Program, atStep string, inputs, outputs map[string]any) []string {
	digests, err := p.Recipe.StepDigests()
	if err != nil || CheckFork(p, atStep, inputs, outputs) != nil {
		return nil
	}
	stands := map[string]bool{} // with other inputs a fork shares nothing
	if inputs == nil {
		stands = standing(p, digests, digests, nil, atStep)
	}
	list, late := []string{}, map[string]bool{} // late: what has not ended when the fork has all that it shares
	var add func(steps []program.PlanStep, takes bool) bool
	add = func(steps []program.PlanStep, takes bool) (someLate bool) { // takes: they can take the outputs of a fork
		for i := range steps {
			s := &steps[i]
			waits := slices.ContainsFunc(s.Needs, func(e program.Edge) bool { return late[e.Step] })
			takes := takes && !waits && !s.Foreach && inputs == nil // items have paths of their own
			_, given := outputs[s.ID]
			runs := !stands[s.ID] && !(given && takes)
			if runs {
				list = append(list, s.ID)
			}
			inside := add(s.Body, takes && s.Uses != "loop")
			late[s.ID] = runs && (waits || inside || len(s.Body) == 0 && s.Uses != "set")
			someLate = someLate || late[s.ID]
		}
		return someLate
	}
	add(p.Steps, true)
	return list
}
