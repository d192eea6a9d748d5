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

// member is a member of requests, encoded: ,"name":value.
type member struct {
	name string
	text []byte
}

// defaultsOf encodes the defaults of requests, by name.
func defaultsOf(given map[string]any) (encoded []member, err error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(ours, name) || !memberName.MatchString(name) {
			return nil, fmt.Errorf("openai: %q is no default: each request has its own", name)
		}
		text, err := json.Marshal(given[name])
		if err != nil {
			return nil, fmt.Errorf("openai: the default %q cannot be JSON: %w", name, err)
		}
		encoded = append(encoded, member{name, append([]byte(`,"`+name+`":`), text...)})
	}
	return encoded, nil
}

// withDefaults adds to the body of a request the defaults that it does not say otherwise.
func (m *Model) withDefaults(body []byte, req *runtime.Request) []byte {
	for _, d := range m.defaults {
		if !says(req, d.name) {
			body = append(append(body[:len(body)-1], d.text...), '}') // there is a model before
		}
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
