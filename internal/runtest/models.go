package runtest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// Rounds is a model whose n-th call, of a step, answers with the n-th list of tool calls, and then with a text.
func Rounds(list ...[]runtime.ToolCall) *runtimetest.Model {
	return &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		if n := req.StepCall; n <= len(list) {
			return &runtime.Response{ToolCalls: list[n-1], Text: "calling"}, nil
		}
		return &runtime.Response{Text: "done"}, nil
	}}
}

// Wants is a call that a model asks for.
func Wants(name, args string) runtime.ToolCall {
	return runtime.ToolCall{Name: name, Arguments: json.RawMessage(args)}
}

// Said returns what the model was told of its calls, in its last request.
func Said(m *runtimetest.Model) (list []string) {
	requests := m.Requests()
	for _, message := range requests[len(requests)-1].Messages {
		if message.Role == runtime.ToolRole {
			list = append(list, message.Text)
		}
	}
	return list
}

// Approving is a runtime with the tool t.send, whose arguments are {"n": number}, and t.log. The model calls what the
// prompt says, TOOL ARGUMENTS, and answers with the results.
func Approving(log *Effects) *runtime.Runtime {
	m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == runtime.ToolRole {
			return &runtime.Response{Text: last.Text}, nil
		}
		var calls []runtime.ToolCall
		for _, line := range strings.Split(last.Text, "; ") {
			name, args, _ := strings.Cut(line, " ")
			calls = append(calls, Wants(name, args))
		}
		return &runtime.Response{ToolCalls: calls}, nil
	}}
	send := runtimetest.NewTool("t.send", func(ctx context.Context, args json.RawMessage) (any, error) {
		log.Add(string(args))
		return "sent " + string(args), nil
	})
	send.ToolSpec.Parameters = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["n"],` +
		`"properties":{"n":{"$ref":"#/$defs/n"},"text":{"type":"string"}},` +
		`"$defs":{"n":{"type":"integer","maximum":9}}}`)
	rt := Budgeted(m)
	rt.Tools = []runtime.Tool{send}
	return rt
}

// Using is a model of which every call uses so many tokens.
func Using(tokens int) *runtimetest.Model {
	return &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
		return &runtime.Response{Text: "x", Usage: runtime.Usage{InputTokens: tokens - 1, OutputTokens: 1}}, nil
	}}
}

// Budgeted is a runtime with the model m and a store.
func Budgeted(m runtime.Model) *runtime.Runtime {
	return &runtime.Runtime{
		Models: map[string]runtime.Model{"m": m}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{},
	}
}

// Throttled is a failure after which a call is made again.
var Throttled = &retry.Failure{Reason: retry.RateLimit, Status: 429, Sent: true, Err: errors.New("slow down")}

// Lost is a failure after which the outcome of the call is unknown.
var Lost = &retry.Failure{Reason: retry.Network, Sent: true, Err: errors.New("connection lost")}
