package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/braise-run/braise/runtime"
)

// called are the tools that are called in a conversation, once each. Some endpoints refuse calls of tools that a
// request does not declare.
func called(messages []runtime.Message) (specs []runtime.ToolSpec) {
	seen := map[string]bool{}
	for _, msg := range messages {
		for _, call := range msg.ToolCalls {
			if name := wireName(call.Name); !seen[name] {
				seen[name] = true
				specs = append(specs, runtime.ToolSpec{Name: call.Name})
			}
		}
	}
	return specs
}

// wireMessage encodes a message, with the parts that the model gave with it.
func (m *Model) wireMessage(msg runtime.Message) (json.RawMessage, error) {
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
		if !isObjectText(args) { // as the model wrote them; the result says so, and templates want an object
			args = "{}"
		}
		text, err := m.withParts(sdk.ToolCall{
			ID: m.callID(call.ID), Type: sdk.ToolTypeFunction,
			Function: sdk.FunctionCall{Name: wireName(call.Name), Arguments: args},
		}, call.Parts)
		if err != nil {
			return nil, err
		}
		out.ToolCalls = append(out.ToolCalls, text)
	}
	return m.withParts(out, msg.Parts)
}

// maxName is how long the name of a tool may be, in bytes.
// https://platform.openai.com/docs/api-reference/chat/create#chat_create-tools
const maxName = 64

var notInNames = regexp.MustCompile("[^a-zA-Z0-9_-]")

// wireName is a tool's name for endpoints: most of them refuse dots, other characters, and names over maxName. A name
// that cannot be told by that alone ends in a hash of it.
func wireName(name string) string {
	wire := strings.ReplaceAll(name, ".", "__")
	if len(wire) <= maxName && !notInNames.MatchString(wire) {
		return wire
	}
	hash := fmt.Sprintf("_%x", sha256.Sum256([]byte(name)))[:9]
	wire = notInNames.ReplaceAllString(wire, "_")
	return wire[:min(len(wire), maxName-len(hash))] + hash
}

// toolChoice encodes what the model may do with the tools.
func toolChoice(choice string) any {
	switch choice {
	case "":
		return nil
	case runtime.ToolsAuto, runtime.ToolsNone, runtime.ToolsRequired:
		return choice
	}
	return sdk.ToolChoice{Type: sdk.ToolTypeFunction, Function: sdk.ToolFunction{Name: wireName(choice)}}
}

// tools encodes the tools that a request offers.
func tools(specs []runtime.ToolSpec) ([]sdk.Tool, map[string]string, error) {
	names := map[string]string{}
	var list []sdk.Tool
	for _, spec := range specs {
		name := wireName(spec.Name)
		switch other, taken := names[name]; {
		case taken && other == spec.Name:
			return nil, nil, fmt.Errorf("the tool %q is offered twice", other)
		case taken:
			return nil, nil, fmt.Errorf("the tools %q and %q are both %q to the endpoint\n  hint: rename one of them",
				other, spec.Name, name)
		}
		names[name] = spec.Name
		parameters, left := parametersOf(spec.Parameters)
		list = append(list, sdk.Tool{Type: sdk.ToolTypeFunction, Function: &sdk.FunctionDefinition{
			Name: name, Description: strings.TrimSpace(spec.Description + left), Parameters: parameters,
		}})
	}
	return list, names, nil
}

// Keywords that endpoints refuse at the top of the schema of a tool's arguments.
var notOnTop = []string{"allOf", "anyOf", "enum", "not", "oneOf"}

// parametersOf is the schema of a tool's arguments in the form that endpoints take: that of an object, which names
// properties. What has to be left out is added to the description; the tool checks it anyway.
func parametersOf(schema json.RawMessage) (parameters json.RawMessage, left string) {
	var root map[string]json.RawMessage
	if json.Unmarshal(schema, &root) != nil {
		root = map[string]json.RawMessage{}
	}
	complete := root["properties"] != nil && bytes.Equal(root["type"], []byte(`"object"`))
	for _, name := range slices.Sorted(maps.Keys(root)) {
		if slices.Contains(notOnTop, name) {
			left += fmt.Sprintf(" The arguments must also match %s: %s.", name, root[name])
			delete(root, name)
		}
	}
	if complete && left == "" {
		return schema, "" // to the byte: a cache of the provider may know it
	}
	root["type"] = json.RawMessage(`"object"`)
	if root["properties"] == nil {
		root["properties"] = json.RawMessage("{}")
	}
	return encodedOf(root, schema), left
}
