package openai

import (
	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/runtime"
)

// ours are the members of a request that Options.Defaults cannot have: the adapter sets them, or answers would come in
// a form that it does not read.
var ours = []string{"model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options", "n",
	"max_tokens", "max_completion_tokens", "functions", "function_call", "logprobs", "modalities", "audio"}

// withDefaults adds to the body of a request the defaults that it does not say otherwise.
func (m *Model) withDefaults(body []byte, req *runtime.Request) []byte {
	return endpoint.WithMembers(body, m.defaults, func(name string) bool { return says(req, name) })
}

// says reports whether a request has its own value for a member, or no use for it.
func says(req *runtime.Request, name string) bool {
	switch name {
	case "temperature":
		return req.Temperature != nil
	case "top_p":
		return req.Options.TopP != nil
	case "seed":
		return req.Options.Seed != nil
	case "stop":
		return req.Options.Stop != nil
	case "reasoning_effort":
		return req.Options.Reasoning != ""
	case "parallel_tool_calls":
		return len(req.Tools) == 0 // OpenAI refuses it then
	}
	return false
}
