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
	// the new definition. A run that was cancelled, or has only its finally left, takes no other one
	// (resume.definitionChanged).
	AcceptChanged bool
	// Complete refuses to resume the run, before anything is recorded, if a step that has not ended needs a model,
	// a tool or a secret that is not configured, or a tool that the host does not allow. The run can still be
	// resumed once it is configured. By default such a step fails when it starts, and so does the run.
	Complete bool
	// Force lets Cancel end a run although the outcome of a call is unknown, with a warning for each such call. By
	// default the run pauses to ask first. Force also lets Resume and Answer accept the decision retry while
	// processes of the call are still alive on this host. By default they refuse it (call.alive).
	Force bool
	// Unattended is for workers: nobody has asked for this execution. It refuses a run that has ended (run.ended), and
	// one whose last three executions recorded nothing (run.poison), for it may be what ends its process. Executions
	// with a By, or that a signal asked for, do not count. Recover such a run without it.
	Unattended bool
	// Refused is why an Unattended execution was refused before; nothing was recorded since, and no signal came. While
	// that still holds, the run is refused with it again, and is not claimed for this. nil: it was not.
	Refused error
	// Compiled keeps the recipe that the store has, for other resumptions. nil: it is compiled for this one.
	Compiled *Compiled
	// By says who acts: answers, sends, cancels, forks or recovers. It is recorded as given. "": Runtime.By.
	By string
	// Groups are the groups of who acts, as the host names them. Answer compares them with the people who may answer,
	// see [resume.Pause.Allows]. nil: none.
	Groups []string
}

// lowered returns the options in the form that package execution takes.
func (o *ResumeOptions) lowered() (lowered execution.Options) {
	if o == nil {
		return lowered
	}
	if o.Workflow != nil {
		lowered.Program = o.Workflow.program
	}
	if o.Compiled != nil {
		lowered.Programs = &o.Compiled.programs
	}
	lowered.AcceptChanged, lowered.Complete, lowered.Force = o.AcceptChanged, o.Complete, o.Force
	lowered.Unattended, lowered.Refused, lowered.By, lowered.Groups = o.Unattended, o.Refused, o.By, o.Groups
	return lowered
}

// Resume answers the pause that token names and resumes the run. Whoever has the token may answer. The recipe comes
// from the store. rt.Resume turns input into the answer. A nil rt is the zero Runtime, and a nil opts is the zero
// ResumeOptions. The Outcome is never nil, and the error is its Err: nil if the run is ok or paused again.
//
// If the token is unknown, used or expired, or rt.Store is not the store of the run, the error is
// resume.invalidToken. The token stays usable if nothing was recorded: the answer does not fit (answer.unfit),
// rt.Resume is nil (resume.noAdapter) or refuses the input (resume.refused), the definition of the recipe differs
// (resume.definitionChanged), or another process holds the run (run.busy).
func Resume(ctx context.Context, token string, input any, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	return outcomeOf(execution.Resume(ctx, token, input, rt, opts.lowered()))
}

// Answer is like Resume, for a host that owns the store: it names the pause instead of a token. The errors are
// those of Resume. If the pause is not pending, the error is pause.answered, which says by whom and when, or else
// resume.invalidToken. If opts.By, with opts.Groups, may not answer the pause, the error is answer.notAllowed, and
// nothing was recorded.
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
// execution holds (run.busy); Signal reaches it. Cancel also refuses another definition,
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
	Outputs map[string]any // replace outputs of finished calls and answers, by path; nil: the same
}

// Fork starts a new run from the record of another run. The step atStep and all steps that depend on it run again.
// All other steps that succeeded keep their results. If the inputs are changed, every step runs again. The old run
// is not changed; it may be paused, interrupted or ended. Outcome.RunID is the id of the new run.
//
// The Outcome is never nil, and the error is its Err: nil if the new run is ok or paused. No run was started if the
// error is run.notFound, resume.definitionChanged, input.invalid, or one that [Workflow.CheckFork] returns.
func Fork(
	ctx context.Context, runID, atStep string, edits Edits, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	return outcomeOf(execution.Fork(ctx, runID, atStep, edits.Inputs, edits.Outputs, rt, opts.lowered()))
}

// Affected returns the steps that a fork at a step with these edits would run again, in plan order, by their paths in
// the plan. It assumes a run of this workflow in which every step succeeded. In another run, Fork also runs what has no
// result yet.
//
// A step is among them if a step of its body is; Fork keeps what stands in the body. An edited output replaces that of
// a call or an answer. Fork refuses it for a step that waits for one that runs again.
//
// step, and the paths in the edits, may be those of a run (see [PlanID]). The result is nil if [Workflow.CheckFork]
// returns an error for them.
func (wf *Workflow) Affected(step string, edits Edits) []string {
	return execution.Again(wf.program, step, edits.Inputs, edits.Outputs)
}

// CheckFork returns why a fork at a step with these edits would be refused, whatever has happened in the run; nil: it
// would not. The error is a *runtime.Error: fork.unknownStep if step, or a path in Edits.Outputs, is not in the plan,
// fork.computed if an output is that of a step that only computes or has a body, or of a foreach or a loop without the
// number of an item or a round, or if there are inputs, too: then every step runs again. Fork also refuses an output
// of a step that runs again (fork.computed), and one that is no answer to its pause (answer.unfit).
func (wf *Workflow) CheckFork(step string, edits Edits) error {
	return execution.CheckFork(wf.program, step, edits.Inputs, edits.Outputs)
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
