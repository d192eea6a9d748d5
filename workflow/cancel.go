package workflow

import (
	"context"
	"strings"

	"github.com/braise-run/braise/runtime"
)

// Cancel ends a run for good that is paused or was interrupted: what it did is rolled back, its tokens
// die, and nobody can go on with it. reason is for people, "" for none. The Outcome has the status
// cancelled, which is also an error; of a run that has ended already it is the outcome that it had. A
// run that somebody works on is refused (run.busy): its context ends it.
//
// If it is not known whether a call had its effect, the Outcome is paused: it asks what became of the call, with the
// decisions result and fail. After the last answer the run is rolled back, and ends. opts.Force ends it at once.
//
// When ctx ends before everything was rolled back, the error is rollback.interrupted: Cancel or Recover
// goes on with it, and with nothing else.
func Cancel(ctx context.Context, runID, reason string, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID, recover: true, cancel: &reason}
	return l.apart(func() (*Outcome, error) { return l.run(nil) })
}
