package openai

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/braise-run/braise/runtime"
)

// ours are the members of a request that Options.Defaults cannot have: the adapter sets them, or answers would come in
// a form that it does not read.
var ours = []string{"model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options", "n",
	"max_tokens", "max_completion_tokens", "functions", "function_call", "logprobs", "modalities", "audio"}

var memberName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// defaultsOf encodes the defaults of requests.
func defaultsOf(given map[string]any) (map[string]json.RawMessage, error) {
	encoded := make(map[string]json.RawMessage, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(ours, name) || !memberName.MatchString(name) {
			return nil, fmt.Errorf("openai: %q is no default: each request has its own", name)
		}
		text, err := json.Marshal(given[name])
		if err != nil {
			return nil, fmt.Errorf("openai: the default %q cannot be JSON: %w", name, err)
		}
		encoded[name] = text
	}
	return encoded, nil
}

// withDefaults adds to the body of a request the defaults that it does not say otherwise.
func (m *Model) withDefaults(body []byte, req *runtime.Request) []byte {
	for _, name := range slices.Sorted(maps.Keys(m.defaults)) {
		if says(req, name) {
			continue
		}
		body = append(body[:len(body)-1], `,"`+name+`":`...) // there is a model before
		body = append(append(body, m.defaults[name]...), '}')
	}
	return body
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
