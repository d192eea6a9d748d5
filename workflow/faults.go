package workflow

import (
	"cmp"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"

	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/runtime"
)

// panicError is a panic of an adapter. The stack is for the trace, not for the message.
type panicError struct {
	text  string
	stack string
}

func (e *panicError) Error() string { return e.text }

// panicked words what a deferred function of the call has recovered; nil means that the adapter ended
// its goroutine.
func (in *invocation) panicked(p any) error {
	text := in.named() + " ended its goroutine"
	if p != nil {
		text = fmt.Sprintf("panic in %s: %v", in.named(), p)
	}
	return &panicError{text: in.run.prepared.redact.Text(text), stack: stack()}
}

// stack prints the frames of a panic between the recover and the engine's own: functions and
// lines only, so that equal runs give equal traces.
func stack() string {
	var pcs [64]uintptr
	frames := goruntime.CallersFrames(pcs[:goruntime.Callers(4, pcs[:])])
	var b strings.Builder
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "github.com/braise-run/braise/workflow.(*invocation)") {
			break
		}
		if !strings.HasPrefix(f.Function, "runtime.") {
			fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			break
		}
	}
	return b.String()
}

// fault words an error of the call for the machine, secrets out. Only the run itself can be
// cancelled: an adapter that says so of its own is one that failed.
func (in *invocation) fault(err error) *machine.Failure {
	_ = err.Error() // one that panics does so here, inside the call
	if p, ok := errors.AsType[*panicError](err); ok {
		return &machine.Failure{Category: in.call.Kind.Category(), Code: "step.panic", Err: p}
	}
	f := &machine.Failure{Category: in.call.Kind.Category(), Code: string(in.call.Kind) + ".failed",
		Err: in.run.prepared.redact.Error(err)}
	var known *runtime.Error
	switch {
	case errors.As(err, &known) && known.Category != "" && known.Category != runtime.CategoryCancelled:
		f.Category, f.Code = string(known.Category), cmp.Or(known.Code, f.Code)
	case in.run.ctx.Err() != nil:
		f.Category, f.Code = string(runtime.CategoryCancelled), "step.cancelled"
	}
	return f
}
