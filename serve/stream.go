package serve

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// The times of streams.
const (
	beatTime    = 15 * time.Second // between signs of life
	patience    = 10 * time.Second // for a viewer that takes nothing
	streamRetry = 2000             // milliseconds after which a browser connects again
	streamsFull = 10 * time.Second // when to try again if there are too many streams
)

// stream writes server-sent events.
type stream struct {
	*call
	out *http.ResponseController
	buf []byte
	err error // of the connection
}

// open begins a stream, unless there are too many. The caller must close it.
func (c *call) openStream() (*stream, error) {
	if c.draining() {
		p := fail(http.StatusServiceUnavailable, "server.draining", "the server is about to end"+
			"\n  hint: send the request again")
		p.retry = storeRetry
		return nil, p
	}
	select {
	case c.room <- struct{}{}:
	default:
		p := fail(http.StatusTooManyRequests, "streams.full", "%d streams are open"+
			"\n  hint: close some, or watch several runs in one stream", cap(c.room))
		p.retry = streamsFull
		return nil, p
	}
	c.clock.Stop()
	return &stream{call: c, out: http.NewResponseController(c.w)}, nil
}

func (s *stream) close() { <-s.room }

// begin sends the headers.
func (s *stream) begin() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
	s.buf = append(s.buf, "retry: "+strconv.Itoa(streamRetry)+"\n\n"...)
	s.flush()
}

// add adds a message to what is sent next; kind "" is that of the events of a run, and an id of 0 is none.
func (s *stream) add(kind string, id int64, data []byte) {
	if id > 0 {
		s.buf = append(s.buf, "id: "...)
		s.buf = append(strconv.AppendInt(s.buf, id, 10), '\n')
	}
	if kind != "" {
		s.buf = append(s.buf, "event: "+kind+"\n"...)
	}
	s.buf = append(s.buf, "data: "...)
	s.buf = append(s.buf, data...) // JSON has no line breaks
	s.buf = append(s.buf, "\n\n"...)
	if len(s.buf) > 64<<10 {
		s.flush()
	}
}

// say adds a message of our own.
func (s *stream) say(kind string, id int64, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types encode
	}
	s.add(kind, id, data)
}

// flush sends what was added. A viewer that takes nothing is cut off.
func (s *stream) flush() {
	if s.err != nil || len(s.buf) == 0 {
		return
	}
	s.err = s.out.SetWriteDeadline(time.Now().Add(patience))
	if errors.Is(s.err, http.ErrNotSupported) {
		s.err = nil
	}
	if s.err == nil {
		_, s.err = s.w.Write(s.buf)
	}
	if s.err == nil {
		s.err = s.out.Flush()
	}
	s.buf = s.buf[:0]
}

// over is the last message about a run.
type over struct {
	RunID string           `json:"runId"`
	Phase checkpoint.Phase `json:"phase,omitempty" doc:"Without it, the run was deleted."`
}

// reset says that events are left out: the viewer reads the run again.
type reset struct {
	RunID string `json:"runId"`
	Next  int64  `json:"next" doc:"The number of the last event that is left out."`
}

// watch streams the events of one run. Numbers of events are those of the run, so that any server can resume the
// stream.
func (c *call) watch(runID string) error {
	for _, name := range []string{"limit", "step"} {
		if c.query.Has(name) {
			return malformed("request.parameter", "parameter %q is of a page of events, and not of a stream"+
				"\n  hint: leave it out, or the Accept: text/event-stream", name)
		}
	}
	after, err := c.lastSeen()
	if err != nil {
		return err
	}
	s, err := c.openStream()
	if err != nil {
		return err
	}
	defer s.close()
	f := c.hub.view(runID)
	defer c.hub.leave(f)
	live, hush := f.listen()
	defer hush()
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	for begun := false; s.err == nil; {
		p := f.after(after)
		switch {
		case !p.ready:
		case !begun && p.failed != nil:
			return p.failed
		case !begun && after > p.last:
			return malformed("request.parameter", "the run has no event %d\n  hint: its last is %d", after, p.last)
		default:
			if !begun {
				begun = true
				s.begin()
			}
			if after = s.events(runID, after, p); p.ended {
				s.say("end", 0, over{runID, phaseOf(p)})
				s.flush()
				return nil
			}
		}
		s.flush()
		select {
		case <-c.r.Context().Done():
			return nil
		case <-c.Drain:
			if begun {
				s.say("bye", 0, node{})
				s.flush()
			}
			return nil
		case <-p.more:
		case line := <-live:
			if begun {
				s.add("", 0, line)
			}
		case <-beat.C:
			if begun {
				s.buf = append(s.buf, ": \n\n"...)
			}
		}
	}
	return nil
}

func phaseOf(p part) checkpoint.Phase {
	if p.failed != nil {
		return ""
	}
	return p.phase
}

// events adds what a viewer has not seen, and returns the number of the last.
func (s *stream) events(runID string, after int64, p part) int64 {
	if p.behind {
		s.say("reset", p.last, reset{runID, p.last})
	}
	for i, line := range p.lines {
		s.add("", after+int64(i)+1, line)
	}
	return p.last
}

// lastSeen is the number of the last event that the viewer has, by header or parameter.
func (c *call) lastSeen() (int64, error) {
	text, _, err := c.header("Last-Event-ID")
	if err != nil {
		return 0, err
	}
	if text == "" {
		return int64(c.number("after", 0)), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strings.HasPrefix(text, "+") {
		return 0, malformed("request.parameter", "Last-Event-ID %.40q is not the number of an event"+
			"\n  hint: it is the id of the last event that came, or is left out", text)
	}
	return n, nil
}
