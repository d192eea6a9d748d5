package worker

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/resume"
)

// sender is a notifier at work.
type sender struct {
	*Notifier
	store   storage
	pending map[string]*message // by id
	told    map[string]bool     // ids of messages about pauses that were seen in this look or the one before
	sent    chan *message
	wake    chan struct{}
	flying  int
}

// How messages are sent: so many at a time, and how long the intervals between the attempts at one are.
const (
	sendMost  = 16
	sendFirst = 5 * time.Second
	sendLast  = 24 * time.Hour
	lookAgain = 30 * time.Second // for pauses, though nothing has changed
	lookLeast = 200 * time.Millisecond
)

// work looks for pauses and sends messages until ctx ends.
func (s *sender) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { s.watch(ctx) })
	look := time.NewTimer(0)
	defer look.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			for ; s.flying > 0; s.flying-- {
				s.done(ctx, <-s.sent)
			}
			return nil
		case <-s.wake:
			look.Reset(lookLeast)
		case <-look.C:
			if err := s.look(ctx); err != nil && ctx.Err() == nil {
				s.warn("pauses cannot be listed: nobody is notified of them", err)
			}
			look.Reset(lookAgain)
		case m := <-s.sent:
			s.flying--
			s.done(ctx, m)
		case <-next.C:
		}
		next.Reset(s.send(ctx))
	}
}

// watch has the sender look again when the store has changed.
func (s *sender) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.store.Watch(ctx, func(string) { s.nudge() })
		if errors.Is(err, checkpoint.ErrClosed) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}

// look finds the pauses that nobody was told of, and forgets messages about others.
func (s *sender) look(ctx context.Context) error {
	s.takeEnds(ctx)
	now, seen := execution.Now(ctx, s.Store), map[string]bool{}
	for f := (checkpoint.PauseFilter{Limit: page}); ; {
		infos, err := s.store.Pauses(ctx, f)
		for i := range infos {
			s.consider(ctx, &infos[i], now, seen)
		}
		if err != nil && len(infos) == 0 {
			return err
		}
		if len(infos) < page {
			break
		}
		last := &infos[page-1]
		f.After = checkpoint.Cursor{At: last.Opened.At, RunID: last.Summary.ID, Pause: last.Pause.ID}
	}
	s.told = seen
	for id, m := range s.pending {
		if m.pause != "" && !seen[id] && !m.sending { // it is over
			delete(s.pending, id)
		}
	}
	return nil
}

// takeEnds takes what others have said of ends.
func (s *sender) takeEnds(ctx context.Context) {
	s.mu.Lock()
	ends, over := s.ends, s.over
	s.ends, s.over = nil, nil
	s.mu.Unlock()
	for _, runID := range over {
		sum, _, err := s.store.Load(ctx, runID, math.MaxInt64)
		if err == nil && !sum.Status.Ended() { // it was interrupted, or refused
			ends = slices.DeleteFunc(ends, func(m *message) bool { return m.run == runID })
			continue
		}
		if err = s.store.DeleteDocuments(ctx, marks(runID)); err != nil && ctx.Err() == nil {
			s.warn("the marks of the pauses of a run stay in the store", err)
		}
	}
	for _, m := range ends {
		s.pending[m.id] = m
	}
}

// The events of a pause, which are the types of its messages.
const (
	paused   = "run.paused"
	reminder = "run.reminder"
)

// onlyWaits reports whether a pause only waits for a time: that at which it is due.
func onlyWaits(kind resume.Kind, due, expires time.Time) bool {
	return kind == resume.System && !due.IsZero() && expires.IsZero()
}

// consider adds the messages about a pause.
func (s *sender) consider(ctx context.Context, info *checkpoint.PauseInfo, now time.Time, seen map[string]bool) {
	p := &info.Pause
	if onlyWaits(resume.Kind(p.Kind), p.DueAt, p.ExpiresAt) {
		return
	}
	for i := range s.Targets {
		t := &s.Targets[i]
		if !t.wants("paused", info.Summary.Recipe) {
			continue
		}
		about := func(event string, at time.Time) *message {
			return newMessage(t, event, at, nil, info.Summary.ID, p.ID)
		}
		s.add(ctx, about(paused, info.Opened.At), info, seen)
		at := p.ExpiresAt.Add(-t.Remind)
		if t.Remind > 0 && at.After(info.Opened.At) && now.Before(p.ExpiresAt) { // it does expire
			m := about(reminder, at)
			m.next = time.Now().Add(at.Sub(now))
			s.add(ctx, m, info, seen)
		}
	}
}

// add adds a message about a pause, unless its target was told.
func (s *sender) add(ctx context.Context, m *message, info *checkpoint.PauseInfo, seen map[string]bool) {
	if seen[m.id] = true; s.told[m.id] || s.pending[m.id] != nil {
		return
	}
	marked, err := s.marked(ctx, m)
	if err == nil && !marked {
		var p resume.Pause
		if p, err = resume.Opened(info.Opened); err == nil && p.InBatch() { // nobody is asked
			s.told[m.id] = true
			return
		}
		m.data = pauseData(m.run, info.Summary.Recipe, p)
	}
	switch {
	case err != nil:
		delete(seen, m.id)
		s.warn("nobody is notified of a pause of run "+m.run, err)
	case !marked:
		s.pending[m.id] = m
	}
}

// marks is the collection that has the marks of a run's pauses that were told of, by the id of the message.
func marks(runID string) string { return "braise.told." + runID }

func (s *sender) marked(ctx context.Context, m *message) (bool, error) {
	all, err := s.store.Documents(ctx, marks(m.run))
	return slices.ContainsFunc(all, func(d checkpoint.Document) bool { return d.Name == m.id }), err
}

// send sends the messages that are due, and returns how long until the next one is.
func (s *sender) send(ctx context.Context) time.Duration {
	now, wait := time.Now(), time.Hour
	for id, m := range s.pending {
		switch {
		case m.sending:
		case !m.until.IsZero() && now.After(m.until):
			delete(s.pending, id)
		case m.next.After(now):
			wait = min(wait, m.next.Sub(now))
		case s.flying < sendMost:
			m.sending = true
			s.flying++
			go func() {
				m.err = s.deliver(ctx, m)
				s.sent <- m
			}()
		}
	}
	return wait
}

// done takes a message that was sent, or not.
func (s *sender) done(ctx context.Context, m *message) {
	m.sending = false
	if m.err != nil && ctx.Err() != nil {
		return
	}
	if m.err != nil {
		m.tries++
		m.next = time.Now().Add(min(sendFirst<<min(m.tries-1, 20), sendLast))
		s.mu.Lock()
		s.failed++
		s.mu.Unlock()
		if m.tries == 1 {
			s.warn("a message was not accepted, and is sent again: "+m.target.name(), m.err)
		}
		return
	}
	delete(s.pending, m.id)
	if m.pause == "" {
		return
	}
	s.told[m.id] = true
	s.mark(ctx, m)
}

// mark notes that a target was told of a pause.
func (s *sender) mark(ctx context.Context, m *message) {
	err := s.store.PutDocument(context.WithoutCancel(ctx), marks(m.run), checkpoint.Document{Name: m.id,
		Text: time.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		s.warn("it is not noted that a message was accepted: it may come twice", err)
	}
}
