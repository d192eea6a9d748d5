package openai

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// callBytes is what a tool call counts against MaxBytes besides its text, so that there are not too
// many of them.
const callBytes = 1 << 10

// isStream reports whether in has events, and not the whole answer or a page, which gateways send
// instead. It skips a byte order mark and white space, which are allowed before any of them.
func isStream(in *bufio.Reader) bool {
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		in.Discard(3)
	}
	for {
		c, err := in.ReadByte()
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		if err != nil { // comes again when the answer is read
			return false
		}
		in.UnreadByte()
		return c != '{' && c != '[' && c != '<'
	}
}

// readStream puts the answer together from events, and hands on its text as it comes. An answer is
// whole when [DONE] says so, or when it has a finish_reason: what may be missing then is the count
// of tokens.
func (m *Model) readStream(ctx context.Context, in *bufio.Reader, r *reply, emit func(runtime.Delta)) error {
	events := eventReader{in: in, max: m.opts.MaxBytes}
	a := assembly{reply: r}
	for seen := false; ; {
		e, end := events.next()
		data := bytes.TrimSpace(e.data)
		switch {
		case string(data) == "[DONE]":
			return nil
		case len(data) == 0, data[0] == ':': // nothing, or a comment that a gateway has made an event of
		case end != nil && e.name != "error" && !json.Valid(data): // half of something
		default:
			seen = true
			if err := m.readEvent(ctx, &a, e.name, data, emit); err != nil {
				return err
			}
		}
		switch {
		case end == nil:
		case errors.Is(end, errTooLarge):
			return m.tooLarge(chatPath)
		case a.finished() && ctx.Err() == nil:
			return nil
		case end != io.EOF:
			return end
		case !seen && events.odd != "":
			return m.broken(retry.Unknown, chatPath,
				fmt.Errorf("the answer is neither JSON nor a stream of events: %s", m.quote(ctx, events.odd)))
		default:
			return fmt.Errorf("the stream was cut: %w", io.ErrUnexpectedEOF)
		}
	}
}

// readEvent adds an event to the answer, or returns the error that it tells of.
func (m *Model) readEvent(ctx context.Context, a *assembly, name string, data []byte, emit func(runtime.Delta)) error {
	if name == "error" && readFault(data) == nil {
		return m.fault(ctx, chatPath, faultOf(data))
	}
	var piece reply
	if err := m.decode(ctx, chatPath, data, &piece); err != nil {
		return err
	}
	if piece.body != nil {
		a.reply.body = piece.body
	}
	text := a.add(&piece)
	if a.size > m.opts.MaxBytes {
		return m.tooLarge(chatPath)
	}
	if c := a.reply.Choices; len(c) > 0 && isSet(c[0].Error) {
		return m.fault(ctx, chatPath, faultOf(c[0].Error))
	}
	if len(text) > 0 {
		emit(runtime.Delta{Text: string(text)})
	}
	return nil
}

// assembly is an answer that arrives in pieces.
type assembly struct {
	reply *reply
	size  int64 // bytes written; what is copied again counts again
	shown int   // bytes of the text that were handed on
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
	to.Error = from.Error
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
	c.Function.Arguments = withPiece(c.Function.Arguments, from.Arguments)
	a.size += int64(len(from.Arguments))
}

// find returns the call that a piece belongs to: the last with its index, or else its id, or else
// the last. nil when the piece begins a call, which some show by no more than a name.
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
	return nil
}

// eventReader reads server-sent events, and what some servers make of them.
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
type eventReader struct {
	in    *bufio.Reader
	max   int64  // bytes of an event, and of a line
	buf   []byte // the line
	cr    bool   // the last line ended in a carriage return: a line feed may belong to it
	ahead []byte // data that was read already
	odd   string // the first line that is of no event
}

type event struct {
	name string
	data []byte
}

var errTooLarge = errors.New("the event is too large")

// next returns the next event. With an error it returns what there is of one.
func (r *eventReader) next() (event, error) {
	e := event{data: r.ahead}
	r.ahead = nil
	for {
		line, err := r.line()
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		if len(line) > 0 && line[0] == '{' { // an error that was forgotten to be put into an event
			field, value = []byte("data"), line
		}
		switch string(field) {
		case "event":
			e.name = string(value)
		case "error": // llama.cpp
			e.name = "error"
			fallthrough
		case "data":
			if endsObject(e.data) && (bytes.HasPrefix(value, []byte("{")) || bytes.HasPrefix(value, []byte("["))) {
				r.ahead = bytes.Clone(value) // no JSON goes on so: the empty line was forgotten
				return e, nil
			}
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		case "":
			if len(line) == 0 && err == nil { // not a comment
				return e, nil
			}
		case "id", "retry":
		default:
			r.odd = cmp.Or(r.odd, string(line))
		}
		if int64(len(e.data)) > r.max {
			err = errTooLarge
		}
		if err != nil {
			return e, err
		}
	}
}

func endsObject(data []byte) bool { return bytes.HasSuffix(bytes.TrimRight(data, " \t"), []byte("}")) }

// line returns the next line, which ends in a line feed, a carriage return or both. It is valid
// until the next call. With an error it is what there is of one.
func (r *eventReader) line() ([]byte, error) {
	r.buf = r.buf[:0]
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return r.buf, err
		}
		second := r.cr && c == '\n'
		r.cr = c == '\r'
		switch {
		case second:
		case c == '\n', c == '\r':
			return r.buf, nil
		case int64(len(r.buf)) >= r.max:
			return nil, errTooLarge
		default:
			r.buf = append(r.buf, c)
		}
	}
}
