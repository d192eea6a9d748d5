// Package workflow compiles recipes and runs them.
//
// [Compile] turns a recipe into a [Workflow], an immutable DAG; [Workflow.Run] executes it with a
// [runtime.Runtime] and returns an [Outcome], whatever happens.
package workflow

import (
	"errors"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// Options are what Compile may know beside the recipe. A nil *Options is the zero Options.
type Options struct {
	// Tools describes the tools that runs will have: names and literal arguments are checked
	// against them. nil: both are checked when a run starts.
	Tools []runtime.ToolSpec
}

// Workflow is a compiled recipe. It is immutable and safe for concurrent runs.
type Workflow struct {
	// Diagnostics are the warnings of a good compile, the recipe's among them.
	Diagnostics diagnostics.List

	program *program.Program
}

// MaxSteps bounds the steps of a recipe, those of its bodies and sub-recipes counted at every
// place where they stand.
const MaxSteps = program.MaxSteps

// Compile turns a recipe into a Workflow:
//
//  1. index the names of each body
//  2. compile the expressions, which gives the edges: needs and references
//  3. put the steps in order, or print the cycle that prevents it
//  4. lower the steps to the machine's nodes
//  5. check what is known of the tools
//
// The error is a *diagnostics.Error that holds every finding, those of reading r and warnings
// included. A recipe that was not read without errors is compiled as far as it goes, for the
// findings, and refused. For a nil recipe the error is another one.
func Compile(r *recipe.Recipe, opts *Options) (*Workflow, error) {
	if r == nil {
		return nil, errors.New("there is no recipe to compile" +
			program.HintLine("look at the error of recipe.Load or recipe.Parse"))
	}
	if opts == nil {
		opts = &Options{}
	}
	return newWorkflow(program.Compile(r, opts.Tools, false))
}

func newWorkflow(p *program.Program, err error) (*Workflow, error) {
	if err != nil {
		return nil, err
	}
	return &Workflow{Diagnostics: p.Found, program: p}, nil
}

// Name returns the recipe's name.
func (wf *Workflow) Name() string { return wf.program.Recipe.Name }

// Recipe returns the recipe that was compiled. Nobody may change it.
func (wf *Workflow) Recipe() *recipe.Recipe { return wf.program.Recipe }
