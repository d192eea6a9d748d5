package endpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/braise-run/braise/retry"
)

// Ask posts a request. Its answer goes to stream if it consists of events, whatever was asked for, else to whole.
func (c *Client) Ask(ctx context.Context, path string, body []byte, whole, stream func(*bufio.Reader) error) error {
	return c.Do(ctx, http.MethodPost, path, body, func(answer io.Reader) error {
		in := bufio.NewReader(answer)
		if isStream(in) {
			return stream(in)
		}
		return whole(in)
	})
}

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

// ReadEvents hands the data of each event to read, until the end of the stream. That is where finished says that the
// answer is whole, where [DONE] stands, or where read returns io.EOF. Events that tell of an error end it, too.
func (c *Client) ReadEvents(
	ctx context.Context, path string, in *bufio.Reader, finished func() bool, read func(data []byte) error,
) error {
	events := events{in: in, max: c.opts.MaxBytes}
	for seen := false; ; {
		e, end := events.next()
		data := bytes.TrimSpace(e.data)
		switch {
		case string(data) == "[DONE]":
			return nil
		case len(data) == 0, data[0] == ':': // nothing, or a comment that a gateway has made an event of
		case e.name == "error" && readFault(data) == nil:
			return c.FaultIn(ctx, path, data)
		case end != nil && !json.Valid(data): // half of something
		default:
			seen = true
			if err := read(data); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
		switch {
		case end == nil:
		case errors.Is(end, errTooLarge):
			return c.TooLarge(path)
		case finished() && ctx.Err() == nil:
			return nil
		case end != io.EOF:
			return end
		case !seen && events.odd != "":
			return c.Broken(retry.Unknown, path,
				fmt.Errorf("the answer is neither JSON nor a stream of events: %s", c.Quote(ctx, events.odd)))
		default:
			return fmt.Errorf("the stream was cut: %w", io.ErrUnexpectedEOF)
		}
	}
}

// events reads server-sent events, and what some servers make of them.
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
type events struct {
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
func (r *events) next() (event, error) {
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
func (r *events) line() ([]byte, error) {
	r.buf = r.buf[:0]
	for {
		if _, err := r.in.Peek(1); err != nil { // it waits only if nothing is there
			return r.buf, err
		}
		there, _ := r.in.Peek(r.in.Buffered())
		if second := r.cr && there[0] == '\n'; second {
			r.cr = false
			r.in.Discard(1)
			continue
		}
		end := lineEnd(there)
		if int64(len(r.buf)+end) > r.max {
			return nil, errTooLarge
		}
		r.buf = append(r.buf, there[:end]...)
		if r.cr = end < len(there) && there[end] == '\r'; end == len(there) {
			r.in.Discard(end)
			continue
		}
		r.in.Discard(end + 1)
		return r.buf, nil
	}
}

// lineEnd is where the first line feed or carriage return is; without one, the length.
func lineEnd(text []byte) int {
	if n := bytes.IndexByte(text, '\n'); n >= 0 {
		text = text[:n]
	}
	if n := bytes.IndexByte(text, '\r'); n >= 0 {
		return n
	}
	return len(text)
}
