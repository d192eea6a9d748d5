// Package runtimetest provides models and tools for tests: scripted, counting and blocking ones. All are
// safe for concurrent use. [TestModel] is the test suite that the models of all adapters must pass.
package runtimetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/braise-run/braise/runtime"
)

// Model is a runtime.Model that gives scripted answers and records what it is asked.
type Model struct {
	// Answers are given one after the other; a call beyond the last one fails. Func goes before
	// them.
	Answers []Answer
	// Func, when not nil, answers every call instead.
	Func func(context.Context, *runtime.Request) (*runtime.Response, error)

	mu       sync.Mutex
	requests []runtime.Request
}

// Answer is one scripted answer.
type Answer struct {
	Text      string
	ToolCalls []runtime.ToolCall
	Usage     runtime.Usage
	Err       error // not nil: the call fails with it
}

// Texts returns a Model that answers with the texts, one after the other.
func Texts(texts ...string) *Model {
	m := new(Model)
	for _, t := range texts {
		m.Answers = append(m.Answers, Answer{Text: t})
	}
	return m
}

// Generate records the request and answers it.
func (m *Model) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	m.mu.Lock()
	n := len(m.requests)
	m.requests = append(m.requests, copyOf(req))
	m.mu.Unlock()
	if m.Func != nil {
		return m.Func(ctx, req)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if n >= len(m.Answers) {
		return nil, fmt.Errorf("runtimetest: call %d of a model with %d answers", n+1, len(m.Answers))
	}
	a := m.Answers[n]
	if a.Err != nil {
		return nil, a.Err
	}
	return &runtime.Response{Text: a.Text, ToolCalls: slices.Clone(a.ToolCalls), Usage: a.Usage}, nil
}

// Requests returns the requests so far, in the order in which they came.
func (m *Model) Requests() []runtime.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// copyOf is req as it is now: its lists may grow after the call.
func copyOf(req *runtime.Request) runtime.Request {
	r := *req
	r.Messages = slices.Clone(r.Messages)
	r.Tools = slices.Clone(r.Tools)
	r.Schema = slices.Clone(r.Schema)
	return r
}

// Tool is a runtime.Tool that records its calls.
type Tool struct {
	ToolSpec runtime.ToolSpec // the zero Parameters take any object
	// Func makes the result of a call, anything that encodes as JSON. nil: the result is the
	// arguments.
	Func func(ctx context.Context, args json.RawMessage) (any, error)

	mu    sync.Mutex
	calls []json.RawMessage
}

// NewTool returns a Tool of that name. A nil f returns the arguments.
func NewTool(name string, f func(context.Context, json.RawMessage) (any, error)) *Tool {
	return &Tool{ToolSpec: runtime.ToolSpec{Name: name}, Func: f}
}

// Spec returns t.ToolSpec.
func (t *Tool) Spec() runtime.ToolSpec { return t.ToolSpec }

// Call records the arguments and returns what Func makes of them.
func (t *Tool) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	args = slices.Clone(args)
	t.mu.Lock()
	t.calls = append(t.calls, args)
	t.mu.Unlock()
	if t.Func == nil {
		return args, nil
	}
	out, err := t.Func(ctx, args)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// Calls returns the arguments of the calls so far, in the order in which they came.
func (t *Tool) Calls() []json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.calls)
}

// Gate is a runtime.Tool whose calls stop until the test lets them go: for tests of order,
// parallelism, timeouts and cancellation. Make one with [NewGate]. A call that is let go returns
// its arguments.
type Gate struct {
	Name string
	// Started receives the arguments of every call that begins. A call goes on only once they are
	// received.
	Started chan json.RawMessage
	// Release lets one call go for each value sent, and all of them once it is closed.
	Release chan struct{}
	// Deaf makes calls ignore their context: only Release ends them. By default a call fails with
	// the context's error once that is done.
	Deaf bool
}

// NewGate returns a Gate of that name.
func NewGate(name string) *Gate {
	return &Gate{Name: name, Started: make(chan json.RawMessage), Release: make(chan struct{})}
}

// Spec returns a spec with the gate's name, whose parameters are any object.
func (g *Gate) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: g.Name} }

// Call tells Started, then waits for Release.
func (g *Gate) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	args = slices.Clone(args)
	done := ctx.Done()
	if g.Deaf {
		done = nil
	}
	select {
	case g.Started <- args:
	case <-done:
		return nil, ctx.Err()
	}
	select {
	case <-g.Release:
		return args, nil
	case <-done:
		return nil, ctx.Err()
	}
}
