package gemini

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// chunk is what the adapter reads of an answer, or of a piece of one.
type chunk struct {
	Candidates []struct {
		Index   int `json:"index"`
		Content struct {
			Parts []*said `json:"parts"`
		} `json:"content"`
		FinishReason  string `json:"finishReason"`
		FinishMessage string `json:"finishMessage"`
	} `json:"candidates"`
	Feedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage usage `json:"usageMetadata"`
	Model any   `json:"modelVersion"` // a string, or no matter
}

// said is a part of an answer.
type said struct {
	Text      *string `json:"text"`
	Thought   bool    `json:"thought"`
	Signature string  `json:"thoughtSignature"`
	Call      *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`

	text []byte          // with Text, of all parts that make one
	raw  json.RawMessage // of neither a text nor a call
}

// isOther reports whether a part is neither a text nor a call.
func (s *said) isOther() bool { return s.Text == nil && s.Call == nil }

// reply is an answer, as far as it has come.
type reply struct {
	parts   []*said
	finish  string // why it ended; "": it has not
	message string // about that
	blocked string // why the prompt was; "": it was not
	usage   usage
	model   string
}

// add adds a piece of an answer, which is in data, and hands on what it brings. Only the first candidate is asked for.
func (r *reply) add(c *chunk, data []byte, shown *endpoint.Shown) {
	r.usage.update(c.Usage)
	if name, ok := c.Model.(string); ok {
		r.model = name
	}
	if c.Feedback.BlockReason != "" {
		r.blocked = c.Feedback.BlockReason
	}
	for i := range c.Candidates {
		candidate := &c.Candidates[i]
		if candidate.Index != 0 {
			continue
		}
		if candidate.FinishReason != "" {
			r.finish, r.message = candidate.FinishReason, candidate.FinishMessage
		}
		for n, s := range candidate.Content.Parts {
			if s == nil { // null
				continue
			}
			if s.isOther() {
				s.raw = rawPart(data, i, n)
			}
			r.put(s)
			s.show(shown)
		}
	}
}

// rawPart is the part n of the candidate i, as it came. Few answers have parts that are needed so.
func rawPart(data []byte, i, n int) json.RawMessage {
	var c struct {
		Candidates []struct {
			Content struct {
				Parts []json.RawMessage `json:"parts"`
			} `json:"content"`
		} `json:"candidates"`
	}
	if json.Unmarshal(data, &c) != nil { // it was read already
		return nil
	}
	return c.Candidates[i].Content.Parts[n]
}

// put adds a part. Texts that come in pieces become one, unless they have signatures: these keep their places.
func (r *reply) put(s *said) {
	if s.Text == nil || s.Call != nil {
		r.parts = append(r.parts, s)
		return
	}
	if n := len(r.parts); n > 0 && s.Signature == "" {
		if last := r.parts[n-1]; last.Text != nil && last.Call == nil && last.Signature == "" &&
			last.Thought == s.Thought {
			last.text = append(last.text, *s.Text...)
			return
		}
	}
	if s.Signature != "" || *s.Text != "" {
		s.text = []byte(*s.Text)
		r.parts = append(r.parts, s)
	}
}

// show hands on what a part brings. shown may be nil: the answer came at once.
func (s *said) show(shown *endpoint.Shown) {
	switch {
	case shown == nil:
	case s.Call != nil:
		shown.Call(s.Call.Name)
	case s.Text == nil:
	case s.Thought:
		shown.Think(*s.Text)
	default:
		shown.Add(*s.Text)
	}
}

// size is what a part counts against MaxBytes.
func (s *said) size() int {
	switch {
	case s == nil:
		return 0
	case s.Call != nil:
		return len(s.Call.Args) + len(s.Signature)
	case s.Text == nil:
		return len(s.raw)
	}
	return len(*s.Text) + len(s.Signature)
}

// asItCame is a part that is neither a call nor a text of the answer, for the next request.
func (s *said) asItCame() json.RawMessage {
	if s.raw != nil {
		return s.raw
	}
	raw, _ := json.Marshal(struct { // texts have no error
		Text      string `json:"text"`
		Thought   bool   `json:"thought"`
		Signature string `json:"thoughtSignature,omitempty"`
	}{string(s.text), true, s.Signature})
	return raw
}

// usage has the counts of tokens; nil: the answer has none.
type usage struct {
	Prompt     *endpoint.Count `json:"promptTokenCount"`
	Cached     *endpoint.Count `json:"cachedContentTokenCount"`
	ToolUse    *endpoint.Count `json:"toolUsePromptTokenCount"`
	Candidates *endpoint.Count `json:"candidatesTokenCount"`
	Thoughts   *endpoint.Count `json:"thoughtsTokenCount"`
}

// UnmarshalJSON reads the counts that are there. What is no object counts nothing.
func (u *usage) UnmarshalJSON(data []byte) error {
	type counts usage // without this method
	_ = json.Unmarshal(data, (*counts)(u))
	return nil
}

// update takes over the counts that are there: those of a stream replace those before.
func (u *usage) update(later usage) {
	for _, c := range []struct{ to, from **endpoint.Count }{{&u.Prompt, &later.Prompt}, {&u.Cached, &later.Cached},
		{&u.ToolUse, &later.ToolUse}, {&u.Candidates, &later.Candidates}, {&u.Thoughts, &later.Thoughts}} {
		if *c.from != nil {
			*c.to = *c.from
		}
	}
}

// used are the counts as all providers have them: the API's candidates are without thoughts.
func (u usage) used() runtime.Usage {
	count := func(c *endpoint.Count) int {
		if c == nil {
			return 0
		}
		return max(0, int(*c))
	}
	thoughts := count(u.Thoughts)
	return runtime.Usage{InputTokens: count(u.Prompt) + count(u.ToolUse), CachedTokens: count(u.Cached),
		OutputTokens: count(u.Candidates) + thoughts, ReasoningTokens: thoughts}.Clamped()
}

// finishes are the reasons why the model stopped.
var finishes = map[string]string{
	"STOP": runtime.FinishStop, "MAX_TOKENS": runtime.FinishLength, "CONTINUATION": runtime.FinishLength,
	"SAFETY": runtime.FinishFilter, "RECITATION": runtime.FinishFilter, "LANGUAGE": runtime.FinishFilter,
	"BLOCKLIST": runtime.FinishFilter, "PROHIBITED_CONTENT": runtime.FinishFilter, "SPII": runtime.FinishFilter,
	"IMAGE_SAFETY": runtime.FinishFilter, "IMAGE_PROHIBITED_CONTENT": runtime.FinishFilter,
	"IMAGE_RECITATION": runtime.FinishFilter,
}

// failures are the reasons why an answer cannot be used, and whether the model may do better next time.
var failures = map[string]retry.Reason{
	"MALFORMED_FUNCTION_CALL": retry.ServerError, "UNEXPECTED_TOOL_CALL": retry.ServerError,
	"MALFORMED_RESPONSE": retry.ServerError, "TOO_MANY_TOOL_CALLS": "", "MISSING_THOUGHT_SIGNATURE": "",
}

// unusable is the failure of an answer that came whole and cannot be used. nil: it can be.
func (m *Model) unusable(ctx context.Context, path string, r *reply) error {
	reason, fails := failures[r.finish]
	switch {
	case fails:
		err := fmt.Errorf("the model's answer broke off with %s", r.finish)
		if said := m.client.Quote(ctx, r.message); said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return m.client.Broken(reason, path, err)
	case r.parts != nil || r.finish != "":
		return nil
	case r.blocked != "":
		return m.client.Broken("", path, &runtime.Error{Category: runtime.CategoryModel, Code: "model.filtered",
			Err: fmt.Errorf("the provider blocked the prompt: %s", m.client.Quote(ctx, r.blocked))})
	}
	return m.client.Broken(retry.Unknown, path, errors.New("the answer has no content"))
}

// readWhole reads an answer that is one piece, or a list of pieces, which gateways make of a stream.
func (m *Model) readWhole(ctx context.Context, path string, in io.Reader, r *reply) error {
	answer, err := m.client.ReadAll(in, path)
	if err != nil {
		return err
	}
	pieces := []json.RawMessage{answer}
	if bytes.HasPrefix(answer, []byte("[")) {
		if err := m.client.Decode(ctx, path, answer, &pieces); err != nil {
			return err
		}
	}
	for _, data := range pieces {
		var c chunk
		if err := m.client.Decode(ctx, path, data, &c); err != nil {
			return err
		}
		r.add(&c, data, nil)
	}
	return nil
}

// partBytes is what a part counts against MaxBytes besides its text, so that there are not too many of them.
const partBytes = 1 << 10

// readStream puts the answer together from events, and hands on its text as it comes. An answer is whole when it has a
// reason why it ended, or why there is none; counts may follow.
func (m *Model) readStream(ctx context.Context, path string, in *bufio.Reader, r *reply, shown *endpoint.Shown) error {
	size := 0
	finished := func() bool { return r.finish != "" || r.blocked != "" }
	return m.client.ReadEvents(ctx, path, in, finished, func(data []byte) error {
		var c chunk
		if err := m.client.Decode(ctx, path, data, &c); err != nil {
			return err
		}
		before := len(r.parts)
		r.add(&c, data, shown)
		for i := range c.Candidates {
			for _, s := range c.Candidates[i].Content.Parts {
				size += s.size()
			}
		}
		if size += (len(r.parts) - before) * partBytes; int64(size) > m.client.MaxBytes() {
			return m.client.TooLarge(path)
		}
		return nil
	})
}

// response makes the response of an answer. names has the tools that were offered, by what they are on the wire.
func (m *Model) response(r *reply, req *runtime.Request, names map[string]string) *runtime.Response {
	resp := &runtime.Response{Usage: r.usage.used(), Finish: finishes[r.finish], Model: r.model}
	ids := map[string]bool{}
	var order []kept
	opaque := false
	for _, s := range r.parts {
		opaque = opaque || s.Signature != ""
		switch {
		case s.Call != nil:
			resp.ToolCalls = append(resp.ToolCalls, callOf(s, req, ids, names))
			order = append(order, kept{Call: true, Signature: s.Signature})
		case s.Text == nil || s.Thought:
			order, opaque = append(order, kept{Part: s.asItCame()}), true
		default:
			resp.Text += string(s.text)
			order = append(order, kept{Text: len(s.text), Signature: s.Signature})
		}
	}
	if data, err := json.Marshal(order); opaque && err == nil {
		resp.Parts = []runtime.Part{{Of: m.self(), Name: orderPart, Data: data}}
	}
	if resp.ToolCalls != nil && (resp.Finish == runtime.FinishStop || r.finish == "") {
		resp.Finish = runtime.FinishCalls
	}
	return resp
}

// callOf is a call. It gets an id if the API gives none, as old models do, or one that another call has.
func callOf(s *said, req *runtime.Request, ids map[string]bool, names map[string]string) runtime.ToolCall {
	args := s.Call.Args
	if string(args) == "null" {
		args = nil
	}
	call := runtime.ToolCall{ID: s.Call.ID, Name: s.Call.Name, Arguments: endpoint.Arguments(args)}
	if name, offered := names[s.Call.Name]; offered { // or else made up: the one who calls the tools knows what to say
		call.Name = name
	}
	for n := len(ids) + 1; call.ID == "" || ids[call.ID]; n++ {
		call.ID = fmt.Sprintf("call_%d_%d", req.StepCall, n)
	}
	ids[call.ID] = true
	return call
}
