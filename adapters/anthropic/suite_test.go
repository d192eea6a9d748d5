package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/anthropic"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

func TestSuite(t *testing.T) {
	for name, wire := range map[string]messagesWire{"plain": {}, "schema in words": {schemaInWords: true}} {
		t.Run(name, func(t *testing.T) { runtimetest.TestModel(t, wire) })
	}
}

// messagesWire is Anthropic's Messages API as the provider above has it.
type messagesWire struct{ schemaInWords bool }

func (wire messagesWire) Connect(t *testing.T, to runtimetest.Endpoint) runtime.Model {
	m, err := anthropic.New(anthropic.Options{BaseURL: to.URL + "/v1", Model: "claude-sonnet-4-6", APIKey: to.Key,
		MaxBytes: to.MaxBytes, NoSchema: wire.schemaInWords})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (messagesWire) Read(r *http.Request, body []byte) (*runtimetest.Asked, error) {
	req, _, _, fault := readSent(r, body)
	if fault != "" {
		return nil, errors.New(fault)
	}
	asked := &runtimetest.Asked{Stream: req.Stream, Temperature: req.Temperature, MaxTokens: req.MaxTokens,
		Options: runtime.ModelOptions{TopP: req.TopP, Stop: req.StopSequences}}
	for _, b := range req.System {
		asked.System += *b.Text + "\n"
	}
	for _, tool := range req.Tools {
		asked.Tools = append(asked.Tools, runtime.ToolSpec{Name: tool.Name, Description: tool.Description,
			Parameters: jsonOf(tool.InputSchema)})
	}
	for _, turn := range req.Messages {
		turn.read(asked)
	}
	if c := req.OutputConfig; c != nil {
		if asked.Options.Reasoning = c.Effort; c.Format != nil {
			asked.Schema = jsonOf(c.Format.Schema)
		}
	}
	if c := req.ToolChoice; c != nil {
		asked.Options.ToolChoice = map[string]string{"auto": "auto", "none": "none", "any": "required", "tool": c.Name}[c.Type]
	}
	return asked, nil
}

// read adds a turn to the request that is asked: each result is a message, and so is what else there is.
func (turn sentTurn) read(asked *runtimetest.Asked) {
	rest := runtime.Message{Role: runtime.Role(turn.Role)}
	results := 0
	for _, b := range turn.Content {
		switch b.Type {
		case "text":
			rest.Text += *b.Text
		case "thinking":
			asked.Thinking = append(asked.Thinking, *b.Thinking)
		case "tool_use":
			rest.ToolCalls = append(rest.ToolCalls, runtime.ToolCall{ID: b.ID, Name: b.Name, Arguments: jsonOf(b.Input)})
		case "tool_result":
			results++
			result := runtime.Message{Role: runtime.ToolRole, ToolCallID: b.ToolUseID}
			for _, inner := range b.Content {
				if inner.Type == "image" {
					result.Files = append(result.Files, fileIn(inner.Source))
					continue
				}
				result.Text += *inner.Text
			}
			asked.Messages = append(asked.Messages, result)
		default:
			rest.Files = append(rest.Files, fileIn(b.Source))
		}
	}
	if len(turn.Content) > results {
		asked.Messages = append(asked.Messages, rest)
	}
}

func fileIn(s *sentSource) runtime.File {
	return runtime.File{MediaType: s.MediaType, URL: fmt.Sprintf("data:%s;base64,%s", s.MediaType, s.Data)}
}

// answerOf is a reply as the provider says it: a refusal is a text that says so.
func answerOf(r *runtimetest.Reply) *answer {
	a := &answer{stop: map[string]string{runtime.FinishStop: "end_turn", runtime.FinishLength: "max_tokens",
		runtime.FinishCalls: "tool_use", runtime.FinishFilter: "refusal"}[r.Finish]}
	if r.Thinking != "" {
		a.blocks = append(a.blocks, thought(r.Thinking))
	}
	if r.Refusal != "" {
		a.stop = "refusal"
	}
	if said := r.Text + r.Refusal; said != "" {
		a.blocks = append(a.blocks, text(said))
	}
	for _, c := range r.Calls {
		a.blocks = append(a.blocks, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Arguments})
	}
	return a
}

// counts encodes the counts of a reply. Those of the cache are no part of the API's input.
func counts(r *runtimetest.Reply) any {
	u := r.Usage
	type details struct {
		Thinking json.RawMessage `json:"thinking_tokens,omitempty"`
	}
	return struct {
		Input   json.RawMessage `json:"input_tokens,omitempty"`
		Read    json.RawMessage `json:"cache_read_input_tokens,omitempty"`
		Written json.RawMessage `json:"cache_creation_input_tokens,omitempty"`
		Output  json.RawMessage `json:"output_tokens,omitempty"`
		Of      details         `json:"output_tokens_details"`
	}{r.Count(u.InputTokens - u.CachedTokens - u.CacheWriteTokens), r.Count(u.CachedTokens), r.Count(u.CacheWriteTokens),
		r.Count(u.OutputTokens), details{r.Count(u.ReasoningTokens)}}
}

func (messagesWire) Whole(_ *runtimetest.Asked, r *runtimetest.Reply) string {
	return string(jsonOf(answerOf(r).message(r.Model, counts(r))))
}

func (messagesWire) Stream(_ *runtimetest.Asked, r *runtimetest.Reply) []string {
	return answerOf(r).events(r.Model, counts(r), counts(r))
}

func (messagesWire) Fault(f runtimetest.Fault, inStream bool) string {
	kinds := map[int]string{401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 503: "api_error", 504: "timeout_error",
		529: "overloaded_error"}
	kind, known := kinds[f.Status]
	if !known {
		kind = "invalid_request_error"
	}
	if f.TooLong {
		f.Message = "prompt is too long: 210000 tokens > 200000 maximum. " + f.Message
	}
	fault := string(jsonOf(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": f.Message},
		"request_id": "req_1"}))
	if inStream {
		return "event: error\ndata: " + strings.TrimSpace(fault) + "\n\n"
	}
	return fault
}
