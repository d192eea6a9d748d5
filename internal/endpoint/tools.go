package endpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/braise-run/braise/runtime"
)

// Tool is a tool in the form that endpoints take.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema of an object, with its properties
}

// Tools brings tools into the form that endpoints take, and returns their own names by what they are then. Two that
// would have one name are an error.
func Tools(specs []runtime.ToolSpec) ([]Tool, map[string]string, error) {
	names := map[string]string{}
	var list []Tool
	for _, spec := range specs {
		name := ToolName(spec.Name)
		switch other, taken := names[name]; {
		case taken && other == spec.Name:
			return nil, nil, fmt.Errorf("the tool %q is offered twice", other)
		case taken:
			return nil, nil, fmt.Errorf("the tools %q and %q are both %q to the endpoint\n  hint: rename one of them",
				other, spec.Name, name)
		}
		names[name] = spec.Name
		parameters, left := parametersOf(spec.Parameters)
		list = append(list, Tool{name, strings.TrimSpace(spec.Description + left), parameters})
	}
	return list, names, nil
}

// Called are the tools that are called in a conversation, once each. Some endpoints refuse calls of tools that a
// request does not declare.
func Called(messages []runtime.Message) (specs []runtime.ToolSpec) {
	seen := map[string]bool{}
	for _, msg := range messages {
		for _, call := range msg.ToolCalls {
			if name := ToolName(call.Name); !seen[name] {
				seen[name] = true
				specs = append(specs, runtime.ToolSpec{Name: call.Name})
			}
		}
	}
	return specs
}

// maxName is how long the name of a tool may be, in bytes.
// https://platform.openai.com/docs/api-reference/chat/create#chat_create-tools
const maxName = 64

var (
	notInNames = regexp.MustCompile("[^a-zA-Z0-9_-]")
	notAtFirst = regexp.MustCompile("^[0-9-]")
)

// ToolName is a tool's name for endpoints: most of them refuse dots, other characters, and names over maxName, and
// Google's a digit at the beginning. A name that cannot be told by that alone ends in a hash of it.
func ToolName(name string) string {
	wire := strings.ReplaceAll(name, ".", "__")
	if len(wire) <= maxName && !notInNames.MatchString(wire) && !notAtFirst.MatchString(wire) {
		return wire
	}
	hash := fmt.Sprintf("_%x", sha256.Sum256([]byte(name)))[:9]
	wire = notInNames.ReplaceAllString(wire, "_")
	if notAtFirst.MatchString(wire) {
		wire = "_" + wire
	}
	return wire[:min(len(wire), maxName-len(hash))] + hash
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
	parameters, err := json.Marshal(root)
	if err != nil { // nothing in it can fail
		return schema, left
	}
	return parameters, left
}

// Arguments are those of a tool call as JSON, of what came for them. What is none becomes a string, for the engine to
// report. Some encode the JSON twice.
func Arguments(text []byte) json.RawMessage {
	var inside string
	switch {
	case json.Unmarshal(text, &inside) == nil && IsObject(inside):
		return json.RawMessage(inside)
	case len(bytes.TrimSpace(text)) == 0:
		return json.RawMessage("{}")
	case json.Valid(text):
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(string(text)) // a string has no error
	return quoted
}

// IsObject reports whether a text is a JSON object.
func IsObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}
