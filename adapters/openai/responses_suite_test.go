package openai_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

func TestResponsesSuite(t *testing.T) {
	for name, wire := range map[string]responsesWire{"plain": {}, "schema in words": {schemaInWords: true}} {
		t.Run(name, func(t *testing.T) { runtimetest.TestModel(t, wire) })
	}
}

// responsesWire is OpenAI's Responses API for requests that it does not store, after the types of
// github.com/openai/openai-go/v3 v3.99.0 and their comments (responses/response.go: ResponseNewParams, ResponseInputItem…,
// Response, Response…Event; shared/shared.go: ReasoningParam). What the API says of items that lack others is quoted
// in issues of its clients.
type responsesWire struct{ schemaInWords bool }

func (wire responsesWire) Connect(t *testing.T, to runtimetest.Endpoint) runtime.Model {
	m, err := openai.New(openai.Options{BaseURL: to.URL + "/v1", API: openai.ResponsesAPI, Model: "m", APIKey: to.Key,
		MaxBytes: to.MaxBytes, NoSchema: wire.schemaInWords})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// responsesAsked is a request. Members that it does not have are unknown to the API, or not for such requests.
type responsesAsked struct {
	Model        string            `json:"model"`
	Instructions *string           `json:"instructions"`
	Input        []json.RawMessage `json:"input"`
	Tools        []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"tools"`
	ToolChoice any `json:"tool_choice"`
	Text       struct {
		Format *struct {
			Type   string          `json:"type"`
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
			Strict bool            `json:"strict"`
		} `json:"format"`
		Verbosity string `json:"verbosity"`
	} `json:"text"`
	Reasoning struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	} `json:"reasoning"`
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	MaxTokens   *int     `json:"max_output_tokens"`
	Include     []string `json:"include"`
	Store       *bool    `json:"store"`
	Stream      bool     `json:"stream"`
	ServiceTier string   `json:"service_tier"`
	Parallel    *bool    `json:"parallel_tool_calls"`
}

// responsesItem is an item of the input, of any type.
type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Phase     string          `json:"phase"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments *string         `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Summary   []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"summary"`
	Encrypted string `json:"encrypted_content"`
}

// sealed is a thought as only the provider can read it, so that a change shows.
func sealed(thought string) string {
	return fmt.Sprintf("gAAA%x", sha256.Sum256([]byte("key"+thought)))
}

func (responsesWire) Read(r *http.Request, body []byte) (*runtimetest.Asked, error) {
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/responses":
		return nil, fmt.Errorf("there is no %s %s", r.Method, r.URL.Path)
	case r.Header.Get("Content-Type") != "application/json":
		return nil, fmt.Errorf("the content type is %q", r.Header.Get("Content-Type"))
	case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "):
		return nil, errors.New("there is no bearer token")
	}
	var in responsesAsked
	if err := strictly(body, &in); err != nil {
		return nil, err
	}
	for _, bad := range []struct {
		is   bool
		what string
	}{
		{in.Model != "m" && in.Model != "gpt-5-mini", "the model does not exist: " + in.Model},
		{in.Store == nil || *in.Store, "store is true"},
		{len(in.Input) == 0, "one of input, previous_response_id, prompt or conversation must be provided"},
		{in.Instructions != nil && *in.Instructions == "", "instructions are empty"},
		{in.Temperature != nil && (*in.Temperature < 0 || *in.Temperature > 2), "temperature is from 0 to 2"},
		{in.TopP != nil && (*in.TopP < 0 || *in.TopP > 1), "top_p is from 0 to 1"},
		{in.MaxTokens != nil && *in.MaxTokens < 16, "max_output_tokens is at least 16"},
		{in.Tools != nil && len(in.Tools) == 0, "tools is too short"},
		{in.ToolChoice != nil && in.Tools == nil, "tool_choice is only allowed when tools are specified"},
		{in.Include != nil && !slices.Equal(in.Include, []string{"reasoning.encrypted_content"}), "include is not valid"},
		{!slices.Contains([]string{"", "none", "minimal", "low", "medium", "high", "xhigh", "max"}, in.Reasoning.Effort), "reasoning.effort is not valid"},
		{!slices.Contains([]string{"", "auto", "concise", "detailed"}, in.Reasoning.Summary), "reasoning.summary is not valid"},
		{!slices.Contains([]string{"", "low", "medium", "high"}, in.Text.Verbosity), "text.verbosity is not valid"},
	} {
		if bad.is {
			return nil, errors.New(bad.what)
		}
	}
	asked := &runtimetest.Asked{Stream: in.Stream, Temperature: in.Temperature,
		Options: runtime.ModelOptions{TopP: in.TopP, Reasoning: in.Reasoning.Effort}}
	if in.MaxTokens != nil {
		asked.MaxTokens = *in.MaxTokens
	}
	if in.Instructions != nil {
		asked.System = *in.Instructions
	}
	if f := in.Text.Format; f != nil {
		if f.Type != "json_schema" || !chatName.MatchString(f.Name) || !isObject(f.Schema) {
			return nil, fmt.Errorf("text.format is not valid: %+v", f)
		}
		asked.Schema = f.Schema
	}
	for _, tool := range in.Tools {
		if tool.Strict == nil || *tool.Strict {
			return nil, fmt.Errorf("the schema of the tool %q is not strict", tool.Name)
		}
		var as chatTool
		as.Type, as.Function.Name, as.Function.Parameters = tool.Type, tool.Name, tool.Parameters
		if err := as.check(); err != nil {
			return nil, err
		}
		asked.Tools = append(asked.Tools, runtime.ToolSpec{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters})
	}
	if err := readItems(in.Input, asked); err != nil {
		return nil, err
	}
	if choice, ok := in.ToolChoice.(map[string]any); ok { // the rest of the rules is that of chat completions
		in.ToolChoice = map[string]any{"type": choice["type"], "function": map[string]any{"name": choice["name"]}}
	}
	return asked, readChoice(in.ToolChoice, asked)
}

