package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/limit"
	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

func TestSuite(t *testing.T) {
	for name, wire := range map[string]chatWire{"plain": {}, "schema in words": {schemaInWords: true},
		"limited": {limits: limit.Limits{MaxParallel: 2, TPM: 1 << 30}}} {
		t.Run(name, func(t *testing.T) { runtimetest.TestModel(t, wire) })
	}
}

// chatWire is OpenAI's chat completions API, after the types of github.com/sashabaranov/go-openai v1.43.0 and their
// comments, with cache_write_tokens, which OpenAI added later, and reasoning_content, which DeepSeek and others have.
type chatWire struct {
	schemaInWords bool
	limits        limit.Limits
}

func (wire chatWire) Connect(t *testing.T, to runtimetest.Endpoint) runtime.Model {
	m, err := openai.New(openai.Options{BaseURL: to.URL + "/v1", Model: "m", APIKey: to.Key, MaxBytes: to.MaxBytes,
		NoSchema: wire.schemaInWords})
	if err != nil {
		t.Fatal(err)
	}
	return limit.New(m, wire.limits)
}

// chatAsked is a request. Members that it does not have are unknown to the API.
type chatAsked struct {
	Model      string        `json:"model"`
	Messages   []chatMessage `json:"messages"`
	Tools      []chatTool    `json:"tools"`
	ToolChoice any           `json:"tool_choice"`
	Format     *struct {
		Type   string `json:"type"`
		Schema struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
			Strict bool            `json:"strict"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Stream        bool            `json:"stream"`
	StreamOptions map[string]bool `json:"stream_options"`
	Temperature   *float64        `json:"temperature"`
	MaxTokens     *int            `json:"max_tokens"`
	TopP          *float64        `json:"top_p"`
	Stop          []string        `json:"stop"`
	Seed          *int64          `json:"seed"`
	Reasoning     string          `json:"reasoning_effort"`
}

type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content,omitempty"`
	Thinking  string          `json:"reasoning_content,omitempty"`
	Refusal   string          `json:"refusal,omitempty"`
	ToolCalls []chatCall      `json:"tool_calls,omitempty"`
	CallID    string          `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	Index    *int   `json:"index,omitempty"` // in a stream
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

var (
	chatName  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	errNotNow = errors.New("is not allowed with this")
)

func (chatWire) Read(r *http.Request, body []byte) (*runtimetest.Asked, error) {
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions":
		return nil, fmt.Errorf("there is no %s %s", r.Method, r.URL.Path)
	case r.Header.Get("Content-Type") != "application/json":
		return nil, fmt.Errorf("the content type is %q", r.Header.Get("Content-Type"))
	case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "):
		return nil, errors.New("there is no bearer token")
	}
	var in chatAsked
	if err := strictly(body, &in); err != nil {
		return nil, err
	}
	asked := &runtimetest.Asked{Stream: in.Stream, Temperature: in.Temperature,
		Options: runtime.ModelOptions{TopP: in.TopP, Stop: in.Stop, Seed: in.Seed, Reasoning: in.Reasoning}}
	if in.MaxTokens != nil {
		asked.MaxTokens = *in.MaxTokens
	}
	for _, bad := range []struct {
		is   bool
		what string
	}{
		{in.Model != "m", "the model does not exist: " + in.Model},
		{in.StreamOptions != nil && !in.Stream, "stream_options is only allowed when stream is true"},
		{in.Temperature != nil && (*in.Temperature < 0 || *in.Temperature > 2), "temperature is from 0 to 2"},
		{in.TopP != nil && (*in.TopP < 0 || *in.TopP > 1), "top_p is from 0 to 1"},
		{in.MaxTokens != nil && *in.MaxTokens < 1, "max_tokens is at least 1"},
		{in.Stop != nil && (len(in.Stop) == 0 || len(in.Stop) > 4), "stop has 1 to 4 texts"},
		{in.Tools != nil && len(in.Tools) == 0, "tools is too short"},
		{in.ToolChoice != nil && in.Tools == nil, "tool_choice is only allowed when tools are specified"},
	} {
		if bad.is {
			return nil, errors.New(bad.what)
		}
	}
	if f := in.Format; f != nil {
		if f.Type != "json_schema" || !chatName.MatchString(f.Schema.Name) || !isObject(f.Schema.Schema) {
			return nil, fmt.Errorf("response_format is not valid: %+v", f)
		}
		asked.Schema = f.Schema.Schema
	}
	for _, tool := range in.Tools {
		if err := tool.check(); err != nil {
			return nil, err
		}
		asked.Tools = append(asked.Tools, runtime.ToolSpec{Name: tool.Function.Name,
			Description: tool.Function.Description, Parameters: tool.Function.Parameters})
	}
	for i, msg := range in.Messages {
		if err := msg.read(asked, i); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	return asked, readChoice(in.ToolChoice, asked)
}

// strictly decodes JSON whose members are all known.
func strictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more than one value")
	}
	return nil
}

func isObject(schema json.RawMessage) bool {
	var root struct{ Type any }
	return json.Unmarshal(schema, &root) == nil && root.Type == "object"
}

func (tool *chatTool) check() error {
	var root map[string]json.RawMessage
	if err := json.Unmarshal(tool.Function.Parameters, &root); err != nil {
		return fmt.Errorf("the parameters of the tool %q: %w", tool.Function.Name, err)
	}
	for _, keyword := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if root[keyword] != nil {
			return fmt.Errorf("the parameters of the tool %q have %s at the top level", tool.Function.Name, keyword)
		}
	}
	switch {
	case tool.Type != "function":
		return fmt.Errorf("%q is no type of a tool", tool.Type)
	case !chatName.MatchString(tool.Function.Name):
		return fmt.Errorf("%q is no name of a tool", tool.Function.Name)
	case !isObject(tool.Function.Parameters) || root["properties"] == nil:
		return fmt.Errorf("the parameters of the tool %q lack properties", tool.Function.Name)
	}
	return nil
}

func readChoice(choice any, asked *runtimetest.Asked) error {
	if choice == nil {
		return nil
	}
	if word, ok := choice.(string); ok && slices.Contains([]string{"auto", "none", "required"}, word) {
		asked.Options.ToolChoice = word
		return nil
	}
	var named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	text, _ := json.Marshal(choice)
	if err := strictly(text, &named); err != nil {
		return fmt.Errorf("tool_choice: %w", err)
	}
	if named.Type != "function" || !slices.ContainsFunc(asked.Tools, func(spec runtime.ToolSpec) bool {
		return spec.Name == named.Function.Name
	}) {
		return fmt.Errorf("tool_choice names no tool: %s", text)
	}
	asked.Options.ToolChoice = named.Function.Name
	return nil
}

// read adds a message to the request that is asked.
func (msg *chatMessage) read(asked *runtimetest.Asked, at int) error {
	out := runtime.Message{Role: runtime.Role(msg.Role), ToolCallID: msg.CallID}
	var parts []struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	switch isText := json.Unmarshal(msg.Content, &out.Text) == nil; {
	case msg.Content == nil && (msg.Role != "assistant" || len(msg.ToolCalls) == 0):
		return errors.New("content is missing")
	case msg.Content == nil, isText:
	case msg.Role != "user":
		return errors.New("content is not a string")
	default:
		if err := strictly(msg.Content, &parts); err != nil {
			return err
		}
	}
	for _, part := range parts {
		switch media, _, isData := strings.Cut(strings.TrimPrefix(part.Image.URL, "data:"), ";base64,"); {
		case part.Type == "text" && part.Text != "":
			out.Text += part.Text
		case part.Type == "image_url" && isData:
			out.Files = append(out.Files, runtime.File{URL: part.Image.URL, MediaType: media})
		default:
			return fmt.Errorf("the part %+v is not valid", part)
		}
	}
	if (msg.ToolCalls != nil || msg.Thinking != "") && msg.Role != "assistant" || (msg.CallID != "") != (msg.Role == "tool") {
		return fmt.Errorf("a member %w role %q", errNotNow, msg.Role)
	}
	if msg.Thinking != "" {
		asked.Thinking = append(asked.Thinking, msg.Thinking)
	}
	for _, c := range msg.ToolCalls {
		if c.ID == "" || c.Type != "function" || c.Index != nil || !isArguments(c.Function.Arguments) {
			return fmt.Errorf("the call %+v is not valid", c)
		}
		out.ToolCalls = append(out.ToolCalls, runtime.ToolCall{ID: c.ID, Name: c.Function.Name,
			Arguments: json.RawMessage(c.Function.Arguments)})
	}
	if msg.Role != "system" {
		asked.Messages = append(asked.Messages, out)
		return nil
	}
	if at > 0 || out.Text == "" {
		return fmt.Errorf("a system message %w place or text", errNotNow)
	}
	asked.System = out.Text
	return nil
}

func isArguments(text string) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &object) == nil && object != nil
}

// chatUsage encodes the counts of a reply.
func chatUsage(r *runtimetest.Reply) json.RawMessage {
	type in struct {
		Cached  json.RawMessage `json:"cached_tokens,omitempty"`
		Written json.RawMessage `json:"cache_write_tokens,omitempty"`
	}
	type out struct {
		Reasoning json.RawMessage `json:"reasoning_tokens,omitempty"`
	}
	return encode(struct {
		Prompt     json.RawMessage `json:"prompt_tokens,omitempty"`
		Completion json.RawMessage `json:"completion_tokens,omitempty"`
		Total      json.RawMessage `json:"total_tokens,omitempty"`
		In         in              `json:"prompt_tokens_details"`
		Out        out             `json:"completion_tokens_details"`
	}{r.Count(r.Usage.InputTokens), r.Count(r.Usage.OutputTokens), r.Count(r.Usage.InputTokens + r.Usage.OutputTokens),
		in{r.Count(r.Usage.CachedTokens), r.Count(r.Usage.CacheWriteTokens)}, out{r.Count(r.Usage.ReasoningTokens)}})
}

func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// chatCallOf encodes a call, or the beginning of one in a stream.
func chatCallOf(call runtime.ToolCall, index *int) chatCall {
	c := chatCall{Index: index, ID: call.ID, Type: "function"}
	c.Function.Name = call.Name
	if index == nil {
		c.Function.Arguments = string(call.Arguments)
	}
	return c
}

func (chatWire) Whole(_ *runtimetest.Asked, r *runtimetest.Reply) string {
	msg := chatMessage{Role: "assistant", Content: json.RawMessage("null"), Thinking: r.Thinking, Refusal: r.Refusal}
	if r.Text != "" {
		msg.Content = encode(r.Text)
	}
	for _, call := range r.Calls {
		msg.ToolCalls = append(msg.ToolCalls, chatCallOf(call, nil))
	}
	return string(encode(map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": r.Model,
		"choices": []any{map[string]any{"index": 0, "message": msg, "logprobs": nil, "finish_reason": r.Finish}},
		"usage":   chatUsage(r)}))
}

func (chatWire) Stream(_ *runtimetest.Asked, r *runtimetest.Reply) (list []string) {
	event := func(members map[string]any) {
		members["id"], members["object"], members["created"], members["model"] = "chatcmpl-1", "chat.completion.chunk", 1700000000, r.Model
		list = append(list, "data: "+string(encode(members))+"\n\n")
	}
	delta := func(delta map[string]any, finish any) {
		event(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	delta(map[string]any{"role": "assistant", "content": ""}, nil)
	for _, member := range [][2]string{{"reasoning_content", r.Thinking}, {"refusal", r.Refusal}, {"content", r.Text}} {
		for _, piece := range split(member[1]) {
			delta(map[string]any{member[0]: piece}, nil)
		}
	}
	for i, call := range r.Calls {
		delta(map[string]any{"tool_calls": []chatCall{chatCallOf(call, &i)}}, nil)
		for _, piece := range split(string(call.Arguments)) {
			var c chatCall
			c.Index, c.Function.Arguments = &i, piece
			delta(map[string]any{"tool_calls": []chatCall{c}}, nil)
		}
	}
	delta(map[string]any{}, r.Finish)
	event(map[string]any{"choices": []any{}, "usage": chatUsage(r)})
	return append(list, "data: [DONE]\n\n")
}

// split cuts a text into pieces of at most five characters.
func split(text string) (list []string) {
	for piece := range slices.Chunk([]rune(text), 5) {
		list = append(list, string(piece))
	}
	return list
}

func (chatWire) Fault(f runtimetest.Fault, inStream bool) string {
	kinds := map[int][2]string{401: {"invalid_request_error", "invalid_api_key"}, 404: {"invalid_request_error", "model_not_found"},
		429: {"requests", "rate_limit_exceeded"}, 500: {"server_error", ""}, 503: {"server_error", ""}, 529: {"overloaded_error", ""}}
	kind, known := kinds[f.Status]
	if !known {
		kind[0] = "invalid_request_error"
	}
	if f.TooLong {
		kind[1] = "context_length_exceeded"
	}
	fault := string(encode(map[string]any{"error": map[string]any{"message": f.Message, "type": kind[0], "param": nil, "code": kind[1]}}))
	if inStream {
		return "data: " + fault + "\n\n"
	}
	return fault
}
