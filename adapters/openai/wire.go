package openai

import (
	sdk "github.com/sashabaranov/go-openai"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/runtime"
)

// wireMessage encodes a message, with the parts that the model gave with it.
func (m *Model) wireMessage(msg runtime.Message) (any, error) {
	out := message{Role: msg.Role, ToolCallID: m.callID(msg.ToolCallID)}
	if msg.Text != "" || len(msg.ToolCalls) == 0 { // some refuse an empty text beside tool calls
		out.Content = msg.Text
	}
	if msg.Files != nil {
		parts, err := contentParts(msg)
		if err != nil {
			return nil, err
		}
		out.Content = parts
	}
	for _, call := range msg.ToolCalls {
		args := string(call.Arguments)
		if !endpoint.IsObject(args) { // as the model wrote them; the result says so, and templates want an object
			args = "{}"
		}
		text, err := m.withParts(sdk.ToolCall{
			ID: m.callID(call.ID), Type: sdk.ToolTypeFunction,
			Function: sdk.FunctionCall{Name: endpoint.ToolName(call.Name), Arguments: args},
		}, call.Parts)
		if err != nil {
			return nil, err
		}
		out.ToolCalls = append(out.ToolCalls, text)
	}
	return m.withParts(out, msg.Parts)
}

// toolChoice encodes what the model may do with the tools.
func toolChoice(choice string) any {
	switch choice {
	case "":
		return nil
	case runtime.ToolsAuto, runtime.ToolsNone, runtime.ToolsRequired:
		return choice
	}
	return sdk.ToolChoice{Type: sdk.ToolTypeFunction, Function: sdk.ToolFunction{Name: endpoint.ToolName(choice)}}
}

// tools encodes the tools that a request offers.
func tools(offered []endpoint.Tool) (list []sdk.Tool) {
	for _, tool := range offered {
		list = append(list, sdk.Tool{Type: sdk.ToolTypeFunction, Function: &sdk.FunctionDefinition{
			Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters,
		}})
	}
	return list
}
