package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/runtime"
)

// request is the body of a request.
type request struct {
	Model        string        `json:"model"`
	MaxTokens    int           `json:"max_tokens"`
	Tools        []tool        `json:"tools,omitempty"`
	ToolChoice   *toolChoice   `json:"tool_choice,omitempty"`
	System       []*block      `json:"system,omitempty"`
	Messages     []turn        `json:"messages"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
	Thinking     *thinking     `json:"thinking,omitempty"`
	Temperature  *float64      `json:"temperature,omitempty"`
	TopP         *float64      `json:"top_p,omitempty"`
	Stop         []string      `json:"stop_sequences,omitempty"`
	Stream       bool          `json:"stream,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"input_schema"`
	Cache       *cacheMark      `json:"cache_control,omitempty"`
}

type toolChoice struct {
	Type    string `json:"type"` // auto, any, tool, none
	Name    string `json:"name,omitempty"`
	OneCall bool   `json:"disable_parallel_tool_use,omitempty"`
}

// turn is what one side says until it is the other's turn.
type turn struct {
	Role    runtime.Role `json:"role"`    // user, assistant
	Content []any        `json:"content"` // *block, or json.RawMessage: a block of the model as it came
}

// block is a piece of a turn: a text, a file, a tool call or its result.
type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text,omitempty"`
	Source  *source         `json:"source,omitempty"`
	ID      string          `json:"id,omitempty"`
	Name    string          `json:"name,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	CallID  string          `json:"tool_use_id,omitempty"`
	Content []*block        `json:"content,omitempty"`
	Cache   *cacheMark      `json:"cache_control,omitempty"`
}

// cacheMark ends a prefix of the request that the provider keeps for the next one, for five minutes.
type cacheMark struct {
	Type string `json:"type"`
}

var marked = &cacheMark{Type: "ephemeral"}

type outputConfig struct {
	Effort string  `json:"effort,omitempty"`
	Format *format `json:"format,omitempty"`
}

type format struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type thinking struct {
	Type   string `json:"type"` // adaptive, enabled
	Budget int    `json:"budget_tokens,omitempty"`
}

// encode makes the body of a request, and returns the tools' names by what they are on the wire.
func (m *Model) encode(req *runtime.Request, stream bool) (body []byte, names map[string]string, err error) {
	out := request{Model: m.opts.Model, MaxTokens: cmp.Or(req.MaxTokens, m.opts.MaxTokens), Stream: stream,
		Temperature: req.Temperature, TopP: req.Options.TopP, Stop: req.Options.Stop}
	c, err := m.conversation(req.Messages)
	if err != nil {
		return nil, nil, err
	}
	out.Messages = c.turns
	if out.Tools, out.ToolChoice, names, err = m.tools(req); err != nil {
		return nil, nil, err
	}
	var config outputConfig
	if req.Schema != nil {
		if lowered := m.lowered(req.Schema); lowered != nil {
			config.Format = &format{"json_schema", lowered}
		} else {
			c.instruct("Answer with nothing but JSON that matches this schema:\n" + string(req.Schema))
		}
	}
	out.Thinking, config.Effort = m.thinking(req, out.MaxTokens, c)
	if config != (outputConfig{}) {
		out.OutputConfig = &config
	}
	out.System = c.system
	out.mark()
	if body, err = json.Marshal(out); err != nil {
		return nil, nil, err
	}
	return endpoint.WithMembers(body, m.defaults, out.says), names, nil
}

// says reports whether a request has its own value for a member that Options.Defaults may have.
func (r *request) says(name string) bool {
	switch name {
	case "temperature":
		return r.Temperature != nil
	case "top_p":
		return r.TopP != nil
	case "stop_sequences":
		return r.Stop != nil
	case "thinking":
		return r.Thinking != nil
	}
	return false
}

// tools are those that a request offers, or else those that its conversation calls: the API wants them declared.
func (m *Model) tools(req *runtime.Request) (list []tool, choice *toolChoice, names map[string]string, err error) {
	offered := req.Tools
	choice = &toolChoice{OneCall: m.opts.OneCall}
	switch wanted := req.Options.ToolChoice; wanted {
	case "", runtime.ToolsAuto:
		choice.Type = "auto"
	case runtime.ToolsRequired:
		choice.Type = "any"
	case runtime.ToolsNone:
		choice = &toolChoice{Type: "none"}
	default:
		choice.Type, choice.Name = "tool", endpoint.ToolName(wanted)
	}
	if len(offered) == 0 {
		offered, choice = endpoint.Called(req.Messages), &toolChoice{Type: "none"}
	}
	forms, names, err := endpoint.Tools(offered)
	for _, f := range forms {
		list = append(list, tool{Name: f.Name, Description: f.Description, Schema: f.Parameters})
	}
	if len(list) == 0 || *choice == (toolChoice{Type: "auto"}) { // which is the default
		choice = nil
	}
	return list, choice, names, err
}

// manual matches the models that think by a budget of tokens, and not by an effort.
// https://platform.claude.com/docs/en/build-with-claude/extended-thinking
var manual = regexp.MustCompile(`claude-(3[-.]|(opus|sonnet|haiku)-4([-.][0-5])?([-@:]20\d{6}|$))`)

// The least budget, and by how much of an answer's limit it is divided.
const minBudget = 1024

var budgets = map[string]int{"low": 8, "medium": 4, "high": 2}

// thinking is what a request says about it. Models that think by a budget cannot begin between a call and its result.
func (m *Model) thinking(req *runtime.Request, maxTokens int, c *conversation) (t *thinking, effort string) {
	effort = cmp.Or(req.Options.Reasoning, m.opts.Reasoning)
	switch {
	case effort == "":
		return nil, ""
	case !manual.MatchString(m.opts.Model):
		return &thinking{Type: "adaptive"}, effort
	case c.calledWithoutThinking():
		return nil, ""
	}
	return &thinking{"enabled", max(minBudget, maxTokens/cmp.Or(budgets[effort], budgets["high"]))}, ""
}

// mark marks what the next request will begin with: the tools and the instructions, with and without the last of these,
// which may be of this run alone; and where tools are offered, or the model has spoken before, all of the conversation.
// The API looks back for no more than twenty blocks, so the end of the request before this one is marked, too. It takes
// four marks.
// https://platform.claude.com/docs/en/build-with-claude/prompt-caching
func (r *request) mark() {
	n := len(r.Messages)
	for _, b := range r.System[max(0, len(r.System)-2):] {
		b.Cache = marked
	}
	if len(r.Tools) > 0 && len(r.System) == 0 {
		r.Tools[len(r.Tools)-1].Cache = marked
	}
	if len(r.Tools) == 0 && n == 1 {
		return
	}
	for _, i := range []int{n - 1, n - 3} {
		if i < 0 {
			return
		}
		for _, b := range slices.Backward(r.Messages[i].Content) {
			if b, ok := b.(*block); ok {
				b.Cache = marked
				break
			}
		}
	}
}

// lowered is a schema of an answer in the form that structured outputs take: objects have the properties that they
// name, and no others, and limits are a part of the description. The engine checks all of it. nil: there is no such
// form, or the model has no structured outputs.
// https://platform.claude.com/docs/en/build-with-claude/structured-outputs
func (m *Model) lowered(schema json.RawMessage) json.RawMessage {
	var root map[string]any
	if m.opts.NoSchema || json.Unmarshal(schema, &root) != nil || root["type"] != "object" || !lower(root) {
		return nil
	}
	lowered, err := json.Marshal(root)
	if err != nil {
		return nil
	}
	return lowered
}

// lower lowers a schema in place; false: it cannot be.
func lower(s map[string]any) bool {
	if s["$ref"] != nil { // it stands alone
		maps.DeleteFunc(s, func(key string, _ any) bool { return key != "$ref" })
		return true
	}
	if s["type"] == nil && s["anyOf"] == nil && s["allOf"] == nil && s["enum"] == nil && s["const"] == nil {
		return false
	}
	if s["type"] == "object" || s["properties"] != nil {
		if open := s["additionalProperties"]; open != nil && open != false || s["properties"] == nil {
			return false
		}
		s["additionalProperties"] = false
	}
	var left []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		switch v := s[key]; key {
		case "type", "enum", "const", "title", "description", "required", "additionalProperties":
		case "items":
			if sub, ok := v.(map[string]any); !ok || !lower(sub) {
				return false
			}
		case "anyOf", "allOf":
			list, _ := v.([]any)
			for _, sub := range list {
				if sub, ok := sub.(map[string]any); !ok || !lower(sub) {
					return false
				}
			}
		case "properties", "$defs":
			subs, _ := v.(map[string]any)
			for _, sub := range subs {
				if sub, ok := sub.(map[string]any); !ok || !lower(sub) {
					return false
				}
			}
		case "$schema", "$id":
			delete(s, key)
		default:
			text, _ := json.Marshal(v) // it was JSON
			left = append(left, fmt.Sprintf("%s: %s", key, text))
			delete(s, key)
		}
	}
	if left != nil {
		description, _ := s["description"].(string)
		s["description"] = strings.TrimSpace(description + " {" + strings.Join(left, ", ") + "}")
	}
	return true
}
