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
type usage struct{ Input, Cached, Written, Output, Reasoning endpoint.Count }

// UnmarshalJSON reads the counts. What is read from a cache, or written to it, stands in the details, as OpenAI has it,
// or beside the rest, as DeepSeek, Moonshot and LiteLLM have it.
func (u *usage) UnmarshalJSON(data []byte) error {
	var counts struct {
		Input  endpoint.Count  `json:"prompt_tokens"`
		Output endpoint.Count  `json:"completion_tokens"`
		Of     json.RawMessage `json:"prompt_tokens_details"`
		OfOut  json.RawMessage `json:"completion_tokens_details"`
		Hit    endpoint.Count  `json:"prompt_cache_hit_tokens"`
		Cached endpoint.Count  `json:"cached_tokens"`
		Read   endpoint.Count  `json:"cache_read_input_tokens"`
		Made   endpoint.Count  `json:"cache_creation_input_tokens"`
	}
	_ = json.Unmarshal(data, &counts) // what is none of these counts nothing
	in, out := detailsOf(counts.Of), detailsOf(counts.OfOut)
	*u = usage{Input: counts.Input, Output: counts.Output, Reasoning: out.Reasoning,
		Cached:  cmp.Or(in.Cached, counts.Hit, counts.Cached, counts.Read),
		Written: cmp.Or(in.Written, counts.Made)}
	return nil
}

// details are the counts that both APIs have in the details of others.
type details struct {
	Cached    endpoint.Count `json:"cached_tokens"`
	Written   endpoint.Count `json:"cache_write_tokens"`
	Reasoning endpoint.Count `json:"reasoning_tokens"`
}

func detailsOf(data json.RawMessage) (d details) {
	_ = json.Unmarshal(data, &d) // as above
	return d
}

// word is a string, or a number as its digits; anything else is none, and so is the string "null".
type word string

// UnmarshalJSON reads a word.
func (w *word) UnmarshalJSON(data []byte) error {
	var s string
	var n json.Number
	switch {
	case string(data) == "null":
		*w = ""
	case json.Unmarshal(data, &s) == nil:
		if *w = word(s); s == "null" {
			*w = ""
		}
	case json.Unmarshal(data, &n) == nil:
		*w = word(n)
	}
	return nil
}

type choice struct {
	Message      *said           `json:"message"`
	Delta        *said           `json:"delta"` // instead, in a stream
	FinishReason word            `json:"finish_reason"`
	Usage        *usage          `json:"usage"` // Moonshot's, in a stream
	Error        json.RawMessage `json:"error"` // OpenRouter's, when a provider fails half-way
}

type said struct {
	Content   text   `json:"content"`
	Refusal   text   `json:"refusal"`
	ToolCalls []call `json:"tool_calls"`
	extras
}

type call struct {
	Index    *endpoint.Count `json:"index"` // in a stream: which call this is a piece of
	ID       word            `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
	extras
}

// text is the content of a message: a string, null or a list of parts. Of these only the parts of type text are read.
// Some endpoints send the JSON object of a structured answer without quoting it.
type text []byte

// UnmarshalJSON reads any of these.
func (t *text) UnmarshalJSON(data []byte) error {
	if whole, ok := unquoted(data); ok {
		*t = whole
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if endpoint.IsObject(string(data)) {
		*t = bytes.Clone(data)
		return nil
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
	c := r.Choices[0]
	used := deref(cmp.Or(r.Usage, c.Usage))
	if used.Input < 0 || used.Output < 0 {
		return nil, m.client.Broken("", chatPath, errors.New("the answer counts fewer than 0 tokens"))
	}
	if endpoint.IsSet(c.Error) {
		return nil, m.client.FaultIn(ctx, chatPath, c.Error)
	}
	if brokeOff[normal(c.FinishReason)] {
		return nil, m.client.Broken(retry.ServerError, chatPath, fmt.Errorf("the answer broke off: finish_reason %s",
			m.client.Quote(ctx, string(c.FinishReason))))
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
			CacheWriteTokens: int(used.Written), OutputTokens: int(used.Output),
			ReasoningTokens: int(used.Reasoning)}.Clamped(),
		Finish: finish(c.FinishReason, len(said.ToolCalls) > 0, len(req.Tools) > 0),
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

// finishes are the reasons why models stop, as many endpoints spell them, in the form that normal gives them.
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

// brokeOff are the reasons of answers that are not whole: the server gave up, or nobody can read the model's call.
var brokeOff = map[string]bool{"error": true, "networkerror": true, "insufficientsystemresource": true, "abort": true,
	"malformedfunctioncall": true, "functioncallfilter:malformedfunctioncall": true}

var betweenWords = strings.NewReplacer("-", "", "_", "", " ", "")

// normal is a reason without the letters' case and what stands between words.
func normal(reason word) string { return strings.ToLower(betweenWords.Replace(string(reason))) }

// finish is the reason why the model stopped, in the words of runtime.Response. Some say stop, or nothing, after calls,
// too. A model without tools that says that it calls some has stopped for no known reason.
func finish(reason word, calls, offered bool) string {
	known := finishes[normal(reason)]
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
