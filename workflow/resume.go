package workflow

import (
	"context"

	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/runtime"
)

// ResumeOptions are what going on with a run may need beside the store. A nil *ResumeOptions is the
// zero value.
type ResumeOptions struct {
	// Workflow is used instead of the recipe that the store has; its digest must be the run's.
	// nil: the store's.
	Workflow *Workflow
	// AcceptChanged lets Workflow be another definition than the run has: steps that say something
	// else now, and all that follows from them, run again, and the rest stands. The run keeps the
	// new definition.
	AcceptChanged bool
	// Complete refuses to go on, before anything is recorded, while something is not there that a step needs
	// which has not ended: a model, a tool, also one that the host does not allow, a secret. Where it is there, the run
	// can still be gone on with. By
	// default such a step fails when its turn comes, and the run with it.
	Complete bool
	// Force lets Cancel end a run although it is not known whether a call had its effect, with a warning for each
	// such call. By default somebody is asked first. Resume and Answer then accept retry although processes of the
	// call still live on this host, which they refuse by default (call.alive).
	Force bool
	// By is who does it: answers, sends, cancels, forks, goes on. It is recorded, as the host words it. "": Runtime.By.
	By string
}

// lowered are the options as an execution takes them.
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

// Resume answers one pause, by its token, and goes on with the run; the recipe comes from the
// store. input goes through rt.Resume, which makes the answer of it. A nil rt is the zero Runtime, and a
// nil opts the zero ResumeOptions. The Outcome is never nil, and the error is its Err: nil when the run is ok
// or paused again.
//
// A token that is unknown, used or expired is resume.invalidToken, also where rt.Store is not the store of the
// run. As long as nothing was recorded the token stays usable: with an answer that does not fit (answer.unfit),
// without rt.Resume (resume.noAdapter), when it refuses (resume.refused), with another definition of the recipe
// (resume.definitionChanged), or while somebody else holds the run (run.busy).
func Resume(ctx context.Context, token string, input any, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	return outcomeOf(execution.Resume(ctx, token, input, rt, opts.lowered()))
}

// Answer is Resume for a host that owns the store: it names the pause instead of a token. The errors are those
// of Resume; a pause that is not open is resume.invalidToken.
func Answer(
	ctx context.Context, runID, pause string, input any, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	return outcomeOf(execution.Answer(ctx, runID, pause, input, rt, opts.lowered()))
}

// Recover goes on with a run whose process died: what is in the record is not done again. Of a run
// that has ended it returns the outcome; a paused one pauses again, with fresh tokens, unless
// something is due.
//
// The Outcome is never nil, and the error is its Err: nil when the run is ok or paused. Nothing has happened when
// it is run.notFound, run.busy (somebody holds the run; a dead process does for 15 seconds where its death cannot
// be seen) or resume.definitionChanged.
func Recover(ctx context.Context, runID string, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	return outcomeOf(execution.Recover(ctx, runID, rt, opts.lowered()))
}

// Cancel ends a run for good that is paused or was interrupted: what it did is rolled back, its tokens
// die, and nobody can go on with it. reason is for people, "" for none. The Outcome has the status
// cancelled, which is also an error; of a run that has ended already it is the outcome that it had. A
// run that somebody works on is refused (run.busy): its context ends it. So is another definition, also
// with opts.AcceptChanged (resume.definitionChanged): the run is rolled back as its own says.
//
// If it is not known whether a call had its effect, the Outcome is paused: it asks what became of the call, with the
// decisions result and fail. After the last answer the run is rolled back, and ends. opts.Force ends it at once.
//
// When ctx ends before everything was rolled back, the error is rollback.interrupted: Cancel or Recover
// goes on with it, and with nothing else.
func Cancel(ctx context.Context, runID, reason string, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	return outcomeOf(execution.Cancel(ctx, runID, reason, rt, opts.lowered()))
}

// Send puts a value into a channel of a run that waits or was interrupted, and goes on with the run. The
// channel is one of the recipe's own file; those of sub-recipes are reached by answering the pauses of
// their receive steps. value is anything that is JSON.
//
// The value answers the pauses of the steps that get it. When nobody waits, a queue or a value channel
// keeps it, a topic does not, and the run pauses again. Nothing has happened when the Outcome's error
// is channel.unknown, channel.closed (the run is over), channel.full, or run.busy (somebody works on the
// run).
func Send(
	ctx context.Context, runID, channel string, value any, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	return outcomeOf(execution.Send(ctx, runID, channel, value, rt, opts.lowered()))
}

// Edits are what a fork has otherwise than the run that it comes from. The zero Edits changes
// nothing.
type Edits struct {
	Inputs  map[string]any // in place of those of the run; nil: the same
	Outputs map[string]any // of finished steps, by path, in place of what they gave; nil: the same
}

// Fork begins a new run that shares with another one what was recorded before a step: the step and
// all that follows from it run again, everything else that had succeeded stands. With other inputs
// nothing stands. The old run is not touched; it may be paused, over, or interrupted. The new run's
// id is the outcome's.
//
// The Outcome is never nil, and the error is its Err: nil when the new run is ok or paused. No run was begun
// when it is run.notFound, fork.unknownStep (of atStep or Edits.Outputs), resume.definitionChanged or input.invalid.
func Fork(
	ctx context.Context, runID, atStep string, edits Edits, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	return outcomeOf(execution.Fork(ctx, runID, atStep, edits.Inputs, edits.Outputs, rt, opts.lowered()))
}

// Resume is the package's Resume for a run of this workflow: one with another digest is refused
// (resume.definitionChanged).
func (wf *Workflow) Resume(ctx context.Context, token string, input any, rt *runtime.Runtime) (*Outcome, error) {
	return Resume(ctx, token, input, rt, &ResumeOptions{Workflow: wf})
}

// Recover is the package's Recover for a run of this workflow: one with another digest is refused
// (resume.definitionChanged).
func (wf *Workflow) Recover(ctx context.Context, runID string, rt *runtime.Runtime) (*Outcome, error) {
	return Recover(ctx, runID, rt, &ResumeOptions{Workflow: wf})
}
