package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// reply is what the adapter reads of an answer, or of a piece of one; whatever else is in it may
// have any shape.
type reply struct {
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
	Model   any      `json:"model"` // a string, or no matter

	body []byte // without choices: all of it
}

// usage has the counts of tokens. Whatever is no object has none.
type usage struct{ Input, Cached, Output, Reasoning endpoint.Count }

// UnmarshalJSON reads the counts. What is read from a cache stands in the details, as OpenAI has it, or beside the
// rest, as DeepSeek has it.
func (u *usage) UnmarshalJSON(data []byte) error {
	var counts struct {
		Input  endpoint.Count  `json:"prompt_tokens"`
		Output endpoint.Count  `json:"completion_tokens"`
		Of     json.RawMessage `json:"prompt_tokens_details"`
		OfOut  json.RawMessage `json:"completion_tokens_details"`
		Hit    endpoint.Count  `json:"prompt_cache_hit_tokens"`
	}
	var in struct {
		Cached endpoint.Count `json:"cached_tokens"`
	}
	var out struct {
		Reasoning endpoint.Count `json:"reasoning_tokens"`
	}
	_ = json.Unmarshal(data, &counts) // what is none of these counts nothing
	_ = json.Unmarshal(counts.Of, &in)
	_ = json.Unmarshal(counts.OfOut, &out)
	*u = usage{counts.Input, cmp.Or(in.Cached, counts.Hit), counts.Output, out.Reasoning}
	return nil
}

// word is a string, or a number as its digits; anything else is none.
type word string

// UnmarshalJSON reads a word.
func (w *word) UnmarshalJSON(data []byte) error {
	var s string
	var n json.Number
	switch {
	case json.Unmarshal(data, &s) == nil:
		*w = word(s)
	case json.Unmarshal(data, &n) == nil:
		*w = word(n)
	}
	return nil
}

type choice struct {
	Message      *said           `json:"message"`
	Delta        *said           `json:"delta"` // instead, in a stream
	FinishReason word            `json:"finish_reason"`
	Error        json.RawMessage `json:"error"` // OpenRouter's, when a provider fails half-way
}

type said struct {
	Content   text   `json:"content"`
	Refusal   text   `json:"refusal"`
	ToolCalls []call `json:"tool_calls"`
	extras
}

type call struct {
	Index    *int `json:"index"` // in a stream: which call this is a piece of
	ID       word `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
	extras
}

// text is the content of a message: a string, null, or parts of which those of type text count.
type text []byte

// UnmarshalJSON reads any of the three.
func (t *text) UnmarshalJSON(data []byte) error {
	if whole, ok := unquoted(data); ok {
		*t = whole
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(data, &parts) != nil {
		return errors.New("the content of the message is neither text nor a list of parts")
	}
	*t = nil
	for _, part := range parts {
		if part.Type == "text" {
			*t = append(*t, part.Text...)
		}
	}
	return nil
}

// arguments are those of a tool call: JSON in a string, as the protocol wants it, or the JSON
// itself, as some servers have it.
type arguments []byte

// UnmarshalJSON reads either.
func (a *arguments) UnmarshalJSON(data []byte) error {
	inside, ok := unquoted(data)
	if !ok {
		inside = bytes.Clone(data)
	}
	*a = inside
	return nil
}

// response makes the response of what the endpoint answered. names has the tools that were offered,
// by what they are on the wire.
func (m *Model) response(
	ctx context.Context, r *reply, req *runtime.Request, names map[string]string,
) (*runtime.Response, error) {
	if len(r.Choices) == 0 {
		said := "the answer has no choices"
		if r.body != nil {
			said += ": " + m.client.Quote(ctx, string(r.body))
		}
		return nil, m.client.Broken(retry.Unknown, chatPath, errors.New(said))
	}
	used := deref(r.Usage)
	if used.Input < 0 || used.Output < 0 {
		return nil, m.client.Broken("", chatPath, errors.New("the answer counts fewer than 0 tokens"))
	}
	c := r.Choices[0]
	if endpoint.IsSet(c.Error) {
		return nil, m.client.FaultIn(ctx, chatPath, c.Error)
	}
	said := deref(c.Message)
	if len(said.Refusal) > 0 && len(said.Content) == 0 && len(said.ToolCalls) == 0 {
		return nil, m.client.Broken("", chatPath,
			fmt.Errorf("the model refused: %s", m.client.Quote(ctx, string(said.Refusal))))
	}
	resp := &runtime.Response{
		Text:  string(withoutHalves(said.Content)),
		Parts: m.parts(said.extras),
		Usage: runtime.Usage{InputTokens: int(used.Input), CachedTokens: int(used.Cached),
			OutputTokens: int(used.Output), ReasoningTokens: int(used.Reasoning)}.Clamped(),
		Finish: finish(string(c.FinishReason), len(said.ToolCalls) > 0, len(req.Tools) > 0),
	}
	resp.Model, _ = r.Model.(string)
	for i, call := range said.ToolCalls {
		name, offered := names[call.Function.Name]
		if !offered { // made up: the one who calls the tools knows what to say
			name = call.Function.Name
		}
		id := string(call.ID)
		if id == "" {
			id = fmt.Sprintf("call_%d_%d", req.StepCall, i+1)
		}
		resp.ToolCalls = append(resp.ToolCalls,
			runtime.ToolCall{ID: id, Name: name, Arguments: endpoint.Arguments(withoutHalves(call.Function.Arguments)),
				Parts: m.parts(call.extras)})
	}
	return resp, nil
}

// finishes are the reasons why models stop, as many endpoints spell them, without the letters' case and what stands
// between words.
var finishes = map[string]string{
	"stop": runtime.FinishStop, "endturn": runtime.FinishStop, "stopsequence": runtime.FinishStop,
	"eos": runtime.FinishStop, "eostoken": runtime.FinishStop, "completed": runtime.FinishStop,
	"length": runtime.FinishLength, "maxtokens": runtime.FinishLength, "maxoutputtokens": runtime.FinishLength,
	"modellength": runtime.FinishLength, "modelcontextwindowexceeded": runtime.FinishLength,
	"contentfilter": runtime.FinishFilter, "contentfiltered": runtime.FinishFilter, "filtered": runtime.FinishFilter,
	"safety": runtime.FinishFilter, "recitation": runtime.FinishFilter, "blocklist": runtime.FinishFilter,
	"prohibitedcontent": runtime.FinishFilter, "spii": runtime.FinishFilter, "refusal": runtime.FinishFilter,
	"sensitive": runtime.FinishFilter, "guardrailintervened": runtime.FinishFilter,
	"toolcalls": runtime.FinishCalls, "toolcall": runtime.FinishCalls, "tooluse": runtime.FinishCalls,
	"functioncall": runtime.FinishCalls,
}

var betweenWords = strings.NewReplacer("-", "", "_", "", " ", "")

// finish is the reason why the model stopped, in the words of runtime.Response. Some say stop, or nothing, after calls,
// too. A model without tools that says that it calls some has stopped for no known reason.
func finish(reason string, calls, offered bool) string {
	known := finishes[strings.ToLower(betweenWords.Replace(reason))]
	switch {
	case calls && (known == runtime.FinishStop || reason == ""):
		return runtime.FinishCalls
	case known == runtime.FinishCalls && !calls && !offered:
		return ""
	}
	return known
}

// deref is what p points at, or nothing.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
