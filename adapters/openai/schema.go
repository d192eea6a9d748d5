package openai

import (
	"encoding/json"
	"slices"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/runtime"
)

// formatOf is the response_format of a request; nil: none, its schema is put into words.
func (m *Model) formatOf(req *runtime.Request) *sdk.ChatCompletionResponseFormat {
	if req.Schema == nil || m.opts.NoSchema || len(req.Tools) > 0 && !m.official() {
		return nil
	}
	return responseFormat(req.Schema)
}

// responseFormat asks for an answer that matches the schema; nil when endpoints would refuse the
// schema because its root is not of the type object.
func responseFormat(schema json.RawMessage) *sdk.ChatCompletionResponseFormat {
	isObject, strict := endpoint.FormOf(schema)
	if !isObject {
		return nil
	}
	return &sdk.ChatCompletionResponseFormat{
		Type: sdk.ChatCompletionResponseFormatTypeJSONSchema,
		JSONSchema: &sdk.ChatCompletionResponseFormatJSONSchema{
			Name: "answer", Schema: schema, Strict: strict,
		},
	}
}

// withSchema puts the schema into the system message, the first of the conversation.
func withSchema(messages []runtime.Message, schema json.RawMessage) []runtime.Message {
	text := "Answer with nothing but JSON that matches this schema:\n" + string(schema)
	if len(messages) > 0 && messages[0].Role == runtime.System {
		messages = slices.Clone(messages)
		messages[0].Text += "\n\n" + text
		return messages
	}
	return append([]runtime.Message{{Role: runtime.System, Text: text}}, messages...)
}
