package anthropic

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// reply is what the adapter reads of an answer.
type reply struct {
	Content    []*said `json:"content"`
	StopReason string  `json:"stop_reason"`
	Usage      usage   `json:"usage"`
	Model      any     `json:"model"` // a string, or no matter
}

// said is a block of an answer.
type said struct {
	Type      string
	Text      []byte // or the thought
	Signature []byte // of a thought
	ID, Name  string
	Input     []byte // of a call, as far as it came

	raw   map[string]json.RawMessage
	index int // in a stream
}

// UnmarshalJSON reads a block, and keeps all of it.
func (s *said) UnmarshalJSON(data []byte) error {
	var known struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(data, &known); err != nil {
		return err
	}
	*s = said{Type: known.Type, Text: []byte(known.Text + known.Thinking), Signature: []byte(known.Signature),
		ID: known.ID, Name: known.Name, Input: known.Input}
	return json.Unmarshal(data, &s.raw)
}

// asItCame is a block for the next request. nil: there is nothing to send back, such as half of a thought.
func (s *said) asItCame() json.RawMessage {
	if s.Type == "thinking" {
		if len(s.Signature) == 0 {
			return nil
		}
		s.raw["thinking"], s.raw["signature"] = quoted(s.Text), quoted(s.Signature)
	}
	block, err := json.Marshal(s.raw)
	if err != nil { // it was JSON
		return nil
	}
	return block
}

func quoted(text []byte) json.RawMessage {
	s, _ := json.Marshal(string(text)) // a string has no error
	return s
}

// usage has the counts of tokens.
type usage struct{ Input, CacheRead, CacheWrite, Output, Thinking endpoint.Count }

// UnmarshalJSON reads the counts that are there. The others stay: later ones of a stream replace those before.
func (u *usage) UnmarshalJSON(data []byte) error {
	var counts struct {
		Input      *endpoint.Count `json:"input_tokens"`
		CacheRead  *endpoint.Count `json:"cache_read_input_tokens"`
		CacheWrite *endpoint.Count `json:"cache_creation_input_tokens"`
		Output     *endpoint.Count `json:"output_tokens"`
		Of         json.RawMessage `json:"output_tokens_details"`
	}
	var of struct {
		Thinking *endpoint.Count `json:"thinking_tokens"`
	}
	_ = json.Unmarshal(data, &counts) // what is none of these counts nothing
	_ = json.Unmarshal(counts.Of, &of)
	for _, c := range []struct {
		to   *endpoint.Count
		from *endpoint.Count
	}{{&u.Input, counts.Input}, {&u.CacheRead, counts.CacheRead}, {&u.CacheWrite, counts.CacheWrite},
		{&u.Output, counts.Output}, {&u.Thinking, of.Thinking}} {
		if c.from != nil {
			*c.to = max(0, *c.from)
		}
	}
	return nil
}

// used are the counts as all providers have them: the API's input is what no cache has to do with.
func (u usage) used() runtime.Usage {
	return runtime.Usage{InputTokens: int(u.Input + u.CacheRead + u.CacheWrite), CachedTokens: int(u.CacheRead),
		CacheWriteTokens: int(u.CacheWrite), OutputTokens: int(u.Output), ReasoningTokens: int(u.Thinking)}.Clamped()
}

// finishes are the reasons why the model stopped. A turn that is paused or has filled the context is not whole, either.
var finishes = map[string]string{
	"end_turn": runtime.FinishStop, "stop_sequence": runtime.FinishStop, "tool_use": runtime.FinishCalls,
	"max_tokens": runtime.FinishLength, "model_context_window_exceeded": runtime.FinishLength,
	"pause_turn": runtime.FinishLength, "refusal": runtime.FinishFilter,
}

// readWhole reads an answer that is one piece.
func (m *Model) readWhole(ctx context.Context, in io.Reader, r *reply) error {
	if err := m.client.ReadWhole(ctx, messagesPath, in, r); err != nil {
		return err
	}
	return m.complete(r)
}

// complete says what an answer lacks.
func (m *Model) complete(r *reply) error {
	if r.Content == nil && r.StopReason == "" {
		return m.client.Broken(retry.Unknown, messagesPath, errors.New("the answer has no content"))
	}
	return nil
}

