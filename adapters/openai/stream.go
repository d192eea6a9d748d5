package openai

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"

	"github.com/braise-run/braise/internal/endpoint"
)

// callBytes is what a tool call counts against MaxBytes besides its text, so that there are not too
// many of them.
const callBytes = 1 << 10

// readStream puts the answer together from events, and hands on its text as it comes. An answer is
// whole when [DONE] says so, or when it has a finish_reason: what may be missing then is the count
// of tokens.
func (m *Model) readStream(ctx context.Context, in *bufio.Reader, r *reply, shown *endpoint.Shown) error {
	a := assembly{reply: r}
	return m.client.ReadEvents(ctx, chatPath, in, a.finished, func(data []byte) error {
		return m.readEvent(ctx, &a, data, shown)
	})
}

// readEvent adds an event to the answer, or returns the error that it tells of.
func (m *Model) readEvent(ctx context.Context, a *assembly, data []byte, shown *endpoint.Shown) error {
	var piece reply
	if err := m.decode(ctx, data, &piece); err != nil {
		return err
	}
	if piece.body != nil {
		a.reply.body = piece.body
	}
	text := a.add(&piece)
	if a.size > m.client.MaxBytes() {
		return m.client.TooLarge(chatPath)
	}
	if c := a.reply.Choices; len(c) > 0 && endpoint.IsSet(c[0].Error) {
		return m.client.FaultIn(ctx, chatPath, c[0].Error)
	}
	shown.Think(piece.thinking())
	for _, name := range a.called {
		shown.Call(name)
	}
	a.called = nil
	shown.Add(string(text))
	return nil
}

// thinking is what a piece of an answer has of the model's thinking, as many endpoints name it. "": nothing.
func (r *reply) thinking() string {
	if len(r.Choices) == 0 || r.Choices[0].Delta == nil {
		return ""
	}
	of := r.Choices[0].Delta.extras
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if of[name] == nil {
			continue
		}
		var text string
		if json.Unmarshal(of[name], &text) == nil && text != "" { // or it is no text
			return text
		}
	}
	return ""
}

// decode reads an answer, or a piece of one.
func (m *Model) decode(ctx context.Context, body []byte, r *reply) error {
	if err := m.client.Decode(ctx, chatPath, body, r); err != nil {
		return err
	}
	if r.readExtras(body); len(r.Choices) == 0 {
		r.body = body
	}
	return nil
}

// assembly is an answer that arrives in pieces.
type assembly struct {
	reply *reply
	size  int64 // bytes written; what is copied again counts again
	shown int   // bytes of the text that were handed on

	called []string // tools of calls whose arguments began in this piece
}

func (a *assembly) finished() bool {
	return len(a.reply.Choices) > 0 && a.reply.Choices[0].FinishReason != ""
}

// add adds a piece and returns the text that it brings. Of the counts of tokens the last stands.
func (a *assembly) add(piece *reply) text {
	if piece.Usage != nil {
		a.reply.Usage = piece.Usage
	}
	if model, _ := piece.Model.(string); model != "" && a.reply.Model == nil {
		a.reply.Model = model
	}
	if len(piece.Choices) == 0 {
		return nil
	}
	if a.reply.Choices == nil {
		a.reply.Choices = []choice{{Message: &said{}}}
	}
	from, to := &piece.Choices[0], &a.reply.Choices[0]
	if from.FinishReason != "" {
		to.FinishReason = from.FinishReason
	}
	to.Error, to.Usage = from.Error, cmp.Or(from.Usage, to.Usage)
	delta := from.Delta
	if delta == nil && len(to.Message.Content) == 0 && len(to.Message.ToolCalls) == 0 {
		delta = from.Message // all of it in one event
	}
	if delta == nil {
		return nil
	}
	a.size += to.Message.addExtras(delta)
	to.Message.Content = withPiece(to.Message.Content, delta.Content)
	to.Message.Refusal = append(to.Message.Refusal, delta.Refusal...)
	a.size += int64(len(delta.Content) + len(delta.Refusal))
	for i := range delta.ToolCalls {
		a.addCall(to.Message, &delta.ToolCalls[i])
	}
	return a.fresh(to.Message.Content)
}

// fresh is what of a text was not handed on yet, but for half a character at its end.
func (a *assembly) fresh(all text) text {
	if half := max(a.shown, len(all)-halfBytes); halfIn(all[half:]) != 0 {
		all = all[:half]
	}
	news := all[a.shown:]
	a.shown = len(all)
	return withoutHalves(news)
}

// addCall adds a piece of a tool call to the call that it belongs to, or begins another one.
func (a *assembly) addCall(to *said, piece *call) {
	from := &piece.Function
	c := find(to.ToolCalls, piece)
	if c == nil {
		if piece.ID == "" && from.Name == "" && len(from.Arguments) == 0 {
			return
		}
		to.ToolCalls = append(to.ToolCalls, *piece)
		a.calls(piece)
		a.size += int64(callBytes + len(piece.ID) + len(from.Name) + len(from.Arguments))
		return
	}
	// Ids and names are repeated by some, and come in pieces from others; not after the arguments
	// have begun.
	if len(c.Function.Arguments) == 0 {
		if c.ID != piece.ID && len(from.Arguments) == 0 {
			c.ID += piece.ID
		}
		if c.Function.Name != from.Name {
			c.Function.Name += from.Name
		}
		a.size += int64(len(c.ID) + len(c.Function.Name))
	}
	a.size += c.extras.add(piece.extras)
	begins := len(c.Function.Arguments) == 0
	if c.Function.Arguments = withPiece(c.Function.Arguments, from.Arguments); begins {
		a.calls(c)
	}
	a.size += int64(len(from.Arguments))
}

// calls notes that the arguments of a call have begun, and so its name is whole.
func (a *assembly) calls(c *call) {
	if len(c.Function.Arguments) > 0 {
		a.called = append(a.called, c.Function.Name)
	}
}

// find returns the call that a piece belongs to: the last with its index, or else its id, or else
// the last. nil when the piece begins a call, which some show by no more than a name. A piece that
// has a new index but no name continues the last call, unless the arguments of that are complete.
func find(calls []call, piece *call) *call {
	for i := len(calls) - 1; i >= 0; i-- {
		c := &calls[i]
		switch {
		case piece.Index != nil && (c.Index == nil || *c.Index != *piece.Index):
			continue
		case piece.Index == nil && piece.ID != "" && c.ID != piece.ID:
			continue
		case piece.Function.Name == "" || piece.ID != "" && piece.ID == c.ID:
			return c
		case piece.Function.Name == c.Function.Name && piece.ID == "" && len(c.Function.Arguments) > 0 &&
			!json.Valid(c.Function.Arguments): // the name is in each piece
			return c
		case len(c.Function.Arguments) > 0, piece.Index == nil && c.Function.Name != "",
			piece.ID != "" && c.ID != "" && c.Function.Name != "": // two calls share an index
			return nil
		}
		return c
	}
	if n := len(calls) - 1; n >= 0 && piece.Function.Name == "" && piece.Index != nil &&
		(piece.ID == "" || piece.ID == calls[n].ID) && !json.Valid(calls[n].Function.Arguments) {
		return &calls[n]
	}
	return nil
}
