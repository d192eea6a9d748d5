package gemini_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/gemini"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

func TestSuite(t *testing.T) {
	for name, wire := range map[string]geminiWire{"level": {model: "gemini-3.8-flash"}, "budget": {model: "gemini-2.5-flash"},
		"schema in words": {model: "gemini-3.8-flash", schemaInWords: true}} {
		t.Run(name, func(t *testing.T) { runtimetest.TestModel(t, wire, runtimetest.CacheWrites) })
	}
}

// geminiWire is Google's Gemini API as the provider above has it.
type geminiWire struct {
	model         string
	schemaInWords bool
}

func (wire geminiWire) Connect(t *testing.T, to runtimetest.Endpoint) runtime.Model {
	m, err := gemini.New(gemini.Options{BaseURL: to.URL + "/v1beta", Model: wire.model, APIKey: to.Key,
		MaxBytes: to.MaxBytes, NoSchema: wire.schemaInWords})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (geminiWire) Read(r *http.Request, body []byte) (*runtimetest.Asked, error) {
	req, _, fault := readSent(r, body)
	if fault != "" {
		return nil, errors.New(fault)
	}
	g := req.GenerationConfig
	asked := &runtimetest.Asked{Stream: req.stream, Temperature: g.Temperature, MaxTokens: g.MaxOutputTokens,
		Schema: g.ResponseJSONSchema, Options: runtime.ModelOptions{TopP: g.TopP, Stop: g.StopSequences}}
	if g.Seed != nil {
		seed := int64(*g.Seed)
		asked.Options.Seed = &seed
	}
	if th := g.ThinkingConfig; th != nil {
		asked.Options.Reasoning = strings.ToLower(th.ThinkingLevel)
		if th.ThinkingBudget != nil {
			asked.Options.Reasoning = map[int]string{1024: "low", 8192: "medium", 24576: "high"}[*th.ThinkingBudget]
		}
	}
	if req.SystemInstruction != nil {
		for _, p := range req.SystemInstruction.Parts {
			asked.System += *p.Text + "\n"
		}
	}
	for _, list := range req.Tools {
		for _, f := range list.FunctionDeclarations {
			asked.Tools = append(asked.Tools, runtime.ToolSpec{Name: f.Name, Description: f.Description,
				Parameters: jsonOf(f.ParametersJSONSchema)})
		}
	}
	for _, c := range req.Contents {
		c.read(asked)
	}
	if req.ToolConfig != nil {
		c := req.ToolConfig.FunctionCallingConfig
		if asked.Options.ToolChoice = map[string]string{"AUTO": "auto", "NONE": "none", "ANY": "required"}[c.Mode]; len(c.AllowedFunctionNames) > 0 {
			asked.Options.ToolChoice = c.AllowedFunctionNames[0]
		}
	}
	return asked, nil
}

// read adds a turn to the request that is asked: each result is a message, and so is what else there is.
func (c sentContent) read(asked *runtimetest.Asked) {
	rest := runtime.Message{Role: map[string]runtime.Role{"user": runtime.User, "model": runtime.Assistant}[c.Role]}
	results := 0
	for _, p := range c.Parts {
		switch {
		case p.Text != nil && p.Thought:
			asked.Thinking = append(asked.Thinking, *p.Text)
		case p.Text != nil:
			rest.Text += *p.Text
		case p.FunctionCall != nil:
			rest.ToolCalls = append(rest.ToolCalls, runtime.ToolCall{ID: p.FunctionCall.ID, Name: p.FunctionCall.Name,
				Arguments: jsonOf(p.FunctionCall.Args)})
		case p.FunctionResponse != nil:
			results++
			result := runtime.Message{Role: runtime.ToolRole,
				ToolCallID: p.FunctionResponse.ID, Text: p.FunctionResponse.Response["output"].(string)}
			for _, file := range p.FunctionResponse.Parts {
				result.Files = append(result.Files, file.InlineData.file())
			}
			asked.Messages = append(asked.Messages, result)
		case p.InlineData != nil:
			rest.Files = append(rest.Files, p.InlineData.file())
		}
	}
	if len(c.Parts) > results {
		asked.Messages = append(asked.Messages, rest)
	}
}

// file is what the blob shows.
func (b *sentBlob) file() runtime.File {
	return runtime.File{MediaType: b.MIMEType,
		URL: fmt.Sprintf("data:%s;base64,%s", b.MIMEType, base64.StdEncoding.EncodeToString(b.Data))}
}

// answerOf is a reply as the provider says it: a refusal is a prompt that is blocked. The first call is signed.
func answerOf(r *runtimetest.Reply) *answer {
	a := &answer{blocked: r.Refusal, finish: map[string]string{runtime.FinishStop: "STOP", runtime.FinishCalls: "STOP",
		runtime.FinishLength: "MAX_TOKENS", runtime.FinishFilter: "SAFETY"}[r.Finish]}
	if r.Thinking != "" {
		a.parts = append(a.parts, thought(r.Thinking))
	}
	if r.Text != "" {
		a.parts = append(a.parts, text(r.Text))
	}
	for i, c := range r.Calls {
		p := map[string]any{"functionCall": map[string]any{"id": c.ID, "name": c.Name, "args": c.Arguments}}
		if i == 0 {
			p["thoughtSignature"] = signature(c.Name, c.Arguments)
		}
		a.parts = append(a.parts, p)
	}
	return a
}

// counts encodes the counts of a reply. Those of thoughts are no part of the candidates.
func counts(r *runtimetest.Reply) any {
	u := r.Usage
	return struct {
		Prompt     json.RawMessage `json:"promptTokenCount,omitempty"`
		Cached     json.RawMessage `json:"cachedContentTokenCount,omitempty"`
		Candidates json.RawMessage `json:"candidatesTokenCount,omitempty"`
		Thoughts   json.RawMessage `json:"thoughtsTokenCount,omitempty"`
	}{r.Count(u.InputTokens), r.Count(u.CachedTokens), r.Count(u.OutputTokens - u.ReasoningTokens), r.Count(u.ReasoningTokens)}
}

func (geminiWire) Whole(_ *runtimetest.Asked, r *runtimetest.Reply) string {
	return string(jsonOf(answerOf(r).body(r.Model, counts(r))))
}

func (geminiWire) Stream(_ *runtimetest.Asked, r *runtimetest.Reply) []string {
	return answerOf(r).events(r.Model, counts(r))
}

func (geminiWire) Fault(f runtimetest.Fault, inStream bool) string {
	if f.TooLong {
		f.Message = "The input token count (1091639) exceeds the maximum number of tokens allowed (1048576). " + f.Message
	}
	fault := faultOf(f.Status, f.Message)
	if inStream {
		return "data: " + fault + "\r\n\r\n"
	}
	return fault
}
