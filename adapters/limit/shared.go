package limit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Share has a model that New has made share its limits with other processes that have the same store: those whose
// model has the same name, and is the same of the same provider. The first store that a model is shared over stays. Of
// a model without limits nothing changes.
//
// The clocks of the processes should agree to a second: a request counts for so much longer or shorter elsewhere.
func Share(m runtime.Model, store checkpoint.Documents, name string) {
	if limited, ok := m.(interface {
		share(store checkpoint.Documents, name string)
	}); ok {
		limited.share(store, name)
	}
}

func (m model) share(store checkpoint.Documents, name string) {
	l := m.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared != nil { // as for each run but the first
		return
	}
	if described, ok := m.asked.(runtime.Described); ok {
		about := described.Metadata()
		name = fmt.Sprintf("%s %s %s", name, about.Provider, about.Model)
	}
	l.shared = &shared{Limits: l.Limits, store: guard.Documented(store), name: name, process: checkpoint.NewOwner()}
}

// collection is where the stores keep what counts toward limits: a document for each model.
const collection = "limits"

// How often a process looks whether others have given something back, and how long its calls count after it has last
// said that they are under way: it may have died.
const (
	lookEvery = 250 * time.Millisecond
	aliveFor  = time.Minute
	aliveTell = aliveFor / 3
)

// shared has the calls of one model in this process that have their turn here, and are to have it in the store. While
// there are some, one goroutine writes to the store for all of them.
//
//	enter ─▶ queue ──▶ busy ──▶ ended ──▶ (the store has it)
//	           │                  ▲
//	           └──────────────────┘ it was given up meanwhile
type shared struct {
	Limits
	store   checkpoint.Documents
	name    string // of the document
	process string // as the owner of calls; this model in another Runtime of the process is another one

	mu      sync.Mutex
	queue   []*place      // that wait, in the order in which they came
	busy    int           // calls under way, as the store has them once all that ended are told
	ended   []change      // that the store does not know yet
	known   chan struct{} // closed once it does; nil: none ended
	said    time.Time     // when the goroutine last wrote
	working bool          // there is one
	wake    chan struct{} // of the goroutine; has room for one
}

// place is one call.
type place struct {
	tokens int64
	second int64        // of the time at which it was sent; 0: it waits
	told   bool         // what it waits for
	turn   chan error   // has room for one: nil once it may be sent
	waits  chan waiting // has room for one
	gone   bool         // it was given up
}

// enter waits for the turn of a call, until ctx is done.
func (s *shared) enter(ctx context.Context, model string, tokens int64) (*place, error) {
	p := &place{tokens: tokens, turn: make(chan error, 1), waits: make(chan waiting, 1)}
	s.mu.Lock()
	s.queue = append(s.queue, p)
	s.work()
	s.mu.Unlock()
	w := wait{model: model}
	for {
		select {
		case err := <-p.turn:
			if err != nil {
				err = fmt.Errorf("model %q was not asked: its limits are unknown: %w", model, err)
				return nil, &retry.Failure{Err: err}
			}
			w.ends(ctx)
			return p, nil
		case waits := <-p.waits:
			w.begins(ctx, waits)
		case <-ctx.Done():
			s.leave(p)
			return nil, w.failed(ctx)
		}
	}
}

// leave takes a call back that has not been sent, and never will be.
func (s *shared) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.gone = true; p.second != 0 {
		s.unsent(p)
	}
}

// unsent ends a call that was not sent: it counts for nothing.
func (s *shared) unsent(p *place) { s.over(change{p.second, -1, -p.tokens}) }

// end ends a call that has used so many tokens; 0: as many as it might have. It returns once the store has it, as
// the process may end then.
func (s *shared) end(p *place, used int64, unsent bool) {
	s.mu.Lock()
	switch {
	case unsent:
		s.unsent(p)
	case used > 0:
		s.over(change{p.second, 0, used - p.tokens})
	default:
		s.over(change{Second: p.second})
	}
	known := s.known
	s.mu.Unlock()
	<-known
}

func (s *shared) over(c change) {
	s.busy--
	s.ended = append(s.ended, c)
	if s.known == nil {
		s.known = make(chan struct{})
	}
	s.work()
}

// work wakes the goroutine, or starts it.
func (s *shared) work() {
	if s.working {
		select {
		case s.wake <- struct{}{}:
		default:
		}
		return
	}
	s.working, s.wake = true, make(chan struct{}, 1)
	go s.tell()
}

