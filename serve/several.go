package serve

import (
	"context"
	"errors"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// several is what one stream is about.
type several struct {
	Runs  []place `json:"runs,omitempty" maxItems:"1000" doc:"The runs whose events come."`
	List  bool    `json:"list,omitempty" doc:"Tell which runs of the list have changed."`
	Inbox bool    `json:"inbox,omitempty" doc:"Tell when the pending pauses of a run may have changed."`
}

// place is where the events of a run begin.
type place struct {
	ID    string `json:"id" doc:"Of the run."`
	After int64  `json:"after,omitempty" min:"0" doc:"The number of the last event that came."`
}

// piece is one event of a run, or a piece of an answer, in a stream about several.
type piece struct {
	RunID string  `json:"runId"`
	Event rawJSON `json:"event"`
}

// rawJSON is JSON as it stands.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// touched is a run whose pauses may have changed.
type touched struct {
	RunID  string `json:"runId"`
	Pauses int    `json:"pauses"`
}

// streamSeveral answers POST /stream: the events of several runs, and changes of the lists, in one connection.
func (c *call) streamSeveral() error {
	var in several
	if err := c.body(&in); err != nil {
		return err
	}
	if len(in.Runs) == 0 && !in.List && !in.Inbox {
		return malformed("request.body", "the stream is about nothing\n  hint: name runs, list or inbox")
	}
	named := map[string]bool{}
	for i, p := range in.Runs {
		switch {
		case !isID(p.ID):
			return notID(p.ID)
		case named[p.ID]:
			return malformed("request.body", "/runs/%d: run %q is named twice\n  hint: name each run once", i, p.ID)
		}
		named[p.ID] = true
	}
	s, err := c.openStream()
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := context.WithCancel(c.r.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	sent := make(chan func(), 64) // what adds to the stream, in the order in which it happened
	say := func(f func()) bool {
		select {
		case sent <- f:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for _, p := range in.Runs {
		all.Go(func() {
			if !s.follow(ctx, p, say) {
				cancel() // the viewer connects again, and learns why then
			}
		})
	}
	if in.List || in.Inbox {
		all.Go(func() { s.overview(ctx, in, say) })
	}
	s.begin()
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	for s.err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-c.Drain:
			s.say("bye", 0, node{})
			s.flush()
			return nil
		case f := <-sent:
			for more := true; more; { // what is there goes out in one piece
				f()
				select {
				case f = <-sent:
				default:
					more = false
				}
			}
		case <-beat.C:
			s.buf = append(s.buf, ": \n\n"...)
		}
		s.flush()
	}
	return nil
}

// follow passes on the events of one run until it has ended. A run that the person does not see, or that there is
// not, ends at once: it must not keep the others from the viewer. It returns false if the run cannot be read.
func (s *stream) follow(ctx context.Context, p place, say func(func()) bool) bool {
	lost := func() bool { return say(func() { s.say("end", 0, over{p.ID, ""}) }) }
	switch _, _, err := s.load(p.ID, math.MaxInt64); {
	case err != nil && problemOf(err).status == http.StatusNotFound:
		return lost()
	case err != nil:
		return false
	}
	f := s.hub.view(p.ID)
	defer s.hub.leave(f)
	live, hush := f.listen()
	defer hush()
	for after := p.After; ; {
		now := f.after(after)
		switch {
		case !now.ready:
		case errors.Is(now.failed, checkpoint.ErrNotFound), errors.Is(now.failed, checkpoint.ErrCorrupt):
			return lost()
		case now.failed != nil:
			return false
		default:
			if now.behind || after > now.last {
				say(func() { s.say("reset", 0, reset{p.ID, now.last}) })
			}
			for _, line := range now.lines {
				say(func() { s.say("", 0, piece{p.ID, line}) })
			}
			if after = now.last; now.ended {
				return say(func() { s.say("end", 0, over{p.ID, now.phase}) })
			}
		}
		select {
		case <-ctx.Done():
			return true
		case <-now.more:
		case line := <-live:
			say(func() { s.say("", 0, piece{p.ID, line}) })
		}
	}
}

// overviewTime is how long changes of the lists are gathered.
const overviewTime = 100 * time.Millisecond

// overview tells which runs have changed, as far as the person sees them.
func (s *stream) overview(ctx context.Context, in several, say func(func()) bool) {
	var mu sync.Mutex
	changed, wake := map[string]bool{"": true}, make(chan struct{}, 1) // what was before is not known to the viewer
	poke(wake)
	defer s.hub.wait("", func(run string) {
		mu.Lock()
		defer mu.Unlock()
		if len(changed) > maxCount { // too many to tell one by one
			clear(changed)
			run = ""
		}
		changed[run] = true
		poke(wake)
	})()
	known := map[string]int{} // how many pauses a run had when it was told of
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(overviewTime):
		}
		mu.Lock()
		now := changed
		changed = map[string]bool{}
		mu.Unlock()
		if now[""] {
			say(func() { s.say("lists", 0, node{}) })
			continue
		}
		for run := range now {
			s.change(ctx, run, in, known, say)
		}
	}
}

// change tells of one run. One that was deleted, or cannot be read, is none to tell of.
func (s *stream) change(ctx context.Context, id string, in several, known map[string]int, say func(func()) bool) {
	sum, _, err := s.store.Load(ctx, id, math.MaxInt64)
	if err != nil {
		say(func() { s.say("lists", 0, node{}) })
		return
	}
	if !s.who.sees(sum.Recipe) {
		return
	}
	r := runOf(sum)
	if in.List {
		r.Now = s.now(ctx, sum)
		say(func() { s.say("run", 0, r) })
	}
	if before, told := known[id]; in.Inbox && (r.Pauses > 0 || before > 0 || !told) {
		if len(known) > maxBehind {
			clear(known)
		}
		known[id] = r.Pauses
		say(func() { s.say("inbox", 0, touched{id, r.Pauses}) })
	}
}