// response makes the response of an answer. names has the tools that were offered, by what they are on the wire.
func (m *Model) response(r *reply, req *runtime.Request, names map[string]string) *runtime.Response {
	resp := &runtime.Response{Usage: r.Usage.used(), Finish: finishes[r.StopReason]}
	resp.Model, _ = r.Model.(string)
	var order []any
	opaque := false
	for _, s := range r.Content {
		switch s.Type {
		case "text":
			resp.Text += string(s.Text)
			order = append(order, len(s.Text))
		case "tool_use":
			resp.ToolCalls = append(resp.ToolCalls, callOf(s, req, len(resp.ToolCalls)+1, names))
			order = append(order, json.RawMessage(callMark))
		default:
			if block := s.asItCame(); block != nil {
				order, opaque = append(order, block), true
			}
		}
	}
	if data, err := json.Marshal(order); opaque && err == nil {
		resp.Parts = []runtime.Part{{Of: m.self(), Name: orderPart, Data: data}}
	}
	switch calls := len(resp.ToolCalls) > 0; {
	case calls && (resp.Finish == runtime.FinishStop || r.StopReason == ""):
		resp.Finish = runtime.FinishCalls
	case !calls && resp.Finish == runtime.FinishCalls && len(req.Tools) == 0:
		resp.Finish = ""
	}
	return resp
}

func callOf(s *said, req *runtime.Request, n int, names map[string]string) runtime.ToolCall {
	call := runtime.ToolCall{ID: s.ID, Name: s.Name, Arguments: endpoint.Arguments(s.Input)}
	if name, offered := names[s.Name]; offered { // or else made up: the one who calls the tools knows what to say
		call.Name = name
	}
	if call.ID == "" {
		call.ID = fmt.Sprintf("call_%d_%d", req.StepCall, n)
	}
	return call
}

// event is an event of a stream.
type event struct {
	Type    string          `json:"type"`
	Message *reply          `json:"message"`
	Index   int             `json:"index"`
	Block   *said           `json:"content_block"`
	Usage   json.RawMessage `json:"usage"`
	Delta   struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
}

// blockBytes is what a block counts against MaxBytes besides its text, so that there are not too many of them.
const blockBytes = 1 << 10

// readStream puts the answer together from events, and hands on its text as it comes. An answer is whole when it has a
// stop_reason.
func (m *Model) readStream(ctx context.Context, in *bufio.Reader, r *reply, shown *endpoint.Shown) error {
	size := 0
	finished := func() bool { return r.StopReason != "" }
	return m.client.ReadEvents(ctx, messagesPath, in, finished, func(data []byte) error {
		var e event
		if err := m.client.Decode(ctx, messagesPath, data, &e); err != nil {
			return err
		}
		d := &e.Delta
		size += len(d.Text) + len(d.Thinking) + len(d.Signature) + len(d.PartialJSON)
		if e.Block != nil {
			size += len(data) + blockBytes
		}
		switch {
		case int64(size) > m.client.MaxBytes():
			return m.client.TooLarge(messagesPath)
		case e.Type == "message_stop":
			return io.EOF
		}
		text, ok := r.add(&e)
		if !ok {
			return m.client.Broken(retry.Unknown, messagesPath,
				fmt.Errorf("the answer has a piece of block %d, which did not begin", e.Index))
		}
		e.show(text, shown)
		return nil
	})
}

// show hands on what an event brings.
func (e *event) show(text string, shown *endpoint.Shown) {
	switch {
	case e.Block == nil:
		shown.Think(e.Delta.Thinking)
	case e.Block.Type == "thinking":
		shown.Think(string(e.Block.Text))
	case e.Block.Type == "tool_use":
		shown.Call(e.Block.Name)
	}
	shown.Add(text)
}

// add adds an event, and returns the text that it brings. It is false for a piece of a block that is not there.
func (r *reply) add(e *event) (text string, ok bool) {
	switch e.Type {
	case "message_start":
		if e.Message != nil {
			*r = *e.Message
		}
	case "content_block_start":
		if e.Block == nil {
			return "", false
		}
		if e.Block.index = e.Index; len(e.Block.Input) < len(`{"":0}`) {
			e.Block.Input = nil // {} or null: its pieces come
		}
		r.Content = append(r.Content, e.Block)
		if e.Block.Type == "text" {
			return string(e.Block.Text), true
		}
	case "content_block_delta":
		i := len(r.Content) - 1
		for i >= 0 && r.Content[i].index != e.Index {
			i--
		}
		if i < 0 {
			return "", false
		}
		to, d := r.Content[i], &e.Delta
		to.Text = append(append(to.Text, d.Text...), d.Thinking...)
		to.Signature = append(to.Signature, d.Signature...)
		to.Input = append(to.Input, d.PartialJSON...)
		return d.Text, true
	case "message_delta":
		if e.Delta.StopReason != "" {
			r.StopReason = e.Delta.StopReason
		}
		if e.Usage != nil {
			_ = r.Usage.UnmarshalJSON(e.Usage) // it has no error
		}
	}
	return "", true
}
