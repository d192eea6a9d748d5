package workflow

import (
	"context"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/execution"
)

// SignalOptions are the options of Signal. A nil *SignalOptions is the zero value.
type SignalOptions struct {
	Groups []string // of who signals, for pauses that only certain people may answer; nil: none
	// Vouched lets an answer through whoever gives it: the caller has checked that, by a token of the pause say.
	Vouched bool
	// Wait is how long Signal waits, once it has left the signal, for the run to record that it carried it out: an
	// error signal.dropped says that it no longer applied and why, signal.open that it is still left. Nobody waits for
	// a take. 0: it does not wait.
	Wait time.Duration
}

// Signal leaves a signal for the process that executes a run, or will: an answer, a cancellation, a value for a
// channel, a note to an agent, or the wish that a worker resume it. The kinds and the members of their data
// are those of [checkpoint.Signal]. Nobody has to hold the run; a process that holds it takes the signal within a
// second, or six if it is another one. The signal is durable when Signal returns without an error. The store must
// be a [checkpoint.Signals], as all stores of this module are.
//
// Signal checks what the journal tells: a pause is open and the answer fits it, a channel exists. What only the run
// itself can tell is checked when it takes the signal; one that does not apply is dropped, and the journal says why.
// An answer does not go through Runtime.Resume. Signal fills in At, and ID if it is empty.
//
// The error is a *runtime.Error: run.notFound, run.ended (the run is over), signal.invalid (its kind or data),
// signal.exists (the run had one with this ID), pause.answered (by whom, and when), resume.invalidToken (no such
// pause), resume.questionChanged, answer.unfit, answer.notAllowed, call.alive or channel.unknown. Then nothing was
// left. SignalOptions.Wait has two more.
func Signal(
	ctx context.Context, runID string, s checkpoint.Signal, store checkpoint.Store, o *SignalOptions,
) error {
	if o == nil {
		o = &SignalOptions{}
	}
	return execution.Signal(ctx, runID, s, store, execution.Options{Groups: o.Groups, Vouched: o.Vouched, Wait: o.Wait})
}

// Mint returns a new token for an open pause of a run, and records its hash. The tokens that the pause has stay good.
// The error is a *runtime.Error: run.notFound, resume.invalidToken (no such pause), pause.answered (by a signal), or
// run.busy while a process holds the run.
func Mint(ctx context.Context, runID, pause string, store checkpoint.Store) (token string, err error) {
	return execution.Mint(ctx, runID, pause, store)
}
