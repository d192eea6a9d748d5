package workflow

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// Options are the options of Compile. A nil *Options is the zero Options.
type Options struct {
	// Tools describes the tools that runs will have. Compile checks tool names and literal
	// arguments against them. nil: both are checked when a run starts.
	Tools []runtime.ToolSpec
	// Agents are agents that are written in Go, by the names that steps and delegates of the recipe use. An agent of
	// the recipe with the same name wins. Those that the recipe may run count for its digest, each by its own. nil:
	// there are none.
	Agents map[string]*agentloop.Loop
}

// Workflow is a compiled recipe. It is immutable and safe for concurrent runs.
type Workflow struct {
	// Diagnostics are the warnings of a successful compile, including those of the recipe.
	Diagnostics diagnostics.List

	program *program.Program
}

// MaxSteps limits the steps of a recipe. The steps of bodies and sub-recipes count once for
// each place that uses them.
const MaxSteps = program.MaxSteps

// Compile turns a recipe into a Workflow:
//
//  1. index the names of each body
//  2. compile the expressions, which gives the edges: needs and references
//  3. put the steps in order, or print the cycle that prevents it
//  4. lower the steps to the machine's nodes
//  5. check tool names and arguments against opts.Tools
//
// The error is a *diagnostics.Error that holds every diagnostic, including warnings and those of
// reading r. If reading r reported errors, Compile goes as far as it can to collect diagnostics,
// and then fails. For a nil recipe, or an agent in opts.Agents that is not valid, the error is of another type.
func Compile(r *recipe.Recipe, opts *Options) (*Workflow, error) {
	if r == nil {
		return nil, errors.New("there is no recipe to compile" +
			program.HintLine("look at the error of recipe.Load or recipe.Parse"))
	}
	if opts == nil {
		opts = &Options{}
	}
	return newWorkflow(program.Compile(r, opts.Tools, opts.Agents))
}

func newWorkflow(p *program.Program, err error) (*Workflow, error) {
	if err != nil {
		return nil, err
	}
	return &Workflow{Diagnostics: p.Found, program: p}, nil
}

// Name returns the recipe's name.
func (wf *Workflow) Name() string { return wf.program.Recipe.Name }

// Recipe returns the recipe that was compiled. It must not be modified.
func (wf *Workflow) Recipe() *recipe.Recipe { return wf.program.Recipe }

// Definition returns the recipe as a store keeps it, see [recipe.Recipe.Definition]. The error says that it cannot be
// kept: an agent in Go cannot.
func (wf *Workflow) Definition() (json.RawMessage, error) { return wf.program.Definition() }

// Compiled keeps workflows of the recipes that a store has: those that were compiled last. Resumptions that share one
// compile a recipe once, see [ResumeOptions]. The zero Compiled is ready. It is safe for concurrent use, and must not
// be copied after its first use.
type Compiled struct{ programs program.Cache }

// Load returns the workflow of the recipe with a digest. What an earlier version let through is no error. The error is
// the store's, checkpoint.ErrNotFound if no run brought the recipe, or a *runtime.Error with the code recipe.invalid if
// this version cannot compile it.
func (c *Compiled) Load(ctx context.Context, store checkpoint.Store, digest string) (*Workflow, error) {
	return newWorkflow(execution.Stored(ctx, store, digest, nil, program.Now, &c.programs))
}
