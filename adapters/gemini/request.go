package gemini

import (
	"bytes"
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
	Contents   []*content     `json:"contents"`
	System     *content       `json:"systemInstruction,omitempty"`
	Tools      []tools        `json:"tools,omitempty"`
	ToolConfig *toolConfig    `json:"toolConfig,omitempty"`
	Config     map[string]any `json:"generationConfig,omitempty"`
}

// content is a turn, or the instructions.
type content struct {
	Role  string `json:"role,omitempty"` // user, model
	Parts []any  `json:"parts"`          // *part, or json.RawMessage: a part of the model as it came

	results bool // it has the results of calls, and nothing else
}

// part is a piece of a turn: one of its members, and the signature of what the model thought for it.
type part struct {
	Text             *string           `json:"text,omitempty"`
	InlineData       *blob             `json:"inlineData,omitempty"`
	FileData         *fileData         `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	Signature        string            `json:"thoughtSignature,omitempty"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string  `json:"id,omitempty"` // of the call
	Name     string  `json:"name"`
	Response output  `json:"response"`
	Parts    []*part `json:"parts,omitempty"` // files
}

type output struct {
	Output string `json:"output"`
}

type tools struct {
	Functions []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"` // nil: it has none
}

type toolConfig struct {
	Calling callingConfig `json:"functionCallingConfig"`
}

type callingConfig struct {
	Mode    string   `json:"mode"`                           // AUTO, ANY, NONE
	Allowed []string `json:"allowedFunctionNames,omitempty"` // with ANY; nil: all
}

// What Options.Defaults cannot have, in a request and in its generationConfig: the adapter sets it, or answers would
// come in a form that it does not read.
var (
	ours         = []string{"model", "contents", "systemInstruction", "tools", "toolConfig"}
	oursInConfig = []string{"maxOutputTokens", "responseMimeType", "responseSchema", "responseJsonSchema",
		"candidateCount", "responseLogprobs", "logprobs", "responseModalities"}
)

// generationConfig is the member with the settings of an answer.
const generationConfig = "generationConfig"

// membersOf checks defaults, and takes those of generationConfig, which each request adds to, out of them.
func membersOf(defaults map[string]any) (plain []endpoint.Member, config map[string]any, err error) {
	rest := maps.Clone(defaults)
	if given, ok := rest[generationConfig]; ok {
		delete(rest, generationConfig)
		if config, ok = given.(map[string]any); !ok {
			return nil, nil, fmt.Errorf("the default %q must be an object", generationConfig)
		}
		if _, err := endpoint.Members(config, oursInConfig); err != nil {
			return nil, nil, err
		}
	}
	plain, err = endpoint.Members(rest, ours)
	return plain, config, err
}

// encode makes the body of a request, and returns the tools' names by what they are on the wire.
func (m *Model) encode(req *runtime.Request) (body []byte, names map[string]string, err error) {
	c, err := m.conversation(req.Messages)
	if err != nil {
		return nil, nil, err
	}
	out := request{Contents: c.turns, Config: m.settings(req)}
	if out.Tools, out.ToolConfig, names, err = functionsOf(req); err != nil {
		return nil, nil, err
	}
	if err := m.think(req, out.Config); err != nil {
		return nil, nil, err
	}
	if req.Schema != nil {
		lowered, ok := lowered(req.Schema)
		if ok && !m.opts.NoSchema && (out.Tools == nil || !m.isOld()) { // which refuse both
			out.Config["responseMimeType"], out.Config["responseJsonSchema"] = "application/json", lowered
		} else {
			c.system = append(c.system, textPart("Answer with nothing but JSON that matches this schema:\n"+
				string(req.Schema)))
		}
	}
	if c.system != nil {
		out.System = &content{Parts: c.system}
	}
	if body, err = json.Marshal(out); err != nil {
		return nil, nil, err
	}
	return endpoint.WithMembers(body, m.defaults, func(string) bool { return false }), names, nil
}

// settings are the generationConfig of a request, but for its schema and its thinking.
func (m *Model) settings(req *runtime.Request) map[string]any {
	config := maps.Clone(m.config)
	if config == nil {
		config = map[string]any{}
	}
	if req.MaxTokens > 0 {
		config["maxOutputTokens"] = req.MaxTokens
	}
	if req.Temperature != nil {
		config["temperature"] = *req.Temperature
	}
	if o := req.Options; o.TopP != nil {
		config["topP"] = *o.TopP
	}
	if req.Options.Stop != nil {
		config["stopSequences"] = req.Options.Stop
	}
	if req.Options.Seed != nil {
		config["seed"] = *req.Options.Seed
	}
	return config
}

// old matches the models before Gemini 3: they think by a budget of tokens, do not ask for signatures, and take a
// schema or tools, but not both.
var old = regexp.MustCompile(`^(gemini-([12](\.\d)?-|robotics-er-1)|gemma|learnlm)`)

func (m *Model) isOld() bool {
	return old.MatchString(m.opts.Model[strings.LastIndex(m.opts.Model, "/")+1:])
}

// budgets are the tokens that old models think with, as Google's own endpoint for OpenAI's API has it.
// https://ai.google.dev/gemini-api/docs/openai (2026-11)
var budgets = map[string]int{"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}

// think adds to the settings how much the model thinks, and that it tells what.
func (m *Model) think(req *runtime.Request, config map[string]any) error {
	effort := cmp.Or(req.Options.Reasoning, m.opts.Reasoning)
	switch budget, known := budgets[effort]; {
	case effort == "":
	case !m.isOld():
		config["thinkingConfig"] = map[string]any{"thinkingLevel": strings.ToUpper(effort), "includeThoughts": true}
	case !known:
		return fmt.Errorf("%q is no effort of reasoning\n  hint: they are: none, minimal, low, medium, high", effort)
	default:
		config["thinkingConfig"] = map[string]any{"thinkingBudget": budget, "includeThoughts": budget > 0}
	}
	return nil
}

// functionsOf are the tools that a request offers, or else those that its conversation calls.
func functionsOf(req *runtime.Request) (list []tools, config *toolConfig, names map[string]string, err error) {
	offered, calling := req.Tools, callingConfig{}
	switch wanted := req.Options.ToolChoice; wanted {
	case "", runtime.ToolsAuto:
	case runtime.ToolsRequired:
		calling.Mode = "ANY"
	case runtime.ToolsNone:
		calling.Mode = "NONE"
	default:
		calling.Mode, calling.Allowed = "ANY", []string{endpoint.ToolName(wanted)}
	}
	if len(offered) == 0 {
		offered, calling = endpoint.Called(req.Messages), callingConfig{Mode: "NONE"}
	}
	forms, names, err := endpoint.Tools(offered)
	if err != nil || len(forms) == 0 {
		return nil, nil, names, err
	}
	functions := make([]function, len(forms))
	for i, f := range forms {
		functions[i] = function{Name: f.Name, Description: f.Description, Parameters: parametersOf(f.Parameters)}
	}
	if calling.Mode != "" {
		config = &toolConfig{calling}
	}
	return []tools{{functions}}, config, names, nil
}

// parametersOf is the schema of a tool's arguments in the form that the API takes. nil: there are none.
func parametersOf(schema json.RawMessage) json.RawMessage {
	parameters, _ := lowered(schema) // what is lost of it is checked by the tool
	if slices.ContainsFunc([]string{`{"properties":{},"type":"object"}`,
		`{"additionalProperties":false,"properties":{},"type":"object"}`}, func(none string) bool {
		return bytes.Equal(parameters, []byte(none))
	}) {
		return nil
	}
	return parameters
}
