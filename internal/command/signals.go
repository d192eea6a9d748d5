package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/braise-run/braise/host"
)

// interruptible returns a context that the first SIGINT or SIGTERM cancels; the second ends the
// process. why returns the first; nil if there was none.
func (a *app) interruptible(ctx context.Context) (_ context.Context, stop func(), why func() *stopped) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.cancel.Store(&cancel)
	stop = func() { a.cancel.Store(nil); cancel(nil) }
	return ctx, stop, func() *stopped {
		reason, _ := context.Cause(ctx).(*stopped)
		return reason
	}
}

// watchSignals ends the process on SIGINT and SIGTERM, unless there is something to cancel.
func (a *app) watchSignals() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			reason := interrupted
			if s == syscall.SIGTERM {
				reason = terminated
			}
			cancel := a.cancel.Swap(nil)
			if cancel == nil {
				os.Exit(reason.code)
			}
			(*cancel)(reason)
		}
	}()
}

// stopped is the signal that ended a run, and the exit code that goes with it. It is a
// context.Canceled.
type stopped struct {
	what string
	code int
}

var (
	interrupted = &stopped{"interrupted", host.ExitInterrupt}
	terminated  = &stopped{"terminated", host.ExitCancelled}
)

func (s *stopped) Error() string { return s.what }

func (s *stopped) Is(target error) bool { return target == context.Canceled }
