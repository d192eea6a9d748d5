package workflow

import (
	"context"

	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/runtime"
)

// ResumeOptions are the options for resuming a run. A nil *ResumeOptions is the zero value.
type ResumeOptions struct {
	// Workflow is used instead of the recipe that the store has; its digest must be the run's.
	// nil: the store's.
	Workflow *Workflow
	// AcceptChanged accepts a Workflow whose definition differs from the run's. Steps that changed,
	// and all steps that depend on them, run again. The others keep their results. The run keeps
	// the new definition.
	AcceptChanged bool
	// Complete refuses to resume the run, before anything is recorded, if a step that has not ended needs a model,
	// a tool or a secret that is not configured, or a tool that the host does not allow. The run can still be
	// resumed once it is configured. By default such a step fails when it starts, and so does the run.
	Complete bool
	// Force lets Cancel end a run although the outcome of a call is unknown, with a warning for each such call. By
	// default the run pauses to ask first. Force also lets Resume and Answer accept the decision retry while
	// processes of the call are still alive on this host. By default they refuse it (call.alive).
	Force bool
	// By says who acts: answers, sends, cancels, forks or recovers. It is recorded as given. "": Runtime.By.
	By string
}

// lowered returns the options in the form that package execution takes.
func (o *ResumeOptions) lowered() (lowered execution.Options) {
	if o == nil {
		return lowered
	}
	if o.Workflow != nil {
		lowered.Program = o.Workflow.program
	}
	lowered.AcceptChanged, lowered.Complete, lowered.Force, lowered.By = o.AcceptChanged, o.Complete, o.Force, o.By
	return lowered
}

// Resume answers the pause that token names and resumes the run. The recipe comes from the store. rt.Resume turns
// input into the answer. A nil rt is the zero Runtime, and a nil opts is the zero ResumeOptions. The Outcome is
// never nil, and the error is its Err: nil if the run is ok or paused again.
//
// If the token is unknown, used or expired, or rt.Store is not the store of the run, the error is
// resume.invalidToken. The token stays usable if nothing was recorded: the answer does not fit (answer.unfit),
// rt.Resume is nil (resume.noAdapter) or refuses the input (resume.refused), the definition of the recipe differs
// (resume.definitionChanged), or another process holds the run (run.busy).
func Resume(ctx context.Context, token string, input any, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	return outcomeOf(execution.Resume(ctx, token, input, rt, opts.lowered()))
}

// Answer is like Resume, for a host that owns the store: it names the pause instead of a token. The errors are
// those of Resume. If the pause is not pending, the error is resume.invalidToken.
func Answer(
	ctx context.Context, runID, pause string, input any, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	return outcomeOf(execution.Answer(ctx, runID, pause, input, rt, opts.lowered()))
}

// Recover resumes a run whose process died. It does not repeat recorded work. If the run has ended, Recover returns
// its outcome. If it is paused, it pauses again with fresh tokens, unless something is due.
//
// The Outcome is never nil, and the error is its Err: nil if the run is ok or paused. Recover has changed nothing if
// the error is run.notFound, run.busy or resume.definitionChanged. run.busy means that another process holds the
// run. A dead process holds it for up to 15 seconds if its death cannot be detected.
func Recover(ctx context.Context, runID string, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	return outcomeOf(execution.Recover(ctx, runID, rt, opts.lowered()))
}

// Cancel ends a paused or interrupted run for good: it rolls back what the run did and invalidates its tokens. The
// run cannot be resumed afterwards. reason is for people, "" for none. The Outcome has the status cancelled, which
// is also an error. If the run has ended already, Cancel returns its outcome. Cancel refuses a run that another
// execution holds (run.busy); cancel the context of that execution instead. Cancel also refuses another definition,
// even with opts.AcceptChanged (resume.definitionChanged), because the run's own definition says how to roll back.
//
// If the outcome of a call is unknown, the Outcome is paused. Its pause asks what became of the call, with the
// decisions result and fail. After the last answer the run is rolled back, and ends. opts.Force ends it at once.
//
// If ctx ends before everything is rolled back, the error is rollback.interrupted. Cancel or Recover then continues
// the rollback, and does nothing else.
func Cancel(ctx context.Context, runID, reason string, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	return outcomeOf(execution.Cancel(ctx, runID, reason, rt, opts.lowered()))
}

// Send sends a value to a channel of a paused or interrupted run, and resumes the run. The channel must be declared
// in the recipe's own file. To reach a channel of a sub-recipe, answer the pauses of its receive steps. value is
// anything that encodes as JSON.
//
// The value answers the pauses of the steps that receive it. If no step waits, a queue or a value channel keeps it, a
// topic drops it, and the run pauses again. Send has changed nothing if the Outcome's error is channel.unknown,
// channel.closed (the run is over), channel.full or run.busy (another execution holds the run).
func Send(
	ctx context.Context, runID, channel string, value any, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	return outcomeOf(execution.Send(ctx, runID, channel, value, rt, opts.lowered()))
}

// Edits are the changes of a fork to the run that it comes from. The zero Edits changes nothing.
type Edits struct {
	Inputs  map[string]any // replace the inputs of the run; nil: the same
	Outputs map[string]any // replace outputs of finished steps, by path; nil: the same
}

// Fork starts a new run from the record of another run. The step atStep and all steps that depend on it run again.
// All other steps that succeeded keep their results. If the inputs are changed, every step runs again. The old run
// is not changed; it may be paused, interrupted or ended. Outcome.RunID is the id of the new run.
//
// The Outcome is never nil, and the error is its Err: nil if the new run is ok or paused. No run was started if the
// error is run.notFound, fork.unknownStep (atStep or Edits.Outputs), resume.definitionChanged or input.invalid.
func Fork(
	ctx context.Context, runID, atStep string, edits Edits, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	return outcomeOf(execution.Fork(ctx, runID, atStep, edits.Inputs, edits.Outputs, rt, opts.lowered()))
}

// Resume is like the function [Resume], for a run of this workflow. It refuses a run with another digest
// (resume.definitionChanged).
func (wf *Workflow) Resume(ctx context.Context, token string, input any, rt *runtime.Runtime) (*Outcome, error) {
	return Resume(ctx, token, input, rt, &ResumeOptions{Workflow: wf})
}

// Recover is like the function [Recover], for a run of this workflow. It refuses a run with another digest
// (resume.definitionChanged).
func (wf *Workflow) Recover(ctx context.Context, runID string, rt *runtime.Runtime) (*Outcome, error) {
	return Recover(ctx, runID, rt, &ResumeOptions{Workflow: wf})
}