// tell writes to the store what has changed, until there is nothing more to come.
func (s *shared) tell() {
	for {
		again, done := s.round()
		if done {
			return
		}
		timer := time.NewTimer(again)
		select {
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// round gives the calls that wait their turn, as far as the limits allow, once the store has that they count. It says
// when to look again, if nothing happens before, and whether there is nothing more to come. When the store fails, the
// calls that wait fail; what was to be told counts until it is too old.
func (s *shared) round() (again time.Duration, done bool) {
	var r round
	err := checkpoint.ErrConflict
	for errors.Is(err, checkpoint.ErrConflict) { // another process was quicker
		err = s.try(&r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range r.known {
		close(known)
	}
	s.ended = s.ended[r.ended:]
	begun := s.queue[:r.turns]
	if err != nil {
		begun = s.queue
	}
	s.queue = s.queue[len(begun):]
	for _, p := range begun {
		if err != nil {
			p.turn <- err
			continue
		}
		s.busy++
		p.second = r.now.Unix()
		if p.gone {
			s.unsent(p)
		} else {
			p.turn <- nil
		}
	}
	s.queue = slices.DeleteFunc(s.queue, func(p *place) bool { return p.gone })
	for i, p := range s.queue {
		if again = lookEvery; !p.told {
			p.told = true
			p.waits <- waiting{r.limit, i}
		}
	}
	s.working = len(s.queue) > 0 || s.busy > 0 || len(s.ended) > 0
	return cmp.Or(again, aliveTell), !s.working
}

// round is what one write tells the store.
type round struct {
	now          time.Time
	ended, turns int             // how many calls, the first ones of their lists
	known        []chan struct{} // closed then
	limit        string          // that the next call waits for; "": none waits
}

// try tells the store, if there is something to tell.
func (s *shared) try(r *round) error {
	ctx := context.Background()
	text, there, err := s.store.Document(ctx, collection, s.name)
	old := &text
	if !there {
		old = nil
	}
	r.now = time.Now()
	t := read(text, r.now)
	s.mu.Lock()
	r.ended, r.turns, r.limit = len(s.ended), 0, ""
	if s.known != nil {
		r.known, s.known = append(r.known, s.known), nil
	}
	for _, c := range s.ended {
		t.change(c)
	}
	for ; r.turns < len(s.queue); r.turns++ {
		tokens := s.queue[r.turns].tokens
		if r.limit = t.limit(s.Limits, s.process, s.busy+r.turns, tokens); r.limit != "" {
			break
		}
		t.change(change{r.now.Unix(), 1, tokens})
	}
	t.alive(s.process, s.busy+r.turns, r.now)
	quiet := r.ended+r.turns == 0 && (s.busy == 0 || r.now.Sub(s.said) < aliveTell)
	s.mu.Unlock()
	if quiet || err != nil {
		return err
	}
	next := t.text()
	if err = s.store.SwapDocument(ctx, collection, s.name, old, &next); err == nil {
		s.said = r.now
	}
	return err
}

// tally is what counts toward the limits of a model, in all processes. Seconds are of Unix time.
type tally struct {
	Seconds []change           `json:"seconds"` // the oldest first
	Busy    map[string]process `json:"busy"`
}

// change is what was sent in a second, or what is added to that.
type change struct {
	Second   int64 `json:"second"`
	Requests int64 `json:"requests"`
	Tokens   int64 `json:"tokens"`
}

// process has calls under way.
type process struct {
	Calls int       `json:"calls"`
	Until time.Time `json:"until"` // they count until then
}

// read reads a document, and leaves out what no longer counts. One that makes no sense counts for nothing.
func read(text string, now time.Time) (t tally) {
	_ = json.Unmarshal([]byte(text), &t)
	old := now.Unix() - int64(window/time.Second)
	t.Seconds = slices.DeleteFunc(t.Seconds, func(c change) bool { return c.Second < old })
	maps.DeleteFunc(t.Busy, func(name string, p process) bool {
		return !p.Until.After(now) || checkpoint.OwnerGone(name)
	})
	return t
}

func (t *tally) text() string {
	text, _ := json.Marshal(t) // cannot fail
	return string(text)
}

// change adds to a second, if that still counts.
func (t *tally) change(c change) {
	i, ok := slices.BinarySearchFunc(t.Seconds, c, func(a, b change) int { return cmp.Compare(a.Second, b.Second) })
	switch {
	case ok:
		t.Seconds[i].Requests += c.Requests
		t.Seconds[i].Tokens += c.Tokens
	case c.Requests > 0:
		t.Seconds = slices.Insert(t.Seconds, i, c)
	}
}

// alive says how many calls a process has under way.
func (t *tally) alive(name string, calls int, now time.Time) {
	delete(t.Busy, name)
	if calls == 0 {
		return
	}
	if t.Busy == nil {
		t.Busy = map[string]process{}
	}
	t.Busy[name] = process{calls, now.Add(aliveFor).UTC()}
}

// limit returns the limit that keeps a process with so many calls under way from sending one more; "": none does.
func (t *tally) limit(l Limits, name string, calls int, tokens int64) string {
	busy := calls
	for other, p := range t.Busy {
		if other != name {
			busy += p.Calls
		}
	}
	var sum change
	for _, c := range t.Seconds {
		sum.Requests += c.Requests
		sum.Tokens += c.Tokens
	}
	return l.over(busy, int(sum.Requests), sum.Tokens, tokens)
}