// readItems adds the items of the input to the request. Those that the model said in a row are one message.
func readItems(items []json.RawMessage, asked *runtimetest.Asked) error {
	var open []string
	var before responsesItem
	said := func() *runtime.Message {
		if n := len(asked.Messages); n == 0 || asked.Messages[n-1].Role != runtime.Assistant {
			asked.Messages = append(asked.Messages, runtime.Message{Role: runtime.Assistant})
		}
		return &asked.Messages[len(asked.Messages)-1]
	}
	for i, raw := range items {
		var it responsesItem
		if err := strictly(raw, &it); err != nil {
			return fmt.Errorf("input[%d]: %w", i, err)
		}
		ofModel := it.Role == "assistant" || it.Type == "function_call" || it.Type == "reasoning"
		if before.Type == "reasoning" && !ofModel {
			return fmt.Errorf("Item '%s' of type 'reasoning' was provided without its required following item.", before.ID)
		}
		switch before = it; {
		case it.Type == "message" && it.Phase != "" && (it.Role != "assistant" || it.Phase != "commentary" && it.Phase != "final_answer"):
			return fmt.Errorf("input[%d].phase is not valid", i)
		case it.Type == "message" && it.Role == "assistant":
			var text string
			if err := json.Unmarshal(it.Content, &text); err != nil {
				return fmt.Errorf("input[%d].content: %w", i, err)
			}
			said().Text += text
		case it.Type == "message" && slices.Contains([]string{"user", "developer", "system"}, it.Role):
			msg := runtime.Message{Role: runtime.Role(it.Role)}
			if err := readContent(it.Content, &msg); err != nil {
				return fmt.Errorf("input[%d].content: %w", i, err)
			}
			asked.Messages = append(asked.Messages, msg)
		case it.Type == "function_call" && it.CallID != "" && it.Arguments != nil && chatName.MatchString(it.Name):
			if !isArguments(*it.Arguments) {
				return fmt.Errorf("input[%d].arguments are no object: %s", i, *it.Arguments)
			}
			open = append(open, it.CallID)
			msg := said()
			msg.ToolCalls = append(msg.ToolCalls, runtime.ToolCall{ID: it.CallID, Name: it.Name, Arguments: json.RawMessage(*it.Arguments)})
		case it.Type == "function_call_output" && slices.Contains(open, it.CallID):
			open = slices.DeleteFunc(open, func(id string) bool { return id == it.CallID })
			msg := runtime.Message{Role: runtime.ToolRole, ToolCallID: it.CallID}
			if err := readContent(it.Output, &msg); err != nil {
				return fmt.Errorf("input[%d].output: %w", i, err)
			}
			asked.Messages = append(asked.Messages, msg)
		case it.Type == "function_call_output":
			return fmt.Errorf("No tool call found for function call output with call_id %s.", it.CallID)
		case it.Type == "reasoning" && it.ID != "" && it.Summary != nil:
			thought := ""
			for _, part := range it.Summary {
				thought += part.Text
			}
			switch it.Encrypted {
			case "":
				return fmt.Errorf("Item with id '%s' not found. Items are not persisted when `store` is set to false.", it.ID)
			case sealed(thought):
				asked.Thinking = append(asked.Thinking, thought)
			default:
				return fmt.Errorf("The encrypted content for item %s could not be verified.", it.ID)
			}
		default:
			return fmt.Errorf("input[%d] is not valid: %s", i, raw)
		}
	}
	switch {
	case before.Type == "reasoning":
		return fmt.Errorf("Item '%s' of type 'reasoning' was provided without its required following item.", before.ID)
	case len(open) > 0:
		return fmt.Errorf("No tool output found for function call %s.", open[0])
	}
	return nil
}

