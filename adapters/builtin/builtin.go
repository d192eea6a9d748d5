// Package builtin provides the tools that every recipe may use: http.request, exec.run, file.read and
// file.write. The host that makes them decides what they may access, never a recipe: an address, a program
// or a path that is not allowed is refused, and a refusal is never retried.
package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// The defaults of the options.
const (
	DefaultTimeout  = 30 * time.Second
	DefaultMaxBytes = 4 << 20
)

// Options say what the built-in tools may do.
type Options struct {
	HTTP *HTTPOptions // nil: the zero HTTPOptions, public addresses only
	Exec *ExecOptions // nil: exec.run is offered, and refuses every call
	File *FileOptions // nil: file.read and file.write are offered, and refuse every call
}

// Tools returns the four tools. A tool that opts does not allow is returned too, so that its
// name and arguments are checked, and says when it is called how a host allows it.
func Tools(opts Options) []runtime.Tool {
	var (
		web     HTTPOptions
		program ExecOptions
		file    FileOptions
	)
	if opts.HTTP != nil {
		web = *opts.HTTP
	}
	if opts.Exec != nil {
		program = *opts.Exec
	}
	if opts.File != nil {
		file = *opts.File
	}
	read, write := FileRead(file), FileWrite(file)
	run := ExecRun(program)
	if opts.File == nil {
		const how = "a host allows it by tools.file.base in braise.yaml"
		read, write = off{read.(ours), how}, off{write.(ours), how}
	}
	if len(program.Allow) == 0 {
		run = off{run.(ours), "a host allows programs by tools.exec.allow in braise.yaml"}
	}
	return []runtime.Tool{HTTPRequest(web), run, read, write}
}

// off is a tool that the host has not switched on.
type off struct {
	ours
	how string // a host allows it
}

// ours is what every tool of this package is.
type ours interface {
	runtime.Tool
	Builtin()
}

func (t off) Spec() runtime.ToolSpec {
	spec := t.ours.Spec()
	spec.Off = t.how
	return spec
}

func (t off) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return nil, refuse("%s is not allowed here\n  hint: %s", t.Spec().Name, t.how)
}

// tool is a runtime.Tool whose arguments are the members of In.
type tool[In any] struct {
	spec runtime.ToolSpec
	call func(context.Context, In) (any, error)
}

// Builtin marks the tool as one that every installation has.
func (t tool[In]) Builtin() {}

func (t tool[In]) Spec() runtime.ToolSpec {
	spec := t.spec
	spec.Parameters = slices.Clone(spec.Parameters)
	return spec
}

func (t tool[In]) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	in, err := decode[In](args)
	if err != nil {
		return nil, refuse("arguments of %s: %w", t.spec.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out, err := t.call(ctx, in)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// effectOf makes a ToolSpec.EffectOf of a function of the decoded arguments.
func effectOf[In any](effect func(In) runtime.Effect) func(json.RawMessage) runtime.Effect {
	return func(args json.RawMessage) runtime.Effect {
		in, err := decode[In](args)
		if err != nil {
			return ""
		}
		return effect(in)
	}
}

// decode reads args strictly: one object, no member that In does not have.
func decode[In any](args json.RawMessage) (in In, err error) {
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return in, err
	}
	if d.More() {
		return in, errors.New("more than one JSON value")
	}
	return in, nil
}

// allowed is what allow_status and allow_code take: true for every one, or a list.
type allowed struct {
	all  bool
	some []int
}

func (a *allowed) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &a.all) == nil {
		return nil
	}
	if err := json.Unmarshal(text, &a.some); err != nil {
		return errors.New("neither true nor a list of integers")
	}
	return nil
}

func (a allowed) has(n int) bool { return a.all || slices.Contains(a.some, n) }

// timeoutOf reads a timeout argument; "" gives the host's default.
func timeoutOf(text string, host time.Duration) (time.Duration, error) {
	if text == "" {
		return or(host, DefaultTimeout), nil
	}
	d, err := value.Duration(text)
	if err != nil || d <= 0 {
		return 0, refuse("timeout %q is not a positive duration like %q", text, "30s")
	}
	return d, nil
}

// or returns v, or def when v is not set.
func or[N ~int | ~int64](v, def N) N {
	if v <= 0 {
		return def
	}
	return v
}

// refuse makes an error that is never retried: trying again would end the same way.
func refuse(format string, args ...any) error {
	return &retry.Failure{Err: fmt.Errorf(format, args...)}
}

// timedOut is the cause of a context whose call took longer than its timeout.
type timedOut time.Duration

func (t timedOut) Error() string { return fmt.Sprintf("timed out after %s", time.Duration(t)) }

func (t timedOut) Is(target error) bool { return target == context.DeadlineExceeded }

// ended says why ctx is done: the call's own timeout, or what the caller's context says.
func ended(ctx context.Context) error {
	if t, ok := errors.AsType[timedOut](context.Cause(ctx)); ok {
		return t
	}
	return ctx.Err()
}
