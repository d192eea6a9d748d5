package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// reply is what the adapter reads of an answer; whatever else is in it may have any shape.
type reply struct {
	Choices []choice `json:"choices"`
	Usage   struct {
		Input  int `json:"prompt_tokens"`
		Output int `json:"completion_tokens"`
	} `json:"usage"`
}

type choice struct {
	Message struct {
		Content   text   `json:"content"`
		Refusal   string `json:"refusal"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	FinishReason string          `json:"finish_reason"`
	Error        json.RawMessage `json:"error"` // OpenRouter's, when a provider fails half-way
}

// text is the content of a message: a string, null, or parts of which those of type text count.
type text string

// UnmarshalJSON reads any of the three.
func (t *text) UnmarshalJSON(data []byte) error {
	var whole string
	if json.Unmarshal(data, &whole) == nil {
		*t = text(whole)
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(data, &parts) != nil {
		return errors.New("the content of the message is neither text nor a list of parts")
	}
	for _, part := range parts {
		if part.Type == "text" {
			*t += text(part.Text)
		}
	}
	return nil
}

// response makes the response of what the endpoint answered. names has the tools that were offered,
// by what they are on the wire.
func (m *Model) response(r *reply, req *runtime.Request, names map[string]string) (*runtime.Response, error) {
	if len(r.Choices) == 0 {
		return nil, m.broken(retry.Unknown, "chat/completions", errors.New("the answer has no choices"))
	}
	if r.Usage.Input < 0 || r.Usage.Output < 0 {
		return nil, m.broken("", "chat/completions", errors.New("the answer counts fewer than 0 tokens"))
	}
	c := r.Choices[0]
	if isSet(c.Error) {
		return nil, m.fault("chat/completions", faultOf(c.Error))
	}
	said := c.Message
	if said.Refusal != "" && said.Content == "" && len(said.ToolCalls) == 0 {
		return nil, m.broken("", "chat/completions", fmt.Errorf("the model refused: %s", m.quote(said.Refusal)))
	}
	resp := &runtime.Response{
		Text:   string(said.Content),
		Usage:  runtime.Usage{InputTokens: r.Usage.Input, OutputTokens: r.Usage.Output},
		Finish: finish(c.FinishReason, len(said.ToolCalls) > 0),
	}
	for i, call := range said.ToolCalls {
		name, offered := names[call.Function.Name]
		if !offered { // made up: the one who calls the tools knows what to say
			name = call.Function.Name
		}
		id := call.ID
		if id == "" {
			id = fmt.Sprintf("call_%d_%d", req.StepCall, i+1)
		}
		resp.ToolCalls = append(resp.ToolCalls, runtime.ToolCall{ID: id, Name: name, Arguments: arguments(call.Function.Arguments)})
	}
	return resp, nil
}

// arguments reads the arguments of a tool call: JSON in a string, as the protocol wants it, or the
// JSON itself, as some servers have it. What is no JSON stays a string, for the engine to report.
func arguments(raw json.RawMessage) json.RawMessage {
	if !isSet(raw) {
		return json.RawMessage("{}")
	}
	var inside string
	switch {
	case json.Unmarshal(raw, &inside) != nil:
		return raw
	case strings.TrimSpace(inside) == "":
		return json.RawMessage("{}")
	case json.Valid([]byte(inside)):
		return json.RawMessage(inside)
	}
	return raw
}

// finish is the reason why the model stopped, in the words of runtime.Response.
func finish(reason string, calls bool) string {
	switch reason {
	case "length", "content_filter":
		return reason
	case "stop", "tool_calls", "function_call", "":
		if calls { // some say stop, or nothing, after tool calls too
			return "tool_calls"
		}
		if reason == "stop" {
			return reason
		}
	}
	return ""
}

// isSet reports whether a member is there and not null.
func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
