package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/runtime"
)

// ResponsesAPI is the value of Options.API for OpenAI's Responses API.
const ResponsesAPI = "responses"

const responsesPath = "responses"

// oursOfResponses are what ours are for chat completions. What the provider would keep is no default, either.
var oursOfResponses = []string{"model", "input", "instructions", "tools", "tool_choice", "stream", "stream_options",
	"max_output_tokens", "store", "background", "conversation", "previous_response_id", "prompt", "include"}

// responsesRequest is the body of a request.
type responsesRequest struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions,omitempty"`
	Input        []any           `json:"input"` // item, or json.RawMessage: an item of the model as it came
	Tools        []responsesTool `json:"tools,omitempty"`
	ToolChoice   any             `json:"tool_choice,omitempty"`
	Text         map[string]any  `json:"text,omitempty"`
	Reasoning    map[string]any  `json:"reasoning,omitempty"`
	Temperature  *float64        `json:"temperature,omitempty"`
	TopP         *float64        `json:"top_p,omitempty"`
	MaxTokens    int             `json:"max_output_tokens,omitempty"`
	Include      []string        `json:"include,omitempty"`
	Store        bool            `json:"store"` // never: the journal has all of the conversation
	Stream       bool            `json:"stream,omitempty"`
}

type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"` // must be said: it is true otherwise, and schemas are changed
}

// item is a piece of a conversation.
type item struct {
	Type      string       `json:"type"` // message, function_call, function_call_output
	Role      runtime.Role `json:"role,omitempty"`
	Content   any          `json:"content,omitempty"` // a text, or its parts
	Phase     string       `json:"phase,omitempty"`
	CallID    string       `json:"call_id,omitempty"`
	Name      string       `json:"name,omitempty"`
	Arguments string       `json:"arguments,omitempty"`
	Output    any          `json:"output,omitempty"` // as Content
}

// inputPart is a part of what a user says, or of a result.
type inputPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Detail   string `json:"detail,omitempty"` // of an image
	Filename string `json:"filename,omitempty"`
	FileData string `json:"file_data,omitempty"`
	FileURL  string `json:"file_url,omitempty"`
}

// thinks matches the models of OpenAI that give their reasoning encrypted if they are asked to; others refuse that.
var thinks = regexp.MustCompile(`^(o[1-9]|gpt-[5-9](\.\d+)?(-(mini|nano|pro|codex).*|-\d.*)?$)`)

// encodeResponses is encode for the Responses API.
func (m *Model) encodeResponses(req *runtime.Request, stream bool) (body []byte, names map[string]string, err error) {
	out := responsesRequest{Model: m.opts.Model, Temperature: req.Temperature, TopP: req.Options.TopP,
		MaxTokens: req.MaxTokens, Stream: stream, Reasoning: maps.Clone(m.nested["reasoning"]),
		Text: maps.Clone(m.nested["text"])}
	offered, choice := offer(req)
	forms, names, err := endpoint.Tools(offered)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range forms {
		out.Tools = append(out.Tools, responsesTool{Type: "function", Name: f.Name, Description: f.Description,
			Parameters: f.Parameters})
	}
	switch choice {
	case "":
	case runtime.ToolsAuto, runtime.ToolsNone, runtime.ToolsRequired:
		out.ToolChoice = choice
	default:
		out.ToolChoice = map[string]string{"type": "function", "name": endpoint.ToolName(choice)}
	}
	messages, format, err := m.asked(req)
	if err != nil {
		return nil, nil, err
	}
	if format != nil {
		set(&out.Text, "format", map[string]any{"type": "json_schema", "name": format.JSONSchema.Name,
			"schema": format.JSONSchema.Schema, "strict": format.JSONSchema.Strict})
	}
	if req.Options.Reasoning != "" {
		set(&out.Reasoning, "effort", req.Options.Reasoning)
	}
	if out.Reasoning != nil || thinks.MatchString(m.opts.Model) {
		out.Include = []string{"reasoning.encrypted_content"}
	}
	if len(messages) > 1 && messages[0].Role == runtime.System {
		out.Instructions, messages = messages[0].Text, messages[1:]
	}
	if out.Input, err = m.items(messages); err != nil {
		return nil, nil, err
	}
	if body, err = json.Marshal(out); err != nil {
		return nil, nil, err
	}
	return m.withDefaults(body, req), names, nil
}

func set(object *map[string]any, name string, v any) {
	if *object == nil {
		*object = map[string]any{}
	}
	(*object)[name] = v
}