// readContent reads a text, or parts of what goes in.
func readContent(content json.RawMessage, msg *runtime.Message) error {
	if json.Unmarshal(content, &msg.Text) == nil {
		return nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL string `json:"image_url"`
		Detail   string `json:"detail"`
		Filename string `json:"filename"`
		FileData string `json:"file_data"`
		FileURL  string `json:"file_url"`
	}
	if err := strictly(content, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		url := part.ImageURL + part.FileData + part.FileURL
		media, _, _ := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
		switch {
		case part.Type == "input_text" && part.Text != "":
			msg.Text += part.Text
		case part.Type == "input_image" && part.Detail == "auto" && part.ImageURL != "",
			part.Type == "input_file" && (part.Filename != "") == (part.FileData != "") && (part.FileData == "") != (part.FileURL == ""):
			msg.Files = append(msg.Files, runtime.File{URL: url, MediaType: media})
		default:
			return fmt.Errorf("the part %+v is not valid", part)
		}
	}
	return nil
}

// responsesItems are the items of an answer.
func responsesItems(r *runtimetest.Reply) (items []map[string]any) {
	if r.Thinking != "" {
		items = append(items, map[string]any{"id": "rs_1", "type": "reasoning", "encrypted_content": sealed(r.Thinking), "status": nil,
			"summary": []any{map[string]any{"type": "summary_text", "text": r.Thinking}}})
	}
	message := func(part map[string]any) {
		items = append(items, map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": []any{part}})
	}
	if r.Refusal != "" {
		message(map[string]any{"type": "refusal", "refusal": r.Refusal})
	}
	if r.Text != "" {
		message(map[string]any{"type": "output_text", "text": r.Text, "annotations": []any{}, "logprobs": []any{}})
	}
	for i, call := range r.Calls {
		items = append(items, map[string]any{"id": fmt.Sprintf("fc_%d", i), "type": "function_call", "status": "completed", "call_id": call.ID,
			"name": call.Name, "arguments": string(call.Arguments)})
	}
	return items
}

// response is the response with these items in a state.
func response(r *runtimetest.Reply, status string, items []map[string]any) map[string]any {
	type in struct {
		Cached  json.RawMessage `json:"cached_tokens,omitempty"`
		Written json.RawMessage `json:"cache_write_tokens,omitempty"`
	}
	type out struct {
		Reasoning json.RawMessage `json:"reasoning_tokens,omitempty"`
	}
	u := r.Usage
	members := map[string]any{"id": "resp_1", "object": "response", "created_at": 1700000000, "status": status, "error": nil,
		"incomplete_details": nil, "instructions": nil, "metadata": map[string]any{}, "model": r.Model, "output": items,
		"parallel_tool_calls": true, "store": false, "usage": nil}
	if items == nil {
		members["output"] = []any{}
	}
	if status == "completed" || status == "incomplete" {
		members["usage"] = struct {
			Input  json.RawMessage `json:"input_tokens,omitempty"`
			In     in              `json:"input_tokens_details"`
			Output json.RawMessage `json:"output_tokens,omitempty"`
			Out    out             `json:"output_tokens_details"`
			Total  json.RawMessage `json:"total_tokens,omitempty"`
		}{r.Count(u.InputTokens), in{r.Count(u.CachedTokens), r.Count(u.CacheWriteTokens)}, r.Count(u.OutputTokens),
			out{r.Count(u.ReasoningTokens)}, r.Count(u.InputTokens + u.OutputTokens)}
	}
	if reason := map[string]string{runtime.FinishLength: "max_output_tokens", runtime.FinishFilter: "content_filter"}[r.Finish]; status == "incomplete" {
		members["incomplete_details"] = map[string]string{"reason": reason}
	}
	return members
}

func statusOf(r *runtimetest.Reply) string {
	if r.Finish == runtime.FinishLength || r.Finish == runtime.FinishFilter {
		return "incomplete"
	}
	return "completed"
}

func (responsesWire) Whole(_ *runtimetest.Asked, r *runtimetest.Reply) string {
	return string(encode(response(r, statusOf(r), responsesItems(r))))
}

func (responsesWire) Stream(_ *runtimetest.Asked, r *runtimetest.Reply) (list []string) {
	event := func(kind string, members map[string]any) {
		members["type"], members["sequence_number"] = kind, len(list)
		list = append(list, "event: "+kind+"\ndata: "+string(encode(members))+"\n\n")
	}
	event("response.created", map[string]any{"response": response(r, "in_progress", nil)})
	event("response.in_progress", map[string]any{"response": response(r, "in_progress", nil)})
	items := responsesItems(r)
	for i, it := range items {
		of := func(members map[string]any) map[string]any {
			members["item_id"], members["output_index"] = it["id"], i
			return members
		}
		pieces := func(kind, text, index string) {
			for _, piece := range split(text) {
				event(kind, of(map[string]any{index: 0, "delta": piece}))
			}
		}
		begun := map[string]any{}
		for name, v := range it {
			begun[name] = v
		}
		begun["status"] = "in_progress"
		switch it["type"] {
		case "reasoning":
			begun["summary"], begun["encrypted_content"] = []any{}, "gAAA"
			event("response.output_item.added", map[string]any{"output_index": i, "item": begun})
			event("response.reasoning_summary_part.added", of(map[string]any{"summary_index": 0, "part": map[string]any{"type": "summary_text", "text": ""}}))
			pieces("response.reasoning_summary_text.delta", r.Thinking, "summary_index")
		case "message":
			begun["content"] = []any{}
			event("response.output_item.added", map[string]any{"output_index": i, "item": begun})
			event("response.content_part.added", of(map[string]any{"content_index": 0, "part": map[string]any{"type": "output_text", "text": ""}}))
			pieces("response.output_text.delta", r.Text, "content_index")
			pieces("response.refusal.delta", r.Refusal, "content_index")
		default:
			begun["arguments"] = ""
			event("response.output_item.added", map[string]any{"output_index": i, "item": begun})
			pieces("response.function_call_arguments.delta", it["arguments"].(string), "content_index")
			event("response.function_call_arguments.done", of(map[string]any{"arguments": it["arguments"]}))
		}
		event("response.output_item.done", map[string]any{"output_index": i, "item": it})
	}
	event("response."+statusOf(r), map[string]any{"response": response(r, statusOf(r), items)})
	return list
}

// Fault has two forms in a stream: an event of its own, or a response that has failed.
func (responsesWire) Fault(f runtimetest.Fault, inStream bool) string {
	if !inStream {
		return chatWire{}.Fault(f, false)
	}
	if f.Status == 529 {
		return "event: error\ndata: " + string(encode(map[string]any{"type": "error", "code": "server_is_overloaded", "message": f.Message,
			"param": nil, "sequence_number": 9})) + "\n\n"
	}
	failed := response(&runtimetest.Reply{}, "failed", nil)
	failed["error"] = map[string]string{"code": "server_error", "message": f.Message}
	return "event: response.failed\ndata: " + string(encode(map[string]any{"type": "response.failed", "response": failed, "sequence_number": 9})) + "\n\n"
}