// items are messages in the form of the Responses API.
func (m *Model) items(messages []runtime.Message) (list []any, err error) {
	for _, msg := range messages {
		var content any = msg.Text
		if msg.Files != nil {
			if content, err = inputParts(msg); err != nil {
				return nil, err
			}
		}
		switch msg.Role {
		case runtime.Assistant:
			list = append(list, m.said(msg)...)
		case runtime.ToolRole:
			list = append(list, item{Type: "function_call_output", CallID: msg.ToolCallID, Output: content})
		default:
			list = append(list, item{Type: "message", Role: msg.Role, Content: content})
		}
	}
	return list, nil
}

// orderPart names the part that has the order of what an answer is made of.
const orderPart = "order"

// kept is a piece of an answer: a text, the next call, or an item as it came.
type kept struct {
	Bytes int             `json:"bytes,omitempty"` // of the text
	Phase string          `json:"phase,omitempty"` // of the text: commentary or final_answer
	Call  bool            `json:"call,omitempty"`
	Item  json.RawMessage `json:"item,omitempty"`
}

// said are the items of a message of the assistant, in the order in which they came, as far as that is known.
func (m *Model) said(msg runtime.Message) (list []any) {
	text, calls := msg.Text, msg.ToolCalls
	var order []kept
	for _, p := range msg.Parts {
		if p.Of == m.self() && p.Name == orderPart {
			_ = json.Unmarshal(p.Data, &order) // what is no list is not known
		}
	}
	known := 0
	for _, k := range order {
		known += max(0, k.Bytes)
	}
	same := known == len(text) // it is what the model said
	add := func(n int, phase string) {
		if strings.TrimSpace(text[:n]) != "" {
			list = append(list, item{Type: "message", Role: runtime.Assistant, Content: text[:n], Phase: phase})
		}
		text = text[n:]
	}
	call := func() {
		args := string(calls[0].Arguments)
		if !endpoint.IsObject(args) { // as the model wrote them; the result says so
			args = "{}"
		}
		list = append(list, item{Type: "function_call", CallID: calls[0].ID, Name: endpoint.ToolName(calls[0].Name),
			Arguments: args})
		calls = calls[1:]
	}
	for _, k := range order {
		switch {
		case k.Item != nil:
			list = append(list, k.Item)
		case k.Call && len(calls) > 0:
			call()
		case k.Call:
		case same:
			add(max(0, k.Bytes), k.Phase)
		default:
			add(len(text), k.Phase)
		}
	}
	add(len(text), "")
	for len(calls) > 0 {
		call()
	}
	return list
}

// inputParts encodes a text and the files that go with it: images and PDFs as they are, texts as text.
func inputParts(msg runtime.Message) ([]inputPart, error) {
	var parts []inputPart
	if msg.Text != "" {
		parts = append(parts, inputPart{Type: "input_text", Text: msg.Text})
	}
	for i, f := range msg.Files {
		data := strings.HasPrefix(f.URL, "data:")
		switch {
		case strings.HasPrefix(f.MediaType, "image/"):
			parts = append(parts, inputPart{Type: "input_image", ImageURL: f.URL, Detail: "auto"})
		case f.MediaType == "application/pdf" && data:
			name := fmt.Sprintf("file%d.pdf", i+1)
			parts = append(parts, inputPart{Type: "input_file", Filename: name, FileData: f.URL})
		case f.MediaType == "application/pdf":
			parts = append(parts, inputPart{Type: "input_file", FileURL: f.URL})
		default:
			text, err := textOf(i, f, "images and PDFs")
			if err != nil {
				return nil, err
			}
			parts = append(parts, inputPart{Type: "input_text", Text: text})
		}
	}
	return parts, nil
}

// nestedDefaults takes what is in objects of the Responses API out of the defaults: the adapter adds to these.
func nestedDefaults(defaults map[string]any) (plain map[string]any, nested map[string]map[string]any, err error) {
	plain, nested = maps.Clone(defaults), map[string]map[string]any{}
	for _, name := range []string{"reasoning", "text"} {
		v, given := plain[name]
		if !given {
			continue
		}
		object, ok := v.(map[string]any)
		if !ok {
			return nil, nil, fmt.Errorf("the default %q must be an object", name)
		}
		if object["format"] != nil {
			return nil, nil, errors.New(`"text.format" is not a default: each request has its own`)
		}
		nested[name] = object
		delete(plain, name)
	}
	return plain, nested, nil
}
